//! The journals that this store owns: the file that each is written to, how far it is written and synced. An append is one
//! write by the caller. A file is written by one owner only; after a failed sync or a failed write that cannot be undone,
//! what is not synced is copied to a new file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rethread_core::{Entry, Seq, SessionId};

use super::chain::{Chain, ChainFault, FileName, JournalFolder, MARK_BYTES, Visit};
use super::fault::{failed, io_failed};
use super::files::PRIVATE_FILE;
use super::journal_file::{AHEAD_BYTES, FileId, copy_record, write_record};
use super::{Append, Lease, StoreError};

/// A larger buffer is not kept between appends.
const MAX_KEPT_BUFFER: usize = 64 * 1024;

/// A turn begins with room for at least so many bytes in the file. Most turns need less, and are then synced without the length.
const LEAST_ROOM: u64 = 4 * 1024;

/// A sync that takes longer is not quick.
const QUICK_SYNC_MICROS: u64 = 5_000;

/// The number of the first file of an epoch.
pub(super) const FIRST_FILE: u64 = 1;

/// The number of files that are kept open if the system does not say how many it allows.
const DEFAULT_OPEN_FILES: usize = 256;

/// The journals that this store owns.
pub(super) struct OwnedJournals {
    folder: Arc<JournalFolder>,
    owned: Mutex<foldhash::HashMap<SessionId, Arc<Mutex<OwnedJournal>>>>,
    open_files: AtomicUsize,
    max_open_files: usize,
    uses: AtomicU64,
    /// How long the last sync took.
    sync_micros: AtomicU64,
}

/// One journal.
pub(super) struct OwnedJournal {
    pub(super) session: SessionId,
    /// The row of the session.
    pub(super) key: i64,
    /// The epoch of the lease.
    pub(super) epoch: u64,
    /// The last written entry.
    pub(super) head: Seq,
    /// The last synced entry.
    synced: Seq,
    /// Whether the session is in lists.
    pub(super) listed: bool,
    /// The epoch that has replaced that of the lease.
    pub(super) replaced_by: Option<u64>,
    /// The file that is written, if it is not missing.
    current: JournalFile,
    /// The file that follows at the beginning of the next turn: registered, and empty.
    next: Option<FileName>,
    /// Files that are no longer written and not folded, each with its last entry.
    earlier: Vec<(FileName, Seq)>,
    condition: FileCondition,
    turn: TurnState,
    /// The length of the current file, and the turn, before the last append.
    before: (u64, TurnState),
    last_use: u64,
}

/// Whether the entries of this owner leave a turn open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnState {
    Open,
    Closed,
}

/// A file that is written.
struct JournalFile {
    name: FileName,
    /// Closed if too many are open.
    file: Option<Arc<File>>,
    length: u64,
    /// The length with the zeros that follow.
    extended: u64,
    /// The last known place of a record.
    marked: u64,
}

/// Whether the current file can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileCondition {
    Good,
    /// No file of this owner has been made.
    Missing,
    /// The session is not claimed yet, since nothing could be written. It must be before a file is made.
    Unclaimed,
    /// A sync failed, or a part of a record could not be cut off: what is not synced must go to a new file.
    Unreliable,
}

/// The file of a journal that begins to be owned.
pub(super) enum FirstFile {
    /// It is made and registered.
    Made(FileName),
    /// It is made later.
    Missing {
        /// The id of the session's files.
        journal: FileId,
        epoch: u64,
        /// The last synced entry.
        synced: Seq,
    },
    /// The session is claimed later, and the file is made then.
    Unclaimed {
        /// The epoch that the claim is to have.
        epoch: u64,
    },
}

/// What has to be done for an append besides the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppendOutcome {
    /// Nothing.
    Written,
    /// There is no file that can be written: call [`OwnedJournals::replace_file`] and append again.
    NeedsNewFile,
}

