//! Writes appends: a few connections, each with a queue. What waits goes in one statement, many sessions at once, so that
//! they share a commit. The statement fences and numbers: it changes the lease only where epoch and head are as expected, and
//! inserts only what belongs to the leases that it changed.
//!
//! If a connection is lost, nobody knows whether the statement was carried out. Then the heads are read, and what is not
//! there is sent again. Nobody is told anything before that.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use deadpool_postgres::Transaction;
use rethread_core::Seq;
use rethread_core::lease::{LeaseRecord, LeaseRefusal, LostAppend};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::database::{BackOff, Database, WAIT_LIMIT, no_answer};
use super::fault::{NextStep, PgFault};
use crate::store::integers::{from_sql, seq_from_sql, seq_to_sql, to_sql};

/// The connections that write.
const CONNECTIONS: usize = 4;
/// The appends that wait for a connection; further ones wait to get there.
const QUEUE: usize = 256;
/// The statements of a connection that are under way: while one commits, the next is sent.
const FLIGHTS: usize = 2;
/// The limits of one statement.
const MAX_APPENDS: usize = 256;
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The first four parameters are the leases, the next three the entries.
const APPEND: &str = "WITH own AS (
        UPDATE rethread.lease AS l SET head = l.head + w.added
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS w (session, epoch, head, added)
        WHERE l.session = w.session AND l.epoch = w.epoch AND l.head = w.head
        RETURNING l.session
    ), added AS (
        INSERT INTO rethread.tail (session, seq, entry)
        SELECT e.session, e.seq, e.entry
        FROM unnest($5::bigint[], $6::bigint[], $7::bytea[]) AS e (session, seq, entry) JOIN own USING (session)
    )";

/// What follows without changes of rows.
const PLAIN_END: &str = " SELECT session FROM own";

/// What follows with changes of rows, and with the sessions that have something to be indexed.
const ROW_END: &str = ", pending AS (
        INSERT INTO rethread.search_pending (session) SELECT session FROM own WHERE session = ANY ($8::bigint[])
    ), row AS (
        UPDATE rethread.session AS s SET
            title = CASE WHEN c.title_by <= coalesce(s.title_by, 9) THEN c.title ELSE s.title END,
            title_by = CASE WHEN c.title_by <= coalesce(s.title_by, 9) THEN c.title_by ELSE s.title_by END,
            roots = CASE WHEN c.roots IS NULL THEN s.roots ELSE ARRAY(SELECT jsonb_array_elements_text(c.roots::jsonb)) END,
            listed = s.listed OR c.listed,
            cwd = coalesce(c.cwd, s.cwd),
            agent_name = CASE WHEN c.named THEN c.agent_name ELSE s.agent_name END,
            updated_at = CASE WHEN c.at IS NULL THEN s.updated_at ELSE greatest(s.updated_at, c.at, 1 + greatest(
                (SELECT o.updated_at FROM rethread.session AS o WHERE o.listed AND o.deleted_at IS NULL AND NOT o.archived
                    AND o.key <> s.key ORDER BY o.updated_at DESC LIMIT 1),
                (SELECT o.updated_at FROM rethread.session AS o WHERE o.listed AND o.deleted_at IS NULL AND o.archived
                    AND o.key <> s.key ORDER BY o.updated_at DESC LIMIT 1))) END,
            changed_in = pg_current_xact_id()::text::bigint
        FROM unnest($9::bigint[], $10::text[], $11::smallint[], $12::text[], $13::boolean[], $14::text[], $15::boolean[],
                    $16::text[], $17::bigint[])
            AS c (session, title, title_by, roots, listed, cwd, named, agent_name, at)
        JOIN own USING (session)
        WHERE s.key = c.session AND s.deleted_at IS NULL
    ) SELECT session FROM own";

/// An append to one session, encoded.
pub(super) struct EncodedAppend {
    pub(super) key: i64,
    pub(super) epoch: u64,
    pub(super) expected: Seq,
    pub(super) entries: Vec<Vec<u8>>,
    pub(super) row: Option<RowColumnChange>,
    /// Whether something has ended that is to be indexed.
    pub(super) ends_turn: bool,
}

