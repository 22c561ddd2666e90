//! Keeps, resumes and serves the sessions of AI coding agents over the Agent Client Protocol.
//!
//! One path: wire, edge, decide, journal, apply, edge, wire. [`server`] is the door; `runner` is where one
//! session's inputs become entries; `connection` is where entries become what one client sees.

pub mod agent;
#[cfg(feature = "assistant")]
pub mod assistant;
pub mod author;
pub mod client_id;
#[cfg_attr(
    not(feature = "assistant"),
    allow(dead_code, unused_imports, reason = "the assistant needs more of it")
)]
mod command;
mod connection;
pub mod edge;
mod history;
mod hosting;
mod live;
mod lock;
pub mod log;
#[cfg(feature = "assistant")]
pub mod mcp;
pub mod mint;
mod outbox;
mod registry;
mod rooted;
mod runner;
pub mod secret;
mod seed;
pub mod server;
pub mod store;
pub mod transport;
#[cfg(feature = "assistant")]
mod web;
pub mod wire;
