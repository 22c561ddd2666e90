//! The reading half of an agent connection: routes each line to its session and each answer to its request. Recognizes
//! announcements of sub-agents, skips and logs output that is not a message, and leaves no request without an answer.

use std::borrow::Cow;

use bytes::Bytes;
use rethread_core::{AgentKind, Json};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};

use super::{AgentLine, AgentPeer, FromAgent, PeerRules, Pending};
use crate::agent::sessionless::{Expects, ProcessClients};
use crate::edge::own_meta;
use crate::lock::locked;
use crate::wire::{Id, Line, LineReader, LineTemplate, RpcError};

/// How many bytes of lines are kept for sessions whose id is not known yet.
const MAX_EARLY_BYTES: usize = 1024 * 1024;

/// The members of a line that decide where it goes.
#[derive(Deserialize)]
struct MessageHead<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<HeadParams<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// `null` is a valid result; only an object with neither member is not an answer.
fn present<'a, D: Deserializer<'a>>(value: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl<'a> MessageHead<'a> {
    /// Parses a line if it is a message. Agents may also print JSON logs.
    fn read(line: &'a [u8]) -> Option<Self> {
        let head: Self = serde_json::from_slice(line).ok()?;
        // Some agents answer without a result if there is nothing to report.
        let void = head.jsonrpc.is_some() && head.id.is_some();
        (head.method.is_some() || head.result.is_some() || head.error.is_some() || void).then_some(head)
    }

    /// The number of the request that an answer belongs to.
    fn number(&self) -> Option<u64> {
        // Some agents send the number back as a string. None of our ids is a string, so the meaning is clear.
        let id = self.id?;
        match id.get().starts_with('"') {
            true => serde_json::from_str::<Cow<str>>(id.get()).ok()?.parse().ok(),
            false => Id::read(id)?.as_number(),
        }
    }

    /// Returns whether an answer has no request id, such as an error for an unreadable request.
    fn is_empty(&self) -> bool {
        self.id.is_none_or(|id| id.get() == "null")
    }

    /// The outcome of an answer; `None` if the message is not an answer.
    fn outcome(&self) -> Option<Result<Json, RpcError>> {
        if self.method.is_some() {
            return None;
        }
        // Some agents write both members, with `null` for the one that does not apply.
        let error = self.error.filter(|error| self.result.is_none() || error.get() != "null");
        Some(match (self.result, error) {
            (_, Some(error)) => Err(RpcError::read(&Json::from(error.to_owned()))),
            (Some(result), None) => Ok(Json::from(result.to_owned())),
            (None, None) => Ok(Json::of(&())),
        })
    }
}

/// Whether a line is a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerExpected {
    Something,
    Nothing,
}

#[derive(Deserialize)]
struct HeadParams<'a> {
    #[serde(borrow, default, rename = "sessionId")]
    session: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    update: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestId")]
    about: Option<&'a RawValue>,
}

impl HeadParams<'_> {
    /// The session of a sub-agent that this line announces.
    fn child(&self) -> Option<String> {
        let update = self.update.filter(|update| update.get().contains("\"subagent_update\""))?;
        let update = Json::from(update.to_owned()).fields();
        update
            .text("sessionId")
            .filter(|_| update.text("sessionUpdate").as_deref() == Some("subagent_update"))
    }
}

/// The reading half of a peer.
pub(super) struct PeerReader {
    peer: AgentPeer,
    rules: PeerRules,
    clients: ProcessClients,
    early_lines: Vec<(String, Bytes)>,
    early_bytes: usize,
    batches: Vec<(mpsc::Sender<FromAgent>, Vec<AgentLine>)>,
    last: LastLine,
    /// The last notification with a text, and its session.
    last_text: Option<(LineTemplate, String)>,
}

/// What the previous line was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastLine {
    Message,
    Print,
}

impl PeerReader {
    pub(super) fn new(peer: AgentPeer, rules: PeerRules, clients: ProcessClients) -> Self {
        Self {
            peer,
            rules,
            clients,
            early_lines: Vec::new(),
            early_bytes: 0,
            batches: Vec::new(),
            last: LastLine::Message,
            last_text: None,
        }
    }

    pub(super) async fn run<R: AsyncRead + Unpin>(
        mut self,
        mut lines: LineReader<R>,
        ended: oneshot::Sender<()>,
    ) {
        while let Ok(Some(batch)) = lines.batch().await {
            for line in batch {
                match line {
                    Line::Text(bytes) => self.read_line(bytes),
                    Line::TooLong => tracing::warn!("skipped a line of the agent that was too long"),
                }
            }
            self.deliver().await;
        }
        // The task that watches the process reports the exit to the sessions.
        let _ = ended.send(());
    }

