//! One live session: the task that alone owns its state. Every input goes through [`Runner::step`]: decide,
//! write, apply, tell. Around that, each in its own file:
//!
//! - clients: who they are (`clients`), what they wait for (`requests`), their messages (`message`, `attach`, `ask`,
//!   `detach`, `postponed`), and what is passed on between them and the agent (`relay`, `relays`);
//! - the agent's words: what they are for (`hearing`), which version they are (`spoken`), the files and terminals it
//!   wants (`hosted`);
//! - the agent itself: where it is (`seat`), how it gets at the session (`ladder`, `opening`, `past`, `choices`,
//!   `outcome`), how it is let go (`release`);
//! - entries: what follows from them (`consequence`), what they say of the session's row (`facts`), when they are
//!   folded (`folding`), and a store that does not take them (`failure`).

mod ask;
mod attach;
mod choices;
mod clients;
mod consequence;
mod detach;
mod facts;
mod failure;
mod folding;
mod hearing;
mod hosted;
mod ladder;
mod message;
mod opening;
mod outcome;
mod past;
mod postponed;
mod relay;
mod relays;
mod release;
mod requests;
mod seat;
mod spoken;

use std::collections::HashMap;
use std::sync::Arc;

use rethread_core::{
    AskId, Entry, HeldPrompts, Input, Json, MessageId, QuestionId, QuestionKind, Refusal, Seq, Session,
    SessionId, TurnNo, session::Native, stored,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agent::peer::{AgentLine, FromAgent};
use crate::agent::pool::HostUser;
use crate::clock;
use crate::edge::client_request::Setup;
use crate::live::Live;
use crate::local_services::LocalServices;
use crate::outbox::Reply;
use crate::store::{Append, Durability, Lease};
use crate::wire::{Id, RpcError};
use clients::Clients;
use relays::Relays;
use requests::Requests;

pub(crate) use attach::{Attached, RunningTurn};
pub(crate) use clients::Client;
pub(crate) use facts::facts;
pub(crate) use failure::store_error;
pub use message::WhenUnattended;
pub(crate) use message::{AgentLines, Beginning, Ended, Handle, Message, Surroundings};
pub(crate) use opening::QUIET;
pub(crate) use seat::{Bound, Replaying, Seat, style};

/// How many messages of clients may wait for a session.
const INBOX: usize = 256;

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
    /// What the agent said before this task ran.
    early_lines: Vec<AgentLine>,
    /// Where the agent comes from.
    host: HostUser,
    seat: Seat,
    setup: Setup,
    /// The agent's session that this one was forked from, until the agent has been asked.
    fork_of: Option<Native>,
    /// The transcript for an agent that does not know it, until a prompt has carried it.
    seed: Option<String>,
    /// When the agent is let go if nothing happens.
    idle_at: Instant,
    clients: Clients,
    requests: Requests,
    questions: HashMap<QuestionId, (Id, QuestionKind)>,
    waiting: HashMap<u64, Waiting>,
    /// What waits for the agent and is no prompt.
    postponed: postponed::Postponed,
    relays: Relays,
    local_services: LocalServices,
    deadline: Option<Instant>,
    /// When an agent that has answered a load and says nothing more has replayed all.
    quiet_at: Option<Instant>,
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
    Option {
        ask: AskId,
        option: String,
        value: Json,
    },
    Relay(Reply),
    /// The same, for one thing that is to be cancelled.
    CancelThing(Reply),
}

