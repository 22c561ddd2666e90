//! The agent behind a session: brought up when it is needed, by the best rung of the ladder that it can stand on,
//! and let go. The rungs: the whole history for an agent that takes it, its own resume, its own load, a fresh session that is given the transcript. The outcome
//! is an entry and, where it matters to the user, a notice; never a silent fresh session.

use std::collections::HashSet;
use std::time::Duration;

use rethread_core::session::Native;
use rethread_core::{Binding, Entry, Folded, HeldPrompts, Input, Json, PromptStyle, Seq, Update, UpdateKind};
use serde_json::json;
use tokio::time::Instant;

use super::choices::Choosing;
use super::outcome::{not_native, outcome_notice, read_only};
use super::{Message, Runner, Waiting};
use crate::agent::Restore;
use crate::agent::host::LiveAgent;
use crate::edge::Version;
use crate::edge::capabilities::Profile;
use crate::edge::link::ask;
use crate::edge::link::{Link, id_hash};
use crate::history::History;
use crate::mint;
use crate::seed::{self, Transcript};
use crate::store::StoreError;
use crate::wire::RpcError;

/// How much of the journal is read at once.
const PAGE: usize = 1024 * 1024;
/// How long an agent that has loaded a session says nothing when its replay is over.
pub(crate) const QUIET: Duration = Duration::from_millis(150);

/// Where the agent is.
pub(crate) enum Seat {
    /// None is needed.
    Empty,
    /// It is being started.
    Starting,
    /// It runs and opens the session.
    Opening(Box<Opening>),
    /// It has the session open.
    Bound(Box<Bound>),
    /// It was told to stop, and has not yet.
    Stopping(Box<Stopping>),
}

/// An agent that opens a session.
pub(crate) struct Opening {
    pub(crate) agent: LiveAgent,
    pub(crate) link: Link,
    rung: Rung,
    /// The agent's own session that is restored or forked, and then the one that it has open.
    pub(super) native: Option<String>,
    /// What the agent has replayed.
    pub(crate) replayed: Replayed,
    pub(super) progress: Progress,
}

/// How far an agent is that opens a session.
pub(super) enum Progress {
    /// It was asked to.
    Asked,
    /// It has answered, and may still be replaying.
    Answered(Json),
    /// It has the session, and is told what was chosen in it.
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

/// An agent that has a session open.
pub(crate) struct Bound {
    pub(crate) agent: LiveAgent,
    pub(crate) link: Link,
    /// Its own id for the session.
    pub(crate) native: String,
    /// Whether it may still be replaying: some agents answer a load first and replay after.
    pub(crate) replaying: Replaying,
}

/// Whether an agent may be replaying its own session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaying {
    /// It has been asked nothing since it restored the session.
    Maybe,
    /// It has not, or no longer.
    No,
}

/// An agent that winds up its work on prompts. Whatever it says of that is not heard.
pub(crate) struct Stopping {
    agent: LiveAgent,
    /// The requests that it has not answered.
    prompts: HashSet<u64>,
}

/// The ways to have an agent open a session, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    /// The agent keeps nothing and is given everything.
    Given,
    Resume,
    Load,
    Fork,
    New,
}

/// How the agent takes prompts, by the version it speaks.
pub(crate) fn style(version: Version) -> PromptStyle {
    match version {
        Version::V1 => PromptStyle::OneAtATime,
        Version::V2 => PromptStyle::Acknowledged,
    }
}

impl Runner {
    /// Has the agent brought up, if it is not.
    pub(super) async fn need_agent(&mut self) {
        if !matches!(self.seat, Seat::Empty) {
            return;
        }
        if self.around.restore == Restore::ReadOnly && self.session.turns.0 > 0 {
            return self.agent_failed(read_only()).await;
        }
        self.seat = Seat::Starting;
        let (host, own) = (self.around.host.clone(), self.own.clone());
        tokio::spawn(async move {
            let up = host.live().await;
            // A session that has ended needs no agent.
            let _ = own.send(Message::AgentUp(up)).await;
        });
    }

