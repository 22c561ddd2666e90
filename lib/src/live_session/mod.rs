//! One live session: the task that owns its state. Every input goes through [`LiveSession::step`]: decide, append, apply,
//! publish. The parts of its state are in `parts`, `clients`, `requests`, `relays`, `folding` and `timers`. The work on it:
//!
//! - clients: messages (`message`), attaching and detaching (`attach`, `detach`), requests (`client_requests`), what waits for
//!   the agent (`postponed`), relayed requests (`relay`);
//! - the agent: its state (`agent_slot`), its lines (`from_agent`), its version (`version_found`), restoring (`ladder`,
//!   `opening`, `choices`, `journal_scan`, `outcome`), letting it go (`release`), files and terminals for it (`local`);
//! - how it is, for the server and for lists (`activity`), and what happens (`reporting`);
//! - entries: their effects (`effects`), the session's row (`facts`), errors of the store (`store_failure`).

mod activity;
mod agent_slot;
mod attach;
mod choices;
mod client_requests;
mod clients;
mod detach;
mod effects;
mod folding;
mod from_agent;
mod journal_scan;
mod ladder;
mod local;
mod message;
mod opening;
mod outcome;
mod parts;
mod postponed;
mod relay;
mod relays;
mod release;
mod reporting;
mod requests;
mod store_failure;
mod timers;
mod version_found;

use std::sync::Arc;

