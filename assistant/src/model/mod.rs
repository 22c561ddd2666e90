//! Models: asking any of several providers, and hearing the answer as one stream of events whatever they speak.
//! Knows nothing of sessions or of the Agent Client Protocol. `genai` carries the requests; `docs/models.md` says why.

mod answer;
mod catalog;
mod config;
mod discover;
mod error;
mod estimate;
mod event;
mod fault;
mod http_clients;
mod incoming;
mod names;
mod options;
mod outgoing;
mod partial_answer;
mod provider;
mod raw_frames;
mod relay;
mod request;
mod target;
mod unsupported;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use answer::ModelQuery;
use http_clients::HttpClients;
use incoming::ReplyReader;
use names::ToolNames;
use provider::Provider;
use raw_frames::RawFrames;

pub use answer::AnswerStream;
pub use config::{BadValue, Effort, ModelConfig, Price, ProviderConfig, ProviderKind};
pub use error::ModelError;
pub use event::{FinishReason, ModelEvent, Usage};
pub use request::{Image, Message, Part, Reply, Request, ToolCall, ToolDefinition, ToolResult, UserPart};
pub use rethread::secret::Secret;

/// How long things may take, and how often they are tried.
#[derive(Clone, Debug)]
pub struct ProviderLimits {
    /// How often a provider is asked again that gave no answer.
    pub retries: u32,
    /// The pause before the first time; it doubles.
    pub first_pause: Duration,
    /// The longest pause. A provider that wants a longer one is not waited for.
    pub longest_pause: Duration,
    /// How long a connection may take.
    pub connect: Duration,
    /// How long a provider may be silent, before its answer and within it.
    pub idle: Duration,
    /// How long listing a provider's models may take.
    pub listing: Duration,
}

impl Default for ProviderLimits {
    fn default() -> Self {
        Self {
            retries: 4,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            listing: Duration::from_secs(3),
        }
    }
}

/// A model that can be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The full id: `provider/model`.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The provider's name.
    pub provider: String,
    /// The most tokens of a request and its answer, if known.
    pub context_window: Option<u64>,
    /// The most tokens of an answer, if known.
    pub max_output: Option<u32>,
    /// What it costs, if known.
    pub price: Option<Price>,
    /// How much it can be told to think; empty if it cannot be told.
    pub efforts: Vec<Effort>,
    /// Whether a temperature is sent to it.
    pub takes_temperature: bool,
    /// The most tools that it is offered.
    pub max_tools: usize,
}

/// All providers together.
#[derive(Clone, Default)]
pub struct Models {
    providers: Arc<Vec<Arc<Provider>>>,
    limits: ProviderLimits,
    web: Arc<HttpClients>,
}

impl Models {
    /// Takes the providers as configured.
    ///
    /// # Errors
    ///
    /// If two have one name, or one has an unusable name or address.
    pub fn new(configs: Vec<ProviderConfig>) -> Result<Self, ModelError> {
        let mut names = HashSet::new();
        let mut providers = Vec::new();
        for config in configs.into_iter().map(ProviderConfig::at_its_best) {
            let address = config.checked()?;
            if !names.insert(config.name.clone()) {
                return Err(ModelError::Config { what: format!("two providers are called {}", config.name) });
            }
            providers.push(Arc::new(Provider::new(config, address)));
        }
        Ok(Self { providers: Arc::new(providers), ..Self::default() })
    }

    /// The same with every key forgotten, and nothing else.
    #[must_use]
    pub fn without_keys(&self) -> Self {
        let providers = self.providers.iter().map(|provider| Arc::new(provider.without_key())).collect();
        Self { providers: Arc::new(providers), ..self.clone() }
    }

