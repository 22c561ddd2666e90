//! The built-in assistant: an agent that uses configurable models, MCP servers, and tools inside the session's roots. It uses only the public API of `rethread`; it is an
//! [`author::Agent`](rethread::author::Agent) like any other.

mod builtin_tools;
mod call_context;
mod choice;
mod command;
mod compact;
mod config;
mod directory;
pub mod mcp;
mod mcp_prompts;
mod mcp_tools;
mod memory;
pub mod model;
mod model_events;
mod offline;
mod permission;
mod providers;
mod session;
mod system_prompt;
mod tool_calls;
pub mod tools;
mod transcript;
mod turn;
mod web;

use std::sync::{Arc, Mutex};

use rethread::author::{Ability, About, Agent, Choices, ConfigOption, Emitter, SessionSetup, Stop, Turn};
use rethread::lock::locked;
use rethread::wire::RpcError;
use serde_json::Value;

use mcp_prompts::PromptCommand;
use model::Models;
use model_events::ModelTurn;
use providers::Providers;
use session::SessionDeps;

pub use choice::Mode;
pub use config::{AssistantConfig, AssistantDefaults};
pub use session::Session;

/// The built-in agent.
pub struct Assistant {
    config: AssistantConfig,
    providers: Mutex<Arc<Providers>>,
    /// The emitters of the open sessions, for changes that affect all of them.
    emitters: Emitters,
}

/// The emitters of the open sessions.
type Emitters = Arc<Mutex<Vec<Emitter>>>;

impl Assistant {
    /// Creates the assistant and reads its providers.
    #[must_use]
    pub fn new(config: AssistantConfig) -> Self {
        let providers = Mutex::new(Arc::new(Providers::read(&config)));
        Self { config, providers, emitters: Emitters::default() }
    }

    fn providers(&self) -> Arc<Providers> {
        locked(&self.providers).clone()
    }

    /// Replaces the providers and notifies the open sessions.
    async fn replace_providers(&self, providers: Providers) {
        let (sessions, models) = (self.open_sessions(), providers.models.clone());
        *locked(&self.providers) = Arc::new(providers);
        announce_models(sessions, &models).await;
    }

    /// Requests the lists of models. Waits only for the first time, since a server may be down for days.
    async fn discover(&self, providers: &Arc<Providers>) {
        let asking = discover(providers.clone(), self.emitters.clone());
        match providers.models.all_asked() {
            true => drop(tokio::spawn(asking)),
            false => asking.await,
        }
    }

    /// Sends the options to the other open sessions.
    async fn update_others(&self, emitter: &Emitter) {
        let emitters = locked(&self.emitters).clone();
        for other in emitters.iter().filter(|other| !other.is(emitter)) {
            other.options_changed().await;
        }
    }

    /// The open sessions with the choices that their clients know.
    fn open_sessions(&self) -> Vec<(Emitter, Choices)> {
        open_sessions(&self.emitters)
    }
}

/// Requests the lists of models, and notifies the open sessions if they have changed.
async fn discover(providers: Arc<Providers>, emitters: Emitters) {
    let lists = providers.models.ask().await;
    let (sessions, before) = (open_sessions(&emitters), providers.models.list());
    providers.models.take(lists);
    if providers.models.list() != before {
        announce_models(sessions, &providers.models).await;
    }
}

fn open_sessions(emitters: &Emitters) -> Vec<(Emitter, Choices)> {
    let emitters = locked(emitters).clone();
    emitters.into_iter().map(|emitter| (emitter.clone(), emitter.choices())).collect()
}

/// Sends the current models to sessions, with a notice if a chosen model is no longer available.
async fn announce_models(sessions: Vec<(Emitter, Choices)>, models: &Models) {
    for (emitter, before) in sessions {
        emitter.options_changed().await;
        announce_model(&emitter, &before, models).await;
    }
}

