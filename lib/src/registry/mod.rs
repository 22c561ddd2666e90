//! The live sessions of a server: finds one, opens it from the store, or creates it. Opening is atomic per id (`turns`).
//! `adopt` stores sessions that only the agent has, `drain` ends the work, `fork` branches off, `watch` notices what other
//! processes do and reports changes to those who subscribed to the list (`list_changes`), `session_info` says how a session
//! is, `observe` lets observers follow a session without opening it.

mod adopt;
mod drain;
mod fork;
mod list_changes;
mod observe;
mod session_info;
mod turns;
mod watch;

pub(crate) use drain::STOPPED;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use rethread_core::{AgentKind, Binding, Entry, Input, Json, Seq, Session, SessionId, stored};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::agent::host::LiveAgent;
use crate::agent::peer::{AgentLine, FromAgent};
use crate::agent::pool::SharedHost;
use crate::client_id::{ClientId, ClientTag};
use crate::clock;
use crate::edge::agent_translator::{AgentTranslator, outgoing};
use crate::edge::client_request::Setup;
use crate::ids;
use crate::live_session::store_error;
use crate::live_session::{
    AgentLines, AgentSlot, Bound, Handle, LiveSession, Message, OpenWork, Replaying, SessionDeps,
    SessionStart,
};
use crate::lock::locked;
use crate::news::NewsDesk;
use crate::store::facts::facts;
use crate::store::state::read_state;
use crate::store::{AgentName, Deleted, Lease, NewSession, RowFacts, SessionRow, Store, StoreError};
use crate::wire::RpcError;
use drain::WorkGate;
use observe::ObservedSessions;
use turns::Turns;
use watch::WatchRequest;

pub(crate) use list_changes::ListSubscriber;
pub(crate) use session_info::RowForm;

/// The live sessions by id.
type LiveSessions = Mutex<HashMap<SessionId, Handle>>;

/// The live sessions.
pub(crate) struct Registry {
    live: Arc<LiveSessions>,
    /// Who is opening which session.
    turns: Turns,
    deps: SessionDeps,
    /// The way to the task that watches the store, when it is watched.
    watching: OnceLock<mpsc::Sender<WatchRequest>>,
    gate: WorkGate,
    observed: ObservedSessions,
}

impl Registry {
    pub(crate) fn new(deps: SessionDeps) -> Self {
        let (gate, observed) = (WorkGate::default(), ObservedSessions::default());
        let (live, turns, watching) = (Arc::default(), Turns::default(), OnceLock::new());
        Self { live, turns, deps, watching, gate, observed }
    }

    /// Where the sessions report what happens.
    pub(crate) fn news(&self) -> &NewsDesk {
        &self.deps.news
    }

    /// Sessions may come from other machines from now on.
    pub(crate) fn has_several_hosts(&self) {
        self.deps.several_hosts.store(true, Ordering::Relaxed);
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.deps.store.as_ref()
    }

    /// The session, if it is live in this process.
    pub(crate) fn find(&self, id: &SessionId) -> Option<Handle> {
        locked(&self.live).get(id).filter(|handle| !handle.ended()).cloned()
    }

    /// The session, if it is live. Waits for one that is just ending: until then its lease is taken. Call it with
    /// the turn to open the session.
    async fn find_settled(&self, id: &SessionId) -> Option<Handle> {
        loop {
            let handle = locked(&self.live).get(id).cloned()?;
            if !handle.ended() {
                return Some(handle);
            }
            handle.finished().await;
        }
    }

    /// The row of a session that exists for clients.
    pub(crate) async fn row(&self, id: &SessionId) -> Result<SessionRow, RpcError> {
        let row = self.store().find(id).await.map_err(|e| store_error(&e))?;
        row.filter(|row| row.deleted == Deleted::No).ok_or_else(|| RpcError::unknown_session(id.as_str()))
    }

    /// The session, live: opened from the store if it was not, with this host for its agent.
    pub(crate) async fn open(&self, id: &SessionId, host: &SharedHost) -> Result<Handle, RpcError> {
        self.open_kept(id, host).await?.ok_or_else(|| RpcError::unknown_session(id.as_str()))
    }

