//! What an agent reports about itself: name, version, abilities, login methods, options and commands.

use serde_json::{Value, json};

use super::ConfigOption;

/// The description of an agent.
#[derive(Clone, Debug)]
pub struct About {
    /// The name of the agent.
    pub name: String,
    /// The display name.
    pub title: Option<String>,
    /// The version of the agent.
    pub version: String,
    /// The optional abilities that it has.
    pub abilities: Vec<Ability>,
    /// The login methods; empty if no login is needed.
    pub logins: Vec<Login>,
    /// Whether sessions can only be opened after a login. This is reset by a logout and when the process ends. An agent
    /// that knows about earlier logins leaves this off and refuses in [`Agent::open`](super::Agent::open).
    pub login_first: bool,
    /// The options of every session, unless [`Agent::options`](super::Agent::options) is overridden.
    pub options: Vec<ConfigOption>,
    /// The slash commands of every session: name, description, and a hint for the input.
    pub commands: Vec<(String, String, Option<String>)>,
}

/// An optional ability of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Accepts images in prompts.
    Images,
    /// Accepts audio in prompts.
    Audio,
    /// Accepts embedded files in prompts.
    EmbeddedContext,
    /// Supports MCP servers over stdio.
    McpStdio,
    /// Supports MCP servers over streamable HTTP.
    McpHttp,
    /// Supports MCP servers over SSE, which only v1 clients offer.
    McpSse,
    /// Supports additional directories.
    AdditionalDirectories,
    /// Accepts a system prompt that is appended to its own.
    SystemPrompt,
    /// Accepts a system prompt that replaces its own.
    SystemPromptOverride,
    /// Supports cancelling a single tool call or terminal.
    CancelOne,
}

/// A login method.
#[derive(Clone, Debug)]
pub struct Login {
    /// The id of the method.
    pub id: String,
    /// The display name.
    pub name: String,
    /// What the user has to do.
    pub description: String,
}

impl About {
    /// Describes an agent without optional abilities.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: None,
            version: version.to_owned(),
            abilities: Vec::new(),
            logins: Vec::new(),
            login_first: false,
            options: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Adds abilities.
    #[must_use]
    pub fn able(mut self, abilities: &[Ability]) -> Self {
        self.abilities.extend(abilities);
        self
    }

    /// The answer to `initialize`.
    pub(super) fn answer(&self) -> Value {
        let mut info = json!({"name": self.name, "version": self.version});
        if let Some(title) = &self.title {
            info["title"] = json!(title);
        }
        let login = |login: &Login| json!({"methodId": login.id, "name": login.name, "description": login.description, "type": "agent"});
        let mut capabilities = json!({"session": self.session()});
        if !self.logins.is_empty() {
            capabilities["auth"] = json!({"logout": {}});
        }
        json!({
            "protocolVersion": 2,
            "info": info,
            "capabilities": capabilities,
            "authMethods": self.logins.iter().map(login).collect::<Vec<_>>(),
        })
    }

    fn session(&self) -> Value {
        let some = |names: &[(Ability, &str)]| {
            let mut object = json!({});
            for (_, name) in names.iter().filter(|(ability, _)| self.abilities.contains(ability)) {
                object[*name] = json!({});
            }
            object
        };
        let mut session = some(&[(Ability::AdditionalDirectories, "additionalDirectories")]);
        session["prompt"] = some(&[
            (Ability::Images, "image"),
            (Ability::Audio, "audio"),
            (Ability::EmbeddedContext, "embeddedContext"),
        ]);
        session["mcp"] =
            some(&[(Ability::McpStdio, "stdio"), (Ability::McpHttp, "http"), (Ability::McpSse, "sse")]);
        if self.abilities.contains(&Ability::SystemPromptOverride) {
            session["systemPrompt"] = json!({"mode": {"override": {}}});
        } else if self.abilities.contains(&Ability::SystemPrompt) {
            session["systemPrompt"] = json!({});
        }
        // The agent stores nothing: it must be given the history when a session is opened again.
        session["_meta"] = json!({"rethread": {"history": {}}});
        session
    }
}
