//! What former owners of a session have left in its journal files. Before anything follows it, it must be safe from a power
//! failure: the files are synced, and where that fails their entries are copied to a file of the new owner.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use rethread_core::stored::Stored;
use rethread_core::{Entry, Seq, SessionId};
use rusqlite::Transaction;

use super::chain::{Chain, FileName, Visit, deregister, files_of, register};
use super::fault::{failed, io_failed};
use super::journal_file::copy_record;
use super::journals::{OwnedJournal, lock, make};
use super::open_store::OpenStore;
use super::read::ReadFault;
use super::row::existing_head;
use super::rows::RowChange;
use super::session::LastOwner;
use super::{Durability, StoreError};
use crate::store::facts::facts;

/// What the files of a session hold when its owner has left it.
pub(super) struct Leftovers {
    /// The last entry.
    pub(super) head: Seq,
    /// The last folded entry.
    pub(super) folded: Seq,
    /// The files with entries, each with its last one.
    pub(super) files: Vec<(FileName, Seq)>,
    /// The files without entries.
    pub(super) empty: Vec<FileName>,
    /// What the entries say of the row and a crash may have left out.
    pub(super) change: RowChange,
}

impl Leftovers {
    /// The last entry that is synced after a claim.
    pub(super) fn synced(&self, last_owner: LastOwner) -> Seq {
        match last_owner {
            LastOwner::Crashed => self.head,
            LastOwner::Released => self.folded,
        }
    }

    /// The files with entries.
    pub(super) fn names(&self) -> Vec<FileName> {
        self.files.iter().map(|(name, _)| *name).collect()
    }
}

/// The entries of files that are copied if the files cannot be synced.
#[derive(Clone, Copy)]
pub(super) struct CopiedEntries {
    /// The entry before the first.
    pub(super) after: Seq,
    pub(super) last: Seq,
    /// The file to copy to, or the one with the next free number.
    pub(super) name: FileName,
}

impl OpenStore {
    /// Reads what earlier owners have left in files.
    pub(super) fn leftovers(
        &self,
        tx: &Transaction<'_>,
        session: &SessionId,
        key: i64,
        last_owner: LastOwner,
    ) -> Result<Leftovers, ReadFault> {
        let names = files_of(tx, key)?;
        let folded = existing_head(tx, session)?.head;
        let chain = Chain::open(self.folder(), &names)?;
        let with_entries = chain.names();
        let (mut head, mut entries): (Seq, Vec<Entry>) = (folded, Vec::new());
        let end = chain.visit(folded.next(), Seq(u64::MAX), |record| {
            head = record.seq;
            // A row that was completed may have been changed from outside since.
            if last_owner == LastOwner::Crashed {
                // One that cannot be decoded is an error for whoever reads it.
                let entry = Stored::compact(record.seq, record.entry).entry();
                entries.extend(entry.map(std::borrow::Cow::into_owned));
            }
            Visit::Next
        })?;
        if let Some(skipped) = end.map(|end| end.skipped).filter(|skipped| *skipped > 0) {
            tracing::warn!(%session, "skipped {skipped} bytes after entry {head} that were never synced");
        }
        let empty = names.into_iter().filter(|name| !with_entries.contains(name)).collect();
        let change = RowChange::in_place(facts(entries.iter()));
        let files = with_entries.into_iter().map(|name| (name, head)).collect();
        Ok(Leftovers { head, folded, files, empty, change })
    }

    /// Makes the files of a journal safe that former owners have left, if they are not known to be. To be called before
    /// anything follows them: that will be synced, so they must be, too. Call it with the guard of `making`.
    pub(super) fn secure_earlier(
        &self,
        journal: &Mutex<OwnedJournal>,
        _making: &MutexGuard<'_, ()>,
    ) -> Result<(), StoreError> {
        let (session, key, files, copied) = {
            let journal = lock(journal);
            let Some(files) = journal.unsynced_leftovers() else { return Ok(()) };
            let copied =
                CopiedEntries { after: journal.synced(), last: journal.head, name: journal.next_name() };
            (journal.session.clone(), journal.key, files, copied)
        };
        let copy = self.secure(&session, key, files, copied)?;
        lock(journal).leftovers_secured(copied.last, copy);
        Ok(())
    }

