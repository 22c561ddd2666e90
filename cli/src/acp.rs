//! `rethread acp [-- <agent>]`: the command that an editor runs in place of an agent.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rethread::agent::Restore;
use rethread::agent::host::{AgentProtocol, AgentSource, CommandSource};
use rethread::agent::process::{AgentCommand, GuardianCommand};
use rethread::author::InProcess;
use rethread::edge::Version;
use rethread::secret::Secrets;
use rethread::server::{Config, NativeSessions, Server};
use rethread::store::embedded::EmbeddedStore;
use rethread::transport::stdio;
use rethread_assistant::mcp::Limits;
use rethread_assistant::model::ProviderLimits;
use rethread_assistant::{Assistant, AssistantConfig};
use tokio::signal::unix::{SignalKind, signal};

use crate::config;
use crate::environment;
use crate::failure::Failure;
use crate::log::{self, LogLevel};
use crate::paths::Paths;

/// Options of `acp`.
#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    /// The protocol version to offer to the agent.
    #[arg(long, value_enum, default_value_t = Protocol::Auto)]
    agent_protocol: Protocol,
    /// The maximum length of a line, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024 * 1024)]
    longest_line: usize,
    /// The number of seconds that the agent may take to start, that is, to answer `initialize`.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    start_seconds: u64,
    /// How to restore a session when the agent is started again.
    #[arg(long, value_enum, default_value_t = RestoreBy::Auto)]
    restore: RestoreBy,
    /// List only sessions that were created through rethread.
    #[arg(long)]
    own_sessions_only: bool,
    /// The number of minutes without activity after which a session releases its agent.
    #[arg(long, value_name = "MINUTES", default_value_t = 30)]
    idle_minutes: u64,
    /// The least severe events to write to the log.
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Serve an ACP client even if stdin and stdout are a terminal.
    #[arg(long, conflicts_with = "run_agent")]
    serve: bool,
    /// Run the agent's command in place of rethread, on the same stdin and stdout. This is what happens on a terminal,
    /// so that a client can run an agent's login there.
    #[arg(long, requires = "command")]
    run_agent: bool,
    /// The agent's program and arguments; the built-in assistant if there are none.
    #[arg(last = true)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Protocol {
    /// Offers the client's own version first, then the other.
    Auto,
    /// Version 1 only.
    #[value(name = "1")]
    One,
    /// Version 2 only.
    #[value(name = "2")]
    Two,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RestoreBy {
    /// By the agent itself if possible, otherwise from the stored transcript.
    Auto,
    /// By the agent itself or not at all.
    Native,
    /// Always from the stored transcript.
    Reseed,
    /// Not at all: sessions can only be read.
    ReadOnly,
}

impl AcpArgs {
    /// On a terminal there is no client, so the agent's command is run instead, unless a flag says otherwise. The
    /// built-in assistant has no command to run.
    fn mode(&self) -> Mode {
        if self.run_agent {
            return Mode::RunAgent;
        }
        let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        if on_terminal && !self.serve && !self.command.is_empty() { Mode::RunAgent } else { Mode::Serve }
    }
}

/// What `acp` does.
enum Mode {
    /// Serves a client.
    Serve,
    /// Runs the agent's own command on the user's terminal.
    RunAgent,
}

/// Serves the client on stdin and stdout until it disconnects, or runs the agent's command.
pub(crate) fn run(args: AcpArgs) -> Result<(), Failure> {
    match args.mode() {
        Mode::Serve => serve(args),
        Mode::RunAgent => Err(exec_agent(&args.command)),
    }
}

/// Replaces this process by the agent's command, which then owns the terminal, signals and exit status. Returns only on
/// failure.
fn exec_agent(command: &[OsString]) -> Failure {
    let (program, args) =
        command.split_first().map_or((OsStr::new(""), command), |(first, rest)| (first.as_os_str(), rest));
    let error = process::Command::new(program).args(args).exec();
    Failure::agent_not_started(program, &error)
}

/// More open files than anybody needs; some programs take long with a limit that is higher.
const MAX_OPEN_FILES: libc::rlim_t = 65_536;