    /// Only here the store slows down the agent; sessions never wait for a client.
    async fn deliver(&mut self) {
        for (route, lines) in std::mem::take(&mut self.batches) {
            let _ = route.send(FromAgent::Lines(lines)).await;
        }
    }

    /// Removes `_meta.rethread`, which is trusted later, from lines of external agents, except from the answer to
    /// `initialize`.
    fn without_own_meta(&self, bytes: Bytes) -> Bytes {
        match self.rules.kind {
            AgentKind::InProcess => bytes,
            AgentKind::External if !own_meta::may_contain(&bytes) || self.is_initialize_answer(&bytes) => {
                bytes
            }
            AgentKind::External => own_meta::strip_line(bytes, &[]),
        }
    }

    /// Returns whether a line is the answer to `initialize`.
    fn is_initialize_answer(&self, line: &[u8]) -> bool {
        let Some(head) = MessageHead::read(line).filter(|head| head.method.is_none()) else { return false };
        let pending = locked(&self.peer.shared.pending);
        let asked = head.number().and_then(|number| pending.get(&number));
        matches!(asked, Some(Pending::Initialize(_)))
    }

    fn read_line(&mut self, bytes: Bytes) {
        if let Some((template, session)) =
            self.last_text.take_if(|(line, _)| line.content_of(&bytes).is_some())
        {
            self.message_came();
            self.deliver_line(&session, bytes, None, AnswerExpected::Nothing);
            self.last_text = Some((template, session));
            return;
        }
        self.parse_line(bytes);
    }

    fn parse_line(&mut self, bytes: Bytes) {
        let bytes = self.without_own_meta(bytes);
        let Some(head) = MessageHead::read(&bytes) else {
            // Shells and banners write to the same stream; such a line is never passed on.
            tracing::info!("skipped a line of the agent that is not a message");
            self.print(&String::from_utf8_lossy(&bytes));
            return;
        };
        if let Some(outcome) = head.outcome() {
            if let (true, Err(error)) = (head.is_empty(), &outcome) {
                self.print(&error.message);
                return;
            }
            self.message_came();
            self.answered(head.number(), outcome.map_err(|error| self.without_secrets(error)));
            return;
        }
        self.message_came();
        if head.method.as_deref() == Some("$/cancel_request") {
            // It has no session id: the session with that open request knows it.
            let routes: Vec<_> = locked(&self.peer.shared.routes).all().cloned().collect();
            for route in routes {
                self.collect(route, AgentLine::Message(bytes.clone()));
            }
        }
        let is_update = head.method.as_deref() == Some("session/update");
        let child = head.params.as_ref().and_then(HeadParams::child);
        let asks = if head.id.is_some() { AnswerExpected::Something } else { AnswerExpected::Nothing };
        let about = head.params.as_ref().and_then(|params| Id::read(params.about?)?.as_number());
        match head.params.and_then(|params| params.session) {
            Some(session) => {
                let session = session.into_owned();
                if asks == AnswerExpected::Nothing && child.is_none() && is_update {
                    self.last_text = LineTemplate::of(&bytes).map(|template| (template, session.clone()));
                }
                self.deliver_line(&session, bytes, child, asks);
            }
            // Sub-agents are announced by their parent, so a message without a session concerns the connection.
            None => {
                let expects = match asks {
                    AnswerExpected::Something => Expects::Answer(about),
                    AnswerExpected::Nothing => Expects::Nothing,
                };
                if self.clients.deliver(&bytes, &self.peer, expects).is_err() {
                    self.skip("skipped a message without a session that no client reads", &bytes);
                }
            }
        }
    }

    /// Errors are stored, logged and shown, and an agent may repeat secrets of its MCP servers in them.
    fn without_secrets(&self, error: RpcError) -> RpcError {
        let secrets = &self.rules.secrets;
        RpcError {
            code: error.code,
            message: secrets.redact(&error.message),
            data: error.data.map(|data| secrets.redact_json(&data)),
        }
    }

    /// Keeps the end of what is printed, which may explain a later failure.
    fn print(&mut self, line: &str) {
        let line = self.rules.secrets.redact(line);
        let mut printed = locked(&self.peer.shared.printed);
        printed.push(line.as_bytes());
        printed.push(b"\n");
        self.last = LastLine::Print;
    }

    /// Drops earlier output: an agent that goes on did not fail because of it.
    fn message_came(&mut self) {
        if self.last == LastLine::Print {
            locked(&self.peer.shared.printed).clear();
            self.last = LastLine::Message;
        }
    }

