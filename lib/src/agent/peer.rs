//! The connection to one agent process: requests out, answers and lines to the sessions that want them. Knows the
//! envelope and session ids, nothing else of what the messages mean. What comes in is read in `hearing`.

mod hearing;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rethread_core::{AgentKind, Json};
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use super::sessionless::ProcessClients;
use super::stderr::Tail;
use crate::lock::locked;
use crate::log::Log;
use crate::secret::Secrets;
use crate::transport::Wire;
use crate::wire::{Id, LineReader, Message, Out, RpcError, parse};
use hearing::Hearing;

/// How many messages may wait for an agent that does not read.
const WAITING: usize = 1024;

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
    /// What the agent has written since its last message that is none.
    printed: Mutex<Tail>,
}

enum Pending {
    /// The answer goes where the session's lines go, in order with them.
    Session(mpsc::Sender<FromAgent>),
    /// The same; the answer tells the session's id, and what speaks of it follows.
    Opens(mpsc::Sender<FromAgent>),
    /// Somebody waits for just this.
    Once(oneshot::Sender<Result<Json, RpcError>>),
    /// The same, for `initialize`.
    Introduction(oneshot::Sender<Result<Json, RpcError>>),
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
pub struct Aside {
    /// The line.
    pub line: Bytes,
    /// Who said it, and waits for an answer if it is a request.
    pub peer: AgentPeer,
}

/// How what an agent says is read.
#[derive(Clone, Debug)]
pub struct PeerRules {
    /// How long a line may be.
    pub longest_line: usize,
    /// Where the agent runs.
    pub kind: AgentKind,
    /// Where skipped lines are noted.
    pub log: Log,
    /// What is struck out of its errors.
    pub secrets: Secrets,
}

/// The agent does not read, or is gone.
#[derive(Debug, thiserror::Error)]
#[error("the agent no longer reads messages")]
pub struct NotTaken;

/// The agent has another open session under the same id.
#[derive(Debug, thiserror::Error)]
#[error("the agent uses the session id {0} twice")]
pub struct IdInUse(String);

impl From<IdInUse> for RpcError {
    fn from(error: IdInUse) -> Self {
        Self::internal(error.to_string())
            .hint("close the other session, or report this to the agent's authors")
    }
}

impl AgentPeer {
    /// Starts to talk. The reader ends with the stream, and then calls `ended`.
    pub fn start(wire: Wire, rules: PeerRules, clients: ProcessClients, ended: oneshot::Sender<()>) -> Self {
        let (out, lines) = mpsc::channel(WAITING);
        let peer = Self {
            shared: Arc::new(Shared {
                out: Mutex::new(Some(out)),
                next: AtomicU64::new(1),
                pending: Mutex::default(),
                routes: Mutex::default(),
                printed: Mutex::default(),
            }),
        };
        tokio::spawn(write_lines(wire.writer, lines));
        let lines = LineReader::new(wire.reader, rules.longest_line);
        let hearing = Hearing::new(peer.clone(), rules, clients);
        tokio::spawn(hearing.run(lines, ended));
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
        let rules = PeerRules {
            longest_line: 1024,
            kind: AgentKind::External,
            log: Log::default(),
            secrets: Secrets::default(),
        };
        let ended = oneshot::channel().0;
        (Self::start(here.into(), rules, ProcessClients::default(), ended), there.into())
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

    /// Introduces the client, and waits for what the agent itself answers; nothing if it ends before that. Only in
    /// this answer may an external agent use `_meta.rethread`.
    pub async fn introduce(&self, params: &Json) -> Option<Result<Json, RpcError>> {
        let (answer, answered) = oneshot::channel();
        self.send_request("initialize", params, Pending::Introduction(answer)).ok()?;
        answered.await.ok()
    }

    /// The last lines that the agent has written to its output since its last message and that are no messages.
    #[must_use]
    pub fn printed(&self) -> String {
        locked(&self.shared.printed).text()
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

    /// Answers a line of the agent's that nobody can be asked now, if it is a request: it must not wait for ever.
    pub fn refuse(&self, line: &[u8]) {
        if let Ok(Message::Request { id, method, .. }) = parse(line) {
            // An agent that does not read does not wait for this either.
            let _ = self.answer(&id, Err(&RpcError::unknown_method(&method)));
        }
    }

    /// Takes a request back. It is answered all the same.
    pub fn cancel(&self, request: u64) -> Result<(), NotTaken> {
        self.notify("$/cancel_request", &json!({"requestId": request}).into())
    }

    /// What the agent says of this session of its own goes there from now on, unless it goes to another one that is
    /// open: nobody could tell which of them it is for.
    pub fn route(&self, native: &str, route: &mpsc::Sender<FromAgent>) -> Result<(), IdInUse> {
        let mut routes = locked(&self.shared.routes);
        let other = |known: &mpsc::Sender<FromAgent>| !known.is_closed() && !known.same_channel(route);
        if routes.get(native).is_some_and(other) {
            return Err(IdInUse(native.to_owned()));
        }
        routes.insert(native.to_owned(), route.clone());
        Ok(())
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
            Pending::Once(_) | Pending::Introduction(_) => None,
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
