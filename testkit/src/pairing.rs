//! The four pairings of client and agent, and the tests that are made for each.

use std::fmt;

use rethread::edge::Version;

/// The version of the client and that of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// The client's.
    pub client: Version,
    /// The agent's.
    pub agent: Version,
}

impl Pairing {
    /// All four.
    pub const ALL: [Self; 4] = [
        Self { client: Version::V1, agent: Version::V1 },
        Self { client: Version::V1, agent: Version::V2 },
        Self { client: Version::V2, agent: Version::V1 },
        Self { client: Version::V2, agent: Version::V2 },
    ];
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{} client, v{} agent", self.client.number(), self.agent.number())
    }
}

/// Makes four tests of each scenario, an `async fn(Pairing)`; with `client V1:` or `agent V2:`, say, in front
/// only the two of a client or an agent of that version.
#[macro_export]
macro_rules! pairings {
    (client $client:ident: $($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@one v1_agent, $scenario, $client, V1);
            $crate::pairings!(@one v2_agent, $scenario, $client, V2);
        })+
    };
    (agent $agent:ident: $($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@one v1_client, $scenario, V1, $agent);
            $crate::pairings!(@one v2_client, $scenario, V2, $agent);
        })+
    };
    (@one $name:ident, $scenario:ident, $client:ident, $agent:ident) => {
        #[tokio::test]
        async fn $name() {
            super::$scenario($crate::Pairing {
                client: rethread::edge::Version::$client,
                agent: rethread::edge::Version::$agent,
            })
            .await;
        }
    };
    ($($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            $crate::pairings!(@one v1_client_v1_agent, $scenario, V1, V1);
            $crate::pairings!(@one v1_client_v2_agent, $scenario, V1, V2);
            $crate::pairings!(@one v2_client_v1_agent, $scenario, V2, V1);
            $crate::pairings!(@one v2_client_v2_agent, $scenario, V2, V2);
        })+
    };
}