    /// Syncs files that nobody writes any more. If that fails, copies their entries to a new file that replaces them and is
    /// returned: the kernel may have dropped what it could not write, and a second sync of a file would not say so.
    pub(super) fn secure(
        &self,
        session: &SessionId,
        key: i64,
        files: Vec<FileName>,
        copied: CopiedEntries,
    ) -> Result<Option<FileName>, StoreError> {
        let Err(error) = self.sync_all(&files) else { return Ok(None) };
        tracing::error!(%session, "{}", crate::wire::with_causes(&error));
        match self.copy(session, key, &files, copied) {
            Ok(copy) => Ok(Some(copy)),
            // The first error says more.
            Err(_) => Err(error),
        }
    }

    fn sync_all(&self, files: &[FileName]) -> Result<(), StoreError> {
        for name in files {
            let path = self.folder().path_of(name);
            if self.folder().is_unreliable(name) {
                return Err(failed("syncing", &path, "an earlier sync of this file failed"));
            }
            let file = File::open(&path).map_err(io_failed("opening", &path))?;
            sync(&file)
                .inspect_err(|_| self.folder().sync_failed(name))
                .map_err(io_failed("syncing", &path))?;
        }
        Ok(())
    }

    fn copy(
        &self,
        session: &SessionId,
        key: i64,
        files: &[FileName],
        copied: CopiedEntries,
    ) -> Result<FileName, StoreError> {
        let name = make(self.folder(), copied.name)?;
        self.write_copy(session, files, CopiedEntries { name, ..copied })
            .inspect_err(|_| self.folder().remove(&[name]))?;
        self.write("copying a journal file in", Durability::Power, |tx| {
            register(tx, key, &name)?;
            Ok(deregister(tx, key, files)?)
        })?;
        self.folder().remove(files);
        Ok(name)
    }

    /// Writes the entries, whose checksums are compared, and syncs them.
    fn write_copy(
        &self,
        session: &SessionId,
        files: &[FileName],
        copied: CopiedEntries,
    ) -> Result<(), StoreError> {
        let path = self.folder().path_of(&copied.name);
        let mut copy = FileCopy::begin(&path).map_err(io_failed("opening", &path))?;
        self.folder().header(&copied.name, copied.after.next()).write(&mut copy.record);
        let mut last = copied.after;
        let chain = Chain::open(self.folder(), files);
        let visited = chain.and_then(|chain| {
            chain.visit(copied.after.next(), copied.last, |record| {
                copy_record(record.seq, record.entry, &mut copy.record);
                last = record.seq;
                copy.write_record()
            })
        });
        visited.map_err(|fault| fault.into_error(session))?;
        copy.finish().map_err(io_failed("writing", &path))?;
        if last == copied.last {
            return Ok(());
        }
        Err(failed("copying to", &path, "what earlier files had is not there any more"))
    }
}

/// A file that is written record by record.
struct FileCopy {
    file: BufWriter<File>,
    record: Vec<u8>,
    outcome: io::Result<()>,
}

impl FileCopy {
    fn begin(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        Ok(Self { file, record: Vec::new(), outcome: Ok(()) })
    }

    fn write_record(&mut self) -> Visit {
        self.outcome = self.file.write_all(&self.record);
        self.record.clear();
        if self.outcome.is_ok() { Visit::Next } else { Visit::Stop }
    }

    fn finish(mut self) -> io::Result<()> {
        self.outcome?;
        self.file.flush()?;
        sync(self.file.get_ref())
    }
}

fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    tests::fail_if_wanted()?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use rethread_core::TitleSource;

    use super::super::{Append, EmbeddedPaths, EmbeddedStore, Lease, NewSession, RowFacts, Store as _};
    use super::*;
    use crate::lock::locked;

    thread_local! {
        /// How many of the next syncs on this thread fail.
        static FAILING: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn fail_if_wanted() -> io::Result<()> {
        let left = FAILING.get();
        FAILING.set(left.saturating_sub(1));
        if left > 0 { Err(io::Error::other("as the test wants it")) } else { Ok(()) }
    }

    fn paths(dir: &tempfile::TempDir) -> EmbeddedPaths {
        EmbeddedPaths { database: dir.path().join("rethread.db"), locks: dir.path().join("locks") }
    }

    fn append(lease: &Lease) -> Append {
        let title = Entry::TitleSet { title: "title".to_owned(), by: TitleSource::Agent };
        Append {
            session: lease.session.clone(),
            epoch: lease.epoch,
            expected: lease.head,
            entries: vec![Arc::new(title)],
            facts: RowFacts::default(),
            durability: Durability::Process,
            at: None,
        }
    }

    /// A session with an entry that is not synced.
    async fn written(store: &EmbeddedStore) -> Lease {
        let new = NewSession {
            id: "s".into(),
            cwd: "/w".to_owned(),
            agent: "agent".to_owned(),
            parent: None,
            entries: Vec::new(),
            facts: RowFacts::default(),
            snapshot: None,
            at: 1,
        };
        let lease = store.create(new).await.unwrap();
        store.append(append(&lease)).await.unwrap();
        lease
    }

    /// A store whose only session was left by an owner that has crashed.
    async fn crashed(dir: &tempfile::TempDir) -> (EmbeddedStore, Lease) {
        let store = EmbeddedStore::open(&paths(dir)).unwrap();
        let lease = written(&store).await;
        drop(store);
        (EmbeddedStore::open(&paths(dir)).unwrap(), lease)
    }

    async fn title(store: &EmbeddedStore) -> Option<String> {
        let row = store.find(&"s".into()).await.unwrap().unwrap();
        row.title.map(|(title, _)| title)
    }

    fn files(dir: &tempfile::TempDir) -> Vec<String> {
        let files = std::fs::read_dir(paths(dir).journals()).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn the_files_of_an_owner_that_released_a_session_are_synced_before_anything_follows_them() {
        for failing in [0, 1] {
            let dir = tempfile::tempdir().unwrap();
            let store = EmbeddedStore::open(&paths(&dir)).unwrap();
            let lease = written(&store).await;
            store.release(&lease).await.unwrap();
            let open = store.opening.wait().unwrap();
            // Nobody makes a file meanwhile.
            let making = locked(&open.making);
            let claimed = open.claim(&lease.session).unwrap();
            let journal = open.journals.get(&lease.session).unwrap();
            assert_eq!((claimed.head, lock(&journal).synced()), (Seq(1), Seq(0)));
            drop(making);
            FAILING.set(failing);
            open.make_missing_files().unwrap();
            assert_eq!((FAILING.get(), lock(&journal).synced()), (0, Seq(1)));
            assert!(lock(&journal).unsynced_leftovers().is_none());
            store.append(append(&claimed)).await.unwrap();
            assert_eq!(lock(&journal).synced(), Seq(1), "the next entry is not synced with them");
            let read = store.read(&lease.session, Seq(1), usize::MAX).await.unwrap();
            assert_eq!(read.decode().unwrap().len(), 2, "a copy has what was there");
        }
    }

    #[tokio::test]
    async fn the_files_of_an_owner_that_crashed_are_synced_with_the_claim() {
        let dir = tempfile::tempdir().unwrap();
        let (store, lease) = crashed(&dir).await;
        let open = store.opening.wait().unwrap();
        open.claim(&lease.session).unwrap();
        let journal = open.journals.get(&lease.session).unwrap();
        assert_eq!(lock(&journal).synced(), Seq(1));
    }

    #[tokio::test]
    async fn files_that_cannot_be_synced_are_copied_and_not_synced_again() {
        let dir = tempfile::tempdir().unwrap();
        let (store, lease) = crashed(&dir).await;
        let before = files(&dir);
        let open = store.opening.wait().unwrap();
        FAILING.set(1);
        let claimed = open.claim(&lease.session).unwrap();
        assert_eq!((FAILING.get(), claimed.head), (0, Seq(1)));
        assert!(files(&dir).iter().all(|file| !before.contains(file)), "{before:?}");
        let journal = open.journals.get(&lease.session).unwrap();
        assert_eq!(lock(&journal).synced(), Seq(1));
        store.append(append(&claimed)).await.unwrap();
        let read = store.read(&lease.session, Seq(1), usize::MAX).await.unwrap();
        assert_eq!(read.decode().unwrap().len(), 2);
        store.release(&Lease { head: Seq(2), ..claimed }).await.unwrap();
        assert_eq!(store.claim(&lease.session).await.unwrap().head, Seq(2));
    }

    #[tokio::test]
    async fn a_claim_that_fails_after_a_crash_leaves_the_crash_to_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let (store, lease) = crashed(&dir).await;
        let open = store.opening.wait().unwrap();
        // The file, and its copy.
        FAILING.set(2);
        let error = open.claim(&lease.session).unwrap_err();
        assert!(error.to_string().contains("syncing"), "{error}");
        assert_eq!((FAILING.get(), title(&store).await), (0, None));
        let before = files(&dir);
        open.claim(&lease.session).unwrap();
        assert!(files(&dir).iter().all(|file| !before.contains(file)), "{before:?} is not synced again");
        let journal = open.journals.get(&lease.session).unwrap();
        assert_eq!(lock(&journal).synced(), Seq(1), "it is synced with the claim, as after a crash");
        assert_eq!(title(&store).await.as_deref(), Some("title"), "the row has what the crash left out");
    }
}
