//! The messages to a live session, its handle, and the data it is started with.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rethread_core::session::Native;
use rethread_core::{Json, MessageId, QuestionId, Seq, Session, SessionId};
use tokio::sync::{mpsc, oneshot, watch};

use super::activity::{ChangedSessions, SessionStatus};
use super::client_requests::reply_of;
use super::journal_scan::SessionPast;
use super::opening::Candidate;
use super::{Activity, AgentSlot, Attached, Client, local};
use crate::agent::Restore;
use crate::agent::host::LiveAgent;
use crate::agent::peer::{AgentLine, FromAgent};
use crate::agent::pool::{HostUser, SharedHost};
use crate::agent::process::GuardianCommand;
use crate::client_id::{ClientId, ClientTag};
use crate::edge::client_request::{OptionName, Setup};
use crate::edge::v1::BooleanOptions;
use crate::live::{Cursor, Live};
use crate::news::NewsDesk;
use crate::outbox::{CANCEL_REQUEST, Outbound, Reply, cancelled};
use crate::secret::Secrets;
use crate::store::{Lease, Store, StoreError};
use crate::wire::{Id, RpcError};

/// How many batches of an agent may wait: enough to read on while the store writes.
const BATCHES: usize = 2;

/// The way to a live session.
#[derive(Clone)]
pub(crate) struct Handle {
    /// Its id.
    pub(crate) id: SessionId,
    /// What its peers share.
    pub(crate) live: Arc<Live>,
    pub(super) inbox: mpsc::Sender<Box<Message>>,
    /// Becomes true when the session has given up its lease and its task is over.
    pub(super) finished: watch::Receiver<bool>,
    pub(super) status: watch::Receiver<SessionStatus>,
}

impl Handle {
    /// Says something to the session. An error means that it has ended.
    pub(crate) async fn send(&self, message: Message) -> Result<(), SessionEnded> {
        self.inbox.send(Box::new(message)).await.map_err(|unsent| SessionEnded(reply_of(*unsent.0)))
    }

    /// Returns the state to fork from, if the session is idle and a turn has ended since it was opened.
    pub(crate) async fn fork_state(&self) -> Option<Box<ForkState>> {
        let (reply, state) = oneshot::channel();
        self.send(Message::ForkState(reply)).await.ok()?;
        state.await.ok().flatten()
    }

    /// Where its agent comes from.
    pub(crate) async fn agent_host(&self) -> Option<SharedHost> {
        let (reply, host) = oneshot::channel();
        self.send(Message::AgentHost(reply)).await.ok()?;
        host.await.ok()
    }

    /// What the session is doing.
    pub(crate) fn activity(&self) -> Activity {
        self.status.borrow().activity
    }

    /// How the session is, in short.
    pub(crate) fn status(&self) -> SessionStatus {
        self.status.borrow().clone()
    }

    /// Waits until no turn runs that can make progress.
    pub(crate) async fn quiet(&self) {
        let quiet = |now: &SessionStatus| matches!(now.activity, Activity::Idle | Activity::Unattended);
        // A session that has ended is quiet, too.
        let _ = self.status.clone().wait_for(quiet).await;
    }

    /// Says whether the session takes no more messages.
    #[must_use]
    pub(crate) fn ended(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Waits until the session has given up its lease and its task is over.
    pub(crate) async fn finished(&self) {
        // The sender is dropped only when the task is over.
        let _ = self.finished.clone().wait_for(|finished| *finished).await;
    }
}

/// What happens to the work of a session that is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenWork {
    /// It is cut.
    Cut,
    /// If there is some, the session does not end.
    Kept,
}

/// The session is not live any more. Whoever waits for an answer is still to be answered.
pub(crate) struct SessionEnded(pub(crate) Option<Reply>);

/// The answer of a client to a question.
pub(crate) struct GivenAnswer {
    pub(crate) question: QuestionId,
    pub(crate) outcome: Result<Json, RpcError>,
    /// The id of the request that the client was sent.
    pub(crate) request: Id,
}

impl GivenAnswer {
    /// What tells the client that the question was closed before its answer came.
    pub(crate) fn too_late(&self) -> Outbound {
        Outbound::Notify { method: CANCEL_REQUEST.to_owned(), params: cancelled(&self.request) }
    }
}

