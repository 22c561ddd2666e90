//! What a version 1 agent asks of a client that has no such methods: text files inside the session's roots, and
//! terminals. Carries the requests out and says what users are to be told; who asked and where the answers go is
//! the session's business.

mod files;
mod launch;
mod output;
mod terminal;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use rethread_core::{Json, Update};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use self::files::{Lines, TextError};
use self::launch::number;
pub(crate) use self::terminal::{Moment, Terminal};
use crate::command::GuardianCommand;
use crate::edge::params::Params;
use crate::rooted::{FileError, Roots};
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

/// How many requests about files and starts are carried out at once; others wait.
const AT_ONCE: usize = 4;
/// How many of them there may be.
const MOST_WORK: usize = 256;
/// How many terminals a session may have that are not released.
const MOST_TERMINALS: usize = 64;

/// Where a session's files and commands are: its working directory first.
#[derive(Clone, Debug)]
pub(crate) struct RootPaths(pub(crate) Vec<String>);

/// How a request begins.
pub(crate) enum Begun {
    /// It is done.
    Answer(Result<Json, RpcError>),
    /// Its answer comes with the news of a terminal.
    Waits,
    /// It is to be carried out beside the session.
    Works(Pin<Box<dyn Future<Output = Done> + Send>>),
}

/// What came of a request that was carried out.
pub(crate) enum Done {
    /// Its answer.
    Answer(Result<Json, RpcError>),
    /// A terminal; its id is the answer once it is known.
    Started(Terminal),
    /// There may be news of this terminal.
    Look(String),
}

/// News of a terminal.
#[derive(Default)]
pub(crate) struct News {
    /// For users.
    pub(crate) updates: Vec<Update>,
    /// For the agent, once users know.
    pub(crate) answers: Vec<(Id, Json)>,
}

/// What is carried out for the agent of one session.
pub(crate) struct Hosting {
    terminals: BTreeMap<String, Hosted>,
    room: Arc<Semaphore>,
    working: usize,
    /// Counts the agents: what was done for one is not answered to the next.
    generation: u64,
    /// What keeps a command and all that it starts together.
    guardian: Option<GuardianCommand>,
}

/// A terminal and the requests that wait for its end.
struct Hosted {
    terminal: Terminal,
    waiting: Vec<(Id, Waits)>,
}

/// What a request waits for the end of a command for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Status,
    Kill,
    Release,
}

impl Hosting {
    pub(crate) fn new(guardian: Option<GuardianCommand>) -> Self {
        Self {
            terminals: BTreeMap::new(),
            room: Arc::new(Semaphore::new(AT_ONCE)),
            working: 0,
            generation: 0,
            guardian,
        }
    }

    /// Says whether a terminal is one of these.
    pub(crate) fn has(&self, terminal: &str) -> bool {
        self.terminals.contains_key(terminal)
    }

    /// The agent for which work is done now.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Begins with a request of the agent's.
    pub(crate) fn begin(&mut self, request: &Id, method: &str, params: &Json, roots: RootPaths) -> Begun {
        self.try_begin(request, method, params, roots).unwrap_or_else(|error| Begun::Answer(Err(error)))
    }

    fn try_begin(
        &mut self,
        request: &Id,
        method: &str,
        params: &Json,
        roots: RootPaths,
    ) -> Result<Begun, RpcError> {
        let params = Params::read(Some(params.raw()))?;
        match method {
            "fs/read_text_file" => self.read_file(&params, roots),
            "fs/write_text_file" => self.write_file(&params, roots),
            "terminal/create" => self.create(&params, roots),
            "terminal/output" => Ok(Begun::Answer(Ok(self.named(&params)?.terminal.answer()))),
            "terminal/wait_for_exit" => self.wait(request, &params, Waits::Status),
            "terminal/kill" => self.wait(request, &params, Waits::Kill),
            "terminal/release" => self.wait(request, &params, Waits::Release),
            other => Err(RpcError::unknown_method(other)),
        }
    }

    /// Work that was begun is over.
    pub(crate) fn worked(&mut self) {
        self.working = self.working.saturating_sub(1);
    }

    /// Takes in a terminal that was started.
    pub(crate) fn add(&mut self, terminal: Terminal) {
        self.terminals.insert(terminal.id.clone(), Hosted { terminal, waiting: Vec::new() });
    }

    /// What there is to tell of a terminal. One that is released goes with its last news.
    pub(crate) fn news(&mut self, terminal: &str) -> News {
        let Some(hosted) = self.terminals.get_mut(terminal) else { return News::default() };
        let updates = hosted.terminal.news();
        let Some(exit) = hosted.terminal.exit().filter(|_| hosted.terminal.exit_told()) else {
            return News { updates, answers: Vec::new() };
        };
        let waiting = std::mem::take(&mut hosted.waiting);
        let released = waiting.iter().any(|(_, waits)| *waits == Waits::Release);
        let answer = |waits| match waits {
            Waits::Status => output::exit_json(exit),
            Waits::Kill | Waits::Release => json!({}).into(),
        };
        let answers = waiting.into_iter().map(|(request, waits)| (request, answer(waits))).collect();
        let mut news = News { updates, answers };
        if released && let Some(hosted) = self.terminals.remove(terminal) {
            news.updates.extend(hosted.terminal.last_news());
        }
        news
    }

