//! `rethread acp -- <agent>`: what an editor runs instead of the agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use rethread::agent::host::{AgentProtocol, CommandSource};
use rethread::agent::process::{AgentCommand, GuardianCommand};
use rethread::edge::Version;
use rethread::log::Log;
use rethread::server::{Config, Server};
use rethread::store::sqlite::SqliteStore;
use rethread::transport::stdio;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::paths::Paths;

/// Options of `acp`.
#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    /// The protocol version that the agent is offered.
    #[arg(long, value_enum, default_value_t = Protocol::Auto)]
    agent_protocol: Protocol,
    /// The most bytes that one line may have.
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024 * 1024)]
    longest_line: usize,
    /// The agent's program and arguments.
    #[arg(last = true, required = true, num_args = 1..)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Protocol {
    /// The client's own version first, then the other.
    Auto,
    /// Version 1 only.
    #[value(name = "1")]
    One,
    /// Version 2 only.
    #[value(name = "2")]
    Two,
}

/// Serves the client on stdin and stdout until it hangs up.
pub(crate) fn run(args: AcpArgs) -> Result<(), Failure> {
    let paths = Paths::from_environment()?;
    let store = SqliteStore::open(&paths.store())?;
    let logs = paths.logs()?;
    let agent = CommandSource(agent_command(args.command, logs.join("agent.log"))?);
    let config = Config {
        agent_protocol: match args.agent_protocol {
            Protocol::Auto => AgentProtocol::Auto,
            Protocol::One => AgentProtocol::Only(Version::V1),
            Protocol::Two => AgentProtocol::Only(Version::V2),
        },
        longest_line: args.longest_line,
        log: Log::to(logs.join("rethread.log")),
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let server = Server::new(Arc::new(store), Arc::new(agent), config);
        let wire = stdio::open()?.into();
        server.serve_until(wire, asked_to_stop()).await;
        Ok(())
    })
}

fn agent_command(command: Vec<OsString>, log: PathBuf) -> Result<AgentCommand, Failure> {
    let mut words = command.into_iter();
    Ok(AgentCommand {
        program: words.next().unwrap_or_default(),
        args: words.collect(),
        guardian: GuardianCommand { program: std::env::current_exe()?, args: vec!["__guard".into()] },
        stderr_log: Some(log),
    })
}

async fn asked_to_stop() {
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::hangup()) => {}
    }
}
