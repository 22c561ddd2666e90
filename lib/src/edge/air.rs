//! The JetBrains AIR extension, for clients that declare it in the `_meta` of their capabilities: what they may ask for
//! beside the protocol, and what their requests mean.

use rethread_core::{Fields, Json};
use serde_json::json;
use serde_json::value::RawValue;

use super::capabilities::ClientProfile;
use super::client_request::{ArchivedParam, ClientRequest, SessionRequest};
use super::list_subscription::ListSubscription;
use super::params::Params;
use crate::wire::RpcError;

/// The version of the extension.
const VERSION: u64 = 1;
/// The capability of clients that use an index of sessions.
const SESSION_INDEX: &str = "sessionIndex";
/// What such a client is told that there is.
const INDEX: [&str; 5] =
    [SESSION_INDEX, "sessionBatchGet", "sessionArchive", "sessionRename", "sessionListSubscribe"];
/// What only an agent with an index of its own can have. Clients get ours.
const NOT_OURS: &str = "sessionWorktrees";
/// The capability of clients that want to know where a replay ends.
const LOAD_REPLAY_END: &str = "loadReplayEnd";
/// The notification with changes of the list.
const AIR_CHANGES: &str = "_session/list/changes";
/// How many sessions are asked for at once.
const MOST_IDS: usize = 200;
/// How many rows a list has if the client does not say.
const USUAL_ROWS: usize = 50;

/// What a client has declared of the extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AirClient {
    capabilities: Vec<String>,
}

impl AirClient {
    /// Reads the `_meta` of a client's capabilities; nothing if the client does not declare the extension.
    #[must_use]
    pub fn read(capabilities: &Fields) -> Option<Self> {
        let air = air_of(&capabilities.get("_meta")?.fields())?;
        if air.is_empty() {
            return None;
        }
        let version = air.get("version").and_then(|version| version.read::<u64>().ok());
        // Without a version it is such a client, but what it can do is not known.
        let listed = air.get("capabilities").filter(|_| version.is_some_and(|version| version >= VERSION));
        let capabilities = listed.and_then(Json::items).unwrap_or_default();
        Some(Self { capabilities: capabilities.iter().filter_map(Json::as_string).collect() })
    }

    fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    /// Says whether the client uses an index of sessions.
    #[must_use]
    pub fn has_session_index(&self) -> bool {
        self.has(SESSION_INDEX)
    }

    /// Adds to the `_meta` of the `initialize` answer what the client can use here, beside what its agent has.
    pub fn announce(&self, meta: &mut Fields) {
        if !self.has_session_index() {
            return;
        }
        let mut jetbrains = meta.get("jetbrains").map(Json::fields).unwrap_or_default();
        let mut air = jetbrains.get("air").map(Json::fields).unwrap_or_default();
        let of_agent = air.get("capabilities").and_then(Json::items).unwrap_or_default();
        let of_agent = of_agent.iter().filter_map(Json::as_string);
        let others = of_agent.filter(|name| !INDEX.contains(&name.as_str()) && name != NOT_OURS);
        let all: Vec<String> = others.chain(INDEX.map(str::to_owned)).collect();
        air.set("version", Json::of(&VERSION));
        air.set("capabilities", Json::of(&all));
        jetbrains.set("air", air.json());
        meta.set("jetbrains", jetbrains.json());
    }

    /// The update that ends a replay, if the client wants it.
    #[must_use]
    pub fn replay_end(&self) -> Option<Json> {
        let update = || {
            let meta = json!({"jetbrains": {"air": {"loadReplayEnd": true}}});
            json!({"sessionUpdate": "session_info_update", "_meta": meta}).into()
        };
        self.has(LOAD_REPLAY_END).then(update)
    }
}

