//! The requests of a client, the same enum for both protocol versions. Decodes and validates parameters; does not carry
//! requests out.

use rethread_core::{Fields, Json, Seq};
use serde_json::Value;
use serde_json::value::RawValue;

use super::list_subscription::{CHANGES, ListSubscription, SUBSCRIBE, UNSUBSCRIBE};
use super::params::{Params, absolute};
use super::reading_request::ReadingRequest;
use super::search_request::{SEARCH, SearchParams};
use super::{Version, prompt_blocks, v1};
use crate::wire::RpcError;

/// The method that lists clients.
pub const CLIENTS: &str = "_rethread/clients";

/// A request of a client after `initialize`.
#[derive(Debug)]
pub enum ClientRequest {
    /// `session/new`.
    New(Setup),
    /// `session/load` and `session/resume`: attaches to a session, optionally with a replay.
    Resume {
        /// The id of the session.
        session: String,
        /// The working directory, roots and MCP servers to use.
        setup: Setup,
        /// Which part of the history to replay.
        replay: ReplayFrom,
    },
    /// `session/fork`: makes a new session from the history of another one.
    Fork {
        /// The id of the session to fork.
        session: String,
        /// The setup of the new session.
        setup: Setup,
        /// The last message to include; by default the fork ends with the last finished turn.
        at: Option<String>,
    },
    /// `session/list`.
    List {
        /// Only sessions with this working directory.
        cwd: Option<String>,
        /// The cursor that the previous page ended with.
        cursor: Option<String>,
        /// Whether archived sessions are listed.
        archived: ArchivedParam,
        /// How many sessions a page has, if the client may choose.
        limit: Option<usize>,
    },
    /// `_rethread/search`.
    Search(SearchParams),
    /// `_rethread/list/subscribe`.
    Subscribe(ListSubscription),
    /// `_rethread/list/unsubscribe`, with the id of the subscription.
    Unsubscribe(String),
    /// `_rethread/clients`: the clients of the server, or of one session.
    Clients(Option<String>),
    /// `_session/batch_get` of a JetBrains AIR client: the rows of these sessions.
    BatchGet(Vec<String>),
    /// `_rethread/read`, `_rethread/follow` and others that claim nothing.
    Reading(ReadingRequest),
    /// A request about one session.
    Session {
        /// The id of the session.
        session: String,
        /// The request itself.
        call: SessionRequest,
    },
    /// A request that is forwarded to the agent.
    Relay {
        /// The method as the client wrote it.
        method: String,
        /// The parameters as the client wrote them.
        params: Json,
    },
}

/// A request about one session.
#[derive(Debug)]
pub enum SessionRequest {
    /// `session/prompt`.
    Prompt {
        /// The content blocks.
        content: Json,
        /// The `_meta` of the request.
        meta: Option<Json>,
    },
    /// `session/set_config_option`, and in v1 also `session/set_mode` and `session/set_model`.
    SetOption {
        /// The option to change.
        option: OptionName,
        /// The new value: a string or a boolean.
        value: Json,
    },
    /// `session/set_title`.
    SetTitle(String),
    /// `session/close`: ends the live session and keeps its history.
    Close,
    /// `session/delete`: ends the live session and deletes its history.
    Delete,
    /// `session/archive`: ends the live session and hides it from lists.
    Archive,
    /// `session/unarchive`.
    Unarchive,
    /// `session/status`: asks whether the session is live.
    Status,
    /// `tool_call/cancel`, with the id of the tool call.
    CancelToolCall(String),
    /// `terminal/cancel`, with the id of the terminal.
    CancelTerminal(String),
}

/// The `archived` parameter of `session/list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchivedParam {
    /// Leaves archived sessions out.
    Exclude,
    /// Lists archived sessions among the others.
    Include,
    /// Lists only archived sessions.
    Only,
}

