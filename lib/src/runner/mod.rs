//! One live session: the task that alone owns its state. Every input goes through [`Runner::step`]: decide,
//! write, apply, tell. Clients reach it by [`Message`], the agent by its lines; what follows from entries for
//! the agent and for those who wait is in `consequence`, bringing the agent up in `seat`.

mod ask;
mod consequence;
mod hearing;
mod relay;
mod seat;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{
    AskId, Entry, Input, Json, MessageId, QuestionId, QuestionKind, Refusal, Seq, Session, SessionId, stored,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agent::host::{AgentHost, LiveAgent};
use crate::agent::peer::FromAgent;
use crate::edge::call::Setup;
use crate::edge::v1::BooleanOptions;
use crate::live::{Cursor, Live};
use crate::log::Log;
use crate::mint;
use crate::outbox::{Outbound, Outbox, Reply};
use crate::store::journal::Journal;
use crate::store::{Append, Durability, Lease, Listed, RowFacts, StoreError};
use crate::wire::{Id, RpcError};

pub(crate) use ask::Attached;
pub(crate) use seat::{Bound, Seat, style};

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
    /// It closes the session.
    Close(Reply),
    /// How the session stands.
    Status(oneshot::Sender<Option<Json>>),
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
    /// Clients that may be asked to do what only a client can, the newest last.
    clients: Vec<Outbox>,
    prompts: HashMap<MessageId, (Reply, Option<Json>)>,
    options: HashMap<AskId, (Reply, ask::OptionAnswer)>,
    questions: HashMap<QuestionId, (Id, QuestionKind)>,
    waiting: HashMap<u64, Waiting>,
    /// What waits for the agent and is no prompt.
    postponed: Vec<Message>,
    closing: Vec<Reply>,
    terminals: relay::Terminals,
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

/// What an answer of the agent's is for.
enum Waiting {
    Open,
    Prompt(MessageId),
    Option { ask: AskId, option: String, value: Json },
    Relay(Reply),
}

/// A session as it is found or made, ready to run.
pub(crate) struct Beginning {
    pub(crate) id: SessionId,
    pub(crate) session: Session,
    pub(crate) lease: Lease,
    pub(crate) setup: Setup,
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
            clients: Vec::new(),
            prompts: HashMap::new(),
            options: HashMap::new(),
            questions: HashMap::new(),
            waiting: HashMap::new(),
            postponed: Vec::new(),
            closing: Vec::new(),
            terminals: relay::Terminals::default(),
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
    /// [`Runner::take`] where somebody wants to know.
    async fn step(&mut self, inputs: Vec<Input>) {
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
                Ok(()) => {
                    self.lease.head = Seq(self.lease.head.0 + entries.len() as u64);
                    self.live.publish(&entries);
                    let mut following = Vec::new();
                    let first = self.lease.head.0 + 1 - entries.len() as u64;
                    for (at, entry) in entries.iter().enumerate() {
                        self.consequence(Seq(first + at as u64), entry, &mut following);
                    }
                    entries = Vec::new();
                    for input in following {
                        if let Ok(decided) = rethread_core::decide(&self.session, input) {
                            self.apply(decided, &mut entries);
                        }
                    }
                }
                Err(error) => return self.store_failed(error).await,
            }
        }
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

    /// Nothing that could not be written is told. The state is read anew, the turn ends with the reason, and
    /// whoever waits hears it.
    async fn store_failed(&mut self, error: StoreError) {
        let reason = describe(&error);
        let told = store_error(&error);
        for (_, (reply, _)) in self.prompts.drain() {
            reply.refuse(told.clone());
        }
        for (_, (reply, _)) in self.options.drain() {
            reply.refuse(told.clone());
        }
        self.around.log.line(&format!("session {}: {reason}", self.id));
        if matches!(error, StoreError::StaleEpoch { .. } | StoreError::Unknown(_)) {
            return self.let_go().await;
        }
        self.stop_agent();
        self.broken = Some(reason);
        self.mend().await;
    }

    /// Reads the state anew after a failure and ends what was open. Stays broken while the store does.
    async fn mend(&mut self) {
        let Some(reason) = self.broken.clone() else { return };
        match crate::registry::read_state(&self.around.journal, &self.id).await {
            Ok((session, head)) => {
                self.session = session;
                self.lease.head = head;
                self.broken = None;
                let input = Input::AgentExited { reason, at: mint::now() };
                if let Ok(decided) = rethread_core::decide(&self.session, input) {
                    let mut entries = Vec::new();
                    self.apply(decided, &mut entries);
                    Box::pin(self.write(entries)).await;
                }
            }
            Err(_) => self.deadline = Some(Instant::now() + Duration::from_secs(1)),
        }
    }

    async fn out_of_patience(&mut self) {
        self.deadline = None;
        if self.broken.is_some() {
            return self.mend().await;
        }
        if self.session.turn.as_ref().is_some_and(|turn| turn.cancelled) {
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
                log.line(&format!("session {id}: {}", describe(&error)));
            }
        }));
    }

    /// Waits for a fold under way: a reader must not have the journal change below it.
    async fn settle_fold(&mut self) {
        if let Some(folding) = self.folding.take() {
            let _ = folding.await;
        }
    }

    /// Nobody reaches the session from here on; whoever opens it now opens it from the store.
    async fn let_go(&mut self) {
        self.ended = true;
        self.inbox.close();
        self.release_seat();
        self.settle_fold().await;
        let lease = self.lease.clone();
        let released = self.around.journal.call(move |store| store.release(&lease)).await;
        if let Err(error) = released {
            self.around.log.line(&format!("session {}: {}", self.id, describe(&error)));
        }
        for reply in self.closing.drain(..) {
            reply.send(self.lease.head, Ok(serde_json::json!({}).into()));
        }
        for client in self.clients.drain(..) {
            let _ = client.try_send(Outbound::Detach(self.id.clone(), self.lease.head));
        }
        for (_, (reply, _)) in self.prompts.drain() {
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
            Entry::AgentBound { native, .. } => facts.native = Some(native.clone()),
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

/// The error for a client whose request met a store that failed.
pub(crate) fn store_error(error: &StoreError) -> RpcError {
    let told = RpcError::internal(describe(error));
    match error {
        StoreError::Io { .. } => {
            told.hint("free some space or mend the file, then try again; what was shown is kept")
        }
        StoreError::LiveElsewhere { session, owner } => {
            let owner = serde_json::json!({"pid": owner.pid, "host": owner.host, "since": mint::rfc3339(owner.since)});
            RpcError::new(crate::wire::code::LIVE_ELSEWHERE, error.to_string())
                .with("sessionId", session.as_str())
                .with("owner", owner)
                .hint("close the session there, or end that process; then load it again")
        }
        StoreError::Unknown(session) => RpcError::unknown_session(session.as_str()),
        StoreError::BadCursor => {
            RpcError::field("cursor", &serde_json::Value::Null, "a cursor from an earlier page")
                .hint("start again without a cursor")
        }
        StoreError::Newer { .. } => told.hint("use the newer rethread that wrote the database"),
        StoreError::Exists(_)
        | StoreError::StaleEpoch { .. }
        | StoreError::MovedOn { .. }
        | StoreError::Damaged { .. } => told,
    }
}

fn describe(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
