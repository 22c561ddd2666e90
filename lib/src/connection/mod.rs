//! One client: what it says is read here and sent where it belongs; what it is shown is written by the `pump`.
//! The two halves run side by side, so that a client which writes before it reads is always heard.

mod answers;
mod asked;
mod attach;
mod dispatch;
mod followed;
mod intake;
mod introduction;
mod opening;
mod pump;
mod replay;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rethread_core::{Json, SessionId};
use tokio::io::AsyncRead;
use tokio::sync::{Notify, mpsc};

use crate::agent::host::AgentHost;
use crate::agent::peer::Aside;
use crate::edge::capabilities::{ClientProfile, Profile};
use crate::edge::marks;
use crate::outbox::{InFlight, NotTaken, OpenRequest, Outbox, Slot, queue};
use crate::registry::Registry;
use crate::server::Server;
use crate::transport::Wire;
use crate::wire::{Id, IdKind, Line, LineReader, Malformed, Message, Out, RpcError, code, parse};
use asked::Asked;
use intake::Intake;
use pump::Pump;

/// How long answers that are under way may still take when the client has said its last word.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// A client's connection.
pub(crate) struct Connection {
    server: Server,
    phase: Phase,
    outbox: Outbox,
    bell: Arc<Notify>,
    asked: Asked,
    in_flight: InFlight,
    /// The sessions that this client follows.
    attached: Attachments,
    ready: mpsc::Sender<Ready>,
    asides: mpsc::Sender<Aside>,
}

/// The sessions that a client follows.
#[derive(Clone, Default)]
struct Attachments(Arc<Mutex<HashSet<SessionId>>>);

impl Attachments {
    fn has(&self, session: &SessionId) -> bool {
        self.set().contains(session)
    }

    fn add(&self, session: SessionId) {
        self.set().insert(session);
    }

    fn remove(&self, session: &SessionId) -> bool {
        self.set().remove(session)
    }

