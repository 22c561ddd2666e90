//! Hands the agent of a command line over to a server, and takes it there: the agent runs with the environment and the
//! working directory of its client, not with those of the server.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rethread::agent::environment::Environment;
use rethread::agent::host::{AgentProtocol, AgentSource, CommandSource};
use rethread::agent::process::AgentCommand;
use rethread::edge::Version;
use rethread::secret::{Secret, Secrets};
use rethread::server::{ClientAccess, ClientSettings, Config, NativeSessions, TransportName};

use super::handshake::{Encoded, HandedAgent, Handover};
use crate::agents::{self, AgentChoice, guardian};
use crate::environment;
use crate::failure::Failure;
use crate::paths::Paths;

impl Handover {
    /// Hands this agent over, with the environment and the working directory of this process. Of the settings of a server
    /// those of one client are handed over.
    pub(crate) fn of(agent: &AgentChoice, config: &Config) -> io::Result<Self> {
        let environment = match environment::for_agents() {
            Environment::Exact(variables) => variables,
            Environment::Inherited => Arc::default(),
        };
        let encoded = |(name, value): &(OsString, OsString)| (Encoded(name.clone()), Encoded(value.clone()));
        Ok(Self {
            agent: handed(agent),
            environment: environment.iter().map(encoded).collect(),
            directory: Encoded(std::env::current_dir()?.into_os_string()),
            agent_protocol: match config.agent_protocol {
                AgentProtocol::Only(version) => Some(version.number()),
                AgentProtocol::Auto | AgentProtocol::First(_) => None,
            },
            longest_line: config.longest_line,
            start_seconds: config.start_limit.as_secs(),
            own_sessions_only: config.native_sessions == NativeSessions::Hidden,
        })
    }

    /// What the client is served with.
    pub(crate) fn settings(self, paths: &Paths, secrets: &Secrets) -> Result<ClientSettings, Failure> {
        let agent_protocol = match self.agent_protocol {
            Some(1) => AgentProtocol::Only(Version::V1),
            Some(2) => AgentProtocol::Only(Version::V2),
            Some(_) | None => AgentProtocol::Auto,
        };
        let native_sessions =
            if self.own_sessions_only { NativeSessions::Hidden } else { NativeSessions::Listed };
        let (longest_line, start_seconds) = (self.longest_line, self.start_seconds);
        let variables = self.environment.into_iter().map(|(name, value)| (name.0, value.0));
        let environment = Environment::exact(variables);
        let agent = source(self.agent, environment, self.directory.0.into(), paths, secrets)?;
        Ok(ClientSettings {
            agent,
            agent_protocol,
            longest_line,
            start_limit: Duration::from_secs(start_seconds),
            native_sessions,
            access: ClientAccess::default(),
            transport: TransportName::Socket,
        })
    }
}

fn handed(agent: &AgentChoice) -> HandedAgent {
    match agent {
        AgentChoice::Assistant => HandedAgent::Assistant,
        AgentChoice::Command(invocation) => {
            let env = invocation.env.iter();
            HandedAgent::Command {
                name: invocation.name.clone(),
                words: invocation.words.iter().cloned().map(Encoded).collect(),
                env: env.map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect(),
                key: invocation.key(),
            }
        }
    }
}

fn source(
    agent: HandedAgent,
    environment: Environment,
    directory: PathBuf,
    paths: &Paths,
    secrets: &Secrets,
) -> Result<Arc<dyn AgentSource>, Failure> {
    match agent {
        HandedAgent::Assistant => {
            let variables = environment.clone();
            let variable = move |name: &str| {
                let value = variables.get(name)?.to_str()?;
                Some(value.to_owned()).filter(|value| !value.trim().is_empty())
            };
            agents::assistant(paths, environment, variable)
        }
        HandedAgent::Command { name, words, env, key } => {
            let env: Vec<_> = env.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
            secrets.add_variables(&env);
            let mut words = words.into_iter().map(|word| word.0);
            let command = AgentCommand {
                program: words.next().unwrap_or_default(),
                args: words.collect(),
                environment,
                env,
                directory: Some(directory),
                guardian: guardian()?,
                stderr_log: Some(paths.logs()?.join("agent.log")),
            };
            Ok(Arc::new(CommandSource { configured_name: name, command, key }))
        }
    }
}
