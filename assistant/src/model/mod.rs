//! Requests to models of several providers, with the answers as one kind of event stream. Knows nothing of sessions or of
//! the Agent Client Protocol. `genai` speaks the protocols of the providers; `docs/models.md` says why.

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

/// Time limits and retries for providers.
#[derive(Clone, Debug)]
pub struct ProviderLimits {
    /// The number of retries of a request that got no answer.
    pub retries: u32,
    /// The pause before the first retry; it doubles with each one.
    pub first_pause: Duration,
    /// The maximum pause. A request fails if the provider asks for a longer one.
    pub longest_pause: Duration,
    /// The time limit for connecting.
    pub connect: Duration,
    /// The time limit between two pieces of an answer, and before the first.
    pub idle: Duration,
    /// The time limit for listing a provider's models.
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

/// A model of a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The full id: `provider/model`.
    pub id: String,
    /// The name for users.
    pub name: String,
    /// The provider's name.
    pub provider: String,
    /// The maximum number of tokens of a request and its answer, if known.
    pub context_window: Option<u64>,
    /// The maximum number of tokens of an answer, if known.
    pub max_output: Option<u32>,
    /// The prices, if known.
    pub price: Option<Price>,
    /// The thought levels that it accepts; empty if it accepts none.
    pub efforts: Vec<Effort>,
    /// Whether requests set a temperature.
    pub takes_temperature: bool,
    /// The maximum number of tools in a request.
    pub max_tools: usize,
}

/// The models of all configured providers.
#[derive(Clone, Default)]
pub struct Models {
    providers: Arc<Vec<Arc<Provider>>>,
    limits: ProviderLimits,
    web: Arc<HttpClients>,
}

impl Models {
    /// Creates the models of these providers.
    ///
    /// # Errors
    ///
    /// If two have the same name, or one has an invalid name or base URL.
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

    /// The same providers without their keys.
    #[must_use]
    pub fn without_keys(&self) -> Self {
        let providers = self.providers.iter().map(|provider| Arc::new(provider.without_key())).collect();
        Self { providers: Arc::new(providers), ..self.clone() }
    }

    /// Takes over the model lists of an earlier configuration, for providers that have not changed.
    #[must_use]
    pub fn with_state_of(self, earlier: &Self) -> Self {
        for provider in self.providers.iter() {
            let known = earlier.providers.iter().find(|known| known.config.name == provider.config.name);
            known.into_iter().for_each(|known| provider.copy_state(known));
        }
        self
    }

    /// The same models with other limits.
    #[must_use]
    pub fn with_limits(self, limits: ProviderLimits) -> Self {
        Self { limits, web: Arc::default(), ..self }
    }

    /// The configurations of the providers.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderConfig> {
        self.providers.iter().map(|provider| provider.config.as_ref())
    }

    /// The models that are known now, in the order of the configuration.
    #[must_use]
    pub fn list(&self) -> Vec<Model> {
        let of = |provider: &Arc<Provider>| {
            let ids = provider.ids();
            ids.into_iter().map(|id| provider.model(&id)).collect::<Vec<_>>()
        };
        self.providers.iter().flat_map(of).collect()
    }

    /// The models to choose from, including the chosen one while its provider cannot list its models, so that no other
    /// model replaces it.
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

    /// Adds a model that its provider does not list. Returns whether the provider exists.
    pub fn add(&self, id: &str) -> bool {
        let Some((provider, model)) = self.split(id) else { return false };
        provider.add(model);
        true
    }

    /// Adds a model that was chosen before, unless its provider is asked for its models.
    pub fn keep(&self, id: &str) {
        if self.split(id).is_some_and(|(provider, _)| !provider.must_be_asked()) {
            self.add(id);
        }
    }

    /// Why providers did not list their models: one line for each, with its name and address.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.providers.iter().filter_map(|provider| provider.failure()).collect()
    }

    /// The model with this full id, also if no list contains it.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Model> {
        let (provider, model) = self.split(id)?;
        Some(provider.model(model))
    }

    /// Sends a request to a model. Nothing is sent before the stream is polled; dropping it cancels the request.
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
