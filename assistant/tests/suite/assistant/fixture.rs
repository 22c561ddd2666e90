//! A test fixture: an assistant with a store, a working directory, and a model server or none.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread::author::InProcess;
use rethread::edge::Version;
use rethread::server::{Config, Server};
use rethread::store::Store;
use rethread::store::memory::MemoryStore;
use rethread_assistant::mcp::Limits;
use rethread_assistant::model::{ModelConfig, ProviderConfig, ProviderKind, ProviderLimits, Secret};
use rethread_assistant::{Assistant, AssistantConfig, AssistantDefaults};
use rethread_testkit::client::Client;
use rethread_testkit::model::ModelServer;
use serde_json::json;
use tempfile::TempDir;

pub(crate) const KINDS: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::OpenAiResponses,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

/// The configuration file as messages name it. Nothing reads it.
pub(crate) const CONFIG_FILE: &str = "/home/me/.config/rethread/config.toml";

/// The configured providers; a test may change them.
pub(crate) type Providers = Arc<Mutex<Vec<ProviderConfig>>>;

/// A store, a working directory, a model server, and an assistant that uses them.
pub(crate) struct Fixture {
    pub(crate) model: ModelServer,
    pub(crate) providers: Providers,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: Limits,
    pub(crate) defaults: AssistantDefaults,
    folder: TempDir,
}

impl Fixture {
    /// A fixture without a model.
    pub(crate) fn offline() -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        std::fs::create_dir(folder.path().join("work")).expect("there is room for a folder");
        let store = Arc::new(MemoryStore::new());
        let patient = Duration::from_secs(10);
        let limits = Limits { connect: patient, first_prompt: patient, ..Limits::default() };
        let (providers, defaults) = (Providers::default(), AssistantDefaults::default());
        Self { model: ModelServer::start(), providers, store, limits, defaults, folder }
    }

    /// A fixture with one model, `mine/loopback-1`, of a provider of this kind.
    pub(crate) fn with(kind: ProviderKind) -> Self {
        let fixture = Self::offline();
        let mut provider = fixture.provider("mine", kind);
        let model = ModelConfig { context_window: Some(20_000), ..ModelConfig::new("loopback-1") };
        provider.models = vec![model];
        fixture.providers.lock().expect("no test panics here").push(provider);
        fixture
    }

    /// A provider at the model server.
    pub(crate) fn provider(&self, name: &str, kind: ProviderKind) -> ProviderConfig {
        let mut provider = ProviderConfig::new(name, kind);
        provider.base_url = Some(format!("http://127.0.0.1:{}", self.model.port()));
        provider.key = Some(Secret::new("a-key-that-nobody-may-see-12345"));
        provider
    }

    /// The working directory of the session.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A directory outside the session's roots.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.work().join(name), text).expect("the folder can be written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).expect("the file is there")
    }

    /// A client of a new server on the same store, as after a restart.
    pub(crate) async fn client(&self, version: Version) -> Client {
        self.client_with(version, Config::default()).await
    }

    /// The same with this server configuration.
    pub(crate) async fn client_with(&self, version: Version, config: Config) -> Client {
        let providers = self.providers.clone();
        let provider_limits =
            ProviderLimits { retries: 2, first_pause: Duration::from_millis(5), ..ProviderLimits::default() };
        let assistant = Assistant::new(AssistantConfig {
            providers: Box::new(move || Ok(providers.lock().map_err(|_| "poisoned")?.clone())),
            config_file: Some(CONFIG_FILE.into()),
            defaults: self.defaults.clone(),
            provider_limits,
            mcp: self.limits,
            guardian: None,
            environment: rethread::command::Environment::Inherited,
        });
        let agent = Arc::new(InProcess::new(assistant));
        let server = Server::new(self.store.clone(), agent, config);
        let client = Client::connect(&server, version);
        client.initialize().await;
        client
    }

    /// A client with an open session in the working directory.
    pub(crate) async fn session(&self, version: Version) -> (Client, String) {
        let client = self.client(version).await;
        let session = client.new_session_in(&self.work().display().to_string()).await;
        (client, session)
    }
}

/// Answers every permission request with this option.
pub(crate) fn answer(client: &Client, option: &'static str) {
    client.on("session/request_permission", move |_| {
        Some(Ok(json!({"outcome": {"outcome": "selected", "optionId": option}})))
    });
}

/// The number of permission requests.
pub(crate) fn questions(client: &Client) -> usize {
    client
        .server_messages()
        .iter()
        .filter(|message| message["method"] == "session/request_permission")
        .count()
}
