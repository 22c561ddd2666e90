//! An open PostgreSQL store, as its thread has it, and its upkeep.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use rethread_core::SessionId;
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use super::address::PostgresAddress;
use super::changes::ChangeLog;
use super::database::{Database, pause};
use super::fault::NextStep;
use super::host::ThisHost;
use super::lease_doubts::LeaseDoubts;
use super::migrate;
use super::writer::Writers;
use crate::host_deadline::HostDeadline;
use crate::store::StoreError;

/// How often hosts that have ended are looked for, and what has ended is indexed.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// How long signing off may take.
const SIGN_OFF_LIMIT: Duration = Duration::from_secs(1);

/// What to do if the database cannot be reached when the store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Fail.
    None,
    /// Try again and again, with pauses. Other errors still fail.
    UntilReachable,
}

/// An open store.
pub(super) struct OpenDatabase {
    pub(super) database: Rc<Database>,
    pub(super) writers: Writers,
    pub(super) host: Rc<ThisHost>,
    /// The sessions that this process has claimed and not released.
    pub(super) owned: RefCell<HashMap<SessionId, OwnedLease>>,
    /// What may be wrong with them.
    pub(super) doubts: LeaseDoubts,
    pub(super) changes: RefCell<ChangeLog>,
    pub(super) asking_changes: Mutex<()>,
    /// One fold at a time, so that folds do not occupy all cores.
    pub(super) folds: Mutex<()>,
    closing: watch::Sender<bool>,
}

/// A session that this process owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnedLease {
    pub(super) key: i64,
    pub(super) epoch: u64,
}

impl OpenDatabase {
    /// Connects, checks and migrates the database.
    pub(super) async fn open(
        address: PostgresAddress,
        patience: Patience,
        deadline: HostDeadline,
    ) -> Result<Self, StoreError> {
        let mut database = Database::new(address)?;
        let mut attempts = 0;
        let facts = loop {
            match migrate::prepare(&database).await {
                Ok(facts) => break facts,
                Err(fault) if may_wait(&fault, patience) => {
                    let error = fault.at("opening the store", &database.address);
                    tracing::warn!("{}; trying again", crate::wire::with_causes(&error));
                    sleep(pause(attempts + 4)).await;
                    attempts += 1;
                }
                Err(fault) => return Err(fault.at("opening the store", &database.address)),
            }
        };
        if !facts.commits_are_synced {
            database.sync_commits()?;
        }
        let oldest = oldest_transaction(&database).await?;
        let database = Rc::new(database);
        Ok(Self {
            writers: Writers::start(&database),
            database,
            host: Rc::new(ThisHost::new(&deadline)),
            owned: RefCell::default(),
            doubts: LeaseDoubts::default(),
            changes: RefCell::new(ChangeLog::since(oldest)),
            asking_changes: Mutex::default(),
            folds: Mutex::default(),
            closing: watch::Sender::new(false),
        })
    }

    /// Keeps the lease of this host, and settles what hosts that have ended left. Ends when the store is closed.
    pub(super) async fn upkeep(self: Rc<Self>) {
        let alive = self.host.clone().keep_alive(self.database.clone(), self.closing.subscribe());
        tokio::join!(alive, self.clone().clean_up());
    }

    async fn clean_up(self: Rc<Self>) {
        let mut closing = self.closing.subscribe();
        loop {
            tokio::select! {
                () = sleep(UPKEEP_INTERVAL) => {}
                _ = closing.changed() => return,
            }
            // A process that only reads leaves this to those that write.
            if self.host.known_key().is_none() {
                continue;
            }
            for done in [self.clone().release_unknown().await, self.retire_hosts().await] {
                if let Err(error) = done {
                    tracing::warn!("{}", crate::wire::with_causes(&error));
                }
            }
        }
    }

    /// Ends the upkeep.
    pub(super) fn stop_upkeep(&self) {
        self.closing.send_replace(true);
    }

    /// Signs this host off.
    pub(super) async fn close(&self) {
        self.host.sign_off(&self.database, SIGN_OFF_LIMIT).await;
    }
}

fn may_wait(fault: &super::fault::PgFault, patience: Patience) -> bool {
    match patience {
        Patience::None => false,
        Patience::UntilReachable => fault.next_step() == NextStep::Reconnect,
    }
}

/// The oldest transaction that runs. After a restore from a dump, rows may name transactions of another server: they are set
/// back, so that they are not told again and again.
async fn oldest_transaction(database: &Database) -> Result<i64, StoreError> {
    let sql = "WITH later AS (
                   UPDATE rethread.session SET changed_in = 0
                   WHERE changed_in >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
               ) SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
    let rows = database.query("opening the store", sql, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}