/// Sends a notice if a session's model has changed: the chosen one is gone, or available again.
async fn announce_model(emitter: &Emitter, before: &Choices, models: &Models) {
    let choices = emitter.choices();
    let (before, now) = (before.get("model"), choices.get("model"));
    let Some(before) = before.filter(|before| now != Some(*before)) else { return };
    let next = now.map(|now| format!("The session uses {now} now."));
    let (severity, title) = match now {
        Some(now) if models.list().iter().any(|model| model.id == before) => {
            ("info", format!("Model {now} is available again"))
        }
        Some(_) | None => ("warning", format!("Model {before} is no longer available")),
    };
    emitter.notice(severity, &title, next.as_deref()).await;
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
        about.logins = self.providers().logins();
        about
    }

    fn options(&self, chosen: &Choices) -> Vec<ConfigOption> {
        choice::options(&self.providers().offer(chosen), chosen, self.config.defaults.mode)
    }

    /// Accepts also a model that is not listed.
    fn accepts(&self, option: &str, value: &Value) -> bool {
        option == "model" && value.as_str().is_some_and(|id| self.providers().models.add(id))
    }

    async fn open(&self, setup: SessionSetup) -> Result<Session, RpcError> {
        let providers = self.providers();
        providers.check()?;
        directory::check(&setup.cwd).await?;
        let deps = SessionDeps {
            limits: self.config.mcp,
            keys: providers.key_names(),
            private: self.config.config_file.iter().cloned().collect(),
            guardian: self.config.guardian.clone(),
            environment: self.config.environment.clone(),
            servers: self.config.defaults.servers.clone(),
        };
        let chosen = setup.chosen.clone();
        chosen.get("model").into_iter().for_each(|id| providers.models.keep(id));
        let opening = Session::open(setup, deps);
        let (session, ()) = tokio::join!(opening, self.discover(&providers));
        let session = session?;
        locked(&self.emitters).push(session.emitter.clone());
        announce_model(&session.emitter, &chosen, &providers.models).await;
        Ok(session)
    }

    async fn prompt(&self, session: &Session, turn: Turn) -> Result<Stop, RpcError> {
        let text = turn.text();
        let command = command::read(&text);
        if command.as_ref().is_none_or(command::SlashCommand::needs_servers)
            && !session.wait_for_servers(&turn).await
        {
            return Ok(Stop::Cancelled);
        }
        if let Some(command) = command {
            return offline::carry_out(session, &turn, command).await;
        }
        let providers = self.providers();
        let models = &providers.models;
        if models.offer(turn.choices().get("model")).is_empty() {
            // A provider may have become reachable.
            discover(providers.clone(), self.emitters.clone()).await;
        }
        let none = models.offer(turn.choices().get("model")).is_empty();
        match mcp_prompts::read(session, &turn, &text).await? {
            PromptCommand::Cancelled => return Ok(Stop::Cancelled),
            PromptCommand::Prompt(words) if none => {
                turn.say(&words).await;
                return Ok(Stop::EndTurn);
            }
            PromptCommand::None if none => {
                let reason = offline::NoModelReason {
                    failures: models.failures(),
                    config_file: providers.config_file(),
                };
                return offline::no_model(session, &turn, &reason).await;
            }
            PromptCommand::None | PromptCommand::Prompt(_) => {}
        }
        let chosen = || providers.chosen(&turn.choices());
        let before = models.list();
        let outcome = ModelTurn::new(models, session, &turn).run(chosen).await;
        if models.list() != before {
            // The answer showed a property of a model, such as that it accepts no temperature.
            self.update_others(&session.emitter).await;
        }
        outcome
    }

    async fn close(&self, session: &Session) {
        locked(&self.emitters).retain(|emitter| !emitter.is(&session.emitter));
        session.servers.close().await;
    }

    async fn login(&self, method: &str) -> Result<(), RpcError> {
        let providers = Providers::read(&self.config).with_state_of(&self.providers());
        // If the new configuration is invalid, the old one stays.
        providers.check_config()?;
        let Some(provider) = providers.models.providers().find(|provider| provider.name == method).cloned()
        else {
            return Err(RpcError::field("methodId", &Value::from(method), "a provider of the configuration"));
        };
        let outcome = if provider.lacks_key() { Err(providers::no_key(&provider)) } else { Ok(()) };
        providers.models.discover().await;
        self.replace_providers(providers).await;
        outcome
    }

    async fn logout(&self) -> Result<(), RpcError> {
        let without_keys = self.providers().without_keys();
        self.replace_providers(without_keys).await;
        Ok(())
    }
}
