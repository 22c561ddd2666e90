//! Requests the lists of models from providers, and the context windows of the models. A provider that does not answer
//! within its time limit adds no models.

use std::sync::Arc;

use futures::future::join_all;
use reqwest::RequestBuilder;
use serde_json::Value;

use super::config::ProviderKind;
use super::fault::root;
use super::provider::{ListedModel, Provider};
use super::{Models, target};

/// The maximum length of a list, in bytes.
const LONGEST: usize = 16 * 1024 * 1024;
/// The names that servers use for the size of the context window.
const WINDOWS: [&str; 7] = [
    "loaded_context_length",
    "context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "inputTokenLimit",
];

/// The answers of providers to a request for their models.
pub(crate) struct ModelLists(Vec<(Arc<Provider>, ListResult)>);

/// A list, or the reason why there is none.
type ListResult = Result<Vec<ListedModel>, String>;

impl Models {
    /// Requests the models of all providers that need it, in parallel and within a time limit. `list` has the result.
    pub async fn discover(&self) {
        let lists = self.ask().await;
        self.take(lists);
    }

    /// Does the same as `discover`, but the lists have no effect until `take` is called.
    pub(crate) async fn ask(&self) -> ModelLists {
        let asked = self.providers.iter().filter(|provider| provider.must_be_asked());
        ModelLists(join_all(asked.map(|provider| self.ask_for_models(provider))).await)
    }

    /// Stores the lists of the providers.
    pub(crate) fn take(&self, lists: ModelLists) {
        for (provider, list) in lists.0 {
            match list {
                Ok(models) => provider.listed(models),
                Err(why) => provider.not_listed(why),
            }
        }
    }

    /// Whether all providers that need it were asked before.
    pub(crate) fn all_asked(&self) -> bool {
        self.providers.iter().all(|provider| !provider.must_be_asked() || provider.was_asked())
    }

    /// The context window of a model. Ollama is asked after an answer, because it sets the window when it loads a model.
    pub async fn window(&self, id: &str) -> Option<u64> {
        let (provider, model) = self.split(id)?;
        let facts = provider.facts(model);
        if facts.window.is_none() && provider.config.kind == ProviderKind::Ollama {
            let loaded = self.loaded(provider);
            let loaded = tokio::time::timeout(self.limits.listing, loaded).await.unwrap_or_default();
            provider.sizes(loaded);
        }
        provider.facts(model).window
    }

    async fn ask_for_models(&self, provider: &Arc<Provider>) -> (Arc<Provider>, ListResult) {
        let asked = tokio::time::timeout(self.limits.listing, self.list_of(provider)).await;
        let list = asked.unwrap_or_else(|_| Err("it did not list its models in time".to_owned()));
        (provider.clone(), list)
    }

    async fn list_of(&self, provider: &Provider) -> ListResult {
        let path = match provider.config.kind {
            ProviderKind::OpenAi | ProviderKind::OpenAiResponses => "models",
            ProviderKind::Anthropic => "models?limit=1000",
            ProviderKind::Gemini => "models?pageSize=1000",
            ProviderKind::Ollama => "api/tags",
        };
        let answer = self.fetch(provider, path).await?;
        let list = answer["data"].as_array().or(answer["models"].as_array());
        let list = list.ok_or_else(|| "its answer is not a list of models".to_owned())?;
        Ok(list.iter().filter_map(listed).collect())
    }

    /// The models that Ollama has loaded; empty if the request fails.
    async fn loaded(&self, provider: &Provider) -> Vec<ListedModel> {
        let answer = self.fetch(provider, "api/ps").await.unwrap_or_default();
        answer["models"].as_array().into_iter().flatten().filter_map(listed).collect()
    }

    async fn fetch(&self, provider: &Provider, path: &str) -> Result<Value, String> {
        let web = self.web.client(&provider.address, &self.limits).map_err(|error| error.to_string())?;
        let request = with_key(web.get(target::below(&provider.address, path)), provider);
        let mut response = request.send().await.map_err(|error| root(&error.without_url()))?;
        if !response.status().is_success() {
            return Err(format!("listing its models failed with status {}", response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| root(&error.without_url()))? {
            body.extend_from_slice(&piece);
            if body.len() > LONGEST {
                return Err("its list of models is too long".to_owned());
            }
        }
        serde_json::from_slice(&body).map_err(|_| "its answer is not a list of models".to_owned())
    }
}

fn with_key(request: RequestBuilder, provider: &Provider) -> RequestBuilder {
    let key = provider.config.key().map(|key| key.reveal().to_owned());
    let request = match provider.config.kind {
        ProviderKind::Anthropic => request.header("anthropic-version", target::ANTHROPIC_VERSION),
        ProviderKind::OpenAi
        | ProviderKind::OpenAiResponses
        | ProviderKind::Gemini
        | ProviderKind::Ollama => request,
    };
    match (provider.config.kind, key) {
        (_, None) => request,
        (ProviderKind::Anthropic, Some(key)) => request.header("x-api-key", key),
        (ProviderKind::Gemini, Some(key)) => request.header("x-goog-api-key", key),
        (ProviderKind::OpenAi | ProviderKind::OpenAiResponses | ProviderKind::Ollama, Some(key)) => {
            request.bearer_auth(key)
        }
    }
}

fn listed(model: &Value) -> Option<ListedModel> {
    let id = model["id"].as_str().or(model["name"].as_str())?;
    let id = id.strip_prefix("models/").unwrap_or(id);
    let window = WINDOWS.iter().find_map(|name| model[*name].as_u64()).or(model["meta"]["n_ctx"].as_u64());
    let window = window.filter(|window| *window > 0);
    (!id.trim().is_empty()).then(|| ListedModel { id: id.to_owned(), window })
}
