//! A command as an agent asks for it. Its start and what becomes of it then are in `command` and `terminal`.

use std::io;

use rethread_core::Json;
use serde_json::Value;

use crate::command::Launch;
use crate::edge::params::Params;
use crate::wire::RpcError;

/// What an agent asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The command.
    pub(super) launch: Launch,
    /// How much output the agent wants kept.
    pub(super) limit: Option<u64>,
}

/// Reads `terminal/create`; `cwd` is where a command runs that does not say.
pub(super) fn read(params: &Params, cwd: &str) -> Result<Asked, RpcError> {
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
    let launch = Launch {
        command: params.text("command")?,
        args: args.collect::<Result<_, _>>()?,
        env: env.collect::<Result<_, _>>()?,
        without: Vec::new(),
        cwd,
        guardian: None,
    };
    Ok(Asked { launch, limit: number(params, "outputByteLimit")? })
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

/// The error for an agent whose command did not start.
pub(super) fn not_started(launch: &Launch, error: &io::Error) -> RpcError {
    let got = Value::String(launch.command.clone());
    match error.raw_os_error() {
        Some(libc::ENOENT) => RpcError::field("command", &got, "a program that exists")
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
