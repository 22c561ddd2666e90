//! What agents and clients say of themselves in `initialize`, and what is passed on of it: the truth about the
//! agent, plus what Rethread adds, and nothing else.

use rethread_core::{Fields, Json};
use serde_json::{Value, json};

use super::v1;
use super::v1::options::BooleanOptions;
use super::v1::plan::PlanForm;
use super::v1::{Compaction, Notices, Subagents};
use super::{Version, params::Params};
use crate::wire::{RpcError, code};

/// What an agent said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The version it speaks.
    pub version: Version,
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
            Some(Value::Number(number)) if number.as_u64() == Some(2) => Ok(read_v2(&fields)),
            other => Err(RpcError::internal("the agent speaks a protocol version that rethread does not")
                .with("got", other.unwrap_or(Value::Null))
                .with("expected", json!([1, 2]))),
        }
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

fn has_object(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_some_and(|value| value.text().starts_with('{'))
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

/// What a client said of itself.
#[derive(Clone, Debug)]
pub struct ClientProfile {
    /// The version it gets.
    pub version: Version,
    info: Option<Json>,
    capabilities: Fields,
}

impl ClientProfile {
    /// Reads `initialize` and settles on a version: 1 for 1, 2 for anything above, an error for less.
    pub fn read(params: &Params) -> Result<Self, RpcError> {
        let requested = params.get("protocolVersion").and_then(|version| version.read::<u64>().ok());
        match requested {
            Some(1) => Ok(Self {
                version: Version::V1,
                info: params.get("clientInfo").cloned(),
                capabilities: params.get("clientCapabilities").map(Json::fields).unwrap_or_default(),
            }),
            Some(0) => Err(RpcError::new(code::UNSUPPORTED_VERSION, "protocol version 0 is not supported")
                .with("requested", 0)
                .with("supported", json!([1, 2]))),
            Some(version) => Self::read_v2(params, version),
            None => Err(params.wrong("protocolVersion", "a whole number from 1 to 65535")),
        }
    }

    /// Exactly version 2 is read strictly; of what is newer, only what fits is kept.
    fn read_v2(params: &Params, requested: u64) -> Result<Self, RpcError> {
        let named = params
            .get("info")
            .map(Json::fields)
            .is_some_and(|info| info.text("name").is_some() && info.text("version").is_some());
        if requested == 2 && !named {
            return Err(params.wrong("info", "an object with name and version"));
        }
        if requested > u64::from(u16::MAX) {
            return Err(params.wrong("protocolVersion", "a whole number from 1 to 65535"));
        }
        let info = params.get("info").filter(|_| named).cloned();
        Ok(Self {
            version: Version::V2,
            info: Some(info.unwrap_or_else(|| json!({"name": "unknown", "version": "unknown"}).into())),
            capabilities: params.get("capabilities").map(Json::fields).unwrap_or_default(),
        })
    }

    /// The `initialize` parameters that offer `offer` to the agent in this client's name.
    #[must_use]
    pub fn introduce(&self, offer: Version) -> Json {
        let info = self
            .info
            .clone()
            .unwrap_or_else(|| json!({"name": "rethread", "version": env!("CARGO_PKG_VERSION")}).into());
        let mut params: Fields = [
            ("protocolVersion", json!(offer.number()).into()),
            ("clientCapabilities", self.capabilities_v1().json()),
            ("clientInfo", info.clone()),
        ]
        .into_iter()
        .collect();
        // An agent that only speaks version 1 answers an offer of 2 with 1 and has read what it knows: it
        // must find its members there too, or it would take the client for one that can do nothing.
        if offer == Version::V2 {
            params.set("info", info);
            params.set("capabilities", self.capabilities_v2().json());
        }
        params.json()
    }

    fn capabilities_v1(&self) -> Fields {
        match self.version {
            Version::V1 => self.capabilities.clone(),
            Version::V2 => {
                let mut fields: Fields = [
                    // The client has none of these; the session carries them out in its place.
                    ("fs", json!({"readTextFile": true, "writeTextFile": true}).into()),
                    ("terminal", json!(true).into()),
                    (
                        "session",
                        json!({"compaction": {}, "configOptions": {"boolean": {}}, "notices": {}}).into(),
                    ),
                    ("plan", json!({}).into()),
                    ("subagents", json!({}).into()),
                ]
                .into_iter()
                .collect();
                if let Some(elicitation) = self.capabilities.get("elicitation") {
                    fields.set("elicitation", elicitation.clone());
                }
                if let Some(auth) = self.capabilities.get("auth").map(Json::fields) {
                    fields.set("auth", json!({"terminal": has_object(&auth, "terminal")}).into());
                }
                fields
            }
        }
    }

    fn capabilities_v2(&self) -> Fields {
        match self.version {
            Version::V2 => self.capabilities.clone(),
            Version::V1 => {
                let mut fields = Fields::new();
                let auth = self.capabilities.get("auth").map(Json::fields).unwrap_or_default();
                if auth.get("terminal").is_some_and(|value| value.text() == "true") {
                    fields.set("auth", json!({"terminal": {}}).into());
                }
                if let Some(elicitation) = self.capabilities.get("elicitation") {
                    fields.set("elicitation", elicitation.clone());
                }
                fields
            }
        }
    }

    fn session(&self) -> Fields {
        self.capabilities.get("session").map(Json::fields).unwrap_or_default()
    }

    /// Whether a v1 client takes boolean options.
    #[must_use]
    pub fn booleans(&self) -> BooleanOptions {
        let options = self.session().get("configOptions").map(Json::fields).unwrap_or_default();
        match has_object(&options, "boolean") {
            true => BooleanOptions::Offered,
            false => BooleanOptions::Withheld,
        }
    }

    /// Whether a v1 client takes notices.
    #[must_use]
    pub fn notices(&self) -> Notices {
        if has_object(&self.session(), "notices") { Notices::Accepted } else { Notices::AsText }
    }

    /// Whether a v1 client takes compactions.
    #[must_use]
    pub fn compaction(&self) -> Compaction {
        if has_object(&self.session(), "compaction") { Compaction::Accepted } else { Compaction::AsText }
    }

    /// Whether a v1 client takes plans by id.
    #[must_use]
    pub fn plan(&self) -> PlanForm {
        if has_object(&self.capabilities, "plan") { PlanForm::Native } else { PlanForm::Entries }
    }

    /// Whether a v1 client takes word of sub-agents.
    #[must_use]
    pub fn subagents(&self) -> Subagents {
        if has_object(&self.capabilities, "subagents") { Subagents::Accepted } else { Subagents::Withheld }
    }

    /// Whether the client can be asked for more information.
    #[must_use]
    pub fn elicits(&self) -> bool {
        has_object(&self.capabilities, "elicitation")
    }
}
