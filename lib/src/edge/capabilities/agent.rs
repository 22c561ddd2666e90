//! What an agent says of itself, read from either version, and what a client is told of it.

use rethread_core::{Fields, Json};
use serde_json::{Value, json};

use super::has_object;
use crate::edge::{Version, v1};
use crate::wire::RpcError;

/// What an agent said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The version it speaks.
    pub version: Version,
    /// The version it answered with: some agents answer with the one that they are offered, whatever they speak.
    pub answered: Version,
    /// Its name and version, as it wrote them.
    pub info: Option<Json>,
    /// How to log in, in canonical shape.
    pub auth_methods: Vec<Fields>,
    /// Content beyond text and links: `image`, `audio`, `embeddedContext`.
    pub content: Vec<&'static str>,
    /// MCP transports: `stdio`, `http`, `sse`, `acp`.
    pub transports: Vec<&'static str>,
    /// What it can do with sessions by itself, as v1 names: `load`, `resume`, `close`, `delete`, …
    pub native: Vec<&'static str>,
    /// Members that are passed on as they are: `auth`, `providers`, `systemPrompt`, `_meta`.
    pub passed_on: Fields,
    /// The `_meta` of its answer.
    pub meta: Option<Json>,
}

const CONTENT: [&str; 3] = ["image", "audio", "embeddedContext"];
const NATIVE: [&str; 9] =
    ["load", "resume", "list", "close", "delete", "fork", "additionalDirectories", "systemPrompt", "history"];

impl Profile {
    /// Reads the answer to `initialize`.
    pub fn read(answer: &Json) -> Result<Self, RpcError> {
        let fields = answer.fields();
        match fields.get("protocolVersion").map(Json::value) {
            Some(Value::Number(number)) if number.as_u64() == Some(1) => Ok(read_v1(&fields)),
            Some(Value::Number(number)) if number.as_u64() == Some(2) && has_info(&fields) => {
                Ok(read_v2(&fields))
            }
            // An agent of version 2 has to name itself: this one speaks version 1.
            Some(Value::Number(number)) if number.as_u64() == Some(2) => {
                Ok(Self { answered: Version::V2, ..read_v1(&fields) })
            }
            other => Err(unknown_version(other.unwrap_or(Value::Null))),
        }
    }

    /// Says whether the agent answered with a version that it does not speak.
    #[must_use]
    pub fn echoes_version(&self) -> bool {
        self.answered != self.version
    }

    /// Says whether the agent has a session method of its own.
    #[must_use]
    pub fn has(&self, native: &str) -> bool {
        self.native.contains(&native)
    }

    /// Says whether a prompt may hold a block of this type.
    #[must_use]
    pub fn takes(&self, block: &str) -> bool {
        match block {
            "text" | "resource_link" => true,
            "resource" => self.content.contains(&"embeddedContext"),
            other => self.content.contains(&other),
        }
    }

