//! Forks a session: creates a row with the parent and a sequence number. Takes the same time for any length of the parent.

use std::sync::Arc;

use rethread_core::session::Native;
use rethread_core::{Entry, Folded, HeldPrompts, Input, Seq, Session, SessionId, Update, UpdateKind, stored};
use serde_json::json;

use super::Registry;
use crate::agent::pool::SharedHost;
use crate::clock;
use crate::edge::client_request::Setup;
use crate::ids;
use crate::live_session::{AgentLines, AgentSlot, Handle, SessionStart, store_error};
use crate::store::facts::facts;
use crate::store::state::state_and_turn_end;
use crate::store::{Deleted, Listed, NewSession, SessionRow, StoreError};
use crate::wire::RpcError;

/// How much of a journal is read at once.
const PAGE: usize = 1024 * 1024;

impl Registry {
    /// Makes a session that goes on from another: after its last finished turn, or after a message of it. Its
    /// settings are those that the parent has now.
    pub(crate) async fn fork(
        &self,
        host: &SharedHost,
        parent: &SessionId,
        at: Option<&str>,
        setup: Setup,
    ) -> Result<(Handle, Session), RpcError> {
        let read = self.fork_parent(parent, at).await;
        let Parent { row, turn_end, now, native } = read.map_err(|e| store_error(&e))?;
        if row.head == Seq(0) {
            return Err(RpcError::unknown_session(parent.as_str())
                .hint("only the agent has this session so far; load it, then fork it"));
        }
        // The agent can fork its own session only if that ends where the parent ends. A session that the agent began
        // after the last turn does not contain the transcript yet.
        let fork_of =
            native.filter(|native| at.is_none() && now.is_idle() && now.natives.last() == Some(native));
        let mut session = match (at, turn_end) {
            (Some(message), _) => self.state_at_message(parent, message).await?,
            // What is under way belongs to the parent alone.
            (None, Some(end)) if row.owner.is_some() && !now.is_idle() => *end,
            (None, Some(_) | None) => now.clone(),
        };
        let seq = session.head;
        let entries = first_entries(&mut session, &now, parent, &setup);
        let mut facts = facts(entries.iter());
        facts.title = facts.title.or_else(|| session.title.clone());
        facts.listed = (session.turns.0 > 0).then_some(Listed);
        let id = ids::session_id();
        let new = NewSession {
            id: id.clone(),
            cwd: setup.cwd.clone(),
            agent: row.agent,
            parent: Some((parent.clone(), seq)),
            facts,
            entries: entries.into_iter().map(Arc::new).collect(),
            snapshot: Some(stored::encode_session(&session)),
            at: clock::now(),
        };
        let lease = self.store().create(new).await.map_err(|e| store_error(&e))?;
        let lines = AgentLines::new();
        let (host, slot) = (host.user(), AgentSlot::Empty);
        let begin = SessionStart { id, session: session.clone(), lease, setup, host, fork_of, slot, lines };
        Ok((self.start(begin), session))
    }

    /// The parent of a fork: its state from the live session if that is idle, else from the store.
    async fn fork_parent(&self, id: &SessionId, at: Option<&str>) -> Result<Parent, StoreError> {
        let row = self.store().find(id).await?.filter(|row| row.deleted == Deleted::No);
        let row = row.ok_or_else(|| StoreError::Unknown(id.clone()))?;
        let live = match self.find(id).filter(|_| at.is_none()) {
            Some(handle) => handle.fork_state().await,
            None => None,
        };
        let (mut now, turn_end, native) = match live {
            Some(live) => (live.session, None, Some(live.at_turn_end)),
            None => {
                let (now, end) = state_and_turn_end(self.store(), &row).await?;
                let native = end.as_ref().and_then(|end| end.natives.last().cloned());
                (now, end.map(Box::new), native)
            }
        };
        // A title that was set while nobody had the session open is in the row only.
        now.title = row.title.clone().or(now.title);
        Ok(Parent { row, turn_end, now, native })
    }

    async fn state_at_message(&self, parent: &SessionId, message: &str) -> Result<Session, RpcError> {
        let found = self.find_message(parent, message).await.map_err(|e| store_error(&e))?;
        let Some(item) = found else {
            let expected = "the id of a message of this session";
            return Err(RpcError::field("_meta.rethread.atMessage", &json!(message), expected));
        };
        self.state_at(parent, item.last).await
    }

    /// Where a message of a session is.
    pub(crate) async fn find_message(
        &self,
        session: &SessionId,
        message: &str,
    ) -> Result<Option<Folded>, StoreError> {
        let mut from = Seq(0);
        loop {
            let page = self.store().read(session, from, PAGE).await?;
            let found = page.decode()?.into_iter().find(|item| is_of_message(&item.entry, message));
            if found.is_some() {
                return Ok(found);
            }
            if page.end {
                return Ok(None);
            }
            from = page.next;
        }
    }

    async fn state_at(&self, parent: &SessionId, upto: Seq) -> Result<Session, RpcError> {
        let mut session = Session::default();
        let mut from = Seq(0);
        loop {
            let page = self.store().read(parent, from, PAGE).await.map_err(|e| store_error(&e))?;
            let items = page.decode().map_err(|e| store_error(&e))?;
            if at_seq(&mut session, &items, upto) || page.end {
                session.head = upto;
                return Ok(session);
            }
            from = page.next;
        }
    }
}

fn is_of_message(entry: &Entry, message: &str) -> bool {
    let prompt = matches!(entry, Entry::PromptInserted { message: id, .. } if id.as_str() == message);
    let said = matches!(entry, Entry::Updated { update, .. }
        if update.kind.subject().is_message() && update.id == message);
    prompt || said
}

/// The session that a fork is made of.
struct Parent {
    row: SessionRow,
    /// Its state at the end of its last turn, or when it was made, if that is not its state now.
    turn_end: Option<Box<Session>>,
    /// Its state now, with the title of its row.
    now: Session,
    /// The agent's own session at the end of the last turn.
    native: Option<Native>,
}

/// The fork's own beginning: an end to whatever was under way at that point, where it works, and the settings that
/// the parent has now.
fn first_entries(session: &mut Session, now: &Session, parent: &SessionId, setup: &Setup) -> Vec<Entry> {
    let reason = format!("forked from {parent}");
    let at = clock::now();
    let settled = rethread_core::decide(session, Input::AgentExited { reason, held: HeldPrompts::Drop, at })
        .unwrap_or_default();
    let (cwd, roots) = (setup.cwd.clone(), setup.roots.clone());
    let opened = Entry::Opened { cwd, roots, agent: session.made_with.clone(), at };
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
