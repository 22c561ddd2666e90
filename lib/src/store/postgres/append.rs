//! Appends to journals: encodes entries, hands them to the writers, and says why one was refused.

use std::cell::Cell;
use std::rc::Rc;

use rethread_core::lease::{LeaseRecord, LostAppend};
use rethread_core::{Entry, stored};

use super::open_database::OpenDatabase;
use super::ownership::current_lease;
use super::row::{locked_head, row_change, store_rare_facts};
use super::writer::{Accepted, EncodedAppend, append_in};
use crate::store::{Append, StoreError};

impl OpenDatabase {
    /// Appends entries. All commits of the database wait for its disk, so that both kinds of durability are the same here.
    pub(super) async fn append(self: Rc<Self>, append: Append) -> Result<(), StoreError> {
        let owned = self.owned.borrow().get(&append.session).map(|owned| owned.key);
        let key = match owned {
            Some(key) => key,
            None => current_lease(&self, &append.session).await?.0,
        };
        let encoded = encode(&append, key);
        let lapses = self.host.lapses();
        let accepted = if append.facts.native.is_some() || append.facts.import.is_some() {
            self.append_with_facts(&append, &encoded).await?
        } else {
            let done = self.writers.append(encoded).await;
            done.map_err(|fault| fault.at("appending", &self.database.address))?
        };
        match accepted {
            Accepted::Yes if self.host.lapses() == lapses => Ok(()),
            Accepted::Yes => self.check_still_owned(&append).await,
            Accepted::No => Err(self.why_refused(&append).await?),
        }
    }

    /// Appends in a transaction with the facts that other tables have.
    async fn append_with_facts(
        &self,
        append: &Append,
        encoded: &EncodedAppend,
    ) -> Result<Accepted, StoreError> {
        let attempts = Cell::new(0);
        self.database
            .write("appending", async |tx| {
                let head = locked_head(tx, &append.session).await?;
                // An attempt whose commit was not answered may have been carried out.
                let record = LeaseRecord { epoch: head.epoch, head: head.head, host: Some(()) };
                let count = append.entries.len() as u64;
                let stored = record.was_stored(append.epoch, append.expected, count);
                if attempts.replace(1) > 0 && count > 0 && stored == Ok(LostAppend::Stored) {
                    return Ok(Accepted::Yes);
                }
                let accepted = append_in(tx, encoded).await?;
                if accepted == Accepted::Yes {
                    store_rare_facts(tx, encoded.key, &append.facts).await?;
                }
                Ok(accepted)
            })
            .await
    }

    /// The lease of this host was over while an append was under way: it is stored, but another host may have the session now.
    async fn check_still_owned(&self, append: &Append) -> Result<(), StoreError> {
        loop {
            let lapses = self.host.lapses();
            let (_, found, _) = current_lease(self, &append.session).await?;
            if found != append.epoch {
                let session = append.session.clone();
                return Err(StoreError::StaleEpoch { session, held: append.epoch, found });
            }
            if self.host.lapses() == lapses {
                return Ok(());
            }
        }
    }

    async fn why_refused(&self, append: &Append) -> Result<StoreError, StoreError> {
        let (_, found, head) = current_lease(self, &append.session).await?;
        let session = append.session.clone();
        Ok(if found == append.epoch {
            StoreError::MovedOn { session, expected: append.expected, found: head }
        } else {
            StoreError::StaleEpoch { session, held: append.epoch, found }
        })
    }
}

fn encode(append: &Append, key: i64) -> EncodedAppend {
    let entry = |entry: &std::sync::Arc<Entry>| {
        let mut bytes = Vec::new();
        stored::write_compact(entry, &mut bytes);
        bytes
    };
    EncodedAppend {
        key,
        epoch: append.epoch,
        expected: append.expected,
        entries: append.entries.iter().map(entry).collect(),
        row: row_change(&append.facts, append.at),
        ends_turn: append.entries.iter().any(|entry| matches!(**entry, Entry::TurnEnded { .. })),
    }
}