use rethread_core::{
    AskId, Entry, HeldPrompts, Input, Json, MessageId, Refusal, Seq, Session, SessionId, TurnNo,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::agent::peer::FromAgent;
use crate::clock;
use crate::live::Live;
use crate::local_services::LocalServices;
use crate::outbox::Reply;
use crate::store::{AgentName, Append, Durability, Lease, facts};
use crate::wire::RpcError;
use clients::Clients;
use folding::Folding;
use parts::{AgentSide, ClientSide, Condition, Mailbox, Services};
use postponed::Postponed;
use relays::Relays;
use requests::Requests;
use timers::{Alarm, DueTimer, Timers};

pub use activity::Activity;
pub(crate) use activity::{ChangedSessions, QuestionSummary, SessionStatus};
pub(crate) use agent_slot::{AgentSlot, Bound, Replaying};
pub(crate) use attach::{Attached, RunningTurn};
pub(crate) use clients::Client;
pub use message::WhenUnattended;
pub(crate) use message::{
    AgentLines, ForkState, GivenAnswer, Handle, Message, OpenWork, SessionDeps, SessionEnded, SessionStart,
};
pub(crate) use opening::QUIET;
pub(crate) use store_failure::store_error;

/// How many messages of clients may wait for a session.
const INBOX: usize = 256;

/// A live session.
pub(crate) struct LiveSession {
    id: SessionId,
    session: Session,
    lease: Lease,
    deps: SessionDeps,
    live: Arc<Live>,
    mailbox: Mailbox,
    agent: AgentSide,
    clients: ClientSide,
    services: Services,
    timers: Timers,
    folding: Folding,
    condition: Condition,
}

/// Why an input was not written.
enum NotWritten {
    /// It makes no sense now.
    Refused(Refusal),
    /// The store does not work. Whoever waited for a prompt or an option has been answered.
    StoreFailed(RpcError),
}

/// What an answer of the agent's is for.
enum PendingAnswer {
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

impl LiveSession {
    /// A session and the way to it; the future is its task.
    pub(crate) fn prepare(
        begin: SessionStart,
        deps: SessionDeps,
    ) -> (Handle, impl Future<Output = ()> + Send + use<>, watch::Sender<bool>) {
        let (own, inbox) = mpsc::channel(INBOX);
        let live = Arc::new(Live::new(begin.lease.head));
        let (finish, finished) = watch::channel(false);
        let (status, observed) = watch::channel(SessionStatus::default());
        let id = begin.id.clone();
        let handle = Handle { id, live: live.clone(), inbox: own.clone(), finished, status: observed };
        let folded = begin.lease.folded;
        let ended_turn = if begin.session.turn.is_none() { begin.session.turns } else { TurnNo(0) };
        let session = Box::new(Self {
            id: begin.id,
            session: begin.session,
            lease: begin.lease,
            live,
            mailbox: Mailbox { inbox, own },
            agent: AgentSide::new(begin.slot, begin.host, begin.lines, begin.setup, begin.fork_of),
            clients: ClientSide {
                attached: Clients::default(),
                requests: Requests::after_turn(ended_turn),
                postponed: Postponed::default(),
            },
            services: Services {
                relays: Relays::default(),
                local: LocalServices::new(deps.guardian.clone()),
            },
            timers: Timers::until_idle(Instant::now() + deps.idle_limit),
            folding: Folding::since(folded),
            condition: Condition { status, ..Condition::default() },
            deps,
        });
        (handle, session.run(), finish)
    }

    /// The task. What happens seldom is boxed, so that an idle session needs little memory.
    async fn run(mut self: Box<Self>) {
        Box::pin(self.settle_past()).await;
        let early = std::mem::take(&mut self.agent.early);
        if !early.is_empty() {
            self.on_agent_message(FromAgent::Lines(early)).await;
        }
        let mut alarm = Alarm::at(self.timers.next().0);
        while !self.condition.ended {
            alarm.no_later_than(self.timers.next().0);
            tokio::select! {
                Some(message) = self.mailbox.inbox.recv() => Box::pin(self.on_client_message(*message)).await,
                Some(lines) = self.agent.lines.recv() => self.on_agent_message(lines).await,
                () = alarm.rings() => Box::pin(self.alarm_rang()).await,
            }
            if self.session.turn.is_some() {
                self.stay_awake();
            }
            self.apply_wanted_setup().await;
            self.report_status();
            self.fold_if_read();
        }
    }

    async fn alarm_rang(&mut self) {
        let Some(due) = self.timers.due(Instant::now()) else { return };
        self.timers.passed(due);
        match due {
            DueTimer::Cancel => self.cancel_ignored(),
            DueTimer::StoreRetry => self.retry_store().await,
            DueTimer::AgentQuiet => self.quiet().await,
            // The loop looks at what can be folded after everything.
            DueTimer::FoldCheck => {}
            DueTimer::Idle => self.idle().await,
        }
    }

    /// Something happened: the session is not idle for the whole limit.
    fn stay_awake(&mut self) {
        self.timers.idle = Instant::now() + self.deps.idle_limit;
    }

    /// What an earlier process left open when it died is settled before anything else.
    async fn settle_past(&mut self) {
        let bound = matches!(self.agent.slot, AgentSlot::Bound(_));
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
    /// [`LiveSession::take`] where somebody wants to know. Nothing is taken while the store is broken.
    async fn step(&mut self, inputs: Vec<Input>) {
        if self.condition.broken.is_some() {
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

    /// Takes one input all the way to the journal, or says why not. Gives the last entry.
    async fn take(&mut self, input: Input) -> Result<Seq, NotWritten> {
        if self.condition.broken.is_none() {
            let decided = rethread_core::decide(&self.session, input).map_err(NotWritten::Refused)?;
            let mut entries = Vec::new();
            self.apply(decided, &mut entries);
            self.write(entries).await;
        }
        match self.broken_error() {
            Some(error) => Err(NotWritten::StoreFailed(error)),
            None => Ok(self.lease.head),
        }
    }

    /// Applies before the write, since the next decision needs it. Nothing is published before the write: if it
    /// fails, the state is read anew.
    fn apply(&mut self, decided: Vec<Entry>, entries: &mut Vec<Arc<Entry>>) {
        for entry in decided {
            self.session.apply(&entry);
            entries.push(Arc::new(entry));
        }
    }

    async fn write(&mut self, mut entries: Vec<Arc<Entry>>) {
        // What follows from entries may be more entries: an agent that does not take a prompt, say.
        while !entries.is_empty() && self.condition.broken.is_none() {
            let begun = std::time::Instant::now();
            match self.deps.store.append(self.appended(&entries)).await {
                Ok(()) => {
                    let bytes = entries.iter().map(|entry| entry.text_len()).sum();
                    self.deps.news.written(entries.len(), bytes, begun.elapsed());
                    entries = self.publish(&entries);
                }
                Err(error) => return Box::pin(self.store_failed(error)).await,
            }
        }
    }

    /// Tells everybody of entries that are written. Gives what follows from them, not written yet.
    fn publish(&mut self, entries: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
        let first = self.lease.head.0 + 1;
        self.lease.head = Seq(self.lease.head.0 + entries.len() as u64);
        let mut following = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            self.report(entry);
            self.effect(Seq(first + at as u64), entry, &mut following);
        }
        // After the effects: an answer that has its place among these entries must be with the client before they are shown.
        self.live.publish(entries);
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
        let mut facts = facts::facts(entries.iter().map(|entry| &**entry));
        if facts.native.is_some() {
            // An agent was bound: that of the host.
            facts.agent_name = Some(AgentName(self.agent.host.configured_name()));
        }
        Append {
            session: self.id.clone(),
            epoch: self.lease.epoch,
            expected: self.lease.head,
            entries: entries.to_vec(),
            facts,
            // FULL, not NORMAL: a finished turn must survive a power cut.
            durability: if ended { Durability::Power } else { Durability::Process },
            at: facts::touched(entries).then(clock::now),
        }
    }

    /// Nothing has happened for long: the agent is released, the history stays, and the next
    /// prompt brings it back.
    async fn idle(&mut self) {
        self.stay_awake();
        let waits = !self.session.prompts.is_empty() || !self.session.questions.is_empty();
        if self.session.turn.is_some() || waits {
            return;
        }
        if self.clients.attached.is_empty() {
            return self.end_session("the session was idle".to_owned()).await;
        }
        if self.agent.bound().is_some() {
            self.part_with_agent("the session was idle").await;
        }
    }

    /// An agent that was asked to stop has not stopped in time. Its end ends what was cancelled, and the turns of every
    /// other session that it serves.
    fn cancel_ignored(&mut self) {
        let stopping = matches!(self.agent.slot, AgentSlot::Stopping(_));
        if stopping || self.session.cancel_is_awaited() {
            self.end_agent();
        }
    }

    /// Closes the inbox and refuses the messages that came too late. The session can be opened again from the store.
    fn close_inbox(&mut self) {
        self.mailbox.inbox.close();
        while let Ok(message) = self.mailbox.inbox.try_recv() {
            if let Message::Close(reply) = *message {
                self.clients.requests.add_close(reply);
            } else if let Some(reply) = client_requests::reply_of(*message) {
                reply.refuse(RpcError::not_attached(self.id.as_str()));
            }
        }
    }

    async fn release_session(&mut self) {
        self.condition.ended = true;
        self.services.local.end();
        self.release_slot();
        self.clients.attached.clear();
        self.close_inbox();
        self.fold_rest().await;
        let released = self.deps.store.release(&self.lease).await;
        if let Err(error) = released {
            tracing::error!(session = %self.id, "releasing failed: {}", crate::wire::with_causes(&error));
        }
        for reply in self.clients.requests.take_closing() {
            reply.send(self.lease.head, Ok(serde_json::json!({}).into()));
        }
        for reply in self.clients.requests.take_all() {
            reply.refuse(RpcError::internal("the session has ended"));
        }
    }
}

impl Drop for LiveSession {
    /// However it ended: its clients are shown what is left, and are detached.
    fn drop(&mut self) {
        self.live.end();
    }
}
