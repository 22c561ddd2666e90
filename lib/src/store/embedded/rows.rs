//! Changes of rows that follow from appends and need not be written before the append returns. They are written together,
//! with the next transaction of this store or a moment later. What a crash leaves out is found again in the journal.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rethread_core::Millis;
use rusqlite::Transaction;

use super::append::apply_facts;
use super::integers::to_sql;
use super::{Append, RowFacts};

/// The changes of one row.
#[derive(Clone, Debug, Default)]
pub(super) struct RowChange {
    pub(super) facts: RowFacts,
    /// The place in lists, from [`ListTimes::next`].
    at: Option<Millis>,
}

/// The times that give sessions their place in lists. They grow with each change, even if the clock was set back, and are
/// taken when the change is made: rows are written later, and another process may have written meanwhile.
#[derive(Default)]
pub(super) struct ListTimes(AtomicU64);

impl ListTimes {
    /// Notes a time in use.
    pub(super) fn saw(&self, at: Millis) {
        self.0.fetch_max(at, Ordering::Relaxed);
    }

    /// A time that is later than all others that were seen.
    pub(super) fn next(&self, at: Millis) -> Millis {
        let next = |last: u64| at.max(last + 1);
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        last.map_or(at, next)
    }
}

impl RowChange {
    pub(super) fn of(append: &Append, times: &ListTimes) -> Self {
        Self { facts: append.facts.clone(), at: append.at.map(|at| times.next(at)) }
    }

    /// Changes that leave a session at its place.
    pub(super) fn in_place(facts: RowFacts) -> Self {
        Self { facts, at: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at.is_none() && self.facts == RowFacts::default()
    }

    /// Adds later changes.
    fn then(&mut self, later: Self) {
        let RowFacts { title, roots, native, listed, cwd, agent_name, import } = later.facts;
        if let Some((title, by)) = title
            && self.facts.title.as_ref().is_none_or(|(_, old)| by <= *old)
        {
            self.facts.title = Some((title, by));
        }
        self.facts.roots = roots.or(self.facts.roots.take());
        self.facts.native = native.or(self.facts.native.take());
        self.facts.listed = listed.or(self.facts.listed);
        self.facts.cwd = cwd.or(self.facts.cwd.take());
        self.facts.agent_name = agent_name.or(self.facts.agent_name.take());
        self.facts.import = import.or(self.facts.import.take());
        self.at = self.at.max(later.at);
    }
}

/// The changes that are not written yet, by row.
#[derive(Default)]
pub(super) struct PendingRows(Mutex<HashMap<i64, RowChange>>);

impl PendingRows {
    /// Adds the changes of one append. Returns whether nothing waited before.
    pub(super) fn add(&self, key: i64, change: RowChange) -> bool {
        let mut pending = self.lock();
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes changes of rows.
pub(super) fn write(tx: &Transaction<'_>, changes: &HashMap<i64, RowChange>) -> Result<(), rusqlite::Error> {
    for (key, change) in changes {
        write_one(tx, *key, change)?;
    }
    Ok(())
}

/// Writes the changes of one row.
pub(super) fn write_one(tx: &Transaction<'_>, key: i64, change: &RowChange) -> Result<(), rusqlite::Error> {
    if let Some(at) = change.at {
        tx.prepare_cached("UPDATE session SET updated_at = max(updated_at, ?2) WHERE key = ?1")?
            .execute([key, to_sql(at)])?;
    }
    apply_facts(tx, key, &change.facts)
}
