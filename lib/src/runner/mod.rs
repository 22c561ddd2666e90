//! One live session: the task that alone owns its state. Every input goes through [`Runner::step`]: decide,
//! write, apply, tell. Clients reach it by [`Message`], the agent by its lines; what follows from entries for
//! the agent and for those who wait is in `consequence`, bringing the agent up in `seat`, a store that fails in
//! `failure`.

mod ask;
mod consequence;
mod failure;
mod hearing;
mod hosted;
mod relay;
mod seat;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{
    AskId, Entry, Input, Json, MessageId, QuestionId, QuestionKind, Refusal, Seq, Session, SessionId,
    session::Native, stored,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agent::Restore;
use crate::agent::host::{AgentHost, LiveAgent};
use crate::agent::peer::FromAgent;
use crate::edge::Version;
use crate::edge::call::Setup;
use crate::edge::v1::BooleanOptions;
use crate::hosting::Hosting;
use crate::live::{Cursor, Live};
use crate::log::Log;
use crate::mint;
use crate::outbox::{Outbound, Outbox, Reply};
use crate::store::journal::Journal;
use crate::store::{Append, Durability, Lease, Listed, NativeId, RowFacts};
use crate::wire::{Id, RpcError};

pub(crate) use ask::Attached;
pub(crate) use failure::store_error;
pub(crate) use seat::{Bound, Replaying, Seat, style};

/// How many messages of clients may wait for a session.
const INBOX: usize = 256;
/// How long after a turn it is looked whether everybody has read it.
const FOLD_CHECK: Duration = Duration::from_millis(300);
/// How many batches of an agent may wait: enough to read on while the store writes.
const BATCHES: usize = 4;

/// The way to a live session.
#[derive(Clone)]
pub(crate) struct Handle {
    /// Its id.
    pub(crate) id: SessionId,
    /// What its peers share.
    pub(crate) live: Arc<Live>,
    inbox: mpsc::Sender<Message>,
}

impl Handle {
    /// Says something to the session. An error means that it has ended.
    pub(crate) async fn tell(&self, message: Message) -> Result<(), Ended> {
        self.inbox.send(message).await.map_err(|_| Ended)
    }

