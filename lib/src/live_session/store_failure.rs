//! Handles errors of the store: fails the waiting requests, stops the agent, and retries. Also converts store errors into
//! JSON-RPC errors.

use std::sync::Arc;
use std::time::Duration;

use rethread_core::{Entry, HeldPrompts, Input, Json};
use serde_json::json;
use tokio::time::Instant;

use super::{AgentSlot, LiveSession};
use crate::clock;
use crate::outbox::{Ephemeral, Outbound};
use crate::store::state::read_state;
use crate::store::{Archived, Deleted, StoreError, WriteObstacle};
use crate::wire::{RpcError, code, with_causes};

/// How long a store that fails is left alone.
const REST: Duration = Duration::from_secs(1);

impl LiveSession {
    pub(super) async fn store_failed(&mut self, error: StoreError) {
        tracing::error!(session = %self.id, "{}", with_causes(&error));
        self.deps.news.store_failed();
        if matches!(error, StoreError::StaleEpoch { .. } | StoreError::Unknown(_)) {
            return self.lose_session(error).await;
        }
        let rpc_error = store_error(&error);
        self.refuse_waiting(&rpc_error);
        self.report_error(&rpc_error, None);
        self.stop_agent();
        self.condition.broken = Some(with_causes(&error));
        self.condition.ahead = true;
        self.retry_store().await;
    }

    /// Reads the state anew after a failure and ends what was open. Stays broken while the store does: then the state is the
    /// stored one, if it can be read.
    pub(super) async fn retry_store(&mut self) {
        let Some(reason) = self.condition.broken.clone() else { return };
        match self.end_turn_anew(reason).await {
            Ok(entries) => {
                (self.condition.broken, self.condition.ahead) = (None, false);
                // An append that failed may have been stored all the same: clients read that from the store.
                self.live.advance_to(self.lease.head);
                let following = self.publish(&entries);
                // After the end of the turn, which takes away its own deadline.
                if matches!(self.agent.slot, AgentSlot::Stopping(_)) {
                    self.timers.cancel = Some(Instant::now() + self.deps.cancel_patience);
                }
                Box::pin(self.write(following)).await;
            }
            Err(error @ (StoreError::StaleEpoch { .. } | StoreError::Unknown(_))) => {
                self.lose_session(error).await;
            }
            Err(_) => self.timers.store_retry = Some(Instant::now() + REST),
        }
    }

    async fn end_turn_anew(&mut self, reason: String) -> Result<Vec<Arc<Entry>>, StoreError> {
        let (session, row) = read_state(self.deps.store.as_ref(), &self.id).await?;
        let stored = session.clone();
        self.session = session;
        self.lease.head = row.head;
        let mut entries = Vec::new();
        if let Ok(decided) = rethread_core::decide(
            &self.session,
            Input::AgentExited { reason, held: HeldPrompts::Drop, at: clock::now() },
        ) {
            self.apply(decided, &mut entries);
        }
        if !entries.is_empty()
            && let Err(error) = self.deps.store.append(self.appended(&entries)).await
        {
            (self.session, self.condition.ahead) = (stored, false);
            return Err(error);
        }
        Ok(entries)
    }

    /// The store has this epoch for the session.
    pub(super) async fn epoch_seen(&mut self, found: u64) {
        let held = self.lease.epoch;
        if found > held && !self.condition.ended {
            self.lose_session(StoreError::StaleEpoch { session: self.id.clone(), held, found }).await;
        }
    }

    /// Another process has the session now, or nobody has: this one stops.
    async fn lose_session(&mut self, error: StoreError) {
        let rpc_error = self.why_lost(&error).await;
        self.refuse_waiting(&rpc_error);
        let idle = json!({
            "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": rpc_error.json().value(),
        });
        self.report_error(&rpc_error, Some(idle.into()));
        self.stop_agent();
        self.release_session().await;
    }

    async fn why_lost(&self, error: &StoreError) -> RpcError {
        let row = self.deps.store.find(&self.id).await.ok().flatten();
        let taken = |how: &str| {
            RpcError::new(code::NOT_FOUND, format!("session {} was {how} by another process", self.id))
                .with("sessionId", self.id.as_str())
        };
        match row {
            Some(row) if row.deleted == Deleted::Yes => taken("deleted").hint("create a new session"),
            Some(row) if row.archived == Archived::Yes => {
                taken("archived").hint("load it again to continue it")
            }
            Some(_) => taken("taken over").hint("load it again after that process has closed it"),
            None => store_error(error),
        }
    }

    fn refuse_waiting(&mut self, rpc_error: &RpcError) {
        // After everything that was written before.
        for reply in self.clients.requests.take_all() {
            reply.send(self.lease.head, Err(rpc_error.clone()));
        }
    }

    /// Reports a turn that cannot go on to the clients that do not wait for an answer. Not stored.
    fn report_error(&self, error: &RpcError, state: Option<Json>) {
        let hint = error.data.as_ref().and_then(|data| data.fields().text("hint"));
        let notice = json!({
            "sessionUpdate": "notice", "severity": "error", "title": error.message, "description": hint,
        });
        let updates: Vec<_> = [Some(notice.into()), state].into_iter().flatten().collect();
        let trouble = || Outbound::Ephemeral(self.id.clone(), Ephemeral::Error(updates.clone()));
        self.clients.attached.offer_others(None, trouble);
    }
}

/// The error for a client whose request met a store that failed.
pub(crate) fn store_error(error: &StoreError) -> RpcError {
    let rpc_error = RpcError::internal(with_causes(error));
    match error {
        StoreError::Io { .. } => rpc_error
            .hint("free disk space or repair the file, then try again; everything shown so far is saved"),
        StoreError::Unwritable { obstacle: WriteObstacle::Full, .. } => {
            rpc_error.hint("free disk space, then try again; everything shown so far is saved")
        }
        StoreError::Unwritable { obstacle: WriteObstacle::ReadOnly, .. } => {
            rpc_error.hint("make the disk writable, then try again; everything shown so far is saved")
        }
        StoreError::LiveElsewhere { session, owner } => {
            let owner = json!({"pid": owner.pid, "host": owner.host, "since": clock::rfc3339(owner.since)});
            RpcError::new(code::LIVE_ELSEWHERE, error.to_string())
                .with("sessionId", session.as_str())
                .with("owner", owner)
                .hint(format!("close it there, or run `rethread release {session}`; then load it again"))
        }
        StoreError::Unknown(session) => RpcError::unknown_session(session.as_str()),
        StoreError::BadCursor => {
            RpcError::field("cursor", &serde_json::Value::Null, "a cursor from an earlier page")
                .hint("start again without a cursor")
        }
        StoreError::InUse { .. } => rpc_error.hint("end that process, then try again"),
        StoreError::Newer { .. } => rpc_error.hint("use the newer rethread that wrote the database"),
        StoreError::Database { problem, .. } => {
            rpc_error.hint(format!("{}; everything shown so far is saved", problem.hint()))
        }
        StoreError::Exists(_)
        | StoreError::StaleEpoch { .. }
        | StoreError::MovedOn { .. }
        | StoreError::Damaged { .. } => rpc_error,
    }
}
