//! `rethread acp [NAME | -- <agent>]`: the command that an editor runs in place of an agent.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rethread::agent::Restore;
use rethread::agent::host::AgentProtocol;
use rethread::edge::Version;
use rethread::server::{Config, NativeSessions};
use rethread::transport::stdio;
use strsim::damerau_levenshtein;

use crate::agents::{AgentChoice, AgentInvocation};
use crate::environment;
use crate::failure::{ExitCode, Failure};
use crate::log::LogLevel;
use crate::server_parts::{ServerParts, asked_to_stop};
use crate::serving::connected;
use crate::serving::pump;
use crate::serving::remote::{self, ConnectArgs};

/// From this length on, a word that is almost one of our options is taken for it.
const LONG_OPTION: usize = 7;

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
    #[arg(long, value_name = "MINUTES", default_value_t = IdleMinutes::default())]
    idle_minutes: IdleMinutes,
    /// The least severe events to write to the log.
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Whether to use the running `rethread serve` of this store. Without one, this process does everything itself.
    #[arg(long, value_enum, default_value_t = ServerUse::Auto)]
    server: ServerUse,
    #[command(flatten)]
    remote: ConnectArgs,
    /// Serve an ACP client even if stdin and stdout are a terminal.
    #[arg(long, conflicts_with = "run_agent")]
    serve: bool,
    /// Run the agent's command in place of rethread, on the same stdin and stdout. This is what happens on a terminal,
    /// so that a client can run an agent's login there.
    #[arg(long)]
    run_agent: bool,
    /// The name of an agent (see `rethread agents`). Without a name and a command it is `default_agent` of the
    /// configuration, or else the built-in assistant.
    #[arg(value_name = "NAME")]
    agent: Option<String>,
    /// More arguments for the agent with that name.
    #[arg(value_name = "ARGUMENT", allow_hyphen_values = true, requires = "agent")]
    arguments: Vec<OsString>,
    /// The agent's program and arguments.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "agent")]
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

/// Whether the running server is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerUse {
    /// If one runs.
    Auto,
    /// Never.
    Off,
}

/// After how many minutes without activity a session releases its agent. Fractions are allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleMinutes(f64);

impl IdleMinutes {
    /// The time; at least a second.
    pub(crate) fn limit(self) -> Duration {
        Duration::from_secs_f64((self.0 * 60.0).max(1.0))
    }
}

impl Default for IdleMinutes {
    fn default() -> Self {
        Self(30.0)
    }
}

impl std::fmt::Display for IdleMinutes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for IdleMinutes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A hundred years: longer times cannot be added to the clock.
        let fits = |minutes: &f64| (0.0..=52_560_000.0).contains(minutes);
        text.parse().ok().filter(fits).map(Self).ok_or("not a number of minutes")
    }
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
    /// The agent that is named.
    fn choice(&self) -> Result<AgentChoice, Failure> {
        match &self.agent {
            Some(name) => {
                check_arguments(name, &self.arguments)?;
                AgentChoice::named(name)?.with_arguments(self.arguments.clone())
            }
            None => AgentChoice::of_command(self.command.clone()),
        }
    }

    /// On a terminal there is no client, so the agent's command is run instead, unless a flag says otherwise. The
    /// built-in assistant has no command to run.
    fn mode(&self, agent: &AgentChoice) -> Result<Mode, Failure> {
        let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        match agent {
            _ if self.serve => Ok(Mode::Serve),
            AgentChoice::Command(_) if self.run_agent || on_terminal && self.names_one() => {
                Ok(Mode::RunAgent)
            }
            AgentChoice::Assistant if self.run_agent => {
                Err(Failure::new(ExitCode::Usage, "--run-agent needs an agent")
                    .hint("name one, or give its command after `--`"))
            }
            AgentChoice::Command(_) | AgentChoice::Assistant if on_terminal => Ok(Mode::Explain),
            AgentChoice::Command(_) | AgentChoice::Assistant => Ok(Mode::Serve),
        }
    }

    /// Whether an agent is named on the command line.
    fn names_one(&self) -> bool {
        self.agent.is_some() || !self.command.is_empty()
    }
}

/// What `acp` does.
enum Mode {
    /// Serves a client.
    Serve,
    /// Runs the agent's own command on the user's terminal.
    RunAgent,
    /// Says what the command is for.
    Explain,
}

