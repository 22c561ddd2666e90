//! The configuration of the assistant: providers, limits, the configuration file and the guardian.

use std::path::PathBuf;

use rethread::command::GuardianCommand;

use crate::mcp;
use crate::model::{ProviderConfig, ProviderLimits};

/// The configuration of an [`Assistant`](crate::Assistant).
pub struct AssistantConfig {
    /// Reads the providers. Called at the start and at each login.
    pub providers: Box<dyn Fn() -> Result<Vec<ProviderConfig>, String> + Send + Sync>,
    /// The file that the providers are read from. Messages name it, and no tool may read or write it.
    pub config_file: Option<PathBuf>,
    /// The time limits for providers.
    pub provider_limits: ProviderLimits,
    /// The limits for MCP servers.
    pub mcp: mcp::Limits,
    /// The guardian that commands and MCP servers run below. Without one only their process groups are ended.
    pub guardian: Option<GuardianCommand>,
}
