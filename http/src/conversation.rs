//! What a client and its server have said, as far as it is needed to begin again on a server that has forgotten the client:
//! `initialize`, the open sessions and what was shown of them, and the requests that nobody has answered. Does no I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::remote::Envelope;
use crate::shown_session::{EarlierHistory, ShownSession};

/// The id of our own request to initialize again. Requests of the caller have numbers, or ids of another form.
const INITIALIZE_ID: &str = "rethread-again-initialize";
/// The same as JSON text.
const INITIALIZE_ID_TEXT: &str = "\"rethread-again-initialize\"";
/// Our own requests to load a session again have this and the session as their id.
const LOAD_ID: &str = "rethread-again-load ";
/// Requests that do the same when they are sent a second time.
const REPEATABLE: [&str; 4] = ["initialize", "session/list", "session/load", "session/resume"];
/// The error of a request that got lost.
const LOST: i64 = -32603;

/// What was said on a connection.
#[derive(Default)]
pub(crate) struct Conversation {
    /// How often it was begun again.
    life: u64,
    initialize: Option<Bytes>,
    version: u64,
    /// The caller's requests that are not answered, by the JSON text of their ids.
    requests: BTreeMap<String, CallerRequest>,
    /// The requests of the server that the caller has not answered, by the JSON text of the ids that the caller knows.
    asked: BTreeSet<String>,
    sessions: HashMap<String, OpenSession>,
    /// The ids of the loads that are under way on the new server, and their sessions.
    loading: HashMap<String, String>,
    begun: Begun,
}

/// How far a new beginning is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    /// The caller and the server speak with each other.
    #[default]
    Done,
    /// The server has not answered `initialize`.
    Initializing,
    /// Sessions are loaded.
    Loading,
    /// The server did not accept `initialize`.
    Refused,
}

struct CallerRequest {
    method: String,
    session: Option<String>,
    /// The message itself, if it opens a session or can be sent again.
    message: Bytes,
}

struct OpenSession {
    /// The parameters to open it with.
    setup: Value,
    shown: ShownSession,
}

/// What follows from a message of the server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) to_caller: Vec<Bytes>,
    pub(crate) to_server: Vec<Bytes>,
}

impl Conversation {
    /// Notes a message of the caller. Nothing if it is an answer to a server that is gone.
    pub(crate) fn sent(&mut self, message: Bytes) -> Option<Bytes> {
        let text = message.clone();
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(&text) else { return Some(message) };
        match (envelope.id, envelope.method.as_deref()) {
            (Some(id), Some(method)) => {
                let session = envelope.session();
                self.note_request(id.get().to_owned(), method.to_owned(), session, &message);
                Some(message)
            }
            (Some(id), None) => {
                self.asked.remove(id.get());
                self.answer_to_server(id.get(), message)
            }
            (None, _) => Some(message),
        }
    }

    fn note_request(&mut self, id: String, method: String, session: Option<String>, message: &Bytes) {
        let opens = matches!(method.as_str(), "session/new" | "session/fork");
        let kept = opens || REPEATABLE.contains(&method.as_str());
        match (method.as_str(), &session) {
            ("initialize", _) => self.initialize = Some(message.clone()),
            ("session/load" | "session/resume", Some(session)) => {
                let params = params_of(message);
                let earlier = match method == "session/load" || !params["replayFrom"].is_null() {
                    true => EarlierHistory::Shown,
                    false => EarlierHistory::Hidden,
                };
                let opened = OpenSession { setup: setup_of(&params), shown: ShownSession::new(earlier) };
                self.sessions.insert(session.clone(), opened);
            }
            ("session/prompt", Some(session)) if self.version == 1 => {
                if let Some(open) = self.sessions.get_mut(session) {
                    open.shown.prompted(&params_of(message)["prompt"]);
                }
            }
            _ => {}
        }
        let message = if kept { message.clone() } else { Bytes::new() };
        self.requests.insert(id, CallerRequest { method, session, message });
    }

