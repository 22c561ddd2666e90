//! Where a request goes and with which key, in the words of the library that carries it.

use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, Headers, ModelIden, ServiceTarget, WebConfig};

use super::Patience;
use super::config::{ProviderConfig, ProviderKind};
use super::error::Error;

/// The library's word for a protocol.
pub(super) fn adapter(kind: ProviderKind) -> AdapterKind {
    match kind {
        ProviderKind::OpenAi => AdapterKind::OpenAI,
        ProviderKind::OpenAiResponses => AdapterKind::OpenAIResp,
        ProviderKind::Anthropic => AdapterKind::Anthropic,
        ProviderKind::Gemini => AdapterKind::Gemini,
        ProviderKind::Ollama => AdapterKind::Ollama,
    }
}

/// What carries the requests.
pub(super) fn client(patience: &Patience) -> Result<Client, Error> {
    let web = WebConfig::default().with_connect_timeout(patience.connect);
    let client = Client::builder().with_web_config(web).build();
    client.map_err(|error| Error::Config { what: format!("no HTTP client can be made: {error}") })
}

/// Where a model is asked.
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

/// A server that wants no key gets no header for one; the library would refuse to ask without.
fn keyless(kind: ProviderKind, address: &str, model: &str) -> AuthData {
    let below = |path: &str| match reqwest::Url::parse(address) {
        Ok(mut url) => {
            url.set_path(&format!("{}{path}", url.path()));
            url.to_string()
        }
        Err(_) => format!("{address}{path}"),
    };
    let (url, headers) = match kind {
        ProviderKind::OpenAi => (below("chat/completions"), Headers::default()),
        ProviderKind::OpenAiResponses => (below("responses"), Headers::default()),
        ProviderKind::Anthropic => {
            (below("messages"), Headers::from(("anthropic-version".to_owned(), "2023-06-01".to_owned())))
        }
        ProviderKind::Gemini => (
            format!("{}?alt=sse", below(&format!("models/{model}:streamGenerateContent"))),
            Headers::default(),
        ),
        // It asks for none anyway.
        ProviderKind::Ollama => return AuthData::None,
    };
    AuthData::RequestOverride { url, headers }
}
