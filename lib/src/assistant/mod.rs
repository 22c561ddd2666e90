//! The built-in assistant: an agent for people who have no other, on models of their choice, with MCP servers and
//! tools inside the session's roots. It is written with what `author` offers to everybody.

mod choice;
mod command;
mod compact;
mod instruct;
mod memory;
pub mod model;
mod offline;
mod own;
mod served;
mod session;
mod talk;
pub mod tools;
mod work;

use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::author::{Ability, About, Agent, Choices, ConfigOption, Login, Opening, Stop, Turn};
use crate::lock::locked;
use crate::mcp;
use crate::wire::{RpcError, code};

use model::{Models, Patience, ProviderConfig};
use talk::Talk;

pub use session::Session;

/// What the assistant needs to know.
pub struct AssistantConfig {
    /// Reads which providers there are, at the start and at each login.
    pub providers: Box<dyn Fn() -> Result<Vec<ProviderConfig>, String> + Send + Sync>,
    /// How long providers may take.
    pub patience: Patience,
    /// How long MCP servers may take, and how much they may say.
    pub mcp: mcp::Limits,
}

/// The assistant.
pub struct Assistant {
    config: AssistantConfig,
    known: Mutex<Arc<Known>>,
}

/// What is known of the providers.
struct Known {
    models: Models,
    /// Why there are none, if the configuration makes no sense.
    wrong: Option<String>,
}

impl Assistant {
    /// An assistant on the providers that there are now.
    #[must_use]
    pub fn new(config: AssistantConfig) -> Self {
        let known = Mutex::new(Arc::new(Known::read(&config)));
        Self { config, known }
    }

    fn known(&self) -> Arc<Known> {
        locked(&self.known).clone()
    }
}

impl Known {
    fn read(config: &AssistantConfig) -> Self {
        let read = (config.providers)();
        let models = read.and_then(|providers| Models::new(providers).map_err(|error| error.to_string()));
        match models {
            Ok(models) => Self { models: models.with_patience(config.patience.clone()), wrong: None },
            Err(why) => Self { models: Models::default(), wrong: Some(why) },
        }
    }

    /// Refuses to work while a provider waits for its key.
    fn check(&self) -> Result<(), RpcError> {
        if let Some(why) = &self.wrong {
            return Err(RpcError::internal(format!("the configuration makes no sense: {why}"))
                .hint("correct config.toml, then log in or start again"));
        }
        match self.models.providers().find(|provider| provider.lacks_key()) {
            None => Ok(()),
            Some(provider) => {
                Err(RpcError::new(code::AUTH_REQUIRED, format!("provider {} has no key", provider.name))
                    .hint(login(provider).description))
            }
        }
    }
}

fn login(provider: &ProviderConfig) -> Login {
    Login {
        id: provider.name.clone(),
        name: format!("Key of {}", provider.name),
        description: format!(
            "Set {} in the environment that rethread is started in, or `key` of provider {} in config.toml, then log in.",
            provider.key_env(),
            provider.name
        ),
    }
}

impl Agent for Assistant {
    type Session = Session;

    fn about(&self) -> About {
        let mut about = About::new("rethread", env!("CARGO_PKG_VERSION")).able(&[
            Ability::Images,
            Ability::EmbeddedContext,
            Ability::McpStdio,
            Ability::McpHttp,
            Ability::McpSse,
            Ability::AdditionalDirectories,
            Ability::SystemPromptOverride,
            Ability::CancelOne,
        ]);
        about.title = Some("Rethread's assistant".to_owned());
        let known = self.known();
        let keyed = known.models.providers().filter(|provider| provider.kind.usual_key_env().is_some());
        about.logins = keyed.map(login).collect();
        about
    }

    fn options(&self, chosen: &Choices) -> Vec<ConfigOption> {
        choice::options(&self.known().models.list(), chosen)
    }

    async fn open(&self, opening: Opening) -> Result<Session, RpcError> {
        let known = self.known();
        known.check()?;
        let keys = known.models.providers().map(|provider| provider.key_env().to_owned()).collect();
        let (session, ()) =
            tokio::join!(Session::open(opening, self.config.mcp, keys), known.models.discover());
        session
    }

    async fn prompt(&self, session: &Session, turn: Turn) -> Result<Stop, RpcError> {
        let text = turn.text();
        if let Some(command) = command::read(&text) {
            return offline::carry_out(session, &turn, command).await;
        }
        let known = self.known();
        let models = &known.models;
        if models.list().is_empty() {
            return offline::no_model(session, &turn).await;
        }
        let mut talk = Talk::new(models, session, &turn);
        if let Some(messages) = session.prompt_of_server(&turn, &text).await? {
            talk.now = messages;
        }
        let chosen = || {
            let listed = models.list();
            let model = choice::model(&listed, &turn.choices()).cloned();
            model.ok_or_else(|| RpcError::internal("no model is configured any more"))
        };
        talk.run(chosen).await
    }

    async fn close(&self, session: &Session) {
        session.servers.close().await;
    }

    async fn login(&self, method: &str) -> Result<(), RpcError> {
        let known = Arc::new(Known::read(&self.config));
        let provider = known.models.providers().find(|provider| provider.name == method).cloned();
        *locked(&self.known) = known;
        match provider {
            None => Err(RpcError::field("methodId", &Value::from(method), "a provider of the configuration")),
            Some(provider) if provider.lacks_key() => {
                Err(RpcError::new(code::AUTH_REQUIRED, format!("provider {method} still has no key"))
                    .hint(login(&provider).description))
            }
            Some(_) => Ok(()),
        }
    }

    async fn logout(&self) -> Result<(), RpcError> {
        let known = self.known();
        let keyless = known.models.providers().cloned().map(ProviderConfig::without_key).collect();
        let models = Models::new(keyless).map_err(|error| talk::told(&error))?;
        *locked(&self.known) = Arc::new(Known { models, wrong: known.wrong.clone() });
        Ok(())
    }
}
