//! For authors of agents: an agent is a type with a few async methods. Ids, the journal, replay, lists, forks and
//! both protocol versions are not its concern. Behind the trait an agent speaks version 2 on a wire of its own, as
//! any other agent does; it keeps nothing over its end, and is given the history of a session that it opens again.
//!
//! ```no_run
//! # use rethread::author::{About, Agent, InProcess, Opening, Stop, Turn};
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
//!     async fn open(&self, _: Opening) -> Result<(), RpcError> {
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
mod desk;
mod line;
mod option;
mod serve;
mod terminal;
mod tokens;
mod tool;
mod turn;
mod voice;

use std::path::PathBuf;
use std::sync::Arc;

use rethread_core::AgentKind;
use serde_json::Value;

use crate::agent::host::{AgentSource, Started, Starting};
use crate::transport::memory;
use crate::wire::RpcError;

use account::Account;

pub use about::{Ability, About, Login};
pub use option::{Choices, ConfigOption, OptionValue};
pub use terminal::{Exit, Terminal};
pub use tokens::Tokens;
pub use tool::{Tool, ToolCall, ToolKind};
pub use turn::{Decision, Permission, Turn};
pub use voice::{Message, Voice};

/// An agent. All of its sessions share it.
pub trait Agent: Send + Sync + 'static {
    /// What it keeps of a session while that is open.
    type Session: Send + Sync + 'static;

    /// What it is and what it can do.
    fn about(&self) -> About;

    /// What the user may choose in a session, given what was chosen so far. The first value of an option is its
    /// standard.
    fn options(&self, chosen: &Choices) -> Vec<ConfigOption> {
        let _ = chosen;
        self.about().options
    }

    /// Says whether a value of an option may be chosen that is not on offer. From then on it is on offer.
    fn accepts(&self, option: &str, value: &Value) -> bool {
        let _ = (option, value);
        false
    }

    /// A session is opened: a new one, or one that has a history.
    fn open(&self, opening: Opening) -> impl Future<Output = Result<Self::Session, RpcError>> + Send;

    /// Works on a prompt. Whatever it returns after a cancel, the turn was cancelled.
    fn prompt(
        &self,
        session: &Self::Session,
        turn: Turn,
    ) -> impl Future<Output = Result<Stop, RpcError>> + Send;

    /// A session is closed. No turn of it runs any more.
    fn close(&self, session: &Self::Session) -> impl Future<Output = ()> + Send {
        let _ = session;
        async {}
    }

    /// The user logs in: any way that it named will do, unless it looks closer.
    fn login(&self, method: &str) -> impl Future<Output = Result<(), RpcError>> + Send {
        let outcome = match self.about().logins.iter().any(|login| login.id == method) {
            true => Ok(()),
            false => Err(RpcError::field("methodId", &Value::from(method), "a method that the agent offers")),
        };
        async { outcome }
    }

    /// The user logs out.
    fn logout(&self) -> impl Future<Output = Result<(), RpcError>> + Send {
        let outcome = match self.about().logins.is_empty() {
            true => Err(RpcError::unknown_method("auth/logout")),
            false => Ok(()),
        };
        async { outcome }
    }

    /// A request that the protocol does not know. Its session, if it names one, is the agent's.
    fn request(&self, method: &str, params: Value) -> impl Future<Output = Result<Value, RpcError>> + Send {
        let _ = params;
        let method = method.to_owned();
        async move { Err(RpcError::unknown_method(&method)) }
    }
}

/// A session that is opened.
pub struct Opening {
    /// The working directory.
    pub cwd: PathBuf,
    /// More directories that the session may work in.
    pub roots: Vec<PathBuf>,
    /// The MCP servers to connect, in the words of version 2.
    pub servers: Vec<Value>,
    /// What the client wants said to a model, if it said so.
    pub system_prompt: Option<Value>,
    /// What was chosen in the session before, also what is not on offer now. It holds again when it is.
    pub chosen: Choices,
    /// The way to speak in the session, also outside a turn.
    pub voice: Voice,
}

/// Why a turn is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is done.
    EndTurn,
    /// The model had no more tokens to give.
    MaxTokens,
    /// It asked the model too often.
    MaxTurnRequests,
    /// It will not do this.
    Refusal,
    /// It was told to stop.
    Cancelled,
    /// Something else.
    Other(String),
}

impl Stop {
    /// The word of the protocol.
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

/// An agent that lives in this process.
pub struct InProcess<A> {
    agent: Arc<A>,
    account: Arc<Account>,
}

impl<A: Agent> InProcess<A> {
    /// This agent, not started.
    pub fn new(agent: A) -> Self {
        Self { agent: Arc::new(agent), account: Arc::default() }
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

    fn kind(&self) -> AgentKind {
        AgentKind::InProcess
    }
}
