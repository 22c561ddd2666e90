//! Answers requests that read sessions without claiming them, from the store: no agent is started, and nobody is attached.
//! What is followed is sent by a task of its own (`following`).

use std::sync::Arc;

use rethread_core::{Json, SessionId};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use super::exports::Exports;
use super::following::{FollowCommand, Following};
use super::search::since_time;
use super::{ClientContext, Connection};
use crate::edge::reading_request::{ReadParams, ReadPlace, ReadingQuery, ReadingRequest, UsageParams};
use crate::live_session::store_error;
use crate::outbox::OpenRequest;
use crate::reading::{self, ItemSize, PageOrder, PagePlace, ReadFailure};
use crate::registry::Registry;
use crate::secret::Redaction;
use crate::store::StoreError;
use crate::transcript::UsageFilter;
use crate::wire::RpcError;

/// How many reads of a client run at the same time: each may need memory for a long turn.
const MAX_READS: usize = 4;

/// How many commands may wait for the task that follows.
const MAX_COMMANDS: usize = 16;

/// What an answer or a notification takes beside its items and the ids of the client.
const FRAME: usize = 2048;

/// What a connection reads without claiming.
pub(super) struct Readings {
    reads: Arc<Semaphore>,
    exports: Arc<Exports>,
    /// The task that follows sessions, once it is needed.
    follows: Option<mpsc::Sender<FollowCommand>>,
}

impl Readings {
    pub(super) fn new() -> Self {
        let reads = Arc::new(Semaphore::new(MAX_READS));
        Self { reads, exports: Arc::default(), follows: None }
    }
}

impl Connection {
    pub(super) async fn reading(
        &mut self,
        context: &ClientContext,
        request: OpenRequest,
        reading: ReadingRequest,
    ) {
        match reading {
            ReadingRequest::Follow { session, after } => {
                let session = SessionId(session);
                self.follow(context, FollowCommand::Follow { session, after, request }).await;
            }
            ReadingRequest::Unfollow { session } => {
                let session = SessionId(session);
                self.follow(context, FollowCommand::Unfollow { session, request }).await;
            }
            ReadingRequest::Query(query) => self.answer_query(context, request, query),
        }
    }

    /// Answers in a task of its own, a few at a time.
    fn answer_query(&self, context: &ClientContext, request: OpenRequest, query: ReadingQuery) {
        let room = self.answer_room().saturating_sub(request.id().text().len());
        let (reads, exports) = (self.readings.reads.clone(), self.readings.exports.clone());
        let (registry, store) = (context.registry.clone(), self.deps.store.clone());
        let redaction = context.access.redaction();
        tokio::spawn(async move {
            let _turn = reads.acquire().await;
            let answer = match query {
                ReadingQuery::Read(params) => page(&registry, params, redaction, room).await,
                ReadingQuery::Outline { session } => {
                    outline(&registry, &SessionId(session), redaction, room).await
                }
                ReadingQuery::Export(params) => {
                    exports.piece(&registry, store, params, redaction, room).await
                }
                ReadingQuery::Usage(params) => usage(&registry, params, room).await,
            };
            request.answer(answer);
        });
    }

    /// The largest answer.
    fn answer_room(&self) -> usize {
        self.deps.host_config.longest_line.saturating_sub(FRAME)
    }

    async fn follow(&mut self, context: &ClientContext, command: FollowCommand) {
        let longest = self.answer_room();
        let follows = self.readings.follows.get_or_insert_with(|| {
            let (follows, commands) = mpsc::channel(MAX_COMMANDS);
            let following = Following::new(
                context.registry.clone(),
                self.outbox.clone(),
                context.access.redaction(),
                longest,
            );
            tokio::spawn(following.run(commands));
            follows
        });
        // The task ends only with the client. What is not sent is dropped, and with that its request is answered.
        let _ = follows.send(command).await;
    }
}

async fn page(
    registry: &Registry,
    params: ReadParams,
    redaction: Redaction,
    room: usize,
) -> Result<Json, RpcError> {
    let ReadParams { session, place, limit, whole } = params;
    let session = SessionId(session);
    let row = registry.row(&session).await?;
    let place = match place {
        ReadPlace::Newest => PagePlace::Newest,
        ReadPlace::Before(seq) => PagePlace::Before(seq),
        ReadPlace::After(seq) => PagePlace::After(seq),
        ReadPlace::Around { id, seq } => PagePlace::Around { id, seq },
    };
    let size = if whole { ItemSize::Whole } else { ItemSize::Shortened };
    let order = PageOrder { place, limit, size, redaction, room };
    match reading::read_page(registry.store(), &session, row.head, &order).await {
        Ok(page) => Ok(Json::of(&page)),
        Err(ReadFailure::Store(error)) => Err(read_error(&error)),
        Err(ReadFailure::NoSuchMessage) => Err(no_such_message(&order.place)),
    }
}

async fn outline(
    registry: &Registry,
    session: &SessionId,
    redaction: Redaction,
    room: usize,
) -> Result<Json, RpcError> {
    registry.row(session).await?;
    let read = reading::outline(registry.store(), session, redaction, room).await;
    read.map_err(|error| read_error(&error))
}

async fn usage(registry: &Registry, params: UsageParams, room: usize) -> Result<Json, RpcError> {
    let UsageParams { since, cwd, agent } = params;
    let filter = UsageFilter { directories: cwd.into_iter().collect(), agent, since: since_time(since)? };
    reading::usage(registry.store(), &filter, room).await.map_err(|error| read_error(&error))
}

fn no_such_message(place: &PagePlace) -> RpcError {
    let id = match place {
        PagePlace::Around { id, .. } => id.chars().take(100).collect(),
        PagePlace::Newest | PagePlace::Before(_) | PagePlace::After(_) => String::new(),
    };
    RpcError::field("around", &json!(id), "the id of a message or tool call of this session")
}

/// The error for a journal that cannot be read; one that is damaged can be read up to the entry in `damagedAt`.
pub(super) fn read_error(error: &StoreError) -> RpcError {
    let answer = store_error(error);
    match error {
        StoreError::Damaged { at, .. } => answer.with("damagedAt", at.0),
        StoreError::Unknown(_)
        | StoreError::Exists(_)
        | StoreError::LiveElsewhere { .. }
        | StoreError::StaleEpoch { .. }
        | StoreError::MovedOn { .. }
        | StoreError::BadCursor
        | StoreError::InUse { .. }
        | StoreError::Newer { .. }
        | StoreError::Io { .. }
        | StoreError::Database { .. }
        | StoreError::Unwritable { .. } => answer,
    }
}
