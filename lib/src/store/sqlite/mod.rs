//! The SQLite store: one database file that several processes share. Owns the file, the lock files and the connections;
//! each kind of operation has its own module.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rethread_core::{Millis, Seq, SessionId};
use rusqlite::Connection;

use self::checkpoint::Checkpoints;
use self::owner::ThisProcess;
use self::readers::Readers;
use self::writer::SqliteWriter;
use super::cursor::ListCursor;
use super::{
    Append, Archived, ArchivedFilter, Deleted, Durability, ItemVisitor, Lease, ListPage, ListQuery, NativeId,
    NewSession, OwnedHere, Owner, ReadProgress, RowFacts, SessionRow, Store, StoreError, Stub,
};

mod append;
mod checkpoint;
mod connection;
mod fault;
mod files;
mod fold;
mod integers;
mod list;
mod locks;
mod migrate;
mod owner;
mod profile;
mod read;
mod readers;
mod row;
mod segment;
mod session;
mod stubs;
mod writer;

/// The file locations of a SQLite store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlitePaths {
    /// The database file. SQLite keeps two more files beside it.
    pub database: PathBuf,
    /// The directory of the lock files. All processes that share the database must use the same one.
    pub locks: PathBuf,
}

/// An open SQLite store. Each store is a separate owner, even within one process.
pub struct SqliteStore {
    // In drop order: the lock must be released last.
    readers: Readers,
    writer: SqliteWriter,
    _checkpoints: Checkpoints,
    this_process: ThisProcess,
}

impl SqliteStore {
    /// Opens the database, creates or migrates it if necessary, and registers this store as an owner.
    pub fn open(paths: &SqlitePaths) -> Result<Self, StoreError> {
        let database = &paths.database;
        connection::check_version(database)?;
        let first = prepare_and_connect(paths)?;
        connection::check_file(&first, database)?;
        migrate::migrate(&first, database)?;
        let checkpoints = Checkpoints::start(database)?;
        let writer = SqliteWriter::new(database, first, checkpoints.growth().clone())?;
        let this_process = ThisProcess::register(&writer, &paths.locks)?;
        Ok(Self { readers: Readers::new(database), writer, _checkpoints: checkpoints, this_process })
    }
}

/// Creates the files and opens the first connection, one store of this process at a time: creating the file must not
/// release the locks of another store's connection.
fn prepare_and_connect(paths: &SqlitePaths) -> Result<Connection, StoreError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    files::prepare(paths)?;
    connection::writer(&paths.database).map_err(|cause| fault::failed("opening", &paths.database, cause))
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // If this fails, the lock file still shows that this process has ended.
        let _ = self.this_process.unregister(&self.writer);
    }
}

impl Store for SqliteStore {
    fn create(&self, new: NewSession) -> Result<Lease, StoreError> {
        self.writer.write("creating a session in", |tx| session::create(tx, &self.this_process, &new))
    }

    fn claim(&self, session: &SessionId) -> Result<Lease, StoreError> {
        self.writer.write("claiming a session in", |tx| session::claim(tx, &self.this_process, session))
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.writer.write("releasing a session in", |tx| session::release(tx, lease))
    }

    fn append(&self, appends: &[Append]) -> Vec<Result<(), StoreError>> {
        append::append(&self.writer, appends)
    }

    fn walk(
        &self,
        session: &SessionId,
        from: Seq,
        budget: usize,
        visit: ItemVisitor<'_>,
    ) -> Result<ReadProgress, StoreError> {
        self.readers.read("reading", |tx| read::walk(tx, session, from, budget, visit))
    }

    fn fold(&self, lease: &Lease, upto: Seq) -> Result<(), StoreError> {
        fold::fold(&self.writer, &self.readers, lease, upto)
    }

    fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.readers.read("reading", |tx| row::find(tx, &self.this_process, session))
    }

    fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        let after = query.after.as_deref().map(ListCursor::decode).transpose()?;
        self.readers.read("listing", |tx| list::list(tx, query, after.as_ref()))
    }

    fn set_title(&self, session: &SessionId, title: &str) -> Result<(), StoreError> {
        self.writer.write("renaming a session in", |tx| session::set_title(tx, session, title))
    }

    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> Result<(), StoreError> {
        self.writer.write("archiving in", |tx| session::set_archived(tx, session, archived, at))
    }

    fn delete(&self, session: &SessionId, at: Millis) -> Result<(), StoreError> {
        self.writer.write("deleting in", |tx| session::delete(tx, session, at))
    }

    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> Result<(), StoreError> {
        self.writer.write("listing an agent's sessions in", |tx| stubs::add(tx, agent, stubs))
    }

    fn profile(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.readers.read("reading", |tx| profile::find(tx, key))
    }

    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> Result<(), StoreError> {
        self.writer.write("saving an agent profile in", |tx| profile::remember(tx, key, profile, at))
    }
}
