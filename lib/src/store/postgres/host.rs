//! This process as a host: its row in the database, and the lease for all of its sessions, which is renewed as long as the
//! store is open. The protocol is in `rethread_core::lease`, the clock of the database decides.

use std::cell::{Cell, RefCell};
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rethread_core::Millis;
use rethread_core::lease::{HostLease, LeaseTerms};
use tokio_postgres::{Client, Row};

use super::database::{Database, Parameters, no_answer};
use super::fault::PgFault;
use super::text_column::{from_column, to_column};
use crate::clock;
use crate::host_deadline::HostDeadline;
use crate::store::integers::from_sql;
use crate::store::process::{self, ProcessIdentity};
use crate::store::{HostContact, HostNumber, OwnedHere, Owner, StoreError};

const TERMS: LeaseTerms = LeaseTerms::STANDARD;

/// How soon a renewal that failed is tried again.
const RENEWAL_PAUSE: u64 = 1000;

/// The columns that [`NamedHost::read`] reads, of a row `h` of host that may be missing and a row `l` of lease.
pub(super) const HOST_COLUMNS: &str = "l.host, coalesce(h.expires_at > clock_timestamp(), false) AS host_valid, \
     h.name AS host_name, h.pid AS host_pid, h.boot AS host_boot, h.process_started AS host_process_started, \
     h.address AS host_address, l.owned_since";

/// This process as a host.
pub(super) struct ThisHost {
    process: ProcessIdentity,
    /// This boot of the machine, and the process ids that are seen here.
    boot: String,
    process_started: i64,
    /// The key of its row, when it is registered.
    key: Cell<Option<i64>>,
    /// Where other hosts reach it.
    address: RefCell<Option<String>>,
    registering: tokio::sync::Mutex<()>,
    lease: RefCell<HostLease>,
    /// The connection for renewals.
    connection: RefCell<Option<Rc<Client>>>,
    /// Until when agents may run, for their guardians.
    deadline: Arc<AtomicU64>,
}

/// The host that a lease names.
pub(super) struct NamedHost {
    pub(super) key: i64,
    valid: bool,
    name: String,
    pid: u32,
    boot: String,
    process_started: i64,
    address: Option<String>,
    since: Millis,
}

impl ThisHost {
    pub(super) fn new(deadline: &HostDeadline) -> Self {
        let process = ProcessIdentity::this();
        let boot = boot_and_processes(&process);
        let process_started = process_start(process.pid).unwrap_or(0);
        Self {
            process,
            boot,
            process_started,
            key: Cell::new(None),
            address: RefCell::default(),
            registering: tokio::sync::Mutex::new(()),
            lease: RefCell::new(HostLease::new(TERMS)),
            connection: RefCell::default(),
            deadline: deadline.shared(),
        }
    }

    /// The key of this host's row. The first call registers it, which grants the lease.
    pub(super) async fn key(&self, database: &Database) -> Result<i64, StoreError> {
        let _registering = self.registering.lock().await;
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let renewal = self.lease.borrow_mut().ask(clock::since_boot());
        let sql = "INSERT INTO rethread.host (name, pid, boot, process_started, expires_at, address)
                   VALUES ($1, $2, $3, $4, clock_timestamp() + $5 * interval '1 millisecond', $6) RETURNING key";
        let (name, boot, address) = self.columns();
        let lease = TERMS.lease as f64;
        let rows = database
            .query(
                "registering a host",
                sql,
                &[&name, &i64::from(self.process.pid), &boot, &self.process_started, &lease, &address],
            )
            .await?;
        let key = rows.first().map_or(0, |row| row.get(0));
        self.key.set(Some(key));
        self.granted(renewal);
        Ok(key)
    }

    /// Writes where other hosts reach this one, and registers it. Warns if another living host has the same address: one of
    /// the two cannot be reached.
    pub(super) async fn advertise(
        &self,
        database: &Database,
        address: String,
    ) -> Result<HostNumber, StoreError> {
        *self.address.borrow_mut() = Some(address.clone());
        let key = self.key(database).await?;
        let sql = "WITH own AS (UPDATE rethread.host SET address = $2 WHERE key = $1)
                   SELECT name, pid FROM rethread.host
                   WHERE address = $2 AND key <> $1 AND expires_at > clock_timestamp()";
        let column = to_column(&address);
        for other in database.query("writing the address of a host", sql, &[&key, &column]).await? {
            let (name, pid) = (from_column(other.get(0)), other.get::<_, i64>(1));
            tracing::warn!(
                "{address} is also the address of process {pid} on {name}; its lease may be of the past"
            );
        }
        Ok(HostNumber(key))
    }

    /// The name, the boot and the address for the row.
    fn columns(&self) -> (String, String, Option<String>) {
        let address = self.address.borrow().as_deref().map(to_column);
        (to_column(&self.process.host), to_column(&self.boot), address)
    }

    /// How often the lease was over before it was granted again.
    pub(super) fn lapses(&self) -> u64 {
        self.lease.borrow().lapses()
    }

    /// The key of this host's row, if it is registered.
    pub(super) fn known_key(&self) -> Option<i64> {
        self.key.get()
    }

