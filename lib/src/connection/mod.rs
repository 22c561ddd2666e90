//! One client. The reading half dispatches its messages, the writing half (`pump`) sends it what it follows; both run at the
//! same time. A connection attaches to sessions of the server and detaches from them; it owns neither sessions nor agents.

mod access;
mod answers;
mod attach;
mod carrier;
mod carrying;
mod directory;
mod dispatch;
mod exports;
mod following;
mod host_link;
mod initialize;
mod intake;
mod io;
mod list;
mod marks;
mod observe;
mod other_hosts;
mod pump;
mod reading;
mod replay;
mod search;
mod sent_requests;
mod session_requests;
mod subscription;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rethread_core::{Json, SessionId};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::agent::host::{AgentSource, HostConfig};
use crate::agent::pool::{AgentPool, HostUser, SharedHost};
use crate::agent::sessionless::ProcessMessage;
use crate::client_id::{ClientId, ClientTag};
use crate::edge::capabilities::{AgentProfile, ClientProfile};
use crate::edge::own_meta;
use crate::live::Bell;
use crate::live_session::{Handle, Message as SessionMessage};
use crate::outbox::{AnswerSlot, InFlight, OpenRequest, Outbox, Reply, RequestNotTaken, queue};
use crate::registry::Registry;
use crate::store::Store;
use crate::transport::messages::ClientTransport;
use crate::wire::{Id, IdKind, Line, Malformed, Out, RpcError, RpcMessage, code, parse};
pub use access::{ClientAccess, ClientOrigin, ClientRole, ClientScope, RemoteRules, StdioServers};
use carrier::{Carrier, HeldLine};
pub(crate) use directory::ClientDirectory;
pub use directory::TransportName;
use intake::Intake;
use marks::Marks;
pub(crate) use observe::NoAgent;
pub use other_hosts::{CarriedClient, Connecting, HostConnector, HostLinkError};
use pump::Pump;
use reading::Readings;
use sent_requests::SentRequests;

/// How long answers that are under way may still take when the client has ended its input.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// What all connections of a server share.
pub(crate) struct ConnectionDeps {
    pub(crate) store: Arc<dyn Store>,
    /// Where agents come from.
    pub(crate) agent: Arc<dyn AgentSource>,
    /// The agent processes.
    pub(crate) agents: AgentPool,
    pub(crate) host_config: HostConfig,
    /// The live sessions.
    pub(crate) registry: Arc<Registry>,
    pub(crate) native_sessions: NativeSessions,
    pub(crate) access: ClientAccess,
    /// How the client is connected.
    pub(crate) transport: TransportName,
    /// All clients of the server.
    pub(crate) directory: Arc<ClientDirectory>,
    /// The way to other hosts, once there is one.
    pub(crate) hosts: Arc<OnceLock<Arc<dyn HostConnector>>>,
    /// For a client that another host carries here: what that host told it of its agent.
    pub(crate) carried: Option<Arc<AgentProfile>>,
}

/// How a client has come to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReachedBy {
    /// By itself.
    Client,
    /// Another host carries it. It has no agent here: it follows sessions that are open.
    OtherHost,
}

/// Whether sessions that an agent keeps by itself are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeSessions {
    /// Among the others.
    #[default]
    Listed,
    /// Not at all.
    Hidden,
}

/// A client's connection.
pub(crate) struct Connection {
    deps: Arc<ConnectionDeps>,
    client: ClientId,
    phase: Phase,
    outbox: Outbox,
    bell: Arc<Bell>,
    asked: SentRequests,
    in_flight: InFlight,
    /// The sessions that this client follows.
    attached: Attachments,
    /// The sessions that it only looks at.
    observing: Attachments,
    /// How many subscriptions to the list it has.
    subscriptions: usize,
    readings: Readings,
    /// Carries the client to other hosts.
    carrier: Arc<Carrier>,
    /// Boxed, since a channel has room for many.
    ready: mpsc::Sender<Box<Ready>>,
    from_process: mpsc::Sender<ProcessMessage>,
}

/// The sessions that a client follows; nothing is added once its connection has ended.
#[derive(Clone)]
struct Attachments(Arc<Mutex<Option<HashSet<SessionId>>>>);

/// The connection has ended.
struct ConnectionEnded;

impl Attachments {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(HashSet::new()))))
    }

    fn has(&self, session: &SessionId) -> bool {
        self.set().as_ref().is_some_and(|set| set.contains(session))
    }

    fn add(&self, session: SessionId) -> Result<(), ConnectionEnded> {
        self.set().as_mut().ok_or(ConnectionEnded)?.insert(session);
        Ok(())
    }

    fn remove(&self, session: &SessionId) -> bool {
        self.set().as_mut().is_some_and(|set| set.remove(session))
    }

    /// What is in it.
    fn list(&self) -> Vec<SessionId> {
        self.set().iter().flatten().cloned().collect()
    }

    /// Ends it, and gives what was in it.
    fn close(&self) -> HashSet<SessionId> {
        self.set().take().unwrap_or_default()
    }

    fn set(&self) -> MutexGuard<'_, Option<HashSet<SessionId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a connection is.
