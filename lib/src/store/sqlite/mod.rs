//! The embedded store: one SQLite file that several processes share. Owns the file, its lock files and two
//! kinds of connection; what is done on them stands in the modules below, one file per kind of work.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rethread_core::{Millis, Seq, SessionId};
use rusqlite::Connection;

use self::checkpoint::Checkpoints;
use self::owner::Ourselves;
use self::readers::Readers;
use self::writer::Writer;
use super::cursor::Cursor;
use super::{
    Append, Archived, ArchivedFilter, Deleted, Durability, Lease, ListPage, ListQuery, NativeId, NewSession,
    Ours, Owner, Reached, RowFacts, See, SessionRow, Store, StoreError, Stub,
};

mod append;
mod checkpoint;
mod connection;
mod fault;
mod files;
mod fold;
mod list;
mod locks;
mod migrate;
mod number;
mod owner;
mod profile;
mod read;
mod readers;
mod row;
mod segment;
mod session;
mod stubs;
mod writer;

/// Where an embedded store lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlitePaths {
    /// The database file. SQLite keeps two more beside it.
    pub database: PathBuf,
    /// The directory of the lock files. All processes that share the database must name the same.
    pub locks: PathBuf,
}

/// An open embedded store. Each is an owner of its own, also within one process.
pub struct SqliteStore {
    // In the order in which they are let go of: the lock comes last.
    readers: Readers,
    writer: Writer,
    _checkpoints: Checkpoints,
    ourselves: Ourselves,
}

impl SqliteStore {
    /// Opens the database, makes or migrates it where needed, and enters as an owner.
    pub fn open(paths: &SqlitePaths) -> Result<Self, StoreError> {
        let database = &paths.database;
        connection::check_version(database)?;
        let first = prepare_and_connect(paths)?;
        connection::check_file(&first, database)?;
        migrate::migrate(&first, database)?;
        let checkpoints = Checkpoints::start(database)?;
        let writer = Writer::new(database, first, checkpoints.growth().clone())?;
        let ourselves = Ourselves::enter(&writer, &paths.locks)?;
        Ok(Self { readers: Readers::new(database), writer, _checkpoints: checkpoints, ourselves })
    }
}

/// Makes the files and opens the first connection, one store of this process at a time: while a new database file
/// is made, no other store may have a connection to it, or it would lose its locks.
fn prepare_and_connect(paths: &SqlitePaths) -> Result<Connection, StoreError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    files::prepare(paths)?;
    connection::writer(&paths.database).map_err(|cause| fault::failed("opening", &paths.database, cause))
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // If it fails, the lock file still tells that we are gone.
        let _ = self.ourselves.leave(&self.writer);
    }
}

impl Store for SqliteStore {
    fn create(&self, new: NewSession) -> Result<Lease, StoreError> {
        self.writer.write("creating a session in", |tx| session::create(tx, &self.ourselves, &new))
    }

    fn claim(&self, session: &SessionId) -> Result<Lease, StoreError> {
        self.writer.write("claiming a session in", |tx| session::claim(tx, &self.ourselves, session))
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
        see: See<'_>,
    ) -> Result<Reached, StoreError> {
        self.readers.read("reading", |tx| read::walk(tx, session, from, budget, see))
    }

    fn fold(&self, lease: &Lease, upto: Seq) -> Result<(), StoreError> {
        fold::fold(&self.writer, &self.readers, lease, upto)
    }

    fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.readers.read("reading", |tx| row::find(tx, &self.ourselves, session))
    }

    fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        let after = query.after.as_deref().map(Cursor::decode).transpose()?;
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
