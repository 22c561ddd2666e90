//! MCP servers for an agent of ours: connecting them side by side, their tools, prompts and resources, calls,
//! and their end. Knows nothing of ACP but the list of servers as a client sends it (`config`), and nothing of
//! models: what a tool's result is good for is the caller's business.
//!
//! [`Servers`] is the door. Below it a `server` is one entry of the list, which may outlive several
//! `connection`s. `stdio`, `http` and `sse` carry messages, `inbound` decides which of them are let in.
//!
//! A secret of a server's configuration is a [`Secret`]: it is never shown, and its value is struck out of
//! whatever a server says that is passed on.

mod catalog;
mod client_handler;
mod close_reason;
mod config;
mod connection;
mod content;
mod failure;
mod http;
mod http_common;
mod inbound;
mod limits;
mod listing;
mod names;
mod process;
mod request;
mod schema;
mod server;
mod servers;
mod sse;
mod sse_events;
mod stdio;

pub use self::catalog::{Argument, McpTool, Prompt, Resource};
pub use self::config::{ConfigError, ServerConfig, from_acp};
pub use self::content::{Content, McpToolResult, PromptMessage};
pub use self::failure::{CallError, ServerFailure};
pub use self::limits::Limits;
pub use self::server::SessionEnvironment;
pub use self::servers::{ServerNote, Servers};
pub use rethread::secret::Secret;
use rethread::secret::scrub;