/// What a client, through its connection, says to a session.
pub(crate) enum Message {
    /// It wants to follow.
    Attach {
        /// The client.
        client: Client,
        /// Where it is, and its bell.
        cursor: Arc<Cursor>,
        /// How it wants the session to be set up.
        setup: Setup,
        /// The agent host of its connection, if it has one, for a session that has no agent at the moment.
        host: Option<HostUser>,
        /// How things stand, or why not.
        reply: oneshot::Sender<Result<Attached, RpcError>>,
    },
    /// An observer wants to read along. It does not become a client.
    Observe {
        /// The observer.
        client: ClientId,
        /// Where it is, and its bell.
        cursor: Arc<Cursor>,
        /// How things stand, or why not.
        reply: oneshot::Sender<Result<Attached, RpcError>>,
    },
    /// It prompts.
    Prompt {
        /// The id minted for the message.
        message: MessageId,
        /// The content blocks.
        content: Json,
        /// The `_meta` of the request.
        meta: Option<Json>,
        /// Who waits.
        reply: Reply,
    },
    /// It cancels.
    Cancel,
    /// It takes back a request by its own id.
    Withdraw(ClientId, Id),
    /// Its connection has ended.
    Detach {
        /// Which one.
        client: ClientId,
        /// Told when the session has dealt with it.
        done: oneshot::Sender<()>,
    },
    /// It changes an option.
    SetOption {
        /// By id or category.
        option: OptionName,
        /// To what.
        value: Json,
        /// Whether it takes options that are on or off.
        booleans: BooleanOptions,
        /// Who waits.
        reply: Reply,
    },
    /// It sets the title.
    SetTitle(String, Reply),
    /// It answers a question.
    Answer(ClientId, GivenAnswer),
    /// It cancels a tool call or a terminal: a request that the agent itself answers.
    CancelThing {
        /// `tool_call/cancel` or `terminal/cancel`.
        method: &'static str,
        /// The name of the id.
        field: &'static str,
        /// The id.
        id: String,
        /// Who waits.
        reply: Reply,
    },
    /// It has something for the agent alone.
    Relay {
        /// The method.
        method: String,
        /// The parameters.
        params: Json,
        /// Who waits; nobody for a notification.
        reply: Option<Reply>,
    },
    /// It answered what was relayed to it.
    Relayed(ClientId, Id, Result<Json, RpcError>),
    /// Something was carried out in the place of a client.
    Service(local::ServiceEvent),
    /// It closes the session, or leaves it to the others.
    Close(Reply),
    /// A client wanted to follow and does not: if nobody does, the session need not stay open.
    NotFollowed,
    /// Asks for the current state, or why it is not known.
    Status(oneshot::Sender<Result<Json, RpcError>>),
    /// Asks for the state to fork from, if that is the current one.
    ForkState(oneshot::Sender<Option<Box<ForkState>>>),
    /// Asks where the agent of the session comes from.
    AgentHost(oneshot::Sender<SharedHost>),
    /// Ends the session: the process ends, or the session is deleted or archived.
    End {
        /// Why, in words for a person.
        reason: String,
        /// The client that wants it, if one does; the others get a notice.
        by: Option<ClientTag>,
        /// Whether work is cut for it.
        work: OpenWork,
        /// Told when it is done; dropped if it is not.
        done: oneshot::Sender<Seq>,
    },
    /// A client has changed the agent process for everybody, if this is the process of the session.
    HostChanged {
        /// The process.
        host: SharedHost,
        /// The client.
        by: ClientId,
        /// What the other clients are shown.
        notice: Json,
    },
    /// The store has this epoch for the session: a lease of an earlier one is over.
    EpochSeen(u64),
    /// Another process asks for the session to be released.
    ReleaseAsked,
    /// The agent is up, or is not to be had.
    AgentUp(Result<LiveAgent, RpcError>),
    /// What the agent needs of the session's past is read.
    PastRead(Candidate, Result<SessionPast, StoreError>),
}

/// The state of an idle session whose last turn ended since it was opened here.
pub(crate) struct ForkState {
    /// The current state.
    pub(crate) session: Session,
    /// The agent's own session at the end of the last turn.
    pub(crate) at_turn_end: Native,
}

/// What happens to a session when its last client leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenUnattended {
    /// It ends: a running turn is cancelled and the agent is released.
    #[default]
    End,
    /// It goes on: a running turn finishes, a question waits for the next client. It is closed once it has been idle for
    /// the idle limit of the server.
    Keep,
}

/// What every session is given.
#[derive(Clone)]
pub(crate) struct SessionDeps {
    /// Where it is written.
    pub(crate) store: Arc<dyn Store>,
    /// What is struck out of notices and errors of the agent.
    pub(crate) secrets: Secrets,
    /// How long an agent may ignore a cancel.
    pub(crate) cancel_patience: Duration,
    /// How long an agent may say nothing when it is asked for an option that was kept.
    pub(crate) option_patience: Duration,
    /// How far an agent goes to restore a session.
    pub(crate) restore: Restore,
    /// What happens when the last client leaves.
    pub(crate) when_unattended: WhenUnattended,
    /// How long a session may be idle before its agent is released.
    pub(crate) idle_limit: Duration,
    /// What keeps a command that is run for an agent together.
    pub(crate) guardian: Option<GuardianCommand>,
    /// Where it reports what happens.
    pub(crate) news: NewsDesk,
    /// Whether sessions may come from other machines, which have other directories.
    pub(crate) several_hosts: Arc<AtomicBool>,
    /// Where sessions note that their status has changed.
    pub(crate) changed: Arc<ChangedSessions>,
}

/// A session as it is found or made, ready to run.
pub(crate) struct SessionStart {
    pub(crate) id: SessionId,
    pub(crate) session: Session,
    pub(crate) lease: Lease,
    pub(crate) setup: Setup,
    /// Where its agent comes from.
    pub(crate) host: HostUser,
    pub(crate) fork_of: Option<Native>,
    pub(crate) slot: AgentSlot,
    pub(crate) lines: AgentLines,
}

/// The channel by which an agent's lines reach a session.
pub(crate) struct AgentLines {
    pub(crate) route: mpsc::Sender<FromAgent>,
    pub(crate) lines: mpsc::Receiver<FromAgent>,
    /// What was read before the session runs: it goes before everything else.
    pub(crate) early: Vec<AgentLine>,
}

impl AgentLines {
    pub(crate) fn new() -> Self {
        let (route, lines) = mpsc::channel(BATCHES);
        Self { route, lines, early: Vec::new() }
    }
}
