//! Which store a command uses: `--store`, else `RETHREAD_STORE`, else `store` in the configuration, else the embedded store in
//! the data folder. A password is never shown.

use std::sync::{Arc, OnceLock};

use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::memory::MemoryStore;
use rethread::store::postgres::{Patience, PostgresAddress, PostgresStore};
use rethread::store::{OpenOutcome, Store, StoreError};

use crate::config;
use crate::environment;
use crate::failure::{ExitCode, Failure};
use crate::paths::Paths;

/// The variable that names a store.
pub(crate) const STORE_VARIABLE: &str = "RETHREAD_STORE";

/// The word for the embedded store.
const EMBEDDED: &str = "embedded";

/// What `--store` says, for the whole process.
static OPTION: OnceLock<String> = OnceLock::new();

/// The store of a command.
#[derive(Clone, Debug)]
pub(crate) enum StoreChoice {
    /// The embedded one.
    Embedded(EmbeddedPaths),
    /// A PostgreSQL database.
    Postgres(Box<PostgresAddress>),
}

/// Notes what the command line says.
pub(crate) fn set_option(store: Option<String>) {
    if let Some(store) = store {
        // It is set once, before a command runs.
        let _ = OPTION.set(store);
    }
}

impl StoreChoice {
    /// The store that is chosen.
    pub(crate) fn read(paths: &Paths) -> Result<Self, Failure> {
        let named = OPTION.get().cloned().or_else(|| environment::variable(STORE_VARIABLE));
        let named = match named {
            Some(named) => Some(named),
            None => config::store_address(&paths.config())?,
        };
        named.map_or_else(|| Ok(Self::Embedded(paths.store())), |named| Self::parse(&named, paths))
    }

    /// The store with this name: `embedded`, or the address of a database.
    pub(crate) fn parse(named: &str, paths: &Paths) -> Result<Self, Failure> {
        if named == EMBEDDED {
            return Ok(Self::Embedded(paths.store()));
        }
        let address: PostgresAddress =
            named.parse().map_err(|error: rethread::store::postgres::AddressError| {
                Failure::new(ExitCode::Store, error.to_string()).hint(error.hint())
            })?;
        Ok(Self::Postgres(Box::new(address)))
    }

    /// The address for people and for comparing, without a password; nothing for the embedded store.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Embedded(_) => None,
            Self::Postgres(address) => Some(address.to_string()),
        }
    }

    /// The password, which is removed from logs.
    pub(crate) fn password(&self) -> Option<String> {
        match self {
            Self::Embedded(_) => None,
            Self::Postgres(address) => address.password(),
        }
    }

    /// Opens the store. If there is no embedded one yet, it is created.
    pub(crate) fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        match self {
            Self::Embedded(paths) => {
                EmbeddedStore::create_files(paths)?;
                Ok(Arc::new(EmbeddedStore::open(paths)?))
            }
            Self::Postgres(address) => Ok(Arc::new(PostgresStore::open(address)?)),
        }
    }

    /// Opens the store. If there is no embedded one yet, an empty one is returned, and no file is created.
    pub(crate) fn open_existing(&self) -> Result<Arc<dyn Store>, Failure> {
        if let Self::Embedded(paths) = self {
            let exists = paths.database.try_exists().map_err(|error| {
                Failure::new(ExitCode::Store, format!("opening {} failed: {error}", paths.database.display()))
            })?;
            if !exists {
                return Ok(Arc::new(MemoryStore::new()));
            }
        }
        self.open()
    }

    /// Opens the store in the background. The second value tells when it is open, or why it cannot be opened.
    pub(crate) fn open_in_background(
        &self,
        patience: Patience,
        sync: SyncIn,
    ) -> Result<(Arc<dyn Store>, OpenOutcome), StoreError> {
        match self {
            Self::Embedded(paths) => {
                let (store, opened) = EmbeddedStore::open_in_background(paths)?;
                let store = match sync {
                    SyncIn::Place => store.sync_in_place(),
                    SyncIn::Thread => store,
                };
                Ok((Arc::new(store), opened))
            }
            Self::Postgres(address) => {
                let (store, opened) = PostgresStore::open_in_background(address, patience)?;
                Ok((Arc::new(store), opened))
            }
        }
    }
}

/// Where the embedded store syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncIn {
    /// On the thread that appends: a process with one client.
    Place,
    /// On a thread of its own.
    Thread,
}