    pub(super) async fn agent_up(&mut self, up: Result<LiveAgent, RpcError>) {
        if self.broken.is_some() {
            // It could not be written down that the agent has the session. The next prompt asks again.
            self.seat = Seat::Empty;
            return;
        }
        if !matches!(self.seat, Seat::Starting) {
            return;
        }
        let agent = match up {
            Ok(agent) => agent,
            Err(error) => return self.agent_failed(error).await,
        };
        self.settle_fold().await;
        let older = match self.older_ids().await {
            Ok(older) => older,
            Err(error) => return self.agent_failed(super::store_error(&error)).await,
        };
        let mut link = Link::new(agent.profile.version, self.session.generations + 1, older);
        link.options_were(self.session.options.as_ref());
        let (rung, native) = self.first_rung(&agent);
        let progress = Progress::Asked;
        self.open_at(Opening { agent, link, rung, native, replayed: Replayed::default(), progress }).await;
    }

    /// Only the agent that had the session last can restore it by itself.
    fn first_rung(&mut self, agent: &LiveAgent) -> (Rung, Option<String>) {
        if agent.profile.has("history") && self.session.turns.0 > 0 && self.around.restore != Restore::Reseed
        {
            self.fork_of = None;
            return (Rung::Given, Some(self.id.to_string()));
        }
        let name = self.around.host.identity(agent);
        let of_agent = |native: Native| (native.agent == name).then_some(native.id);
        if let Some(parent) = self.fork_of.take().and_then(of_agent)
            && agent.profile.has("fork")
            && self.around.restore != Restore::Reseed
        {
            return (Rung::Fork, Some(parent));
        }
        let native = self.session.natives.last().cloned().and_then(of_agent);
        let rung = match (&native, self.around.restore) {
            (None, _) | (_, Restore::Reseed) => Rung::New,
            (Some(_), _) if agent.profile.has("resume") => Rung::Resume,
            (Some(_), _) if agent.profile.has("load") => Rung::Load,
            (Some(_), _) => Rung::New,
        };
        (rung, native)
    }

    async fn open_at(&mut self, opening: Opening) {
        if opening.rung == Rung::New && self.session.turns.0 > 0 {
            // Whoever only looks at a session does not make the agent forget it.
            if !self.waits_for_agent() {
                self.seat = Seat::Empty;
                return;
            }
            if self.around.restore == Restore::Native {
                return self.agent_failed(not_native()).await;
            }
        }
        let known = opening.native.as_deref().filter(|_| opening.rung != Rung::New);
        let mut params = ask::open(&opening.agent.profile, &self.setup, known);
        if opening.rung == Rung::Given {
            let mut history = History::default();
            if let Err(error) = self.each_item(|item| history.add(item)).await {
                return self.agent_failed(super::store_error(&error)).await;
            }
            params = ask::with_history(&params, &history.list());
        }
        let peer = &opening.agent.peer;
        let sent = match (opening.rung, known) {
            (Rung::Given | Rung::Resume, Some(native)) => {
                peer.route(native, &self.agent_route);
                peer.request("session/resume", &params, &self.agent_route)
            }
            (Rung::Load, Some(native)) => {
                peer.route(native, &self.agent_route);
                peer.request("session/load", &params, &self.agent_route)
            }
            (Rung::Fork, Some(_)) => peer.open("session/fork", &params, &self.agent_route),
            (Rung::New, _) | (_, None) => peer.open("session/new", &params, &self.agent_route),
        };
        match sent {
            Ok(request) => {
                self.waiting.insert(request, Waiting::Open);
                self.seat = Seat::Opening(Box::new(opening));
            }
            Err(error) => self.agent_failed(RpcError::internal(error.to_string())).await,
        }
    }

