//! The agent of a chat: the one on the command line, or for a session that exists the one that served it last.

use std::ffi::OsString;

use rethread::store::{SessionRow, Store, read_state};

use crate::agents::AgentChoice;
use crate::agents::known::known_by_own_name;
use crate::failure::{ExitCode, Failure};
use crate::output::ids::short_ids;
use crate::shell_word::shell_word;

/// The name that the built-in assistant has for itself.
const OWN_NAME: &str = "rethread";

/// What the command line says of the agent.
#[derive(Clone, Debug)]
pub(crate) enum AgentArg {
    /// Nothing.
    Unsaid,
    /// A name.
    Named(String),
    /// A program with its arguments.
    Command(Vec<OsString>),
}

impl AgentArg {
    /// Reads the options of the command line.
    pub(crate) fn of(name: Option<String>, command: Vec<OsString>) -> Self {
        match name {
            Some(name) => Self::Named(name),
            None if command.is_empty() => Self::Unsaid,
            None => Self::Command(command),
        }
    }

    /// The agent for a new session.
    pub(crate) fn for_new(self) -> Result<AgentChoice, Failure> {
        match self {
            Self::Unsaid => AgentChoice::default_agent(),
            Self::Named(name) => AgentChoice::named(&name),
            Self::Command(words) => Ok(AgentChoice::command(words)),
        }
    }

    /// The agent for a session that exists.
    pub(crate) async fn for_session(
        self,
        store: &dyn Store,
        row: &SessionRow,
    ) -> Result<AgentChoice, Failure> {
        match self {
            Self::Unsaid => {
                if let Some(name) = &row.agent_name {
                    return AgentChoice::named(name);
                }
                let (session, _) = read_state(store, &row.id).await?;
                let last =
                    session.natives.last().map_or_else(|| row.agent.clone(), |last| last.agent.clone());
                by_own_name(&last).map_err(|_| unknown_agent(row, &last))
            }
            Self::Named(_) | Self::Command(_) => self.for_new(),
        }
    }

    /// The words that name this agent on a command line.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Unsaid => String::new(),
            Self::Named(name) => format!(" --agent {}", shell_word(name)),
            Self::Command(words) => {
                let words: Vec<String> =
                    words.iter().map(|word| shell_word(&word.to_string_lossy()).into_owned()).collect();
                format!(" -- {}", words.join(" "))
            }
        }
    }
}

/// The agent that has this name for itself.
fn by_own_name(name: &str) -> Result<AgentChoice, Failure> {
    match known_by_own_name(name) {
        _ if name == OWN_NAME => Ok(AgentChoice::Assistant),
        Some(known) => AgentChoice::named(known.name),
        None => AgentChoice::named(name),
    }
}

fn unknown_agent(row: &SessionRow, agent: &str) -> Failure {
    let id = short_ids(&[row.id.as_str()])[0];
    Failure::new(ExitCode::Usage, format!("session {id} is one of {agent}, whose command is not known")).hint(
        format!("give the command: `rethread chat --resume {id} -- AGENT`; another agent continues it, too"),
    )
}
