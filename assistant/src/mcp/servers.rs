//! All MCP servers of a session: their combined lists with unique names, and routing of calls to the right server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rethread::lock::locked;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::catalog::{McpTool, Prompt, Resource};
use super::config::ServerConfig;
use super::content::{Content, McpToolResult, PromptMessage};
use super::failure::{CallError, ServerFailure};
use super::limits::Limits;
use super::names;
use super::server::{Server, SessionEnvironment, SharedByServers};

/// The servers of one session. Dropping them ends their processes without waiting.
pub struct Servers {
    servers: Vec<Arc<Server>>,
    changes: watch::Sender<u64>,
    /// The tasks that connect; dropped with this, and then they stop.
    connecting: Mutex<JoinSet<()>>,
}

/// A note about a server, for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNote {
    /// The configured name of the server.
    pub server: String,
    /// The note.
    pub text: String,
}

impl Servers {
    /// Starts to connect all servers in parallel, without waiting.
    #[must_use]
    pub fn start(configs: Vec<ServerConfig>, environment: SessionEnvironment, limits: Limits) -> Servers {
        let changes = watch::Sender::new(0);
        let common = SharedByServers { environment, limits, changes: changes.clone() };
        let mut taken = BTreeSet::new();
        let named = configs.into_iter().map(|config| {
            let shown = names::server(config.name(), &mut taken);
            Server::new(config, shown, common.clone())
        });
        let servers: Vec<_> = named.collect();
        let connecting = servers.iter().cloned().map(Server::connect).collect();
        Servers { servers, changes, connecting: Mutex::new(connecting) }
    }

    /// Connects all servers in parallel, and returns the failures.
    pub async fn connect(
        configs: Vec<ServerConfig>,
        environment: SessionEnvironment,
        limits: Limits,
    ) -> (Servers, Vec<ServerFailure>) {
        let servers = Self::start(configs, environment, limits);
        servers.settled().await;
        let failures = servers.failures();
        (servers, failures)
    }

    /// Waits until every server is connected or has failed.
    pub async fn settled(&self) {
        let mut changes = self.changes.subscribe();
        while !self.connecting().is_empty() && changes.changed().await.is_ok() {}
    }

