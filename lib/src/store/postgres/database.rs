//! The connections of an open store, except those of the appends: a pool, and transactions that are tried again when that
//! helps. Nothing here depends on the state of a session of the database, so that a pooler may stand in between.

use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts, Transaction,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, IsolationLevel, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::PostgresAddress;
use super::fault::{NextStep, PgFault};
use super::tls;
use crate::store::{DatabaseProblem, StoreError};

/// The connections for everything but appends.
const POOL_SIZE: usize = 8;

/// How long a call waits for a database that is away, before it fails.
pub(super) const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// How often a transaction is tried again that another one was in the way of.
pub(super) const MAX_RETRIES: u32 = 8;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A host that is stopped in the middle of a transaction must not keep its locks, and nobody waits for one without end.
const LIMITS: &str = "-c idle_in_transaction_session_timeout=10000 -c lock_timeout=8000";

/// The parameters of a statement.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connected database.
pub(super) struct Database {
    pub(super) address: PostgresAddress,
    pub(super) config: Config,
    pub(super) connector: MakeRustlsConnect,
    pool: Pool,
}

/// Pauses that grow, within a limit.
pub(super) struct BackOff {
    retries: u32,
    give_up: Instant,
}

impl BackOff {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self { retries: 0, give_up: Instant::now() + WAIT_LIMIT }
    }

    /// Waits before the next attempt. Returns the error if there is none.
    pub(super) async fn wait(&mut self, fault: PgFault) -> Result<(), PgFault> {
        let step = fault.next_step();
        let spent = match step {
            NextStep::Retry => self.retries >= MAX_RETRIES,
            NextStep::Reconnect => Instant::now() >= self.give_up,
            NextStep::GiveUp => true,
        };
        if spent {
            return Err(fault);
        }
        sleep(pause(self.retries)).await;
        self.retries += 1;
        Ok(())
    }
}

/// The pause before an attempt.
pub(super) fn pause(retries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << retries.min(10)).min(LONGEST_PAUSE)
}

impl Database {
    /// Prepares the pool. Connects to nothing yet.
    pub(super) fn new(address: PostgresAddress) -> Result<Self, StoreError> {
        let failed = |problem, source: String| StoreError::Database {
            context: "preparing the store".to_owned(),
            address: address.to_string(),
            problem,
            source: source.into(),
        };
        let connector =
            tls::connector(&address.tls).map_err(|why| failed(DatabaseProblem::Certificate, why))?;
        let mut config = address.config.clone();
        add_options(&mut config, LIMITS);
        let pool = pool(&config, &connector).map_err(|why| failed(DatabaseProblem::Other, why))?;
        Ok(Self { address, config, connector, pool })
    }

    /// Has every commit wait for the disk of the database, also where its settings say otherwise.
    pub(super) fn sync_commits(&mut self) -> Result<(), StoreError> {
        add_options(&mut self.config, "-c synchronous_commit=on");
        let made = pool(&self.config, &self.connector);
        self.pool =
            made.map_err(|why| PgFault::NoConnection(why).at("preparing the store", &self.address))?;
        Ok(())
    }

