//! Forks a session: creates a row that names the parent and a sequence number. Takes the same time for any length of the
//! parent, unless a message is named. Needs no agent.

use std::sync::Arc;

use rethread_core::session::Native;
use rethread_core::{Entry, Folded, HeldPrompts, Input, Seq, Session, SessionId, Update, UpdateKind, stored};

use super::facts::facts;
use super::find_back::find_message;
use super::state::state_and_turn_end;
use super::{AgentName, Deleted, Lease, Listed, NewSession, SessionRow, Store, StoreError};
use crate::{clock, ids};

/// How much of a journal is read at once.
const PAGE: usize = 1024 * 1024;

/// Why a session cannot be forked.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The store failed, or does not have the session.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Only an agent has the content of the session.
    #[error("session {0} has no content here: only its agent has it")]
    NotStored(SessionId),
    /// The session has no such message.
    #[error("session {session} has no message {message}")]
    NoMessage {
        /// The session.
        session: SessionId,
        /// The id of the message.
        message: String,
    },
}

/// A fork that was made.
pub struct Fork {
    /// The lease of this process.
    pub lease: Lease,
    /// Its state.
    pub session: Session,
}

/// Forks a stored session in its directory: after its last finished turn, or after this message.
pub async fn fork(store: &dyn Store, parent: &SessionId, after: Option<&str>) -> Result<Fork, ForkError> {
    let row = existing_row(store, parent).await?;
    let parent = ForkParent::read(store, row).await?;
    let (cwd, roots) = (parent.now.cwd.clone(), parent.now.roots.clone());
    parent.fork(store, after, cwd, roots).await
}

/// The row of a session that is not deleted.
pub(crate) async fn existing_row(store: &dyn Store, id: &SessionId) -> Result<SessionRow, StoreError> {
    let row = store.find(id).await?.filter(|row| row.deleted == Deleted::No);
    row.ok_or_else(|| StoreError::Unknown(id.clone()))
}

/// The session that a fork is made of.
pub(crate) struct ForkParent {
    /// Its row.
    row: SessionRow,
    /// Its state at the end of its last turn, or when it was made, if that is not its state now.
    turn_end: Option<Box<Session>>,
    /// Its state now, with the title of its row.
    now: Session,
    /// The agent's own session at the end of the last turn.
    native: Option<Native>,
}

impl ForkParent {
    /// Reads it from the store.
    pub(crate) async fn read(store: &dyn Store, row: SessionRow) -> Result<Self, StoreError> {
        let (now, end) = state_and_turn_end(store, &row).await?;
        let native = end.as_ref().and_then(|end| end.natives.last().cloned());
        Ok(Self::of(row, now, end.map(Box::new), native))
    }

    /// The state of a live session that is idle, and the agent's own session at the end of its last turn.
    pub(crate) fn live(row: SessionRow, now: Session, native: Native) -> Self {
        Self::of(row, now, None, Some(native))
    }

    fn of(row: SessionRow, mut now: Session, turn_end: Option<Box<Session>>, native: Option<Native>) -> Self {
        // A title that was set while nobody had the session open is in the row only.
        now.title = row.title.clone().or(now.title);
        Self { row, turn_end, now, native }
    }

    /// The agent's own session that it can fork: it must end where the parent ends. A session that the agent began after
    /// the last turn does not contain the transcript yet.
    pub(crate) fn forkable_native(&self) -> Option<Native> {
        let native = self.native.clone().filter(|_| self.now.is_idle());
        native.filter(|native| self.now.natives.last() == Some(native))
    }

    /// Makes the fork in a directory, with the settings that the parent has now.
    pub(crate) async fn fork(
        self,
        store: &dyn Store,
        after: Option<&str>,
        cwd: String,
        roots: Vec<String>,
    ) -> Result<Fork, ForkError> {
        let Self { row, turn_end, now, .. } = self;
        if row.head == Seq(0) {
            return Err(ForkError::NotStored(row.id));
        }
        let mut session = match (after, turn_end) {
            (Some(message), _) => state_at_message(store, &row.id, message).await?,
            // What is under way belongs to the parent alone.
            (None, Some(end)) if row.owner.is_some() && !now.is_idle() => *end,
            (None, Some(_) | None) => now.clone(),
        };
        let seq = session.head;
        let entries = first_entries(&mut session, &now, &row.id, (cwd.clone(), roots));
        let mut facts = facts(entries.iter());
        facts.title = facts.title.or_else(|| session.title.clone());
        facts.listed = (session.turns.0 > 0).then_some(Listed);
        facts.agent_name = Some(AgentName(row.agent_name));
        let new = NewSession {
            id: ids::session_id(),
            cwd,
            agent: row.agent,
            parent: Some((row.id, seq)),
            facts,
            entries: entries.into_iter().map(Arc::new).collect(),
            snapshot: Some(stored::encode_session(&session)),
            at: clock::now(),
        };
        let lease = store.create(new).await?;
        Ok(Fork { lease, session })
    }
}

async fn state_at_message(
    store: &dyn Store,
    parent: &SessionId,
    message: &str,
) -> Result<Session, ForkError> {
    match find_message(store, parent, message).await? {
        Some(place) => Ok(state_at(store, parent, place.last).await?),
        None => Err(ForkError::NoMessage { session: parent.clone(), message: message.to_owned() }),
    }
}

async fn state_at(store: &dyn Store, parent: &SessionId, upto: Seq) -> Result<Session, StoreError> {
    let mut session = Session::default();
    let mut from = Seq(0);
    loop {
        let page = store.read(parent, from, PAGE).await?;
        let items = page.decode()?;
        if at_seq(&mut session, &items, upto) || page.end {
            session.head = upto;
            return Ok(session);
        }
        from = page.next;
    }
}

/// The fork's own beginning: an end to whatever was under way at that point, where it works, and the settings that
/// the parent has now.
fn first_entries(
    session: &mut Session,
    now: &Session,
    parent: &SessionId,
    (cwd, roots): (String, Vec<String>),
) -> Vec<Entry> {
    let reason = format!("forked from {parent}");
    let at = clock::now();
    let settled = rethread_core::decide(session, Input::AgentExited { reason, held: HeldPrompts::Drop, at })
        .unwrap_or_default();
    let opened = Entry::Opened { cwd, roots, agent: session.made_with.clone(), at, moved_from: None };
    let entries: Vec<_> = settled.into_iter().chain([opened]).chain(changed_since(session, now)).collect();
    for entry in &entries {
        session.apply(entry);
    }
    entries
}

/// The title and the options of the parent that it did not have yet where the fork begins.
fn changed_since(then: &Session, now: &Session) -> Vec<Entry> {
    let title = now.title.clone().filter(|_| now.title != then.title);
    let options = now.options.clone().filter(|_| now.options != then.options);
    let title = title.map(|(title, by)| Entry::TitleSet { title, by });
    let options = options.map(|body| {
        let update = Update { kind: UpdateKind::ConfigOptionUpdate, id: String::new(), body };
        Entry::Updated { update, known: true }
    });
    title.into_iter().chain(options).collect()
}

/// Folds items up to a sequence number; says whether it has been reached.
fn at_seq(session: &mut Session, items: &[Folded], upto: Seq) -> bool {
    for item in items {
        if item.first > upto {
            return true;
        }
        session.replay(item.last, &item.entry);
    }
    false
}