impl ArchivedParam {
    /// Reads the parameter.
    pub fn read(params: &Params) -> Result<Self, RpcError> {
        match params.optional_text("archived")?.as_deref() {
            None | Some("exclude") => Ok(Self::Exclude),
            Some("include") => Ok(Self::Include),
            Some("only") => Ok(Self::Only),
            Some(_) => Err(params.wrong("archived", "\"exclude\", \"include\" or \"only\"")),
        }
    }
}

/// How a request refers to an option.
#[derive(Debug)]
pub enum OptionName {
    /// By the id of the option.
    Id(String),
    /// By its category, with the name of the parameter: `session/set_mode` and `session/set_model`.
    Category(&'static str, &'static str),
}

/// The setup parameters of a session.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The working directory.
    pub cwd: String,
    /// The additional roots.
    pub roots: Vec<String>,
    /// The MCP servers in canonical form. They may contain secrets and are never stored.
    pub servers: Vec<Fields>,
    /// The system prompt as the client wrote it.
    pub system_prompt: Option<Json>,
    /// The `_meta` of the request.
    pub meta: Option<Json>,
    /// Whether the client is sent the updates of the session.
    pub updates: UpdateDelivery,
}

/// Whether a client is sent the updates of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateDelivery {
    /// It is.
    #[default]
    Sent,
    /// It is not: it gets only what it is asked, and the answers to its own requests.
    Withheld,
}

/// Which part of the history to replay when a client attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayFrom {
    /// No replay.
    Nothing,
    /// The whole history.
    Start,
    /// The history from this message on, including it.
    Message(String),
    /// What follows this entry: the client has been shown the rest by another host.
    After(Seq),
}

impl ClientRequest {
    /// Has a replay begin where another host left off, if it says so in `_meta.rethread.after`.
    pub fn replay_after(&mut self, params: Option<&RawValue>) {
        let after = Params::read(params).ok().and_then(|params| own_member(&params, "after"));
        if let (Self::Resume { replay, .. }, Some(Ok(after))) = (self, after.map(|after| after.read::<u64>()))
        {
            *replay = ReplayFrom::After(Seq(after));
        }
    }
}

impl ClientRequest {
    /// Decodes a request of a client that speaks `version`.
    pub fn decode(version: Version, method: &str, params: Option<&RawValue>) -> Result<Self, RpcError> {
        let read = Params::read(params)?;
        match (version, method) {
            (_, "session/new") => Ok(Self::New(setup(version, &read, ServersParam::Required)?)),
            (Version::V1, "session/load") => {
                resume(&read, version, ReplayFrom::Start, ServersParam::Required)
            }
            (Version::V1, "session/resume") => {
                resume(&read, version, ReplayFrom::Nothing, ServersParam::Optional)
            }
            // Not in the current draft of v2; clients of an earlier draft still send it.
            (Version::V2, "session/load") => {
                resume(&read, version, ReplayFrom::Start, ServersParam::Optional)
            }
            (Version::V2, "session/resume") => {
                resume(&read, version, replay_from(&read)?, ServersParam::Optional)
            }
            (_, "session/fork") => fork(&read, version),
            (_, "session/list") => Self::list(&read, ArchivedParam::read(&read)?, None),
            (_, SUBSCRIBE) => Ok(Self::Subscribe(ListSubscription::read(&read, CHANGES)?)),
            (_, UNSUBSCRIBE) => Ok(Self::Unsubscribe(read.text("subscriptionId")?)),
            (_, CLIENTS) => Ok(Self::Clients(read.optional_text("sessionId")?)),
            (_, SEARCH) => Ok(Self::Search(SearchParams::read(&read)?)),
            (_, method) if let Some(reading) = ReadingRequest::decode(method, &read)? => {
                Ok(Self::Reading(reading))
            }
            _ => match session_call(version, method, &read)? {
                Some(call) => Ok(Self::Session { session: read.text("sessionId")?, call }),
                None => relay(version, method, params),
            },
        }
    }
}

impl ClientRequest {
    /// Decodes `session/list` apart from what is given.
    pub(super) fn list(
        params: &Params,
        archived: ArchivedParam,
        limit: Option<usize>,
    ) -> Result<Self, RpcError> {
        let cwd = params.optional_text("cwd")?;
        if let Some(cwd) = &cwd {
            absolute("cwd", cwd)?;
        }
        Ok(Self::List { cwd, cursor: params.optional_text("cursor")?, archived, limit })
    }

