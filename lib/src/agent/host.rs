//! Runs one agent for all its users: starts it on first use, agrees on a protocol version, watches it, and starts it again
//! when it is needed after it ended. `version` tracks the version that it speaks, `ending` reports how it ended.

mod ending;
mod version;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rethread_core::{AgentKind, Json};
use tokio::sync::{oneshot, watch};

use super::environment::Environment;
use super::peer::{AgentPeer, PeerRules};
use super::process::{self, AgentCommand, AgentProcess};
use super::sessionless::ProcessClients;
use crate::edge::Version;
use crate::edge::capabilities::{AgentProfile, ClientProfile};
use crate::lock::locked;
use crate::secret::Secrets;
use crate::transport::Wire;
use crate::wire::{RpcError, code, with_causes};
use ending::{NotReady, watch_over};
use version::Spoken;

/// An agent that has run this long is not crashing.
const STEADY: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Where an agent comes from.
pub trait AgentSource: Send + Sync + 'static {
    /// Starts one more of it.
    fn start(&self) -> Starting<'_>;

    /// What a person would call it.
    fn name(&self) -> String;

    /// Names what is started so exactly that its answer to `initialize` can be remembered; nothing if it cannot.
    fn key(&self) -> Option<String> {
        None
    }

    /// Names the command alone, whatever program it starts today; nothing if it is none. What the same command said of
    /// itself before is used while it does not start.
    fn command_key(&self) -> Option<String> {
        None
    }

    /// Names what one process of it can serve: the program, its arguments, its environment. Clients that need the same
    /// share a process. Nothing if it is no command; then only this source itself counts as the same.
    fn process_key(&self) -> Option<String> {
        None
    }

    /// The name under which it is configured; nothing if it is only a command. Whoever opens the session later can
    /// start the same agent by it.
    fn configured_name(&self) -> Option<String> {
        None
    }

    /// The environment in which commands are run for it. Its clients may have another one than this process.
    fn environment(&self) -> Environment {
        Environment::Inherited
    }

    /// Where it runs. Only an agent that is part of this program is [`AgentKind::InProcess`]: what it keeps in
    /// `_meta.rethread` is trusted.
    fn kind(&self) -> AgentKind {
        AgentKind::External
    }
}

/// A start under way.
pub type Starting<'a> = Pin<Box<dyn Future<Output = Result<Started, RpcError>> + Send + 'a>>;

/// An agent that was started.
pub struct Started {
    /// The way to talk to it.
    pub wire: Wire,
    /// The process, if it is one.
    pub process: Option<AgentProcess>,
}

/// An agent that is a command.
pub struct CommandSource {
    /// The name under which it is configured, if any.
    pub configured_name: Option<String>,
    /// The command.
    pub command: AgentCommand,
    /// Names the program file, its version and its arguments.
    pub key: Option<String>,
}

impl AgentSource for CommandSource {
    fn start(&self) -> Starting<'_> {
        Box::pin(async {
            let spawned = process::spawn(&self.command).await.map_err(|error| {
                let mut start_error =
                    RpcError::internal(format!("the agent did not start: {}", with_causes(&error)));
                if let Some(hint) = error.hint() {
                    start_error = start_error.hint(hint);
                }
                start_error
            })?;
            let (wire, process) = spawned.split();
            Ok(Started { wire, process: Some(process) })
        })
    }

    fn name(&self) -> String {
        let program = std::path::Path::new(&self.command.program);
        let name = program.file_name().unwrap_or(program.as_os_str());
        name.to_string_lossy().into_owned()
    }

    fn key(&self) -> Option<String> {
        self.key.clone()
    }

    fn command_key(&self) -> Option<String> {
        Some(format!("{:?} {:?}", self.command.program, self.command.args))
    }

    fn process_key(&self) -> Option<String> {
        // The key has the file's identity in it: after an update of the program, new clients get the new one.
        let AgentCommand { program, args, environment, env, directory, .. } = &self.command;
        let env: Vec<_> = env.iter().map(|(name, value)| (name, value.reveal())).collect();
        // Only a program that is named by a relative path depends on the directory.
        let relative =
            std::path::Path::new(program).is_relative() && program.as_encoded_bytes().contains(&b'/');
        let directory = directory.as_ref().filter(|_| relative);
        let environment = environment.comparable();
        Some(format!("{program:?} {args:?} {:?} {env:?} {directory:?} {environment}", self.key))
    }

    fn environment(&self) -> Environment {
        self.command.environment.clone()
    }

    fn configured_name(&self) -> Option<String> {
        self.configured_name.clone()
    }
}

