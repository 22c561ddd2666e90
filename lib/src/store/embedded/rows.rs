//! Changes of rows that follow from appends and need not be written before the append returns. They are written together,
//! with the next transaction of this store or a moment later. What a crash leaves out is found again in the journal.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rethread_core::Millis;
use rusqlite::Transaction;

use super::append::{apply_facts, touch};
use super::{Append, RowFacts};

/// The changes of one row.
#[derive(Clone, Debug, Default)]
pub(super) struct RowChange {
    pub(super) facts: RowFacts,
    pub(super) at: Option<Millis>,
    /// The place among the pending changes: that of the last change with a time.
    order: u64,
}

impl RowChange {
    pub(super) fn of(append: &Append) -> Self {
        Self::new(append.facts.clone(), append.at)
    }

    pub(super) fn new(facts: RowFacts, at: Option<Millis>) -> Self {
        Self { facts, at, order: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at.is_none() && self.facts == RowFacts::default()
    }

    /// Adds later changes.
    fn then(&mut self, later: Self) {
        let RowFacts { title, roots, native, listed } = later.facts;
        if let Some((title, by)) = title
            && self.facts.title.as_ref().is_none_or(|(_, old)| by <= *old)
        {
            self.facts.title = Some((title, by));
        }
        self.facts.roots = roots.or(self.facts.roots.take());
        self.facts.native = native.or(self.facts.native.take());
        self.facts.listed = listed.or(self.facts.listed);
        if later.at.is_some() {
            self.order = later.order;
        }
        self.at = self.at.max(later.at);
    }
}

/// The changes that are not written yet, by row.
#[derive(Default)]
pub(super) struct PendingRows {
    changes: Mutex<HashMap<i64, RowChange>>,
    added: AtomicU64,
}

impl PendingRows {
    /// Adds the changes of one append. Returns whether nothing waited before.
    pub(super) fn add(&self, key: i64, mut change: RowChange) -> bool {
        let mut pending = self.lock();
        change.order = self.added.fetch_add(1, Ordering::Relaxed);
        let first = pending.is_empty();
        pending.entry(key).or_default().then(change);
        first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn take(&self) -> HashMap<i64, RowChange> {
        std::mem::take(&mut *self.lock())
    }

    /// Puts back what could not be written, before what was added meanwhile.
    pub(super) fn put_back(&self, changes: HashMap<i64, RowChange>) {
        let mut pending = self.lock();
        for (key, mut change) in changes {
            if let Some(later) = pending.remove(&key) {
                change.then(later);
            }
            pending.insert(key, change);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, RowChange>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes changes of rows, the oldest first: lists are in the order of writing.
pub(super) fn write(tx: &Transaction<'_>, changes: &HashMap<i64, RowChange>) -> Result<(), rusqlite::Error> {
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_unstable_by_key(|(_, change)| change.order);
    for (key, change) in changes {
        write_one(tx, *key, change)?;
    }
    Ok(())
}

/// Writes the changes of one row.
pub(super) fn write_one(tx: &Transaction<'_>, key: i64, change: &RowChange) -> Result<(), rusqlite::Error> {
    if let Some(at) = change.at {
        touch(tx, key, at)?;
    }
    apply_facts(tx, key, &change.facts)
}