impl OwnedJournals {
    pub(super) fn new(folder: Arc<JournalFolder>) -> Self {
        Self {
            folder,
            owned: Mutex::default(),
            open_files: AtomicUsize::new(0),
            max_open_files: max_open_files(),
            uses: AtomicU64::new(0),
            // A disk is slow until it has been seen to be quick.
            sync_micros: AtomicU64::new(u64::MAX),
        }
    }

    pub(super) fn folder(&self) -> &JournalFolder {
        &self.folder
    }

    /// Adds a journal with an empty file or none. `earlier` are the files of former owners.
    pub(super) fn add(
        &self,
        lease: &Lease,
        key: i64,
        file: FirstFile,
        earlier: Vec<(FileName, Seq)>,
        listed: bool,
    ) {
        // The next number is that of the first file.
        let missing = |journal, epoch| FileName { journal, epoch, number: FIRST_FILE - 1 };
        let (name, condition, synced) = match file {
            FirstFile::Made(name) => (name, FileCondition::Good, lease.head),
            FirstFile::Missing { journal, epoch, synced } => {
                (missing(journal, epoch), FileCondition::Missing, synced)
            }
            FirstFile::Unclaimed { epoch } => {
                (missing(FileId::default(), epoch), FileCondition::Unclaimed, lease.folded)
            }
        };
        let journal = OwnedJournal {
            session: lease.session.clone(),
            key,
            epoch: lease.epoch,
            head: lease.head,
            synced,
            listed,
            replaced_by: None,
            current: JournalFile::empty(name),
            next: None,
            earlier,
            condition,
            turn: TurnState::Closed,
            before: (0, TurnState::Closed),
            last_use: 0,
        };
        self.owned().insert(lease.session.clone(), Arc::new(Mutex::new(journal)));
    }

    /// Removes the journal of a lease. Nothing if it is not the lease in force.
    pub(super) fn remove(&self, lease: &Lease) -> Option<Arc<Mutex<OwnedJournal>>> {
        let mut owned = self.owned();
        let journal = owned.get(&lease.session)?;
        if lock(journal).epoch != lease.epoch {
            return None;
        }
        let journal = owned.remove(&lease.session)?;
        drop(owned);
        self.close_file(&mut lock(&journal));
        Some(journal)
    }

    pub(super) fn get(&self, session: &SessionId) -> Option<Arc<Mutex<OwnedJournal>>> {
        self.owned().get(session).cloned()
    }

    /// All journals.
    pub(super) fn all(&self) -> Vec<Arc<Mutex<OwnedJournal>>> {
        self.owned().values().cloned().collect()
    }

    /// Whether this store owns one journal.
    pub(super) fn is_only_one(&self) -> bool {
        self.owned().len() == 1
    }

    /// Whether the last sync was quick.
    pub(super) fn syncs_quickly(&self) -> bool {
        self.sync_micros.load(Ordering::Relaxed) <= QUICK_SYNC_MICROS
    }

    /// The last entry of a journal that this store owns.
    pub(super) fn head(&self, session: &SessionId) -> Option<Seq> {
        self.get(session).map(|journal| lock(&journal).head)
    }

    /// Writes entries behind the others.
    pub(super) fn append(&self, append: &Append, buffer: &mut Vec<u8>) -> Result<AppendOutcome, StoreError> {
        let journal = self.checked(append)?;
        let mut journal = lock(&journal);
        journal.check(append)?;
        if append.entries.is_empty() {
            return Ok(AppendOutcome::Written);
        }
        if journal.needs_file() {
            return Ok(AppendOutcome::NeedsNewFile);
        }
        self.switch_file(&mut journal);
        let first = journal.head.next();
        buffer.clear();
        if journal.current.length == 0 {
            self.folder.header(&journal.current.name, first).write(buffer);
        }
        let mut seq = journal.head;
        for entry in &append.entries {
            seq = seq.next();
            write_record(seq, entry, buffer);
        }
        journal.before = (journal.current.length, journal.turn);
        let appended = buffer.len();
        if journal.current.needs_room(appended) && begins_turn(&append.entries) {
            buffer.resize(appended + AHEAD_BYTES, 0);
        }
        self.write(&mut journal, buffer, appended)?;
        self.mark(&mut journal.current, first, appended as u64);
        journal.head = seq;
        journal.note_turn(&append.entries);
        if buffer.capacity() > MAX_KEPT_BUFFER {
            *buffer = Vec::new();
        }
        Ok(AppendOutcome::Written)
    }