    fn set(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a connection is.
enum Phase {
    /// Nothing was said.
    Fresh,
    /// `initialize` waits for the agent; what was agreed before stays until it is answered.
    Initializing(Option<Box<Agreed>>),
    /// It was answered.
    Ready(Box<Agreed>),
}

/// What `initialize` agreed on.
#[derive(Clone)]
struct Agreed {
    client: Arc<ClientProfile>,
    host: AgentHost,
    /// What is known of the agent: at first perhaps only from the last time.
    profile: Arc<Mutex<Arc<Profile>>>,
    registry: Arc<Registry>,
    /// Whether anything was asked since: then it cannot be agreed anew.
    used: bool,
}

impl Agreed {
    fn profile(&self) -> Arc<Profile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The outcome of an `initialize`.
struct Ready {
    request: OpenRequest,
    client: ClientProfile,
    host: AgentHost,
    outcome: Result<Arc<Profile>, RpcError>,
}

impl Connection {
    /// Serves a client until it hangs up or `stop` says so.
    pub(crate) async fn serve(server: Server, wire: Wire, stop: impl Future<Output = ()>) {
        let (asked, bell) = (Asked::default(), Arc::new(Notify::new()));
        let (outbox, outgoing) = queue(bell.clone());
        let (ready, initialized) = mpsc::channel(1);
        let (asides, heard) = mpsc::channel(256);
        let pump = Pump {
            writer: wire.writer,
            outbox: outgoing,
            bell: bell.clone(),
            journal: server.journal.clone(),
            asked: asked.clone(),
            out: Out::default(),
            followed: Vec::new(),
            waiting: VecDeque::new(),
        };
        let lines = LineReader::new(wire.reader, server.config.longest_line);
        let phase = Phase::Fresh;
        let connection = Self {
            server,
            phase,
            outbox,
            bell,
            asked,
            in_flight: InFlight::default(),
            attached: Attachments::default(),
            ready,
            asides,
        };
        let hung = Arc::new(Notify::new());
        let mut writing = tokio::spawn({
            let hung = hung.clone();
            async move {
                pump.run().await;
                hung.notify_one();
            }
        });
        let stop = async {
            tokio::select! {
                () = stop => {}
                // Whoever reads no more gets no more.
                () = hung.notified() => {}
            }
        };
        let intake = Intake::new(lines, connection.outbox.clone());
        connection.read(intake, initialized, heard, stop).await;
        // What was to be said is said, to a client that still listens.
        if tokio::time::timeout(Duration::from_secs(1), &mut writing).await.is_err() {
            writing.abort();
        }
    }

    async fn read<R: AsyncRead + Unpin>(
        mut self,
        mut intake: Intake<R>,
        mut initialized: mpsc::Receiver<Ready>,
        mut asides: mpsc::Receiver<Aside>,
        stop: impl Future<Output = ()>,
    ) {
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                line = intake.next() => match line {
                    Some((line, slot)) => self.hear(line, slot).await,
                    None => break,
                },
                Some(ready) = initialized.recv() => self.initialized(ready).await,
                Some(aside) = asides.recv() => self.aside(&aside),
            }
        }
        drop(intake);
        self.finish_answers(&mut initialized).await;
        self.end("the client disconnected").await;
    }

    /// Somebody who pipes requests in and waits for the end still gets the answers that are under way.
    async fn finish_answers(&mut self, initialized: &mut mpsc::Receiver<Ready>) {
        let patience = tokio::time::sleep(LAST_ANSWERS);
        tokio::pin!(patience);
        while !self.in_flight.is_empty() {
            tokio::select! {
                () = &mut patience => return,
                Some(ready) = initialized.recv() => self.initialized(ready).await,
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
    }

    async fn end(self, reason: &str) {
        let agreed = match self.phase {
            Phase::Fresh => None,
            Phase::Initializing(agreed) => agreed,
            Phase::Ready(agreed) => Some(agreed),
        };
        if let Some(agreed) = agreed {
            agreed.registry.end_all(reason).await;
            agreed.host.end().await;
        }
    }

    /// Hears a line. There is a slot with every line that wants an answer.
    async fn hear(&mut self, line: Line, slot: Option<Slot>) {
        let bytes = match line {
            Line::Text(bytes) => marks::strip_line(bytes, marks::CLIENT_KEYS),
            Line::TooLong => {
                let longest = self.server.config.longest_line;
                let error = RpcError::new(code::PARSE, "the line is too long").with("longest", longest);
                return self.refuse(Id::null(), error.hint("send large content as a resource link"), slot);
            }
        };
        match (parse(&bytes), slot) {
            (Ok(Message::Request { id, method, params }), Some(slot)) => match self.take(id, slot) {
                Ok(request) => self.request(request, &method, params).await,
                Err((id, error, slot)) => self.refuse(id, error, Some(slot)),
            },
            (Ok(Message::Request { .. }), None) => {}
            (Ok(Message::Notification { method, params }), _) => self.notification(&method, params).await,
            (Ok(Message::Response { id, outcome }), _) => {
                let json = |raw: &serde_json::value::RawValue| Json::from(raw.to_owned());
                self.response(&id, outcome.map(json).map_err(|error| RpcError::read(&json(error)))).await;
            }
            (Err(malformed), slot) => {
                let (id, error) = unreadable(malformed);
                self.refuse(id, error, slot);
            }
        }
    }

    /// Takes a request in, unless its id cannot be told apart from others.
    fn take(&self, id: Id, slot: Slot) -> Result<OpenRequest, (Id, RpcError, Slot)> {
        let strict = matches!(&self.phase, Phase::Ready(agreed) if agreed.client.version.number() == 2);
        if strict && matches!(id.kind(), IdKind::Null | IdKind::Fraction) {
            let error = RpcError::new(code::INVALID_REQUEST, "a request id is a string or a whole number");
            return Err((id, error, slot));
        }
        self.in_flight.take(id.clone(), slot, &self.outbox).map_err(|(why, slot)| (id, not_taken(why), slot))
    }

    /// Answers a line that is no request of ours to work on.
    fn refuse(&self, id: Id, error: RpcError, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.outbox.refuse(id, error, slot);
        }
    }
}

fn not_taken(why: NotTaken) -> RpcError {
    match why {
        NotTaken::Twice => RpcError::new(code::INVALID_REQUEST, "this request id is in use")
            .hint("use an id again only after its answer"),
        NotTaken::TooMany => {
            RpcError::internal("too many requests are open").hint("wait for answers before you send more")
        }
    }
}

fn unreadable(malformed: Malformed) -> (Id, RpcError) {
    match malformed {
        Malformed::NotUtf8 => (Id::null(), RpcError::new(code::PARSE, "the line is not UTF-8")),
        Malformed::NotJson(why) => (Id::null(), RpcError::new(code::PARSE, format!("not JSON: {why}"))),
        Malformed::Batch => (
            Id::null(),
            RpcError::new(code::INVALID_REQUEST, "batches are not part of the protocol")
                .hint("send each request on its own line"),
        ),
        Malformed::NotAMessage(id) => {
            (id, RpcError::new(code::INVALID_REQUEST, "not a request, a notification or a response"))
        }
    }
}
