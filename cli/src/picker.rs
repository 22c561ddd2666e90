//! Questions to the user on a terminal: which session, and yes or no. They are written to stderr, so that stdout can be a
//! pipe.

use std::fmt;
use std::io::{IsTerminal, stderr, stdin};

use inquire::{Confirm, InquireError, Select};
use rethread::clock;
use rethread::store::SessionRow;
use rethread_core::SessionId;

use crate::failure::{ExitCode, Failure};
use crate::output::age::age;
use crate::output::agent_name::short_agent;
use crate::output::escape::visible;
use crate::output::target::OutputTarget;
use crate::output::width::{cut_end, padded};

/// The number of sessions that are shown at once.
const PAGE: usize = 12;

/// The width of the columns for ages and agents.
const AGE_WIDTH: usize = 9;
const AGENT_WIDTH: usize = 14;

/// Returns whether the user can be asked.
pub(crate) fn is_possible() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Lets the user choose one of these sessions. Those of other directories than `here` are shown with their directory.
pub(crate) fn choose_session(rows: Vec<SessionRow>, here: &[String]) -> Result<SessionId, Failure> {
    // The prompt mark takes two columns; the last column stays free, since some terminals wrap there.
    let width = OutputTarget::stderr().width().saturating_sub(3);
    let choices = rows.into_iter().map(|row| SessionChoice::of(row, here, width)).collect();
    let chosen = Select::new("Which session?", choices)
        .with_page_size(PAGE)
        .with_help_message("arrows to move, enter to choose, type to filter, escape to leave")
        .with_formatter(&|choice| choice.value.line.trim_end().to_owned())
        .prompt();
    Ok(chosen.map_err(unanswered)?.id)
}

/// Asks a yes-or-no question. Without a terminal the command has to be given `--yes`.
pub(crate) fn confirm(question: &str) -> Result<(), Failure> {
    if !is_possible() {
        return Err(Failure::new(ExitCode::Usage, "there is no terminal to ask on")
            .hint("use --yes to go ahead without a question"));
    }
    let answer = Confirm::new(&visible(question)).with_default(false).prompt().map_err(unanswered)?;
    if answer { Ok(()) } else { Err(Failure::new(ExitCode::Refused, "nothing was changed")) }
}

/// A line of the list.
struct SessionChoice {
    id: SessionId,
    line: String,
}

impl SessionChoice {
    fn of(row: SessionRow, here: &[String], width: usize) -> Self {
        let age = padded(&age(clock::now(), row.updated_at), AGE_WIDTH);
        let agent = padded(&cut_end(&visible(short_agent(&row.agent)), AGENT_WIDTH), AGENT_WIDTH);
        let title = row.title.as_ref().map_or("(no title)", |(title, _)| title.as_str());
        let place = if here.contains(&row.cwd) { String::new() } else { format!("  {}", row.cwd) };
        let line = format!("{age}  {agent}  {}{}", visible(title), visible(&place));
        Self { line: cut_end(&line, width).into_owned(), id: row.id }
    }
}

impl fmt::Display for SessionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

fn unanswered(error: InquireError) -> Failure {
    match error {
        InquireError::OperationInterrupted | InquireError::OperationCanceled => Failure::interrupted(),
        InquireError::NotTTY => Failure::new(ExitCode::Usage, "there is no terminal to ask on"),
        InquireError::IO(error) => error.into(),
        InquireError::InvalidConfiguration(_) | InquireError::Custom(_) => Failure::plain(&error.to_string()),
    }
}
