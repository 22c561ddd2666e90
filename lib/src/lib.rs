//! Stores, restores and serves the sessions of AI coding agents over the Agent Client Protocol.
//!
//! A message takes the path wire, edge, decide, journal, apply, edge, wire. [`server`] is the entry point; `live_session`
//! turns the inputs of one session into entries; `connection` sends entries to one client.

pub mod agent;
pub mod author;
pub mod client;
pub mod client_id;
pub mod clock;
pub mod command;
mod connection;
pub mod edge;
mod history;
pub mod host_deadline;
pub mod ids;
pub mod importer;
mod live;
mod live_session;
mod local_services;
pub mod lock;
mod news;
mod outbox;
mod reading;
mod registry;
pub mod sandbox;
pub mod secret;
mod seed;
pub mod server;
pub mod session_file;
mod session_view;
pub mod store;
pub mod transcript;
pub mod transport;
pub mod visible;
pub mod wire;