    /// The ids of requests begin again on each server, so the caller knows them by other ones from the second server on.
    fn answer_to_server(&self, id: &str, message: Bytes) -> Option<Bytes> {
        if self.life == 0 {
            return Some(message);
        }
        let own: String = serde_json::from_str(id).ok()?;
        let theirs = own.strip_prefix(&self.id_prefix())?;
        let theirs: Value = serde_json::from_str(theirs).ok()?;
        Some(with_member(&message, "id", theirs))
    }

    fn id_prefix(&self) -> String {
        format!("rethread-{} ", self.life)
    }

    /// Notes a message of the server.
    pub(crate) fn received(&mut self, message: Bytes) -> Heard {
        let text = message.clone();
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(&text) else { return passed(message) };
        match (envelope.id, envelope.method.as_deref()) {
            (_, Some("session/update")) => self.update(envelope.session(), message),
            (Some(id), Some(_)) => passed(self.ask_caller(id.get(), message)),
            (None, Some("$/cancel_request")) if self.life > 0 => passed(self.withdraw(&message)),
            (Some(id), None) => self.answered(id.get(), message),
            (None, _) => passed(message),
        }
    }

    fn ask_caller(&mut self, id: &str, message: Bytes) -> Bytes {
        if self.life == 0 {
            self.asked.insert(id.to_owned());
            return message;
        }
        let own = json!(format!("{}{id}", self.id_prefix()));
        self.asked.insert(own.to_string());
        with_member(&message, "id", own)
    }

    /// The server does not need an answer any more.
    fn withdraw(&self, message: &Bytes) -> Bytes {
        let mut params = params_of(message);
        let own = format!("{}{}", self.id_prefix(), params["requestId"]);
        params["requestId"] = json!(own);
        with_member(message, "params", params)
    }

    fn update(&mut self, session: Option<String>, message: Bytes) -> Heard {
        let Some(session) = session else { return passed(message) };
        let is_loading = self.begun == Begun::Loading
            && (self.loading.values().any(|loading| *loading == session)
                || !self.sessions.contains_key(&session));
        let open = self.sessions.entry(session).or_insert_with(|| OpenSession {
            // A sub-agent's session, which is opened with that of its parent.
            setup: Value::Null,
            shown: ShownSession::new(EarlierHistory::Shown),
        });
        let mut params = params_of(&message);
        match open.shown.show(params["update"].take()) {
            Some(_) if !is_loading => passed(message),
            Some(update) => {
                params["update"] = update;
                passed(with_member(&message, "params", params))
            }
            None => Heard::default(),
        }
    }

    fn answered(&mut self, id: &str, message: Bytes) -> Heard {
        if id == INITIALIZE_ID_TEXT {
            return self.initialized_again(&message);
        }
        let held_back = self.loaded(id);
        let own = id.starts_with(&format!("\"{LOAD_ID}"));
        if let Some(request) = self.requests.remove(id) {
            self.note_answer(&request, &message);
        }
        let mut heard = Heard { to_caller: held_back, to_server: Vec::new() };
        if !own {
            heard.to_caller.push(message);
        }
        heard
    }

    fn note_answer(&mut self, request: &CallerRequest, message: &Bytes) {
        let answer: Value = serde_json::from_slice(message).unwrap_or_default();
        let failed = answer.get("error").is_some();
        match (request.method.as_str(), &request.session) {
            ("initialize", _) => {
                self.version = answer["result"]["protocolVersion"].as_u64().unwrap_or(1);
            }
            ("session/new" | "session/fork", _) if !failed => {
                let Some(session) = answer["result"]["sessionId"].as_str() else { return };
                let earlier = match request.method == "session/new" {
                    true => EarlierHistory::Shown,
                    false => EarlierHistory::Hidden,
                };
                let setup = setup_of(&params_of(&request.message));
                let new = || OpenSession { setup: Value::Null, shown: ShownSession::new(earlier) };
                // There may have been updates before the answer.
                self.sessions.entry(session.to_owned()).or_insert_with(new).setup = setup;
            }
            ("session/load" | "session/resume", Some(session)) if failed => {
                self.sessions.remove(session);
            }
            ("session/close" | "session/delete" | "session/archive", Some(session)) if !failed => {
                self.sessions.remove(session);
            }
            _ => {}
        }
    }