    /// Renews the lease when it is time. Ends when `closing` says so.
    pub(super) async fn keep_alive(
        self: Rc<Self>,
        database: Rc<Database>,
        closing: tokio::sync::watch::Receiver<bool>,
    ) {
        let mut closing = closing;
        loop {
            let wait = match self.key.get() {
                Some(_) => clock::since_boot().until(self.lease.borrow().next_renewal()),
                None => RENEWAL_PAUSE,
            };
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait.clamp(10, TERMS.renewal))) => {}
                _ = closing.changed() => return,
            }
            let due = clock::since_boot() >= self.lease.borrow().next_renewal();
            if let Some(key) = self.key.get().filter(|_| due) {
                self.renew(&database, key).await;
            }
        }
    }

    async fn renew(&self, database: &Database, key: i64) {
        let renewal = self.lease.borrow_mut().ask(clock::since_boot());
        // A host that was retired is registered again under its key: what it had was taken from it, by the epoch.
        let sql = "INSERT INTO rethread.host (key, name, pid, boot, process_started, expires_at, address)
                   OVERRIDING SYSTEM VALUE
                   VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 millisecond', $7)
                   ON CONFLICT (key) DO UPDATE SET beat_at = clock_timestamp(), address = excluded.address,
                       expires_at = greatest(host.expires_at, excluded.expires_at)";
        let (name, boot, address) = self.columns();
        let lease = TERMS.lease as f64;
        let limit = Duration::from_millis(TERMS.renewal);
        let parameters: Parameters<'_> =
            &[&key, &name, &i64::from(self.process.pid), &boot, &self.process_started, &lease, &address];
        let renewing = self.send(database, sql, parameters);
        let renewed = tokio::time::timeout(limit, renewing).await.unwrap_or_else(|_| Err(no_answer(limit)));
        if renewed.is_err() {
            self.connection.borrow_mut().take();
        }
        match renewed {
            Ok(_) => self.granted(renewal),
            Err(fault) => {
                let error = fault.at("renewing the lease of this host", &database.address);
                tracing::warn!("{}", crate::wire::with_causes(&error));
                self.lease.borrow_mut().failed(clock::since_boot(), RENEWAL_PAUSE);
            }
        }
    }

    /// Runs a statement on the connection for renewals: they must not wait for other work.
    async fn send(&self, database: &Database, sql: &str, parameters: Parameters<'_>) -> Result<(), PgFault> {
        let known = self.connection.borrow().clone().filter(|known| !known.is_closed());
        let client = match known {
            Some(known) => known,
            None => Rc::new(database.connect().await?),
        };
        *self.connection.borrow_mut() = Some(client.clone());
        client.execute(sql, parameters).await?;
        Ok(())
    }

    fn granted(&self, renewal: rethread_core::lease::Renewal) {
        let mut lease = self.lease.borrow_mut();
        lease.granted(renewal, clock::since_boot());
        self.deadline.store(lease.deadline().0, Ordering::Release);
    }

    /// Removes this host's row, so that nobody waits for its lease.
    pub(super) async fn sign_off(&self, database: &Database, limit: Duration) {
        if let Some(key) = self.key.take() {
            let sql = "DELETE FROM rethread.host WHERE key = $1";
            // Otherwise the lease expires.
            let _ = database.query_once(sql, &[&key], limit).await;
        }
    }

    /// The owner that a lease names, if it is valid and lives as far as this machine can tell.
    pub(super) fn owner(&self, named: Option<NamedHost>) -> Option<Owner> {
        let named = named.filter(|named| named.valid && !self.knows_it_is_gone(named))?;
        let ours = if Some(named.key) == self.key.get() { OwnedHere::Yes } else { OwnedHere::No };
        let number = HostNumber(named.key);
        let contact = named.address.map(|address| HostContact { number, address });
        Some(Owner { pid: named.pid, host: named.name, since: named.since, ours, contact })
    }

    /// Returns whether a host was a process of this machine that does not run any more. Then nobody has to wait for its
    /// lease: its guardians have ended its agents.
    pub(super) fn knows_it_is_gone(&self, named: &NamedHost) -> bool {
        !self.boot.is_empty()
            && named.boot == self.boot
            && (!process::runs(named.pid) || process_start(named.pid) != Some(named.process_started))
    }

    /// The hosts of this machine that have ended without signing off.
    pub(super) async fn gone_here(&self, database: &Database) -> Result<Vec<i64>, PgFault> {
        if self.boot.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT key, pid, process_started FROM rethread.host WHERE boot = $1";
        let rows = database.query_once(sql, &[&to_column(&self.boot)], Duration::from_secs(5)).await?;
        let gone = rows.iter().filter(|row| {
            let pid = u32::try_from(row.get::<_, i64>(1)).unwrap_or(0);
            !process::runs(pid) || process_start(pid) != Some(row.get(2))
        });
        Ok(gone.map(|row| row.get(0)).collect())
    }
}

impl NamedHost {
    /// Reads [`HOST_COLUMNS`].
    pub(super) fn read(row: &Row) -> Option<Self> {
        let key: Option<i64> = row.get("host");
        let name: Option<String> = row.get("host_name");
        Some(Self {
            key: key?,
            valid: row.get("host_valid"),
            name: from_column(name?),
            pid: u32::try_from(row.get::<_, i64>("host_pid")).unwrap_or(0),
            boot: from_column(row.get("host_boot")),
            process_started: row.get("host_process_started"),
            address: row.get::<_, Option<String>>("host_address").map(from_column),
            since: from_sql(row.get::<_, Option<i64>>("owned_since").unwrap_or(0)),
        })
    }
}

/// This boot of the machine, and the namespace of its process ids: a container has process ids of its own.
fn boot_and_processes(process: &ProcessIdentity) -> String {
    let namespace = fs::read_link("/proc/self/ns/pid").ok();
    match namespace.as_ref().and_then(|path| path.to_str()) {
        Some(namespace) if !process.boot.is_empty() => format!("{} {namespace}", process.boot),
        Some(_) | None => String::new(),
    }
}

/// When a process of this machine started, in ticks since the boot: two processes with the same id differ in it.
fn process_start(pid: u32) -> Option<i64> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may have spaces and brackets.
    let (_, fields) = status.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}
