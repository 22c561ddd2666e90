//! Has an agent open the session: tries one restore step after the other, waits for the agent's replay, and binds the agent.
//! The outcome is an entry and, where it matters to the user, a notice.

use std::sync::Arc;
use std::time::Duration;

use rethread_core::{Input, Json, Seq, Update};
use tokio::time::Instant;

use super::agent_slot::{AgentSlot, Bound};
use super::choices::Choosing;
use super::journal_scan::{self, SessionPast};
use super::ladder::RestoreStep;
use super::outcome::{not_native, outcome_notice};
use super::{LiveSession, Message, PendingAnswer};
use crate::agent::Restore;
use crate::agent::host::LiveAgent;
use crate::agent::peer::SessionIdInUse;
use crate::clock;
use crate::edge::agent_translator::{AgentTranslator, outgoing};
use crate::history::ConversationHistory;
use crate::live::Cursor;
use crate::store::StoreError;
use crate::wire::RpcError;

/// How long an agent that has loaded a session says nothing when its replay is over.
pub(crate) const QUIET: Duration = Duration::from_millis(150);

/// An agent that opens a session.
pub(crate) struct Opening {
    pub(crate) agent: LiveAgent,
    pub(crate) translator: AgentTranslator,
    pub(super) rung: RestoreStep,
    /// The agent's own session that is restored or forked, and then the one that it has open.
    pub(super) native: Option<String>,
    /// The whole conversation, for an agent that keeps none.
    pub(super) history: Vec<Json>,
    /// What the agent has replayed.
    pub(crate) replayed: Replayed,
    pub(super) progress: Progress,
}

/// An agent that runs and is about to be asked to open a session.
pub(crate) struct Candidate {
    agent: LiveAgent,
    rung: RestoreStep,
    /// The agent's own session that the rung is about.
    native: Option<String>,
}

/// How far an agent is that opens a session.
pub(super) enum Progress {
    /// It was asked to.
    Asked,
    /// It has answered, and may still be replaying.
    Answered(Json),
    /// It has the session open and gets the chosen options.
    Choosing(Choosing),
}

/// How much an agent has replayed of its own session.
#[derive(Clone, Copy, Default)]
pub(crate) struct Replayed {
    /// Updates that belong to the conversation.
    pub(crate) updates: usize,
    /// Characters of its own text.
    pub(crate) text: usize,
}

impl Opening {
    /// The agent's own session, where the rung is about one.
    fn known(&self) -> Option<&str> {
        self.native.as_deref().filter(|_| self.rung != RestoreStep::New)
    }

    /// The agent's own session that it is asked to have open again.
    pub(super) fn restored(&self) -> Option<&str> {
        self.known().filter(|_| self.rung != RestoreStep::Fork)
    }
}

impl LiveSession {
    /// The agent runs, or could not be started.
    pub(super) async fn agent_up(&mut self, up: Result<LiveAgent, RpcError>) {
        if !self.awaits_agent() {
            return;
        }
        let agent = match up {
            Ok(agent) => agent,
            Err(error) => return self.agent_failed(error).await,
        };
        let (rung, native) = self.first_step(&agent);
        if self.only_looks(rung) {
            self.agent.slot = AgentSlot::Empty;
            return;
        }
        let candidate = Candidate { agent, rung, native };
        if self.session.generations == 0 {
            return self.past_read(candidate, Ok(SessionPast::default())).await;
        }
        self.read_past(candidate).await;
    }

    /// Reads what the agent needs of the past. A long journal takes a while: clients come and go meanwhile.
    async fn read_past(&mut self, candidate: Candidate) {
        self.folding.settled().await;
        // Before everything, so that nothing is folded away under it.
        let reader = Cursor::new(self.id.clone(), Seq(0), Arc::default());
        self.live.attach(&reader);
        let (host, agent) = (&self.agent.host, &candidate.agent);
        let history = (candidate.rung == RestoreStep::Given)
            .then(|| ConversationHistory::for_agent(host.identity(agent), host.kind()));
        let (store, id, own) = (self.deps.store.clone(), self.id.clone(), self.mailbox.own.clone());
        tokio::spawn(async move {
            let past = journal_scan::read_past(&*store, &id, history).await;
            drop(reader);
            // A session that has ended needs no agent.
            let _ = own.send(Box::new(Message::PastRead(candidate, past))).await;
        });
    }

