//! Runs commands: starts them in an open directory, streams their output and ends them with everything they have
//! started. Stores no output.

mod exit;
mod group;
mod guarded;
mod running;
mod unguarded;

use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

pub use self::exit::CommandExit;
pub use self::group::{Group, Leftover};
pub use self::group::{POLL_INTERVAL, ProgramArgs};
pub use self::running::{CommandEvent, RunningCommand};
#[cfg(test)]
pub(crate) use self::unguarded::is_alive;
pub use crate::agent::environment::Environment;
pub use crate::agent::process::GuardianCommand;

/// A command to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program, or a shell command line if there is no such program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The environment that it is started in.
    pub environment: Environment,
    /// Environment variables in addition to these.
    pub env: Vec<(String, String)>,
    /// Variables of the environment to remove.
    pub without: Vec<String>,
    /// The path of the working directory, for display.
    pub cwd: String,
    /// The guardian for the command and everything it starts.
    pub guardian: Option<GuardianCommand>,
}

/// Starts a command. A command without such a program is run as a line by the shell.
async fn start(launch: &CommandSpec, directory: &OwnedFd, output: &PipeWriter) -> io::Result<Group> {
    let configure = |command: &mut Command| configure(command, launch, directory, output);
    let guardian = launch.guardian.as_ref();
    let words = group::ProgramArgs { program: &launch.command, args: &launch.args };
    let direct = Group::start(guardian, words, configure).await;
    let is_line = launch.args.is_empty() && launch.command.contains(char::is_whitespace);
    match direct {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_line => {
            let args = ["-c".to_owned(), launch.command.clone()];
            Group::start(guardian, group::ProgramArgs { program: "/bin/sh", args: &args }, configure).await
        }
        direct => direct,
    }
}

fn configure(
    command: &mut Command,
    launch: &CommandSpec,
    directory: &OwnedFd,
    output: &PipeWriter,
) -> io::Result<()> {
    launch.environment.apply(command);
    for name in &launch.without {
        command.env_remove(name);
    }
    command
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        // One pipe for both streams, so that their output stays in order.
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    let directory = directory.as_raw_fd();
    // SAFETY: the closure makes one async-signal-safe call on a descriptor that is open meanwhile.
    unsafe {
        command.pre_exec(move || match libc::fchdir(directory) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    Ok(())
}

/// Formats the command as a shell line.
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
    fn a_command_is_shown_as_a_shell_line() {
        let args = ["-c", "it's here", "", "a=b"].map(str::to_owned);
        assert_eq!(line("sh", &args), r"sh -c 'it'\''s here' '' a=b");
    }
}