impl Runner {
    /// A session and the way to it; the future is its task.
    pub(crate) fn prepare(
        begin: Beginning,
        around: Surroundings,
    ) -> (Handle, impl Future<Output = ()> + Send + use<>, watch::Sender<bool>) {
        let (own, inbox) = mpsc::channel(INBOX);
        let live = Arc::new(Live::new(begin.lease.head));
        let around_idle = around.idle_limit;
        let local_services = LocalServices::new(around.guardian.clone());
        let (finish, finished) = watch::channel(false);
        let handle = Handle { id: begin.id.clone(), live: live.clone(), inbox: own.clone(), finished };
        let ended_turn = if begin.session.turn.is_none() { begin.session.turns } else { TurnNo(0) };
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
            early_lines: begin.lines.early,
            host: begin.host,
            seat: begin.seat,
            setup: begin.setup,
            fork_of: begin.fork_of,
            seed: None,
            idle_at: Instant::now() + around_idle,
            clients: Clients::default(),
            requests: Requests::after_turn(ended_turn),
            questions: HashMap::new(),
            waiting: HashMap::new(),
            postponed: postponed::Postponed::default(),
            relays: Relays::default(),
            local_services,
            deadline: None,
            quiet_at: None,
            foldable: Seq(0),
            folded: Seq(0),
            fold_check: None,
            folding: None,
            broken: None,
            ended: false,
        };
        (handle, runner.run(), finish)
    }

    async fn run(mut self) {
        self.settle_past().await;
        let early = std::mem::take(&mut self.early_lines);
        if !early.is_empty() {
            self.hear_agent(FromAgent::Lines(early)).await;
        }
        while !self.ended {
            let (deadline, quiet_at, fold_check) = (self.deadline, self.quiet_at, self.fold_check);
            tokio::select! {
                Some(message) = self.inbox.recv() => self.hear_client(message).await,
                Some(lines) = self.agent_lines.recv() => self.hear_agent(lines).await,
                () = at(deadline) => self.out_of_patience().await,
                () = at(quiet_at) => self.quiet().await,
                () = at(fold_check) => self.fold_check = None,
                () = at(Some(self.idle_at)) => self.idle().await,
            }
            if self.session.turn.is_some() {
                self.idle_at = Instant::now() + self.around.idle_limit;
            }
            self.apply_wanted_setup().await;
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
            let reason = "rethread stopped while the agent was running".to_owned();
            self.step(vec![Input::AgentExited { reason, held: HeldPrompts::Drop, at: clock::now() }]).await;
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
                Err(refusal) => tracing::info!(session = %self.id, "refused an input: {refusal}"),
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
            facts: facts::facts(entries.iter().map(|entry| &**entry)),
            snapshot: ended.then(|| stored::encode_session(&self.session)),
            // FULL, not NORMAL: a finished turn must survive a power cut.
            durability: if ended { Durability::Power } else { Durability::Process },
            at: facts::touched(entries).then(clock::now),
        }
    }

    /// Nothing has happened for long: the agent and what it holds are let go, the history stays, and the next
    /// prompt brings it back.
    async fn idle(&mut self) {
        self.idle_at = Instant::now() + self.around.idle_limit;
        let waits = !self.session.prompts.is_empty() || !self.session.questions.is_empty();
        if self.session.turn.is_some() || waits {
            return;
        }
        if self.clients.is_empty() {
            return self.settle_and_let_go("the session was idle".to_owned()).await;
        }
        if matches!(self.seat, Seat::Bound(_)) {
            let reason = "the session was idle".to_owned();
            self.step(vec![Input::AgentExited { reason, held: HeldPrompts::Wait, at: clock::now() }]).await;
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
        if stopping || self.session.cancel_is_awaited() {
            // Its exit ends what was cancelled, and the turns of every other session it serves.
            self.end_agent();
        }
    }

    /// From here on the session is opened anew by whoever wants it. Those who came too late are told so.
    fn turn_away(&mut self) {
        self.inbox.close();
        while let Ok(message) = self.inbox.try_recv() {
            if let Message::Close(reply) = message {
                self.requests.add_close(reply);
            } else if let Some(reply) = ask::reply_of(message) {
                reply.refuse(RpcError::not_attached(self.id.as_str()));
            }
        }
    }

    async fn let_go(&mut self) {
        self.ended = true;
        self.local_services.end();
        self.release_seat();
        self.clients.clear();
        self.turn_away();
        self.settle_fold().await;
        let lease = self.lease.clone();
        let released = self.around.journal.call(move |store| store.release(&lease)).await;
        if let Err(error) = released {
            tracing::error!(session = %self.id, "releasing failed: {}", crate::wire::with_causes(&error));
        }
        for reply in self.requests.take_closing() {
            reply.send(self.lease.head, Ok(serde_json::json!({}).into()));
        }
        for reply in self.requests.take_all() {
            reply.refuse(RpcError::internal("the session has ended"));
        }
    }
}

impl Drop for Runner {
    /// However it ended: whoever follows it is shown what there is, and leaves.
    fn drop(&mut self) {
        self.live.end();
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
