//! The configuration of a scripted agent: versions, capabilities, options and behaviour.

use serde_json::{Value, json};

use super::quirk::Quirk;

/// Which protocol versions it speaks, and what it does when it is offered another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Answers 1 to whatever it is offered.
    One,
    /// Version 1 only; refuses another with -32022.
    OneStrictly,
    /// Version 2 only; answers 2 to 2 and more, refuses less with -32022.
    Two,
    /// Whatever it is offered, 2 at most.
    Both,
}

/// Something that the user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Modes `a` and `b`: `modes` in version 1, an option of category `mode` in version 2.
    Modes,
    /// Models `fast` and `deep`: the old `models` in version 1, an option of category `model` in version 2.
    Models,
    /// The mode as a config option `mode`; beside [`Offer::Modes`] version 1 has both views of one state.
    ModeOption,
    /// The config option `effort` with the values `low` and `high`.
    Effort,
    /// The boolean option `verbose`; version 1 gets it only if the client takes such options.
    Verbose,
}

/// What becomes of a session that an earlier instance had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restores {
    /// It is there again.
    All,
    /// Load and resume answer that there is no such session.
    Nothing,
}

/// What becomes of the choices in a session that is restored or forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choices {
    /// They are there again.
    Kept,
    /// They are what they were in the beginning.
    Forgotten,
}

/// Whether a fork is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forks {
    /// It is not.
    Quietly,
    /// As a session that is loaded.
    Replayed,
}

/// When a version 2 agent echoes a prompt and reports that it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// After it has acknowledged the prompt.
    AfterAnswer,
    /// Before that.
    BeforeAnswer,
    /// As the first, but not before the gate `acknowledge` is open; one that is cancelled until then is not
    /// inserted.
    AtGate,
    /// The same, but a cancel until then is not heard.
    AtGateDeaf,
}

/// Whether the user has to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// No.
    NotNeeded,
    /// `session/new` is refused with -32000 until a login.
    Needed,
}

/// The nature of a scripted agent. All of it may change between two starts.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its name for itself.
    pub name: &'static str,
    /// The versions.
    pub speaks: Speaks,
    /// What it says it can do, under the names of version 1: `load`, `resume`, `list`, `close`, `delete`,
    /// `fork`, `additionalDirectories`, `systemPrompt`, `override` (a mode of that), `image`, `audio`, `embeddedContext`, `stdio`, `http`,
    /// `sse`, `acp`; and `cancelOne`: it takes `tool_call/cancel` and `terminal/cancel`. A version 2 agent has `resume`, `list` and `close` whatever is here.
    pub can: Vec<&'static str>,
    /// What the user may choose.
    pub offers: Vec<Offer>,
    /// Whether earlier sessions are there again.
    pub restores: Restores,
    /// What becomes of choices then.
    pub choices: Choices,
    /// Options that it offers and does not let anybody change.
    pub fixed: Vec<&'static str>,
    /// Whether forks are replayed.
    pub forks: Forks,
    /// When prompts are echoed.
    pub echo: Echo,
    /// Whether the user has to log in.
    pub login: Login,
    /// Commands that a version 2 agent names in its answers.
    pub commands: Vec<&'static str>,
    /// The `_meta` of the answer to `initialize`.
    pub meta: Option<Value>,
    /// Members of the capabilities beyond those that `can` names.
    pub extra: Value,
    /// Names it as a program is named by its command, so that what it says of itself is remembered.
    pub key: Option<&'static str>,
    /// What it does otherwise than the protocol has it.
    pub quirks: Vec<Quirk>,
}

impl AgentConfig {
    /// An agent that speaks so and can do everything.
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

    /// An agent that speaks so and can do only what it must.
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
        }
    }

    /// The same agent without these abilities.
    #[must_use]
    pub fn without(mut self, abilities: &[&str]) -> Self {
        self.can.retain(|ability| !abilities.contains(ability));
        self
    }

    /// The same agent with these abilities too.
    #[must_use]
    pub fn able_to(mut self, abilities: &[&'static str]) -> Self {
        self.can.extend(abilities);
        self
    }

    /// The same agent with these offers.
    #[must_use]
    pub fn offering(mut self, offers: &[Offer]) -> Self {
        self.offers = offers.to_vec();
        self
    }

    /// The same agent with these quirks.
    #[must_use]
    pub fn with(mut self, quirks: &[Quirk]) -> Self {
        self.quirks = quirks.to_vec();
        self
    }

    /// Says whether it has this quirk.
    #[must_use]
    pub fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// Says whether an agent of the library can be so: that keeps no sessions and does nothing odd on the wire.
    pub(super) fn fits_library(&self) -> bool {
        let plain = Self::bare(self.speaks);
        let same = (self.echo, &self.extra) == (plain.echo, &plain.extra);
        let odd = !self.quirks.is_empty() || self.meta.is_some() || !self.fixed.is_empty();
        same && !odd && !self.can("fork") && !self.can("acp")
    }

    /// Says whether it can do that.
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
        }
    }
}

/// Adds members to an object, and to the objects in it.
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
