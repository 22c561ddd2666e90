//! The configuration of a scripted agent: versions, capabilities, options and behaviour.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::quirk::Quirk;

/// Which protocol versions the agent supports, and how it reacts to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Answers 1 to any offer.
    One,
    /// Version 1 only; refuses another with -32022.
    OneStrictly,
    /// Version 2 only; answers 2 to 2 and more, refuses less with -32022.
    Two,
    /// Whatever is offered, at most 2.
    Both,
}

/// An option of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Modes `a` and `b`: `modes` in version 1, an option of category `mode` in version 2.
    Modes,
    /// Models `fast` and `deep`: the old `models` in version 1, an option of category `model` in version 2.
    Models,
    /// The mode as a config option `mode`; together with [`Offer::Modes`] version 1 has both forms of one state.
    ModeOption,
    /// The config option `effort` with the values `low` and `high`.
    Effort,
    /// The boolean option `verbose`; version 1 gets it only if the client supports boolean options.
    Verbose,
}

/// What happens to a session of an earlier process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restores {
    /// It is restored.
    All,
    /// Load and resume fail with an unknown session.
    Nothing,
}

/// What happens to the choices in a session that is restored or forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choices {
    /// They are kept.
    Kept,
    /// They are reset.
    Forgotten,
}

/// Whether a fork is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forks {
    /// It is not.
    Quietly,
    /// Like a loaded session.
    Replayed,
}

/// When a v2 agent echoes a prompt and reports `running`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// After it has acknowledged the prompt.
    AfterAnswer,
    /// Before that.
    BeforeAnswer,
    /// After the answer, but not before the gate `acknowledge` is open; a prompt that is cancelled before is not
    /// inserted.
    AtGate,
    /// The same, but a cancel before is ignored.
    AtGateDeaf,
}

/// Whether a login is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// Not required.
    NotNeeded,
    /// `session/new` is refused with -32000 until a login.
    Needed,
    /// The same, and the agent's program can do it on a terminal, with `--log-in`.
    OnTerminal,
    /// The same for `session/prompt`.
    OnTerminalToPrompt,
}

/// The configuration of a scripted agent. All of it may change between two runs.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The name that it reports.
    pub name: &'static str,
    /// The supported versions.
    pub speaks: Speaks,
    /// What it says it can do, under the names of version 1: `load`, `resume`, `list`, `close`, `delete`,
    /// `fork`, `additionalDirectories`, `systemPrompt`, `override` (a mode of that), `image`, `audio`, `embeddedContext`, `stdio`, `http`,
    /// `sse`, `acp`; and `cancelOne`: it takes `tool_call/cancel` and `terminal/cancel`. A version 2 agent has `resume`, `list` and `close` whatever is here.
    pub can: Vec<&'static str>,
    /// The options that it offers.
    pub offers: Vec<Offer>,
    /// Whether earlier sessions are restored.
    pub restores: Restores,
    /// What happens to choices when a session is restored.
    pub choices: Choices,
    /// Options that it offers but does not allow to be changed.
    pub fixed: Vec<&'static str>,
    /// Whether forks are replayed.
    pub forks: Forks,
    /// When prompts are echoed.
    pub echo: Echo,
    /// Whether a login is required.
    pub login: Login,
    /// Commands that a v2 agent puts into its answers.
    pub commands: Vec<&'static str>,
    /// The `_meta` of the answer to `initialize`.
    pub meta: Option<Value>,
    /// Members of the capabilities beyond those in `can`.
    pub extra: Value,
    /// The key of its command, under which its profile is stored.
    pub key: Option<&'static str>,
    /// Its deviations from the protocol.
    pub quirks: Vec<Quirk>,
    /// What the ids of its sessions begin with.
    pub id_prefix: String,
    /// A file to which it adds each prompt that it gets, as a line of JSON.
    pub prompt_log: Option<PathBuf>,
}

impl AgentConfig {
    /// An agent with these versions that supports everything.
    #[must_use]
    pub fn able(speaks: Speaks) -> Self {
        Self {
            can: vec![
                "load",
                "resume",
                "list",
                "close",
                "delete",
                "additionalDirectories",
                "image",
                "audio",
                "embeddedContext",
                "stdio",
                "http",
                "sse",
                "cancelOne",
            ],
            ..Self::bare(speaks)
        }
    }