    fn waits_for_agent(&self) -> bool {
        !self.session.prompts.is_empty() || !self.postponed.is_empty()
    }

    /// The agent answered new, load, resume or fork. Some answer a load or a fork first and replay
    /// after: were a prompt sent now, nobody could tell the replay from the answer to it.
    pub(super) async fn open_answered(&mut self, outcome: Result<Json, RpcError>) {
        match (&mut self.seat, outcome) {
            (Seat::Opening(opening), Ok(answer)) if matches!(opening.rung, Rung::Load | Rung::Fork) => {
                opening.progress = Progress::Answered(answer);
            }
            (_, outcome) => self.opened(outcome).await,
        }
    }

    /// Counts the quiet from now on, if it is waited for.
    pub(super) fn wait_for_quiet(&mut self) {
        let answered = |opening: &Opening| matches!(opening.progress, Progress::Answered(_));
        let answered = matches!(&self.seat, Seat::Opening(opening) if answered(opening));
        self.quiet_at = answered.then(|| Instant::now() + QUIET);
    }

    /// The agent has answered a load and said nothing more for a while.
    pub(super) async fn replay_over(&mut self) {
        self.quiet_at = None;
        if let Seat::Opening(opening) = &self.seat
            && let Progress::Answered(answer) = &opening.progress
        {
            let answer = answer.clone();
            self.opened(Ok(answer)).await;
        }
    }

    async fn opened(&mut self, outcome: Result<Json, RpcError>) {
        let Seat::Opening(opening) = std::mem::replace(&mut self.seat, Seat::Empty) else { return };
        // A load that succeeds with nothing is a fresh session, whatever the agent calls it.
        let empty = opening.rung == Rung::Load && opening.replayed.updates == 0 && self.session.turns.0 > 0;
        let outcome = if empty {
            outcome.and_then(|_| Err(RpcError::internal("the agent replayed nothing")))
        } else {
            outcome
        };
        match outcome {
            Ok(answer) => self.has_session(*opening, &answer).await,
            Err(error) => match opening.rung.below(&opening.agent.profile) {
                Some(rung) => {
                    let why = format!("session {}: {:?} failed: {}", self.id, opening.rung, error.message);
                    self.around.log.line(&why);
                    if let Some(native) = opening.native.as_ref().filter(|_| opening.rung != Rung::Fork) {
                        opening.agent.peer.unroute(native);
                    }
                    let (progress, replayed) = (Progress::Asked, Replayed::default());
                    self.open_at(Opening { rung, progress, replayed, ..*opening }).await;
                }
                None => self.agent_failed(error).await,
            },
        }
    }

    async fn has_session(&mut self, mut opening: Opening, answer: &Json) {
        if matches!(opening.rung, Rung::New | Rung::Fork) {
            opening.native = answer.fields().text("sessionId");
        }
        if opening.native.is_none() {
            return self.agent_failed(RpcError::internal("the agent opened a session without an id")).await;
        }
        opening.progress = Progress::Choosing(Choosing::new(opening.link.opened(answer)));
        self.seat = Seat::Opening(Box::new(opening));
        self.choose_on().await;
    }

    /// The agent has the session as it was left: from here on it stands behind it.
    pub(super) async fn bind(&mut self) {
        let Seat::Opening(opening) = std::mem::replace(&mut self.seat, Seat::Empty) else { return };
        let Opening { agent, link, rung, native: Some(native), replayed, progress } = *opening else {
            return;
        };
        let Progress::Choosing(choosing) = progress else { return };
        let binding = match rung {
            Rung::Given | Rung::Resume | Rung::Fork => Binding::Resumed,
            Rung::Load => Binding::Loaded,
            Rung::New if self.session.turns.0 == 0 => Binding::Fresh,
            Rung::New => Binding::Reseeded,
        };
        if let Err(error) = self.look_back(binding, replayed.text).await {
            return self.agent_failed(super::store_error(&error)).await;
        }
        let name = self.around.host.identity(&agent);
        let mut updates = choosing.told;
        updates.retain(|update| self.is_news(update));
        updates.extend(outcome_notice(binding, &name));
        let known = |update| Input::Updated { update, known: true };
        let mut inputs: Vec<_> = updates.into_iter().map(known).collect();
        let style = style(link.version());
        let at = mint::now();
        inputs.push(Input::AgentBound { agent: name, native: native.clone(), binding, style, at });
        let replaying = match rung {
            Rung::Resume | Rung::Load | Rung::Fork => Replaying::Maybe,
            Rung::Given | Rung::New => Replaying::No,
        };
        self.seat = Seat::Bound(Box::new(Bound { agent, link, native, replaying }));
        self.step(inputs).await;
        self.take_up_postponed().await;
    }

