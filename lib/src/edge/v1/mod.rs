//! Converts v1 JSON to and from the canonical form, which is that of version 2. Every function is pure; state of a
//! connection is passed as a parameter.

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
#[cfg(test)]
mod schema_checks;
pub mod sent_messages;
pub mod servers;
pub mod side_updates;
pub mod state;
pub mod tool_call;
pub mod update;

pub use options::{BooleanOptions, Options, Source, Sources, V1Options};
pub use plan::PlanForm;
pub use side_updates::{Compaction, Notices, Subagents};
pub use tool_call::{Announced, TerminalText, TerminalView};
pub use update::{CallContent, V1Context, to_canonical_simple, to_v1};
