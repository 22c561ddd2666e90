//! What Rethread's own tests are made with. It never ships.
//!
//! # How to write a scenario
//!
//! A scenario is an `async fn` that takes a [`Pairing`]: the version of the client and that of the agent, which speaks
//! on the wire by itself or is the example of the library. `pairings!` makes one test of it for each of the six.
//!
//! ```ignore
//! use rethread_testkit::{Pairing, World, pairings};
//!
//! async fn r2_01_ids_are_unique(pairing: Pairing) {
//!     let world = World::of(pairing);                // memory store, a scripted agent that can do everything
//!     let client = world.ready().await;              // connected and initialized
//!     let one = client.new_session().await;
//!     let two = client.new_session().await;
//!     assert_ne!(one, two);
//!     client.prompt(&one, "say hello; tool call_1").await;
//!     assert_eq!(world.agent.told("session/prompt").len(), 1);
//! }
//!
//! pairings!(r2_01_ids_are_unique);
//! ```
//!
//! - [`agent::ScriptedAgent`] does in a turn what the prompt says, in either version; [`agent::Step`] is the
//!   language. Its nature is an [`agent::AgentConfig`]; it remembers its sessions over restarts and records
//!   everything it was told (`told`, `received`, `wait_told`). `wait NAME` in a script and `open_gate` in the
//!   test hold a turn without sleeping.
//! - [`World`] has a store, an agent and a server. `begun` gives one with a client and a session; `connect` starts
//!   a client of the pairing's version, `connect_as` of another; `again` is the next process on the same store.
//! - [`client::Client`] sends and waits. Every wait has a deadline and panics with the conversation so far.
//!   Errors come back as the error object, so a test can look at `error["data"]["hint"]`. `on` says how
//!   requests of the agent's are answered; an unanswered one can be answered by hand. What the server says is
//!   held against the official schema as it comes; what does not fit it fails the next wait.
//! - [`view::View`] is what a user sees, folded from the updates of either version: a v1 and a v2 client, or
//!   a live one and a replay, are compared with `assert_eq!`.
//! - [`barrage`] is a client that sends random requests without waiting, and counts the answers.
//! - [`checkout`] is the sources and documents, for tests that hold them against each other.
//! - [`normal::transcript`] is the whole conversation as text with stable names for ids, for `expect!`.
//! - [`fault::FaultStore`] fails as a full disk does; [`watched::Watched`] puts any other watchman before a store.
//! - [`model::ModelServer`] is the model behind real agents and the assistant.
//! - [`mcp::WebServer`] and the example `mcp_server` are MCP servers with bad habits.
//! - [`program::Home`] and [`program::Program`] are the shipped binary as a real process, with a client.

// The example of the library, which is part of this crate too, knows it by this name.
extern crate self as rethread_testkit;

pub mod agent;
pub mod barrage;
pub mod checkout;
pub mod client;
pub mod fault;
pub mod kept;
pub mod mcp;
pub mod model;
pub mod normal;
mod pairing;
pub mod processes;
pub mod program;
mod schema;
pub mod view;
pub mod watched;
mod world;

pub use pairing::Pairing;
pub use world::World;

/// How long anything may take.
pub const DEADLINE: std::time::Duration = std::time::Duration::from_secs(5);