    /// Says whether the session has ended.
    #[must_use]
    pub(crate) fn ended(&self) -> bool {
        self.inbox.is_closed()
    }
}

/// The session is not live any more.
#[derive(Debug, thiserror::Error)]
#[error("the session has ended")]
pub(crate) struct Ended;

/// What a client, through its connection, says to a session.
pub(crate) enum Message {
    /// It wants to follow.
    Attach {
        /// Where it is, and its bell.
        cursor: Arc<Cursor>,
        /// The way to it.
        outbox: Outbox,
        /// The version it speaks.
        version: Version,
        /// How it wants the session to be set up.
        setup: Setup,
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
    Withdraw(Id),
    /// It changes an option.
    SetOption {
        /// By id or category.
        option: crate::edge::call::OptionName,
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
    Answer(QuestionId, Result<Json, RpcError>),
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
    Relayed(Id, Result<Json, RpcError>),
    /// Something was carried out in the place of a client.
    Hosted(hosted::Hosted),
    /// It closes the session.
    Close(Reply),
    /// How the session stands.
    Status(oneshot::Sender<Json>),
    /// The process ends, or the session is deleted: settle and let go.
    End {
        /// Why, in words for a person.
        reason: String,
        /// Told when it is done.
        done: oneshot::Sender<Seq>,
    },
    /// The agent is up, or is not to be had.
    AgentUp(Result<LiveAgent, RpcError>),
}

/// What every session is given.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// Where it is written.
    pub(crate) journal: Journal,
    /// Where its agent comes from.
    pub(crate) host: AgentHost,
    /// For what nobody can be told.
    pub(crate) log: Log,
    /// How long an agent may ignore a cancel.
    pub(crate) cancel_patience: Duration,
    /// How far an agent goes to restore a session.
    pub(crate) restore: Restore,
    /// How long a session may do nothing before its agent is let go.
    pub(crate) idle_limit: Duration,
}

/// A session that runs.
pub(crate) struct Runner {
    id: SessionId,
    session: Session,
    lease: Lease,
    around: Surroundings,
    live: Arc<Live>,
    inbox: mpsc::Receiver<Message>,
    own: mpsc::Sender<Message>,
    agent_lines: mpsc::Receiver<FromAgent>,
    agent_route: mpsc::Sender<FromAgent>,
    seat: Seat,
    setup: Setup,
    /// The agent's session that this one was forked from, until the agent has been asked.
    fork_of: Option<Native>,
    /// The transcript for an agent that does not know it, until a prompt has carried it.
    seed: Option<String>,
    /// When the agent is let go if nothing happens.
    idle_at: Instant,
    /// Clients that may be asked to do what only a client can, the newest last.
    clients: Vec<Client>,
    prompts: HashMap<MessageId, Reply>,
    /// The `_meta` of prompts that have not been sent: it goes to the agent and is not kept.
    metas: HashMap<MessageId, Json>,
    options: HashMap<AskId, (Reply, ask::OptionAnswer)>,
    questions: HashMap<QuestionId, (Id, QuestionKind)>,
    waiting: HashMap<u64, Waiting>,
    /// What waits for the agent and is no prompt.
    postponed: Vec<Message>,
    closing: Vec<Reply>,
    terminals: relay::Terminals,
    hosting: Hosting,
    deadline: Option<Instant>,
    /// The end of the last turn, up to which entries may be folded, and up to where they are.
    foldable: Seq,
    folded: Seq,
    fold_check: Option<Instant>,
    /// A fold under way: nobody may begin to read until it is done.
    folding: Option<JoinHandle<()>>,
    /// The store failed; what it was.
    broken: Option<String>,
    ended: bool,
}

/// A client that follows.
struct Client {
    outbox: Outbox,
    version: Version,
}

/// What an answer of the agent's is for.
enum Waiting {
    Open,
    Prompt(MessageId),
    Option {
        ask: AskId,
        option: String,
        value: Json,
    },
    Relay(Reply),
    /// The same, for one thing that is to be cancelled.
    CancelThing(Reply),
}

/// A session as it is found or made, ready to run.
pub(crate) struct Beginning {
    pub(crate) id: SessionId,
    pub(crate) session: Session,
    pub(crate) lease: Lease,
    pub(crate) setup: Setup,
    pub(crate) fork_of: Option<Native>,
    pub(crate) seat: Seat,
    pub(crate) lines: AgentLines,
}

/// The channel by which an agent's lines reach a session.
pub(crate) struct AgentLines {
    pub(crate) route: mpsc::Sender<FromAgent>,
    pub(crate) lines: mpsc::Receiver<FromAgent>,
}

impl AgentLines {
    pub(crate) fn new() -> Self {
        let (route, lines) = mpsc::channel(BATCHES);
        Self { route, lines }
    }
}

impl Runner {
    /// Starts the task.
    pub(crate) fn start(begin: Beginning, around: Surroundings) -> Handle {
        let (own, inbox) = mpsc::channel(INBOX);
        let live = Arc::new(Live::new(begin.lease.head));
        let around_idle = around.idle_limit;
        let handle = Handle { id: begin.id.clone(), live: live.clone(), inbox: own.clone() };
        let runner = Self {
            id: begin.id,
            session: begin.session,
            lease: begin.lease,
            around,
            live,
            inbox,
            own,
            agent_lines: begin.lines.lines,
            agent_route: begin.lines.route,
            seat: begin.seat,
            setup: begin.setup,
            fork_of: begin.fork_of,
            seed: None,
            idle_at: Instant::now() + around_idle,
            clients: Vec::new(),
            prompts: HashMap::new(),
            metas: HashMap::new(),
            options: HashMap::new(),
            questions: HashMap::new(),
            waiting: HashMap::new(),
            postponed: Vec::new(),
            closing: Vec::new(),
            terminals: relay::Terminals::default(),
            hosting: Hosting::new(),
            deadline: None,
            foldable: Seq(0),
            folded: Seq(0),
            fold_check: None,
            folding: None,
            broken: None,
            ended: false,
        };
        tokio::spawn(runner.run());
        handle
    }