    /// The same, or nothing if it has no journal here: then perhaps the agent knows it.
    pub(crate) async fn open_kept(
        &self,
        id: &SessionId,
        host: &SharedHost,
    ) -> Result<Option<Handle>, RpcError> {
        let _turn = self.turns.take(id).await;
        match self.find_settled(id).await {
            Some(handle) => Ok(Some(handle)),
            None => self.open_stored(id, host).await,
        }
    }

    /// Opens a session that is not live. Call it with the turn to open the session.
    async fn open_stored(&self, id: &SessionId, host: &SharedHost) -> Result<Option<Handle>, RpcError> {
        let claimed = claim(self.store(), id).await;
        let (lease, session) = match claimed.map_err(|error| store_error(&error))? {
            Claimed::Session(lease, session) => (lease, *session),
            Claimed::Deleted => return Err(RpcError::unknown_session(id.as_str())),
            Claimed::Nothing => return Ok(None),
        };
        let setup = Setup { cwd: session.cwd.clone(), roots: session.roots.clone(), ..Setup::default() };
        let begin = SessionStart {
            id: id.clone(),
            session,
            lease,
            setup,
            host: host.user(),
            fork_of: None,
            slot: AgentSlot::Empty,
            lines: AgentLines::new(),
        };
        Ok(Some(self.start(begin)))
    }

    /// Makes a session: at the agent first, since it has to agree. `asked` gets the number of the request.
    pub(crate) async fn create(
        &self,
        host: &SharedHost,
        agent: LiveAgent,
        setup: Setup,
        asked: impl FnOnce(u64),
    ) -> Result<(Handle, Session), RpcError> {
        outgoing::check_servers(&agent.profile, &setup.servers)?;
        outgoing::check_system_prompt(&agent.profile, &setup)?;
        let mut lines = AgentLines::new();
        let params = outgoing::open_params(&agent.profile, &setup, None);
        let gone = |reason: String| RpcError::internal(reason);
        let request =
            agent.peer.open("session/new", &params, &lines.route).map_err(|error| gone(error.to_string()))?;
        asked(request);
        let (answer, rest) = answer_to(&mut lines, request).await?;
        let Some(native) = answer.fields().text("sessionId") else {
            return Err(gone("the agent created a session but gave no sessionId".to_owned()));
        };
        let name = host.identity(&agent);
        let mut translator = AgentTranslator::new(agent.profile.version, 1, std::collections::HashSet::new());
        let (session, entries) = first_entries(&name, host.kind(), &setup, &native, &mut translator, &answer);
        let id = ids::session_id();
        let agent_name = Some(AgentName(host.configured_name()));
        let new = NewSession {
            id: id.clone(),
            cwd: setup.cwd.clone(),
            agent: name,
            parent: None,
            facts: RowFacts { agent_name, ..facts(entries.iter()) },
            entries: entries.into_iter().map(Arc::new).collect(),
            snapshot: Some(stored::encode_session(&session)),
            at: clock::now(),
        };
        let lease = self.store().create(new).await.map_err(|e| store_error(&e))?;
        lines.early = rest;
        let slot = AgentSlot::Bound(Box::new(Bound { agent, translator, native, replaying: Replaying::No }));
        let host = host.user();
        let begin =
            SessionStart { id, session: session.clone(), lease, setup, host, fork_of: None, slot, lines };
        Ok((self.start(begin), session))
    }

    /// Ends a live session for all its clients and waits until it has given up its lease. Gives its last entry.
    pub(crate) async fn end(&self, id: &SessionId, reason: &str, by: Option<ClientTag>) -> Option<Seq> {
        end(self.find(id)?, reason.to_owned(), by, OpenWork::Cut).await
    }

    /// Ends all sessions, side by side.
    pub(crate) async fn end_all(&self, reason: &str) {
        let end = |handle| end(handle, reason.to_owned(), None, OpenWork::Cut);
        let mut ending: JoinSet<_> = self.handles().into_iter().map(end).collect();
        while ending.join_next().await.is_some() {}
    }

    /// Shows a notice to the clients of all sessions that use this agent process, but not to the client that changed it.
    pub(crate) async fn host_changed(&self, host: &SharedHost, by: ClientId, notice: &Json) {
        for handle in self.handles() {
            let message = Message::HostChanged { host: host.clone(), by, notice: notice.clone() };
            // A session that has ended has nobody to show it to.
            let _ = handle.send(message).await;
        }
    }

