//! The protocol version that an agent really speaks. Some agents answer with whatever version they are offered; they are
//! offered version 1 from then on.

use std::sync::Arc;

use tokio::sync::watch;

use super::{AgentHost, HostSlot, LiveAgent};
use crate::edge::Version;
use crate::edge::capabilities::{AgentProfile, as_version_echo};
use crate::lock::locked;

/// What is known of the version that an agent speaks.
#[derive(Default)]
pub(super) struct Spoken {
    /// The version to offer first.
    pub(super) version: Option<Version>,
    /// What the agent said of itself when it was seen to answer with whatever it is offered.
    echo: Option<Arc<AgentProfile>>,
}

impl AgentHost {
    /// Takes what the agent said of itself at an earlier time: one that echoes the version is offered the one that it
    /// speaks.
    pub fn recall(&self, profile: &Arc<AgentProfile>) {
        if profile.repeats_offered_version() {
            self.note_echo(profile);
        }
    }

    /// The agent answered with version 2 and turned out to speak version 1. Gives it as it is.
    pub fn speaks_version_1(&self, agent: &LiveAgent) -> LiveAgent {
        let agent = echoing(agent);
        self.note_echo(&agent.profile);
        if let HostSlot::Live(live) = &mut *locked(&self.shared.slot)
            && Arc::ptr_eq(&live.stop, &agent.stop)
        {
            *live = agent.clone();
        }
        self.shared.corrected.send_replace(Some(agent.clone()));
        agent
    }

    /// The agent, once it turned out to be something else than it said.
    #[must_use]
    pub fn corrected(&self) -> watch::Receiver<Option<LiveAgent>> {
        self.shared.corrected.subscribe()
    }

    /// Notes which version a started agent speaks.
    pub(super) fn met(&self, live: LiveAgent) -> LiveAgent {
        let mut spoken = locked(&self.shared.spoken);
        spoken.version = Some(live.profile.version);
        if live.profile.repeats_offered_version() {
            spoken.echo = Some(live.profile.clone());
            return live;
        }
        // Another program of that name, or a newer one, may have learnt better.
        match &spoken.echo {
            Some(known) if known.info == live.profile.info && known.version == live.profile.version => {
                echoing(&live)
            }
            Some(_) | None => {
                spoken.echo = None;
                live
            }
        }
    }

    fn note_echo(&self, profile: &Arc<AgentProfile>) {
        let mut spoken = locked(&self.shared.spoken);
        spoken.version = Some(profile.version);
        spoken.echo = Some(profile.clone());
    }
}

/// The agent as one that echoes the version and speaks version 1.
fn echoing(agent: &LiveAgent) -> LiveAgent {
    let answer = as_version_echo(&agent.answer);
    let profile = AgentProfile::read(&answer).map_or_else(|_| agent.profile.clone(), Arc::new);
    LiveAgent { profile, answer, ..agent.clone() }
}
