//! The sessions that a client follows without being attached: one task for all of them, and a position in the journal of
//! each. A session that is live in this process rings; of others the store is asked a few times a second. One notification
//! at a time is on its way to the client, so that a client that does not read costs no more than that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{Json, Seq, SessionId};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};

use super::reading::read_error;
use crate::live::{Bell, Cursor, Live, Tailing};
use crate::outbox::{OpenRequest, Outbox};
use crate::reading::{FollowedEntries, FollowedParams, JournalFollower, standing};
use crate::registry::Registry;
use crate::secret::Redaction;
use crate::store::StoreError;
use crate::wire::{RpcError, code, with_causes};

/// How many sessions one client can follow.
const MAX_FOLLOWS: usize = 64;

/// About how much is sent at once.
const BATCH: usize = 128 * 1024;

/// How often sessions are looked at that are not live in this process.
const LOOK: Duration = Duration::from_millis(250);

/// The store is asked at each look for this long after something new, and then at every fourth.
const RECENT: Duration = Duration::from_secs(10);
const RARELY: u32 = 4;

/// What a client wants of the task.
pub(super) enum FollowCommand {
    /// To follow a session after this entry.
    Follow {
        /// The session.
        session: SessionId,
        /// The last entry that the client knows.
        after: Seq,
        /// Who waits for how things stand.
        request: OpenRequest,
    },
    /// To follow it no longer.
    Unfollow {
        /// The session.
        session: SessionId,
        /// Who waits.
        request: OpenRequest,
    },
}

/// The followed sessions of one client.
pub(super) struct Following {
    registry: Arc<Registry>,
    outbox: Outbox,
    bell: Arc<Bell>,
    /// Taken by a notification until it is among the lines to be written.
    room: Arc<Semaphore>,
    /// Whether secrets are replaced.
    redaction: Redaction,
    /// The largest notification.
    longest: usize,
    follows: HashMap<SessionId, FollowedSession>,
    /// Those that may have something new, in order.
    active: Vec<SessionId>,
    next_look: Instant,
}

/// A session that is followed.
struct FollowedSession {
    follower: JournalFollower,
    source: FollowSource,
    activity: FollowActivity,
}

