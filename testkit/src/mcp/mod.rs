//! A small MCP server with bad habits, for the tests of `rethread_assistant::mcp` and of the assistant: on stdio as a
//! program (`program`), over streamable HTTP and over the older event stream on loopback (`web`). What it
//! offers and how it misbehaves is in `server`.

pub mod program;
pub mod real;
mod server;
mod web;

pub use server::Habit;
pub use web::{Asked, Kind, WebServer};
