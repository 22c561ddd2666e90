//! The first protocol version: its JSON to and from the canonical shape, which is that of the second.
//! Every function is pure; what needs the memory of a connection is given as a parameter.

pub mod aside;
pub mod auth;
pub mod commands;
pub mod content;
pub mod diff;
pub mod message;
mod meta;
pub mod options;
mod patch;
pub mod permission;
pub mod plan;
pub mod servers;
pub mod state;
pub mod told;
pub mod tool_call;
#[cfg(test)]
mod typed;
pub mod update;

pub use aside::{Compaction, Notices, Subagents};
pub use options::{BooleanOptions, Options, Source, Sources, V1Options};
pub use plan::PlanForm;
pub use tool_call::{Announced, TerminalText, TerminalView};
pub use update::{CallContent, ClientView, to_canonical_simple, to_v1};