/// Which versions an agent is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AgentProtocol {
    /// The client's own first, then the other.
    #[default]
    Auto,
    /// This one first, then the other.
    First(Version),
    /// Only this one.
    Only(Version),
}

/// What a host needs to know.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Which versions to offer.
    pub protocol: AgentProtocol,
    /// How long a line may be.
    pub longest_line: usize,
    /// How long the agent may take to answer `initialize`.
    pub start_limit: Duration,
    /// What is struck out of an agent's errors and of what it says on stderr.
    pub secrets: Secrets,
}

/// A live agent: how to reach it and what it is.
#[derive(Clone)]
pub struct LiveAgent {
    /// How to reach it.
    pub peer: AgentPeer,
    /// What it said of itself.
    pub profile: Arc<AgentProfile>,
    /// That in its own words.
    pub answer: Json,
    stop: Arc<watch::Sender<Order>>,
    ended: watch::Receiver<bool>,
}

/// The order to the watcher of an agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Run,
    End,
}

impl LiveAgent {
    /// Ends the agent and all its children, politely first. Returns when they are gone.
    pub async fn end(&self) {
        let _ = self.stop.send(Order::End);
        self.ended().await;
    }

    /// Waits until the agent has ended, for whatever reason.
    pub async fn ended(&self) {
        // The sender is dropped only after it has sent `true`.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }
}

enum HostSlot {
    Empty,
    Starting(watch::Receiver<Option<Result<(), RpcError>>>),
    Live(LiveAgent),
}

/// Keeps one agent running for all its users.
#[derive(Clone)]
pub struct AgentHost {
    shared: Arc<HostShared>,
}

struct HostShared {
    source: Arc<dyn AgentSource>,
    client: ClientProfile,
    config: HostConfig,
    /// The clients that get what the agent says outside sessions.
    clients: ProcessClients,
    /// Set when nobody needs the agent any more: a start under way is given up.
    unneeded: watch::Sender<bool>,
    slot: Mutex<HostSlot>,
    crashes: Mutex<Crashes>,
    /// What is known of the version that the agent speaks.
    spoken: Mutex<Spoken>,
    /// The agent, once it turned out to be something else than it said.
    corrected: watch::Sender<Option<LiveAgent>>,
}

/// How often the agent has ended soon after its start.
#[derive(Default)]
struct Crashes {
    in_a_row: u32,
    started: Option<Instant>,
}

impl Crashes {
    /// How long the next start waits: an agent that cannot stay up is not started over and over.
    fn pause(&mut self) -> Duration {
        let short = self.started.is_some_and(|started| started.elapsed() < STEADY);
        self.in_a_row = if short { self.in_a_row + 1 } else { 0 };
        self.started = Some(Instant::now());
        match self.in_a_row {
            0 | 1 => Duration::ZERO,
            more => FIRST_PAUSE.saturating_mul(1 << (more - 2).min(8)).min(LONGEST_PAUSE),
        }
    }
}

impl AgentHost {
    /// A host that introduces this client to the agent. Starts nothing yet.
    #[must_use]
    pub fn new(source: Arc<dyn AgentSource>, client: ClientProfile, config: HostConfig) -> Self {
        Self {
            shared: Arc::new(HostShared {
                source,
                client,
                config,
                clients: ProcessClients::default(),
                unneeded: watch::channel(false).0,
                slot: Mutex::new(HostSlot::Empty),
                crashes: Mutex::default(),
                spoken: Mutex::default(),
                corrected: watch::channel(None).0,
            }),
        }
    }

