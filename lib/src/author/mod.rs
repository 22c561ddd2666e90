//! The API for writing an agent in Rust: a trait with a few async methods. Ids, storage, replay, lists, forks and both
//! protocol versions are handled by Rethread. The agent speaks version 2 over an in-memory transport, like any other
//! agent; it stores nothing and is given the history when a session is opened again.
//!
//! ```no_run
//! # use rethread::author::{About, Agent, InProcess, SessionSetup, Stop, Turn};
//! # use rethread::wire::RpcError;
//! struct Parrot;
//!
//! impl Agent for Parrot {
//!     type Session = ();
//!
//!     fn about(&self) -> About {
//!         About::new("parrot", "1.0.0")
//!     }
//!
//!     async fn open(&self, _: SessionSetup) -> Result<(), RpcError> {
//!         Ok(())
//!     }
//!
//!     async fn prompt(&self, _: &(), turn: Turn) -> Result<Stop, RpcError> {
//!         turn.say(&turn.text()).await;
//!         Ok(Stop::EndTurn)
//!     }
//! }
//!
//! # fn source() -> impl rethread::agent::host::AgentSource {
//! InProcess::new(Parrot)
//! # }
//! ```

mod about;
mod account;
mod connection;
mod emitter;
mod option;
mod serve;
mod session_task;
mod terminal;
mod tokens;
mod tool;
mod turn;

use std::path::PathBuf;
use std::sync::Arc;

use rethread_core::AgentKind;
use serde_json::Value;

use crate::agent::host::{AgentSource, Started, Starting};
use crate::transport::memory;
use crate::wire::RpcError;

use account::Account;

pub use about::{Ability, About, Login};
pub use emitter::{Emitter, MessageWriter};
pub use option::{Choices, ConfigOption, OptionValue};
pub use terminal::{Exit, Terminal};
pub use tokens::Tokens;
pub use tool::{Tool, ToolCall, ToolKind};
pub use turn::{Decision, Permission, Turn};

/// An agent. All of its sessions share one instance.
pub trait Agent: Send + Sync + 'static {
    /// The agent's own state of an open session.
    type Session: Send + Sync + 'static;

    /// Describes the agent.
    fn about(&self) -> About;

    /// The options of a session for the values chosen so far. The first value of an option is its default.
    fn options(&self, chosen: &Choices) -> Vec<ConfigOption> {
        let _ = chosen;
        self.about().options
    }

    /// Returns whether a value that is not offered can be chosen. It is offered from then on.
    fn accepts(&self, option: &str, value: &Value) -> bool {
        let _ = (option, value);
        false
    }

    /// Opens a session, new or with a history.
    fn open(&self, setup: SessionSetup) -> impl Future<Output = Result<Self::Session, RpcError>> + Send;

    /// Handles a prompt. After a cancel the turn ends as cancelled, whatever this returns.
    fn prompt(
        &self,
        session: &Self::Session,
        turn: Turn,
    ) -> impl Future<Output = Result<Stop, RpcError>> + Send;

    /// Closes a session. No turn of it is running.
    fn close(&self, session: &Self::Session) -> impl Future<Output = ()> + Send {
        let _ = session;
        async {}
    }

    /// Logs in with one of the methods in [`About::logins`]. By default every login succeeds.
    fn login(&self, method: &str) -> impl Future<Output = Result<(), RpcError>> + Send {
        let outcome = match self.about().logins.iter().any(|login| login.id == method) {
            true => Ok(()),
            false => Err(RpcError::field("methodId", &Value::from(method), "a method that the agent offers")),
        };
        async { outcome }
    }

    /// Logs out.
    fn logout(&self) -> impl Future<Output = Result<(), RpcError>> + Send {
        let outcome = match self.about().logins.is_empty() {
            true => Err(RpcError::unknown_method("auth/logout")),
            false => Ok(()),
        };
        async { outcome }
    }

    /// Handles a request that is not part of the protocol. A `sessionId` in it is the agent's own.
    fn request(&self, method: &str, params: Value) -> impl Future<Output = Result<Value, RpcError>> + Send {
        let _ = params;
        let method = method.to_owned();
        async move { Err(RpcError::unknown_method(&method)) }
    }
}

/// The parameters of a session to open.
pub struct SessionSetup {
    /// The working directory.
    pub cwd: PathBuf,
    /// Additional directories of the session.
    pub roots: Vec<PathBuf>,
    /// The MCP servers in v2 form.
    pub servers: Vec<Value>,
    /// The system prompt of the client, if any.
    pub system_prompt: Option<Value>,
    /// The values that were chosen before, including those that are not offered now; they apply again once they are.
    pub chosen: Choices,
    /// Sends updates of the session, also outside a turn.
    pub emitter: Emitter,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The agent has finished.
    EndTurn,
    /// The model reached its token limit.
    MaxTokens,
    /// The turn made too many requests to the model.
    MaxTurnRequests,
    /// The agent refuses the prompt.
    Refusal,
    /// The user cancelled the turn.
    Cancelled,
    /// Any other reason.
    Other(String),
}

impl Stop {
    /// The value in the protocol.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
            Self::Other(word) => word,
        }
    }
}

/// An agent that runs in this process.
pub struct InProcess<A> {
    agent: Arc<A>,
    account: Arc<Account>,
    configured_name: Option<String>,
}

impl<A: Agent> InProcess<A> {
    /// Wraps an agent without starting it.
    pub fn new(agent: A) -> Self {
        Self { agent: Arc::new(agent), account: Arc::default(), configured_name: None }
    }

    /// Sets the name under which the agent is configured.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { configured_name: Some(name.to_owned()), ..self }
    }
}

impl<A: Agent> AgentSource for InProcess<A> {
    fn start(&self) -> Starting<'_> {
        let (here, there) = memory::pair();
        tokio::spawn(serve::serve(self.agent.clone(), self.account.clone(), there.into()));
        Box::pin(async { Ok(Started { wire: here.into(), process: None }) })
    }

    fn name(&self) -> String {
        self.agent.about().name
    }

    fn configured_name(&self) -> Option<String> {
        self.configured_name.clone()
    }

    fn kind(&self) -> AgentKind {
        AgentKind::InProcess
    }
}
