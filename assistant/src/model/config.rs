//! Who is asked for an answer: providers, where they are, and what is said of their models. Reads neither a file nor
//! the environment.

use std::fmt;
use std::path::PathBuf;

use rethread::secret::Secret;
use serde::Deserialize;

use super::error::ModelError;

/// The protocol that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// OpenAI's chat completions, and whoever is compatible with them.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's generative language.
    Gemini,
    /// Ollama's own chat.
    Ollama,
}

impl ProviderKind {
    /// All there are.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// The variable that people usually keep the key in.
    #[must_use]
    pub fn usual_key_env(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::OpenAiResponses => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama => None,
        }
    }

    /// A variable that some people keep the key in instead.
    #[must_use]
    pub fn other_key_env(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("GOOGLE_API_KEY"),
            Self::OpenAi | Self::OpenAiResponses | Self::Anthropic | Self::Ollama => None,
        }
    }

    /// The variable that people usually keep the address in.
    #[must_use]
    pub fn usual_url_env(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "OPENAI_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Gemini => "GOOGLE_GEMINI_BASE_URL",
            Self::Ollama => "OLLAMA_HOST",
        }
    }

    /// Where the provider itself is.
    fn home(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://localhost:11434/",
        }
    }

    /// The first part of every path, which addresses are often written without.
    fn root(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses | Self::Anthropic => "v1/",
            Self::Gemini => "v1beta/",
            Self::Ollama => "",
        }
    }
}

/// How much a model is to think before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Not at all.
    Off,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// More than that.
    #[serde(rename = "xhigh")]
    XHigh,
    /// As much as it can.
    Max,
}

impl Effort {
    /// Its name in a configuration and towards users.
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

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];
        all.into_iter().find(|effort| effort.name() == name)
    }
}

/// What a million tokens cost, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Read for the first time.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read again from the provider's cache.
    #[serde(default)]
    pub cached: Option<f64>,
    /// Put into the provider's cache.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// The most input tokens of one request for which this holds.
    #[serde(default)]
    pub up_to: Option<u64>,
}

/// What the user says of a model. What is left out may be known anyway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// What the provider calls it.
    pub id: String,
    /// What people call it.
    #[serde(default)]
    pub name: Option<String>,
    /// The most tokens of a request and its answer.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// The most tokens of an answer.
    #[serde(default)]
    pub max_output: Option<u32>,
    /// What it costs.
    #[serde(default)]
    pub price: Option<Price>,
    /// How much it can be told to think; empty if it cannot be told.
    #[serde(default)]
    pub efforts: Option<Vec<Effort>>,
    /// Whether it takes a temperature; newer ones often refuse one.
    #[serde(default)]
    pub takes_temperature: Option<bool>,
    /// The most tools that it can be offered.
    #[serde(default)]
    pub max_tools: Option<usize>,
}

impl ModelConfig {
    /// A model of which only the id is said.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

/// A provider.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// What the user calls it: the first half of a model's full id.
    pub name: String,
    /// What it speaks.
    pub kind: ProviderKind,
    /// Where it is, if not where its kind is at home.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The key.
    #[serde(default)]
    pub key: Option<Secret>,
    /// The variable that the key is kept in, if not the usual one. A server at an address of the user's own has no
    /// usual one: the key of the provider that it is compatible with is not for it.
    #[serde(default)]
    pub key_env: Option<String>,
    /// Its models. With none, those that are known, or those that it lists itself.
    #[serde(default)]
    pub models: Vec<ModelConfig>,
    /// The configuration file, to name it in messages.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// A value of a provider's configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BadValue {
    /// The key that has the value.
    pub key: &'static str,
    /// Which provider, and why the value cannot be used.
    pub what: String,
}

impl From<BadValue> for ModelError {
    fn from(bad: BadValue) -> Self {
        Self::Config { what: bad.what }
    }
}