    /// Passes a line on to its session, or keeps it while a session is being opened.
    fn deliver_line(&mut self, session: &str, bytes: Bytes, child: Option<String>, asks: AnswerExpected) {
        let route = locked(&self.peer.shared.routes).get(session);
        match route {
            Some(route) => {
                // At once, since the sub-agent may send the next line.
                if let Some(child) = child
                    && let Err(error) = self.peer.route(&child, &route)
                {
                    tracing::warn!("messages of a sub-agent are skipped: {error}");
                }
                self.collect(route, AgentLine::Message(bytes));
            }
            // Requests are not kept: the agent may wait for the answer before it opens the session.
            None if asks == AnswerExpected::Nothing
                && self.opening()
                && self.early_bytes + bytes.len() <= MAX_EARLY_BYTES =>
            {
                self.early_bytes += bytes.len();
                // A copy, because the line is a slice of a large read buffer.
                self.early_lines.push((session.to_owned(), Bytes::copy_from_slice(&bytes)));
            }
            None => self.skip("skipped a line about a session that is not open", &bytes),
        }
    }

    fn skip(&self, why: &str, line: &[u8]) {
        tracing::info!("{why}");
        self.peer.refuse(line);
    }

    fn answered(&mut self, number: Option<u64>, outcome: Result<Json, RpcError>) {
        let Some(request) = number else { return };
        let pending = locked(&self.peer.shared.pending).remove(&request);
        match pending {
            Some(Pending::Session(route)) => self.collect(route, AgentLine::Answered { request, outcome }),
            Some(Pending::Opens(route)) => {
                let outcome = outcome.and_then(|result| {
                    if let Some(native) = result.fields().text("sessionId") {
                        self.peer.route(&native, &route)?;
                        self.claim_early_lines(&native, &route);
                    }
                    Ok(result)
                });
                self.collect(route, AgentLine::Answered { request, outcome });
                self.drop_early_lines();
            }
            Some(Pending::Once(waiting) | Pending::Initialize(waiting)) => {
                let _ = waiting.send(outcome);
            }
            None => {}
        }
    }

    fn claim_early_lines(&mut self, native: &str, route: &mpsc::Sender<FromAgent>) {
        for (session, bytes) in std::mem::take(&mut self.early_lines) {
            if session == native {
                self.early_bytes -= bytes.len();
                self.collect(route.clone(), AgentLine::Message(bytes));
            } else {
                self.early_lines.push((session, bytes));
            }
        }
    }

    /// Drops kept lines, which belong to no session of ours.
    fn drop_early_lines(&mut self) {
        if !self.opening() {
            self.early_lines = Vec::new();
            self.early_bytes = 0;
        }
    }

    fn opening(&self) -> bool {
        locked(&self.peer.shared.pending).values().any(|pending| matches!(pending, Pending::Opens(_)))
    }

    fn collect(&mut self, route: mpsc::Sender<FromAgent>, line: AgentLine) {
        match self.batches.iter_mut().find(|(other, _)| other.same_channel(&route)) {
            Some((_, lines)) => lines.push(line),
            None => self.batches.push((route, vec![line])),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(message: serde_json::Value) -> Bytes {
        Bytes::from(message.to_string())
    }

    #[tokio::test]
    async fn lines_of_unknown_sessions_are_kept_only_while_one_is_opened() {
        let rules = PeerRules {
            longest_line: 1024,
            kind: AgentKind::External,
            secrets: crate::secret::Secrets::default(),
        };
        let (peer, _wire) = AgentPeer::for_tests();
        let mut reader = PeerReader::new(peer.clone(), rules, ProcessClients::default());
        let (route, _lines) = mpsc::channel(16);
        let said = |session: &str| {
            let params = json!({"sessionId": session, "update": {}});
            line(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
        };
        for outcome in
            [json!({"result": {"sessionId": "mine"}}), json!({"error": {"code": 1, "message": "no"}})]
        {
            let request = peer.open("session/new", &json!({}).into(), &route).expect("it is taken");
            reader.read_line(said("mine"));
            reader.read_line(said("of nobody"));
            let mut answer = json!({"jsonrpc": "2.0", "id": request});
            let members = outcome.as_object().expect("an object").clone();
            answer.as_object_mut().expect("an object").extend(members);
            reader.read_line(line(answer));
            assert!(reader.early_lines.is_empty(), "{:?}", reader.early_lines);
            assert_eq!(reader.early_bytes, 0);
            peer.remove_route("mine", &route);
        }
    }
}
