//! The built-in assistant: an agent for people who have no other, on models of their choice, with MCP servers and
//! tools inside the session's roots. It uses only the public API of `rethread`; it is an
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

pub use config::AssistantConfig;
pub use session::Session;

/// The assistant.
pub struct Assistant {
    config: AssistantConfig,
    known: Mutex<Arc<Providers>>,
    /// The emitters of the open sessions, to tell them what has changed for all.
    emitters: Emitters,
}

/// Voices of sessions, for all who have to tell them something.
type Emitters = Arc<Mutex<Vec<Emitter>>>;

impl Assistant {
    /// An assistant on the providers that there are now.
    #[must_use]
    pub fn new(config: AssistantConfig) -> Self {
        let known = Mutex::new(Arc::new(Providers::read(&config)));
        Self { config, known, emitters: Emitters::default() }
    }

    fn known(&self) -> Arc<Providers> {
        locked(&self.known).clone()
    }

    /// From now on this is known, and open sessions are told.
    async fn learn(&self, known: Providers) {
        let (told, models) = (self.as_told(), known.models.clone());
        *locked(&self.known) = Arc::new(known);
        tell(told, &models).await;
    }

    /// Asks the providers for their models. Who was asked before is not waited for: a server may be off for days.
    async fn discover(&self, known: &Arc<Providers>) {
        let asking = discover(known.clone(), self.emitters.clone());
        match known.models.all_asked() {
            true => drop(tokio::spawn(asking)),
            false => asking.await,
        }
    }

    /// The other open sessions are told their options again.
    async fn tell_others(&self, emitter: &Emitter) {
        let emitters = locked(&self.emitters).clone();
        for other in emitters.iter().filter(|other| !other.is(emitter)) {
            other.options_changed().await;
        }
    }

    /// The open sessions, with what holds in each as it was told.
    fn as_told(&self) -> Vec<(Emitter, Choices)> {
        as_told(&self.emitters)
    }
}

/// Asks the providers for their models. Open sessions are told if there are others now.
async fn discover(known: Arc<Providers>, emitters: Emitters) {
    let lists = known.models.ask().await;
    let (told, before) = (as_told(&emitters), known.models.list());
    known.models.take(lists);
    if known.models.list() != before {
        tell(told, &known.models).await;
    }
}

fn as_told(emitters: &Emitters) -> Vec<(Emitter, Choices)> {
    let emitters = locked(emitters).clone();
    emitters.into_iter().map(|emitter| (emitter.clone(), emitter.choices())).collect()
}

/// Tells sessions which models there are, and which of theirs is gone.
async fn tell(sessions: Vec<(Emitter, Choices)>, models: &Models) {
    for (emitter, before) in sessions {
        emitter.options_changed().await;
        tell_model(&emitter, &before, models).await;
    }
}

/// Tells who is asked now if that is another model than before: the chosen one is gone, or it is there again.
async fn tell_model(emitter: &Emitter, before: &Choices, models: &Models) {
    let choices = emitter.choices();
    let (before, now) = (before.get("model"), choices.get("model"));
    let Some(before) = before.filter(|before| now != Some(*before)) else { return };
    let next = now.map(|now| format!("From now on {now} is used."));
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
        about.logins = self.known().logins();
        about
    }

    fn options(&self, chosen: &Choices) -> Vec<ConfigOption> {
        choice::options(&self.known().offer(chosen), chosen)
    }

    /// A model that nobody lists may be there all the same.
    fn accepts(&self, option: &str, value: &Value) -> bool {
        option == "model" && value.as_str().is_some_and(|id| self.known().models.add(id))
    }

    async fn open(&self, setup: SessionSetup) -> Result<Session, RpcError> {
        let known = self.known();
        known.check()?;
        directory::check(&setup.cwd).await?;
        let means = SessionDeps {
            limits: self.config.mcp,
            keys: known.key_names(),
            private: self.config.config_file.iter().cloned().collect(),
            guardian: self.config.guardian.clone(),
        };
        let chosen = setup.chosen.clone();
        chosen.get("model").into_iter().for_each(|id| known.models.keep(id));
        let opening = Session::open(setup, means);
        let (session, ()) = tokio::join!(opening, self.discover(&known));
        let session = session?;
        locked(&self.emitters).push(session.emitter.clone());
        tell_model(&session.emitter, &chosen, &known.models).await;
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
        let known = self.known();
        let models = &known.models;
        if models.offer(turn.choices().get("model")).is_empty() {
            // A provider that was not there may be there now.
            discover(known.clone(), self.emitters.clone()).await;
        }
        let none = models.offer(turn.choices().get("model")).is_empty();
        match mcp_prompts::read(session, &turn, &text).await? {
            PromptCommand::Cancelled => return Ok(Stop::Cancelled),
            PromptCommand::Prompt(words) if none => {
                turn.say(&words).await;
                return Ok(Stop::EndTurn);
            }
            PromptCommand::None if none => {
                let lack =
                    offline::NoModelReason { failures: models.failures(), config_file: known.config_file() };
                return offline::no_model(session, &turn, &lack).await;
            }
            PromptCommand::None | PromptCommand::Prompt(_) => {}
        }
        let chosen = || known.chosen(&turn.choices());
        let before = models.list();
        let outcome = ModelTurn::new(models, session, &turn).run(chosen).await;
        if models.list() != before {
            // Something was learnt of a model, such as that it takes no temperature.
            self.tell_others(&session.emitter).await;
        }
        outcome
    }

    async fn close(&self, session: &Session) {
        locked(&self.emitters).retain(|emitter| !emitter.is(&session.emitter));
        session.servers.close().await;
    }

    async fn login(&self, method: &str) -> Result<(), RpcError> {
        let known = Providers::read(&self.config).remembering(&self.known());
        // What made sense before stays.
        known.check_sense()?;
        let Some(provider) = known.models.providers().find(|provider| provider.name == method).cloned()
        else {
            return Err(RpcError::field("methodId", &Value::from(method), "a provider of the configuration"));
        };
        let outcome = if provider.lacks_key() { Err(providers::no_key(&provider)) } else { Ok(()) };
        known.models.discover().await;
        self.learn(known).await;
        outcome
    }

    async fn logout(&self) -> Result<(), RpcError> {
        let forgetful = self.known().without_keys();
        self.learn(forgetful).await;
        Ok(())
    }
}