/// Changes of a session's row, as the columns have them.
#[derive(Default)]
pub(super) struct RowColumnChange {
    pub(super) title: Option<(String, i16)>,
    /// A list in JSON.
    pub(super) roots: Option<String>,
    pub(super) listed: bool,
    pub(super) cwd: Option<String>,
    pub(super) agent_name: Option<Option<String>>,
    pub(super) at: Option<i64>,
}

/// Whether an append was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It is stored.
    Yes,
    /// Epoch or head were not as expected.
    No,
}

struct QueuedAppend {
    append: EncodedAppend,
    reply: oneshot::Sender<Result<Accepted, PgFault>>,
}

impl EncodedAppend {
    fn bytes(&self) -> usize {
        self.entries.iter().map(Vec::len).sum()
    }

    fn count(&self) -> u64 {
        self.entries.len() as u64
    }
}

/// The connections that write appends.
pub(super) struct Writers {
    queues: Vec<mpsc::Sender<QueuedAppend>>,
}

impl Writers {
    /// Starts the writers. They connect with their first append, and end when this is dropped.
    pub(super) fn start(database: &Rc<Database>) -> Self {
        let start = |_| {
            let (sender, queue) = mpsc::channel(QUEUE);
            let writer = Rc::new(Writer {
                database: database.clone(),
                client: RefCell::default(),
                connecting: Default::default(),
            });
            tokio::task::spawn_local(writer.run(queue));
            sender
        };
        Self { queues: (0..CONNECTIONS).map(start).collect() }
    }