    /// Takes over what the providers of an earlier configuration told, where they are still the same.
    #[must_use]
    pub fn with_state_of(self, earlier: &Self) -> Self {
        for provider in self.providers.iter() {
            let known = earlier.providers.iter().find(|known| known.config.name == provider.config.name);
            known.into_iter().for_each(|known| provider.copy_state(known));
        }
        self
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: ProviderLimits) -> Self {
        Self { limits, web: Arc::default(), ..self }
    }

    /// The providers as configured.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderConfig> {
        self.providers.iter().map(|provider| provider.config.as_ref())
    }

    /// The models that are known of now, in the order of the configuration.
    #[must_use]
    pub fn list(&self) -> Vec<Model> {
        let of = |provider: &Arc<Provider>| {
            let ids = provider.ids();
            ids.into_iter().map(|id| provider.model(&id)).collect::<Vec<_>>()
        };
        self.providers.iter().flat_map(of).collect()
    }

    /// The models to choose from where this one was chosen. It stays among them while its provider cannot say which it
    /// has, so that nobody else is asked in its place.
    #[must_use]
    pub fn offer(&self, chosen: Option<&str>) -> Vec<Model> {
        let mut models = self.list();
        let chosen = chosen.and_then(|id| self.split(id)).filter(|(provider, _)| provider.never_listed());
        let chosen = chosen.map(|(provider, id)| provider.model(id));
        if let Some(chosen) = chosen.filter(|chosen| !models.iter().any(|model| model.id == chosen.id)) {
            models.push(chosen);
        }
        models
    }

    /// Adds a model that its provider does not list. Says whether there is such a provider.
    pub fn add(&self, id: &str) -> bool {
        let Some((provider, model)) = self.split(id) else { return false };
        provider.add(model);
        true
    }

    /// Adds a model that was chosen before, unless its provider is asked for its models and so knows better.
    pub fn keep(&self, id: &str) {
        if self.split(id).is_some_and(|(provider, _)| !provider.must_be_asked()) {
            self.add(id);
        }
    }

    /// Why providers did not list their models, each in a line that names it and its address.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.providers.iter().filter_map(|provider| provider.failure()).collect()
    }

    /// The model of this full id. One that nobody listed may be there all the same.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Model> {
        let (provider, model) = self.split(id)?;
        Some(provider.model(model))
    }

    /// Asks a model. Nothing is sent before the answer is polled, and nothing after it is dropped.
    #[must_use]
    pub fn stream(&self, request: &Request) -> AnswerStream {
        match self.query(request) {
            Ok(query) => AnswerStream::to(query),
            Err(error) => AnswerStream::failed(error),
        }
    }

    fn query(&self, request: &Request) -> Result<ModelQuery, ModelError> {
        let Some((provider, id)) = self.split(&request.model) else {
            let said = "no provider of that name is configured".to_owned();
            return Err(ModelError::ModelUnknown { model: request.model.clone(), said });
        };
        let config = &provider.config;
        if config.lacks_key() {
            return Err(ModelError::Unauthorised {
                provider: config.name.clone(),
                status: None,
                key_place: config.key_place(),
                said: String::new(),
            });
        }
        let facts = provider.facts(id);
        let names = ToolNames::of(&request.tools);
        let frames = Arc::new(RawFrames::new(config.kind));
        Ok(ModelQuery {
            web: self.web.clone(),
            client: self.web.client(&provider.address, &self.limits)?,
            provider: provider.clone(),
            model: request.model.clone(),
            chat: outgoing::chat(request, config.kind, &names, &facts),
            options: options::options(request, config, &facts, &self.limits, frames.clone()),
            frames,
            reader: ReplyReader::new(request, names, facts),
            limits: self.limits.clone(),
        })
    }

    fn split<'a>(&self, id: &'a str) -> Option<(&Arc<Provider>, &'a str)> {
        let (name, model) = id.split_once('/')?;
        let provider = self.providers.iter().find(|provider| provider.config.name == name)?;
        (!model.is_empty()).then_some((provider, model))
    }
}

impl std::fmt::Debug for Models {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.providers()).finish()
    }
}
