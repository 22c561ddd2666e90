//! The lines that a guardian writes to its status pipe, both ways. Owns their text; who writes and who reads
//! them is elsewhere.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentEnd {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Nobody saw it: the guardian was gone before the agent was.
    Unseen,
}

impl AgentEnd {
    pub(super) fn of(status: ExitStatus) -> AgentEnd {
        match (status.code(), status.signal()) {
            (Some(code), _) => AgentEnd::Exited(code),
            (None, Some(signal)) => AgentEnd::Killed(signal),
            (None, None) => AgentEnd::Unseen,
        }
    }
}

impl fmt::Display for AgentEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentEnd::Exited(code) => write!(f, "exit status {code}"),
            AgentEnd::Killed(signal) => write!(f, "killed by signal {signal}"),
            AgentEnd::Unseen => write!(f, "unknown exit status: its guardian was lost"),
        }
    }
}

/// One line of the status pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusLine {
    /// The agent runs, as this process.
    Started(i32),
    /// The agent could not be started, for this error number.
    Failed(i32),
    /// The agent exited.
    Exited(i32),
    /// The agent was killed.
    Killed(i32),
    /// The agent, this process, has left others behind, which are ended now.
    Left(i32),
}

impl StatusLine {
    /// Reads a line, without its line feed. `None` if a guardian never writes such a line.
    pub(crate) fn parse(line: &str) -> Option<StatusLine> {
        let (word, number) = line.split_once(' ')?;
        let number = number.parse().ok()?;
        match word {
            "started" => Some(StatusLine::Started(number)),
            "failed" => Some(StatusLine::Failed(number)),
            "exited" => Some(StatusLine::Exited(number)),
            "killed" => Some(StatusLine::Killed(number)),
            "left" => Some(StatusLine::Left(number)),
            _ => None,
        }
    }
}

impl fmt::Display for StatusLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusLine::Started(pid) => write!(f, "started {pid}"),
            StatusLine::Failed(errno) => write!(f, "failed {errno}"),
            StatusLine::Exited(code) => write!(f, "exited {code}"),
            StatusLine::Killed(signal) => write!(f, "killed {signal}"),
            StatusLine::Left(pid) => write!(f, "left {pid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_it_was_written() {
        for line in [
            StatusLine::Started(4711),
            StatusLine::Failed(2),
            StatusLine::Exited(0),
            StatusLine::Exited(255),
            StatusLine::Killed(9),
            StatusLine::Left(4711),
        ] {
            assert_eq!(StatusLine::parse(&line.to_string()), Some(line));
        }
    }

    #[test]
    fn what_no_guardian_writes_is_not_read() {
        for line in ["", "started", "started x", "sleeping 3", "exited 3 4"] {
            assert_eq!(StatusLine::parse(line), None, "{line:?}");
        }
    }
}
