//! Answers `session/list` from the store, and subscribes a client to changes of the list.

use rethread_core::{Fields, Json, SessionId};
use serde_json::json;

use super::{ClientContext, Connection};
use crate::edge::client_request::ArchivedParam;
use crate::edge::list_subscription::ListSubscription;
use crate::ids;
use crate::live_session::store_error;
use crate::outbox::OpenRequest;
use crate::registry::{ListSubscriber, RowForm};
use crate::store::{ArchivedFilter, ListPage, ListQuery, StoreError};
use crate::wire::{RpcError, code};

/// How many sessions a page of a list has.
const PAGE: usize = 50;
/// What the answer to a list takes beside the sessions and the client's id: the envelope and the cursor.
const LIST_FRAME: usize = 2048;
/// How many subscriptions a client may have.
const MOST_SUBSCRIPTIONS: usize = 16;

impl Connection {
    pub(super) async fn list(&self, context: ClientContext, request: OpenRequest, query: ListQuery) {
        let page = context.registry.store().list(&query).await;
        let room = self.list_room().saturating_sub(request.id().text().len());
        request.answer(match page {
            Ok(page) => Ok(answer(&context, page, room).await),
            Err(StoreError::BadCursor) => {
                Err(RpcError::field("cursor", &json!(query.after), "a cursor that an earlier page gave")
                    .hint("start again without a cursor"))
            }
            Err(error) => Err(store_error(&error)),
        });
    }

    pub(super) async fn subscribe(
        &mut self,
        context: ClientContext,
        request: OpenRequest,
        subscription: ListSubscription,
    ) {
        if self.subscriptions >= MOST_SUBSCRIPTIONS {
            let error = RpcError::internal(format!("there are {MOST_SUBSCRIPTIONS} subscriptions already"));
            return request.answer(Err(error.hint("end one with _rethread/list/unsubscribe")));
        }
        self.subscriptions += 1;
        let id = ids::unique().to_string();
        let ListSubscription { cwd, archived, method } = subscription;
        let subscriber = ListSubscriber {
            client: self.client,
            id: id.clone(),
            query: ListQuery { cwd, archived: filter(archived), ..ListQuery::default() },
            form: row_form(&context),
            method,
            room: self.list_room(),
            outbox: self.outbox.clone(),
        };
        context.registry.subscribe_list(subscriber).await;
        request.answer(Ok(json!({"subscriptionId": id}).into()));
    }

    pub(super) async fn unsubscribe(&mut self, context: ClientContext, request: OpenRequest, id: String) {
        if context.registry.unsubscribe_list(self.client, id.clone()).await {
            self.subscriptions = self.subscriptions.saturating_sub(1);
            return request.answer(Ok(json!({}).into()));
        }
        let expected = "the id of a subscription of this connection";
        request.answer(Err(RpcError::field("subscriptionId", &json!(id), expected)));
    }

    /// Answers with the rows of these sessions, in this order. Those that do not exist are left out.
    pub(super) async fn batch_get(&self, context: ClientContext, request: OpenRequest, ids: Vec<String>) {
        let mut rows = Vec::new();
        for id in ids {
            match context.registry.row(&SessionId(id)).await {
                Ok(row) => rows.push(row),
                Err(error) if error.code == code::NOT_FOUND => {}
                Err(error) => return request.answer(Err(error)),
            }
        }
        let room = self.list_room().saturating_sub(request.id().text().len());
        let page = ListPage { rows, next: None };
        request.answer(Ok(answer(&context, page, room).await));
    }

    fn list_room(&self) -> usize {
        self.deps.host_config.longest_line.saturating_sub(LIST_FRAME)
    }
}

/// The query of `session/list`.
pub(super) fn list_query(
    cwd: Option<String>,
    cursor: Option<String>,
    archived: ArchivedParam,
    limit: Option<usize>,
) -> ListQuery {
    let limit = limit.unwrap_or(PAGE);
    ListQuery { cwd, archived: filter(archived), after: cursor, limit, ..ListQuery::default() }
}

/// How the client gets rows.
fn row_form(context: &ClientContext) -> RowForm {
    match context.client.air() {
        Some(air) if air.has_session_index() => RowForm::Air,
        Some(_) | None => RowForm::Own,
    }
}

fn filter(archived: ArchivedParam) -> ArchivedFilter {
    match archived {
        ArchivedParam::Exclude => ArchivedFilter::Exclude,
        ArchivedParam::Include => ArchivedFilter::Include,
        ArchivedParam::Only => ArchivedFilter::Only,
    }
}

/// As much of one page of a list as fits into `room` bytes. A session that does not fit by itself is left out.
async fn answer(context: &ClientContext, mut page: ListPage, room: usize) -> Json {
    let (mut sessions, mut used) = (Vec::new(), 0);
    let mut rest = None;
    for (at, row) in page.rows.iter().enumerate() {
        let info = context.registry.session_info(row, row_form(context)).await.json();
        let size = info.text().len() + 1;
        if size <= room && used + size > room {
            rest = Some(at);
            break;
        }
        if size <= room {
            used += size;
            sessions.push(info);
        }
    }
    if let Some(at) = rest {
        page.cut(at);
    }
    let mut answer: Fields = [("sessions", Json::of(&sessions))].into_iter().collect();
    if let Some(next) = &page.next {
        answer.set("nextCursor", Json::of(next));
    }
    answer.json()
}
