//! A small MCP server that misbehaves on demand, for tests: on stdio as a program (`program`), over streamable HTTP and
//! over SSE on loopback (`web`). Its tools and misbehaviours are in `server`.

pub mod program;
pub mod real;
mod server;
mod web;

pub use server::Habit;
pub use web::{Kind, McpRequest, WebServer};
