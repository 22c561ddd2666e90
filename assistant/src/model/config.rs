//! The configuration of providers and their models: kinds, base URLs, keys, prices, thought levels. Reads neither a file
//! nor the environment.

use std::fmt;
use std::path::PathBuf;

use rethread::secret::Secret;
use serde::Deserialize;

use super::error::ModelError;

/// The protocol that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// The chat completions API of OpenAI and of compatible servers.
    #[serde(rename = "openai")]
    OpenAi,
    /// The responses API of OpenAI.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// The messages API of Anthropic.
    Anthropic,
    /// The generative language API of Google.
    Gemini,
    /// The chat API of Ollama.
    Ollama,
}

impl ProviderKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// The environment variable that usually holds the key.
    #[must_use]
    pub fn usual_key_env(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::OpenAiResponses => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama => None,
        }
    }

    /// A second environment variable that may hold the key.
    #[must_use]
    pub fn other_key_env(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("GOOGLE_API_KEY"),
            Self::OpenAi | Self::OpenAiResponses | Self::Anthropic | Self::Ollama => None,
        }
    }

    /// The environment variable that usually holds the base URL.
    #[must_use]
    pub fn usual_url_env(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "OPENAI_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Gemini => "GOOGLE_GEMINI_BASE_URL",
            Self::Ollama => "OLLAMA_HOST",
        }
    }

    /// The default base URL.
    fn home(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://localhost:11434/",
        }
    }

    /// The first part of every path, which users often omit from a base URL.
    fn root(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses | Self::Anthropic => "v1/",
            Self::Gemini => "v1beta/",
            Self::Ollama => "",
        }
    }
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// No thinking.
    Off,
    /// The least that the model supports.
    Minimal,
    /// Low effort.
    Low,
    /// Medium effort.
    Medium,
    /// High effort.
    High,
    /// More than high.
    #[serde(rename = "xhigh")]
    XHigh,
    /// The most that the model supports.
    Max,
}

impl Effort {
    /// The name in the configuration and in the user interface.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The effort with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];
        all.into_iter().find(|effort| effort.name() == name)
    }
}

/// The prices of a million tokens, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input tokens that are not cached.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Input tokens that are read from the provider's cache.
    #[serde(default)]
    pub cached: Option<f64>,
    /// Input tokens that are written to the provider's cache.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// The maximum number of input tokens of a request that has these prices.
    #[serde(default)]
    pub up_to: Option<u64>,
}

/// The configuration of a model. For a well-known model the catalog fills in what is missing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The id at the provider.
    pub id: String,
    /// The name for users.
    #[serde(default)]
    pub name: Option<String>,
    /// The maximum number of tokens of a request and its answer.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// The maximum number of tokens of an answer.
    #[serde(default)]
    pub max_output: Option<u32>,
    /// The prices.
    #[serde(default)]
    pub price: Option<Price>,
    /// The thought levels that it accepts; empty if it accepts none.
    #[serde(default)]
    pub efforts: Option<Vec<Effort>>,
    /// Whether it accepts a temperature; newer models often reject one.
    #[serde(default)]
    pub takes_temperature: Option<bool>,
    /// The maximum number of tools in a request.
    #[serde(default)]
    pub max_tools: Option<usize>,
}

impl ModelConfig {
    /// A model with an id and nothing else configured.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

/// The configuration of a provider.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The name that the user chose: the first half of a model's full id.
    pub name: String,
    /// The protocol that it speaks.
    pub kind: ProviderKind,
    /// The base URL, if it is not the default of the kind.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The API key.
    #[serde(default)]
    pub key: Option<Secret>,
    /// The environment variable that holds the key, if it is not the usual one. A server with its own base URL has no
    /// usual one: it must not get the key of the provider that it is compatible with.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The models. If empty, those of the catalog or those that the provider lists.
    #[serde(default)]
    pub models: Vec<ModelConfig>,
    /// The configuration file, for messages.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// A value of a provider's configuration that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BadValue {
    /// The key that has the value.
    pub key: &'static str,
    /// Names the provider and why the value is invalid.
    pub what: String,
}