    async fn run(mut self) {
        self.settle_past().await;
        while !self.ended {
            let (deadline, fold_check) = (self.deadline, self.fold_check);
            tokio::select! {
                Some(message) = self.inbox.recv() => self.hear_client(message).await,
                Some(lines) = self.agent_lines.recv() => self.hear_agent(lines).await,
                () = at(deadline) => self.out_of_patience().await,
                () = at(fold_check) => self.fold_check = None,
                () = at(Some(self.idle_at)) => self.idle().await,
            }
            if self.session.turn.is_some() {
                self.idle_at = Instant::now() + self.around.idle_limit;
            }
            self.fold_if_read();
        }
    }

    /// What an earlier process left open when it died is settled before anything else.
    async fn settle_past(&mut self) {
        let bound = matches!(self.seat, Seat::Bound(_));
        let open = self.session.turn.is_some()
            || !self.session.prompts.is_empty()
            || !self.session.questions.is_empty()
            || !self.session.asks.is_empty();
        if !bound && (self.session.agent.is_some() || open) {
            let reason = "rethread ended before the agent did".to_owned();
            self.step(vec![Input::AgentExited { reason, at: mint::now() }]).await;
        }
    }

    /// Takes inputs all the way: decide, write, apply, tell. Refusals of single inputs are dropped: use
    /// [`Runner::take`] where somebody wants to know. Nothing is taken while the store is broken.
    async fn step(&mut self, inputs: Vec<Input>) {
        if self.broken.is_some() {
            return;
        }
        let mut entries = Vec::new();
        for input in inputs {
            match rethread_core::decide(&self.session, input) {
                Ok(decided) => self.apply(decided, &mut entries),
                Err(refusal) => self.around.log.line(&format!("session {}: {refusal}", self.id)),
            }
        }
        self.write(entries).await;
    }

    /// Takes one input all the way, or says why not.
    async fn take(&mut self, input: Input) -> Result<Seq, Refusal> {
        if self.broken.is_some() {
            return Ok(self.lease.head);
        }
        let decided = rethread_core::decide(&self.session, input)?;
        let mut entries = Vec::new();
        self.apply(decided, &mut entries);
        self.write(entries).await;
        Ok(self.lease.head)
    }

    /// Applies before the write, since the next decision needs it. Nobody is told before the write: if it
    /// fails, the state is read anew.
    fn apply(&mut self, decided: Vec<Entry>, entries: &mut Vec<Arc<Entry>>) {
        for entry in decided {
            self.session.apply(&entry);
            entries.push(Arc::new(entry));
        }
    }

    async fn write(&mut self, mut entries: Vec<Arc<Entry>>) {
        // What follows from entries may be more entries: an agent that does not take a prompt, say.
        while !entries.is_empty() && self.broken.is_none() {
            match self.around.journal.append(self.appended(&entries)).await {
                Ok(()) => entries = self.publish(&entries),
                Err(error) => return self.store_failed(error).await,
            }
        }
    }

    /// Tells everybody of entries that are written. Gives what follows from them, not written yet.
    fn publish(&mut self, entries: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
        let first = self.lease.head.0 + 1;
        self.lease.head = Seq(self.lease.head.0 + entries.len() as u64);
        self.live.publish(entries);
        let mut following = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            self.consequence(Seq(first + at as u64), entry, &mut following);
        }
        let mut next = Vec::new();
        for input in following {
            if let Ok(decided) = rethread_core::decide(&self.session, input) {
                self.apply(decided, &mut next);
            }
        }
        next
    }

    fn appended(&self, entries: &[Arc<Entry>]) -> Append {
        let ended = entries.iter().any(|entry| matches!(**entry, Entry::TurnEnded { .. }));
        Append {
            session: self.id.clone(),
            epoch: self.lease.epoch,
            expected: self.lease.head,
            entries: entries.to_vec(),
            facts: facts(entries.iter().map(|entry| &**entry)),
            snapshot: ended.then(|| stored::encode_session(&self.session)),
            // FULL, not NORMAL: a finished turn must survive a power cut.
            durability: if ended { Durability::Power } else { Durability::Process },
            at: touched(entries).then(mint::now),
        }
    }

    /// Nothing has happened for long: the agent and what it holds are let go, the history stays, and the next
    /// prompt brings it back.
    async fn idle(&mut self) {
        self.idle_at = Instant::now() + self.around.idle_limit;
        if self.session.turn.is_none() && matches!(self.seat, Seat::Bound(_)) {
            let reason = "the session was idle".to_owned();
            self.step(vec![Input::AgentExited { reason, at: mint::now() }]).await;
            self.forget_agent();
            self.release_seat();
        }
    }

