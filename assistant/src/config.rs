//! The configuration of the assistant: providers, defaults, limits, the configuration file, and how commands
//! are started.

use std::path::PathBuf;

use rethread::command::{Environment, GuardianCommand};

use crate::choice::Mode;
use crate::mcp::{self, ServerConfig};
use crate::model::{ProviderConfig, ProviderLimits};

/// The configuration of an [`Assistant`](crate::Assistant).
pub struct AssistantConfig {
    /// Reads the providers. Called at the start and at each login.
    pub providers: Box<dyn Fn() -> Result<Vec<ProviderConfig>, String> + Send + Sync>,
    /// The file that the providers are read from. Messages name it, and no tool may read or write it.
    pub config_file: Option<PathBuf>,
    /// What new sessions begin with.
    pub defaults: AssistantDefaults,
    /// The time limits for providers.
    pub provider_limits: ProviderLimits,
    /// The limits for MCP servers.
    pub mcp: mcp::Limits,
    /// The guardian that commands and MCP servers run below. Without one only their process groups are ended.
    pub guardian: Option<GuardianCommand>,
    /// The environment that commands and MCP servers are started in.
    pub environment: Environment,
}

/// What new sessions begin with, unless the client says otherwise.
#[derive(Clone, Debug, Default)]
pub struct AssistantDefaults {
    /// The full id of the model: `provider/model`. Without one it is the first model that has a key.
    pub model: Option<String>,
    /// The mode.
    pub mode: Option<Mode>,
    /// MCP servers, beside those of the client. One of the client's with the same name replaces it.
    pub servers: Vec<ServerConfig>,
}
