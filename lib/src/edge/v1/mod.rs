//! The first protocol version: its JSON to and from the canonical shape, which is that of the second.
//! Every function is pure; what needs the memory of a connection is given as a parameter.

pub mod auth;
pub mod commands;
pub mod content;
pub mod diff;
mod meta;
pub mod options;
mod patch;
pub mod permission;
pub mod plan;
pub mod servers;
pub mod tool_call;
#[cfg(test)]
mod typed;

pub use options::{BooleanOptions, Options, Source, Sources, V1Options};
pub use plan::PlanForm;
pub use tool_call::{Announced, TerminalText, TerminalView};
