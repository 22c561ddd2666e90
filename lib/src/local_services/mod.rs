//! Files and terminals for v1 agents whose client does not provide them. Carries out the requests inside the session's
//! roots; routing of requests and answers is done by the session.

mod files;
mod output;
mod terminal;
mod terminal_request;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use rethread_core::{Json, Update};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use self::files::{LineRange, TextError};
pub(crate) use self::terminal::{LocalTerminal, TerminalState};
use self::terminal_request::number;
use crate::command::{Environment, GuardianCommand};
use crate::edge::params::Params;
use crate::sandbox::{FileError, Roots};
use crate::wire::{Id, RpcError};

/// The methods that are carried out here.
pub(crate) const METHODS: [&str; 7] = [
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
];

/// The number of file requests and terminal starts that run at the same time; others wait.
const MAX_CONCURRENT: usize = 4;
/// The number of requests that may be running or waiting.
const MAX_PENDING: usize = 256;
/// The number of terminals of a session that are not released.
const MAX_TERMINALS: usize = 64;

/// The paths of a session's roots; the first is the working directory.
#[derive(Clone, Debug)]
pub(crate) struct RootPaths(pub(crate) Vec<String>);

/// How a request is carried out.
pub(crate) enum ServiceStart {
    /// It is finished.
    Answer(Result<Json, RpcError>),
    /// It is answered when a terminal exits.
    Waiting,
    /// It runs as a future beside the session.
    Work(Pin<Box<dyn Future<Output = ServiceResult> + Send>>),
}

/// The result of a future.
pub(crate) enum ServiceResult {
    /// The answer.
    Answer(Result<Json, RpcError>),
    /// A started terminal; its id is the answer once it is announced.
    Started(LocalTerminal),
    /// This terminal may have new output.
    TerminalChanged(String),
}

/// Changes of a terminal.
#[derive(Default)]
pub(crate) struct TerminalNews {
    /// Updates for users.
    pub(crate) updates: Vec<Update>,
    /// Answers for the agent, to be sent after the updates.
    pub(crate) answers: Vec<(Id, Json)>,
}

/// The local services for the agent of one session.
pub(crate) struct LocalServices {
    terminals: BTreeMap<String, TerminalSlot>,
    room: Arc<Semaphore>,
    working: usize,
    /// Counts the agents of the session: results for an earlier one are dropped.
    generation: u64,
    /// The guardian for commands.
    guardian: Option<GuardianCommand>,
    /// The environment that commands are started in.
    environment: Environment,
}

/// A terminal and the requests that wait for its exit.
struct TerminalSlot {
    terminal: LocalTerminal,
    waiting: Vec<(Id, WaitFor)>,
}

/// What a waiting request needs the exit for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitFor {
    Status,
    Kill,
    Release,
}

impl LocalServices {
    pub(crate) fn new(guardian: Option<GuardianCommand>) -> Self {
        Self {
            terminals: BTreeMap::new(),
            room: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            working: 0,
            generation: 0,
            guardian,
            environment: Environment::Inherited,
        }
    }

    /// Starts commands in this environment from now on.
    pub(crate) fn set_environment(&mut self, environment: Environment) {
        self.environment = environment;
    }

    /// Returns whether this terminal runs here.
    pub(crate) fn has(&self, terminal: &str) -> bool {
        self.terminals.contains_key(terminal)
    }

    /// The current generation of the agent.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Starts a request of the agent.
    pub(crate) fn begin(
        &mut self,
        request: &Id,
        method: &str,
        params: &Json,
        roots: RootPaths,
    ) -> ServiceStart {
        self.try_begin(request, method, params, roots)
            .unwrap_or_else(|error| ServiceStart::Answer(Err(error)))
    }