    /// Reads the journal where the rung asks for it: the transcript for an agent that starts afresh, and how much
    /// the agent should have replayed.
    async fn look_back(&mut self, binding: Binding, replayed: usize) -> Result<(), StoreError> {
        match binding {
            Binding::Fresh | Binding::Resumed => Ok(()),
            Binding::Reseeded => {
                let mut transcript = Transcript::default();
                self.each_item(|item| transcript.add(item)).await?;
                self.seed = Some(transcript.write(seed::BUDGET));
                Ok(())
            }
            Binding::Loaded => {
                let mut kept = 0;
                self.each_item(|item| kept += agent_text(&item.entry)).await?;
                if kept != replayed {
                    let line = format!(
                        "session {}: the agent replayed {replayed} characters of its own text, the journal has {kept}",
                        self.id
                    );
                    self.around.log.line(&line);
                }
                Ok(())
            }
        }
    }

    /// Saying again what is known would only make noise.
    pub(super) fn is_news(&self, update: &Update) -> bool {
        let told = [&self.session.options, &self.session.commands];
        !told.into_iter().flatten().any(|body| body.value() == update.body.value())
    }

    async fn agent_failed(&mut self, error: RpcError) {
        self.seat = Seat::Empty;
        self.step(vec![Input::AgentFailed { error: error.json() }]).await;
        for message in std::mem::take(&mut self.postponed) {
            if let Some(reply) = super::ask::reply_of(message) {
                self.reply_error(reply, error.clone());
            }
        }
        Box::pin(self.close_if_asked()).await;
    }

    pub(super) async fn agent_gone(&mut self, reason: String) {
        match std::mem::replace(&mut self.seat, Seat::Empty) {
            Seat::Opening(_) => {
                self.end_hosted().await;
                self.forget_agent();
                self.agent_failed(RpcError::internal(reason)).await;
            }
            Seat::Stopping(_) => self.stopped().await,
            Seat::Empty | Seat::Starting | Seat::Bound(_) => {
                self.end_hosted().await;
                self.forget_agent();
                self.step(vec![Input::AgentExited { reason, held: HeldPrompts::Wait, at: mint::now() }])
                    .await;
                self.close_if_asked().await;
                if !self.ended && self.waits_for_agent() {
                    self.need_agent().await;
                }
            }
        }
    }

    async fn take_up_postponed(&mut self) {
        for message in std::mem::take(&mut self.postponed) {
            Box::pin(self.hear_client(message)).await;
        }
    }

    /// Every id that is in use before a new generation of the agent speaks.
    async fn older_ids(&self) -> Result<HashSet<u64>, StoreError> {
        let mut ids = HashSet::new();
        if self.session.generations > 0 {
            self.each_item(|item| {
                if let Entry::Updated { update, .. } = &item.entry
                    && !update.id.is_empty()
                {
                    ids.insert(id_hash(&update.id));
                }
            })
            .await?;
        }
        Ok(ids)
    }

    async fn each_item(&self, mut see: impl FnMut(&Folded)) -> Result<(), StoreError> {
        let mut from = Seq(0);
        loop {
            let page = self.around.journal.read(self.id.clone(), from, PAGE).await?;
            page.items.iter().for_each(&mut see);
            if page.end {
                return Ok(());
            }
            from = page.next;
        }
    }

