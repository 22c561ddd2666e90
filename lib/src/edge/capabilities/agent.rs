//! The capabilities of an agent: decodes its `initialize` answer in either version, and encodes the answer for a
//! client.

use rethread_core::{Fields, Json};
use serde_json::{Value, json};

use super::{ClientProfile, has_object};
use crate::edge::air::AirClient;
use crate::edge::{Version, v1};
use crate::wire::RpcError;

/// What an agent reported in `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProfile {
    /// The version that the agent speaks.
    pub version: Version,
    /// The version that it answered with. Some agents repeat the offered version, whatever they speak.
    pub answered: Version,
    /// Its name and version as it wrote them.
    pub info: Option<Json>,
    /// The login methods in canonical form.
    pub auth_methods: Vec<Fields>,
    /// Supported content besides text and links: `image`, `audio`, `embeddedContext`.
    pub content: Vec<&'static str>,
    /// Supported MCP transports: `stdio`, `http`, `sse`, `acp`.
    pub transports: Vec<&'static str>,
    /// The session methods that it has itself, by v1 names: `load`, `resume`, `close`, `delete`, …
    pub native: Vec<&'static str>,
    /// Members that are forwarded unchanged: `auth`, `providers`, `systemPrompt`, `_meta`.
    pub forwarded: Fields,
    /// The `_meta` of its answer.
    pub meta: Option<Json>,
}

const CONTENT: [&str; 3] = ["image", "audio", "embeddedContext"];
const NATIVE: [&str; 12] = [
    "load",
    "resume",
    "list",
    "close",
    "delete",
    "fork",
    "archive",
    "status",
    "title",
    "additionalDirectories",
    "systemPrompt",
    "history",
];

/// What Rethread adds for every client.
fn extensions() -> Fields {
    let mut added = Fields::new();
    added.set("version", Json::of(env!("CARGO_PKG_VERSION")));
    for name in ["search", "read", "follow", "outline", "export", "usage", "listSubscribe", "clients"] {
        added.set(name, json!({}).into());
    }
    added
}

impl AgentProfile {
    /// Decodes the answer to `initialize`.
    pub fn read(answer: &Json) -> Result<Self, RpcError> {
        let fields = answer.fields();
        match fields.get("protocolVersion").map(Json::value) {
            Some(Value::Number(number)) if number.as_u64() == Some(1) => Ok(read_v1(&fields)),
            Some(Value::Number(number)) if number.as_u64() == Some(2) && has_info(&fields) => {
                Ok(read_v2(&fields))
            }
            // Version 2 requires `info`: an answer without it comes from a v1 agent.
            Some(Value::Number(number)) if number.as_u64() == Some(2) => {
                Ok(Self { answered: Version::V2, ..read_v1(&fields) })
            }
            other => Err(unknown_version(other.unwrap_or(Value::Null))),
        }
    }

    /// Returns whether the agent answered with a version that it does not speak.
    #[must_use]
    pub fn repeats_offered_version(&self) -> bool {
        self.answered != self.version
    }

    /// Returns whether the agent has a session method itself.
    #[must_use]
    pub fn has(&self, native: &str) -> bool {
        self.native.contains(&native)
    }

    /// Returns whether a prompt may contain a block of this type.
    #[must_use]
    pub fn takes(&self, block: &str) -> bool {
        match block {
            "text" | "resource_link" => true,
            "resource" => self.content.contains(&"embeddedContext"),
            other => self.content.contains(&other),
        }
    }

    /// Encodes the ways to log in for a client that speaks `version`.
    #[must_use]
    pub fn login_methods(&self, version: Version) -> Json {
        match version {
            Version::V1 => {
                let methods: Vec<_> = self.auth_methods.iter().cloned().map(v1::auth::to_v1).collect();
                Json::of(&methods)
            }
            Version::V2 => Json::of(&self.auth_methods),
        }
    }

    /// Encodes the `initialize` answer for a client.
    #[must_use]
    pub fn answer(&self, client: &ClientProfile) -> Json {
        self.encoded(client.version, client.air())
    }

    /// Encodes the answer in the agent's own version, for another host.
    #[must_use]
    pub fn own_answer(&self) -> Json {
        self.encoded(self.version, None)
    }