/// Where news come from.
enum FollowSource {
    /// The session is live here.
    Live {
        /// Its newest entries.
        live: Arc<Live>,
        /// Rung as long as it is kept.
        _cursor: Arc<Cursor>,
    },
    /// The store is asked.
    Store {
        /// When there was something new.
        news_at: Instant,
        /// How often it was not asked.
        skipped: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FollowActivity {
    /// It is looked at when there is room.
    Active,
    /// It has nothing until it rings or is looked at.
    Quiet,
}

impl Following {
    /// Follows nothing yet.
    pub(super) fn new(registry: Arc<Registry>, outbox: Outbox, redaction: Redaction, longest: usize) -> Self {
        Self {
            registry,
            outbox,
            bell: Arc::default(),
            room: Arc::new(Semaphore::new(1)),
            redaction,
            longest,
            follows: HashMap::new(),
            active: Vec::new(),
            next_look: Instant::now() + LOOK,
        }
    }

    /// Runs until the client is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<FollowCommand>) {
        loop {
            let (bell, room) = (self.bell.clone(), self.room.clone());
            let polled =
                self.follows.values().any(|follow| matches!(follow.source, FollowSource::Store { .. }));
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.command(command).await,
                    None => return,
                },
                () = bell.rung() => self.heard(),
                () = sleep_until(self.next_look), if polled => self.look(),
                Ok(permit) = room.acquire_owned(), if !self.active.is_empty() => self.advance(permit).await,
            }
            if self.outbox.is_closed() {
                return;
            }
        }
    }

    async fn command(&mut self, command: FollowCommand) {
        match command {
            FollowCommand::Follow { session, after, request } => match self.follow(&session, after).await {
                Ok(answer) => {
                    request.answer(Ok(answer));
                    // After the answer: entries must not come before it.
                    self.activate(&session);
                }
                Err(error) => request.answer(Err(error)),
            },
            FollowCommand::Unfollow { session, request } => {
                self.follows.remove(&session);
                request.answer(Ok(json!({}).into()));
            }
        }
    }

    /// Begins to follow. A session that was followed already is followed from there on.
    async fn follow(&mut self, session: &SessionId, after: Seq) -> Result<Json, RpcError> {
        if self.follows.len() >= MAX_FOLLOWS && !self.follows.contains_key(session) {
            return Err(RpcError::new(
                code::INVALID_PARAMS,
                format!("{MAX_FOLLOWS} sessions are followed already"),
            )
            .with("field", "sessionId")
            .hint("end one with _rethread/unfollow"));
        }
        self.registry.row(session).await?;
        let store = self.registry.store();
        let now = standing(store, session, self.redaction).await.map_err(|error| read_error(&error))?;
        let follower =
            JournalFollower::new(store, session, after, now.head, self.redaction, self.longest).await;
        let follower = follower.map_err(|error| read_error(&error))?;
        let source = self.source(session);
        let follow = FollowedSession { follower, source, activity: FollowActivity::Quiet };
        self.follows.insert(session.clone(), follow);
        self.active.retain(|active| active != session);
        Ok(now.encoded(self.longest))
    }

    fn source(&self, session: &SessionId) -> FollowSource {
        match self.registry.find(session) {
            Some(handle) => {
                let cursor = Cursor::new(session.clone(), Seq(0), self.bell.clone());
                handle.live.listen(&cursor);
                FollowSource::Live { live: handle.live, _cursor: cursor }
            }
            None => FollowSource::Store { news_at: Instant::now(), skipped: 0 },
        }
    }

    fn activate(&mut self, session: &SessionId) {
        let Some(follow) = self.follows.get_mut(session) else { return };
        if follow.activity == FollowActivity::Quiet {
            follow.activity = FollowActivity::Active;
            self.active.push(session.clone());
        }
    }

    fn heard(&mut self) {
        for cursor in self.bell.take_rung() {
            self.activate(cursor.session());
        }
    }

    /// Looks at the sessions that do not ring: some may have become live here.
    fn look(&mut self) {
        self.next_look = Instant::now() + LOOK;
        let quiet: Vec<_> = self.follows.keys().cloned().collect();
        for session in quiet {
            let is_live = self.registry.find(&session).is_some();
            let Some(FollowedSession { source, .. }) = self.follows.get_mut(&session) else { continue };
            let FollowSource::Store { news_at, skipped } = source else { continue };
            *skipped += 1;
            let due = news_at.elapsed() < RECENT || *skipped >= RARELY;
            if due {
                *skipped = 0;
            }
            if is_live {
                let source = self.source(&session);
                if let Some(follow) = self.follows.get_mut(&session) {
                    follow.source = source;
                }
            }
            if is_live || due {
                self.activate(&session);
            }
        }
    }

    /// Sends what the next session has.
    async fn advance(&mut self, permit: OwnedSemaphorePermit) {
        let session = self.active.remove(0);
        let Some(mut follow) = self.follows.remove(&session) else { return };
        let entries = match follow.next(&self.registry).await {
            Ok(FollowedEntries { entries, is_last }) => {
                follow.activity = if is_last { FollowActivity::Quiet } else { FollowActivity::Active };
                if !is_last {
                    self.active.push(session.clone());
                }
                self.follows.insert(session.clone(), follow);
                entries
            }
            // It cannot be followed any more.
            Err(error) => vec![over(&error)],
        };
        if !entries.is_empty() {
            let params = Json::of(&FollowedParams { session_id: &session, entries: &entries });
            self.outbox.hand_over_followed(params, permit);
        }
    }
}

impl FollowedSession {
    async fn next(&mut self, registry: &Registry) -> Result<FollowedEntries, StoreError> {
        if let FollowSource::Live { live, .. } = &self.source {
            let next = self.follower.next();
            match live.read(next, BATCH) {
                Tailing::Entries(entries) if entries.is_empty() && live.is_over(next) => {
                    self.source = FollowSource::Store { news_at: Instant::now(), skipped: 0 };
                }
                Tailing::Entries(entries) => {
                    let is_last = entries.is_empty();
                    return Ok(FollowedEntries { entries: self.follower.take(&entries), is_last });
                }
                Tailing::Behind => return self.follower.read(registry.store(), BATCH).await.map(go_on),
            }
        }
        let read = self.follower.read(registry.store(), BATCH).await?;
        if let FollowSource::Store { news_at, .. } = &mut self.source
            && !read.entries.is_empty()
        {
            *news_at = Instant::now();
        }
        Ok(read)
    }
}

/// What was read from the store of a live session is followed by what the session itself has.
fn go_on(read: FollowedEntries) -> FollowedEntries {
    FollowedEntries { is_last: false, ..read }
}

/// The last entry for a client that follows a session which cannot be read on.
fn over(error: &StoreError) -> Json {
    let event = match error {
        StoreError::Unknown(_) => json!({"type": "deleted", "text": "the session was deleted"}),
        StoreError::Damaged { at, .. } => {
            json!({"type": "damaged", "text": with_causes(error), "damagedAt": at})
        }
        StoreError::Exists(_)
        | StoreError::LiveElsewhere { .. }
        | StoreError::StaleEpoch { .. }
        | StoreError::MovedOn { .. }
        | StoreError::BadCursor
        | StoreError::InUse { .. }
        | StoreError::Newer { .. }
        | StoreError::Io { .. }
        | StoreError::Database { .. }
        | StoreError::Unwritable { .. } => json!({"type": "unreadable", "text": with_causes(error)}),
    };
    json!({"seq": null, "turn": null, "time": null, "event": event}).into()
}
