//! What a client says of itself in `initialize`, and how it connects.

use std::time::Duration;

use rethread_core::Json;
use serde_json::json;

use crate::agent::host::{AgentProtocol, HostConfig};
use crate::edge::Version;
use crate::edge::capabilities::ClientProfile;
use crate::edge::params::Params;
use crate::secret::Secrets;
use crate::wire::RpcError;

/// The name of a client, and what it does for agents that ask it to. Only agents of version 1 ask for files and
/// terminals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The name for programs.
    pub name: String,
    /// The name for people.
    pub title: Option<String>,
    /// The version of the program.
    pub version: String,
    /// What it does for the agent.
    pub services: Vec<ClientService>,
}

/// Something that a client does for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientService {
    /// Reads files: `fs/read_text_file`.
    ReadFiles,
    /// Writes files: `fs/write_text_file`.
    WriteFiles,
    /// Runs terminals: `terminal/*`.
    Terminals,
    /// Shows forms to the user: `elicitation/create`.
    Forms,
    /// Runs the agent's own command on a terminal, where the user logs in.
    TerminalLogin,
}

/// How a client connects.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Which versions the agent is offered; what it answers with is accepted.
    pub protocol: AgentProtocol,
    /// How many bytes a line of the agent may have.
    pub longest_line: usize,
    /// How long the agent may take to answer `initialize`.
    pub start_limit: Duration,
    /// What is removed from the errors of the agent and from its stderr.
    pub secrets: Secrets,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            protocol: AgentProtocol::First(Version::NEWEST),
            longest_line: 64 * 1024 * 1024,
            start_limit: Duration::from_secs(120),
            secrets: Secrets::default(),
        }
    }
}

impl ClientConfig {
    pub(super) fn host(&self) -> HostConfig {
        HostConfig {
            protocol: self.protocol,
            longest_line: self.longest_line,
            start_limit: self.start_limit,
            secrets: self.secrets.clone(),
        }
    }
}

impl Introduction {
    /// The profile of this client. Its capabilities are those of version 1, which has them all.
    pub(super) fn profile(&self) -> Result<ClientProfile, RpcError> {
        let does = |service| self.services.contains(&service);
        let (read, write) = (does(ClientService::ReadFiles), does(ClientService::WriteFiles));
        let mut capabilities = json!({
            "fs": {"readTextFile": read, "writeTextFile": write},
            "terminal": does(ClientService::Terminals),
            "session": {"compaction": {}, "configOptions": {"boolean": {}}, "notices": {}},
            "plan": {},
            "subagents": {},
        });
        if does(ClientService::Forms) {
            capabilities["elicitation"] = json!({"form": {}});
        }
        if does(ClientService::TerminalLogin) {
            capabilities["auth"] = json!({"terminal": true});
        }
        let mut info = json!({"name": self.name, "version": self.version});
        if let Some(title) = &self.title {
            info["title"] = json!(title);
        }
        let params = json!({"protocolVersion": 1, "clientInfo": info, "clientCapabilities": capabilities});
        ClientProfile::read(&Params::read(Some(Json::from(params).raw()))?)
    }
}