    /// A user wants the command of a terminal to end. Says whether there is one that runs.
    pub(crate) fn cancel(&self, terminal: &str) -> bool {
        let running = self.terminals.get(terminal).filter(|hosted| hosted.terminal.exit().is_none());
        running.map(|hosted| hosted.terminal.end()).is_some()
    }

    /// The agent takes back a request that waits. Says whether there was one.
    pub(crate) fn withdraw(&mut self, request: &Id) -> bool {
        let mut found = false;
        for hosted in self.terminals.values_mut() {
            // What was asked to end ends all the same.
            let before = hosted.waiting.len();
            hosted.waiting.retain(|(open, waits)| open != request || *waits == Waits::Release);
            found |= hosted.waiting.len() < before;
        }
        found
    }

    /// Ends everything: the agent it was done for is gone or shall go. Gives the last news of all terminals,
    /// and the requests that nobody will answer. What runs is asked to end, and killed if it does not: soon,
    /// and nobody waits for it.
    pub(crate) fn end(&mut self) -> (Vec<Update>, Vec<Id>) {
        self.generation += 1;
        self.working = 0;
        let (mut updates, mut open) = (Vec::new(), Vec::new());
        for hosted in std::mem::take(&mut self.terminals).into_values() {
            updates.extend(hosted.terminal.last_news());
            open.extend(hosted.waiting.into_iter().map(|(request, _)| request));
        }
        (updates, open)
    }

    fn read_file(&mut self, params: &Params, roots: RootPaths) -> Result<Begun, RpcError> {
        let path = params.path("path")?;
        let lines = Lines { first: number(params, "line")?, count: number(params, "limit")? };
        self.work(move || {
            let text = files::read(&Roots::find(&roots.0), Path::new(&path), lines);
            let text = text.map_err(|error| files::refused(&error, "path", &path, &roots.0))?;
            Ok(json!({"content": text}).into())
        })
    }

    fn write_file(&mut self, params: &Params, roots: RootPaths) -> Result<Begun, RpcError> {
        let (path, text) = (params.path("path")?, params.text("content")?);
        self.work(move || {
            let written = files::write(&Roots::find(&roots.0), Path::new(&path), &text);
            written.map_err(|error| files::refused(&error, "path", &path, &roots.0))?;
            Ok(json!({}).into())
        })
    }

    fn create(&mut self, params: &Params, roots: RootPaths) -> Result<Begun, RpcError> {
        if self.terminals.len() >= MOST_TERMINALS {
            return Err(RpcError::internal(format!("{MOST_TERMINALS} terminals are already open"))
                .hint("release the terminals that are no longer needed"));
        }
        let mut asked = launch::read(params, roots.0.first().map_or("/", String::as_str))?;
        asked.launch.guardian = self.guardian.clone();
        let room = self.take_up()?;
        Ok(Begun::Works(Box::pin(async move {
            let _room = room.acquire().await;
            let cwd = asked.launch.cwd.clone();
            let opened = tokio::task::spawn_blocking(move || {
                let opened = Roots::find(&roots.0).directory(Path::new(&cwd));
                let opened = opened.map_err(|error| TextError::File(FileError::Path(error)));
                opened.map_err(|error| files::refused(&error, "cwd", &cwd, &roots.0))
            });
            let started = match opened.await {
                Ok(Ok(directory)) => Terminal::start(&asked, &directory)
                    .await
                    .map_err(|error| launch::not_started(&asked.launch, &error)),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(RpcError::internal("the working directory could not be opened")),
            };
            started.map_or_else(|error| Done::Answer(Err(error)), Done::Started)
        })))
    }

    fn wait(&mut self, request: &Id, params: &Params, waits: Waits) -> Result<Begun, RpcError> {
        let hosted = self.named(params)?;
        if waits != Waits::Status {
            hosted.terminal.end();
        }
        hosted.waiting.push((request.clone(), waits));
        let id = hosted.terminal.id.clone();
        match hosted.terminal.exit() {
            Some(_) => Ok(Begun::Works(Box::pin(std::future::ready(Done::Look(id))))),
            None => Ok(Begun::Waits),
        }
    }

    fn named(&mut self, params: &Params) -> Result<&mut Hosted, RpcError> {
        let id = params.text("terminalId")?;
        let released = |hosted: &Hosted| hosted.waiting.iter().any(|(_, waits)| *waits == Waits::Release);
        let found = self.terminals.get_mut(&id).filter(|hosted| !released(hosted));
        found.ok_or_else(|| {
            RpcError::field("terminalId", &Value::String(id), "the id of an open terminal")
                .hint("a terminal is open from terminal/create to terminal/release")
        })
    }

    fn work(
        &mut self,
        work: impl FnOnce() -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Begun, RpcError> {
        let room = self.take_up()?;
        Ok(Begun::Works(Box::pin(async move {
            let _room = room.acquire().await;
            let done = tokio::task::spawn_blocking(work).await;
            Done::Answer(done.unwrap_or_else(|_| Err(RpcError::internal("the request was abandoned"))))
        })))
    }

    fn take_up(&mut self) -> Result<Arc<Semaphore>, RpcError> {
        if self.working >= MOST_WORK {
            return Err(RpcError::internal(format!("{MOST_WORK} requests are already in progress"))
                .hint("wait for answers before sending more"));
        }
        self.working += 1;
        Ok(self.room.clone())
    }
}