    /// Lets the agent keep or drop its side of the session, and hears of it no more.
    pub(super) fn release_seat(&mut self) {
        let (agent, native) = match std::mem::replace(&mut self.seat, Seat::Empty) {
            Seat::Bound(bound) => (bound.agent, bound.native),
            Seat::Opening(opening) => match (opening.progress, opening.native) {
                (Progress::Choosing(_), Some(native)) => (opening.agent, native),
                (Progress::Asked | Progress::Answered(_) | Progress::Choosing(_), _) => return,
            },
            Seat::Empty | Seat::Starting | Seat::Stopping(_) => return,
        };
        if agent.profile.has("close") {
            let params: Json = json!({"sessionId": native}).into();
            let _ = agent.peer.request("session/close", &params, &self.agent_route);
        }
        agent.peer.unroute(&native);
    }

    /// Work that cannot be written down must not go on unseen.
    pub(super) fn stop_agent(&mut self) {
        let prompt =
            |(request, waiting): (&u64, &Waiting)| matches!(waiting, Waiting::Prompt(_)).then_some(*request);
        let prompts: HashSet<_> = self.waiting.iter().filter_map(prompt).collect();
        let agent = match &self.seat {
            Seat::Bound(bound) => {
                let _ = bound.agent.peer.notify("session/cancel", &json!({"sessionId": bound.native}).into());
                Some(bound.agent.clone())
            }
            Seat::Empty | Seat::Starting | Seat::Opening(_) | Seat::Stopping(_) => None,
        };
        self.forget_agent();
        if matches!(self.seat, Seat::Stopping(_)) {
            return;
        }
        self.release_seat();
        // It takes no other prompt before it has answered those it has.
        if let Some(agent) = agent.filter(|_| !prompts.is_empty()) {
            self.seat = Seat::Stopping(Box::new(Stopping { agent, prompts }));
        }
    }

    /// The agent answered something that nobody waits for any more.
    pub(super) async fn answered_late(&mut self, request: u64) {
        if let Seat::Stopping(stopping) = &mut self.seat
            && stopping.prompts.remove(&request)
            && stopping.prompts.is_empty()
        {
            self.stopped().await;
        }
    }

    async fn stopped(&mut self) {
        self.seat = Seat::Empty;
        if self.waits_for_agent() {
            self.need_agent().await;
        }
    }

    pub(super) fn end_agent(&mut self) {
        let agent = match &self.seat {
            Seat::Bound(bound) => bound.agent.clone(),
            Seat::Stopping(stopping) => stopping.agent.clone(),
            Seat::Empty | Seat::Starting | Seat::Opening(_) => return,
        };
        tokio::spawn(async move { agent.end().await });
    }
}

impl Rung {
    fn below(self, profile: &Profile) -> Option<Self> {
        match self {
            Self::Given => Some(Self::New),
            Self::Resume if profile.has("load") => Some(Self::Load),
            Self::Resume | Self::Load | Self::Fork => Some(Self::New),
            Self::New => None,
        }
    }
}

/// How many characters of the agent's own text an entry holds.
fn agent_text(entry: &Entry) -> usize {
    if let Entry::Updated { update, .. } = entry { said_by_agent(update) } else { 0 }
}

/// How many characters of the agent's own text an update holds.
pub(super) fn said_by_agent(update: &Update) -> usize {
    let content = update.body.fields().take("content");
    let length = |block: &Json| block.fields().text("text").map_or(0, |text| text.chars().count());
    match (update.kind, content) {
        (UpdateKind::AgentMessageChunk, Some(block)) => length(&block),
        (UpdateKind::AgentMessage, Some(blocks)) => {
            blocks.items().unwrap_or_default().iter().map(length).sum()
        }
        _ => 0,
    }
}