enum Phase {
    /// Nothing was said.
    Fresh,
    /// `initialize` waits for the agent; what was agreed before stays until it is answered.
    Initializing { user: HostUser, before: Option<Box<ReadyClient>> },
    /// It was answered.
    Ready(Box<ReadyClient>),
}

/// A client whose `initialize` was answered, as one user of its agent host.
struct ReadyClient {
    context: ClientContext,
    user: HostUser,
}

/// What `initialize` agreed on.
#[derive(Clone)]
struct ClientContext {
    client: Arc<ClientProfile>,
    tag: ClientTag,
    host: SharedHost,
    /// What is known of the agent: at first perhaps only from the last time.
    profile: Arc<Mutex<Arc<AgentProfile>>>,
    registry: Arc<Registry>,
    /// What the client may do.
    access: Arc<ClientAccess>,
    /// The parameters of `initialize`, for other hosts.
    introduction: Arc<Json>,
    reached_by: ReachedBy,
    /// Whether anything was asked since: then `initialize` cannot be repeated.
    used: bool,
}

impl ClientContext {
    /// The reply to a request of this client about a session.
    fn reply(&self, request: OpenRequest, session: &SessionId) -> Reply {
        Reply::new(self.tag.id, &self.client, request, session.clone())
    }

    fn profile(&self) -> Arc<AgentProfile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The outcome of an `initialize`.
struct Ready {
    request: OpenRequest,
    client: ClientProfile,
    introduction: Json,
    access: ClientAccess,
    outcome: Result<Arc<AgentProfile>, RpcError>,
    agent_start: AgentStart,
}

/// When the agent is started if no request needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentStart {
    /// At once.
    Now,
    /// After the first requests of the client.
    Soon,
    /// Not at all, for an observer.
    Never,
}

