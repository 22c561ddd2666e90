//! Searches: adds what is not indexed yet, then finds messages. The words are ours (`rethread_core::search`), so that a query
//! finds the same as in other stores; the database only has them in its index, without positions. A message that has all words
//! is compared with the query before it counts, which decides phrases.

use std::rc::Rc;

use deadpool_postgres::Transaction;
use rethread_core::search::{TermEnd, TextQuery, words};
use rethread_core::{Millis, Seq, SessionId, TurnNo, fold};
use tokio_postgres::Row;

use super::database::{Parameters, execute, row};
use super::fault::PgFault;
use super::host::{HOST_COLUMNS, NamedHost};
use super::open_database::OpenDatabase;
use super::read::own_page;
use super::removal::{needed_by_forks, shown_by};
use super::row::{AGENT_IS, COLUMNS, read_row};
use super::text_column::{from_column, to_column};
use crate::store::integers::{from_sql, seq_from_sql, seq_to_sql, to_sql};
use crate::store::search::{EXCERPT_BYTES, MessagePlace, bare_directory};
use crate::store::text_form::{pack_text, speaker, speaker_number, unpack_text};
use crate::store::texts::{ReadUpTo, TextReader, TextRow};
use crate::store::{IndexProgress, ProgressCallback, SearchHit, SearchPage, SearchQuery, StoreError};

const WHAT: &str = "searching";

/// How much of a journal is read at once, and how much text is written in one transaction.
const PAGE_BYTES: usize = 512 * 1024;
const BATCH_BYTES: usize = 512 * 1024;

/// How many messages are looked at at once.
const FETCH: i64 = 100;

/// How often a message is given another place if somebody else has just taken it.
const PLACE_ATTEMPTS: usize = 20;

/// What is to be added of one journal.
struct UnindexedPart {
    before: ReadUpTo,
    upto: ReadUpTo,
    shown: i64,
    rows: Vec<TextRow>,
    /// Whether there is more.
    more: bool,
}

impl OpenDatabase {
    /// Searches, after everything that is missing in the index was added.
    pub(super) async fn search(self: Rc<Self>, query: SearchQuery) -> Result<SearchPage, StoreError> {
        let before = query.after.as_deref().map(MessagePlace::of_cursor).transpose()?;
        self.clone().update_index(Box::new(|_| {})).await?;
        self.find_messages(&query, before.unwrap_or(MessagePlace(i64::MAX))).await
    }

    /// Indexes all turns that have ended and are not indexed.
    pub(super) async fn update_index(
        self: Rc<Self>,
        mut progress: ProgressCallback,
    ) -> Result<(), StoreError> {
        let sql =
            "SELECT session, array_agg(id) FROM rethread.search_pending GROUP BY session ORDER BY session";
        let pending = self.database.query(WHAT, sql, &[]).await?;
        for (done, row) in (1..).zip(&pending) {
            let (key, noted): (i64, Vec<i64>) = (row.get(0), row.get(1));
            self.index_session(key).await?;
            let sql = "DELETE FROM rethread.search_pending WHERE id = ANY ($1)";
            self.database.query(WHAT, sql, &[&noted]).await?;
            progress(IndexProgress { done, total: pending.len() });
        }
        Ok(())
    }

    /// Drops the index and makes it anew.
    pub(super) async fn rebuild_index(self: Rc<Self>, progress: ProgressCallback) -> Result<(), StoreError> {
        self.database
            .write("dropping the search index", async |tx| {
                execute(tx, "LOCK TABLE rethread.indexed IN EXCLUSIVE MODE", &[]).await?;
                execute(tx, "TRUNCATE rethread.message", &[]).await?;
                let sql = "UPDATE rethread.indexed AS i SET seq = coalesce(s.fork_seq, 0), turn = 0, at = 0
                           FROM rethread.session AS s WHERE s.key = i.session";
                execute(tx, sql, &[]).await?;
                let sql = "INSERT INTO rethread.search_pending (session) SELECT session FROM rethread.lease WHERE head > 0";
                execute(tx, sql, &[]).await?;
                Ok(())
            })
            .await?;
        self.update_index(progress).await
    }

