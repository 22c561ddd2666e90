//! The example with the nature of a scripted agent: what it can do, what it offers, whether one has to log in, and
//! what it answers to requests that the protocol does not know. What it does in a turn is the example's.

use std::sync::Arc;

use rethread::author::{
    Ability, About, Agent, Choices, ConfigOption, Login as Method, Opening, OptionValue, Stop, Turn,
};
use rethread::wire::{RpcError, code};
use serde_json::{Value, json};

use super::example::Scripted;
use crate::agent::config::{AgentConfig, Login, Offer};
use crate::agent::memory::Memory;

const ABILITIES: [(&str, Ability); 10] = [
    ("image", Ability::Images),
    ("audio", Ability::Audio),
    ("embeddedContext", Ability::EmbeddedContext),
    ("stdio", Ability::McpStdio),
    ("http", Ability::McpHttp),
    ("sse", Ability::McpSse),
    ("additionalDirectories", Ability::AdditionalDirectories),
    ("systemPrompt", Ability::SystemPrompt),
    ("override", Ability::SystemPromptOverride),
    ("cancelOne", Ability::CancelOne),
];

/// The example as a test wants it.
pub(super) struct Natured {
    memory: Arc<Memory>,
    example: Scripted,
}

impl Natured {
    pub(super) fn new(memory: &Arc<Memory>) -> Self {
        Self { memory: memory.clone(), example: Scripted }
    }

    fn config(&self) -> AgentConfig {
        self.memory.config()
    }
}

impl Agent for Natured {
    type Session = ();

    fn about(&self) -> About {
        let config = self.config();
        let can = ABILITIES.iter().filter(|(name, _)| config.can(name));
        let able: Vec<_> = can.map(|(_, ability)| *ability).collect();
        let mut about = About::new(config.name, "2").able(&able);
        if config.login == Login::Needed {
            let (id, name) = ("key".to_owned(), "A key".to_owned());
            about.logins.push(Method { id, name, description: "Have one".to_owned() });
        }
        about
    }

    fn options(&self, _: &Choices) -> Vec<ConfigOption> {
        let offers = self.config().offers;
        let has = |offer: Offer| offers.contains(&offer);
        let select = |id: &str, name: &str, values: [&str; 2]| {
            ConfigOption::select(id, name, values.map(|value| OptionValue::new(value, value)).to_vec())
        };
        let all = [
            (
                has(Offer::Modes) || has(Offer::ModeOption),
                select("mode", "Mode", ["a", "b"]).in_category("mode"),
            ),
            (has(Offer::Models), select("model", "Model", ["fast", "deep"]).in_category("model")),
            (has(Offer::Effort), select("effort", "Effort", ["low", "high"])),
            (has(Offer::Verbose), ConfigOption::boolean("verbose", "Verbose", false)),
        ];
        all.into_iter().filter(|(offered, _)| *offered).map(|(_, option)| option).collect()
    }

    async fn open(&self, opening: Opening) -> Result<(), RpcError> {
        let config = self.config();
        if config.login == Login::Needed && !self.memory.inner().logged_in {
            return Err(RpcError::new(code::AUTH_REQUIRED, "log in first"));
        }
        let command = |name: &&str| ((*name).to_owned(), format!("Does {name}"), Some("what".to_owned()));
        let commands: Vec<_> = config.commands.iter().map(command).collect();
        if !commands.is_empty() {
            opening.voice.commands(&commands).await;
        }
        self.example.open(opening).await
    }

    async fn prompt(&self, session: &(), turn: Turn) -> Result<Stop, RpcError> {
        self.example.prompt(session, turn).await
    }

    async fn login(&self, _: &str) -> Result<(), RpcError> {
        self.memory.inner().logged_in = true;
        Ok(())
    }

    async fn logout(&self) -> Result<(), RpcError> {
        self.memory.inner().logged_in = false;
        Ok(())
    }

    async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        match method {
            "auth/status" | "providers/list" | "providers/set" | "providers/disable" | "mcp/message"
            | "_agent/echo" => Ok(json!({"method": method, "params": params})),
            // Left open until it is taken back.
            "_agent/hang" => std::future::pending().await,
            _ => Err(RpcError::unknown_method(method)),
        }
    }
}
