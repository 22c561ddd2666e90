//! Answers `_rethread/search` from the store, without the agent.

use rethread_core::search::{ExcerptPart, PartKind};
use rethread_core::{Json, Millis};
use serde_json::{Value, json};

use super::{ClientContext, Connection};
use crate::clock;
use crate::edge::search_request::SearchParams;
use crate::live_session::store_error;
use crate::outbox::OpenRequest;
use crate::store::{Archived, SearchHit, SearchPage, SearchQuery, Store, StoreError};
use crate::wire::RpcError;

/// What an answer takes beside the hits and the client's id.
const SEARCH_FRAME: usize = 2048;

impl Connection {
    /// The first search of a store takes long, and nothing else waits for it.
    pub(super) fn search(&self, context: &ClientContext, request: OpenRequest, params: SearchParams) {
        let registry = context.registry.clone();
        let longest = self.deps.host_config.longest_line;
        let room = longest.saturating_sub(SEARCH_FRAME + request.id().text().len());
        tokio::spawn(async move {
            let answer = match query(params) {
                Ok(query) => page_that_fits(registry.store(), query, room).await,
                Err(error) => Err(error),
            };
            request.answer(answer);
        });
    }
}

fn query(params: SearchParams) -> Result<SearchQuery, RpcError> {
    let SearchParams { text, cwd, agent, since, limit, cursor } = params;
    Ok(SearchQuery { cwd, agent, since: since_time(since)?, after: cursor, ..SearchQuery::new(text, limit) })
}

/// Reads the time in the parameter `since`.
pub(super) fn since_time(since: Option<String>) -> Result<Option<Millis>, RpcError> {
    let Some(since) = since else { return Ok(None) };
    let shown: String = since.chars().take(100).collect();
    let time = clock::from_rfc3339(&since).ok_or_else(|| {
        RpcError::field("since", &json!(shown), "a time in RFC 3339, such as 2026-01-31T12:00:00Z")
    })?;
    Ok(Some(time))
}

/// A page of fewer hits is searched for if the answer would be too long for a line.
async fn page_that_fits(store: &dyn Store, mut query: SearchQuery, room: usize) -> Result<Json, RpcError> {
    loop {
        let page = match store.search(&query).await {
            Ok(page) => page,
            Err(StoreError::BadCursor) => {
                return Err(RpcError::field(
                    "cursor",
                    &json!(query.after),
                    "a cursor that an earlier page gave",
                )
                .hint("start again without a cursor"));
            }
            Err(error) => return Err(store_error(&error)),
        };
        let answer = encode(&page);
        if answer.text().len() <= room || page.hits.len() <= 1 {
            return Ok(answer);
        }
        query.limit = page.hits.len() / 2;
    }
}

fn encode(page: &SearchPage) -> Json {
    let mut answer = json!({"hits": page.hits.iter().map(hit).collect::<Vec<_>>()});
    if let Some(next) = &page.next {
        answer["nextCursor"] = json!(next);
    }
    answer.into()
}

fn hit(hit: &SearchHit) -> Value {
    let part = |part: &ExcerptPart| json!({"text": part.text, "match": part.kind == PartKind::Match});
    json!({
        "sessionId": hit.session,
        "title": hit.title,
        "agent": hit.agent,
        "cwd": hit.cwd,
        "archived": hit.archived == Archived::Yes,
        "turn": hit.turn,
        "seq": hit.seq,
        "messageId": hit.message,
        "speaker": hit.speaker.name().to_lowercase(),
        "time": clock::rfc3339(hit.at),
        "passage": hit.excerpt.parts.iter().map(part).collect::<Vec<_>>(),
    })
}
