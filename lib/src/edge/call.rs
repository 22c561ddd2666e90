//! What a client can ask, the same for both protocol versions, and how each version writes it.
//! Reads parameters and refuses bad ones; carries nothing out.

use rethread_core::{Fields, Json};
use serde_json::Value;
use serde_json::value::RawValue;

use super::params::{Params, absolute};
use super::{Version, blocks, v1};
use crate::wire::RpcError;

/// A request of a client, after `initialize`.
#[derive(Debug)]
pub enum Call {
    /// Make a session.
    New(Setup),
    /// Attach to a session, perhaps with a replay.
    Resume {
        /// Which.
        session: String,
        /// How it is to be set up.
        setup: Setup,
        /// What to replay.
        replay: Replay,
    },
    /// Branch a session off another one.
    Fork {
        /// Which.
        session: String,
        /// How the new one is to be set up.
        setup: Setup,
        /// The last message that the new one has; without it, the end of the last finished turn.
        at: Option<String>,
    },
    /// List sessions.
    List {
        /// Only with this working directory.
        cwd: Option<String>,
        /// After this cursor.
        cursor: Option<String>,
        /// Archived ones or not.
        archived: ArchivedFilter,
    },
    /// Something about one session.
    Session {
        /// Which.
        session: String,
        /// What.
        call: SessionCall,
    },
    /// For the agent alone.
    Relay {
        /// The method as this client writes it.
        method: String,
        /// The parameters.
        params: Json,
    },
}

/// A request about one session.
#[derive(Debug)]
pub enum SessionCall {
    /// Prompt it.
    Prompt {
        /// The content blocks.
        content: Json,
        /// The `_meta` of the request.
        meta: Option<Json>,
    },
    /// Change an option.
    SetOption {
        /// Which.
        option: OptionName,
        /// To what: a string or a boolean.
        value: Json,
    },
    /// Give it a title.
    SetTitle(String),
    /// End it, keep it.
    Close,
    /// End it, forget it.
    Delete,
    /// End it, put it away.
    Archive,
    /// Bring it back.
    Unarchive,
    /// Say whether it is open.
    Status,
    /// Cancel one tool call.
    CancelToolCall(String),
    /// Cancel one terminal.
    CancelTerminal(String),
}

/// How a client wants archived sessions treated in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchivedFilter {
    /// Left out.
    Exclude,
    /// Among the others.
    Include,
    /// Nothing else.
    Only,
}

/// How a client names an option.
#[derive(Debug)]
pub enum OptionName {
    /// By its id.
    Id(String),
    /// By its category: the older ways to set mode and model.
    Category(&'static str, &'static str),
}

/// How a session is to be set up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The working directory.
    pub cwd: String,
    /// The additional roots.
    pub roots: Vec<String>,
    /// The MCP servers in canonical shape, with their secrets: never stored.
    pub servers: Vec<Fields>,
    /// The system prompt, as the client wrote it.
    pub system_prompt: Option<Json>,
    /// The `_meta` of the request.
    pub meta: Option<Json>,
}

/// What to replay when a client attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Nothing.
    Nothing,
    /// Everything.
    Start,
    /// From this message on, that one included.
    Message(String),
}

impl Call {
    /// Reads a request of a client that speaks `version`.
    pub fn decode(version: Version, method: &str, params: Option<&RawValue>) -> Result<Self, RpcError> {
        let read = Params::read(params)?;
        match (version, method) {
            (_, "session/new") => Ok(Self::New(setup(version, &read, Servers::Required)?)),
            (Version::V1, "session/load") => resume(&read, version, Replay::Start, Servers::Required),
            (Version::V1, "session/resume") => resume(&read, version, Replay::Nothing, Servers::Optional),
            // The earlier draft of version 2 had it; its clients still send it.
            (Version::V2, "session/load") => resume(&read, version, Replay::Start, Servers::Optional),
            (Version::V2, "session/resume") => resume(&read, version, replay_from(&read)?, Servers::Optional),
            (_, "session/fork") => fork(&read, version),
            (_, "session/list") => list(&read),
            _ => match session_call(version, method, &read)? {
                Some(call) => Ok(Self::Session { session: read.text("sessionId")?, call }),
                None => relay(version, method, params),
            },
        }
    }
}

