//! How a command ended, in the words of both protocol versions.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(ExitStatus);

impl Exit {
    /// The same as the system says it.
    pub(crate) fn of(status: ExitStatus) -> Self {
        Self(status)
    }

    /// Its exit code, if it ended by itself.
    pub(crate) fn code(self) -> Option<i32> {
        self.0.code()
    }

    /// The signal that ended it.
    pub(crate) fn signal(self) -> Option<String> {
        self.0.signal().map(signal_name)
    }

    /// The end in words.
    #[cfg(feature = "assistant")]
    pub(crate) fn words(self) -> String {
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
