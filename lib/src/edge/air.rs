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

/// The capability of clients that use an index of sessions.
const SESSION_INDEX: &str = "sessionIndex";
/// The capability of clients that want to know where a replay ends.
const LOAD_REPLAY_END: &str = "loadReplayEnd";
/// The notification with changes of the list.
const AIR_CHANGES: &str = "_session/list/changes";
/// How many sessions are asked for at once.
const MOST_IDS: usize = 200;

/// What a client has declared of the extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AirClient {
    capabilities: Vec<String>,
}

impl AirClient {
    /// Reads the `_meta` of a client's capabilities; nothing if the client does not declare the extension.
    #[must_use]
    pub fn read(capabilities: &Fields) -> Option<Self> {
        let member = |from: &Fields, name: &str| from.get(name).map(Json::fields);
        let air = member(&member(&member(capabilities, "_meta")?, "jetbrains")?, "air")?;
        if air.is_empty() {
            return None;
        }
        let capabilities = air.get("capabilities").and_then(Json::items).unwrap_or_default();
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
            Ok(Some(ClientRequest::Subscribe(ListSubscription::read(&read, AIR_CHANGES)?)))
        }
        "_session/list/unsubscribe" => Ok(Some(ClientRequest::Unsubscribe(read.text("subscriptionId")?))),
        "_session/rename" => about(SessionRequest::SetTitle(read.text("title")?)),
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

/// The message that a fork ends with.
fn fork_message(meta: &Fields) -> Option<String> {
    let member = |from: &Fields, name: &str| from.get(name).map(Json::fields);
    let air = member(&member(meta, "jetbrains")?, "air")?;
    member(&air, "fork")?.text("messageId")
}

fn batch_get(params: &Params) -> Result<ClientRequest, RpcError> {
    let ids = params.items("sessionIds")?;
    if ids.len() > MOST_IDS {
        return Err(params.wrong("sessionIds", &format!("at most {MOST_IDS} ids")));
    }
    let ids: Option<Vec<String>> = ids.iter().map(Json::as_string).collect();
    Ok(ClientRequest::BatchGet(ids.ok_or_else(|| params.wrong("sessionIds", "an array of strings"))?))
}

/// The list of an index: its size can be chosen, and the archive has other words. Both may also be in `_meta.jetbrains.air`.
fn list(params: &Params) -> Result<ClientRequest, RpcError> {
    let meta = params.meta().map(|meta| meta.fields()).unwrap_or_default();
    let jetbrains = meta.get("jetbrains").map(Json::fields).unwrap_or_default();
    let air = jetbrains.get("air").map(Json::fields).unwrap_or_default();
    let member = |name: &str| params.get(name).or_else(|| air.get(name).filter(|value| !value.is_null()));
    let archived = match member("archived").map(Json::as_string) {
        None => ArchivedParam::Exclude,
        Some(words) => match words.as_deref() {
            Some("unarchived" | "exclude") => ArchivedParam::Exclude,
            Some("all" | "include") => ArchivedParam::Include,
            Some("archived" | "only") => ArchivedParam::Only,
            Some(_) | None => {
                return Err(params.wrong("archived", "\"unarchived\", \"archived\" or \"all\""));
            }
        },
    };
    let limit = match member("limit") {
        None => None,
        Some(limit) => match limit.read::<u64>() {
            Ok(limit) if limit > 0 => Some(usize::try_from(limit).unwrap_or(usize::MAX).min(MOST_IDS)),
            Ok(_) | Err(_) => return Err(params.wrong("limit", "a number from 1 on")),
        },
    };
    ClientRequest::list(params, archived, limit)
}
