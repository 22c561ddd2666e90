//! Test support for Rethread's own tests. Not published.
//!
//! # How to write a scenario
//!
//! A scenario is an `async fn` that takes a [`Pairing`]: the versions of client and agent. The agent is a scripted one on
//! the wire or the library's example. `pairings!` makes one test for each of the six pairings.
//!
//! ```ignore
//! use rethread_testkit::{Pairing, World, pairings};
//!
//! async fn r2_01_ids_are_unique(pairing: Pairing) {
//!     let world = World::of(pairing);                // memory store, a scripted agent that supports everything
//!     let client = world.ready().await;              // connected and initialized
//!     let one = client.new_session().await;
//!     let two = client.new_session().await;
//!     assert_ne!(one, two);
//!     client.prompt(&one, "say hello; tool call_1").await;
//!     assert_eq!(world.agent.received_params("session/prompt").len(), 1);
//! }
//!
//! pairings!(r2_01_ids_are_unique);
//! ```
//!
//! - [`agent::ScriptedAgent`] carries out the script in a prompt, in either version; [`agent::Step`] is the language.
//!   [`agent::AgentConfig`] configures it. It keeps its sessions over restarts and records all messages to it (`received_params`,
//!   `received`, `wait_received`). `wait NAME` in a script and `open_gate` in the test hold a turn without sleeping.
//! - [`World`] has a store, an agent and a server. `begun` makes one with a client and a session; `connect` starts
//!   a client of the pairing's version, `connect_as` of another; `again` is the next process on the same store.
//! - [`client::Client`] sends and waits. Every wait has a deadline and panics with the conversation so far.
//!   Errors are returned as the error object, so that a test can check `error["data"]["hint"]`. `on` sets how requests of
//!   the agent are answered; others can be answered by hand. Every message of the server is checked against the
//!   official schema; a mismatch fails the next wait.
//! - [`view::View`] is what a user sees, folded from the updates of either version: a v1 and a v2 client, or
//!   a live one and a replay, are compared with `assert_eq!`.
//! - [`barrage`] is a client that sends random requests without waiting, and counts the answers.
//! - [`checkout`] gives access to the sources and documents, for tests that compare them.
//! - [`normal::transcript`] is the whole conversation as text with stable names for ids, for `expect!`.
//! - `small_disk` is a real disk that is full or read-only, for programs.
//! - [`fault::FaultStore`] fails like a full disk; [`watched::Watched`] puts any other observer in front of a store.
//! - [`model::ModelServer`] is a model server for real agents and the assistant.
//! - [`mcp::WebServer`] and the example `mcp_server` are MCP servers that misbehave on demand.
//! - [`program::Home`] and [`program::Program`] run the built binary as a real process, with a client.

// The library example is compiled into this crate too and uses this name.
extern crate self as rethread_testkit;

pub mod agent;
pub mod barrage;
pub mod checkout;
pub mod client;
pub mod fault;
pub mod kept;
pub mod mcp;
pub mod model;
pub mod moments;
pub mod normal;
mod pairing;
pub mod postgres_server;
pub mod processes;
pub mod program;
mod schema;
#[cfg(target_os = "linux")]
pub mod small_disk;
pub mod tcp_proxy;
pub mod view;
pub mod watched;
mod world;

pub use pairing::{Pairing, run_scenario};
pub use world::World;

/// The deadline of every wait.
pub const DEADLINE: std::time::Duration = std::time::Duration::from_secs(5);