    fn try_begin(
        &mut self,
        request: &Id,
        method: &str,
        params: &Json,
        roots: RootPaths,
    ) -> Result<ServiceStart, RpcError> {
        let params = Params::read(Some(params.raw()))?;
        match method {
            "fs/read_text_file" => self.read_file(&params, roots),
            "fs/write_text_file" => self.write_file(&params, roots),
            "terminal/create" => self.create(&params, roots),
            "terminal/output" => {
                Ok(ServiceStart::Answer(Ok(self.named_terminal(&params)?.terminal.answer())))
            }
            "terminal/wait_for_exit" => self.wait(request, &params, WaitFor::Status),
            "terminal/kill" => self.wait(request, &params, WaitFor::Kill),
            "terminal/release" => self.wait(request, &params, WaitFor::Release),
            other => Err(RpcError::unknown_method(other)),
        }
    }

    /// Records that a future has finished.
    pub(crate) fn worked(&mut self) {
        self.working = self.working.saturating_sub(1);
    }

    /// Adds a started terminal.
    pub(crate) fn add(&mut self, terminal: LocalTerminal) {
        self.terminals.insert(terminal.id.clone(), TerminalSlot { terminal, waiting: Vec::new() });
    }

    /// Returns the changes of a terminal. A released terminal is removed with its last ones.
    pub(crate) fn news(&mut self, terminal: &str) -> TerminalNews {
        let Some(slot) = self.terminals.get_mut(terminal) else { return TerminalNews::default() };
        let updates = slot.terminal.news();
        let Some(exit) = slot.terminal.exit().filter(|_| slot.terminal.exit_reported()) else {
            return TerminalNews { updates, answers: Vec::new() };
        };
        let waiting = std::mem::take(&mut slot.waiting);
        let released = waiting.iter().any(|(_, wait_for)| *wait_for == WaitFor::Release);
        let answer = |waits| match waits {
            WaitFor::Status => output::exit_json(exit),
            WaitFor::Kill | WaitFor::Release => json!({}).into(),
        };
        let answers = waiting.into_iter().map(|(request, wait_for)| (request, answer(wait_for))).collect();
        let mut news = TerminalNews { updates, answers };
        if released && let Some(slot) = self.terminals.remove(terminal) {
            news.updates.extend(slot.terminal.last_news());
        }
        news
    }

    /// Ends the command of a terminal on behalf of a user. Returns whether one was running.
    pub(crate) fn cancel(&self, terminal: &str) -> bool {
        let running = self.terminals.get(terminal).filter(|slot| slot.terminal.exit().is_none());
        running.map(|slot| slot.terminal.end()).is_some()
    }

    /// Cancels a waiting request of the agent. Returns whether there was one.
    pub(crate) fn withdraw(&mut self, request: &Id) -> bool {
        let mut found = false;
        for slot in self.terminals.values_mut() {
            // A requested kill or release stays in effect.
            let before = slot.waiting.len();
            slot.waiting.retain(|(open, wait_for)| open != request || *wait_for == WaitFor::Release);
            found |= slot.waiting.len() < before;
        }
        found
    }

    /// Ends everything, because the agent has exited or is about to. Returns the last updates of all terminals and the
    /// requests that will not be answered. Commands get SIGTERM, then SIGKILL, without waiting for them here.
    pub(crate) fn end(&mut self) -> (Vec<Update>, Vec<Id>) {
        self.generation += 1;
        self.working = 0;
        let (mut updates, mut open) = (Vec::new(), Vec::new());
        for slot in std::mem::take(&mut self.terminals).into_values() {
            updates.extend(slot.terminal.last_news());
            open.extend(slot.waiting.into_iter().map(|(request, _)| request));
        }
        (updates, open)
    }

    fn read_file(&mut self, params: &Params, roots: RootPaths) -> Result<ServiceStart, RpcError> {
        let path = params.path("path")?;
        let lines = LineRange { first: number(params, "line")?, count: number(params, "limit")? };
        self.work(move || {
            let text = files::read(&Roots::find(&roots.0), Path::new(&path), lines);
            let text = text.map_err(|error| files::refused(&error, "path", &path, &roots.0))?;
            Ok(json!({"content": text}).into())
        })
    }