    /// What a person would call the agent.
    #[must_use]
    pub fn name(&self) -> String {
        self.shared.source.name()
    }

    /// The name under which the agent is configured, if it has one.
    #[must_use]
    pub fn configured_name(&self) -> Option<String> {
        self.shared.source.configured_name()
    }

    /// The name that an agent has for itself, or what it is called here: the same agent under another command
    /// line is still the same.
    #[must_use]
    pub fn identity(&self, agent: &LiveAgent) -> String {
        let named = agent.profile.info.as_ref().and_then(|info| info.fields().text("name"));
        named.unwrap_or_else(|| self.name())
    }

    /// The clients that get what the agent says outside sessions.
    #[must_use]
    pub fn clients(&self) -> &ProcessClients {
        &self.shared.clients
    }

    /// Says whether both are the same host.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The environment in which commands are run for the agent.
    #[must_use]
    pub fn environment(&self) -> Environment {
        self.shared.source.environment()
    }

    /// Where the agent runs.
    #[must_use]
    pub fn kind(&self) -> AgentKind {
        self.shared.source.kind()
    }

    /// The version of the client that the agent is introduced to.
    pub fn client_version(&self) -> Version {
        self.shared.client.version
    }

    /// The running agent; starts it if there is none.
    pub async fn live(&self) -> Result<LiveAgent, RpcError> {
        loop {
            let mut starting = match self.slot_now() {
                Ok(live) => return Ok(live),
                Err(starting) => starting,
            };
            let outcome = starting.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
            match outcome {
                Ok(Some(Ok(()))) => {}
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) | Err(_) => return Err(RpcError::internal("the agent's start was given up")),
            }
        }
    }

    /// Ends the agent for good, also one that is just being started. Returns when it is gone.
    pub async fn end(&self) {
        self.shared.unneeded.send_replace(true);
        loop {
            let mut starting = match &*locked(&self.shared.slot) {
                HostSlot::Starting(starting) => starting.clone(),
                HostSlot::Live(_) | HostSlot::Empty => break,
            };
            // A start that is given up has ended what it had started.
            if starting.wait_for(Option::is_some).await.is_err() {
                break;
            }
        }
        let live = match &*locked(&self.shared.slot) {
            HostSlot::Live(live) => Some(live.clone()),
            HostSlot::Empty | HostSlot::Starting(_) => None,
        };
        if let Some(live) = live {
            live.end().await;
        }
    }

    async fn unneeded(&self) {
        // The sender lives as long as this host does.
        let _ = self.shared.unneeded.subscribe().wait_for(|unneeded| *unneeded).await;
    }

    fn slot_now(&self) -> Result<LiveAgent, watch::Receiver<Option<Result<(), RpcError>>>> {
        let mut slot = locked(&self.shared.slot);
        match &*slot {
            HostSlot::Live(live) if !live.has_ended() => Ok(live.clone()),
            HostSlot::Starting(starting) => Err(starting.clone()),
            HostSlot::Live(_) | HostSlot::Empty => {
                let (done, starting) = watch::channel(None);
                *slot = HostSlot::Starting(starting.clone());
                tokio::spawn(self.clone().start(done));
                Err(starting)
            }
        }
    }