    /// What the agent needs of the past is read: it is asked to open the session.
    pub(super) async fn past_read(&mut self, candidate: Candidate, past: Result<SessionPast, StoreError>) {
        if !self.awaits_agent() {
            return;
        }
        let SessionPast { ids, history } = match past {
            Ok(past) => past,
            Err(error) => return self.agent_failed(super::store_error(&error)).await,
        };
        let Candidate { agent, rung, native } = candidate;
        let mut translator = AgentTranslator::new(agent.profile.version, self.session.generations + 1, ids);
        translator.set_initial_options(self.session.options.as_ref());
        let (progress, replayed) = (Progress::Asked, Replayed::default());
        self.open_at(Opening { agent, translator, rung, native, history, replayed, progress }).await;
    }

    /// Says whether an agent is still being started.
    fn awaits_agent(&mut self) -> bool {
        if self.condition.broken.is_some() {
            // It could not be written down that the agent has the session. The next prompt asks again.
            self.agent.slot = AgentSlot::Empty;
        }
        matches!(self.agent.slot, AgentSlot::Starting)
    }

    async fn open_at(&mut self, opening: Opening) {
        if self.only_looks(opening.rung) {
            self.agent.slot = AgentSlot::Empty;
            return;
        }
        if self.is_anew(opening.rung) && self.deps.restore == Restore::Native {
            return self.agent_failed(not_native()).await;
        }
        let params = self.open_params(&opening);
        if let Some(native) = opening.restored()
            && let Err(error) = opening.agent.peer.route_asked(native, &self.agent.route)
        {
            // An agent that counts its sessions anew has another one with this id by now.
            return Box::pin(self.step_down(opening, error.into())).await;
        }
        match self.ask_to_open(&opening, &params) {
            Ok(request) => {
                self.agent.waiting.insert(request, PendingAnswer::Open);
                self.agent.slot = AgentSlot::Opening(Box::new(Opening { history: Vec::new(), ..opening }));
            }
            Err(error) => self.agent_failed(error).await,
        }
    }

    /// Says whether the agent would begin anew with a session that has a past.
    fn is_anew(&self, rung: RestoreStep) -> bool {
        rung == RestoreStep::New && self.session.turns.0 > 0
    }

    /// Whoever only looks at a session does not make the agent forget it.
    fn only_looks(&self, rung: RestoreStep) -> bool {
        self.is_anew(rung) && !self.waits_for_agent()
    }

    fn open_params(&self, opening: &Opening) -> Json {
        let params = outgoing::open_params(&opening.agent.profile, &self.agent.setup, opening.known());
        let options = self.session.options.as_ref();
        match opening.rung {
            RestoreStep::Given => outgoing::with_history(&params, Some(&opening.history), options),
            // Such an agent may have to know of a choice that it cannot offer at the moment.
            RestoreStep::New if opening.agent.profile.has("history") && options.is_some() => {
                outgoing::with_history(&params, None, options)
            }
            RestoreStep::Resume | RestoreStep::Load | RestoreStep::Fork | RestoreStep::New => params,
        }
    }

    fn ask_to_open(&self, opening: &Opening, params: &Json) -> Result<u64, RpcError> {
        let (peer, route) = (&opening.agent.peer, &self.agent.route);
        let sent = match (opening.rung, opening.known()) {
            (RestoreStep::Given | RestoreStep::Resume, Some(_)) => {
                peer.request("session/resume", params, route)
            }
            (RestoreStep::Load, Some(_)) => peer.request("session/load", params, route),
            (RestoreStep::Fork, Some(_)) => peer.open("session/fork", params, route),
            (RestoreStep::New, _) | (_, None) => peer.open("session/new", params, route),
        };
        sent.map_err(|error| RpcError::internal(error.to_string()))
    }

    /// The agent answered new, load, resume or fork. Some answer a load or a fork first and replay
    /// after: were a prompt sent now, nobody could tell the replay from the answer to it.
    pub(super) async fn open_answered(&mut self, outcome: Result<Json, RpcError>) {
        match (&mut self.agent.slot, outcome) {
            (AgentSlot::Opening(opening), Ok(answer)) if opening.rung.replays_late() => {
                opening.progress = Progress::Answered(answer);
            }
            (_, outcome) => self.opened(outcome).await,
        }
    }

    /// Counts the quiet from now on, if it matters.
    pub(super) fn wait_for_quiet(&mut self) {
        let limit = match &self.agent.slot {
            AgentSlot::Opening(opening) => match opening.progress {
                Progress::Asked => None,
                Progress::Answered(_) => Some(QUIET),
                Progress::Choosing(_) => Some(self.deps.option_patience),
            },
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Bound(_) | AgentSlot::Stopping(_) => None,
        };
        self.timers.agent_quiet = limit.map(|limit| Instant::now() + limit);
    }