    /// The answer for a client that speaks `version`.
    #[must_use]
    pub fn answer(&self, version: Version) -> Json {
        let mut answer = match version {
            Version::V1 => self.answer_v1(),
            Version::V2 => self.answer_v2(),
        };
        let mut meta = self.meta.as_ref().map(Json::fields).unwrap_or_default();
        meta.set("rethread", json!({"version": env!("CARGO_PKG_VERSION")}).into());
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
        if let Some(auth) = self.passed_on.get("auth") {
            capabilities.set("auth", auth_for_v1(auth, self.version));
        }
        self.pass_on(&mut capabilities, &["providers", "_meta"]);
        let methods: Vec<_> = self.auth_methods.iter().cloned().map(v1::auth::to_v1).collect();
        let mut answer: Fields = [
            ("protocolVersion", json!(1).into()),
            ("agentCapabilities", capabilities.json()),
            ("authMethods", Json::of(&methods)),
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
        // `load`, `resume` and `close` are for clients of the earlier draft, which looked for them.
        for added in ["delete", "fork", "archive", "status", "title", "load", "resume", "close"] {
            session.set(added, json!({}).into());
        }
        self.session_extras(&mut session);
        let mut capabilities: Fields = [("session", session.json())].into_iter().collect();
        if let Some(auth) = self.passed_on.get("auth") {
            capabilities.set("auth", auth.clone());
        } else if !self.auth_methods.is_empty() {
            capabilities.set("auth", json!({}).into());
        }
        self.pass_on(&mut capabilities, &["providers", "_meta"]);
        let unknown = json!({"name": "unknown", "version": "unknown"});
        [
            ("protocolVersion", json!(2).into()),
            ("info", self.info.clone().unwrap_or_else(|| unknown.into())),
            ("capabilities", capabilities.json()),
            ("authMethods", Json::of(&self.auth_methods)),
        ]
        .into_iter()
        .collect()
    }

    fn session_extras(&self, session: &mut Fields) {
        if self.has("additionalDirectories") {
            session.set("additionalDirectories", json!({}).into());
        }
        self.pass_on(session, &["systemPrompt"]);
    }

    fn pass_on(&self, to: &mut Fields, names: &[&str]) {
        for name in names {
            if let Some(value) = self.passed_on.get(name) {
                to.set(name, value.clone());
            }
        }
    }
}

/// Version 2 has no mark for logging out: whoever has `auth` can.
fn auth_for_v1(auth: &Json, agent: Version) -> Json {
    let mut fields = auth.fields();
    if agent == Version::V2 {
        fields.set("logout", json!({}).into());
    }
    fields.json()
}

/// The answer of an agent that echoes the version, in the shape in which [`Profile::read`] knows it for one that
/// speaks version 1: with version 2, and without the members that only version 2 has.
#[must_use]
pub fn as_echo(answer: &Json) -> Json {
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
            format!("the agent speaks protocol version {number}, rethread speaks 1 and 2")
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

fn read_v1(answer: &Fields) -> Profile {
    let capabilities = answer.get("agentCapabilities").map(Json::fields).unwrap_or_default();
    let part = |name: &str| capabilities.get(name).map(Json::fields).unwrap_or_default();
    let on = |fields: &Fields, name: &str| fields.get(name).is_some_and(|value| value.text() == "true");
    let (prompt, mcp, session) =
        (part("promptCapabilities"), part("mcpCapabilities"), part("sessionCapabilities"));
    let mut transports = vec!["stdio"];
    transports.extend(["http", "sse", "acp"].into_iter().filter(|name| on(&mcp, name)));
    let native = |name: &&str| match *name {
        "load" => on(&capabilities, "loadSession"),
        "history" => takes_history(&session),
        other => has_object(&session, other),
    };
    Profile {
        version: Version::V1,
        answered: Version::V1,
        info: answer.get("agentInfo").filter(|info| !info.is_null()).cloned(),
        auth_methods: auth_methods(answer, v1::auth::from_v1),
        content: CONTENT.into_iter().filter(|name| on(&prompt, name)).collect(),
        transports,
        native: NATIVE.into_iter().filter(native).collect(),
        passed_on: passed_on(&capabilities, &session),
        meta: answer.get("_meta").cloned(),
    }
}

fn read_v2(answer: &Fields) -> Profile {
    let capabilities = answer.get("capabilities").map(Json::fields).unwrap_or_default();
    let session = capabilities.get("session").map(Json::fields).unwrap_or_default();
    let part = |name: &str| session.get(name).map(Json::fields).unwrap_or_default();
    let (prompt, mcp) = (part("prompt"), part("mcp"));
    let native = |name: &&str| match *name {
        // Every version 2 agent with sessions has these.
        "resume" | "list" | "close" => has_object(&capabilities, "session"),
        "load" => false,
        "history" => takes_history(&session),
        other => has_object(&session, other),
    };
    Profile {
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
        passed_on: passed_on(&capabilities, &session),
        meta: answer.get("_meta").cloned(),
    }
}

/// Says whether an agent keeps no sessions itself and wants to be told what was said in one: our own extension.
fn takes_history(session: &Fields) -> bool {
    let meta = session.get("_meta").map(Json::fields).unwrap_or_default();
    let ours = meta.get("rethread").map(Json::fields).unwrap_or_default();
    has_object(&ours, "history")
}

fn auth_methods(answer: &Fields, convert: impl Fn(Fields) -> Fields) -> Vec<Fields> {
    let methods = answer.get("authMethods").and_then(Json::items).unwrap_or_default();
    methods.iter().map(|method| convert(method.fields())).collect()
}

fn passed_on(capabilities: &Fields, session: &Fields) -> Fields {
    let own =
        ["auth", "providers", "_meta"].into_iter().filter_map(|name| Some((name, capabilities.get(name)?)));
    let of_session = ["systemPrompt"].into_iter().filter_map(|name| Some((name, session.get(name)?)));
    own.chain(of_session)
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name, value.clone()))
        .collect()
}
