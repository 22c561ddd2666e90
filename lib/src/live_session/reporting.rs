//! Reports what happens in the session to the server, for notifications and metrics.

use std::time::Instant;

use rethread_core::{Entry, TurnNo};

use super::LiveSession;
use crate::clock;
use crate::news::{NewsEvent, SessionNews};

impl LiveSession {
    /// Reports an entry that was written.
    pub(super) fn report(&mut self, entry: &Entry) {
        match entry {
            Entry::TurnStarted { turn, .. } => {
                self.condition.turn_began = Some(Instant::now());
                self.deps.news.turn_started();
                self.tell(*turn, || NewsEvent::TurnStarted);
            }
            Entry::TurnEnded { turn, stop, .. } => {
                let took = self.condition.turn_began.take().map(|began| began.elapsed());
                self.deps.news.turn_ended(stop, took);
                self.tell(*turn, || NewsEvent::TurnEnded { stop: stop.clone() });
            }
            Entry::QuestionAsked { kind, body, .. } => {
                self.deps.news.asked();
                self.tell(self.session.turns, || NewsEvent::Asked { kind: *kind, body: body.clone() });
            }
            Entry::AgentLost { .. } => self.deps.news.agent_lost(),
            Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptInserted { .. }
            | Entry::PromptDropped { .. }
            | Entry::StateChanged { .. }
            | Entry::Updated { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => {}
        }
    }

    fn tell(&self, turn: TurnNo, event: impl FnOnce() -> NewsEvent) {
        self.deps.news.tell(|| SessionNews {
            session: self.id.clone(),
            title: self.session.title.as_ref().map(|(title, _)| title.clone()),
            cwd: self.session.cwd.clone(),
            agent: self.agent.host.configured_name().unwrap_or_else(|| self.agent.host.name()),
            turn,
            at: clock::now(),
            event: event(),
        });
    }
}