    /// An agent that opens a session has said nothing for a while: its replay is over, or it does not answer.
    pub(super) async fn quiet(&mut self) {
        if let AgentSlot::Opening(opening) = &self.agent.slot {
            match &opening.progress {
                Progress::Asked => {}
                Progress::Answered(answer) => {
                    let answer = answer.clone();
                    self.opened(Ok(answer)).await;
                }
                Progress::Choosing(_) => self.options_unanswered().await,
            }
        }
        self.wait_for_quiet();
    }

    async fn opened(&mut self, outcome: Result<Json, RpcError>) {
        let Some(opening) = self.agent.take_opening() else { return };
        // A load that succeeds with nothing is a fresh session, whatever the agent calls it.
        let empty =
            opening.rung == RestoreStep::Load && opening.replayed.updates == 0 && self.session.turns.0 > 0;
        match outcome {
            Ok(_) if empty => {
                self.step_down(*opening, RpcError::internal("the agent replayed nothing")).await
            }
            Ok(answer) => match self.settle_route(&opening) {
                Ok(()) => self.has_session(*opening, &answer).await,
                Err(error) => self.step_down(*opening, error.into()).await,
            },
            Err(error) => self.step_down(*opening, error).await,
        }
    }

    /// Keeps the id of a session that was restored, unless the agent has given it to another one meanwhile.
    fn settle_route(&self, opening: &Opening) -> Result<(), SessionIdInUse> {
        match opening.restored() {
            Some(native) => opening.agent.peer.route(native, &self.agent.route),
            None => Ok(()),
        }
    }

    /// This rung did not hold: the one below is tried.
    async fn step_down(&mut self, opening: Opening, error: RpcError) {
        let Some(rung) = opening.rung.below(&opening.agent.profile) else {
            return self.agent_failed(error).await;
        };
        tracing::warn!(session = %self.id, "{:?} failed: {}", opening.rung, error.message);
        if let Some(native) = opening.restored() {
            opening.agent.peer.remove_route(native, &self.agent.route);
        }
        let (progress, replayed) = (Progress::Asked, Replayed::default());
        self.open_at(Opening { rung, progress, replayed, ..opening }).await;
    }

    async fn has_session(&mut self, mut opening: Opening, answer: &Json) {
        if matches!(opening.rung, RestoreStep::New | RestoreStep::Fork) {
            opening.native = answer.fields().text("sessionId");
        }
        if opening.native.is_none() {
            return self
                .agent_failed(RpcError::internal("the agent opened the session but gave no sessionId"))
                .await;
        }
        opening.progress = Progress::Choosing(Choosing::new(opening.translator.decode_open_answer(answer)));
        self.agent.slot = AgentSlot::Opening(Box::new(opening));
        self.choose_on().await;
    }

    /// Binds an agent that has the session open with its options.
    pub(super) async fn bind(&mut self) {
        let Some(opening) = self.agent.take_opening() else { return };
        let Opening { agent, translator, rung, native: Some(native), replayed, progress, .. } = *opening
        else {
            return;
        };
        let Progress::Choosing(choosing) = progress else { return };
        let binding = rung.binding(self.session.turns.0);
        if let Err(error) = self.look_back(binding, replayed.text).await {
            return self.agent_failed(super::store_error(&error)).await;
        }
        let name = self.agent.host.identity(&agent);
        let mut updates = choosing.announced;
        updates.retain(|update| self.is_news(update));
        updates.extend(outcome_notice(binding, self.acquaintance(&name), &name));
        let known = |update| Input::Updated { update, known: true };
        let mut inputs: Vec<_> = updates.into_iter().map(known).collect();
        let style = translator.dialect().prompts;
        let at = clock::now();
        let kind = self.agent.host.kind();
        inputs.push(Input::AgentBound { agent: name, native: native.clone(), binding, style, kind, at });
        let replaying = rung.replaying();
        self.agent.slot = AgentSlot::Bound(Box::new(Bound { agent, translator, native, replaying }));
        self.step(inputs).await;
        self.take_up_postponed().await;
    }

    async fn take_up_postponed(&mut self) {
        for message in self.clients.postponed.take() {
            Box::pin(self.on_client_message(message)).await;
        }
    }

    /// Saying again what is known would only make noise.
    pub(super) fn is_news(&self, update: &Update) -> bool {
        let known = [&self.session.options, &self.session.commands];
        !known.into_iter().flatten().any(|body| body.value() == update.body.value())
    }
}