impl From<BadValue> for ModelError {
    fn from(bad: BadValue) -> Self {
        Self::Config { what: bad.what }
    }
}

impl ProviderConfig {
    /// A provider at its default base URL, without a key and without models.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ProviderKind) -> Self {
        let name = name.into();
        Self { name, kind, base_url: None, key: None, key_env: None, models: Vec::new(), file: None }
    }

    /// The key, if it is set and not empty.
    #[must_use]
    pub fn key(&self) -> Option<&Secret> {
        self.key.as_ref().filter(|key| !key.is_empty())
    }

    /// The same provider without its key.
    #[must_use]
    pub fn without_key(self) -> Self {
        Self { key: None, ..self }
    }

    /// The same provider with the API that serves all its models: OpenAI accepts tools for its newer models only in the
    /// responses API. Compatible servers often have only chat completions.
    #[must_use]
    pub(super) fn at_its_best(self) -> Self {
        match (self.kind, &self.base_url) {
            (ProviderKind::OpenAi, None) => Self { kind: ProviderKind::OpenAiResponses, ..self },
            _ => self,
        }
    }

    /// Whether requests need a key that is missing. A server with its own base URL may need none.
    #[must_use]
    pub fn lacks_key(&self) -> bool {
        self.key().is_none() && self.base_url.is_none() && self.kind.usual_key_env().is_some()
    }

    /// The environment variable that holds the key, if there is one.
    #[must_use]
    pub fn key_variable(&self) -> Option<&str> {
        let usual = self.kind.usual_key_env().filter(|_| self.base_url.is_none());
        self.key_env.as_deref().or(usual)
    }

    /// Where the user has to put the key, for messages.
    #[must_use]
    pub fn key_place(&self) -> String {
        match self.key_variable() {
            Some(variable) => variable.to_owned(),
            None => format!("`key` of provider {} in {}", self.name, self.file_name()),
        }
    }

    /// The name of the configuration file, for messages.
    #[must_use]
    pub fn file_name(&self) -> String {
        self.file.as_ref().map_or_else(|| "config.toml".to_owned(), |file| file.display().to_string())
    }

    /// Checks the name, the address and the models.
    ///
    /// # Errors
    ///
    /// If one of them is invalid; the error names its key.
    pub fn check(&self) -> Result<(), BadValue> {
        self.checked().map(drop)
    }

    /// Checks the same and returns the base URL with a slash at its end.
    pub(super) fn checked(&self) -> Result<String, BadValue> {
        if self.name.is_empty() || self.name.contains('/') {
            let what = format!("provider name {:?} is empty or has a slash in it", self.name);
            return Err(BadValue { key: "name", what });
        }
        if let Some(model) = self.models.iter().find(|model| model.id.trim().is_empty()) {
            let what = format!("a model of provider {} has the id {:?}", self.name, model.id);
            return Err(BadValue { key: "id", what });
        }
        match &self.base_url {
            Some(url) => address(self.kind, url).map_err(|why| BadValue {
                key: "base_url",
                what: format!("the base URL of provider {} is invalid: {why}", self.name),
            }),
            None => Ok(self.kind.home().to_owned()),
        }
    }
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("name", &self.name)
            .field("kind", &self.kind)
            // A URL may contain a password.
            .field("base_url", &self.base_url.as_deref().map(shown))
            .field("key", &self.key)
            .field("key_env", &self.key_env)
            .field("models", &self.models)
            .finish()
    }
}

/// Completes a base URL, which users write with and without scheme, version and slash.
fn address(kind: ProviderKind, written: &str) -> Result<String, String> {
    let bare = !written.contains("://");
    let written = if bare { format!("http://{}", written.trim()) } else { written.trim().to_owned() };
    let mut url = reqwest::Url::parse(&written).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{} is neither http nor https", url.scheme()));
    }
    if kind == ProviderKind::Ollama {
        if bare && url.port().is_none() {
            // Ollama reads its own variable in the same way.
            url.set_port(Some(11434)).map_err(|()| "it has no host".to_owned())?;
        }
        let path = url.path().trim_end_matches('/').trim_end_matches("/v1").to_owned();
        url.set_path(&path);
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let path = if path.is_empty() { format!("/{}", kind.root()) } else { format!("{path}/") };
    url.set_path(&path);
    Ok(url.into())
}

