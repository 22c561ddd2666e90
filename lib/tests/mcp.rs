//! MCP servers of every bad habit, on each transport: what is offered, called, cancelled and lost, and that
//! nothing is left behind. The servers are those of the test kit; real ones are in `mcp_real.rs`.
#![cfg(feature = "assistant")]

#[path = "mcp/basics.rs"]
mod basics;
#[path = "mcp/ends.rs"]
mod ends;
#[path = "mcp/habits.rs"]
mod habits;
#[path = "mcp/secrets.rs"]
mod secrets;
#[path = "mcp/stage.rs"]
mod stage;
#[path = "mcp/web.rs"]
mod web;
