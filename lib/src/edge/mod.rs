//! The two faces of the protocol: what either version writes, read into and written from the canonical model.
//! Knows no store, no transport and no task.

pub mod at_sight;
mod blocks;
pub mod call;
pub mod capabilities;
pub mod link;
pub mod marks;
pub mod params;
mod tool_calls;
pub mod v1;
pub mod view;

/// A protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// The stable one.
    V1,
    /// The draft.
    V2,
}

impl Version {
    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}
