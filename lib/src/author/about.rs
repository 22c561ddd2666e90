//! What an agent says of itself. Only words: nothing here runs.

use serde_json::{Value, json};

use super::ConfigOption;

/// What an agent is and can do.
#[derive(Clone, Debug)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its version.
    pub version: String,
    /// What it can do beside the least.
    pub abilities: Vec<Ability>,
    /// The ways to log in; none if nobody has to.
    pub logins: Vec<Login>,
    /// Whether a session is opened only after a login. That holds until a logout or the end of the process; an agent
    /// that knows of logins from before leaves this off and refuses by itself, in [`Agent::open`](super::Agent::open).
    pub login_first: bool,
    /// What the user may choose in every session, unless [`Agent::options`](super::Agent::options) says otherwise.
    pub options: Vec<ConfigOption>,
    /// The commands of every session: name, description, and what to type behind it.
    pub commands: Vec<(String, String, Option<String>)>,
}

/// Something that not every agent can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Takes images in prompts.
    Images,
    /// Takes sound in prompts.
    Audio,
    /// Takes embedded files in prompts.
    EmbeddedContext,
    /// Connects MCP servers that are programs.
    McpStdio,
    /// Connects MCP servers by streamable HTTP.
    McpHttp,
    /// Connects old MCP servers by their event streams; only clients of version 1 have such.
    McpSse,
    /// Works in more directories than one.
    AdditionalDirectories,
    /// Takes a system prompt that is added to its own.
    SystemPrompt,
    /// Takes one in place of its own, too.
    SystemPromptOverride,
    /// Lets single tool calls and terminals be cancelled.
    CancelOne,
}

/// A way to log in.
#[derive(Clone, Debug)]
pub struct Login {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What the user has to do.
    pub description: String,
}

impl About {
    /// An agent that can do only what every agent can.
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

    /// The same agent with these abilities.
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
        // It keeps nothing itself: who opens a session again has to tell what was said in it.
        session["_meta"] = json!({"rethread": {"history": {}}});
        session
    }
}
