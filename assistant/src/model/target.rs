//! The endpoint, key and protocol of a request, as `genai` needs them.

use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use genai::{Headers, ModelIden, ServiceTarget};

use super::config::{ProviderConfig, ProviderKind};

/// The version of Anthropic's API.
pub(super) const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The adapter of `genai` for a kind of provider.
pub(super) fn adapter(kind: ProviderKind) -> AdapterKind {
    match kind {
        ProviderKind::OpenAi => AdapterKind::OpenAI,
        ProviderKind::OpenAiResponses => AdapterKind::OpenAIResp,
        ProviderKind::Anthropic => AdapterKind::Anthropic,
        ProviderKind::Gemini => AdapterKind::Gemini,
        ProviderKind::Ollama => AdapterKind::Ollama,
    }
}

/// The service target for a model.
pub(super) fn target(provider: &ProviderConfig, address: &str, model: &str) -> ServiceTarget {
    let auth = match provider.key() {
        Some(key) => AuthData::from_single(key.reveal()),
        None => keyless(provider.kind, address, model),
    };
    ServiceTarget {
        endpoint: Endpoint::from_owned(address),
        auth,
        model: ModelIden::new(adapter(provider.kind), model),
    }
}

/// The URL of a path below a base URL, which may have a query.
pub(super) fn below(address: &str, path: &str) -> String {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let Ok(mut url) = reqwest::Url::parse(address) else { return format!("{address}{path}") };
    url.set_path(&format!("{}{path}", url.path()));
    if url.query().is_none() {
        url.set_query(query);
    }
    url.to_string()
}

/// The authentication without a key: no header. `genai` would otherwise reject the request.
fn keyless(kind: ProviderKind, address: &str, model: &str) -> AuthData {
    let below = |path: &str| below(address, path);
    let (url, headers) = match kind {
        ProviderKind::OpenAi => (below("chat/completions"), Headers::default()),
        ProviderKind::OpenAiResponses => (below("responses"), Headers::default()),
        ProviderKind::Anthropic => {
            (below("messages"), Headers::from(("anthropic-version".to_owned(), ANTHROPIC_VERSION.to_owned())))
        }
        ProviderKind::Gemini => (
            format!("{}?alt=sse", below(&format!("models/{model}:streamGenerateContent"))),
            Headers::default(),
        ),
        // Ollama needs no key.
        ProviderKind::Ollama => return AuthData::None,
    };
    AuthData::RequestOverride { url, headers }
}
