//! Appends entries, syncs them, and folds them. What a fold no longer needs is removed.

use rethread_core::{Entry, Seq, SessionId};

use super::chain::{FileName, files_of, register};
use super::fold;
use super::free;
use super::journals::{AppendOutcome, OwnedJournal, SyncFault, lock, make};
use super::open_store::OpenStore;
use super::row;
use super::rows::{RowChange, write_one};
use super::{Append, Durability, FoldUpTo, Lease, StoreError};
use crate::lock::locked;

thread_local! {
    /// Where records are encoded, so that an append need not allocate.
    static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// What is still to be done for an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppendStep {
    /// Nothing.
    Done,
    /// The entries have to be synced.
    Sync,
    /// The entries could not be written: there is no file for them.
    Write,
}

impl OpenStore {
    /// Whether the row must be changed before the entries are written: the session must be in lists, and found by the
    /// agent's id, before the agent is sent anything.
    pub(super) fn row_comes_first(&self, append: &Append) -> bool {
        let lists = append.facts.listed.is_some()
            && self.journals.get(&append.session).is_some_and(|journal| !lock(&journal).listed);
        lists || append.facts.native.is_some()
    }

    /// Does what can be done at once.
    pub(super) fn append_now(&self, append: &Append) -> Result<AppendStep, StoreError> {
        match BUFFER.with_borrow_mut(|buffer| self.journals.append(append, buffer))? {
            AppendOutcome::NeedsNewFile => Ok(AppendStep::Write),
            AppendOutcome::Written => match append.durability {
                Durability::Process => {
                    self.note_row(append);
                    Ok(AppendStep::Done)
                }
                Durability::Power => Ok(AppendStep::Sync),
            },
        }
    }

    /// Writes the row first, then the entries.
    pub(super) fn append_with_row(&self, append: &Append) -> Result<(), StoreError> {
        let Some(journal) = self.journals.get(&append.session) else {
            return Err(StoreError::Unknown(append.session.clone()));
        };
        let key = {
            let journal = lock(&journal);
            journal.check(append)?;
            journal.key
        };
        self.claim_open(&journal, &locked(&self.making))?;
        let change = RowChange::of(append, &self.times);
        self.write("updating a row in", Durability::Process, |tx| Ok(write_one(tx, key, &change)?))?;
        lock(&journal).listed |= append.facts.listed.is_some();
        let mut entries = append.clone();
        entries.facts = super::RowFacts::default();
        entries.at = None;
        let step = self.append_now(&entries)?;
        self.finish_append(&entries, step)
    }

    /// Finishes an append that could not be done at once.
    pub(super) fn finish_append(&self, append: &Append, step: AppendStep) -> Result<(), StoreError> {
        match step {
            AppendStep::Done => Ok(()),
            AppendStep::Sync => self.sync_append(append),
            AppendStep::Write => {
                self.change_file(&append.session)?;
                match self.append_now(append)? {
                    AppendStep::Done => Ok(()),
                    AppendStep::Sync => self.sync_append(append),
                    AppendStep::Write => Err(StoreError::Io {
                        context: format!("writing to session {}", append.session),
                        source: "its new journal file became unusable at once".into(),
                    }),
                }
            }
        }
    }

    /// Syncs entries that are written. A failed append changes nothing.
    pub(super) fn sync_append(&self, append: &Append) -> Result<(), StoreError> {
        self.sync(&append.session).inspect_err(|_| self.journals.undo(append))?;
        self.note_row(append);
        Ok(())
    }

    /// Syncs. After a failure the entries go to a new file that is synced.
    fn sync(&self, session: &SessionId) -> Result<(), StoreError> {
        match self.journals.sync(session) {
            Ok(()) => Ok(()),
            Err(SyncFault::Refused(error)) => Err(error),
            Err(SyncFault::Unreliable(error)) => {
                tracing::error!(%session, "{}", crate::wire::with_causes(&error));
                self.change_file(session).map_err(|_| error)
            }
        }
    }

    fn note_row(&self, append: &Append) {
        self.note_turn_end(append);
        let change = RowChange::of(append, &self.times);
        if change.is_empty() {
            return;
        }
        if let Some(journal) = self.journals.get(&append.session) {
            let key = lock(&journal).key;
            if self.rows.add(key, change) {
                self.requests.rows_changed();
            }
        }
    }

