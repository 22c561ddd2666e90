//! Answers `session/list` from the store, and subscribes a client to changes of the list.

use rethread_core::{Fields, Json};
use serde_json::json;

use super::{ClientContext, Connection};
use crate::edge::client_request::ArchivedParam;
use crate::edge::list_subscription::ListSubscription;
use crate::ids;
use crate::live_session::store_error;
use crate::outbox::OpenRequest;
use crate::registry::{ListSubscriber, Registry, RowForm};
use crate::store::{ArchivedFilter, ListPage, ListQuery, StoreError};
use crate::wire::RpcError;

/// How many sessions a page of a list has.
const PAGE: usize = 50;
/// What the answer to a list takes beside the sessions and the client's id: the envelope and the cursor.
const LIST_FRAME: usize = 2048;
/// How many subscriptions a client may have.
const MOST_SUBSCRIPTIONS: usize = 16;

impl Connection {
    pub(super) async fn list(
        &self,
        context: ClientContext,
        request: OpenRequest,
        cwd: Option<String>,
        cursor: Option<String>,
        archived: ArchivedParam,
    ) {
        let archived = filter(archived);
        let query = ListQuery { cwd, archived, after: cursor.clone(), limit: PAGE, ..ListQuery::default() };
        let page = context.registry.store().list(&query).await;
        let room = self.list_room().saturating_sub(request.id().text().len());
        request.answer(match page {
            Ok(page) => Ok(answer(&context.registry, page, room).await),
            Err(StoreError::BadCursor) => {
                Err(RpcError::field("cursor", &json!(cursor), "a cursor that an earlier page gave")
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
            form: RowForm::Own,
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

    fn list_room(&self) -> usize {
        self.deps.host_config.longest_line.saturating_sub(LIST_FRAME)
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
async fn answer(registry: &Registry, mut page: ListPage, room: usize) -> Json {
    let (mut sessions, mut used) = (Vec::new(), 0);
    let mut rest = None;
    for (at, row) in page.rows.iter().enumerate() {
        let info = registry.session_info(row, RowForm::Own).await.json();
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
