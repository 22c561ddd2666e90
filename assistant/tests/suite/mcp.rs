//! Tests of MCP servers on each transport: lists, calls, cancellation, misbehaving servers, and that no process is left.
//! The servers are those of the test kit; `mcp_real.rs` uses real ones.

mod bad_servers;
mod basics;
mod closing;
mod fixture;
mod http;
mod secrets;
