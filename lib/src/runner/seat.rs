//! The agent behind a session: brought up when it is needed, with what it can restore by itself, and let go.

use std::collections::HashSet;

use rethread_core::{Binding, Entry, Fields, Input, Json, PromptStyle, Seq, Update, UpdateKind};
use serde_json::json;

use super::{Message, Runner, Waiting};
use crate::agent::host::LiveAgent;
use crate::edge::Version;
use crate::edge::capabilities::Profile;
use crate::edge::link::ask;
use crate::edge::link::{Link, id_hash};
use crate::mint;
use crate::wire::RpcError;

/// How much of the journal is read at once.
const PAGE: usize = 1024 * 1024;

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
}

/// An agent that opens a session.
pub(crate) struct Opening {
    pub(crate) agent: LiveAgent,
    pub(crate) link: Link,
    rung: Rung,
    native: Option<String>,
}

/// An agent that has a session open.
pub(crate) struct Bound {
    pub(crate) agent: LiveAgent,
    pub(crate) link: Link,
    /// Its own id for the session.
    pub(crate) native: String,
}

/// The ways to have an agent open a session, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Resume,
    Load,
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
    pub(super) fn need_agent(&mut self) {
        if !matches!(self.seat, Seat::Empty) {
            return;
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
        match up {
            Ok(agent) => {
                self.settle_fold().await;
                let older = self.older_ids().await;
                let mut link = Link::new(agent.profile.version, self.session.generations + 1, older);
                link.options_were(self.session.options.as_ref());
                let native = self.session.natives.last().cloned();
                let rung = first_rung(&agent.profile, native.as_deref());
                self.open_at(Opening { agent, link, rung, native }).await;
            }
            Err(error) => self.agent_failed(error).await,
        }
    }

    async fn open_at(&mut self, opening: Opening) {
        // Whoever only looks at a session does not make the agent forget it.
        if opening.rung == Rung::New && self.session.turns.0 > 0 && !self.waits_for_agent() {
            self.seat = Seat::Empty;
            return;
        }
        let profile = &opening.agent.profile;
        let known = opening.native.as_deref().filter(|_| opening.rung != Rung::New);
        let params = ask::open(profile, &self.setup, known);
        let peer = &opening.agent.peer;
        let sent = match (opening.rung, known) {
            (Rung::Resume, Some(native)) => {
                peer.route(native, &self.agent_route);
                peer.request("session/resume", &params, &self.agent_route)
            }
            (Rung::Load, Some(native)) => {
                peer.route(native, &self.agent_route);
                peer.request("session/load", &params, &self.agent_route)
            }
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

    /// The agent answered new, load or resume.
    pub(super) async fn opened(&mut self, outcome: Result<Json, RpcError>) {
        let Seat::Opening(opening) = std::mem::replace(&mut self.seat, Seat::Empty) else { return };
        match outcome {
            Ok(answer) => self.bind(*opening, &answer).await,
            Err(error) => match opening.rung.below(&opening.agent.profile) {
                Some(rung) => {
                    let why = format!("session {}: {:?} failed: {}", self.id, opening.rung, error.message);
                    self.around.log.line(&why);
                    if let Some(native) = &opening.native {
                        opening.agent.peer.unroute(native);
                    }
                    self.open_at(Opening { rung, ..*opening }).await;
                }
                None => self.agent_failed(error).await,
            },
        }
    }

    async fn bind(&mut self, opening: Opening, answer: &Json) {
        let Opening { agent, mut link, rung, native } = opening;
        let made = answer.fields().text("sessionId");
        let native = if rung == Rung::New { made } else { native };
        let Some(native) = native else {
            return self.agent_failed(RpcError::internal("the agent opened a session without an id")).await;
        };
        let binding = match rung {
            Rung::Resume => Binding::Resumed,
            Rung::Load => Binding::Loaded,
            Rung::New if self.session.turns.0 == 0 => Binding::Fresh,
            Rung::New => Binding::Anew,
        };
        let mut inputs: Vec<_> =
            link.opened(answer).into_iter().filter(|update| self.is_news(update)).collect();
        if binding == Binding::Anew {
            inputs.push(started_anew());
        }
        let known = |update| Input::Updated { update, known: true };
        let mut inputs: Vec<_> = inputs.into_iter().map(known).collect();
        let style = style(link.version());
        inputs.push(Input::AgentBound { native: native.clone(), binding, style, at: mint::now() });
        self.seat = Seat::Bound(Box::new(Bound { agent, link, native }));
        self.step(inputs).await;
        self.take_up_postponed().await;
    }

    /// Saying again what is known would only make noise.
    fn is_news(&self, update: &Update) -> bool {
        let told = [&self.session.options, &self.session.commands];
        !told.into_iter().any(|body| body.as_ref() == Some(&update.body))
    }

    async fn agent_failed(&mut self, error: RpcError) {
        self.seat = Seat::Empty;
        self.step(vec![Input::AgentFailed { error: error.json() }]).await;
        for message in std::mem::take(&mut self.postponed) {
            if let Some(reply) = super::ask::reply_of(message) {
                self.reply_error(reply, error.clone());
            }
        }
    }

    pub(super) async fn agent_gone(&mut self, reason: String) {
        match std::mem::replace(&mut self.seat, Seat::Empty) {
            Seat::Opening(_) => {
                self.end_hosted().await;
                self.forget_agent();
                self.agent_failed(RpcError::internal(reason)).await;
            }
            Seat::Empty | Seat::Starting | Seat::Bound(_) => {
                self.end_hosted().await;
                self.forget_agent();
                self.step(vec![Input::AgentExited { reason, at: mint::now() }]).await;
                self.close_if_asked().await;
            }
        }
    }

    async fn take_up_postponed(&mut self) {
        for message in std::mem::take(&mut self.postponed) {
            Box::pin(self.hear_client(message)).await;
        }
    }

    /// Every id that is in use before a new generation of the agent speaks.
    async fn older_ids(&self) -> HashSet<u64> {
        let mut ids = HashSet::new();
        let mut from = Seq(0);
        if self.session.generations == 0 {
            return ids;
        }
        loop {
            let Ok(page) = self.around.journal.read(self.id.clone(), from, PAGE).await else { break };
            for item in &page.items {
                if let Entry::Updated { update, .. } = &item.entry
                    && !update.id.is_empty()
                {
                    ids.insert(id_hash(&update.id));
                }
            }
            if page.end {
                break;
            }
            from = page.next;
        }
        ids
    }

    /// Lets the agent keep or drop its side of the session, and hears of it no more.
    pub(super) fn release_seat(&mut self) {
        if let Seat::Bound(bound) = std::mem::replace(&mut self.seat, Seat::Empty) {
            let params: Json = json!({"sessionId": bound.native}).into();
            if bound.agent.profile.has("close") {
                let _ = bound.agent.peer.request("session/close", &params, &self.agent_route);
            }
            bound.agent.peer.unroute(&bound.native);
        }
    }

    /// Work that cannot be written down must not go on unseen.
    pub(super) fn stop_agent(&mut self) {
        if let Seat::Bound(bound) = &self.seat {
            let _ = bound.agent.peer.notify("session/cancel", &json!({"sessionId": bound.native}).into());
        }
        self.forget_agent();
        self.release_seat();
    }

    pub(super) fn end_agent(&mut self) {
        if let Seat::Bound(bound) = &self.seat {
            let agent = bound.agent.clone();
            tokio::spawn(async move { agent.end().await });
        }
    }
}

impl Rung {
    fn below(self, profile: &Profile) -> Option<Self> {
        match self {
            Self::Resume if profile.has("load") => Some(Self::Load),
            Self::Resume | Self::Load => Some(Self::New),
            Self::New => None,
        }
    }
}

fn first_rung(profile: &Profile, native: Option<&str>) -> Rung {
    match native {
        Some(_) if profile.has("resume") => Rung::Resume,
        Some(_) if profile.has("load") => Rung::Load,
        Some(_) | None => Rung::New,
    }
}

fn started_anew() -> Update {
    let body: Fields = [
        ("sessionUpdate", Json::of("notice")),
        ("severity", Json::of("warning")),
        ("title", Json::of("The agent could not restore this session")),
        (
            "description",
            Json::of("It goes on in a fresh session of the agent, which does not know what was said before."),
        ),
    ]
    .into_iter()
    .collect();
    Update { kind: UpdateKind::Notice, id: String::new(), body: body.json() }
}