    /// Writes an append. All appends of a session use the same connection.
    pub(super) async fn append(&self, append: EncodedAppend) -> Result<Accepted, PgFault> {
        let (reply, answer) = oneshot::channel();
        let at = usize::try_from(append.key).unwrap_or(0) % self.queues.len();
        let ended = || PgFault::NoConnection("the store is closed".to_owned());
        self.queues[at].send(QueuedAppend { append, reply }).await.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// One connection.
struct Writer {
    database: Rc<Database>,
    client: RefCell<Option<Rc<PreparedClient>>>,
    connecting: tokio::sync::Mutex<()>,
}

struct PreparedClient {
    client: Client,
    plain: Statement,
    with_rows: Statement,
}

impl Writer {
    async fn run(self: Rc<Self>, mut queue: mpsc::Receiver<QueuedAppend>) {
        let flights = std::sync::Arc::new(Semaphore::new(FLIGHTS));
        let mut held = None;
        loop {
            let first = match held.take() {
                Some(held) => Some(held),
                None => queue.recv().await,
            };
            let Some(first) = first else { return };
            // What arrives until the next statement may be sent goes with it.
            let Ok(flight) = flights.clone().acquire_owned().await else { return };
            let (mut bytes, mut batch) = (first.append.bytes(), vec![first]);
            while batch.len() < MAX_APPENDS && bytes < MAX_BYTES {
                let Ok(next) = queue.try_recv() else { break };
                // A statement has one append of a session: an old owner's must not pass for a new owner's.
                if batch.iter().any(|queued| queued.append.key == next.append.key) {
                    held = Some(next);
                    break;
                }
                bytes += next.append.bytes();
                batch.push(next);
            }
            let writer = self.clone();
            tokio::task::spawn_local(async move {
                writer.write(batch).await;
                drop(flight);
            });
        }
    }

    /// Writes a batch until each append of it is stored, refused or given up.
    async fn write(&self, mut batch: Vec<QueuedAppend>) {
        let mut back_off = BackOff::begin();
        let mut sent = false;
        while !batch.is_empty() {
            let fault = match self.attempt(&mut batch, sent).await {
                Ok(stored) => return answer_all(batch, &stored),
                Err(fault) => fault,
            };
            sent = true;
            // An error that is one session's must not be that of the others.
            if fault.next_step() == NextStep::GiveUp && batch.len() > 1 {
                for one in batch {
                    Box::pin(self.write(vec![one])).await;
                }
                return;
            }
            if fault.next_step() == NextStep::Reconnect {
                *self.client.borrow_mut() = None;
            }
            if let Err(fault) = back_off.wait(fault).await {
                return fail_all(batch, &fault);
            }
        }
    }

    /// Sends the statement. If it was sent before, those that it has stored are answered first and taken out.
    async fn attempt(&self, batch: &mut Vec<QueuedAppend>, sent: bool) -> Result<HashSet<i64>, PgFault> {
        let client = self.client().await?;
        if sent {
            settle(&client, batch).await?;
            if batch.is_empty() {
                return Ok(HashSet::new());
            }
        }
        let sending = send(&client, batch);
        timeout(WAIT_LIMIT, sending).await.unwrap_or_else(|_| Err(no_answer(WAIT_LIMIT)))
    }

    async fn client(&self) -> Result<Rc<PreparedClient>, PgFault> {
        let _connecting = self.connecting.lock().await;
        let known = self.client.borrow().clone().filter(|known| !known.client.is_closed());
        if let Some(known) = known {
            return Ok(known);
        }
        let connecting = self.connect();
        let client =
            Rc::new(timeout(WAIT_LIMIT, connecting).await.unwrap_or_else(|_| Err(no_answer(WAIT_LIMIT)))?);
        *self.client.borrow_mut() = Some(client.clone());
        Ok(client)
    }

    async fn connect(&self) -> Result<PreparedClient, PgFault> {
        let client = self.database.connect().await?;
        let (plain, with_rows) = (format!("{APPEND}{PLAIN_END}"), format!("{APPEND}{ROW_END}"));
        let (plain, with_rows) = (client.prepare(&plain).await?, client.prepare(&with_rows).await?);
        Ok(PreparedClient { client, plain, with_rows })
    }
}

/// Reads the heads after a lost answer, and answers what is stored or can never be. The lock waits for a statement that is
/// still being carried out.
async fn settle(client: &PreparedClient, batch: &mut Vec<QueuedAppend>) -> Result<(), PgFault> {
    let keys: Vec<i64> = batch.iter().map(|queued| queued.append.key).collect();
    let sql = "SELECT session, epoch, head FROM rethread.lease WHERE session = ANY ($1) ORDER BY session FOR UPDATE";
    let rows = client.client.query(sql, &[&keys]).await?;
    let record = |row: &tokio_postgres::Row| {
        let (epoch, head) = (from_sql(row.get(1)), seq_from_sql(row.get(2)));
        (row.get::<_, i64>(0), LeaseRecord { epoch, head, host: Some(()) })
    };
    let records: HashMap<i64, _> = rows.iter().map(record).collect();
    for queued in std::mem::take(batch) {
        let append = &queued.append;
        let found = records.get(&append.key);
        match found.map(|record| record.was_stored(append.epoch, append.expected, append.count())) {
            Some(Ok(LostAppend::Stored)) => queued.answer(Accepted::Yes),
            Some(Ok(LostAppend::NotStored)) => batch.push(queued),
            Some(Err(LeaseRefusal::Fenced | LeaseRefusal::MovedOn | LeaseRefusal::Owned)) | None => {
                queued.answer(Accepted::No);
            }
        }
    }
    Ok(())
}

/// Writes an append in a transaction, together with other changes.
pub(super) async fn append_in(tx: &Transaction<'_>, append: &EncodedAppend) -> Result<Accepted, PgFault> {
    let statement = tx.prepare_cached(&format!("{APPEND}{ROW_END}")).await?;
    let appends = [append];
    let (leases, rows) = (LeaseColumns::of(&appends), RowColumns::of(&appends));
    let stored = tx.query(&statement, &[&leases.parameters()[..], &rows.parameters()[..]].concat()).await?;
    Ok(if stored.is_empty() { Accepted::No } else { Accepted::Yes })
}

/// Sends a batch in one statement. Returns the sessions whose append is stored.
async fn send(client: &PreparedClient, batch: &[QueuedAppend]) -> Result<HashSet<i64>, PgFault> {
    let appends: Vec<&EncodedAppend> = batch.iter().map(|queued| &queued.append).collect();
    let leases = LeaseColumns::of(&appends);
    let rows = if appends.iter().any(|append| append.row.is_some() || append.ends_turn) {
        let rows = RowColumns::of(&appends);
        let parameters = [&leases.parameters()[..], &rows.parameters()[..]].concat();
        client.client.query(&client.with_rows, &parameters).await?
    } else {
        client.client.query(&client.plain, &leases.parameters()).await?
    };
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// The leases and the entries, by column.
#[derive(Default)]
struct LeaseColumns<'a> {
    keys: Vec<i64>,
    epochs: Vec<i64>,
    heads: Vec<i64>,
    counts: Vec<i64>,
    owners: Vec<i64>,
    seqs: Vec<i64>,
    entries: Vec<&'a [u8]>,
}

impl<'a> LeaseColumns<'a> {
    fn of(appends: &[&'a EncodedAppend]) -> Self {
        let mut columns = Self::default();
        for append in appends {
            columns.keys.push(append.key);
            columns.epochs.push(to_sql(append.epoch));
            columns.heads.push(seq_to_sql(append.expected));
            columns.counts.push(to_sql(append.count()));
            for (seq, entry) in (append.expected.0 + 1..).zip(&append.entries) {
                columns.owners.push(append.key);
                columns.seqs.push(to_sql(seq));
                columns.entries.push(entry.as_slice());
            }
        }
        columns
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 7] {
        [&self.keys, &self.epochs, &self.heads, &self.counts, &self.owners, &self.seqs, &self.entries]
    }
}

/// The changes of rows, by column.
#[derive(Default)]
struct RowColumns<'a> {
    ended: Vec<i64>,
    keys: Vec<i64>,
    titles: Vec<Option<&'a str>>,
    titles_by: Vec<Option<i16>>,
    roots: Vec<Option<&'a str>>,
    listed: Vec<bool>,
    cwds: Vec<Option<&'a str>>,
    named: Vec<bool>,
    names: Vec<Option<&'a str>>,
    ats: Vec<Option<i64>>,
}

impl<'a> RowColumns<'a> {
    fn of(appends: &[&'a EncodedAppend]) -> Self {
        let mut columns = Self::default();
        for EncodedAppend { key, row, ends_turn, .. } in appends {
            if *ends_turn {
                columns.ended.push(*key);
            }
            let Some(row) = row else { continue };
            columns.keys.push(*key);
            columns.titles.push(row.title.as_ref().map(|(title, _)| title.as_str()));
            columns.titles_by.push(row.title.as_ref().map(|(_, by)| *by));
            columns.roots.push(row.roots.as_deref());
            columns.listed.push(row.listed);
            columns.cwds.push(row.cwd.as_deref());
            columns.named.push(row.agent_name.is_some());
            columns.names.push(row.agent_name.as_ref().and_then(|name| name.as_deref()));
            columns.ats.push(row.at);
        }
        columns
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 10] {
        [
            &self.ended,
            &self.keys,
            &self.titles,
            &self.titles_by,
            &self.roots,
            &self.listed,
            &self.cwds,
            &self.named,
            &self.names,
            &self.ats,
        ]
    }
}

impl QueuedAppend {
    fn answer(self, accepted: Accepted) {
        // A caller that has gone away finds it in the journal.
        let _ = self.reply.send(Ok(accepted));
    }
}

fn answer_all(batch: Vec<QueuedAppend>, stored: &HashSet<i64>) {
    for queued in batch {
        let accepted = if stored.contains(&queued.append.key) { Accepted::Yes } else { Accepted::No };
        queued.answer(accepted);
    }
}

fn fail_all(batch: Vec<QueuedAppend>, fault: &PgFault) {
    for queued in batch {
        let _ = queued.reply.send(Err(fault.again()));
    }
}