impl ProviderConfig {
    /// A provider at home, with no key and no models named.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ProviderKind) -> Self {
        let name = name.into();
        Self { name, kind, base_url: None, key: None, key_env: None, models: Vec::new(), file: None }
    }

    /// The key, if there is one with anything in it.
    #[must_use]
    pub fn key(&self) -> Option<&Secret> {
        self.key.as_ref().filter(|key| !key.is_empty())
    }

    /// The same provider, whose key was forgotten.
    #[must_use]
    pub fn without_key(self) -> Self {
        Self { key: None, ..self }
    }

    /// The same provider, asked in the way that serves all its models: OpenAI itself takes tools for its newer ones only
    /// in responses. Servers that are compatible with it often know nothing but chat completions.
    #[must_use]
    pub(super) fn at_its_best(self) -> Self {
        match (self.kind, &self.base_url) {
            (ProviderKind::OpenAi, None) => Self { kind: ProviderKind::OpenAiResponses, ..self },
            _ => self,
        }
    }

    /// Whether nothing can be asked until the user gives a key. A server of the user's own may do without.
    #[must_use]
    pub fn lacks_key(&self) -> bool {
        self.key().is_none() && self.base_url.is_none() && self.kind.usual_key_env().is_some()
    }

    /// The variable that the key is kept in, if there is one for it.
    #[must_use]
    pub fn key_variable(&self) -> Option<&str> {
        let usual = self.kind.usual_key_env().filter(|_| self.base_url.is_none());
        self.key_env.as_deref().or(usual)
    }

    /// Where the key belongs, to tell the user.
    #[must_use]
    pub fn key_place(&self) -> String {
        match self.key_variable() {
            Some(variable) => variable.to_owned(),
            None => format!("`key` of provider {} in {}", self.name, self.file_name()),
        }
    }

    /// The configuration file, to tell the user.
    #[must_use]
    pub fn file_name(&self) -> String {
        self.file.as_ref().map_or_else(|| "config.toml".to_owned(), |file| file.display().to_string())
    }

    /// Checks the name, the address and the models.
    ///
    /// # Errors
    ///
    /// If one of them cannot be used; the error names its key.
    pub fn check(&self) -> Result<(), BadValue> {
        self.checked().map(drop)
    }

    /// Checks the same, and gives the address with the slash at its end.
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
                what: format!("the base URL of provider {} is not usable: {why}", self.name),
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
            // It may have a password in it.
            .field("base_url", &self.base_url.as_deref().map(shown))
            .field("key", &self.key)
            .field("key_env", &self.key_env)
            .field("models", &self.models)
            .finish()
    }
}

/// The address as requests need it: people write it with and without scheme, version and slash.
fn address(kind: ProviderKind, written: &str) -> Result<String, String> {
    let bare = !written.contains("://");
    let written = if bare { format!("http://{}", written.trim()) } else { written.trim().to_owned() };
    let mut url = reqwest::Url::parse(&written).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{} is neither http nor https", url.scheme()));
    }
    if kind == ProviderKind::Ollama {
        if bare && url.port().is_none() {
            // So does Ollama read its own variable.
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

/// The address as it is shown: without a name, a password or a query.
pub(super) fn shown(address: &str) -> String {
    let Ok(mut url) = reqwest::Url::parse(address) else { return "its address".to_owned() };
    // Neither fails for an address with a host, and one without has nothing to hide.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::{Effort, ProviderConfig, ProviderKind, address, shown};

    #[test]
    fn addresses_are_taken_as_people_write_them() {
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
    fn what_cannot_be_a_provider_is_refused() {
        for name in ["", "a/b"] {
            let error = ProviderConfig::new(name, ProviderKind::OpenAi).checked().unwrap_err();
            assert!(error.to_string().contains("provider name"), "{error}");
        }
        let mut config = ProviderConfig::new("mine", ProviderKind::OpenAi);
        config.base_url = Some("http://".to_owned());
        assert!(config.checked().unwrap_err().to_string().contains("base URL of provider mine"));
    }

    #[test]
    fn a_provider_is_read_as_the_documentation_writes_it() {
        let written = serde_json::json!({"name": "work", "kind": "openai-responses", "key": "sk-1234",
            "models": [{"id": "m", "efforts": ["off", "xhigh"], "price": {"input": 0.2, "output": 0.8}}]});
        let read: ProviderConfig = serde_json::from_value(written).unwrap();
        assert_eq!(read.kind, ProviderKind::OpenAiResponses);
        assert_eq!(read.models[0].efforts.as_deref(), Some([Effort::Off, Effort::XHigh].as_slice()));
        assert!(!format!("{read:?}").contains("sk-1234"));
        let misspelt = serde_json::json!({"name": "work", "kind": "openai", "baseurl": "x"});
        assert!(serde_json::from_value::<ProviderConfig>(misspelt).is_err());
    }

    #[test]
    fn the_usual_key_is_only_for_the_provider_at_home() {
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