    async fn start(self, done: watch::Sender<Option<Result<(), RpcError>>>) {
        let pause = locked(&self.shared.crashes).pause();
        // Even a sleep of no length waits for the next tick of the timer.
        let needed = pause.is_zero()
            || tokio::select! {
                () = tokio::time::sleep(pause) => true,
                () = self.unneeded() => false,
            };
        let needed = needed && !*self.shared.unneeded.borrow();
        let outcome = if needed { self.try_start().await } else { Err(given_up()) };
        let (slot, result) = match outcome {
            Ok(live) => (HostSlot::Live(live), Ok(())),
            Err(error) => (HostSlot::Empty, Err(error)),
        };
        *locked(&self.shared.slot) = slot;
        let _ = done.send(Some(result));
    }

    /// Offers the client's own version first, so that translation happens only where it must.
    async fn try_start(&self) -> Result<LiveAgent, RpcError> {
        let own = locked(&self.shared.spoken).version.unwrap_or(self.shared.client.version);
        let offers = match self.shared.config.protocol {
            AgentProtocol::Only(version) => vec![version],
            AgentProtocol::First(version) => version.then_the_other().to_vec(),
            AgentProtocol::Auto => own.then_the_other().to_vec(),
        };
        let mut last = RpcError::internal("no protocol version to offer");
        for offer in offers {
            match self.introduce(offer).await {
                Ok(live) => return Ok(self.met(live)),
                Err(error) if refused_version(&error) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    async fn introduce(&self, offer: Version) -> Result<LiveAgent, RpcError> {
        let started = self.shared.source.start().await?;
        let (heard_end, stream_ended) = oneshot::channel();
        let config = &self.shared.config;
        if let Some(process) = &started.process {
            process.redact_with(&config.secrets);
        }
        let rules = PeerRules {
            longest_line: config.longest_line,
            kind: self.kind(),
            secrets: config.secrets.clone(),
        };
        let peer = AgentPeer::start(started.wire, rules, self.shared.clients.clone(), heard_end);
        let (stop, orders) = watch::channel(Order::Run);
        let (ended_now, mut ended) = watch::channel(false);
        let (why, ending) = oneshot::channel();
        tokio::spawn(watch_over(peer.clone(), started.process, stream_ended, orders, ended_now, why));
        let params = self.shared.client.initialize_params(offer);
        let answer = tokio::select! {
            answer = peer.initialize(&params) => match answer {
                Some(answer) => answer.map_err(NotReady::Refused),
                None => Err(NotReady::Ended),
            },
            _ = ended.wait_for(|ended| *ended) => Err(NotReady::Ended),
            () = tokio::time::sleep(config.start_limit) => Err(NotReady::Silent(config.start_limit)),
            () = self.unneeded() => Err(NotReady::Unneeded),
        };
        let stop = Arc::new(stop);
        let accepted = answer.and_then(|answer| match accepted(&answer, config.protocol) {
            Ok(profile) => Ok((profile, answer)),
            Err(error) => Err(NotReady::Unusable(error)),
        });
        match accepted {
            Ok((profile, answer)) => Ok(LiveAgent { peer, profile: Arc::new(profile), answer, stop, ended }),
            Err(not_ready) => {
                let _ = stop.send(Order::End);
                Err(not_ready.into_error(ending).await)
            }
        }
    }
}

fn given_up() -> RpcError {
    RpcError::internal("the start of the agent was given up: nobody needs it any more")
}

fn accepted(answer: &Json, protocol: AgentProtocol) -> Result<AgentProfile, RpcError> {
    let profile = AgentProfile::read(answer)?;
    match protocol {
        AgentProtocol::Only(version) if profile.version != version => Err(RpcError::new(
            code::UNSUPPORTED_VERSION,
            format!("the agent speaks protocol version {}", profile.version.number()),
        )
        .hint("drop --agent-protocol, or name the version that the agent speaks")),
        AgentProtocol::Only(_) | AgentProtocol::First(_) | AgentProtocol::Auto => Ok(profile),
    }
}

fn refused_version(error: &RpcError) -> bool {
    matches!(error.code, code::UNSUPPORTED_VERSION | code::INVALID_PARAMS | code::INVALID_REQUEST)
}
