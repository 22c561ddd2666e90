//! The exit status of a command: code, signal and description.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandExit(ExitStatus);

impl CommandExit {
    /// Wraps the status that the system reports.
    pub fn of(status: ExitStatus) -> Self {
        Self(status)
    }

    /// The exit code, if it exited by itself.
    pub fn code(self) -> Option<i32> {
        self.0.code()
    }

    /// The name of the signal that ended it.
    pub fn signal(self) -> Option<String> {
        self.0.signal().map(signal_name)
    }

    /// Describes the exit in words.
    pub fn describe(self) -> String {
        match (self.code(), self.signal()) {
            (Some(code), _) => format!("it ended with exit status {code}"),
            (None, Some(signal)) => format!("it was killed by {signal}"),
            (None, None) => "it ended".to_owned(),
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("SIG{other}"),
    };
    name.to_owned()
}