    /// The names of all servers, in the order of the configuration.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.name().to_owned()).collect()
    }

    /// The names of the servers that are still being connected for the first time.
    #[must_use]
    pub fn connecting(&self) -> Vec<String> {
        let connecting = self.servers.iter().filter(|server| server.is_connecting());
        connecting.map(|server| server.name().to_owned()).collect()
    }

    /// The servers that could not be connected, in the order of the configuration.
    #[must_use]
    pub fn failures(&self) -> Vec<ServerFailure> {
        self.servers.iter().filter_map(|server| server.failure()).collect()
    }

    /// Whether no server is available.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.servers.iter().any(|server| server.is_available())
    }

    /// A counter of the changes of all lists.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The tools of all servers, each with unique names.
    #[must_use]
    pub fn tools(&self) -> Vec<McpTool> {
        self.named_tools().into_iter().map(|(_, tool)| tool).collect()
    }

    /// The prompts of all servers, each with a unique name.
    #[must_use]
    pub fn prompts(&self) -> Vec<Prompt> {
        let mut taken = BTreeSet::new();
        let mut prompts = Vec::new();
        for server in &self.servers {
            for prompt in server.catalog().prompts {
                let shown_name = names::shown(&server.shown, &prompt.name, &mut taken);
                prompts.push(Prompt { shown_name, ..prompt });
            }
        }
        prompts
    }

    /// The resources of all servers.
    #[must_use]
    pub fn resources(&self) -> Vec<Resource> {
        self.servers.iter().flat_map(|server| server.catalog().resources).collect()
    }

    /// Problems with the lists of the servers.
    #[must_use]
    pub fn notes(&self) -> Vec<ServerNote> {
        let notes = |server: &Arc<Server>| {
            let catalog = server.catalog();
            let tools = catalog
                .tools
                .iter()
                .filter_map(|tool| Some(format!("{}: {}", tool.name, tool.note.as_ref()?)));
            let texts: Vec<String> = catalog.notes.iter().cloned().chain(tools).collect();
            let name = server.name().to_owned();
            texts.into_iter().map(move |text| ServerNote { server: name.clone(), text })
        };
        self.servers.iter().flat_map(notes).collect()
    }

    /// The instructions of the servers: name and text.
    #[must_use]
    pub fn instructions(&self) -> Vec<(String, String)> {
        let said = |server: &Arc<Server>| Some((server.name().to_owned(), server.instructions()?));
        self.servers.iter().filter_map(said).collect()
    }

    /// Calls a tool by either of its names, until it answers or `cancel` is ready.
    pub async fn call(
        &self,
        name: &str,
        arguments: Value,
        cancel: impl Future<Output = ()>,
    ) -> Result<McpToolResult, CallError> {
        let (server, tool) = self.tool(name)?;
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(CallError::Arguments(tool.shown_name));
            }
        };
        let params = json!({"name": tool.name, "arguments": arguments});
        let answer = server.ask("tools/call", params, cancel).await?;
        server.answers().answer(&answer).ok_or_else(|| server.invalid_answer("tools/call", &answer))
    }

    /// The messages of a prompt of this server.
    pub async fn get_prompt(
        &self,
        server: &str,
        name: &str,
        arguments: Map<String, Value>,
        cancel: impl Future<Output = ()>,
    ) -> Result<Vec<PromptMessage>, CallError> {
        let server = self.server(server)?;
        let params = json!({"name": name, "arguments": arguments});
        let answer = server.ask("prompts/get", params, cancel).await?;
        server.answers().messages(&answer).ok_or_else(|| server.invalid_answer("prompts/get", &answer))
    }

    /// The contents of a resource of this server.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        cancel: impl Future<Output = ()>,
    ) -> Result<Vec<Content>, CallError> {
        let server = self.server(server)?;
        let answer = server.ask("resources/read", json!({"uri": uri}), cancel).await?;
        server.answers().contents(&answer).ok_or_else(|| server.invalid_answer("resources/read", &answer))
    }

    /// Closes all servers in parallel. Returns when their processes have ended.
    pub async fn close(&self) {
        let mut connecting = std::mem::take(&mut *locked(&self.connecting));
        connecting.shutdown().await;
        futures::future::join_all(self.servers.iter().map(|server| server.close())).await;
    }

    /// Why a tool cannot be called now, if its server is not available.
    #[must_use]
    pub fn gone(&self, name: &str) -> Option<CallError> {
        let is_of = |server: &&Arc<Server>| {
            let rest = name.strip_prefix(server.shown.as_str());
            rest.is_some_and(|rest| rest.starts_with('.') || rest.starts_with("__"))
        };
        self.servers.iter().find(is_of).and_then(|server| server.gone())
    }

    fn named_tools(&self) -> Vec<(&Arc<Server>, McpTool)> {
        let (mut shown, mut safe) = (BTreeSet::new(), BTreeSet::new());
        let mut tools = Vec::new();
        for server in &self.servers {
            for tool in server.catalog().tools {
                let shown_name = names::shown(&server.shown, &tool.name, &mut shown);
                let provider_name = names::provider(&server.shown, &tool.name, &mut safe);
                tools.push((server, McpTool { shown_name, provider_name, ..tool }));
            }
        }
        tools
    }

    fn tool(&self, name: &str) -> Result<(&Arc<Server>, McpTool), CallError> {
        let found = self
            .named_tools()
            .into_iter()
            .find(|(_, tool)| tool.shown_name == name || tool.provider_name == name);
        found.ok_or_else(|| self.gone(name).unwrap_or_else(|| CallError::Unknown(format!("a tool {name}"))))
    }

    fn server(&self, name: &str) -> Result<&Arc<Server>, CallError> {
        let found = self.servers.iter().find(|server| server.name() == name || server.shown == name);
        found.ok_or_else(|| CallError::Unknown(format!("the name {name}")))
    }
}