/// A base URL for messages: without user name, password and query.
pub(super) fn shown(address: &str) -> String {
    let Ok(mut url) = reqwest::Url::parse(address) else { return "its address".to_owned() };
    // Neither fails for a URL with a host, and one without a host has no password.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::{Effort, ProviderConfig, ProviderKind, address, shown};

    #[test]
    fn base_urls_are_completed() {
        let cases = [
            (ProviderKind::OpenAi, "http://localhost:8080", "http://localhost:8080/v1/"),
            (ProviderKind::OpenAi, "https://x.example/api/v1", "https://x.example/api/v1/"),
            (ProviderKind::Anthropic, "https://x.example/", "https://x.example/v1/"),
            (ProviderKind::Gemini, "https://x.example", "https://x.example/v1beta/"),
            (ProviderKind::Ollama, "localhost", "http://localhost:11434/"),
            (ProviderKind::Ollama, "127.0.0.1:4000", "http://127.0.0.1:4000/"),
            (ProviderKind::Ollama, "http://localhost:11434/v1", "http://localhost:11434/"),
        ];
        for (kind, written, meant) in cases {
            assert_eq!(address(kind, written).as_deref(), Ok(meant), "{written}");
        }
        assert!(address(ProviderKind::OpenAi, "ftp://x.example").is_err());
        assert_eq!(shown("https://me:word@x.example/v1/?key=1"), "https://x.example/v1/");
    }

    #[test]
    fn an_invalid_provider_is_rejected() {
        for name in ["", "a/b"] {
            let error = ProviderConfig::new(name, ProviderKind::OpenAi).checked().unwrap_err();
            assert!(error.to_string().contains("provider name"), "{error}");
        }
        let mut config = ProviderConfig::new("mine", ProviderKind::OpenAi);
        config.base_url = Some("http://".to_owned());
        assert!(config.checked().unwrap_err().to_string().contains("base URL of provider mine"));
    }

    #[test]
    fn a_provider_is_read_as_documented() {
        let written = serde_json::json!({"name": "work", "kind": "openai-responses", "key": "sk-1234",
            "models": [{"id": "m", "efforts": ["off", "xhigh"], "price": {"input": 0.2, "output": 0.8}}]});
        let read: ProviderConfig = serde_json::from_value(written).unwrap();
        assert_eq!(read.kind, ProviderKind::OpenAiResponses);
        assert_eq!(read.models[0].efforts.as_deref(), Some([Effort::Off, Effort::XHigh].as_slice()));
        assert!(!format!("{read:?}").contains("sk-1234"));
        for kind in ProviderKind::ALL {
            assert_eq!(serde_json::from_value::<ProviderKind>(kind.name().into()).unwrap(), kind);
        }
        let misspelt = serde_json::json!({"name": "work", "kind": "openai", "baseurl": "x"});
        assert!(serde_json::from_value::<ProviderConfig>(misspelt).is_err());
    }

    #[test]
    fn the_usual_key_is_only_for_the_default_base_url() {
        let mut config = ProviderConfig::new("mine", ProviderKind::OpenAi);
        assert_eq!(config.key_variable(), Some("OPENAI_API_KEY"));
        config.base_url = Some("https://x.example".to_owned());
        assert_eq!(config.key_variable(), None);
        assert_eq!(config.key_place(), "`key` of provider mine in config.toml");
        config.file = Some("/home/me/config.toml".into());
        assert_eq!(config.key_place(), "`key` of provider mine in /home/me/config.toml");
        config.key_env = Some("MINE".to_owned());
        assert_eq!(config.key_place(), "MINE");
    }

    #[test]
    fn efforts_have_names() {
        for effort in [Effort::Off, Effort::Minimal, Effort::XHigh, Effort::Max] {
            assert_eq!(Effort::named(effort.name()), Some(effort));
            let read: Effort = serde_json::from_value(effort.name().into()).unwrap();
            assert_eq!(read, effort);
        }
    }
}