    /// Remembers where the last append begins in its file, if the last known place is far from it.
    fn mark(&self, file: &mut JournalFile, first: Seq, appended: u64) {
        let begins = file.length - appended;
        if begins >= file.marked + MARK_BYTES {
            self.folder.mark(&file.name, first, begins);
            file.marked = begins;
        }
    }

    /// Takes back the last append, because it could not be synced.
    pub(super) fn undo(&self, append: &Append) {
        let Some(journal) = self.get(&append.session) else { return };
        let mut journal = lock(&journal);
        if append.entries.is_empty() || journal.head.0 != append.expected.0 + append.entries.len() as u64 {
            return;
        }
        (journal.current.length, journal.turn) = journal.before;
        journal.current.extended = journal.current.length;
        journal.head = append.expected;
        let (length, file) = (journal.current.length, self.opened(&mut journal));
        // If the records stay in the file, the next file begins with their numbers and counts.
        if file.and_then(|file| file.set_len(length)).is_err() {
            journal.condition = FileCondition::Unreliable;
        }
    }

    /// Refuses an append of a lease that is not in force.
    fn checked(&self, append: &Append) -> Result<Arc<Mutex<OwnedJournal>>, StoreError> {
        self.get(&append.session).ok_or_else(|| StoreError::Unknown(append.session.clone()))
    }

    /// Writes bytes behind the others. Those behind `appended` are room for later ones, and are left out if they do not fit.
    fn write(&self, journal: &mut OwnedJournal, bytes: &[u8], appended: usize) -> Result<(), StoreError> {
        // The path is made only for an error.
        let path = |journal: &OwnedJournal| self.folder.path_of(&journal.current.name);
        let file = self.opened(journal).map_err(|error| failed("opening", &path(journal), error))?;
        let at = journal.current.length;
        let mut written = file.write_all_at(bytes, at).map(|()| bytes.len());
        if written.is_err() && appended < bytes.len() {
            let alone = file.set_len(at).and_then(|()| file.write_all_at(&bytes[..appended], at));
            written = alone.map(|()| appended);
        }
        match written {
            Ok(written) => {
                journal.current.length = at + appended as u64;
                journal.current.extended = journal.current.extended.max(at + written as u64);
                Ok(())
            }
            Err(error) => {
                // A part may have been written: it must not be followed by anything.
                journal.current.extended = at;
                if file.set_len(at).is_err() {
                    journal.condition = FileCondition::Unreliable;
                }
                Err(failed("writing", &path(journal), error))
            }
        }
    }

    /// Syncs what has been written, however long that takes. Call it on a thread that may block.
    pub(super) fn sync(&self, session: &SessionId) -> Result<(), SyncFault> {
        let Some(journal) = self.get(session) else {
            return Err(SyncFault::Refused(StoreError::Unknown(session.clone())));
        };
        let (file, head, name) = {
            let mut journal = lock(&journal);
            if journal.current.length == 0 {
                return Ok(());
            }
            (self.opened(&mut journal), journal.head, journal.current.name)
        };
        // The path is made only for an error.
        let path = || self.folder.path_of(&name);
        let file = file.map_err(|error| SyncFault::Refused(failed("opening", &path(), error)))?;
        let began = Instant::now();
        let synced = file.sync_data();
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.sync_micros.store(micros, Ordering::Relaxed);
        let mut journal = lock(&journal);
        match synced {
            Ok(()) => {
                journal.synced = journal.synced.max(head);
                Ok(())
            }
            Err(error) => {
                // The kernel may have dropped what it could not write: the file is not synced again.
                journal.condition = FileCondition::Unreliable;
                Err(SyncFault::Unreliable(failed("syncing", &path(), error)))
            }
        }
    }

