//! Both protocol versions (v1 and v2): decodes what clients and agents send into the canonical model (v2-shaped), and
//! encodes entries and requests for them. Has no access to stores, transports or tasks.

pub mod agent_translator;
pub mod air;
pub mod capabilities;
pub mod client_request;
pub mod dialect;
pub mod list_subscription;
pub mod opened;
pub mod own_meta;
pub mod params;
mod prompt_blocks;
pub mod replay_fast_path;
pub mod search_request;
mod tool_calls;
pub mod v1;
pub mod view;

/// A version of the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// The stable version.
    V1,
    /// The draft version.
    V2,
}

impl Version {
    /// The newest version.
    pub const NEWEST: Self = Self::V2;

    /// The number in `protocolVersion` on the wire.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}
