//! Branching a session off another: a row that names its parent and a sequence number, whatever the length of the
//! parent.

use std::sync::Arc;

use rethread_core::{Entry, Folded, HeldPrompts, Input, Json, Seq, Session, SessionId, stored};
use serde_json::json;
use tokio::sync::oneshot;

use super::{PAGE, Registry};
use crate::edge::call::Setup;
use crate::mint;
use crate::runner::{AgentLines, Beginning, Handle, Message, Seat, facts, store_error};
use crate::store::{Listed, NewSession, StoreError};
use crate::wire::RpcError;

impl Registry {
    /// Makes a session that goes on from another: after its last finished turn, or after a message of it.
    pub(crate) async fn fork(
        &self,
        parent: &SessionId,
        at: Option<&str>,
        setup: Setup,
    ) -> Result<(Handle, Session), RpcError> {
        let row = self.row(parent).await?;
        let last = row.snapshot.as_deref().and_then(|bytes| stored::decode_session(bytes).ok());
        let (mut session, fork_of) = match (at, last) {
            (Some(message), _) => (self.state_at_message(parent, message).await?, None),
            (None, Some(last)) => {
                // The agent can fork what it has: the very end of the parent, and nothing under way.
                let native = last.natives.last().cloned();
                (last, if self.is_idle(parent).await { native } else { None })
            }
            (None, None) => (self.state_at(parent, row.head).await?, None),
        };
        let seq = session.head;
        let entries = first_entries(&mut session, parent, &setup);
        let mut facts = facts(entries.iter());
        facts.title = facts.title.or_else(|| session.title.clone());
        facts.listed = (session.turns.0 > 0).then_some(Listed);
        let id = mint::session_id();
        let new = NewSession {
            id: id.clone(),
            cwd: setup.cwd.clone(),
            agent: row.agent,
            parent: Some((parent.clone(), seq)),
            facts,
            entries: entries.into_iter().map(Arc::new).collect(),
            snapshot: Some(stored::encode_session(&session)),
            at: mint::now(),
        };
        let lease = self.journal().call(move |store| store.create(new)).await.map_err(|e| store_error(&e))?;
        let lines = AgentLines::new();
        let begin =
            Beginning { id, session: session.clone(), lease, setup, fork_of, seat: Seat::Empty, lines };
        Ok((self.start(begin), session))
    }

    /// Says whether a session is not at work in this process.
    async fn is_idle(&self, session: &SessionId) -> bool {
        let Some(handle) = self.find(session) else { return true };
        let (reply, state) = oneshot::channel();
        let _ = handle.tell(Message::Status(reply)).await;
        let is_idle = |state: &Json| state.fields().text("state").as_deref() == Some("idle");
        state.await.ok().is_none_or(|state| state.as_ref().is_ok_and(is_idle))
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
            let mut page = self.journal().read(session.clone(), from, PAGE).await?;
            if let Some(at) = page.items.iter().position(|item| is_of_message(&item.entry, message)) {
                return Ok(Some(page.items.swap_remove(at)));
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
            let read = self.journal().read(parent.clone(), from, PAGE).await;
            let page = read.map_err(|e| store_error(&e))?;
            if at_seq(&mut session, &page.items, upto) || page.end {
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
        if update.kind.id_field() == Some("messageId") && update.id == message);
    prompt || said
}

/// The fork's own beginning: where it works, and an end to whatever was under way at that point.
fn first_entries(session: &mut Session, parent: &SessionId, setup: &Setup) -> Vec<Entry> {
    let reason = format!("forked from {parent}");
    let at = mint::now();
    let settled = rethread_core::decide(session, Input::AgentExited { reason, held: HeldPrompts::Drop, at })
        .unwrap_or_default();
    let (cwd, roots) = (setup.cwd.clone(), setup.roots.clone());
    let opened = Entry::Opened { cwd, roots, agent: session.made_with.clone(), at };
    let entries: Vec<_> = settled.into_iter().chain([opened]).collect();
    for entry in &entries {
        session.apply(entry);
    }
    entries
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
