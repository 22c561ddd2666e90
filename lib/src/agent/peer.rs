//! The connection to one agent process: requests out, lines in, each line to the session it speaks of. Knows
//! the envelope, session ids and how sub-agents are announced, nothing else of what the messages mean.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rethread_core::Json;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use crate::lock::locked;
use crate::log::Log;
use crate::wire::{Id, Line, LineReader, Out, RpcError};

/// How many messages may wait for an agent that does not read.
const WAITING: usize = 1024;
/// How many bytes of lines are kept for a session whose id is not known yet.
const STRAYS: usize = 1024 * 1024;

/// A running agent, as its sessions see it.
#[derive(Clone)]
pub struct AgentPeer {
    shared: Arc<Shared>,
}

struct Shared {
    out: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
    routes: Mutex<HashMap<String, mpsc::Sender<FromAgent>>>,
}

enum Pending {
    /// The answer goes where the session's lines go, in order with them.
    Session(mpsc::Sender<FromAgent>),
    /// The same; the answer tells the session's id, and what speaks of it follows.
    Opens(mpsc::Sender<FromAgent>),
    /// Somebody waits for just this.
    Once(oneshot::Sender<Result<Json, RpcError>>),
}

/// What reaches a session from its agent.
#[derive(Debug)]
pub enum FromAgent {
    /// Lines and answers in the order the agent wrote them.
    Lines(Vec<AgentLine>),
    /// The agent is gone, for this reason.
    Gone(String),
}

/// One line of the agent's.
#[derive(Debug)]
pub enum AgentLine {
    /// A notification or a request.
    Said(Bytes),
    /// The answer to a request of ours.
    Answered {
        /// Its number.
        request: u64,
        /// The result or the error.
        outcome: Result<Json, RpcError>,
    },
}

/// What an agent says that belongs to no session.
#[derive(Debug)]
pub struct Aside(pub Bytes);

/// The agent does not read, or is gone.
#[derive(Debug, thiserror::Error)]
#[error("the agent does not take messages any more")]
pub struct NotTaken;

impl AgentPeer {
    /// Starts to talk. The reader ends with the stream, and then calls `ended`.
    pub fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        longest_line: usize,
        asides: mpsc::Sender<Aside>,
        ended: oneshot::Sender<()>,
        log: Log,
    ) -> Self {
        let (out, lines) = mpsc::channel(WAITING);
        let peer = Self {
            shared: Arc::new(Shared {
                out: Mutex::new(Some(out)),
                next: AtomicU64::new(1),
                pending: Mutex::default(),
                routes: Mutex::default(),
            }),
        };
        tokio::spawn(write_lines(writer, lines));
        let hearing = Hearing {
            peer: peer.clone(),
            asides,
            strays: Vec::new(),
            stray_bytes: 0,
            batches: Vec::new(),
            log,
        };
        tokio::spawn(hearing.run(LineReader::new(reader, longest_line), ended));
        peer
    }

    /// Sends a request whose answer reaches the session in order with its lines.
    pub fn request(
        &self,
        method: &str,
        params: &Json,
        route: &mpsc::Sender<FromAgent>,
    ) -> Result<u64, NotTaken> {
        self.send_request(method, params, Pending::Session(route.clone()))
    }

    /// The same, for a request whose answer tells the id of the session.
    pub fn open(
        &self,
        method: &str,
        params: &Json,
        route: &mpsc::Sender<FromAgent>,
    ) -> Result<u64, NotTaken> {
        self.send_request(method, params, Pending::Opens(route.clone()))
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&self, method: &str, params: &Json) -> Result<Json, RpcError> {
        self.begin_call(method, params).1.await
    }

    /// Sends a request, and gives its number and its answer to be waited for.
    pub fn begin_call(
        &self,
        method: &str,
        params: &Json,
    ) -> (u64, impl Future<Output = Result<Json, RpcError>> + use<>) {
        let (answer, answered) = oneshot::channel();
        let sent = self.send_request(method, params, Pending::Once(answer));
        let gone = RpcError::internal("the agent ended before it answered").with("method", method);
        let number = *sent.as_ref().unwrap_or(&0);
        (number, async move {
            match sent {
                Ok(_) => answered.await.map_err(|_| gone)?,
                Err(_) => Err(gone),
            }
        })
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: &Json) -> Result<(), NotTaken> {
        let mut out = Out::default();
        out.notification(method, params);
        self.send(&mut out)
    }

    /// Answers a request of the agent's.
    pub fn answer(&self, request: &Id, outcome: Result<&Json, &RpcError>) -> Result<(), NotTaken> {
        let mut out = Out::default();
        match outcome {
            Ok(result) => out.result(request, result),
            Err(error) => out.error(request, error),
        }
        self.send(&mut out)
    }

    /// Takes a request back. It is answered all the same.
    pub fn cancel(&self, request: u64) -> Result<(), NotTaken> {
        self.notify("$/cancel_request", &json!({"requestId": request}).into())
    }

    /// What the agent says of this session of its own goes there from now on.
    pub fn route(&self, native: &str, route: &mpsc::Sender<FromAgent>) {
        locked(&self.shared.routes).insert(native.to_owned(), route.clone());
    }

    /// Nobody wants to hear of this session any more, nor of its sub-agents.
    pub fn unroute(&self, native: &str) {
        let mut routes = locked(&self.shared.routes);
        if let Some(route) = routes.remove(native) {
            routes.retain(|_, other| !other.same_channel(&route));
        }
    }

    /// Ends the agent's input.
    pub fn hang_up(&self) {
        locked(&self.shared.out).take();
    }

    /// Tells every session that the agent is gone, and fails whatever waits for it.
    pub async fn gone(&self, reason: &str) {
        self.hang_up();
        let pending = std::mem::take(&mut *locked(&self.shared.pending));
        let routes = std::mem::take(&mut *locked(&self.shared.routes));
        let mut told: Vec<mpsc::Sender<FromAgent>> = Vec::new();
        let opening = pending.into_values().filter_map(|pending| match pending {
            Pending::Session(route) | Pending::Opens(route) => Some(route),
            Pending::Once(_) => None,
        });
        for route in routes.into_values().chain(opening) {
            if !told.iter().any(|other| other.same_channel(&route)) {
                told.push(route);
            }
        }
        for route in told {
            // A session that has ended need not know.
            let _ = route.send(FromAgent::Gone(reason.to_owned())).await;
        }
    }

    fn send_request(&self, method: &str, params: &Json, pending: Pending) -> Result<u64, NotTaken> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.shared.pending).insert(number, pending);
        let mut out = Out::default();
        out.request(&Id::number(number), method, params);
        self.send(&mut out).inspect_err(|_| {
            locked(&self.shared.pending).remove(&number);
        })?;
        Ok(number)
    }

    /// Never waits: an agent that does not read must not stop a session from reading it.
    fn send(&self, out: &mut Out) -> Result<(), NotTaken> {
        match &*locked(&self.shared.out) {
            Some(sender) => sender.try_send(out.take()).map_err(|_| NotTaken),
            None => Err(NotTaken),
        }
    }
}

