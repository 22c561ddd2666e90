//! MCP servers of every bad habit, on each transport: what is offered, called, cancelled and lost, and that
//! nothing is left behind. The servers are those of the test kit; real ones are in `mcp_real.rs`.

mod basics;
mod ends;
mod habits;
mod secrets;
mod stage;
mod web;