fn serve(args: AcpArgs) -> Result<(), Failure> {
    share_heap_arenas();
    raise_file_limit();
    let paths = Paths::from_environment()?;
    if args.command.is_empty() {
        // SAFETY: no thread has been started so far.
        unsafe { environment::take(&config::key_variables(&paths.config())) };
    }
    EmbeddedStore::create_files(&paths.store())?;
    let secrets = Secrets::default();
    log::start(paths.logs()?.join("rethread.log"), args.log_level, secrets.clone());
    // Answering `initialize` does not need the store.
    let (store, opened) = EmbeddedStore::open_in_background(&paths.store())?;
    let agent = agent(args.command, &paths)?;
    let config = Config {
        agent_protocol: match args.agent_protocol {
            Protocol::Auto => AgentProtocol::Auto,
            Protocol::One => AgentProtocol::Only(Version::V1),
            Protocol::Two => AgentProtocol::Only(Version::V2),
        },
        longest_line: args.longest_line,
        start_limit: Duration::from_secs(args.start_seconds.max(1)),
        restore: match args.restore {
            RestoreBy::Auto => Restore::Auto,
            RestoreBy::Native => Restore::Native,
            RestoreBy::Reseed => Restore::Reseed,
            RestoreBy::ReadOnly => Restore::ReadOnly,
        },
        idle_limit: Duration::from_secs(args.idle_minutes.max(1) * 60),
        native_sessions: if args.own_sessions_only { NativeSessions::Hidden } else { NativeSessions::Listed },
        secrets,
        guardian: Some(guardian()?),
        ..Config::default()
    };
    // One thread: a chunk goes from the agent to the client without a thread switch. Long work runs on blocking threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::new(Arc::new(store), agent, config);
        let wire = stdio::open()?;
        let mut opened = pin!(opened.wait());
        let mut serving = pin!(server.serve_until(wire, asked_to_stop()));
        tokio::select! {
            biased;
            outcome = &mut opened => {
                outcome?;
                serving.await;
            }
            () = &mut serving => opened.await?,
        }
        Ok(())
    })
}

/// Allows as many open files as the system does: each live session has one, and each agent several. If it cannot be
/// changed, the store closes files that are not in use.
fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for both calls.
    unsafe {
        let known = libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0;
        let wanted = limit.rlim_max.min(MAX_OPEN_FILES);
        if known && limit.rlim_cur < wanted {
            limit.rlim_cur = wanted;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Limits glibc to two heap arenas. By default it makes an arena for each new thread, up to eight per core, and memory
/// freed in one is not reused by the others, so that the process would grow with its threads.
fn share_heap_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets a number; no thread has been started so far.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// Makes the agent for a command, or the assistant.
fn agent(command: Vec<OsString>, paths: &Paths) -> Result<Arc<dyn AgentSource>, Failure> {
    if command.is_empty() {
        let file = paths.config();
        let assistant = Assistant::new(AssistantConfig {
            config_file: Some(file.clone()),
            providers: Box::new(move || config::providers(&file)),
            provider_limits: ProviderLimits::default(),
            mcp: Limits::default(),
            guardian: Some(guardian()?),
        });
        return Ok(Arc::new(InProcess::new(assistant)));
    }
    let key = agent_key(&command);
    Ok(Arc::new(CommandSource { command: agent_command(command, paths.logs()?.join("agent.log"))?, key }))
}

/// Identifies the agent by its program file (with size and time) and arguments: a new version is another agent.
fn agent_key(command: &[OsString]) -> Option<String> {
    let program = find_program(Path::new(command.first()?))?;
    let file = std::fs::metadata(&program).ok()?;
    let identity = (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec());
    Some(format!("{} {identity:?} {:?}", program.display(), &command[1..]))
}

/// Finds a program in the search path.
fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::fs::canonicalize(program).ok();
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn agent_command(command: Vec<OsString>, log: PathBuf) -> Result<AgentCommand, Failure> {
    let mut words = command.into_iter();
    Ok(AgentCommand {
        program: words.next().unwrap_or_default(),
        args: words.collect(),
        guardian: guardian()?,
        stderr_log: Some(log),
    })
}

fn guardian() -> std::io::Result<GuardianCommand> {
    Ok(GuardianCommand { program: std::env::current_exe()?, args: vec!["__guard".into()] })
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
