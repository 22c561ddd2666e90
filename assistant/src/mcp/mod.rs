//! A client for MCP servers: connects them in parallel, lists their tools, prompts and resources, and calls tools. Knows
//! nothing of models, and of ACP only the list of servers that a client sends (`config`).
//!
//! [`Servers`] is the entry point. A `server` is one entry of the list and may outlive several `connection`s. `stdio`,
//! `http` and `sse` are the transports; `inbound` filters their messages.
//!
//! A secret of a server's configuration is a [`Secret`]: it is never shown, and it is removed from all output of the
//! server.

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