async fn write_lines(mut writer: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut bytes) = lines.recv().await {
        while let Ok(more) = lines.try_recv() {
            bytes.extend_from_slice(&more);
        }
        // An agent that reads no more is seen by its exit, which has a better reason to give.
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

/// Just enough of a line to know where it goes.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<HeadParams<'a>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct HeadParams<'a> {
    #[serde(borrow, default, rename = "sessionId")]
    session: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    update: Option<&'a RawValue>,
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
struct Hearing {
    peer: AgentPeer,
    asides: mpsc::Sender<Aside>,
    strays: Vec<(String, Bytes)>,
    stray_bytes: usize,
    batches: Vec<(mpsc::Sender<FromAgent>, Vec<AgentLine>)>,
    log: Log,
}

impl Hearing {
    async fn run<R: AsyncRead + Unpin>(mut self, mut lines: LineReader<R>, ended: oneshot::Sender<()>) {
        while let Ok(Some(batch)) = lines.batch().await {
            for line in batch {
                match line {
                    Line::Text(bytes) => self.hear(bytes),
                    Line::TooLong => self.log.line("skipped a line that was too long"),
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

    fn hear(&mut self, bytes: Bytes) {
        let Ok(head) = serde_json::from_slice::<Head<'_>>(&bytes) else {
            // Shells and banners write to the same stream; such a line is never passed on.
            self.log.line("skipped a line that is not a message");
            return;
        };
        if head.method.is_none() {
            let outcome = match (head.result, head.error) {
                (_, Some(error)) => Err(RpcError::read(&Json::from(error.to_owned()))),
                (result, None) => Ok(result.map_or_else(|| Json::of(&()), |raw| Json::from(raw.to_owned()))),
            };
            let number = head.id.and_then(Id::read).and_then(|id| id.as_number());
            self.answered(number, outcome);
            return;
        }
        if head.method.as_deref() == Some("$/cancel_request") {
            // It names no session: whoever has that request open knows.
            let routes: Vec<_> = locked(&self.peer.shared.routes).values().cloned().collect();
            for route in routes {
                self.collect(route, AgentLine::Said(bytes.clone()));
            }
        }
        let child = head.params.as_ref().and_then(HeadParams::child);
        match head.params.and_then(|params| params.session) {
            Some(session) => {
                let session = session.into_owned();
                self.said(&session, bytes, child);
            }
            // Sub-agents are announced by their parent, so what has no session concerns the connection.
            None => {
                if self.asides.try_send(Aside(bytes)).is_err() {
                    self.log.line("skipped an aside that no client reads");
                }
            }
        }
    }

    fn said(&mut self, session: &str, bytes: Bytes, child: Option<String>) {
        let route = locked(&self.peer.shared.routes).get(session).cloned();
        match route {
            Some(route) => {
                // At once: the child may speak in the next line.
                if let Some(child) = child {
                    self.peer.route(&child, &route);
                }
                self.collect(route, AgentLine::Said(bytes));
            }
            None if self.opening() && self.stray_bytes + bytes.len() <= STRAYS => {
                self.stray_bytes += bytes.len();
                self.strays.push((session.to_owned(), bytes));
            }
            None => self.log.line("skipped a line about a session that is not open"),
        }
    }

    fn answered(&mut self, number: Option<u64>, outcome: Result<Json, RpcError>) {
        let Some(request) = number else { return };
        let pending = locked(&self.peer.shared.pending).remove(&request);
        match pending {
            Some(Pending::Session(route)) => self.collect(route, AgentLine::Answered { request, outcome }),
            Some(Pending::Opens(route)) => {
                let native = outcome.as_ref().ok().and_then(|result| result.fields().text("sessionId"));
                if let Some(native) = native {
                    self.peer.route(&native, &route);
                    self.claim_strays(&native, &route);
                }
                self.collect(route, AgentLine::Answered { request, outcome });
            }
            Some(Pending::Once(waiting)) => {
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
