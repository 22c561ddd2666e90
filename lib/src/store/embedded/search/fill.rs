//! Adds to the index what is missing: reads journals behind what is indexed of them, and writes rows in short transactions.
//! Needs no ownership. Several processes may do it at once: a row is added once, and nothing is added to a journal that was
//! erased meanwhile.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rethread_core::{Seq, TurnNo, fold};
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::erase::ErasureLimit;
use super::index_file::{IfMissing, IndexFile};
use super::journal_facts::{JournalFacts, JournalLiveness, ShownAs};
use super::{IndexFault, ProgressSink, SearchIndex, message_row};
use crate::lock::locked;
use crate::store::embedded::fault::SqliteFault;
use crate::store::embedded::integers::{from_sql, seq_from_sql, seq_to_sql, to_sql};
use crate::store::embedded::open_store::OpenStore;
use crate::store::texts::{ReadUpTo, TextReader, TextRow};
use crate::store::{IndexProgress, Page, StoreError};

/// How much of a journal is read at once.
const PAGE_BYTES: usize = 512 * 1024;

/// The limits of a transaction, so that it holds the lock for a few milliseconds.
const BATCH_BYTES: usize = 128 * 1024;
const BATCH_ROWS: usize = 200;

/// How many sessions are looked at before that is noted.
const NOTE_EVERY: usize = 200;

/// What the index has of a journal.
#[derive(Debug, Default)]
pub(super) struct IndexedJournal {
    version: i64,
    shown: i64,
    cut: i64,
    scope: String,
    pub(super) tokens: String,
    upto: ReadUpTo,
    state: String,
}

/// Rows of one journal that are to be written.
struct JournalPart {
    key: i64,
    version: i64,
    shown: ShownAs,
    rows: Vec<TextRow>,
    upto: ReadUpTo,
    /// Set with the last rows.
    state: Option<String>,
}

/// The sessions to look at.
struct VisitList {
    /// With the revision of the row, in its order.
    changed: Vec<(i64, i64)>,
    others: BTreeSet<i64>,
    pending: Vec<i64>,
    revision: i64,
}

impl OpenStore {
    /// Indexes all turns that have ended and are not indexed. Returns the sessions that the store has on its list of those
    /// to be indexed again, and that are.
    pub(super) fn fill_index(
        &self,
        index: &SearchIndex,
        progress: ProgressSink<'_>,
    ) -> Result<Vec<i64>, IndexFault> {
        let _filling = locked(&index.filling);
        self.try_write_pending();
        // Before anything is read: what is dropped or erased meanwhile must not be added to a newer index.
        let generation = self.index_generation()?;
        let mut filler = Filler { store: self, index, generation, parts: Vec::new(), bytes: 0, rows: 0 };
        let revision = filler.in_index(IndexFile::revision)?;
        let list = self.readers.read("reading", |tx| visit_list(tx, revision))?;
        let total = list.changed.len() + list.others.len();
        let mut done = 0;
        for key in &list.others {
            filler.add(*key, &mut |_| ControlFlow::Continue(()))?;
            done += 1;
            progress(IndexProgress { done, total });
        }
        for (key, revision) in &list.changed {
            filler.add(*key, &mut |_| ControlFlow::Continue(()))?;
            done += 1;
            if done % NOTE_EVERY == 0 {
                filler.note_revision(*revision)?;
            }
            progress(IndexProgress { done, total });
        }
        filler.note_revision(list.revision)?;
        Ok(list.pending)
    }

    /// Indexes a part of one session. Returns whether there is more.
    pub(super) fn fill_some(&self, key: i64) -> Result<bool, IndexFault> {
        let generation = self.index_generation()?;
        let index = &self.search;
        let mut filler = Filler { store: self, index, generation, parts: Vec::new(), bytes: 0, rows: 0 };
        let mut more = false;
        filler.add(key, &mut |page| {
            more = !page.end;
            ControlFlow::Break(())
        })?;
        filler.flush()?;
        Ok(more)
    }

    pub(super) fn facts_of(&self, key: i64) -> Result<Option<JournalFacts>, StoreError> {
        self.readers.read("reading", |tx| self.journal_facts(tx, key))
    }
}

