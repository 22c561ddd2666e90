//! The connection to one agent process: sends requests, and routes answers and messages to sessions. Reads only the
//! envelope and session ids. The reading half is in `reader`.

mod reader;
mod routes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rethread_core::{AgentKind, Json};
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use super::sessionless::ProcessClients;
use super::stderr::StderrTail;
use crate::lock::locked;
use crate::secret::Secrets;
use crate::transport::Wire;
use crate::wire::{Id, LineReader, Out, RpcError, RpcMessage, parse};
use reader::PeerReader;
use routes::Routes;

/// How many messages may be queued for an agent that does not read.
const QUEUE_LENGTH: usize = 1024;

/// A handle to a running agent.
#[derive(Clone)]
pub struct AgentPeer {
    shared: Arc<PeerState>,
}

struct PeerState {
    out: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
    routes: Mutex<Routes>,
    /// What the agent has printed since its last message.
    printed: Mutex<StderrTail>,
}

enum Pending {
    /// The answer is delivered in order with the session's lines.
    Session(mpsc::Sender<FromAgent>),
    /// The same; the answer contains the session's id, whose lines are routed there from then on.
    Opens(mpsc::Sender<FromAgent>),
    /// A caller waits for the answer.
    Once(oneshot::Sender<Result<Json, RpcError>>),
    /// The same, for `initialize`.
    Initialize(oneshot::Sender<Result<Json, RpcError>>),
}

/// What a session receives from its agent.
#[derive(Debug)]
pub enum FromAgent {
    /// Lines and answers in the order in which the agent wrote them.
    Lines(Vec<AgentLine>),
    /// The agent has exited, for this reason.
    Gone(String),
}

/// One line of the agent.
#[derive(Debug)]
pub enum AgentLine {
    /// A notification or a request.
    Message(Bytes),
    /// The answer to one of our requests.
    Answered {
        /// The number of the request.
        request: u64,
        /// The result or the error.
        outcome: Result<Json, RpcError>,
    },
}

/// A message of the agent that belongs to no session.
pub struct SessionlessMessage {
    /// The line as the agent wrote it.
    pub line: Bytes,
    /// The agent, which waits for an answer if the message is a request.
    pub peer: AgentPeer,
}

/// How an agent's output is read.
#[derive(Clone, Debug)]
pub struct PeerRules {
    /// The maximum length of a line.
    pub longest_line: usize,
    /// Where the agent runs.
    pub kind: AgentKind,
    /// The secrets to remove from its errors.
    pub secrets: Secrets,
}

/// The agent does not read, or has exited.
#[derive(Debug, thiserror::Error)]
#[error("the agent no longer reads messages")]
pub struct NotDelivered;

/// Another open session uses the same agent session id.
#[derive(Debug, thiserror::Error)]
#[error("the agent uses the session id {0} twice")]
pub struct SessionIdInUse(String);

impl From<SessionIdInUse> for RpcError {
    fn from(error: SessionIdInUse) -> Self {
        Self::internal(error.to_string())
            .hint("close the other session, or report this to the agent's authors")
    }
}

impl AgentPeer {
    /// Starts the reader and writer tasks. The reader ends with the stream and then calls `ended`.
    pub fn start(wire: Wire, rules: PeerRules, clients: ProcessClients, ended: oneshot::Sender<()>) -> Self {
        let (out, lines) = mpsc::channel(QUEUE_LENGTH);
        let peer = Self {
            shared: Arc::new(PeerState {
                out: Mutex::new(Some(out)),
                next: AtomicU64::new(1),
                pending: Mutex::default(),
                routes: Mutex::default(),
                printed: Mutex::default(),
            }),
        };
        tokio::spawn(write_lines(wire.writer, lines));
        let lines = LineReader::new(wire.reader, rules.longest_line);
        let reader = PeerReader::new(peer.clone(), rules, clients);
        tokio::spawn(reader.run(lines, ended));
        peer
    }

    /// Says whether both are the same process.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// A peer that talks to nobody, and the other end of its wire.
    #[cfg(test)]
    pub(crate) fn for_tests() -> (Self, Wire) {
        let (here, there) = crate::transport::memory::pair();
        let rules = PeerRules { longest_line: 1024, kind: AgentKind::External, secrets: Secrets::default() };
        let ended = oneshot::channel().0;
        (Self::start(here.into(), rules, ProcessClients::default(), ended), there.into())
    }

    /// Sends a request whose answer is delivered in order with the session's lines.
    pub fn request(
        &self,
        method: &str,
        params: &Json,
        route: &mpsc::Sender<FromAgent>,
    ) -> Result<u64, NotDelivered> {
        self.send_request(method, params, Pending::Session(route.clone()))
    }

    /// The same, for a request whose answer contains the session's id.
    pub fn open(
        &self,
        method: &str,
        params: &Json,
        route: &mpsc::Sender<FromAgent>,
    ) -> Result<u64, NotDelivered> {
        self.send_request(method, params, Pending::Opens(route.clone()))
    }

