//! Makes the agent that a command line names: a command, an agent by its name, or the built-in assistant.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread::agent::host::{AgentSource, CommandSource};
use rethread::agent::process::{AgentCommand, GuardianCommand};
use rethread::author::InProcess;
use rethread_assistant::mcp::Limits;
use rethread_assistant::model::ProviderLimits;
use rethread_assistant::{Assistant, AssistantConfig};

use crate::config;
use crate::failure::{ExitCode, Failure};
use crate::paths::Paths;

/// The agent that a command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentChoice {
    /// A program with its arguments.
    Command(Vec<OsString>),
    /// The built-in assistant.
    Assistant,
}

impl AgentChoice {
    /// The agent for the words after `--`; the assistant if there are none.
    pub(crate) fn of_command(words: Vec<OsString>) -> Self {
        if words.is_empty() { Self::Assistant } else { Self::Command(words) }
    }

    /// The agent with this name: a program of the search path.
    pub(crate) fn named(name: &str) -> Result<Self, Failure> {
        match find_program(Path::new(name)) {
            Some(_) => Ok(Self::Command(vec![name.into()])),
            None => Err(Failure::new(ExitCode::NotFound, format!("no agent is called {name}"))
                .hint("install it, or give its command after --")),
        }
    }

    /// Makes the source of the agent.
    pub(crate) fn source(self, paths: &Paths) -> Result<Arc<dyn AgentSource>, Failure> {
        match self {
            Self::Assistant => {
                let file = paths.config();
                let assistant = Assistant::new(AssistantConfig {
                    config_file: Some(file.clone()),
                    providers: Box::new(move || config::providers(&file)),
                    provider_limits: ProviderLimits::default(),
                    mcp: Limits::default(),
                    guardian: Some(guardian()?),
                });
                Ok(Arc::new(InProcess::new(assistant)))
            }
            Self::Command(words) => {
                let key = agent_key(&words);
                let command = agent_command(words, paths.logs()?.join("agent.log"))?;
                Ok(Arc::new(CommandSource { command, key }))
            }
        }
    }
}

/// Identifies the agent by its program file (with size and time) and arguments: a new version is another agent.
fn agent_key(command: &[OsString]) -> Option<String> {
    let program = find_program(Path::new(command.first()?))?;
    let file = std::fs::metadata(&program).ok()?;
    let identity = (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec());
    Some(format!("{} {identity:?} {:?}", program.display(), &command[1..]))
}

/// Finds a program in the search path.
fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::fs::canonicalize(program).ok();
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn agent_command(command: Vec<OsString>, log: PathBuf) -> Result<AgentCommand, Failure> {
    let mut words = command.into_iter();
    Ok(AgentCommand {
        program: words.next().unwrap_or_default(),
        args: words.collect(),
        guardian: guardian()?,
        stderr_log: Some(log),
    })
}

/// The command of the process that ends an agent with all its children.
pub(crate) fn guardian() -> std::io::Result<GuardianCommand> {
    Ok(GuardianCommand { program: std::env::current_exe()?, args: vec!["__guard".into()] })
}