    /// An agent with these versions that supports only what is required.
    #[must_use]
    pub fn bare(speaks: Speaks) -> Self {
        Self {
            name: "scripted",
            speaks,
            can: vec!["stdio"],
            offers: Vec::new(),
            restores: Restores::All,
            choices: Choices::Kept,
            fixed: Vec::new(),
            forks: Forks::Quietly,
            echo: Echo::AfterAnswer,
            login: Login::NotNeeded,
            commands: Vec::new(),
            meta: None,
            extra: json!({}),
            key: None,
            quirks: Vec::new(),
            id_prefix: "native".to_owned(),
            prompt_log: None,
        }
    }

    /// Removes abilities.
    #[must_use]
    pub fn without(mut self, abilities: &[&str]) -> Self {
        self.can.retain(|ability| !abilities.contains(ability));
        self
    }

    /// Adds abilities.
    #[must_use]
    pub fn able_to(mut self, abilities: &[&'static str]) -> Self {
        self.can.extend(abilities);
        self
    }

    /// Sets the options.
    #[must_use]
    pub fn offering(mut self, offers: &[Offer]) -> Self {
        self.offers = offers.to_vec();
        self
    }

    /// Adds quirks.
    #[must_use]
    pub fn with(mut self, quirks: &[Quirk]) -> Self {
        self.quirks = quirks.to_vec();
        self
    }

    /// Returns whether it has this quirk.
    #[must_use]
    pub fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// Returns whether an agent of the library can have this configuration: it stores no sessions and has no quirks.
    pub(super) fn fits_library(&self) -> bool {
        let plain = Self::bare(self.speaks);
        let same = (self.echo, &self.extra) == (plain.echo, &plain.extra);
        let odd = !self.quirks.is_empty() || self.meta.is_some() || !self.fixed.is_empty();
        same && !odd && !self.can("fork") && !self.can("acp")
    }

    /// Returns whether it has this ability.
    #[must_use]
    pub fn can(&self, ability: &str) -> bool {
        self.can.contains(&ability)
    }

    pub(super) fn answer_v1(&self) -> Value {
        let mut session = json!({});
        for ability in ["resume", "list", "close", "delete", "fork", "additionalDirectories", "systemPrompt"]
        {
            if self.can(ability) {
                session[ability] = json!({});
            }
        }
        self.override_mode(&mut session);
        let on = |ability: &str| self.can(ability);
        let mut capabilities = json!({
            "loadSession": on("load"),
            "promptCapabilities":
                {"image": on("image"), "audio": on("audio"), "embeddedContext": on("embeddedContext")},
            "mcpCapabilities": {"http": on("http"), "sse": on("sse"), "acp": on("acp")},
            "sessionCapabilities": session,
        });
        self.add_extra(&mut capabilities);
        json!({
            "protocolVersion": 1,
            "agentInfo": {"name": self.name, "version": "1"},
            "agentCapabilities": capabilities,
            "authMethods": self.auth_methods("id"),
        })
    }

    pub(super) fn answer_v2(&self) -> Value {
        let some = |abilities: &[&str]| {
            let mut object = json!({});
            for ability in abilities.iter().filter(|ability| self.can(ability)) {
                object[*ability] = json!({});
            }
            object
        };
        let mut session = some(&["delete", "fork", "additionalDirectories", "systemPrompt"]);
        self.override_mode(&mut session);
        session["prompt"] = some(&["image", "audio", "embeddedContext"]);
        session["mcp"] = some(&["stdio", "http", "acp"]);
        let mut capabilities = json!({"session": session});
        self.add_extra(&mut capabilities);
        json!({
            "protocolVersion": 2,
            "info": {"name": self.name, "version": "2"},
            "capabilities": capabilities,
            "authMethods": self.auth_methods("methodId"),
        })
    }

    fn add_extra(&self, capabilities: &mut Value) {
        merge(capabilities, &self.extra);
    }

    fn override_mode(&self, session: &mut Value) {
        if self.can("override") {
            session["systemPrompt"] = json!({"mode": {"override": {}}});
        }
    }

    fn auth_methods(&self, id: &str) -> Value {
        match self.login {
            Login::NotNeeded => json!([]),
            Login::Needed => json!([{id: "key", "name": "A key", "type": "agent"}]),
            Login::OnTerminal | Login::OnTerminalToPrompt => json!([
                {id: "key", "name": "A key", "type": "agent"},
                {id: "tui", "name": "In the terminal", "type": "terminal", "args": ["--log-in"]},
            ]),
        }
    }
}

/// Merges members into an object, recursively.
fn merge(into: &mut Value, extra: &Value) {
    match (into, extra) {
        (Value::Object(into), Value::Object(extra)) => {
            for (name, value) in extra {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, extra) => *into = extra.clone(),
    }
}