    /// Indexes what is missing of one journal.
    async fn index_session(&self, key: i64) -> Result<(), StoreError> {
        loop {
            let part = self.database.read(WHAT, async |tx| self.missing_part(tx, key).await).await;
            let part = match part {
                Ok(Some(part)) => part,
                Ok(None) => return Ok(()),
                // Whoever reads the session is told.
                Err(StoreError::Damaged { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.database.write(WHAT, async |tx| write_part(tx, key, &part).await).await?;
            if !part.more {
                return Ok(());
            }
        }
    }

    async fn missing_part(&self, tx: &Transaction<'_>, key: i64) -> Result<Option<UnindexedPart>, PgFault> {
        let sql = format!(
            "SELECT i.seq, i.turn, i.at, l.head AS journal_head, s.deleted_at IS NOT NULL AS deleted, {HOST_COLUMNS}
             FROM rethread.indexed AS i JOIN rethread.session AS s ON s.key = i.session
             JOIN rethread.lease AS l ON l.session = s.key LEFT JOIN rethread.host AS h ON h.key = l.host
             WHERE i.session = $1"
        );
        let Some(found) = row(tx, &sql, &[&key]).await? else { return Ok(None) };
        let before = ReadUpTo {
            seq: seq_from_sql(found.get(0)),
            turn: TurnNo(from_sql(found.get(1))),
            at: from_sql(found.get(2)),
        };
        let deleted: bool = found.get("deleted");
        let (cut, shown) = if deleted {
            (needed_by_forks(tx, key).await?, shown_by(tx, key).await?)
        } else {
            (seq_from_sql(found.get("journal_head")), Some(key))
        };
        let Some(shown) = shown.filter(|_| cut > before.seq) else { return Ok(None) };
        let at_rest = self.host.owner(NamedHost::read(&found)).is_none();
        read_part(tx, key, before, cut, at_rest).await.map(|(rows, upto, more)| {
            (upto != before || !rows.is_empty()).then_some(UnindexedPart { before, upto, shown, rows, more })
        })
    }

    async fn find_messages(
        &self,
        query: &SearchQuery,
        before: MessagePlace,
    ) -> Result<SearchPage, StoreError> {
        let (mut page, mut last, mut before) = (SearchPage::default(), None, before);
        loop {
            let found = self.candidates(query, before).await?;
            for row in &found {
                before = MessagePlace(row.get("place"));
                let origin: (i64, i64) = (row.get("journal"), row.get("seq"));
                // The parts of a long message are one hit.
                if last.is_some_and(|(_, known)| known == origin) {
                    continue;
                }
                let text = message_text(row)?;
                if !query.text.matches(&text) {
                    continue;
                }
                if page.hits.len() == query.page_size() {
                    page.next = last.map(|(place, _): (MessagePlace, _)| place.cursor());
                    return Ok(page);
                }
                last = Some((before, origin));
                page.hits.push(hit(row, query, &text, before));
            }
            if found.len() < usize::try_from(FETCH).unwrap_or(usize::MAX) {
                return Ok(page);
            }
        }
    }

    /// Messages that have all words of a query, newest first.
    async fn candidates(&self, query: &SearchQuery, before: MessagePlace) -> Result<Vec<Row>, StoreError> {
        let since = query.since.map_or(MessagePlace(0), MessagePlace::first_at);
        let cwd = query.cwd.as_deref().map(|cwd| to_column(bare_directory(cwd)));
        let agent = query.agent.as_deref().map(to_column);
        let cwd_is = match cwd {
            Some(_) => "(s.cwd = $5 OR rtrim(s.cwd, '/') = $5) AND",
            None => "$5::text IS NULL AND",
        };
        let agent_is = if agent.is_some() { AGENT_IS } else { "$6::text IS NULL AND" };
        let sql = format!(
            "SELECT {COLUMNS}, m.place, m.session AS journal, m.seq, m.turn, m.speaker, m.message, m.length, m.text,
                    (SELECT n.agent FROM rethread.native AS n
                     WHERE n.session = s.key AND n.id = s.natives[cardinality(s.natives)] LIMIT 1) AS served
             FROM rethread.message AS m JOIN rethread.session AS s ON s.key = m.shown
             JOIN rethread.lease AS l ON l.session = s.key
             WHERE {cwd_is} {agent_is} m.words @@ $1::text::tsquery AND m.place < $2 AND m.place >= $3
               AND s.deleted_at IS NULL
             ORDER BY m.place DESC LIMIT $4"
        );
        let wanted = word_query(&query.text);
        let parameters: Parameters<'_> = &[&wanted, &before.0, &since.0, &FETCH, &cwd, &agent];
        self.database.query(WHAT, &sql, parameters).await
    }
}

/// Reads a bounded part of a journal behind what is indexed: the rows, up to where, and whether there is more.
async fn read_part(
    tx: &Transaction<'_>,
    key: i64,
    before: ReadUpTo,
    cut: Seq,
    at_rest: bool,
) -> Result<(Vec<TextRow>, ReadUpTo, bool), PgFault> {
    let mut reader = TextReader::after(before);
    let (mut rows, mut bytes, mut from) = (Vec::new(), 0, before.seq.next());
    while from <= cut {
        let page = own_page(tx, key, from, cut, PAGE_BYTES).await?;
        let items = page.decode()?;
        from = page.next;
        reader.read(&fold(&items), Seq(from.0 - 1).min(cut));
        if page.end && at_rest {
            reader.end(cut);
        }
        let more: Vec<TextRow> = reader.take();
        bytes += more.iter().map(|row| row.text.len()).sum::<usize>();
        rows.extend(more);
        // A turn that is not complete is read again, so that what stops must have got on.
        if bytes >= BATCH_BYTES && reader.done().seq > before.seq && !page.end {
            return Ok((rows, reader.done(), true));
        }
    }
    Ok((rows, reader.done(), false))
}

/// Writes the rows of a part, unless another host has done so.
async fn write_part(tx: &Transaction<'_>, key: i64, part: &UnindexedPart) -> Result<(), PgFault> {
    let sql = "SELECT seq FROM rethread.indexed WHERE session = $1 FOR UPDATE";
    let found = row(tx, sql, &[&key]).await?;
    if found.is_none_or(|row| seq_from_sql(row.get(0)) != part.before.seq) {
        return Ok(());
    }
    for row in &part.rows {
        add_row(tx, key, part.shown, row).await?;
    }
    let ReadUpTo { seq, turn, at } = part.upto;
    let sql = "UPDATE rethread.indexed SET seq = $2, turn = $3, at = $4 WHERE session = $1";
    execute(tx, sql, &[&key, &seq_to_sql(seq), &to_sql(turn.0), &to_sql(at)]).await?;
    Ok(())
}

async fn add_row(tx: &Transaction<'_>, key: i64, shown: i64, text: &TextRow) -> Result<(), PgFault> {
    let sql = "INSERT INTO rethread.message (place, session, shown, seq, part, turn, speaker, message, length, text, words)
               SELECT coalesce((SELECT max(place) + 1 FROM rethread.message WHERE place BETWEEN $1 AND $2), $1),
                      $3, $4, $5, $6, $7, $8, $9, $10, $11, array_to_tsvector($12)
               ON CONFLICT DO NOTHING";
    let packed = pack_text(&text.text);
    let (length, bytes) =
        packed.map_err(|cause| StoreError::Io { context: WHAT.to_owned(), source: cause.into() })?;
    let (first, last) = (MessagePlace::first_at(text.at), MessagePlace::last_at(text.at));
    let (seq, part) = (seq_to_sql(text.seq), i64::from(text.part));
    for _ in 0..PLACE_ATTEMPTS {
        let parameters: Parameters<'_> = &[
            &first.0,
            &last.0,
            &key,
            &shown,
            &seq,
            &part,
            &to_sql(text.turn.0),
            &speaker_number(text.speaker),
            &to_column(&text.message),
            &length,
            &bytes,
            &distinct_words(&text.text),
        ];
        if execute(tx, sql, parameters).await? > 0 {
            return Ok(());
        }
        let sql = "SELECT FROM rethread.message WHERE session = $1 AND seq = $2 AND part = $3";
        if row(tx, sql, &[&key, &seq, &part]).await?.is_some() {
            return Ok(());
        }
    }
    let source = "no place for a message".into();
    Err(StoreError::Io { context: WHAT.to_owned(), source }.into())
}

fn distinct_words(text: &str) -> Vec<String> {
    let mut all: Vec<String> = words(text).map(|word| word.form).filter(|form| !form.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The words of a query as the database reads them: all must be there, the last of a prefix as the beginning of one.
fn word_query(query: &TextQuery) -> String {
    let mut conditions = Vec::new();
    for term in query.terms() {
        for (at, word) in (1..).zip(&term.words) {
            let quoted = word.replace('\\', "\\\\").replace('\'', "''");
            let star = if at == term.words.len() && term.end == TermEnd::Prefix { ":*" } else { "" };
            conditions.push(format!("'{quoted}'{star}"));
        }
    }
    conditions.join(" & ")
}

fn message_text(row: &Row) -> Result<String, StoreError> {
    unpack_text(row.get("length"), row.get("text")).map_err(|cause| StoreError::Io {
        context: "reading the search index".to_owned(),
        source: cause.into(),
    })
}

fn hit(found: &Row, query: &SearchQuery, text: &str, place: MessagePlace) -> SearchHit {
    let row = read_row(found);
    let served: Option<String> = found.get("served");
    let at: Millis = place.at();
    SearchHit {
        session: SessionId(row.id.0.clone()),
        title: row.title.map(|(title, _)| title).filter(|title| !title.is_empty()),
        agent: served.map_or(row.agent, from_column),
        cwd: row.cwd,
        archived: row.archived,
        turn: TurnNo(from_sql(found.get("turn"))),
        seq: seq_from_sql(found.get("seq")),
        message: from_column(found.get("message")),
        speaker: speaker(found.get("speaker")),
        at,
        excerpt: query.text.excerpt(text, EXCERPT_BYTES),
    }
}
