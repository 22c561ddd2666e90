//! The reading half of the connection to an agent: each line to the session it speaks of, each answer to who waits
//! for it. Knows how sub-agents are announced; what is no message is noted and skipped, and no request is left
//! without an answer.

use std::borrow::Cow;

use bytes::Bytes;
use rethread_core::{AgentKind, Json};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};

use super::{AgentLine, AgentPeer, FromAgent, PeerRules, Pending};
use crate::agent::sessionless::{Expects, ProcessClients};
use crate::edge::marks;
use crate::lock::locked;
use crate::wire::{Id, Line, LineReader, RpcError};

/// How many bytes of lines are kept for a session whose id is not known yet.
const STRAYS: usize = 1024 * 1024;

/// Just enough of a line to know where it goes.
#[derive(Deserialize)]
struct Head<'a> {
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

/// `null` is a result too; only what has neither member is no answer.
fn present<'a, D: Deserializer<'a>>(value: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl<'a> Head<'a> {
    /// Reads a line, if it is a message at all: logs in JSON come the same way.
    fn read(line: &'a [u8]) -> Option<Self> {
        let head: Self = serde_json::from_slice(line).ok()?;
        // Some answers that have nothing to tell have no result.
        let void = head.jsonrpc.is_some() && head.id.is_some();
        (head.method.is_some() || head.result.is_some() || head.error.is_some() || void).then_some(head)
    }

    /// The number of the request that an answer is for.
    fn number(&self) -> Option<u64> {
        // Some agents answer with the number as a string. No id of ours is a string, so that it means the same.
        let id = self.id?;
        let text = serde_json::from_str::<String>(id.get()).ok();
        text.map_or_else(|| Id::read(id)?.as_number(), |text| text.parse().ok())
    }

    /// Says whether an answer names no request: an error so, where the agent could not read what it was asked.
    fn is_about_nothing(&self) -> bool {
        self.id.is_none_or(|id| id.get() == "null")
    }

    /// What an answer says; nothing if it is none.
    fn outcome(&self) -> Option<Result<Json, RpcError>> {
        if self.method.is_some() {
            return None;
        }
        // Some write both members, and `null` for the one that is not meant.
        let error = self.error.filter(|error| self.result.is_none() || error.get() != "null");
        Some(match (self.result, error) {
            (_, Some(error)) => Err(RpcError::read(&Json::from(error.to_owned()))),
            (Some(result), None) => Ok(Json::from(result.to_owned())),
            (None, None) => Ok(Json::of(&())),
        })
    }
}

/// Whether a line waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
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
    /// The session of a sub-agent that is announced here.
    fn child(&self) -> Option<String> {
        let update = self.update.filter(|update| update.get().contains("\"subagent_update\""))?;
        let update = Json::from(update.to_owned()).fields();
        update
            .text("sessionId")
            .filter(|_| update.text("sessionUpdate").as_deref() == Some("subagent_update"))
    }
}

/// The reading half.
pub(super) struct Hearing {
    peer: AgentPeer,
    rules: PeerRules,
    clients: ProcessClients,
    strays: Vec<(String, Bytes)>,
    stray_bytes: usize,
    batches: Vec<(mpsc::Sender<FromAgent>, Vec<AgentLine>)>,
    last: Last,
}

/// What the last line was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Message,
    Print,
}