/// Decodes a request that only the extension has; nothing if it is none for this client.
pub fn decode(
    client: &ClientProfile,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Option<ClientRequest>, RpcError> {
    if !client.air().is_some_and(AirClient::has_session_index) {
        return Ok(None);
    }
    let read = Params::read(params)?;
    let about = |call| Ok(Some(ClientRequest::Session { session: read.text("sessionId")?, call }));
    match method {
        "_session/list/subscribe" => {
            let (cwd, archived) = (Some(read.path("cwd")?), ArchivedParam::Include);
            Ok(Some(ClientRequest::Subscribe(ListSubscription { cwd, archived, method: AIR_CHANGES })))
        }
        "_session/list/unsubscribe" => Ok(Some(ClientRequest::Unsubscribe(read.text("subscriptionId")?))),
        "_session/rename" => match read.text("title")? {
            title if title.trim().is_empty() => Err(read.wrong("title", "a title")),
            title => about(SessionRequest::SetTitle(title)),
        },
        "_session/archive" => about(SessionRequest::Archive),
        "_session/unarchive" => about(SessionRequest::Unarchive),
        "_session/batch_get" => batch_get(&read).map(Some),
        "session/list" => list(&read).map(Some),
        _ => Ok(None),
    }
}

/// What a request of the protocol means if such a client sends it.
#[must_use]
pub fn adapt(client: &ClientProfile, mut call: ClientRequest) -> ClientRequest {
    let Some(air) = client.air() else { return call };
    if let ClientRequest::Fork { setup, at, .. } = &mut call
        && at.is_none()
    {
        *at = setup.meta.as_ref().and_then(|meta| fork_message(&meta.fields()));
    }
    // For a client without an index this is the only way to put a session aside; it does not mean to lose it.
    if let ClientRequest::Session { call: about, .. } = &mut call
        && matches!(about, SessionRequest::Delete)
        && !air.has_session_index()
    {
        *about = SessionRequest::Archive;
    }
    call
}

/// The extension's part of a `_meta`.
fn air_of(meta: &Fields) -> Option<Fields> {
    let jetbrains = meta.get("jetbrains").map(Json::fields)?;
    jetbrains.get("air").map(Json::fields)
}

/// The message that a fork ends with.
fn fork_message(meta: &Fields) -> Option<String> {
    air_of(meta)?.get("fork").map(Json::fields)?.text("messageId")
}

fn batch_get(params: &Params) -> Result<ClientRequest, RpcError> {
    let ids = params.items("sessionIds")?;
    if ids.len() > MOST_IDS {
        return Err(params.wrong("sessionIds", &format!("at most {MOST_IDS} ids")));
    }
    let ids: Option<Vec<String>> = ids.iter().map(Json::as_string).collect();
    Ok(ClientRequest::BatchGet(ids.ok_or_else(|| params.wrong("sessionIds", "an array of strings"))?))
}

/// The list of an index. What is asked for is in `_meta.jetbrains.air.list`.
fn list(params: &Params) -> Result<ClientRequest, RpcError> {
    let air = params.meta().and_then(|meta| air_of(&meta.fields())).unwrap_or_default();
    let list = air.get("list").map(Json::fields).unwrap_or_default();
    let member = |name: &str| list.get(name).filter(|value| !value.is_null());
    let wrong = |name: &str, expected: &str| {
        let got = member(name).map(Json::value).unwrap_or_default();
        Err(RpcError::field(&format!("_meta.jetbrains.air.list.{name}"), &got, expected))
    };
    let archived = match member("archived").map(Json::as_string) {
        None => ArchivedParam::read(params)?,
        Some(words) => match words.as_deref() {
            Some("unarchived") => ArchivedParam::Exclude,
            Some("all") => ArchivedParam::Include,
            Some("archived") => ArchivedParam::Only,
            Some(_) | None => return wrong("archived", "\"unarchived\", \"archived\" or \"all\""),
        },
    };
    let limit = match member("limit").map(Json::read::<u64>) {
        None => USUAL_ROWS,
        Some(Ok(limit)) if limit > 0 => usize::try_from(limit).unwrap_or(usize::MAX).min(MOST_IDS),
        Some(Ok(_) | Err(_)) => return wrong("limit", "a number from 1 on"),
    };
    // Sessions are listed by their directory; worktrees of the same repository are not looked for.
    if member("includeWorktrees").is_some_and(|value| value.read::<bool>().is_err()) {
        return wrong("includeWorktrees", "true or false");
    }
    ClientRequest::list(params, archived, Some(limit))
}
