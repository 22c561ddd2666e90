//! Makes the agent that a command line names: a command, an agent by its name, or the built-in assistant. `known` has the
//! agents that everybody can install, `search_path` finds programs.

pub(crate) mod known;
pub(crate) mod search_path;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rethread::agent::environment::Environment;
use rethread::agent::host::{AgentSource, CommandSource};
use rethread::agent::process::{AgentCommand, GuardianCommand};
use rethread::author::InProcess;
use rethread::host_deadline::HostDeadline;
use rethread::secret::Secret;
use rethread_assistant::mcp::Limits;
use rethread_assistant::model::ProviderLimits;
use rethread_assistant::{Assistant, AssistantConfig};

use crate::config::{self, ASSISTANT, AgentConfig, ConfigFile, nearest};
use crate::environment;
use crate::failure::{ExitCode, Failure};
use crate::paths::Paths;
use known::{KNOWN_AGENTS, known_agent};
use search_path::find_program;

/// The agent that a command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentChoice {
    /// A program.
    Command(AgentInvocation),
    /// The built-in assistant.
    Assistant,
}

/// How a program is started as an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentInvocation {
    /// The name under which anybody can start it again: a configured or a well-known one.
    pub(crate) name: Option<String>,
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// Environment variables of this agent alone.
    pub(crate) env: Vec<(String, Secret)>,
}

impl AgentChoice {
    /// The agent for the words after `--`; the configured default, or else the assistant, if there are none.
    pub(crate) fn of_command(words: Vec<OsString>) -> Result<Self, Failure> {
        if words.is_empty() { Self::default_agent() } else { Ok(Self::command(words)) }
    }

    /// The program with these arguments.
    pub(crate) fn command(words: Vec<OsString>) -> Self {
        Self::Command(AgentInvocation { name: None, words, env: Vec::new() })
    }

    /// The agent with this name: `assistant`, a configured one, a well-known one, or a program of the search path.
    pub(crate) fn named(name: &str) -> Result<Self, Failure> {
        let config = config::read(&Paths::from_environment()?.config())?;
        Self::named_in(&config, name)
    }

    /// The agent of `default_agent`, or the assistant. A file that cannot be read is reported by the assistant, to its
    /// client.
    pub(crate) fn default_agent() -> Result<Self, Failure> {
        let config = config::read(&Paths::from_environment()?.config()).unwrap_or_default();
        match &config.default_agent {
            Some(name) => Self::named_in(&config, name).map_err(|failure| {
                failure.hint("correct `default_agent`; `rethread agents` lists the agents")
            }),
            None => Ok(Self::Assistant),
        }
    }

    /// The same agent with more arguments. The assistant has none.
    pub(crate) fn with_arguments(self, arguments: Vec<OsString>) -> Result<Self, Failure> {
        match self {
            Self::Command(mut invocation) => {
                invocation.words.extend(arguments);
                Ok(Self::Command(invocation))
            }
            Self::Assistant if arguments.is_empty() => Ok(self),
            Self::Assistant => {
                Err(Failure::new(ExitCode::Usage, "the built-in assistant takes no arguments"))
            }
        }
    }

    fn named_in(config: &ConfigFile, name: &str) -> Result<Self, Failure> {
        let invocation = |words: Vec<OsString>, env| {
            Ok(Self::Command(AgentInvocation { name: Some(name.to_owned()), words, env }))
        };
        if name == ASSISTANT {
            return Ok(Self::Assistant);
        }
        if let Some(AgentConfig { command, env }) = config.agents.get(name) {
            return invocation(command.iter().map(OsString::from).collect(), env.clone());
        }
        let known = known_agent(name);
        if let Some(known) = known.filter(|known| find_program(known.command[0], None).is_some()) {
            return invocation(known.command.iter().map(OsString::from).collect(), Vec::new());
        }
        match (find_program(name, None), known) {
            (Some(_), None) => Ok(Self::command(vec![name.into()])),
            (Some(_) | None, Some(known)) => {
                let message = format!("{} is not installed: {} was not found", known.title, known.command[0]);
                Err(Failure::new(ExitCode::NotFound, message).hint(format!("run `{}`", known.install)))
            }
            (None, None) => Err(unknown_agent(config, name)),
        }
    }

