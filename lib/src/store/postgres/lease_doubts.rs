//! Leases that the database may have for this host and that nobody here knows: of a claim whose answer was lost, or of a release that could
//! not be stored. While the host lives nobody else could take such a session, so they are released as soon as the database answers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use rethread_core::SessionId;

use super::open_database::OpenDatabase;
use super::text_column::from_column;
use crate::store::integers::{from_sql, seq_from_sql};
use crate::store::{Lease, StoreError};

/// Whether there may be such leases, and what is being claimed just now.
#[derive(Default)]
pub(super) struct LeaseDoubts {
    open: Cell<bool>,
    claiming: RefCell<HashMap<SessionId, usize>>,
}

impl LeaseDoubts {
    /// A claim or a release has ended like this.
    pub(super) fn note<T>(&self, outcome: &Result<T, StoreError>) {
        if matches!(outcome, Err(StoreError::Database { .. })) {
            self.open.set(true);
        }
    }

    /// A session is being claimed or created, until the returned value is dropped.
    pub(super) fn claiming(&self, session: &SessionId) -> Claiming<'_> {
        *self.claiming.borrow_mut().entry(session.clone()).or_default() += 1;
        Claiming { doubts: self, session: session.clone() }
    }

    fn is_claimed_now(&self, session: &SessionId) -> bool {
        self.claiming.borrow().contains_key(session)
    }
}

/// A claim that is under way.
pub(super) struct Claiming<'a> {
    doubts: &'a LeaseDoubts,
    session: SessionId,
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        let mut claiming = self.doubts.claiming.borrow_mut();
        if let Some(count) = claiming.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                claiming.remove(&self.session);
            }
        }
    }
}

impl OpenDatabase {
    /// Releases what the database has for this host and nobody here knows, if there may be something.
    pub(super) async fn release_unknown(self: Rc<Self>) -> Result<(), StoreError> {
        let Some(host) = self.host.known_key().filter(|_| self.doubts.open.get()) else { return Ok(()) };
        // What fails from now on is looked at the next time.
        self.doubts.open.set(false);
        let sql = "SELECT s.id, l.owned_epoch, l.head, l.folded FROM rethread.lease AS l
                   JOIN rethread.session AS s ON s.key = l.session WHERE l.host = $1 AND l.owned_epoch IS NOT NULL";
        let found = self.database.query("looking for leases", sql, &[&host]).await;
        self.doubts.note(&found);
        for row in &found? {
            let lease = Lease {
                session: SessionId(from_column(row.get(0))),
                epoch: from_sql(row.get(1)),
                head: seq_from_sql(row.get(2)),
                folded: seq_from_sql(row.get(3)),
            };
            let known =
                self.owned.borrow().get(&lease.session).is_some_and(|owned| owned.epoch >= lease.epoch);
            if !known && !self.doubts.is_claimed_now(&lease.session) {
                tracing::info!(session = %lease.session, "released what nobody here has open");
                self.clone().release(lease).await?;
            }
        }
        Ok(())
    }
}