    /// The server has forgotten the client. What the caller is told: its requests are lost, except those that can be sent
    /// again, and it need not answer those of the server.
    pub(crate) fn lost(&mut self) -> Vec<Bytes> {
        let asked = std::mem::take(&mut self.asked);
        let mut told: Vec<Bytes> = asked.iter().map(|id| cancel(id)).collect();
        let (repeatable, lost): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.requests)
            .into_iter()
            .partition(|(_, request)| REPEATABLE.contains(&request.method.as_str()));
        let sessions: Vec<String> = self.sessions.keys().cloned().collect();
        told.extend(sessions.iter().flat_map(|session| self.finish(session)));
        told.extend(lost.into_iter().map(|(id, request)| lost_answer(&id, &request.method)));
        self.requests = repeatable;
        self.loading.clear();
        self.begun = Begun::Initializing;
        told
    }

    /// What is sent first on a new connection.
    pub(crate) fn begin_again(&mut self) -> Vec<Bytes> {
        self.life += 1;
        let Some(initialize) = &self.initialize else {
            self.begun = Begun::Done;
            return Vec::new();
        };
        if self.requests.values().any(|request| request.method == "initialize") {
            // The caller waits for the answer itself, and nothing else was said.
            self.begun = Begun::Done;
            return vec![initialize.clone()];
        }
        self.begun = Begun::Initializing;
        vec![with_member(initialize, "id", json!(INITIALIZE_ID))]
    }

    /// Whether the caller's messages have to wait.
    pub(crate) fn is_beginning(&self) -> bool {
        self.begun != Begun::Done
    }

    /// Whether the server did not accept `initialize`.
    pub(crate) fn is_refused(&self) -> bool {
        self.begun == Begun::Refused
    }

    fn initialized_again(&mut self, answer: &Bytes) -> Heard {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        if answer.get("error").is_some() {
            self.begun = Begun::Refused;
            return Heard::default();
        }
        self.begun = Begun::Loading;
        let mut to_server = Vec::new();
        for (session, open) in &mut self.sessions {
            // A load of the caller is repeated as it was.
            let own = self.requests.iter().find(|(_, request)| request.session.as_ref() == Some(session));
            let id = match own {
                Some((id, _)) => id.clone(),
                None if open.setup.is_null() => continue,
                None => {
                    let id = format!("{LOAD_ID}{session}");
                    to_server.push(load(self.version, session, &id, &open.setup));
                    json!(id).to_string()
                }
            };
            self.loading.insert(id, session.clone());
        }
        // Of sub-agents, too.
        self.sessions.values_mut().for_each(|open| open.shown.begin_again());
        to_server.extend(self.requests.values().map(|request| request.message.clone()));
        Heard { to_caller: self.all_loaded(), to_server }
    }

    /// Ends the load with this id. Gives what was held back of the session.
    fn loaded(&mut self, id: &str) -> Vec<Bytes> {
        let Some(session) = self.loading.remove(id) else { return Vec::new() };
        let mut held_back = self.finish(&session);
        held_back.extend(self.all_loaded());
        held_back
    }

    /// When nothing is loaded any more, the sessions of sub-agents are complete, too.
    fn all_loaded(&mut self) -> Vec<Bytes> {
        if !self.loading.is_empty() || self.begun != Begun::Loading {
            return Vec::new();
        }
        self.begun = Begun::Done;
        let sessions: Vec<String> = self.sessions.keys().cloned().collect();
        sessions.iter().flat_map(|session| self.finish(session)).collect()
    }

    fn finish(&mut self, session: &str) -> Vec<Bytes> {
        let Some(open) = self.sessions.get_mut(session) else { return Vec::new() };
        let updates = open.shown.finish_again().into_iter();
        updates
            .map(|update| notification("session/update", &json!({"sessionId": session, "update": update})))
            .collect()
    }
}