    /// Decodes a request of an observer: what a session is to be opened with is not looked at.
    pub fn decode_observed(
        version: Version,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Self, RpcError> {
        let replay = |params: &Params| match (version, method) {
            (_, "session/load") => Ok(Some(ReplayFrom::Start)),
            (Version::V1, "session/resume") => Ok(Some(ReplayFrom::Nothing)),
            (Version::V2, "session/resume") => replay_from(params).map(Some),
            _ => Ok(None),
        };
        let read = Params::read(params)?;
        match replay(&read)? {
            Some(replay) => {
                let setup = Setup { updates: update_delivery(&read)?, ..Setup::default() };
                Ok(Self::Resume { session: read.text("sessionId")?, setup, replay })
            }
            None => Self::decode(version, method, params),
        }
    }
}

fn session_call(version: Version, method: &str, params: &Params) -> Result<Option<SessionRequest>, RpcError> {
    Ok(Some(match (version, method) {
        (_, "session/prompt") => prompt(params)?,
        (_, "session/set_title") => SessionRequest::SetTitle(params.text("title")?),
        (_, "session/close") => SessionRequest::Close,
        (_, "session/delete") => SessionRequest::Delete,
        (_, "session/archive") => SessionRequest::Archive,
        (_, "session/unarchive") => SessionRequest::Unarchive,
        (_, "session/status") => SessionRequest::Status,
        (_, "session/set_config_option") => set_option(version, params)?,
        (Version::V1, "session/set_mode") => by_category(params, "mode", "modeId")?,
        (Version::V1, "session/set_model") => by_category(params, "model", "modelId")?,
        (Version::V2, "tool_call/cancel") => SessionRequest::CancelToolCall(params.text("toolCallId")?),
        (Version::V2, "terminal/cancel") => SessionRequest::CancelTerminal(params.text("terminalId")?),
        _ => return Ok(None),
    }))
}

fn prompt(params: &Params) -> Result<SessionRequest, RpcError> {
    let content = params.get("prompt").ok_or_else(|| params.wrong("prompt", "an array"))?;
    let blocks = content.raw_items().ok_or_else(|| params.wrong("prompt", "an array"))?;
    if blocks.is_empty() {
        return Err(params.wrong("prompt", "at least one content block").hint("a prompt must not be empty"));
    }
    prompt_blocks::check(&blocks)?;
    Ok(SessionRequest::Prompt { content: content.clone(), meta: params.meta() })
}

fn by_category(
    params: &Params,
    category: &'static str,
    name: &'static str,
) -> Result<SessionRequest, RpcError> {
    let value = Json::of(&params.text(name)?);
    Ok(SessionRequest::SetOption { option: OptionName::Category(category, name), value })
}

fn set_option(version: Version, params: &Params) -> Result<SessionRequest, RpcError> {
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
    Ok(SessionRequest::SetOption { option, value })
}

/// Whether `mcpServers` is a required parameter.
#[derive(Clone, Copy)]
enum ServersParam {
    Required,
    Optional,
}

fn resume(
    params: &Params,
    version: Version,
    replay: ReplayFrom,
    servers: ServersParam,
) -> Result<ClientRequest, RpcError> {
    let session = params.text("sessionId")?;
    Ok(ClientRequest::Resume { session, setup: setup(version, params, servers)?, replay })
}

fn fork(params: &Params, version: Version) -> Result<ClientRequest, RpcError> {
    let session = params.text("sessionId")?;
    let at = match own_member(params, "atMessage") {
        None => None,
        Some(at) => Some(at.as_string().ok_or_else(|| {
            RpcError::field("_meta.rethread.atMessage", &at.value(), "the id of a message")
        })?),
    };
    Ok(ClientRequest::Fork { session, setup: setup(version, params, ServersParam::Optional)?, at })
}

fn setup(version: Version, params: &Params, servers: ServersParam) -> Result<Setup, RpcError> {
    let servers = servers_list(version, params, servers)?;
    let servers = servers.iter().enumerate().map(|(at, server)| read_server(version, at, server));
    Ok(Setup {
        cwd: params.path("cwd")?,
        roots: params.paths("additionalDirectories")?,
        servers: servers.collect::<Result<_, _>>()?,
        system_prompt: params.get("systemPrompt").cloned(),
        meta: params.meta(),
        updates: update_delivery(params)?,
    })
}

fn update_delivery(params: &Params) -> Result<UpdateDelivery, RpcError> {
    match own_member(params, "updates") {
        None => Ok(UpdateDelivery::Sent),
        Some(value) => match value.text() {
            "true" => Ok(UpdateDelivery::Sent),
            "false" => Ok(UpdateDelivery::Withheld),
            _ => Err(RpcError::field("_meta.rethread.updates", &value.value(), "true or false")),
        },
    }
}

/// A member of `_meta.rethread` that is not null.
fn own_member(params: &Params, name: &str) -> Option<Json> {
    let own = params.get("_meta").and_then(|meta| meta.fields().take("rethread"))?;
    own.fields().take(name).filter(|value| !value.is_null())
}

fn servers_list(version: Version, params: &Params, servers: ServersParam) -> Result<Vec<Json>, RpcError> {
    if params.get("mcpServers").is_some_and(|servers| servers.text().starts_with('{')) {
        return Err(params.wrong("mcpServers", "an array").hint(
            "did you mean an array of servers, each with its \"name\", instead of an object by name?",
        ));
    }
    match (version, servers) {
        (Version::V1, ServersParam::Required) if params.old_name("mcpServers").is_none() => params
            .items("mcpServers")
            .map_err(|error| error.hint("send \"mcpServers\": [] if there are none")),
        (Version::V1, ServersParam::Required) => params.items("mcpServers"),
        (Version::V1, ServersParam::Optional) | (Version::V2, _) => params.optional_items("mcpServers"),
    }
}

fn read_server(version: Version, at: usize, server: &Json) -> Result<Fields, RpcError> {
    let fields = server.fields();
    let named = fields.text("name").is_some();
    let tagged = fields.text("type").is_some();
    if !named || (version == Version::V2 && !tagged) {
        // The value may contain a secret, so the error does not quote it.
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

fn replay_from(params: &Params) -> Result<ReplayFrom, RpcError> {
    let Some(from) = params.get("replayFrom") else { return Ok(ReplayFrom::Nothing) };
    let fields = from.fields();
    match fields.text("type").as_deref() {
        Some("start") => Ok(ReplayFrom::Start),
        Some("_message") => match fields.text("messageId") {
            Some(message) => Ok(ReplayFrom::Message(message)),
            None => Err(params.wrong("replayFrom", "a messageId next to the type _message")),
        },
        Some(_) | None => Err(params.wrong("replayFrom", "{\"type\":\"start\"} or {\"type\":\"_message\"}")),
    }
}

/// Returns whether Rethread serves a method itself. All other methods are forwarded to the agent.
#[must_use]
pub fn is_ours(method: &str) -> bool {
    let ours = ["session/", "tool_call/", "terminal/", "fs/", "$/", "_rethread/"];
    ours.iter().any(|prefix| method.starts_with(prefix))
}

/// Forwards a method that Rethread does not serve; methods of the session surface are never forwarded.
fn relay(version: Version, method: &str, params: Option<&RawValue>) -> Result<ClientRequest, RpcError> {
    let other_version = match version {
        Version::V1 => ["auth/login", "auth/logout"],
        Version::V2 => ["authenticate", "logout"],
    };
    if method == "initialize" || is_ours(method) || other_version.contains(&method) {
        return Err(RpcError::unknown_method(method));
    }
    let params = params.map_or_else(|| Json::of(&Fields::new()), |raw| Json::from(raw.to_owned()));
    Ok(ClientRequest::Relay { method: method.to_owned(), params })
}
