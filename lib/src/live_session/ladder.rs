//! The restore steps of an agent for an existing session, in order: given history, resume, load, fork, new. Chooses the
//! first one and the one to fall back to; `opening` carries them out.

use rethread_core::Binding;
use rethread_core::session::Native;

use super::LiveSession;
use super::agent_slot::Replaying;
use super::outcome::Acquaintance;
use crate::agent::Restore;
use crate::agent::host::LiveAgent;
use crate::edge::capabilities::AgentProfile;

/// The ways to have an agent open a session, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestoreStep {
    /// The agent keeps nothing and is given everything.
    Given,
    /// Its own resume.
    Resume,
    /// Its own load, with a replay.
    Load,
    /// A fork of the session that it has of the parent.
    Fork,
    /// A fresh session, which is given the transcript with the next prompt.
    New,
}

impl RestoreStep {
    /// The one to try when this one does not hold.
    pub(super) fn below(self, profile: &AgentProfile) -> Option<Self> {
        match self {
            Self::Given => Some(Self::New),
            Self::Resume if profile.has("load") => Some(Self::Load),
            Self::Resume | Self::Load | Self::Fork => Some(Self::New),
            Self::New => None,
        }
    }

    /// What is written down of a session with that many turns which was opened this way.
    pub(super) fn binding(self, turns: u64) -> Binding {
        match self {
            Self::Given | Self::Resume | Self::Fork => Binding::Resumed,
            Self::Load => Binding::Loaded,
            Self::New if turns == 0 => Binding::Fresh,
            Self::New => Binding::Reseeded,
        }
    }

    /// Says whether an agent that has answered may have a replay yet to come, which is waited for.
    pub(super) fn replays_late(self) -> bool {
        match self {
            Self::Load | Self::Fork => true,
            Self::Given | Self::Resume | Self::New => false,
        }
    }

    /// Whether an agent that is bound may be replaying even now: a wait for quiet proves nothing.
    pub(super) fn replaying(self) -> Replaying {
        match self {
            Self::Resume | Self::Load | Self::Fork => Replaying::Maybe,
            Self::Given | Self::New => Replaying::No,
        }
    }
}

impl LiveSession {
    /// The rung to begin with, and the agent's own session that it is about. Only the agent that had the session
    /// last can restore it by itself.
    pub(super) fn first_step(&mut self, agent: &LiveAgent) -> (RestoreStep, Option<String>) {
        if agent.profile.has("history") && self.session.turns.0 > 0 && self.deps.restore != Restore::Reseed {
            self.agent.fork_of = None;
            return (RestoreStep::Given, Some(self.id.to_string()));
        }
        let name = self.agent.host.identity(agent);
        let of_agent = |native: Native| (native.agent == name).then_some(native.id);
        if let Some(parent) = self.agent.fork_of.take().and_then(of_agent)
            && agent.profile.has("fork")
            && self.deps.restore != Restore::Reseed
        {
            return (RestoreStep::Fork, Some(parent));
        }
        let native = self.session.natives.last().cloned().and_then(of_agent);
        let rung = match (&native, self.deps.restore) {
            (None, _) | (_, Restore::Reseed) => RestoreStep::New,
            (Some(_), _) if agent.profile.has("resume") => RestoreStep::Resume,
            (Some(_), _) if agent.profile.has("load") => RestoreStep::Load,
            (Some(_), _) => RestoreStep::New,
        };
        (rung, native)
    }

    /// What an agent of this name had to do with the session before.
    pub(super) fn acquaintance(&self, name: &str) -> Acquaintance {
        match self.session.natives.last() {
            None if self.session.moved_from.is_some() => Acquaintance::Elsewhere,
            None => Acquaintance::OfNone,
            Some(last) if last.agent != name => Acquaintance::OfAnother,
            Some(_) if self.deps.restore == Restore::Reseed => Acquaintance::NotAsked,
            Some(_) => Acquaintance::Asked,
        }
    }
}
