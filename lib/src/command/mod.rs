//! Runs commands for agents: starts a command in an open directory, streams its output, and ends it together with every
//! process that it started. Keeps no output and knows nothing of the protocol.
//!
//! [`Running`] is a command with its output. [`Group`] is the tree of processes below a command, for callers that connect
//! the standard streams themselves.
//!
//! With a [`GuardianCommand`] a command runs below a guardian process ([`agent::guardian`](crate::agent::guardian)), which
//! finds all descendants, also those that moved to a session of their own. Without one only the process group is ended.

mod bare;
mod exit;
mod group;
mod guarded;
mod running;

use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

#[cfg(test)]
pub(crate) use self::bare::is_alive;
pub use self::exit::Exit;
pub use self::group::{Group, Leftover, Words};
pub use self::running::{Heard, Running};
pub use crate::agent::process::GuardianCommand;

/// A command to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The program. If there is no such program, `args` is empty and this contains white space, it is run by `/bin/sh`.
    pub command: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables to set, in addition to those of this process.
    pub env: Vec<(String, String)>,
    /// Environment variables of this process that the command does not get.
    pub without: Vec<String>,
    /// The path of the working directory, for display. The command starts in the directory that [`Running::start`] is
    /// given.
    pub cwd: String,
    /// The guardian to run the command below.
    pub guardian: Option<GuardianCommand>,
}

/// Starts a command; a line that names no program is one for the shell.
async fn start(launch: &Launch, directory: &OwnedFd, output: &PipeWriter) -> io::Result<Group> {
    let dress = |command: &mut Command| dress(command, launch, directory, output);
    let guardian = launch.guardian.as_ref();
    let words = group::Words { program: &launch.command, args: &launch.args };
    let direct = Group::start(guardian, words, dress).await;
    let is_line = launch.args.is_empty() && launch.command.contains(char::is_whitespace);
    match direct {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_line => {
            let args = ["-c".to_owned(), launch.command.clone()];
            Group::start(guardian, group::Words { program: "/bin/sh", args: &args }, dress).await
        }
        direct => direct,
    }
}

fn dress(command: &mut Command, launch: &Launch, directory: &OwnedFd, output: &PipeWriter) -> io::Result<()> {
    for name in &launch.without {
        command.env_remove(name);
    }
    command
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        // One pipe for both: what was written first is read first.
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    let directory = directory.as_raw_fd();
    // SAFETY: the closure makes one async-signal-safe call on a descriptor that is open while we start it.
    unsafe {
        command.pre_exec(move || match libc::fchdir(directory) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    Ok(())
}

/// The command as a person would write it.
pub(crate) fn line(command: &str, args: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./:=,+@%^".contains(c))
    };
    let mut line = command.to_owned();
    for arg in args {
        line.push(' ');
        match plain(arg) {
            true => line.push_str(arg),
            false => line.push_str(&format!("'{}'", arg.replace('\'', r"'\''"))),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_command_is_shown_as_a_person_would_write_it() {
        let args = ["-c", "it's here", "", "a=b"].map(str::to_owned);
        assert_eq!(line("sh", &args), r"sh -c 'it'\''s here' '' a=b");
    }
}