/// Serves the client on stdin and stdout until it disconnects, or runs the agent's command.
pub(crate) fn run(args: AcpArgs) -> Result<(), Failure> {
    if args.remote.connect.is_some() && !(args.command.is_empty() && args.arguments.is_empty()) {
        return Err(Failure::new(ExitCode::Usage, "a server runs the agents of its own configuration")
            .hint("name one of them: `rethread acp --connect URL NAME`"));
    }
    if let Some(target) = args.remote.target(args.agent.as_deref())? {
        return remote::pump(target);
    }
    let agent = args.choice()?;
    match (args.mode(&agent)?, agent) {
        (Mode::Serve, agent) => serve(args, agent),
        (Mode::RunAgent, AgentChoice::Command(invocation)) => Err(exec_agent(&invocation)),
        (Mode::Explain, _) | (Mode::RunAgent, AgentChoice::Assistant) => Err(explanation()),
    }
}

/// An option that looks like one of ours would go to the agent, which cannot be meant.
fn check_arguments(name: &str, arguments: &[OsString]) -> Result<(), Failure> {
    let definition = AcpArgs::augment_args(clap::Command::new("acp"));
    let own: Vec<&str> = definition.get_arguments().filter_map(clap::Arg::get_long).collect();
    let meant = |word: &OsString| {
        let word = word.to_str()?;
        let option = word.strip_prefix("--")?.split('=').next()?;
        let alike = |own: &&&str| {
            **own == option || own.len() >= LONG_OPTION && damerau_levenshtein(own, option) <= 2
        };
        Some((word.to_owned(), *own.iter().find(alike)?))
    };
    match arguments.iter().find_map(meant) {
        Some((word, option)) => {
            let hint = format!(
                "for rethread, write --{option} before {name}; for the agent: rethread acp -- {name} {word}"
            );
            Err(Failure::new(ExitCode::Usage, format!("{word} after {name} would go to the agent"))
                .hint(hint))
        }
        None => Ok(()),
    }
}

/// What `rethread acp` says on a terminal, where nobody speaks the protocol.
fn explanation() -> Failure {
    let message = "`rethread acp` is for editors, which speak the Agent Client Protocol";
    Failure::new(ExitCode::Usage, message).hint(
        "have your editor run `rethread acp NAME` in place of the agent's command\n\
         \u{20}     `rethread agents` lists the names\n\
         \u{20}     `rethread chat` talks to an agent here, on this terminal\n\
         \u{20}     `rethread demo` shows what rethread does\n\
         \u{20}     `rethread acp --serve` speaks the protocol here anyway",
    )
}

/// Replaces this process by the agent's command, which then owns the terminal, signals and exit status. Returns only on
/// failure.
fn exec_agent(agent: &AgentInvocation) -> Failure {
    let words = &agent.words;
    let (program, args) =
        words.split_first().map_or((OsStr::new(""), &words[..]), |(first, rest)| (first.as_os_str(), rest));
    let env = agent.env.iter().map(|(name, value)| (name, value.reveal()));
    let mut command = process::Command::new(program);
    environment::for_agents().apply(&mut command);
    let error = command.args(args).envs(env).exec();
    Failure::agent_not_started(program, &error)
}

fn serve(args: AcpArgs, agent: AgentChoice) -> Result<(), Failure> {
    let config = config(&args);
    if args.server == ServerUse::Auto
        && let Some(stream) = connected(&agent, &config)?
    {
        return pump::run(stream);
    }
    serve_alone(agent, config, args.log_level)
}

/// The settings of the command line.
fn config(args: &AcpArgs) -> Config {
    Config {
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
        idle_limit: args.idle_minutes.limit(),
        native_sessions: if args.own_sessions_only { NativeSessions::Hidden } else { NativeSessions::Listed },
        ..Config::default()
    }
}

fn serve_alone(agent: AgentChoice, config: Config, log_level: LogLevel) -> Result<(), Failure> {
    let (parts, opened) = ServerParts::prepare(agent, config, log_level)?;
    // One thread: a chunk goes from the agent to the client without a thread switch. Long work runs on blocking threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = parts.server();
        let wire = stdio::open()?;
        let mut opened = pin!(opened.wait());
        let mut serving = pin!(server.serve_until(wire, asked_to_stop()));
        tokio::select! {
            biased;
            outcome = &mut opened => {
                outcome?;
                tokio::select! {
                    () = &mut serving => {}
                    () = parts.prune_daily() => {}
                }
            }
            () = &mut serving => opened.await?,
        }
        Ok(())
    })
}