    fn start(&self, begin: SessionStart) -> Handle {
        self.watch();
        let lease = begin.lease.clone();
        let (handle, run, finished) = LiveSession::prepare(begin, self.deps.clone());
        locked(&self.live).insert(handle.id.clone(), handle.clone());
        self.observed.went_live(&handle);
        let (live, id, store) = (self.live.clone(), handle.id.clone(), self.deps.store.clone());
        let (observed, tail) = (self.observed.clone(), handle.live.clone());
        tokio::spawn(async move {
            if tokio::spawn(run).await.is_err() {
                // It panicked: the next opener must not find it owned.
                let _ = store.release(&lease).await;
            }
            locked(&live).remove(&id);
            observed.ended(&id, tail.head());
            let _ = finished.send(true);
        });
        handle
    }
}

async fn end(handle: Handle, reason: String, by: Option<ClientTag>, work: OpenWork) -> Option<Seq> {
    let (done, ended) = oneshot::channel();
    handle.send(Message::End { reason, by, work, done }).await.ok()?;
    let seq = ended.await.ok();
    if seq.is_some() || work == OpenWork::Cut {
        handle.finished().await;
    }
    seq
}

/// What the store has of a session.
enum Claimed {
    Session(Lease, Box<Session>),
    Deleted,
    /// No row, or one without a journal.
    Nothing,
}

/// Takes a session that exists for clients, and reads its state.
async fn claim(store: &dyn Store, id: &SessionId) -> Result<Claimed, StoreError> {
    let lease = match store.claim(id).await {
        Ok(lease) => lease,
        Err(StoreError::Unknown(_)) => {
            let deleted = store.find(id).await?.is_some_and(|row| row.deleted == Deleted::Yes);
            return Ok(if deleted { Claimed::Deleted } else { Claimed::Nothing });
        }
        Err(error) => return Err(error),
    };
    if lease.head == Seq(0) {
        store.release(&lease).await?;
        return Ok(Claimed::Nothing);
    }
    match read_state(store, id).await {
        Ok((mut session, row)) => {
            // A title that was set from outside is the row's; the journal need not know of it.
            session.title = row.title.or(session.title);
            Ok(Claimed::Session(Lease { head: row.head, ..lease }, Box::new(session)))
        }
        Err(error) => {
            // A session that cannot be read belongs to nobody.
            store.release(&lease).await?;
            Err(error)
        }
    }
}

async fn answer_to(lines: &mut AgentLines, request: u64) -> Result<(Json, Vec<AgentLine>), RpcError> {
    let mut early = Vec::new();
    loop {
        let batch = match lines.lines.recv().await {
            Some(FromAgent::Lines(batch)) => batch,
            Some(FromAgent::Gone(reason)) => return Err(RpcError::internal(reason)),
            None => return Err(RpcError::internal("the agent exited before it created the session")),
        };
        let mut answer = None;
        for line in batch {
            match line {
                AgentLine::Answered { request: answered, outcome } if answered == request => {
                    answer = Some(outcome);
                }
                AgentLine::Answered { .. } | AgentLine::Message(_) => early.push(line),
            }
        }
        if let Some(outcome) = answer {
            return outcome.map(|answer| (answer, early));
        }
    }
}

fn first_entries(
    agent: &str,
    kind: AgentKind,
    setup: &Setup,
    native: &str,
    translator: &mut AgentTranslator,
    answer: &Json,
) -> (Session, Vec<Entry>) {
    let mut session = Session::default();
    let at = clock::now();
    let (cwd, roots) = (setup.cwd.clone(), setup.roots.clone());
    let opened = Entry::Opened { cwd, roots, agent: agent.to_owned(), at, moved_from: None };
    session.apply(&opened);
    let mut entries = vec![opened];
    let bound = Input::AgentBound {
        agent: agent.to_owned(),
        native: native.to_owned(),
        binding: Binding::Fresh,
        style: translator.dialect().prompts,
        kind,
        at,
    };
    let updates = translator
        .decode_open_answer(answer)
        .into_iter()
        .map(|update| Input::Updated { update, known: false });
    for input in std::iter::once(bound).chain(updates) {
        for entry in rethread_core::decide(&session, input).unwrap_or_default() {
            session.apply(&entry);
            entries.push(entry);
        }
    }
    (session, entries)
}