fn session_call(version: Version, method: &str, params: &Params) -> Result<Option<SessionCall>, RpcError> {
    Ok(Some(match (version, method) {
        (_, "session/prompt") => prompt(params)?,
        (_, "session/set_title") => SessionCall::SetTitle(params.text("title")?),
        (_, "session/close") => SessionCall::Close,
        (_, "session/delete") => SessionCall::Delete,
        (_, "session/archive") => SessionCall::Archive,
        (_, "session/unarchive") => SessionCall::Unarchive,
        (_, "session/status") => SessionCall::Status,
        (_, "session/set_config_option") => set_option(version, params)?,
        (Version::V1, "session/set_mode") => by_category(params, "mode", "modeId")?,
        (Version::V1, "session/set_model") => by_category(params, "model", "modelId")?,
        (Version::V2, "tool_call/cancel") => SessionCall::CancelToolCall(params.text("toolCallId")?),
        (Version::V2, "terminal/cancel") => SessionCall::CancelTerminal(params.text("terminalId")?),
        _ => return Ok(None),
    }))
}

fn prompt(params: &Params) -> Result<SessionCall, RpcError> {
    let blocks = params.items("prompt")?;
    if blocks.is_empty() {
        return Err(params.wrong("prompt", "at least one content block").hint("a prompt must not be empty"));
    }
    blocks::check(&blocks)?;
    let content = Json::of(&blocks);
    Ok(SessionCall::Prompt { content, meta: params.meta() })
}

fn by_category(params: &Params, category: &'static str, name: &'static str) -> Result<SessionCall, RpcError> {
    let value = Json::of(&params.text(name)?);
    Ok(SessionCall::SetOption { option: OptionName::Category(category, name), value })
}

fn set_option(version: Version, params: &Params) -> Result<SessionCall, RpcError> {
    let option = OptionName::Id(params.text("configId")?);
    let value = params.get("value").cloned().ok_or_else(|| params.wrong("value", "a value"))?;
    let tagged = params.optional_text("type")?;
    let fits = match (version, tagged.as_deref()) {
        (_, Some("boolean")) => matches!(value.text(), "true" | "false"),
        (Version::V2, Some("id")) | (Version::V1, None | Some(_)) => value.as_string().is_some(),
        (Version::V2, None) => return Err(params.wrong("type", "\"id\" or \"boolean\"")),
        (Version::V2, Some(_)) => true,
    };
    if !fits {
        return Err(params.wrong("value", "a value of the type that \"type\" names"));
    }
    Ok(SessionCall::SetOption { option, value })
}

fn list(params: &Params) -> Result<Call, RpcError> {
    let cwd = params.optional_text("cwd")?;
    if let Some(cwd) = &cwd {
        absolute("cwd", cwd)?;
    }
    let archived = match params.optional_text("archived")?.as_deref() {
        None | Some("exclude") => ArchivedFilter::Exclude,
        Some("include") => ArchivedFilter::Include,
        Some("only") => ArchivedFilter::Only,
        Some(_) => return Err(params.wrong("archived", "\"exclude\", \"include\" or \"only\"")),
    };
    Ok(Call::List { cwd, cursor: params.optional_text("cursor")?, archived })
}

/// Whether a request must name its MCP servers.
#[derive(Clone, Copy)]
enum Servers {
    Required,
    Optional,
}

fn resume(params: &Params, version: Version, replay: Replay, servers: Servers) -> Result<Call, RpcError> {
    let session = params.text("sessionId")?;
    Ok(Call::Resume { session, setup: setup(version, params, servers)?, replay })
}