    /// Copies what is not synced to a file that has been made and registered, and writes there from now on.
    pub(super) fn replace_file(&self, session: &SessionId, name: FileName) -> Result<(), StoreError> {
        let Some(journal) = self.get(session) else { return Err(StoreError::Unknown(session.clone())) };
        let mut journal = lock(&journal);
        let path = self.folder.path_of(&name);
        let bytes = self.unsynced(&journal, &name)?;
        let file = open(&path).map_err(io_failed("opening", &path))?;
        if !bytes.is_empty() {
            file.write_all_at(&bytes, 0).map_err(io_failed("writing", &path))?;
            file.sync_data().map_err(io_failed("syncing", &path))?;
        }
        self.close_file(&mut journal);
        let old = (journal.current.name, journal.synced);
        if journal.condition != FileCondition::Missing {
            journal.earlier.push(old);
        }
        let length = bytes.len() as u64;
        journal.current = JournalFile { name, file: None, length, extended: length, marked: 0 };
        journal.synced = journal.head;
        journal.next = None;
        journal.condition = FileCondition::Good;
        Ok(())
    }

    /// The records that are not synced, with a header. Read back from the file with their checksums.
    fn unsynced(&self, journal: &OwnedJournal, name: &FileName) -> Result<Vec<u8>, StoreError> {
        let first = journal.synced.next();
        let mut bytes = Vec::new();
        if journal.head < first {
            return Ok(bytes);
        }
        self.folder.header(name, first).write(&mut bytes);
        let mut last = journal.synced;
        let chain = Chain::open(&self.folder, &[journal.current.name]);
        let copied = chain.and_then(|chain| {
            chain.visit(first, journal.head, |record| {
                copy_record(record.seq, record.entry, &mut bytes);
                last = record.seq;
                Visit::Next
            })
        });
        copied.map_err(|fault| fault.into_error(&journal.session))?;
        if last == journal.head {
            return Ok(bytes);
        }
        let path = self.folder.path_of(&journal.current.name);
        Err(failed("reading back", &path, "what was written last is not there any more"))
    }

    /// The file to write to, open. Others are closed if too many are open.
    fn opened(&self, journal: &mut OwnedJournal) -> io::Result<Arc<File>> {
        journal.last_use = self.uses.fetch_add(1, Ordering::Relaxed);
        if let Some(file) = &journal.current.file {
            return Ok(file.clone());
        }
        if self.open_files.load(Ordering::Relaxed) >= self.max_open_files {
            self.close_unused(journal.key);
        }
        let file = Arc::new(open(&self.folder.path_of(&journal.current.name))?);
        self.open_files.fetch_add(1, Ordering::Relaxed);
        journal.current.file = Some(file.clone());
        Ok(file)
    }

    /// Closes the half of the open files that was not used for longest.
    fn close_unused(&self, except: i64) {
        let journals = self.all();
        let open = |journal: &Arc<Mutex<OwnedJournal>>| {
            let journal = journal.try_lock().ok()?;
            (journal.key != except && journal.current.file.is_some()).then_some(journal.last_use)
        };
        let mut uses: Vec<_> = journals.iter().filter_map(open).collect();
        uses.sort_unstable();
        let Some(limit) = uses.get(uses.len() / 2).copied() else { return };
        for journal in journals {
            if let Ok(mut journal) = journal.try_lock()
                && journal.key != except
                && journal.last_use <= limit
            {
                self.close_file(&mut journal);
            }
        }
    }

    /// Cuts off the zeros behind the last record of a journal that is not written any more.
    pub(super) fn trim(&self, journal: &Mutex<OwnedJournal>) {
        let mut journal = lock(journal);
        let current = &mut journal.current;
        if let Some(file) = current.file.as_ref().filter(|_| current.length < current.extended)
            && file.set_len(current.length).is_ok()
        {
            current.extended = current.length;
        }
    }