    /// Has a turn that has ended indexed, some time later.
    fn note_turn_end(&self, append: &Append) {
        let ended = append.entries.iter().any(|entry| matches!(**entry, Entry::TurnEnded { .. }));
        if ended && let Some(journal) = self.journals.get(&append.session) {
            let key = lock(&journal).key;
            self.search.note_turn_end(key);
            self.requests.turn_ended();
        }
    }

    /// Makes the files of journals that have none.
    pub(super) fn make_missing_files(&self) -> Result<(), StoreError> {
        for journal in self.journals.all() {
            let missing = {
                let journal = lock(&journal);
                journal.has_no_file().then(|| journal.session.clone())
            };
            match missing.map(|session| self.change_file(&session)) {
                // It was released meanwhile.
                None | Some(Ok(()) | Err(StoreError::Unknown(_))) => {}
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Has the journal written to a new file, unless another thread has done that meanwhile.
    fn change_file(&self, session: &SessionId) -> Result<(), StoreError> {
        let making = locked(&self.making);
        let Some(journal) = self.journals.get(session) else {
            return Err(StoreError::Unknown(session.clone()));
        };
        if !lock(&journal).needs_file() {
            return Ok(());
        }
        self.claim_open(&journal, &making)?;
        self.secure_earlier(&journal, &making)?;
        let name = self.make_file(&journal)?;
        self.journals.replace_file(session, name)
    }

    /// Makes and registers another file for a journal.
    fn make_file(&self, journal: &std::sync::Mutex<OwnedJournal>) -> Result<FileName, StoreError> {
        let (key, name) = {
            let journal = lock(journal);
            (journal.key, journal.next_name())
        };
        let name = make(self.folder(), name)?;
        self.write("adding a journal file in", Durability::Power, |tx| Ok(register(tx, key, &name)?))?;
        Ok(name)
    }

    /// Folds finished turns. Later entries go to another file from the next turn on, so that the files which are folded
    /// can be removed.
    pub(super) fn fold(&self, lease: &Lease, fold: &FoldUpTo) -> Result<(), StoreError> {
        let Some(journal) = self.journals.get(&lease.session) else {
            return Err(StoreError::Unknown(lease.session.clone()));
        };
        {
            let making = locked(&self.making);
            self.claim_open(&journal, &making)?;
            self.secure_earlier(&journal, &making)?;
        }
        let prepared = {
            let journal = lock(&journal);
            journal.check_epoch(lease)?;
            journal.has_next() || journal.is_empty()
        };
        if !prepared {
            let next = self.make_file(&journal)?;
            lock(&journal).set_next(next);
        }
        // A state that is stored for good must not be ahead of the journal.
        let ahead = fold.snapshot.as_ref().is_some_and(|snapshot| snapshot.head > lock(&journal).synced());
        if ahead || lock(&journal).needs_sync_between_turns() {
            self.sync(&lease.session)?;
        }
        let (fold, covered) = {
            let mut journal = lock(&journal);
            self.journals.switch_file(&mut journal);
            let upto = fold.upto.min(journal.head);
            (FoldUpTo { upto, snapshot: fold.snapshot.clone() }, journal.covered_by(upto))
        };
        fold::fold(self, lease, &fold, &covered)?;
        lock(&journal).forget_files(&covered);
        Ok(())
    }

    /// Folds what forks of a deleted session still need of its journal files.
    pub(super) fn fold_for_forks(&self, session: &SessionId, key: i64) -> Result<(), StoreError> {
        let needed = self.readers.read("reading", |tx| free::needed_by_forks(tx, key))?;
        self.fold_unowned(session, key, Some(needed))
    }

    /// Folds the files of a session that nobody owns, all or up to an entry. Refused if somebody claims it meanwhile.
    pub(super) fn fold_unowned(
        &self,
        session: &SessionId,
        key: i64,
        upto: Option<Seq>,
    ) -> Result<(), StoreError> {
        let (epoch, folded, files, end) = self.read_with_files("reading", session, |tx| {
            let head = row::session_head(tx, session)?;
            Ok((head.epoch, head.head, files_of(tx, key)?, self.chain_end(tx, key)?))
        })?;
        let end = end.last.unwrap_or(folded);
        let upto = upto.map_or(end, |upto| upto.min(end));
        let covered = if upto >= end { files } else { Vec::new() };
        if upto <= folded && covered.is_empty() {
            return Ok(());
        }
        let lease = Lease { session: session.clone(), epoch, head: end, folded };
        fold::fold(self, &lease, &FoldUpTo { upto: upto.max(folded), snapshot: None }, &covered)
    }
}