    fn encoded(&self, version: Version, air: Option<&AirClient>) -> Json {
        let mut answer = match version {
            Version::V1 => self.answer_v1(),
            Version::V2 => self.answer_v2(),
        };
        let mut meta = self.meta.as_ref().map(Json::fields).unwrap_or_default();
        meta.set("rethread", extensions().json());
        if let Some(air) = air {
            air.announce(&mut meta);
        }
        answer.set("_meta", meta.json());
        answer.json()
    }

    fn answer_v1(&self) -> Fields {
        let flag = |list: &[&str], name: &str| Value::Bool(list.contains(&name));
        let mut session = Fields::new();
        for added in ["list", "resume", "close", "delete", "fork", "archive", "status", "title"] {
            session.set(added, json!({}).into());
        }
        self.session_extras(&mut session);
        let mut capabilities: Fields = [
            ("loadSession", json!(true).into()),
            (
                "promptCapabilities",
                json!({
                    "image": flag(&self.content, "image"),
                    "audio": flag(&self.content, "audio"),
                    "embeddedContext": flag(&self.content, "embeddedContext"),
                })
                .into(),
            ),
            (
                "mcpCapabilities",
                json!({
                    "http": flag(&self.transports, "http"),
                    "sse": flag(&self.transports, "sse"),
                    "acp": flag(&self.transports, "acp"),
                })
                .into(),
            ),
            ("sessionCapabilities", session.json()),
        ]
        .into_iter()
        .collect();
        if let Some(auth) = self.forwarded.get("auth") {
            capabilities.set("auth", auth_for_v1(auth, self.version));
        }
        self.forward(&mut capabilities, &["providers", "_meta"]);
        let mut answer: Fields = [
            ("protocolVersion", json!(1).into()),
            ("agentCapabilities", capabilities.json()),
            ("authMethods", self.login_methods(Version::V1)),
        ]
        .into_iter()
        .collect();
        if let Some(info) = &self.info {
            answer.set("agentInfo", info.clone());
        }
        answer
    }

    fn answer_v2(&self) -> Fields {
        let object_of = |names: &[&'static str]| {
            names.iter().map(|name| (*name, Json::from(json!({})))).collect::<Fields>().json()
        };
        let transports: Vec<_> = self.transports.iter().copied().filter(|name| *name != "sse").collect();
        let mut session: Fields =
            [("prompt", object_of(&self.content)), ("mcp", object_of(&transports))].into_iter().collect();
        // Clients of an earlier draft look for `load`, `resume` and `close`.
        for added in ["delete", "fork", "archive", "status", "title", "load", "resume", "close"] {
            session.set(added, json!({}).into());
        }
        self.session_extras(&mut session);
        let mut capabilities: Fields = [("session", session.json())].into_iter().collect();
        if let Some(auth) = self.forwarded.get("auth") {
            capabilities.set("auth", auth.clone());
        } else if !self.auth_methods.is_empty() {
            capabilities.set("auth", json!({}).into());
        }
        self.forward(&mut capabilities, &["providers", "_meta"]);
        let unknown = json!({"name": "unknown", "version": "unknown"});
        [
            ("protocolVersion", json!(2).into()),
            ("info", self.info.clone().unwrap_or_else(|| unknown.into())),
            ("capabilities", capabilities.json()),
            ("authMethods", self.login_methods(Version::V2)),
        ]
        .into_iter()
        .collect()
    }

    fn session_extras(&self, session: &mut Fields) {
        if self.has("additionalDirectories") {
            session.set("additionalDirectories", json!({}).into());
        }
        self.forward(session, &["systemPrompt"]);
    }

    fn forward(&self, to: &mut Fields, names: &[&str]) {
        for name in names {
            if let Some(value) = self.forwarded.get(name) {
                to.set(name, value.clone());
            }
        }
    }
}

/// Adds `logout`, which version 2 does not declare: every agent with `auth` supports it.
fn auth_for_v1(auth: &Json, agent: Version) -> Json {
    let mut fields = auth.fields();
    if agent == Version::V2 {
        fields.set("logout", json!({}).into());
    }
    fields.json()
}

/// Changes the answer of a v1 agent that repeats the offered version so that [`AgentProfile::read`] recognizes it:
/// `protocolVersion` 2 without the members that only version 2 has.
#[must_use]
pub fn as_version_echo(answer: &Json) -> Json {
    let mut fields = answer.fields();
    let info = fields.take("info");
    if fields.get("agentInfo").is_none_or(Json::is_null)
        && let Some(info) = info
    {
        fields.set("agentInfo", info);
    }
    fields.set("protocolVersion", json!(2).into());
    fields.json()
}