impl Hearing {
    pub(super) fn new(peer: AgentPeer, rules: PeerRules, clients: ProcessClients) -> Self {
        Self {
            peer,
            rules,
            clients,
            strays: Vec::new(),
            stray_bytes: 0,
            batches: Vec::new(),
            last: Last::Message,
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
                    Line::Text(bytes) => self.hear(bytes),
                    Line::TooLong => self.rules.log.line("skipped a line that was too long"),
                }
            }
            self.deliver().await;
        }
        // Whoever watches the process tells the sessions, with its reason.
        let _ = ended.send(());
    }

    /// The store slows the agent down here, and only the store: sessions never wait for a client.
    async fn deliver(&mut self) {
        for (route, lines) in std::mem::take(&mut self.batches) {
            let _ = route.send(FromAgent::Lines(lines)).await;
        }
    }

    /// An external agent does not write `_meta.rethread`, which is trusted later; its introduction has a use for it.
    fn without_marks(&self, bytes: Bytes) -> Bytes {
        match self.rules.kind {
            AgentKind::InProcess => bytes,
            AgentKind::External if !marks::may_hold(&bytes) || self.introduces(&bytes) => bytes,
            AgentKind::External => marks::strip_line(bytes, &[]),
        }
    }

    /// Says whether a line is the answer to `initialize`.
    fn introduces(&self, line: &[u8]) -> bool {
        let Some(head) = Head::read(line).filter(|head| head.method.is_none()) else { return false };
        let pending = locked(&self.peer.shared.pending);
        let asked = head.number().and_then(|number| pending.get(&number));
        matches!(asked, Some(Pending::Introduction(_)))
    }

    fn hear(&mut self, bytes: Bytes) {
        let bytes = self.without_marks(bytes);
        let Some(head) = Head::read(&bytes) else {
            // Shells and banners write to the same stream; such a line is never passed on.
            self.rules.log.line("skipped a line that is not a message");
            self.print(&String::from_utf8_lossy(&bytes));
            return;
        };
        if let Some(outcome) = head.outcome() {
            if let (true, Err(error)) = (head.is_about_nothing(), &outcome) {
                self.print(&error.message);
                return;
            }
            self.message_came();
            self.answered(head.number(), outcome.map_err(|error| self.without_secrets(error)));
            return;
        }
        self.message_came();
        if head.method.as_deref() == Some("$/cancel_request") {
            // It names no session: whoever has that request open knows.
            let routes: Vec<_> = locked(&self.peer.shared.routes).values().cloned().collect();
            for route in routes {
                self.collect(route, AgentLine::Said(bytes.clone()));
            }
        }
        let child = head.params.as_ref().and_then(HeadParams::child);
        let asks = if head.id.is_some() { Asks::Something } else { Asks::Nothing };
        let about = head.params.as_ref().and_then(|params| Id::read(params.about?)?.as_number());
        match head.params.and_then(|params| params.session) {
            Some(session) => {
                let session = session.into_owned();
                self.said(&session, bytes, child, asks);
            }
            // Sub-agents are announced by their parent, so what has no session concerns the connection.
            None => {
                let expects = match asks {
                    Asks::Something => Expects::Answer(about),
                    Asks::Nothing => Expects::Nothing,
                };
                if self.clients.deliver(&bytes, &self.peer, expects).is_err() {
                    self.skip("skipped a message without a session that no client reads", &bytes);
                }
            }
        }
    }

    /// Errors are kept, logged and shown: an agent may repeat in one what it was given for its MCP servers.
    fn without_secrets(&self, error: RpcError) -> RpcError {
        let secrets = &self.rules.secrets;
        RpcError {
            code: error.code,
            message: secrets.strike(&error.message),
            data: error.data.map(|data| secrets.strike_json(&data)),
        }
    }

    /// Keeps the end of what is printed: an agent that fails may say there why.
    fn print(&mut self, line: &str) {
        let line = self.rules.secrets.strike(line);
        let mut printed = locked(&self.peer.shared.printed);
        printed.push(line.as_bytes());
        printed.push(b"\n");
        self.last = Last::Print;
    }

    /// An agent that goes on talking did not fail of what it printed before.
    fn message_came(&mut self) {
        if self.last == Last::Print {
            locked(&self.peer.shared.printed).clear();
            self.last = Last::Message;
        }
    }

    /// Passes a line on to its session, or keeps it for one that is being opened.
    fn said(&mut self, session: &str, bytes: Bytes, child: Option<String>, asks: Asks) {
        let route = locked(&self.peer.shared.routes).get(session).cloned();
        match route {
            Some(route) => {
                // At once: the child may speak in the next line.
                if let Some(child) = child
                    && let Err(error) = self.peer.route(&child, &route)
                {
                    self.rules.log.line(&format!("a sub-agent was not heard: {error}"));
                }
                self.collect(route, AgentLine::Said(bytes));
            }
            // A request is not kept: its session may wait for the answer before it is open.
            None if asks == Asks::Nothing && self.opening() && self.stray_bytes + bytes.len() <= STRAYS => {
                self.stray_bytes += bytes.len();
                // A copy: the line is a part of all that was read with it.
                self.strays.push((session.to_owned(), Bytes::copy_from_slice(&bytes)));
            }
            None => self.skip("skipped a line about a session that is not open", &bytes),
        }
    }

    fn skip(&self, why: &str, line: &[u8]) {
        self.rules.log.line(why);
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
                        self.claim_strays(&native, &route);
                    }
                    Ok(result)
                });
                self.collect(route, AgentLine::Answered { request, outcome });
                self.forget_strays();
            }
            Some(Pending::Once(waiting) | Pending::Introduction(waiting)) => {
                let _ = waiting.send(outcome);
            }
            None => {}
        }
    }

    fn claim_strays(&mut self, native: &str, route: &mpsc::Sender<FromAgent>) {
        for (session, bytes) in std::mem::take(&mut self.strays) {
            if session == native {
                self.stray_bytes -= bytes.len();
                self.collect(route.clone(), AgentLine::Said(bytes));
            } else {
                self.strays.push((session, bytes));
            }
        }
    }

    /// What is about sessions that nobody opened is about none of ours.
    fn forget_strays(&mut self) {
        if !self.opening() {
            self.strays = Vec::new();
            self.stray_bytes = 0;
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
    async fn lines_about_unknown_sessions_are_kept_while_one_is_opened_and_no_longer() {
        let rules = PeerRules {
            longest_line: 1024,
            kind: AgentKind::External,
            log: crate::log::Log::default(),
            secrets: crate::secret::Secrets::default(),
        };
        let (peer, _wire) = AgentPeer::for_tests();
        let mut hearing = Hearing::new(peer.clone(), rules, ProcessClients::default());
        let (route, _lines) = mpsc::channel(16);
        let said = |session: &str| {
            let params = json!({"sessionId": session, "update": {}});
            line(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
        };
        for outcome in
            [json!({"result": {"sessionId": "mine"}}), json!({"error": {"code": 1, "message": "no"}})]
        {
            let request = peer.open("session/new", &json!({}).into(), &route).expect("it is taken");
            hearing.hear(said("mine"));
            hearing.hear(said("of nobody"));
            let mut answer = json!({"jsonrpc": "2.0", "id": request});
            let members = outcome.as_object().expect("an object").clone();
            answer.as_object_mut().expect("an object").extend(members);
            hearing.hear(line(answer));
            assert!(hearing.strays.is_empty(), "{:?}", hearing.strays);
            assert_eq!(hearing.stray_bytes, 0);
            peer.unroute("mine");
        }
    }
}