    fn write_file(&mut self, params: &Params, roots: RootPaths) -> Result<ServiceStart, RpcError> {
        let (path, text) = (params.path("path")?, params.text("content")?);
        self.work(move || {
            let written = files::write(&Roots::find(&roots.0), Path::new(&path), &text);
            written.map_err(|error| files::refused(&error, "path", &path, &roots.0))?;
            Ok(json!({}).into())
        })
    }

    fn create(&mut self, params: &Params, roots: RootPaths) -> Result<ServiceStart, RpcError> {
        if self.terminals.len() >= MAX_TERMINALS {
            return Err(RpcError::internal(format!("{MAX_TERMINALS} terminals are already open"))
                .hint("release the terminals that are no longer needed"));
        }
        let mut request = terminal_request::read(params, roots.0.first().map_or("/", String::as_str))?;
        request.launch.guardian = self.guardian.clone();
        request.launch.environment = self.environment.clone();
        let room = self.reserve()?;
        Ok(ServiceStart::Work(Box::pin(async move {
            let _room = room.acquire().await;
            let cwd = request.launch.cwd.clone();
            let opened = tokio::task::spawn_blocking(move || {
                let opened = Roots::find(&roots.0).directory(Path::new(&cwd));
                let opened = opened.map_err(|error| TextError::File(FileError::Path(error)));
                opened.map_err(|error| files::refused(&error, "cwd", &cwd, &roots.0))
            });
            let started = match opened.await {
                Ok(Ok(directory)) => LocalTerminal::start(&request, &directory)
                    .await
                    .map_err(|error| terminal_request::not_started(&request.launch, &error)),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(RpcError::internal("the working directory could not be opened")),
            };
            started.map_or_else(|error| ServiceResult::Answer(Err(error)), ServiceResult::Started)
        })))
    }

    fn wait(&mut self, request: &Id, params: &Params, wait_for: WaitFor) -> Result<ServiceStart, RpcError> {
        let slot = self.named_terminal(params)?;
        if wait_for != WaitFor::Status {
            slot.terminal.end();
        }
        slot.waiting.push((request.clone(), wait_for));
        let id = slot.terminal.id.clone();
        match slot.terminal.exit() {
            Some(_) => {
                Ok(ServiceStart::Work(Box::pin(std::future::ready(ServiceResult::TerminalChanged(id)))))
            }
            None => Ok(ServiceStart::Waiting),
        }
    }

    fn named_terminal(&mut self, params: &Params) -> Result<&mut TerminalSlot, RpcError> {
        let id = params.text("terminalId")?;
        let released =
            |slot: &TerminalSlot| slot.waiting.iter().any(|(_, wait_for)| *wait_for == WaitFor::Release);
        let found = self.terminals.get_mut(&id).filter(|slot| !released(slot));
        found.ok_or_else(|| {
            RpcError::field("terminalId", &Value::String(id), "the id of an open terminal")
                .hint("a terminal is open from terminal/create to terminal/release")
        })
    }

    fn work(
        &mut self,
        work: impl FnOnce() -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<ServiceStart, RpcError> {
        let room = self.reserve()?;
        Ok(ServiceStart::Work(Box::pin(async move {
            let _room = room.acquire().await;
            let done = tokio::task::spawn_blocking(work).await;
            ServiceResult::Answer(
                done.unwrap_or_else(|_| Err(RpcError::internal("the request was abandoned"))),
            )
        })))
    }

    fn reserve(&mut self) -> Result<Arc<Semaphore>, RpcError> {
        if self.working >= MAX_PENDING {
            return Err(RpcError::internal(format!("{MAX_PENDING} requests are already in progress"))
                .hint("wait for answers before sending more"));
        }
        self.working += 1;
        Ok(self.room.clone())
    }
}