    fn close_file(&self, journal: &mut OwnedJournal) {
        if journal.current.file.take().is_some() {
            self.open_files.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn owned(&self) -> MutexGuard<'_, foldhash::HashMap<SessionId, Arc<Mutex<OwnedJournal>>>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the next file from now on, if one is ready, no turn is open, and everything is synced: what follows will
    /// be synced without it.
    pub(super) fn switch_file(&self, journal: &mut OwnedJournal) {
        let settled = journal.turn == TurnState::Closed && journal.synced == journal.head;
        if !settled || journal.current.length == 0 || journal.condition == FileCondition::Unreliable {
            return;
        }
        if let Some(next) = journal.next.take() {
            self.close_file(journal);
            let done = std::mem::replace(&mut journal.current, JournalFile::empty(next));
            journal.earlier.push((done.name, journal.head));
        }
    }
}

fn begins_turn(entries: &[Arc<Entry>]) -> bool {
    entries.iter().any(|entry| matches!(**entry, Entry::TurnStarted { .. }))
}

/// Why a sync failed.
pub(super) enum SyncFault {
    /// Nothing was synced.
    Refused(StoreError),
    /// It is not known what was synced.
    Unreliable(StoreError),
}

impl OwnedJournal {
    /// Refuses an append of a lease that is not in force, or at another place.
    pub(super) fn check(&self, append: &Append) -> Result<(), StoreError> {
        let found = self.replaced_by.unwrap_or(self.epoch);
        if found != append.epoch {
            let (session, held) = (append.session.clone(), append.epoch);
            return Err(StoreError::StaleEpoch { session, held, found });
        }
        if self.head != append.expected {
            let (session, expected) = (append.session.clone(), append.expected);
            return Err(StoreError::MovedOn { session, expected, found: self.head });
        }
        Ok(())
    }

    /// Refuses a lease that is not in force.
    pub(super) fn check_epoch(&self, lease: &Lease) -> Result<(), StoreError> {
        let found = self.replaced_by.unwrap_or(self.epoch);
        if found == lease.epoch {
            return Ok(());
        }
        Err(StoreError::StaleEpoch { session: lease.session.clone(), held: lease.epoch, found })
    }

    fn note_turn(&mut self, entries: &[Arc<Entry>]) {
        for entry in entries {
            if let Entry::TurnStarted { .. } = **entry {
                self.turn = TurnState::Open;
            } else if let Entry::TurnEnded { .. } = **entry {
                self.turn = TurnState::Closed;
            }
        }
    }

    /// Whether a file must be made before anything can be written.
    pub(super) fn needs_file(&self) -> bool {
        match self.condition {
            FileCondition::Good => false,
            FileCondition::Missing | FileCondition::Unclaimed | FileCondition::Unreliable => true,
        }
    }

    /// Whether no file has been made so far.
    pub(super) fn has_no_file(&self) -> bool {
        matches!(self.condition, FileCondition::Missing | FileCondition::Unclaimed)
    }

    /// Whether the session is still to be claimed.
    pub(super) fn is_unclaimed(&self) -> bool {
        self.condition == FileCondition::Unclaimed
    }

    /// Notes that the session is claimed. `journal` is the id of its files, `earlier` are those of former owners, of which
    /// the entries up to `synced` are synced.
    pub(super) fn claimed(&mut self, journal: FileId, earlier: Vec<(FileName, Seq)>, synced: Seq) {
        self.current.name.journal = journal;
        self.earlier = earlier;
        self.synced = synced;
        self.condition = FileCondition::Missing;
    }

    /// The files of former owners, if they are not known to be synced. A journal that has a file of its own has synced them
    /// before.
    pub(super) fn unsynced_leftovers(&self) -> Option<Vec<FileName>> {
        let unsynced = self.condition == FileCondition::Missing && self.synced < self.head;
        unsynced.then(|| self.earlier.iter().map(|(name, _)| *name).collect())
    }

    /// Notes that the files of former owners, which end with this entry, are synced, or that a synced copy has replaced them.
    pub(super) fn leftovers_secured(&mut self, last: Seq, copy: Option<FileName>) {
        self.synced = self.synced.max(last);
        if let Some(copy) = copy {
            self.earlier = vec![(copy, last)];
        }
    }

    /// Whether entries between two turns are not synced.
    pub(super) fn needs_sync_between_turns(&self) -> bool {
        self.turn == TurnState::Closed && self.synced < self.head
    }

    /// The last synced entry.
    pub(super) fn synced(&self) -> Seq {
        self.synced
    }

    /// The name for another file of this owner.
    pub(super) fn next_name(&self) -> FileName {
        let last = self.next.unwrap_or(self.current.name);
        FileName { number: last.number + 1, ..last }
    }

    /// Whether the current file has no entry.
    pub(super) fn is_empty(&self) -> bool {
        self.current.length == 0
    }

    /// Whether another file is ready.
    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Has another file ready.
    pub(super) fn set_next(&mut self, name: FileName) {
        self.next = Some(name);
    }

    /// The files that have only entries up to this one, and are not written any more.
    pub(super) fn covered_by(&self, upto: Seq) -> Vec<FileName> {
        self.earlier.iter().filter(|(_, last)| *last <= upto).map(|(name, _)| *name).collect()
    }

    pub(super) fn forget_files(&mut self, names: &[FileName]) {
        self.earlier.retain(|(name, _)| !names.contains(name));
    }

    /// The files without an entry.
    pub(super) fn empty_files(&self) -> Vec<FileName> {
        let current = (self.current.length == 0 && !self.has_no_file()).then_some(self.current.name);
        current.into_iter().chain(self.next).collect()
    }
}

impl JournalFile {
    fn empty(name: FileName) -> Self {
        Self { name, file: None, length: 0, extended: 0, marked: 0 }
    }

    /// Whether there is little room for a turn behind what is appended. The first turn of a file needs none: many sessions have
    /// no other.
    fn needs_room(&self, appended: usize) -> bool {
        self.length > 0 && self.length + appended as u64 + LEAST_ROOM > self.extended
    }
}

impl ChainFault {
    /// The error of the store for a session.
    pub(super) fn into_error(self, session: &SessionId) -> StoreError {
        match self {
            Self::Vanished(path) => StoreError::Damaged {
                session: session.clone(),
                at: Seq(0),
                source: format!("the file {} is missing", path.display()).into(),
            },
            Self::Damaged { at, cause } => {
                StoreError::Damaged { session: session.clone(), at, source: cause.into() }
            }
            Self::Io(path, error) => failed("reading", &path, error),
        }
    }
}

/// Locks one journal.
pub(super) fn lock(journal: &Mutex<OwnedJournal>) -> MutexGuard<'_, OwnedJournal> {
    // A panic leaves a journal that is at most behind its file.
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an empty file with this name or the next free number, and syncs its folder. An attempt that was cut short may have
/// left a file. If the file cannot be registered, it must stay: a commit that failed may still be found in the log after
/// a crash.
pub(super) fn make(folder: &JournalFolder, mut name: FileName) -> Result<FileName, StoreError> {
    loop {
        let path = folder.path_of(&name);
        match OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(&path) {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => name.number += 1,
            Err(error) => return Err(failed("creating", &path, error)),
        }
    }
    let synced = File::open(folder.path()).and_then(|folder| folder.sync_all());
    synced.map_err(|error| {
        folder.remove(&[name]);
        failed("syncing", folder.path(), error)
    })?;
    Ok(name)
}

fn open(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Half of what the system allows: the other half is for agents, clients and the database.
fn max_open_files() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for the call.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    match usize::try_from(limit.rlim_cur) {
        Ok(allowed) if answer == 0 => (allowed / 2).max(16),
        Ok(_) | Err(_) => DEFAULT_OPEN_FILES,
    }
}
