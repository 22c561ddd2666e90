//! Commands that are run in somebody else's name: their start in a directory that is open, their process group,
//! their output as it comes, their end with all that they have started. Keeps no output and knows no requests.

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
pub(crate) use self::exit::Exit;
pub(crate) use self::group::{Group, Leftover};
#[cfg(feature = "assistant")]
pub(crate) use self::group::{ROUND, Words};
pub(crate) use self::running::{Heard, Running};
pub(crate) use crate::agent::process::GuardianCommand;

/// What is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The program, or a line for the shell if there is no such program.
    pub(crate) command: String,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// Its environment, beside ours.
    pub(crate) env: Vec<(String, String)>,
    /// What of our environment it does not get.
    pub(crate) without: Vec<String>,
    /// The name of its working directory.
    pub(crate) cwd: String,
    /// What keeps it and all that it starts together.
    pub(crate) guardian: Option<GuardianCommand>,
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
