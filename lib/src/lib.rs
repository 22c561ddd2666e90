//! Keeps, resumes and serves the sessions of AI coding agents over the Agent Client Protocol.
//!
//! One path: wire, edge, decide, journal, apply, edge, wire. [`server`] is the door; `live_session` is where one
//! session's inputs become entries; `connection` is where entries become what one client sees.

pub mod agent;
pub mod author;
pub mod client_id;
pub mod clock;
pub mod command;
mod connection;
pub mod edge;
mod history;
pub mod ids;
mod live;
mod live_session;
mod local_services;
pub mod lock;
mod outbox;
mod registry;
pub mod sandbox;
pub mod secret;
mod seed;
pub mod server;
pub mod store;
pub mod transport;
pub mod wire;
