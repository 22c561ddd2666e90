//! Agents behind us: how one is started as a tree of processes, watched and ended. What is said to it over its
//! pipes is not known here.

pub mod guardian;
pub mod process;
mod status;
mod stderr;

pub use status::AgentEnd;
