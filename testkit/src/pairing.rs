//! The combinations of client and agent versions that scenarios run with, and the macro that makes a test of each.

use std::fmt;

use rethread::edge::Version;

use crate::agent::AgentImpl;

/// The versions of client and agent, and how the agent is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// The version of the client.
    pub client: Version,
    /// The version of the agent.
    pub agent: Version,
    /// How the agent is implemented.
    pub agent_impl: AgentImpl,
}

impl Pairing {
    /// The four combinations with a scripted agent on the wire.
    pub const ALL: [Self; 4] = [
        Self::of(Version::V1, Version::V1),
        Self::of(Version::V1, Version::V2),
        Self::of(Version::V2, Version::V1),
        Self::of(Version::V2, Version::V2),
    ];

    /// A client and a scripted agent on the wire.
    #[must_use]
    pub const fn of(client: Version, agent: Version) -> Self {
        Self { client, agent, agent_impl: AgentImpl::Own }
    }

    /// A client and the example agent that is written with the library.
    #[must_use]
    pub const fn library(client: Version) -> Self {
        Self { client, agent: Version::V2, agent_impl: AgentImpl::Library }
    }
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.agent_impl {
            AgentImpl::Own => write!(f, "v{} client, v{} agent", self.client.number(), self.agent.number()),
            AgentImpl::Library => write!(f, "v{} client, library agent", self.client.number()),
        }
    }
}

/// Runs a scenario to its end, on a runtime of its own. `pairings!` calls it.
///
/// One function for all of them: a runtime in each of the many tests takes long to compile.
pub fn run_scenario(scenario: std::pin::Pin<Box<dyn Future<Output = ()>>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(scenario);
}

/// Makes six tests of each scenario, an `async fn(Pairing)`: a client of each version with a scripted agent of each
/// version and with the example of the library. With `client V1:` or `agent V2:`, say, in front only those of a client
/// or an agent of that version; with `wire:` in front not those of the library, because the scenario is about
/// something that an agent of the library by its nature does not do.
#[macro_export]
macro_rules! pairings {
    (wire: $($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@wire $scenario);
        })+
    };
    (wire client $client:ident: $($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@one v1_agent, $scenario, of, $client, V1);
            $crate::pairings!(@one v2_agent, $scenario, of, $client, V2);
        })+
    };
    (wire agent $agent:ident: $($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@one v1_client, $scenario, of, V1, $agent);
            $crate::pairings!(@one v2_client, $scenario, of, V2, $agent);
        })+
    };
    (client $client:ident: $($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@one v1_agent, $scenario, of, $client, V1);
            $crate::pairings!(@one v2_agent, $scenario, of, $client, V2);
            $crate::pairings!(@one library_agent, $scenario, library, $client);
        })+
    };
    (agent V1: $($scenario:ident),+ $(,)?) => {
        $crate::pairings!(wire agent V1: $($scenario),+);
    };
    (agent V2: $($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@one v1_client, $scenario, of, V1, V2);
            $crate::pairings!(@one v2_client, $scenario, of, V2, V2);
            $crate::pairings!(@library $scenario);
        })+
    };
    (@wire $scenario:ident) => {
        $crate::pairings!(@one v1_client_v1_agent, $scenario, of, V1, V1);
        $crate::pairings!(@one v1_client_v2_agent, $scenario, of, V1, V2);
        $crate::pairings!(@one v2_client_v1_agent, $scenario, of, V2, V1);
        $crate::pairings!(@one v2_client_v2_agent, $scenario, of, V2, V2);
    };
    (@library $scenario:ident) => {
        $crate::pairings!(@one v1_client_library_agent, $scenario, library, V1);
        $crate::pairings!(@one v2_client_library_agent, $scenario, library, V2);
    };
    (@one $name:ident, $scenario:ident, $pairing:ident, $($version:ident),+) => {
        #[test]
        fn $name() {
            let pairing = $crate::Pairing::$pairing($(rethread::edge::Version::$version),+);
            $crate::run_scenario(Box::pin(super::$scenario(pairing)));
        }
    };
    ($($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@wire $scenario);
            $crate::pairings!(@library $scenario);
        })+
    };
}