fn unknown_version(got: Value) -> RpcError {
    let message = match &got {
        Value::Number(number) => {
            format!("the agent speaks protocol version {number}, rethread supports 1 and 2")
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            "the agent did not say which protocol version it speaks".to_owned()
        }
    };
    RpcError::internal(message).with("got", got).with("expected", json!([1, 2]))
}

fn has_info(answer: &Fields) -> bool {
    answer.get("info").is_some_and(|info| !info.is_null())
}

fn read_v1(answer: &Fields) -> AgentProfile {
    let capabilities = answer.get("agentCapabilities").map(Json::fields).unwrap_or_default();
    let part = |name: &str| capabilities.get(name).map(Json::fields).unwrap_or_default();
    let on = |fields: &Fields, name: &str| fields.get(name).is_some_and(|value| value.text() == "true");
    let (prompt, mcp, session) =
        (part("promptCapabilities"), part("mcpCapabilities"), part("sessionCapabilities"));
    let mut transports = vec!["stdio"];
    transports.extend(["http", "sse", "acp"].into_iter().filter(|name| on(&mcp, name)));
    let native = |name: &&str| match *name {
        "load" => on(&capabilities, "loadSession"),
        "history" => wants_history(&session),
        other => has_object(&session, other),
    };
    AgentProfile {
        version: Version::V1,
        answered: Version::V1,
        info: answer.get("agentInfo").filter(|info| !info.is_null()).cloned(),
        auth_methods: auth_methods(answer, v1::auth::from_v1),
        content: CONTENT.into_iter().filter(|name| on(&prompt, name)).collect(),
        transports,
        native: NATIVE.into_iter().filter(native).collect(),
        forwarded: forwarded(&capabilities, &session),
        meta: answer.get("_meta").cloned(),
    }
}

fn read_v2(answer: &Fields) -> AgentProfile {
    let capabilities = answer.get("capabilities").map(Json::fields).unwrap_or_default();
    let session = capabilities.get("session").map(Json::fields).unwrap_or_default();
    let part = |name: &str| session.get(name).map(Json::fields).unwrap_or_default();
    let (prompt, mcp) = (part("prompt"), part("mcp"));
    let native = |name: &&str| match *name {
        // Every v2 agent with sessions has these methods.
        "resume" | "list" | "close" => has_object(&capabilities, "session"),
        "load" => false,
        "history" => wants_history(&session),
        other => has_object(&session, other),
    };
    AgentProfile {
        version: Version::V2,
        answered: Version::V2,
        info: answer.get("info").filter(|info| !info.is_null()).cloned(),
        auth_methods: auth_methods(answer, |method| method),
        content: CONTENT.into_iter().filter(|name| has_object(&prompt, name)).collect(),
        transports: ["stdio", "http", "sse", "acp"]
            .into_iter()
            .filter(|name| has_object(&mcp, name))
            .collect(),
        native: NATIVE.into_iter().filter(native).collect(),
        forwarded: forwarded(&capabilities, &session),
        meta: answer.get("_meta").cloned(),
    }
}

/// Returns whether the agent stores no sessions and wants the history when one is opened (a Rethread extension).
fn wants_history(session: &Fields) -> bool {
    let meta = session.get("_meta").map(Json::fields).unwrap_or_default();
    let ours = meta.get("rethread").map(Json::fields).unwrap_or_default();
    has_object(&ours, "history")
}

fn auth_methods(answer: &Fields, convert: impl Fn(Fields) -> Fields) -> Vec<Fields> {
    let methods = answer.get("authMethods").and_then(Json::items).unwrap_or_default();
    methods.iter().map(|method| convert(method.fields())).collect()
}

fn forwarded(capabilities: &Fields, session: &Fields) -> Fields {
    let own =
        ["auth", "providers", "_meta"].into_iter().filter_map(|name| Some((name, capabilities.get(name)?)));
    let of_session = ["systemPrompt"].into_iter().filter_map(|name| Some((name, session.get(name)?)));
    own.chain(of_session)
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name, value.clone()))
        .collect()
}
