//! The agent of a chat: the one on the command line, or for a session that exists the one that served it last.

use std::ffi::OsString;

use rethread::store::{SessionRow, Store, read_state};

use crate::agents::AgentChoice;
use crate::failure::{ExitCode, Failure};
use crate::output::ids::short_ids;

/// The name of the built-in assistant.
pub(crate) const ASSISTANT: &str = "rethread";

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
            Self::Unsaid => Ok(AgentChoice::Assistant),
            Self::Named(name) => named(&name),
            Self::Command(words) => Ok(AgentChoice::of_command(words)),
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
                let (session, _) = read_state(store, &row.id).await?;
                let last =
                    session.natives.last().map_or_else(|| row.agent.clone(), |last| last.agent.clone());
                named(&last).map_err(|_| unknown_agent(row, &last))
            }
            Self::Named(_) | Self::Command(_) => self.for_new(),
        }
    }

    /// The words that name this agent on a command line.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Unsaid => String::new(),
            Self::Named(name) => format!(" --agent {name}"),
            Self::Command(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
                format!(" -- {}", words.join(" "))
            }
        }
    }
}

fn named(name: &str) -> Result<AgentChoice, Failure> {
    if name == ASSISTANT { Ok(AgentChoice::Assistant) } else { AgentChoice::named(name) }
}

fn unknown_agent(row: &SessionRow, agent: &str) -> Failure {
    let id = short_ids(&[row.id.as_str()])[0];
    Failure::new(ExitCode::Usage, format!("session {id} is one of {agent}, whose command is not known")).hint(
        format!("give the command: `rethread chat --resume {id} -- AGENT`; another agent continues it, too"),
    )
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
