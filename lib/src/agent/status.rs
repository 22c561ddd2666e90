//! The lines of a guardian's status pipe: parsing and formatting.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentEnd {
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// Unknown: the guardian ended before the agent.
    Unknown,
}

impl AgentEnd {
    pub(super) fn of(status: ExitStatus) -> AgentEnd {
        match (status.code(), status.signal()) {
            (Some(code), _) => AgentEnd::Exited(code),
            (None, Some(signal)) => AgentEnd::Killed(signal),
            (None, None) => AgentEnd::Unknown,
        }
    }
}

impl fmt::Display for AgentEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentEnd::Exited(code) => write!(f, "exit status {code}"),
            AgentEnd::Killed(signal) => write!(f, "killed by signal {signal}"),
            AgentEnd::Unknown => write!(f, "unknown exit status: its guardian was lost"),
        }
    }
}

/// One line of the status pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusLine {
    /// The agent runs with this process id.
    Started(i32),
    /// The agent could not be started; the value is the OS error.
    Failed(i32),
    /// The agent exited with this code.
    Exited(i32),
    /// The agent was killed by this signal.
    Killed(i32),
    /// The agent with this process id left processes running, which are being ended.
    Left(i32),
}

impl StatusLine {
    /// Parses a line without its newline; `None` if it is not a status line.
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
    fn every_line_round_trips() {
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
    fn other_lines_are_refused() {
        for line in ["", "started", "started x", "sleeping 3", "exited 3 4"] {
            assert_eq!(StatusLine::parse(line), None, "{line:?}");
        }
    }
}