    /// Runs a transaction that reads one consistent state.
    pub(super) async fn read<T>(
        &self,
        what: &str,
        work: impl AsyncFn(&Transaction<'_>) -> Result<T, PgFault>,
    ) -> Result<T, StoreError> {
        self.retrying(what, async |client: &mut Object| {
            let begin =
                client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
            let tx = begin.start().await?;
            let done = work(&tx).await?;
            tx.commit().await?;
            Ok(done)
        })
        .await
    }

    /// Runs a transaction that writes. If the connection is lost while it commits, it runs again: `work` must notice what it
    /// has done already.
    pub(super) async fn write<T>(
        &self,
        what: &str,
        work: impl AsyncFn(&Transaction<'_>) -> Result<T, PgFault>,
    ) -> Result<T, StoreError> {
        self.retrying(what, async |client: &mut Object| {
            let tx = client.transaction().await?;
            let done = work(&tx).await?;
            tx.commit().await?;
            Ok(done)
        })
        .await
    }

    /// Runs one statement in a transaction of its own, and returns its rows.
    pub(super) async fn query(
        &self,
        what: &str,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.retrying(what, async |client: &mut Object| {
            let statement = client.prepare_cached(sql).await?;
            Ok(client.query(&statement, parameters).await?)
        })
        .await
    }

    /// Runs one statement once, within a time limit.
    pub(super) async fn query_once(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        limit: Duration,
    ) -> Result<Vec<Row>, PgFault> {
        let work = async {
            let client = self.pool.get().await?;
            let statement = client.prepare_cached(sql).await?;
            Ok(client.query(&statement, parameters).await?)
        };
        timeout(limit, work).await.unwrap_or_else(|_| Err(no_answer(limit)))
    }

    /// A connection that is not in the pool.
    pub(super) async fn connect(&self) -> Result<Client, PgFault> {
        let (client, connection) = self.config.connect(self.connector.clone()).await?;
        // Whoever waits for an answer is told of the error.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }

    /// Runs statements once, as they are, on a connection of the pool.
    pub(super) async fn once<T>(
        &self,
        work: impl AsyncFn(&mut Object) -> Result<T, PgFault>,
    ) -> Result<T, PgFault> {
        let mut client = self.pool.get().await?;
        work(&mut client).await
    }

    async fn retrying<T>(
        &self,
        what: &str,
        work: impl AsyncFn(&mut Object) -> Result<T, PgFault>,
    ) -> Result<T, StoreError> {
        let mut back_off = BackOff::begin();
        loop {
            let done = async {
                let mut client = self.pool.get().await?;
                work(&mut client).await
            }
            .await;
            match done {
                Ok(done) => return Ok(done),
                Err(fault) => back_off.wait(fault).await.map_err(|fault| fault.at(what, &self.address))?,
            }
        }
    }
}

fn add_options(config: &mut Config, more: &str) {
    let options = config.get_options().unwrap_or_default().to_owned();
    config.options(format!("{options} {more}").trim_start());
}

/// The error of a database that does not answer in time.
pub(super) fn no_answer(limit: Duration) -> PgFault {
    PgFault::NoConnection(format!("no answer within {} s", limit.as_secs()))
}

fn pool(config: &Config, connector: &MakeRustlsConnect) -> Result<Pool, String> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), connector.clone(), recycling);
    let limits = Timeouts { wait: Some(WAIT_LIMIT), create: Some(WAIT_LIMIT), recycle: Some(WAIT_LIMIT) };
    let builder = Pool::builder(manager).max_size(POOL_SIZE).timeouts(limits).runtime(Runtime::Tokio1);
    builder.build().map_err(|error| error.to_string())
}

/// Runs a statement of a transaction and returns its rows.
pub(super) async fn rows(
    tx: &Transaction<'_>,
    sql: &str,
    parameters: Parameters<'_>,
) -> Result<Vec<Row>, PgFault> {
    let statement = tx.prepare_cached(sql).await?;
    Ok(tx.query(&statement, parameters).await?)
}

/// Runs a statement of a transaction that returns at most one row.
pub(super) async fn row(
    tx: &Transaction<'_>,
    sql: &str,
    parameters: Parameters<'_>,
) -> Result<Option<Row>, PgFault> {
    let statement = tx.prepare_cached(sql).await?;
    Ok(tx.query_opt(&statement, parameters).await?)
}

/// Runs a statement of a transaction and returns how many rows it changed.
pub(super) async fn execute(
    tx: &Transaction<'_>,
    sql: &str,
    parameters: Parameters<'_>,
) -> Result<u64, PgFault> {
    let statement = tx.prepare_cached(sql).await?;
    Ok(tx.execute(&statement, parameters).await?)
}