    /// Sends `initialize` and waits for the answer; `None` if the agent exits first. Only in this answer may an
    /// external agent use `_meta.rethread`.
    pub async fn initialize(&self, params: &Json) -> Option<Result<Json, RpcError>> {
        let (answer, answered) = oneshot::channel();
        self.send_request("initialize", params, Pending::Initialize(answer)).ok()?;
        answered.await.ok()
    }

    /// Returns the last lines that the agent has printed since its last message.
    #[must_use]
    pub fn printed(&self) -> String {
        locked(&self.shared.printed).text()
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&self, method: &str, params: &Json) -> Result<Json, RpcError> {
        self.begin_call(method, params).1.await
    }

    /// Sends a request, and returns its number and a receiver for its answer.
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
    pub fn notify(&self, method: &str, params: &Json) -> Result<(), NotDelivered> {
        let mut out = Out::default();
        out.notification(method, params);
        self.send(&mut out)
    }

    /// Answers a request of the agent.
    pub fn answer(&self, request: &Id, outcome: Result<&Json, &RpcError>) -> Result<(), NotDelivered> {
        let mut out = Out::default();
        match outcome {
            Ok(result) => out.result(request, result),
            Err(error) => out.error(request, error),
        }
        self.send(&mut out)
    }

    /// Answers a request that nobody can handle now, so that the agent does not wait forever.
    pub fn refuse(&self, line: &[u8]) {
        if let Ok(RpcMessage::Request { id, method, .. }) = parse(line) {
            // An agent that does not read does not wait for this either.
            let _ = self.answer(&id, Err(&RpcError::unknown_method(&method)));
        }
    }

    /// Cancels a request. It is still answered.
    pub fn cancel(&self, request: u64) -> Result<(), NotDelivered> {
        self.notify("$/cancel_request", &json!({"requestId": request}).into())
    }

    /// Routes messages of a session that the agent has open, unless another open session has the same id, since they could
    /// not be told apart.
    pub fn route(&self, native: &str, route: &mpsc::Sender<FromAgent>) -> Result<(), SessionIdInUse> {
        locked(&self.shared.routes).open(native, route)
    }

    /// The same for a session that the agent is asked to restore. When it has answered, call [`AgentPeer::route`]: an agent
    /// that counts its sessions anew may have given the id to a new one meanwhile.
    pub fn route_asked(&self, native: &str, route: &mpsc::Sender<FromAgent>) -> Result<(), SessionIdInUse> {
        locked(&self.shared.routes).ask(native, route)
    }

    /// Removes the route of this session and of its sub-agents. Returns whether it had the id, and not another session.
    pub fn remove_route(&self, native: &str, route: &mpsc::Sender<FromAgent>) -> bool {
        locked(&self.shared.routes).remove(native, route)
    }

    /// Closes the agent's input.
    pub fn close(&self) {
        locked(&self.shared.out).take();
    }

    /// Reports to every session that the agent has exited, and fails all open requests.
    pub async fn gone(&self, reason: &str) {
        self.close();
        let pending = std::mem::take(&mut *locked(&self.shared.pending));
        let routes = std::mem::take(&mut *locked(&self.shared.routes));
        let mut notified: Vec<mpsc::Sender<FromAgent>> = Vec::new();
        let opening = pending.into_values().filter_map(|pending| match pending {
            Pending::Session(route) | Pending::Opens(route) => Some(route),
            Pending::Once(_) | Pending::Initialize(_) => None,
        });
        for route in routes.all().cloned().chain(opening) {
            if !notified.iter().any(|other| other.same_channel(&route)) {
                notified.push(route);
            }
        }
        for route in notified {
            // A session that has ended does not need this.
            let _ = route.send(FromAgent::Gone(reason.to_owned())).await;
        }
    }

    fn send_request(&self, method: &str, params: &Json, pending: Pending) -> Result<u64, NotDelivered> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.shared.pending).insert(number, pending);
        let mut out = Out::default();
        out.request(&Id::number(number), method, params);
        self.send(&mut out).inspect_err(|_| {
            locked(&self.shared.pending).remove(&number);
        })?;
        Ok(number)
    }

    /// Never waits: an agent that does not read must not keep a session from reading its output.
    fn send(&self, out: &mut Out) -> Result<(), NotDelivered> {
        match &*locked(&self.shared.out) {
            Some(sender) => sender.try_send(out.take()).map_err(|_| NotDelivered),
            None => Err(NotDelivered),
        }
    }
}

async fn write_lines(mut writer: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut bytes) = lines.recv().await {
        while let Ok(more) = lines.try_recv() {
            bytes.extend_from_slice(&more);
        }
        // If the agent no longer reads, its exit will give a better reason.
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}