    /// The agent that a remote client names: one of the configuration, and never any other program. The default one if it
    /// names none.
    pub(crate) fn configured(config: &ConfigFile, name: Option<&str>) -> Result<Self, Failure> {
        match (name, &config.default_agent) {
            (None, None) | (Some(ASSISTANT), _) => Ok(Self::Assistant),
            (None, Some(default)) => Self::named_in(config, default),
            (Some(name), default) if config.agents.contains_key(name) || default.as_deref() == Some(name) => {
                Self::named_in(config, name)
            }
            (Some(name), _) => {
                Err(Failure::new(ExitCode::NotFound, format!("no agent is configured as {name}")))
            }
        }
    }

    /// Makes the source of the agent, which logs its stderr.
    pub(crate) fn source(self, paths: &Paths) -> Result<Arc<dyn AgentSource>, Failure> {
        let log = paths.logs()?.join("agent.log");
        self.source_with_log(paths, Some(log))
    }

    /// Makes the source of the agent, with a log or none.
    pub(crate) fn source_with_log(
        self,
        paths: &Paths,
        log: Option<PathBuf>,
    ) -> Result<Arc<dyn AgentSource>, Failure> {
        match self {
            Self::Assistant => assistant(paths, environment::for_agents(), environment::variable),
            Self::Command(invocation) => {
                let key = invocation.key();
                let name = invocation.name.clone();
                let command = invocation.command(log)?;
                Ok(Arc::new(CommandSource { configured_name: name, command, key }))
            }
        }
    }
}

/// The built-in assistant. It starts commands in this environment, and reads the keys of models from these variables.
pub(crate) fn assistant(
    paths: &Paths,
    environment: Environment,
    variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> Result<Arc<dyn AgentSource>, Failure> {
    let file = paths.config();
    let assistant = Assistant::new(AssistantConfig {
        config_file: Some(file.clone()),
        defaults: config::assistant_defaults(&file),
        providers: Box::new(move || config::providers(&file, &variable)),
        provider_limits: ProviderLimits::default(),
        mcp: Limits::default(),
        guardian: Some(guardian()?),
        environment,
    });
    Ok(Arc::new(InProcess::new(assistant).named(ASSISTANT)))
}

impl AgentInvocation {
    /// Identifies the agent by its program file (with size and time) and arguments: a new version is another agent.
    pub(crate) fn key(&self) -> Option<String> {
        let program = find_program(Path::new(self.words.first()?), search_path_of(&self.env))?;
        let file = std::fs::metadata(&program).ok()?;
        let identity = (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        // The values of the environment are secret, so the name stands for them.
        let name = self.name.as_ref().filter(|_| !self.env.is_empty());
        let name = name.map(|name| format!(" as {name:?}")).unwrap_or_default();
        Some(format!("{} {identity:?} {:?}{name}", program.display(), &self.words[1..]))
    }

    fn command(self, log: Option<PathBuf>) -> Result<AgentCommand, Failure> {
        let mut words = self.words.into_iter();
        Ok(AgentCommand {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            environment: environment::for_agents(),
            env: self.env,
            directory: None,
            guardian: guardian()?,
            stderr_log: log,
        })
    }
}

impl AgentConfig {
    /// The program, as it is written.
    pub(crate) fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// The file of the program, if there is one.
    pub(crate) fn found(&self) -> Option<PathBuf> {
        find_program(self.program(), search_path_of(&self.env))
    }
}

/// The search path that an environment sets.
fn search_path_of(env: &[(String, Secret)]) -> Option<&OsStr> {
    env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| OsStr::new(value.reveal()))
}

fn unknown_agent(config: &ConfigFile, name: &str) -> Failure {
    let known = KNOWN_AGENTS.iter().map(|agent| agent.name);
    let names: Vec<&str> = config.agents.keys().map(String::as_str).chain(known).chain([ASSISTANT]).collect();
    let hint = match nearest(name, &names) {
        Some(meant) => {
            format!("did you mean {meant}? `rethread agents` lists the agents; a command goes after --")
        }
        None => "`rethread agents` lists the agents; a command goes after --".to_owned(),
    };
    Failure::new(ExitCode::NotFound, format!("no agent is called {name}")).hint(hint)
}

/// The command of the process that ends an agent with all its children.
pub(crate) fn guardian() -> std::io::Result<GuardianCommand> {
    let deadline = DEADLINE.get().cloned();
    Ok(GuardianCommand { program: std::env::current_exe()?, args: vec!["__guard".into()], deadline })
}

/// Until when the agents of this process may run, if the leases of its store expire.
static DEADLINE: OnceLock<HostDeadline> = OnceLock::new();

/// Has all guardians that are started from now on end their agents in time.
pub(crate) fn guard_until(deadline: Option<HostDeadline>) {
    if let Some(deadline) = deadline {
        // A process has one store.
        let _ = DEADLINE.set(deadline);
    }
}