fn visit_list(tx: &Transaction<'_>, since: i64) -> Result<VisitList, SqliteFault> {
    let keys = |sql: &str| -> Result<Vec<i64>, SqliteFault> {
        let mut statement = tx.prepare_cached(sql)?;
        let keys = statement.query_map([], |row| row.get(0))?;
        Ok(keys.collect::<Result<_, _>>()?)
    };
    let sql =
        "SELECT key, revision FROM session WHERE revision > ?1 AND journal IS NOT NULL ORDER BY revision";
    let mut statement = tx.prepare_cached(sql)?;
    let changed = statement.query_map([since], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let changed: Vec<(i64, i64)> = changed.collect::<Result<_, _>>()?;
    let pending = keys("SELECT session FROM search_pending")?;
    // What is in journal files may be newer than the row.
    let live = keys("SELECT DISTINCT session FROM journal_file")?;
    let seen: BTreeSet<i64> = changed.iter().map(|(key, _)| *key).collect();
    let others = pending.iter().chain(&live).copied().filter(|key| !seen.contains(key)).collect();
    let revision = tx.query_row("SELECT coalesce(max(revision), -1) FROM session", [], |row| row.get(0))?;
    Ok(VisitList { changed, others, pending, revision })
}

/// Whether to go on reading a journal after a page.
type AfterPage<'a> = &'a mut dyn FnMut(&Page) -> ControlFlow<()>;

/// Collects rows of several journals and writes them together.
struct Filler<'a> {
    store: &'a OpenStore,
    index: &'a SearchIndex,
    generation: i64,
    parts: Vec<JournalPart>,
    bytes: usize,
    rows: usize,
}

impl Filler<'_> {
    fn in_index<R>(&self, work: impl FnOnce(&IndexFile) -> Result<R, IndexFault>) -> Result<R, IndexFault> {
        let done = self.index.with(self.generation, IfMissing::Create, work)?;
        done.ok_or(IndexFault::Failed(rusqlite::Error::QueryReturnedNoRows))
    }

    /// Reads what is missing of a journal.
    fn add(&mut self, key: i64, after_page: AfterPage<'_>) -> Result<(), IndexFault> {
        let mut known = self.in_index(|index| index.indexed(key))?;
        let facts = self.store.facts_of(key)?;
        if !known.fits(facts.as_ref()) {
            self.in_index(|index| index.erase(&[key], ErasureLimit::None))?;
            known = self.in_index(|index| index.indexed(key))?;
        }
        match facts {
            Some(facts) if facts.state != known.state => self.read(&facts, &known, after_page),
            Some(_) | None => Ok(()),
        }
    }

    fn read(
        &mut self,
        facts: &JournalFacts,
        known: &IndexedJournal,
        after_page: AfterPage<'_>,
    ) -> Result<(), IndexFault> {
        let cut = facts.shown.cut;
        let mut reader = TextReader::after(known.upto);
        let mut from = known.upto.seq.max(facts.after).next();
        while from <= cut {
            let Some(page) = self.page(facts, from)? else { break };
            let mut items = page.decode().or_else(|error| skip_damage(error).map(|()| Vec::new()))?;
            items.retain(|item| item.first <= cut);
            from = page.next;
            let upto = Seq(from.0 - 1).min(cut);
            reader.read(&fold(&items), upto);
            // A turn that is not complete has to be read again, so that what stops must have got on.
            let got_on = reader.done().seq > known.upto.seq;
            let stop = page.end || (got_on && after_page(&page).is_break());
            if page.end && facts.liveness == JournalLiveness::AtRest {
                reader.end(upto);
            }
            self.push(facts, known.version, &mut reader, None)?;
            if stop {
                let state = page.end.then(|| facts.state.clone());
                return self.push(facts, known.version, &mut reader, state);
            }
        }
        reader.end(Seq(from.0 - 1).min(cut));
        self.push(facts, known.version, &mut reader, Some(facts.state.clone()))
    }

    /// Reads a page. A journal that is damaged or was deleted meanwhile ends there.
    fn page(&self, facts: &JournalFacts, from: Seq) -> Result<Option<Page>, IndexFault> {
        match self.store.read(&facts.reader, from, PAGE_BYTES) {
            Ok(page) => Ok(Some(page)),
            Err(error) => skip_damage(error).map(|()| None),
        }
    }

    fn push(
        &mut self,
        facts: &JournalFacts,
        version: i64,
        reader: &mut TextReader,
        state: Option<String>,
    ) -> Result<(), IndexFault> {
        let mut rows = reader.take();
        loop {
            let size = rows.iter().scan(0, |sum, row| {
                *sum += row.text.len();
                Some(*sum)
            });
            let count = size.take_while(|sum| *sum <= BATCH_BYTES).count().clamp(1, BATCH_ROWS);
            let rest = rows.split_off(count.min(rows.len()));
            let complete = rest.is_empty();
            self.bytes += rows.iter().map(|row| row.text.len()).sum::<usize>();
            self.rows += rows.len();
            // Only with the last rows is it true that everything up to there is indexed.
            let upto = if complete { reader.done() } else { ReadUpTo::default() };
            let state = if complete { state.clone() } else { None };
            let shown = facts.shown.clone();
            self.parts.push(JournalPart { key: facts.key, version, shown, rows, upto, state });
            if self.bytes > BATCH_BYTES || self.rows >= BATCH_ROWS || self.parts.len() >= BATCH_ROWS {
                self.flush()?;
            }
            if complete {
                return Ok(());
            }
            rows = rest;
        }
    }

    fn flush(&mut self) -> Result<(), IndexFault> {
        let parts = std::mem::take(&mut self.parts);
        (self.bytes, self.rows) = (0, 0);
        if parts.is_empty() {
            return Ok(());
        }
        self.in_index(|index| index.write(|tx| parts.iter().try_for_each(|part| write_part(tx, part))))
    }

    fn note_revision(&mut self, revision: i64) -> Result<(), IndexFault> {
        self.flush()?;
        self.in_index(|index| {
            let sql = "UPDATE progress SET revision = max(revision, ?1)";
            Ok(index.connection.execute(sql, [revision]).map(drop)?)
        })
    }
}

