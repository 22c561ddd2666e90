//! Sessions that observers follow, whether they are live in this process, open in another one, or not open at all. Nothing is
//! claimed for them: what is not live here is read from the store when the store has more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use rethread_core::{Seq, SessionId};
use tokio::sync::oneshot;

use super::{LiveSessions, Registry};
use crate::client_id::ClientId;
use crate::live::{Cursor, Live, ObservedTail};
use crate::live_session::{Attached, Handle, Message, store_error};
use crate::lock::locked;
use crate::store::{Store, read_state};
use crate::wire::RpcError;

/// The sessions that somebody observes.
#[derive(Clone, Default)]
pub(super) struct ObservedSessions(Arc<Mutex<HashMap<SessionId, Weak<ObservedTail>>>>);

/// Whether a session that is not live here is open in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenElsewhere {
    /// It is: more may come at any time.
    Yes,
    /// It is not: its row changes before more comes.
    No,
}

impl ObservedSessions {
    /// A session is live from now on.
    pub(super) fn went_live(&self, handle: &Handle) {
        if let Some(tail) = self.get(&handle.id) {
            tail.switch(handle.live.clone());
        }
    }

    /// A session that was live has ended with this entry.
    pub(super) fn ended(&self, session: &SessionId, head: Seq) {
        if let Some(tail) = self.get(session) {
            tail.switch(Arc::new(Live::new(head)));
        }
    }

    /// The observed sessions that are not live here.
    pub(super) fn not_live(&self, live: &LiveSessions) -> Vec<SessionId> {
        let mut observed = locked(&self.0);
        observed.retain(|_, tail| tail.upgrade().is_some_and(|tail| tail.is_observed()));
        let live = locked(live);
        observed.keys().filter(|id| !live.contains_key(*id)).cloned().collect()
    }

    /// Looks how far the store is with a session that is not live here.
    pub(super) async fn look(&self, store: &dyn Store, session: &SessionId) -> OpenElsewhere {
        let Ok(Some(row)) = store.find(session).await else { return OpenElsewhere::No };
        if let Some(tail) = self.get(session) {
            tail.current().advance_to(row.head);
        }
        if row.owner.is_some() { OpenElsewhere::Yes } else { OpenElsewhere::No }
    }

    fn get(&self, session: &SessionId) -> Option<Arc<ObservedTail>> {
        locked(&self.0).get(session).and_then(Weak::upgrade)
    }
}

impl Registry {
    /// Has a cursor follow a session that it does not open. Gives how things stand; the cursor is before everything.
    pub(crate) async fn observe(
        &self,
        session: &SessionId,
        client: ClientId,
        cursor: &Arc<Cursor>,
    ) -> Result<(Arc<ObservedTail>, Attached), RpcError> {
        self.watch();
        let attached = match self.find(session) {
            Some(handle) => observe_live(&handle, client, cursor).await,
            None => None,
        };
        let attached = match attached {
            Some(attached) => attached?,
            None => {
                let read = read_state(self.store(), session).await;
                let (state, row) = read.map_err(|error| store_error(&error))?;
                Attached::of_stored(state, row.owner.as_ref())
            }
        };
        let tail = self.tail_of(session, attached.head);
        tail.attach(cursor);
        // A session of another process is looked at from now on.
        self.deps.changed.wake();
        Ok((tail, attached))
    }

    fn tail_of(&self, session: &SessionId, head: Seq) -> Arc<ObservedTail> {
        let mut observed = locked(&self.observed.0);
        if let Some(tail) = observed.get(session).and_then(Weak::upgrade) {
            return tail;
        }
        let live = self.find(session).map_or_else(|| Arc::new(Live::new(head)), |handle| handle.live);
        let tail = Arc::new(ObservedTail::new(live));
        observed.insert(session.clone(), Arc::downgrade(&tail));
        tail
    }
}

/// How things stand in a live session; nothing if it ends meanwhile.
async fn observe_live(
    handle: &Handle,
    client: ClientId,
    cursor: &Arc<Cursor>,
) -> Option<Result<Attached, RpcError>> {
    let (reply, attached) = oneshot::channel();
    let observe = Message::Observe { client, cursor: cursor.clone(), reply };
    handle.send(observe).await.ok()?;
    attached.await.ok()
}