fn fork(params: &Params, version: Version) -> Result<Call, RpcError> {
    let session = params.text("sessionId")?;
    let own = params.get("_meta").and_then(|meta| meta.fields().get("rethread").map(Json::fields));
    let at = own.and_then(|own| own.get("atMessage").cloned()).filter(|at| !at.is_null());
    let at = match at {
        None => None,
        Some(at) => Some(at.as_string().ok_or_else(|| {
            RpcError::field("_meta.rethread.atMessage", &at.value(), "the id of a message")
        })?),
    };
    Ok(Call::Fork { session, setup: setup(version, params, Servers::Optional)?, at })
}

fn setup(version: Version, params: &Params, servers: Servers) -> Result<Setup, RpcError> {
    let servers = servers_list(version, params, servers)?;
    let servers = servers.iter().enumerate().map(|(at, server)| read_server(version, at, server));
    Ok(Setup {
        cwd: params.path("cwd")?,
        roots: params.paths("additionalDirectories")?,
        servers: servers.collect::<Result<_, _>>()?,
        system_prompt: params.get("systemPrompt").cloned(),
        meta: params.meta(),
    })
}

fn servers_list(version: Version, params: &Params, servers: Servers) -> Result<Vec<Json>, RpcError> {
    if params.get("mcpServers").is_some_and(|servers| servers.text().starts_with('{')) {
        return Err(params.wrong("mcpServers", "an array").hint(
            "did you mean an array of servers, each with its \"name\", instead of an object by name?",
        ));
    }
    match (version, servers) {
        (Version::V1, Servers::Required) if params.old_name("mcpServers").is_none() => params
            .items("mcpServers")
            .map_err(|error| error.hint("send \"mcpServers\": [] if there are none")),
        (Version::V1, Servers::Required) => params.items("mcpServers"),
        (Version::V1, Servers::Optional) | (Version::V2, _) => params.optional_items("mcpServers"),
    }
}

fn read_server(version: Version, at: usize, server: &Json) -> Result<Fields, RpcError> {
    let fields = server.fields();
    let named = fields.text("name").is_some();
    let tagged = fields.text("type").is_some();
    if !named || (version == Version::V2 && !tagged) {
        // The value may hold a secret: it is not repeated.
        let field = format!("mcpServers[{at}]");
        return Err(RpcError::field(&field, &Value::Null, "a server with a name and a transport"));
    }
    if version == Version::V2 && fields.text("type").as_deref() == Some("sse") {
        let field = format!("mcpServers[{at}].type");
        return Err(RpcError::field(&field, &"sse".into(), "a transport of version 2")
            .hint("only version 1 has servers with event streams"));
    }
    Ok(match version {
        Version::V1 => v1::servers::from_v1(fields),
        Version::V2 => fields,
    })
}

fn replay_from(params: &Params) -> Result<Replay, RpcError> {
    let Some(from) = params.get("replayFrom") else { return Ok(Replay::Nothing) };
    let fields = from.fields();
    match fields.text("type").as_deref() {
        Some("start") => Ok(Replay::Start),
        Some("_message") => match fields.text("messageId") {
            Some(message) => Ok(Replay::Message(message)),
            None => Err(params.wrong("replayFrom", "a messageId next to the type _message")),
        },
        Some(_) | None => Err(params.wrong("replayFrom", "{\"type\":\"start\"} or {\"type\":\"_message\"}")),
    }
}

/// Says whether a method belongs to what this side serves itself. The rest goes to the agent.
#[must_use]
pub fn is_ours(method: &str) -> bool {
    let ours = ["session/", "tool_call/", "terminal/", "fs/", "$/"];
    ours.iter().any(|prefix| method.starts_with(prefix))
}

/// What this side does not serve itself goes to the agent; the session surface is all ours.
fn relay(version: Version, method: &str, params: Option<&RawValue>) -> Result<Call, RpcError> {
    let other_version = match version {
        Version::V1 => ["auth/login", "auth/logout"],
        Version::V2 => ["authenticate", "logout"],
    };
    if method == "initialize" || is_ours(method) || other_version.contains(&method) {
        return Err(RpcError::unknown_method(method));
    }
    let params = params.map_or_else(|| Json::of(&Fields::new()), |raw| Json::from(raw.to_owned()));
    Ok(Call::Relay { method: method.to_owned(), params })
}
