//! Decodes `terminal/create` and explains commands that do not start.

use std::io;

use rethread_core::Json;
use serde_json::Value;

use crate::command::{CommandSpec, Environment};
use crate::edge::params::Params;
use crate::wire::RpcError;

/// A decoded `terminal/create`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TerminalRequest {
    /// The command to run.
    pub(super) launch: CommandSpec,
    /// How many bytes of output the agent wants.
    pub(super) limit: Option<u64>,
}

/// Decodes `terminal/create`; `cwd` is the default working directory.
pub(super) fn read(params: &Params, cwd: &str) -> Result<TerminalRequest, RpcError> {
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
    let launch = CommandSpec {
        command: params.text("command")?,
        args: args.collect::<Result<_, _>>()?,
        environment: Environment::Inherited,
        env: env.collect::<Result<_, _>>()?,
        without: Vec::new(),
        cwd,
        guardian: None,
    };
    Ok(TerminalRequest { launch, limit: number(params, "outputByteLimit")? })
}

/// Reads a number that may be absent or null.
pub(super) fn number(params: &Params, name: &str) -> Result<Option<u64>, RpcError> {
    match params.get(name) {
        None => Ok(None),
        Some(value) => {
            value.read().map(Some).map_err(|_| params.wrong(name, "a whole number that is not negative"))
        }
    }
}

/// The error for a command that did not start.
pub(super) fn not_started(launch: &CommandSpec, error: &io::Error) -> RpcError {
    let got = Value::String(launch.command.clone());
    match error.raw_os_error() {
        Some(libc::ENOENT) => RpcError::field("command", &got, "a program that exists")
            .hint("give its full path, or its name if it is in the search path"),
        // The last case is a NUL byte in an argument, which was never passed to the system.
        Some(libc::EACCES | libc::ENOEXEC | libc::E2BIG | libc::ENOTDIR) | None => {
            RpcError::field("command", &got, "a program that may be run").hint(error.to_string())
        }
        _ => RpcError::internal(format!("{} did not start: {error}", launch.command))
            .with("field", "command")
            .with("got", got)
            .hint("try again"),
    }
}
