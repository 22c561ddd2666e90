//! The clients that subscribed to changes of the list, and the notifications to them. A client that does not read has at
//! most one notification waiting; what changes meanwhile is collected by id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rethread_core::{Fields, Json, SessionId};

use super::LiveSessions;
use super::session_info::{RowForm, session_info};
use crate::client_id::ClientId;
use crate::outbox::{Outbound, Outbox};
use crate::store::{ListQuery, SessionRow, Store};

/// How many rows a notification has at most.
const ROWS: usize = 100;

/// A client's subscription to changes of the list.
pub(crate) struct ListSubscriber {
    /// The client.
    pub(crate) client: ClientId,
    /// The id of the subscription, unique for the client.
    pub(crate) id: String,
    /// Which sessions; only directory and archive count.
    pub(crate) query: ListQuery,
    /// How rows are written.
    pub(crate) form: RowForm,
    /// The method of the notification.
    pub(crate) method: &'static str,
    /// How many bytes the rows of one notification may have.
    pub(crate) room: usize,
    /// The way to the client.
    pub(crate) outbox: Outbox,
}

/// All subscriptions of a server.
#[derive(Default)]
pub(super) struct ListSubscribers(Vec<SubscriberState>);

struct SubscriberState {
    subscriber: ListSubscriber,
    /// The sessions that have changed since the last notification.
    pending: HashSet<SessionId>,
    /// The sessions that were reported to the client and are in its list.
    reported: HashSet<SessionId>,
    /// Shared with the notification that waits for the client.
    waiting: Arc<()>,
}

/// A session as it is now, in every form that was asked for; nothing if it is gone.
type Looked = Option<(SessionRow, HashMap<RowForm, Fields>)>;

impl ListSubscribers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, subscriber: ListSubscriber) {
        let (pending, reported) = (HashSet::new(), HashSet::new());
        self.0.push(SubscriberState { subscriber, pending, reported, waiting: Arc::new(()) });
    }

    /// Removes a subscription. Says whether it was there.
    pub(super) fn remove(&mut self, client: ClientId, id: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|state| state.subscriber.client != client || state.subscriber.id != id);
        self.0.len() < before
    }

    /// Removes all subscriptions of a client.
    pub(super) fn leave(&mut self, client: ClientId) {
        self.0.retain(|state| state.subscriber.client != client);
    }

    /// Notes sessions that have changed.
    pub(super) fn changed(&mut self, sessions: impl IntoIterator<Item = SessionId>) {
        for session in sessions {
            self.0.iter_mut().for_each(|state| _ = state.pending.insert(session.clone()));
        }
    }

    /// Notifies everybody who has taken the last notification.
    pub(super) async fn report(&mut self, live: &LiveSessions, store: &dyn Store) {
        self.0.retain(|state| !state.subscriber.outbox.is_closed());
        let mut looked: HashMap<SessionId, Looked> = HashMap::new();
        for state in self.0.iter_mut().filter(|state| state.is_ready()) {
            let mut changes = ListChanges::default();
            let mut pending: Vec<SessionId> = state.pending.drain().collect();
            pending.sort();
            while let Some(id) = pending.pop() {
                if !looked.contains_key(&id) {
                    match store.find(&id).await {
                        Ok(row) => _ = looked.insert(id.clone(), row.map(|row| (row, HashMap::new()))),
                        // It is tried again.
                        Err(_) => {
                            state.pending.insert(id);
                            continue;
                        }
                    }
                }
                if let Some(Some((row, forms))) = looked.get_mut(&id)
                    && state.subscriber.query.includes(row)
                    && !forms.contains_key(&state.subscriber.form)
                {
                    let info = session_info(live, store, row, state.subscriber.form).await;
                    forms.insert(state.subscriber.form, info);
                }
                let now = looked.get(&id).and_then(Option::as_ref);
                if changes.is_full(state.subscriber.room) {
                    state.pending.insert(id);
                    state.pending.extend(pending.drain(..));
                    break;
                }
                state.look_at(id, now, &mut changes);
            }
            state.notify(&changes);
        }
    }
}

impl SubscriberState {
    /// Says whether there is something to report, and the last notification was taken.
    fn is_ready(&self) -> bool {
        !self.pending.is_empty() && Arc::strong_count(&self.waiting) == 1
    }

    fn look_at(
        &mut self,
        id: SessionId,
        now: Option<&(SessionRow, HashMap<RowForm, Fields>)>,
        changes: &mut ListChanges,
    ) {
        let query = &self.subscriber.query;
        match now {
            Some((row, forms)) if query.includes(row) => {
                if let Some(info) = forms.get(&self.subscriber.form) {
                    changes.add(info.json());
                    self.reported.insert(id);
                }
            }
            // One that was never in a list is not removed from it. One of another directory was perhaps moved.
            Some((row, _)) if row.listed.is_none() || !query.is_in_directory(row) => {
                if self.reported.remove(&id) {
                    changes.removed.push(id);
                }
            }
            Some(_) | None => {
                self.reported.remove(&id);
                changes.removed.push(id);
            }
        }
    }

    fn notify(&self, changes: &ListChanges) {
        if changes.sessions.is_empty() && changes.removed.is_empty() {
            return;
        }
        let params: Fields = [
            ("subscriptionId", Json::of(&self.subscriber.id)),
            ("sessions", Json::of(&changes.sessions)),
            ("removed", Json::of(&changes.removed)),
        ]
        .into_iter()
        .collect();
        let (method, params, waiting) = (self.subscriber.method, params.json(), self.waiting.clone());
        // A client that takes nothing at all lists anew when it does.
        let _ = self.subscriber.outbox.offer(Outbound::ListChanges { method, params, waiting });
    }
}

/// What one notification says.
#[derive(Default)]
struct ListChanges {
    sessions: Vec<Json>,
    removed: Vec<SessionId>,
    bytes: usize,
}

impl ListChanges {
    fn add(&mut self, row: Json) {
        self.bytes += row.text().len() + 1;
        self.sessions.push(row);
    }

    /// Says whether the next row goes into the next notification.
    fn is_full(&self, room: usize) -> bool {
        // A row may be long: half of the room stays for it.
        self.sessions.len() + self.removed.len() >= ROWS || self.bytes > room / 2
    }
}
