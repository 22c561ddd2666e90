//! Opens an embedded store, at once or on a thread of its own, so that a program can answer before its store is open.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rethread_core::Millis;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::chain::JournalFolder;
use super::fault::{SqliteFault, io_failed};
use super::journal_file::FileId;
use super::journals::OwnedJournals;
use super::open_store::OpenStore;
use super::owner::ThisProcess;
use super::readers::Readers;
use super::rows::{ListTimes, PendingRows};
use super::search::SearchIndex;
use super::upkeep::{Upkeep, UpkeepRequests};
use super::writer::SqliteWriter;
use super::{EmbeddedPaths, StoreError, connection, fault, files, list, migrate};
use crate::store::open_outcome::{OpenOutcome, not_opened};

/// Makes sure that the files of stores are created and connected to one after the other in this process: creating a database
/// file must not release the locks of another store's connection.
static FILES: Mutex<()> = Mutex::new(());

/// A store that is open or is being opened. Dropping it waits for the thread that opens it.
pub(super) struct StoreOpening {
    outcome: Arc<OnceLock<Option<RunningStore>>>,
    thread: Option<JoinHandle<()>>,
}

/// An open store with its upkeep.
pub(super) struct RunningStore {
    // In drop order.
    store: Arc<OpenStore>,
    _upkeep: Upkeep,
}

impl StoreOpening {
    /// A store that is open.
    pub(super) fn done(running: RunningStore) -> Self {
        Self { outcome: Arc::new(OnceLock::from(Some(running))), thread: None }
    }

    /// Starts a thread that opens the store.
    pub(super) fn start(paths: &EmbeddedPaths) -> Result<(Self, OpenOutcome), StoreError> {
        let outcome = Arc::new(OnceLock::new());
        let (report, opened) = oneshot::channel();
        let (paths, place) = (paths.clone(), outcome.clone());
        let database = paths.database.clone();
        let thread = thread::Builder::new().name("store opening".to_owned()).spawn(move || {
            let (running, result) = match open(&paths) {
                Ok(running) => (Some(running), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // It is set only here.
            let _ = place.set(running);
            let _ = report.send(result);
        });
        let thread = thread.map_err(io_failed("starting a thread for", &database))?;
        Ok((Self { outcome, thread: Some(thread) }, OpenOutcome::new(opened)))
    }

    /// The store, if it is open.
    pub(super) fn now(&self) -> Option<&OpenStore> {
        self.outcome.get()?.as_ref().map(|running| &*running.store)
    }

    /// The store as soon as it is open. Blocks.
    pub(super) fn wait(&self) -> Result<&OpenStore, StoreError> {
        self.outcome.wait().as_ref().map(|running| &*running.store).ok_or_else(not_opened)
    }
}

impl Drop for StoreOpening {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic there leaves a store that is not open.
            let _ = thread.join();
        }
    }
}

/// Opens a store, creates or migrates it if necessary, and registers it as an owner.
pub(super) fn open(paths: &EmbeddedPaths) -> Result<RunningStore, StoreError> {
    let database = &paths.database;
    create_files(paths)?;
    let readers = Readers::new(database);
    let (first, (store, newest)) = match open_writer(paths) {
        Ok(first) => {
            let facts = store_facts(&first).map_err(|fault| fault.at("opening", database))?;
            (Some(first), facts)
        }
        Err(error @ StoreError::Unwritable { .. }) => (None, unwritable_facts(&readers, error)?),
        Err(error) => return Err(error),
    };
    let times = ListTimes::default();
    times.saw(newest);
    let folder = Arc::new(JournalFolder::new(paths.journals(), store));
    let requests = Arc::new(UpkeepRequests::default());
    let writer = SqliteWriter::new(database, first, requests.clone())?;
    let this_process = ThisProcess::new(&paths.locks);
    match this_process.register(&writer) {
        // Reading works, and the first write tries again.
        Ok(()) | Err(StoreError::Unwritable { .. }) => {}
        Err(error) => return Err(error),
    }
    let store = Arc::new(OpenStore {
        readers,
        writer,
        journals: OwnedJournals::new(folder),
        rows: PendingRows::default(),
        times,
        search: SearchIndex::new(database),
        writing: Mutex::default(),
        making: Mutex::default(),
        requests,
        this_process,
    });
    let upkeep = Upkeep::start(&store)?;
    Ok(RunningStore { store, _upkeep: upkeep })
}

/// Opens the connection that writes, and migrates the database.
fn open_writer(paths: &EmbeddedPaths) -> Result<Connection, StoreError> {
    let first = connect(&paths.database)?;
    connection::check_file(&first, &paths.database)?;
    migrate::migrate(&first, paths)?;
    Ok(first)
}

/// What is read when a store is opened: its id, and the newest time in lists.
fn store_facts(connection: &Connection) -> Result<(FileId, Millis), SqliteFault> {
    Ok((migrate::store_id(connection)?, list::newest(connection)?))
}

/// The same where nothing can be written. `error` says why, and is returned if the database has to be migrated.
fn unwritable_facts(readers: &Readers, error: StoreError) -> Result<(FileId, Millis), StoreError> {
    let found = readers.read("opening", |tx| match migrate::version(tx)? {
        migrate::LATEST_VERSION => Ok(Some(store_facts(tx)?)),
        _ => Ok(None),
    });
    found?.ok_or(error)
}

/// Creates the folders and the database file if they are missing.
pub(super) fn create_files(paths: &EmbeddedPaths) -> Result<(), StoreError> {
    connection::check_version(&paths.database)?;
    let _turn = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    files::prepare(paths)?;
    files::check_file_system(paths)
}

fn connect(database: &Path) -> Result<Connection, StoreError> {
    let _turn = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    connection::writer(database).map_err(|cause| fault::failed("opening", database, cause))
}
