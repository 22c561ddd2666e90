//! A command as an agent asks for it, and its start. What becomes of it then is in `group` and `terminal`.

use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rethread_core::Json;
use serde_json::Value;

use crate::edge::params::Params;
use crate::wire::RpcError;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// The program, or a line for the shell if there is no such program.
    pub(super) command: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// Its environment, beside ours.
    pub(super) env: Vec<(String, String)>,
    /// The name of its working directory.
    pub(super) cwd: String,
    /// How much output the agent wants kept.
    pub(super) limit: Option<u64>,
}

/// Reads `terminal/create`; `cwd` is where a command runs that does not say.
pub(super) fn read(params: &Params, cwd: &str) -> Result<Launch, RpcError> {
    let words = |(at, item): (usize, Json)| {
        let wrong = || RpcError::field(&format!("args[{at}]"), &item.value(), "a string");
        item.as_string().ok_or_else(wrong)
    };
    let args = params.optional_items("args")?.into_iter().enumerate().map(words);
    let variable = |(at, item): (usize, Json)| {
        let fields = item.fields();
        let wrong = || RpcError::field(&format!("env[{at}]"), &item.value(), "an object with name and value");
        let name = fields.text("name").filter(|name| !name.is_empty() && !name.contains(['=', '\0']));
        name.zip(fields.text("value")).ok_or_else(wrong)
    };
    let env = params.optional_items("env")?.into_iter().enumerate().map(variable);
    let cwd = match params.get("cwd") {
        Some(_) => params.path("cwd")?,
        None => cwd.to_owned(),
    };
    Ok(Launch {
        command: params.text("command")?,
        args: args.collect::<Result<_, _>>()?,
        env: env.collect::<Result<_, _>>()?,
        cwd,
        limit: number(params, "outputByteLimit")?,
    })
}

/// A whole number that may be absent or null.
pub(super) fn number(params: &Params, name: &str) -> Result<Option<u64>, RpcError> {
    match params.get(name) {
        None => Ok(None),
        Some(value) => {
            value.read().map(Some).map_err(|_| params.wrong(name, "a whole number that is not negative"))
        }
    }
}

/// Starts a command as the leader of a group of its own; a line that names no program is one for the shell.
pub(super) fn spawn(launch: &Launch, directory: &OwnedFd, output: PipeWriter) -> io::Result<Child> {
    let direct = prepared(&launch.command, launch, directory, &output)?.args(&launch.args).spawn();
    let is_line = launch.args.is_empty() && launch.command.contains(char::is_whitespace);
    match direct {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_line => {
            prepared("/bin/sh", launch, directory, &output)?.args(["-c", &launch.command]).spawn()
        }
        direct => direct,
    }
}

fn prepared(program: &str, launch: &Launch, directory: &OwnedFd, output: &PipeWriter) -> io::Result<Command> {
    let mut command = Command::new(program);
    command
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        // One pipe for both: what was written first is read first.
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0);
    let directory = directory.as_raw_fd();
    // SAFETY: the closure makes one async-signal-safe call on a descriptor that is open while we start it.
    unsafe {
        command.pre_exec(move || match libc::fchdir(directory) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    Ok(command)
}

/// The error for an agent whose command did not start.
pub(super) fn not_started(launch: &Launch, error: &io::Error) -> RpcError {
    let got = Value::String(launch.command.clone());
    match error.raw_os_error() {
        Some(libc::ENOENT) => RpcError::field("command", &got, "a program that is there")
            .hint("give its full path, or its name if it is in the search path"),
        // The last is a zero byte in a word: it was never tried.
        Some(libc::EACCES | libc::ENOEXEC | libc::E2BIG | libc::ENOTDIR) | None => {
            RpcError::field("command", &got, "a program that may be run").hint(error.to_string())
        }
        _ => RpcError::internal(format!("{} did not start: {error}", launch.command))
            .with("field", "command")
            .with("got", got)
            .hint("try again"),
    }
}

/// The command as a person would write it.
pub(super) fn line(command: &str, args: &[String]) -> String {
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