fn passed(message: Bytes) -> Heard {
    Heard { to_caller: vec![message], to_server: Vec::new() }
}

fn params_of(message: &[u8]) -> Value {
    let mut message: Value = serde_json::from_slice(message).unwrap_or_default();
    message["params"].take()
}

/// Of the parameters that opened a session those that open it again.
fn setup_of(params: &Value) -> Value {
    let mut setup = json!({});
    for name in ["cwd", "mcpServers", "additionalDirectories", "_meta"] {
        if let Some(value) = params.get(name) {
            setup[name] = value.clone();
        }
    }
    setup
}

fn load(version: u64, session: &str, id: &str, setup: &Value) -> Bytes {
    let mut params = setup.clone();
    params["sessionId"] = json!(session);
    let method = if version == 1 { "session/load" } else { "session/resume" };
    if version != 1 {
        params["replayFrom"] = json!({"type": "start"});
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().into()
}

fn with_member(message: &[u8], name: &str, value: Value) -> Bytes {
    let mut message: Value = serde_json::from_slice(message).unwrap_or_default();
    message[name] = value;
    message.to_string().into()
}

fn cancel(id: &str) -> Bytes {
    let id: Value = serde_json::from_str(id).unwrap_or_default();
    notification("$/cancel_request", &json!({"requestId": id}))
}

fn notification(method: &str, params: &Value) -> Bytes {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().into()
}

fn lost_answer(id: &str, method: &str) -> Bytes {
    let id: Value = serde_json::from_str(id).unwrap_or_default();
    let message = "the connection to the server was lost, and the server does not know it any more";
    let hint = match method {
        "session/prompt" => "what was said is kept in the session; send the prompt again if it is not there",
        _ => "try again",
    };
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": LOST, "message": message, "data": {"hint": hint}}})
        .to_string()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(message: Value) -> Bytes {
        message.to_string().into()
    }

    fn request(id: u64, method: &str, params: Value) -> Bytes {
        bytes(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    fn answer(id: Value, result: Value) -> Bytes {
        bytes(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn chunk(text: &str) -> Bytes {
        let content = json!({"type": "text", "text": text});
        let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content});
        notification("session/update", &json!({"sessionId": "s", "update": update}))
    }

    fn values(messages: &[Bytes]) -> Vec<Value> {
        messages.iter().map(|message| serde_json::from_slice(message).unwrap()).collect()
    }

    /// A conversation of this version with the open session `s` and the open prompt 3.
    fn prompted(version: u64) -> Conversation {
        let mut conversation = Conversation::default();
        conversation.sent(request(1, "initialize", json!({"protocolVersion": version}))).unwrap();
        conversation.received(answer(json!(1), json!({"protocolVersion": version})));
        conversation
            .sent(request(2, "session/new", json!({"cwd": "/w", "mcpServers": [], "other": 1})))
            .unwrap();
        conversation.received(answer(json!(2), json!({"sessionId": "s"})));
        let prompt = json!([{"type": "text", "text": "hi"}]);
        conversation.sent(request(3, "session/prompt", json!({"sessionId": "s", "prompt": prompt}))).unwrap();
        assert_eq!(conversation.received(chunk("one")), passed(chunk("one")));
        conversation
    }

    #[test]
    fn open_requests_of_both_sides_end_with_the_server() {
        let mut conversation = prompted(1);
        conversation.received(request(7, "session/request_permission", json!({"sessionId": "s"})));
        conversation.sent(request(4, "session/list", json!({}))).unwrap();
        let told = values(&conversation.lost());
        assert_eq!(told[0]["method"], "$/cancel_request");
        assert_eq!(told[0]["params"]["requestId"], 7);
        assert_eq!((&told[1]["id"], &told[1]["error"]["code"]), (&json!(3), &json!(-32603)));
        assert_eq!(told.len(), 2, "a list is asked for again");
        let first = values(&conversation.begin_again());
        assert_eq!((first[0]["method"].as_str(), first.len()), (Some("initialize"), 1));
        assert!(conversation.is_beginning());
        let heard = conversation.received(answer(first[0]["id"].clone(), json!({"protocolVersion": 1})));
        assert_eq!(heard.to_caller, Vec::<Bytes>::new());
        let then = values(&heard.to_server);
        let load = json!({"cwd": "/w", "mcpServers": [], "sessionId": "s"});
        assert_eq!((&then[0]["method"], &then[0]["params"]), (&json!("session/load"), &load));
        assert_eq!((&then[1]["method"], &then[1]["id"]), (&json!("session/list"), &json!(4)));
        assert_eq!(values(&conversation.received(chunk("one two")).to_caller), values(&[chunk(" two")]));
        assert_eq!(conversation.received(answer(then[0]["id"].clone(), json!({}))), Heard::default());
        assert!(!conversation.is_beginning());
        assert_eq!(conversation.received(chunk("two")), passed(chunk("two")), "live again");
    }

    #[test]
    fn a_version_2_session_is_resumed_with_its_replay() {
        let mut conversation = prompted(2);
        conversation.lost();
        let first = values(&conversation.begin_again());
        let heard = conversation.received(answer(first[0]["id"].clone(), json!({"protocolVersion": 2})));
        let then = values(&heard.to_server);
        assert_eq!(then[0]["method"], "session/resume");
        assert_eq!(then[0]["params"]["replayFrom"], json!({"type": "start"}));
    }

    #[test]
    fn ids_of_the_new_server_are_not_those_of_the_old_one() {
        let mut conversation = prompted(1);
        conversation.received(request(1, "session/request_permission", json!({})));
        conversation.lost();
        let first = values(&conversation.begin_again());
        conversation.received(answer(first[0]["id"].clone(), json!({})));
        conversation.received(answer(json!(format!("{LOAD_ID}s")), json!({})));
        let asked =
            values(&conversation.received(request(1, "session/request_permission", json!({}))).to_caller);
        let id = asked[0]["id"].clone();
        assert_ne!(id, json!(1));
        assert_eq!(conversation.sent(answer(json!(1), json!({}))), None, "an answer to the old server");
        let cancel = notification("$/cancel_request", &json!({"requestId": 1}));
        assert_eq!(values(&conversation.received(cancel).to_caller)[0]["params"]["requestId"], id);
        let answered = conversation.sent(answer(id, json!({"ok": true}))).unwrap();
        assert_eq!(values(&[answered]), values(&[answer(json!(1), json!({"ok": true}))]));
    }

    #[test]
    fn a_server_that_goes_away_again_loses_nothing() {
        let mut conversation = prompted(1);
        for (replayed, new) in [("one two", " two"), ("one two three", " three")] {
            conversation.lost();
            let first = values(&conversation.begin_again());
            conversation.received(answer(first[0]["id"].clone(), json!({"protocolVersion": 1})));
            assert_eq!(values(&conversation.received(chunk(replayed)).to_caller), values(&[chunk(new)]));
        }
        let refused =
            json!({"jsonrpc": "2.0", "id": INITIALIZE_ID, "error": {"code": -32603, "message": "no"}});
        conversation.lost();
        conversation.begin_again();
        conversation.received(bytes(refused));
        assert!(conversation.is_refused());
    }

    #[test]
    fn closed_sessions_are_not_loaded_again() {
        let mut conversation = prompted(1);
        conversation.sent(request(5, "session/close", json!({"sessionId": "s"}))).unwrap();
        conversation.received(answer(json!(5), json!({})));
        conversation.lost();
        let first = values(&conversation.begin_again());
        let heard = conversation.received(answer(first[0]["id"].clone(), json!({})));
        assert_eq!(heard, Heard::default());
        assert!(!conversation.is_beginning());
    }
}