    async fn out_of_patience(&mut self) {
        self.deadline = None;
        if self.broken.is_some() {
            return self.mend().await;
        }
        let stopping = matches!(self.seat, Seat::Stopping(_));
        if stopping || self.session.turn.as_ref().is_some_and(|turn| turn.cancelled) {
            // Its exit ends the turn as cancelled, for every session it serves.
            self.end_agent();
        }
    }

    /// A finished turn is folded once nobody reads inside it.
    fn fold_if_read(&mut self) {
        let upto = self.foldable;
        if self.folded >= upto {
            self.fold_check = None;
            return;
        }
        let busy = self.folding.as_ref().is_some_and(|folding| !folding.is_finished());
        if busy || self.live.read_below(upto) {
            // A slow reader need not be asked often.
            self.fold_check.get_or_insert_with(|| Instant::now() + FOLD_CHECK);
            return;
        }
        self.fold_check = None;
        self.folded = upto;
        let (journal, lease) = (self.around.journal.clone(), self.lease.clone());
        let (log, id) = (self.around.log.clone(), self.id.clone());
        self.folding = Some(tokio::spawn(async move {
            // A fold that fails costs room, not truth; the next one takes up the rest.
            if let Err(error) = journal.fold(lease, upto).await {
                log.line(&format!("session {id}: {}", failure::describe(&error)));
            }
        }));
    }

    /// Waits for a fold under way: a reader must not have the journal change below it.
    async fn settle_fold(&mut self) {
        if let Some(folding) = self.folding.take() {
            let _ = folding.await;
        }
    }

    /// From here on the session is opened anew by whoever wants it. Those who came too late are told so.
    fn turn_away(&mut self) {
        self.inbox.close();
        while let Ok(message) = self.inbox.try_recv() {
            if matches!(message, Message::Close(_)) {
                self.closing.extend(ask::reply_of(message));
            } else if let Some(reply) = ask::reply_of(message) {
                reply.refuse(RpcError::not_followed(self.id.as_str()));
            }
        }
    }

    async fn let_go(&mut self) {
        self.ended = true;
        self.hosting.end();
        self.release_seat();
        // Before anybody can follow it anew.
        for client in self.clients.drain(..) {
            let _ = client.outbox.try_send(Outbound::Detach(self.id.clone(), self.lease.head));
        }
        self.turn_away();
        self.settle_fold().await;
        let lease = self.lease.clone();
        let released = self.around.journal.call(move |store| store.release(&lease)).await;
        if let Err(error) = released {
            self.around.log.line(&format!("session {}: {}", self.id, failure::describe(&error)));
        }
        for reply in self.closing.drain(..) {
            reply.send(self.lease.head, Ok(serde_json::json!({}).into()));
        }
        for (_, reply) in self.prompts.drain() {
            reply.refuse(RpcError::internal("the session has ended"));
        }
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What entries change in the session's row.
pub(crate) fn facts<'a>(entries: impl Iterator<Item = &'a Entry>) -> RowFacts {
    let mut facts = RowFacts::default();
    for entry in entries {
        match entry {
            Entry::TitleSet { title, by } => facts.title = Some((title.clone(), *by)),
            Entry::Opened { roots, .. } | Entry::RootsSet { roots, .. } => facts.roots = Some(roots.clone()),
            Entry::AgentBound { agent, native, .. } => {
                facts.native = Some(NativeId { agent: agent.clone(), id: native.clone() });
            }
            Entry::PromptInserted { .. } => facts.listed = Some(Listed),
            Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::TurnStarted { .. }
            | Entry::StateChanged { .. }
            | Entry::TurnEnded { .. }
            | Entry::Updated { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. } => {}
        }
    }
    facts
}

/// Opening a session to look at it does not make it the newest.
fn touched(entries: &[Arc<Entry>]) -> bool {
    entries.iter().any(|entry| {
        matches!(**entry, Entry::PromptInserted { .. } | Entry::TurnEnded { .. } | Entry::TitleSet { .. })
    })
}