/// What is damaged or was deleted meanwhile is not indexed; other errors end the search.
fn skip_damage(error: StoreError) -> Result<(), IndexFault> {
    if let StoreError::Damaged { session, .. } = &error {
        tracing::warn!(%session, "indexed only in part: {}", crate::wire::with_causes(&error));
        return Ok(());
    }
    if matches!(error, StoreError::Unknown(_)) { Ok(()) } else { Err(error.into()) }
}

fn write_part(tx: &Transaction<'_>, part: &JournalPart) -> Result<(), IndexFault> {
    let known = indexed(tx, part.key)?;
    // It was erased, or is shown for another session meanwhile.
    if known.version != part.version || !known.fits_shown(&part.shown) {
        return Ok(());
    }
    let tokens = message_row::tokens(tx, &part.shown.scope)?;
    let ReadUpTo { seq, turn, at } = part.upto;
    tx.prepare_cached(
        "INSERT INTO indexed (journal, version, shown, cut, scope, tokens, upto, turn, at, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?10, ''))
         ON CONFLICT (journal) DO UPDATE SET
             shown = excluded.shown, cut = excluded.cut, scope = excluded.scope, tokens = excluded.tokens,
             turn = iif(excluded.upto >= upto, excluded.turn, turn),
             at = iif(excluded.upto >= upto, excluded.at, at),
             upto = max(upto, excluded.upto),
             state = coalesce(?10, state)",
    )?
    .execute(params![
        part.key,
        part.version,
        part.shown.key,
        seq_to_sql(part.shown.cut),
        part.shown.scope.text(),
        tokens,
        seq_to_sql(seq),
        to_sql(turn.0),
        to_sql(at),
        part.state,
    ])?;
    for row in &part.rows {
        message_row::add(tx, part.key, &tokens, row)?;
    }
    Ok(())
}

impl IndexFile {
    pub(super) fn indexed(&self, key: i64) -> Result<IndexedJournal, IndexFault> {
        let tx = self.connection.unchecked_transaction()?;
        Ok(indexed(&tx, key)?)
    }

    fn revision(&self) -> Result<i64, IndexFault> {
        Ok(self.connection.query_row("SELECT revision FROM progress", [], |row| row.get(0))?)
    }
}

/// What the index has of a journal; version 0 if nothing.
fn indexed(tx: &Transaction<'_>, key: i64) -> rusqlite::Result<IndexedJournal> {
    let sql =
        "SELECT version, shown, cut, scope, tokens, upto, turn, at, state FROM indexed WHERE journal = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        let upto = ReadUpTo {
            seq: seq_from_sql(row.get(5)?),
            turn: TurnNo(from_sql(row.get(6)?)),
            at: from_sql(row.get(7)?),
        };
        Ok(IndexedJournal {
            version: row.get(0)?,
            shown: row.get(1)?,
            cut: row.get(2)?,
            scope: row.get(3)?,
            tokens: row.get(4)?,
            upto,
            state: row.get(8)?,
        })
    };
    Ok(tx.prepare_cached(sql)?.query_row([key], read).optional()?.unwrap_or_default())
}

impl IndexedJournal {
    /// Returns whether what is indexed may stay: it is shown as it was, or nothing is indexed.
    pub(super) fn fits(&self, facts: Option<&JournalFacts>) -> bool {
        facts.map_or(self.tokens.is_empty(), |facts| self.fits_shown(&facts.shown))
    }

    fn fits_shown(&self, shown: &ShownAs) -> bool {
        self.tokens.is_empty()
            || (self.shown == shown.key
                && self.cut == seq_to_sql(shown.cut)
                && self.scope == shown.scope.text())
    }
}