impl Connection {
    /// Serves a client until it hangs up or `stop` says so.
    pub(crate) async fn serve(
        deps: Arc<ConnectionDeps>,
        transport: ClientTransport,
        stop: impl Future<Output = ()>,
    ) {
        let (asked, bell) = (SentRequests::default(), Arc::<Bell>::default());
        let (outbox, outgoing) = queue(bell.clone());
        let (ready, initialized) = mpsc::channel(1);
        let (from_process, process) = mpsc::channel(256);
        let (released, held) = mpsc::channel(16);
        let (source, sink) = io::split(transport, deps.host_config.longest_line);
        let pump = Pump {
            sink,
            outbox: outgoing,
            bell: bell.clone(),
            store: deps.store.clone(),
            asked: asked.clone(),
            out: Out::default(),
            subscriptions: foldhash::HashMap::default(),
            active: Vec::new(),
            unplaced: VecDeque::new(),
            marks: deps.carried.as_ref().map(|_| Marks::new(deps.registry.clone())),
        };
        let phase = Phase::Fresh;
        let (hosts, transport, store) = (deps.hosts.clone(), deps.transport, deps.store.clone());
        let carrier = Carrier::new(hosts, transport, store, outbox.clone(), asked.clone(), released);
        let connection = Self {
            deps,
            client: ClientId::next(),
            phase,
            outbox,
            bell,
            asked,
            in_flight: InFlight::default(),
            attached: Attachments::new(),
            observing: Attachments::new(),
            subscriptions: 0,
            readings: Readings::new(),
            carrier: Arc::new(carrier),
            ready,
            from_process,
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
        let intake = Intake::new(source, connection.outbox.clone());
        connection.read(intake, initialized, process, held, stop).await;
        // What was to be said is said, to a client that still listens.
        if tokio::time::timeout(Duration::from_secs(1), &mut writing).await.is_err() {
            writing.abort();
        }
    }

    async fn read(
        mut self,
        mut intake: Intake,
        mut initialized: mpsc::Receiver<Box<Ready>>,
        mut process: mpsc::Receiver<ProcessMessage>,
        mut held: mpsc::Receiver<Vec<HeldLine>>,
        stop: impl Future<Output = ()>,
    ) {
        tokio::pin!(stop);
        loop {
            // What handles a message is large, and there are many clients that say nothing: boxed.
            tokio::select! {
                () = &mut stop => break,
                line = intake.next() => match line {
                    Some((line, slot)) => Box::pin(self.handle_line(line, slot)).await,
                    None => break,
                },
                Some(ready) = initialized.recv() => Box::pin(self.initialized(*ready)).await,
                Some(message) = process.recv() => self.process_message(&message),
                Some(lines) = held.recv() => Box::pin(self.say_again(lines)).await,
            }
        }
        drop((intake, held));
        Box::pin(self.finish_answers(&mut initialized)).await;
        Box::pin(self.end()).await;
    }

    /// Somebody who pipes requests in and waits for the end still gets the answers that are under way.
    async fn finish_answers(&mut self, initialized: &mut mpsc::Receiver<Box<Ready>>) {
        let patience = tokio::time::sleep(LAST_ANSWERS);
        tokio::pin!(patience);
        while !self.in_flight.is_empty() {
            tokio::select! {
                () = &mut patience => return,
                Some(ready) = initialized.recv() => self.initialized(*ready).await,
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
    }

    /// Leaves its sessions, side by side, and then its agent.
    async fn end(self) {
        self.carrier.close();
        let (attached, observed) = (self.attached.close(), self.observing.close());
        let client = self.client;
        self.deps.directory.remove(client);
        attached.iter().chain(&observed).for_each(|session| self.deps.directory.session_changed(session));
        let handles = attached.into_iter().filter_map(|session| self.deps.registry.find(&session));
        if self.subscriptions > 0 {
            self.deps.registry.leave_list(client).await;
        }
        let mut leaving: JoinSet<_> = handles.map(|handle| detach(handle, client)).collect();
        while leaving.join_next().await.is_some() {}
        match self.phase {
            Phase::Fresh => {}
            Phase::Initializing { user, before } => {
                leave(user, client).await;
                if let Some(before) = before {
                    leave(before.user, client).await;
                }
            }
            Phase::Ready(ready_client) => leave(ready_client.user, client).await,
        }
    }

    /// Handles one line. A line that needs an answer comes with a slot.
    async fn handle_line(&mut self, line: Line, slot: Option<AnswerSlot>) {
        let bytes = match line {
            Line::Text(bytes) => own_meta::strip_line(bytes, self.own_keys()),
            Line::TooLong => {
                let longest = self.deps.host_config.longest_line;
                let error = RpcError::new(code::PARSE, "the line is too long").with("longest", longest);
                return self.refuse(Id::null(), error.hint("send large content as a resource link"), slot);
            }
        };
        match (parse(&bytes), slot) {
            (Ok(RpcMessage::Request { id, method, params }), Some(slot)) => match self.take(id, slot) {
                Ok(request) => self.request(request, &method, params).await,
                Err((id, error, slot)) => self.refuse(id, error, Some(slot)),
            },
            (Ok(RpcMessage::Request { .. }), None) => {}
            (Ok(RpcMessage::Notification { method, params }), _) => self.notification(&method, params).await,
            (Ok(RpcMessage::Response { id, outcome }), _) => {
                let json = |raw: &serde_json::value::RawValue| Json::from(raw.to_owned());
                self.response(&id, outcome.map(json).map_err(|error| RpcError::read(&json(error)))).await;
            }
            (Err(malformed), slot) => {
                let (id, error) = unreadable(malformed);
                self.refuse(id, error, slot);
            }
        }
    }

    /// What this peer may say in `_meta.rethread`.
    fn own_keys(&self) -> &'static [&'static str] {
        match self.deps.carried {
            None => own_meta::CLIENT_KEYS,
            Some(_) => own_meta::HOST_KEYS,
        }
    }

    /// Takes a request in, unless its id is not unique.
    fn take(&self, id: Id, slot: AnswerSlot) -> Result<OpenRequest, (Id, RpcError, AnswerSlot)> {
        let strict = matches!(&self.phase, Phase::Ready(ready) if ready.context.client.version.number() == 2);
        if strict && matches!(id.kind(), IdKind::Null | IdKind::Fraction) {
            let error = RpcError::new(code::INVALID_REQUEST, "a request id is a string or a whole number");
            return Err((id, error, slot));
        }
        self.in_flight.take(id.clone(), slot, &self.outbox).map_err(|(why, slot)| (id, not_taken(why), slot))
    }

    /// Answers a line that is no request of ours to work on.
    fn refuse(&self, id: Id, error: RpcError, slot: Option<AnswerSlot>) {
        if let Some(slot) = slot {
            self.outbox.refuse(id, error, slot);
        }
    }
}

/// Has a client leave a session; returns when the session has dealt with that.
async fn detach(handle: Handle, client: ClientId) {
    let (done, detached) = oneshot::channel();
    if handle.send(SessionMessage::Detach { client, done }).await.is_ok() {
        // A session that ends instead has dealt with it too.
        let _ = detached.await;
    }
}

/// Has a client leave its agent host.
async fn leave(user: HostUser, client: ClientId) {
    user.clients().remove(client);
    user.leave().await;
}

fn not_taken(why: RequestNotTaken) -> RpcError {
    match why {
        RequestNotTaken::Twice => RpcError::new(code::INVALID_REQUEST, "this request id is in use")
            .hint("use an id again only after its answer"),
        RequestNotTaken::TooMany => {
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
