//! Searches the index: makes a query for FTS5 out of a parsed query, and reads the hits, newest first.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rethread_core::search::{Excerpt, TermEnd, TextQuery, TextTerm};
use rethread_core::{Seq, Speaker, TurnNo};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::index_file::{IfMissing, IndexFile};
use super::message_row::{self, AGENT, DIRECTORY, token};
use super::{IndexFault, SearchIndex};
use crate::store::embedded::fault::SqliteFault;
use crate::store::embedded::integers::from_sql;
use crate::store::embedded::open_store::OpenStore;
use crate::store::embedded::row::{COLUMNS, read_row};
use crate::store::search::{EXCERPT_BYTES, MessagePlace, bare_directory};
use crate::store::{Deleted, SearchHit, SearchPage, SearchQuery, SessionRow, StoreError};

/// A session that hits are shown for.
#[derive(Clone)]
struct ShownSession {
    row: SessionRow,
    agent: String,
}

/// A message that was found.
struct FoundMessage {
    place: MessagePlace,
    journal: i64,
    shown: i64,
    seq: Seq,
    turn: TurnNo,
    speaker: Speaker,
    message: String,
    excerpt: Excerpt,
}

impl FoundMessage {
    fn hit(self, shown: &ShownSession) -> SearchHit {
        let row = &shown.row;
        SearchHit {
            session: row.id.clone(),
            title: row.title.as_ref().map(|(title, _)| title.clone()).filter(|title| !title.is_empty()),
            agent: shown.agent.clone(),
            cwd: row.cwd.clone(),
            archived: row.archived,
            turn: self.turn,
            seq: self.seq,
            message: self.message,
            speaker: self.speaker,
            at: self.place.at(),
            excerpt: self.excerpt,
        }
    }
}

impl OpenStore {
    pub(super) fn find_messages(
        &self,
        index: &SearchIndex,
        query: &SearchQuery,
    ) -> Result<SearchPage, IndexFault> {
        let before = query.after.as_deref().map(MessagePlace::of_cursor).transpose()?;
        let generation = self.index_generation()?;
        let found = index.with(generation, IfMissing::Create, |index| {
            match match_expression(&index.connection, query)? {
                Some(expression) => self.page(index, query, &expression, before),
                None => Ok(SearchPage::default()),
            }
        })?;
        Ok(found.unwrap_or_default())
    }

    fn page(
        &self,
        index: &IndexFile,
        query: &SearchQuery,
        expression: &str,
        before: Option<MessagePlace>,
    ) -> Result<SearchPage, IndexFault> {
        // One consistent state: the texts of the words that are found.
        let tx = index.connection.unchecked_transaction()?;
        let sql = "SELECT rowid FROM word WHERE word MATCH ?1 AND rowid < ?2 AND rowid >= ?3
                   ORDER BY rowid DESC";
        let mut statement = tx.prepare_cached(sql)?;
        let before = before.unwrap_or(MessagePlace(i64::MAX));
        let since = query.since.map_or(MessagePlace(0), MessagePlace::first_at);
        let mut rows = statement.query(params![expression, before.0, since.0])?;
        let mut sessions: HashMap<i64, Option<ShownSession>> = HashMap::new();
        let mut page = SearchPage::default();
        let mut last: Option<(MessagePlace, i64, Seq)> = None;
        while let Some(row) = rows.next()? {
            let Some(found) = message(&tx, row.get(0)?, &query.text)? else { continue };
            // The parts of a long message are one hit.
            if last.is_some_and(|(_, journal, seq)| (journal, seq) == (found.journal, found.seq)) {
                continue;
            }
            let Some(session) = self.shown_session(&mut sessions, found.shown)? else { continue };
            if page.hits.len() == query.page_size() {
                page.next = last.map(|(place, ..)| place.cursor());
                break;
            }
            last = Some((found.place, found.journal, found.seq));
            page.hits.push(found.hit(session));
        }
        Ok(page)
    }

    /// The session that a hit is shown for; nothing if it was deleted and its text is about to be erased.
    fn shown_session<'a>(
        &self,
        known: &'a mut HashMap<i64, Option<ShownSession>>,
        key: i64,
    ) -> Result<Option<&'a ShownSession>, StoreError> {
        Ok(match known.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(self.readers.read("reading", |tx| shown_session(tx, key))?),
        }
        .as_ref())
    }
}

fn shown_session(connection: &Connection, key: i64) -> Result<Option<ShownSession>, SqliteFault> {
    let sql = format!(
        "SELECT {COLUMNS}, (SELECT agent FROM native
                            WHERE native.session = session.key AND native.id = natives ->> '$[#-1]') AS served
         FROM session WHERE key = ?1"
    );
    let read = |row: &Row<'_>| Ok((read_row(row)?, row.get::<_, Option<String>>("served")?));
    let found = connection.prepare_cached(&sql)?.query_row([key], read).optional()?;
    let Some((row, served)) = found else { return Ok(None) };
    let row = row.parse()?;
    let agent = served.unwrap_or_else(|| row.agent.clone());
    Ok(Some(ShownSession { row, agent }).filter(|shown| shown.row.deleted == Deleted::No))
}

fn message(connection: &Connection, id: i64, query: &TextQuery) -> rusqlite::Result<Option<FoundMessage>> {
    let sql = "SELECT message.journal, shown, seq, message.turn, speaker, message, length, text
               FROM message JOIN indexed ON indexed.journal = message.journal WHERE id = ?1";
    let read = |row: &Row<'_>| {
        Ok(FoundMessage {
            place: MessagePlace(id),
            journal: row.get(0)?,
            shown: row.get(1)?,
            seq: Seq(from_sql(row.get(2)?)),
            turn: TurnNo(from_sql(row.get(3)?)),
            speaker: message_row::speaker(row.get(4)?),
            message: row.get(5)?,
            excerpt: query.excerpt(&message_row::text(row, 6)?, EXCERPT_BYTES),
        })
    };
    connection.prepare_cached(sql)?.query_row([id], read).optional()
}

/// The query as FTS5 reads it; nothing if the filters exclude everything.
fn match_expression(connection: &Connection, query: &SearchQuery) -> rusqlite::Result<Option<String>> {
    let mut expression = format!("{{text}} : ({})", text_expression(&query.text));
    if let Some(cwd) = &query.cwd {
        let sql = "SELECT id FROM scope_name WHERE kind = ?1 AND name = ?2";
        let named = params![DIRECTORY, bare_directory(cwd)];
        let id: Option<i64> =
            connection.prepare_cached(sql)?.query_row(named, |row| row.get(0)).optional()?;
        let Some(id) = id else { return Ok(None) };
        expression += &format!(" AND {{scope}} : \"{}\"", token(DIRECTORY, id));
    }
    if let Some(agent) = &query.agent {
        let sql = "SELECT id FROM scope_name WHERE kind = ?1 AND instr(lower(name), lower(?2)) > 0";
        let mut statement = connection.prepare_cached(sql)?;
        let ids = statement.query_map(params![AGENT, agent], |row| row.get(0))?;
        let tokens = ids.map(|id| Ok(format!("\"{}\"", token(AGENT, id?))));
        let tokens = tokens.collect::<rusqlite::Result<Vec<_>>>()?;
        if tokens.is_empty() {
            return Ok(None);
        }
        expression += &format!(" AND {{scope}} : ({})", tokens.join(" OR "));
    }
    Ok(Some(expression))
}

/// All terms, each as a quoted phrase. A word has no quotes, but nothing depends on that.
fn text_expression(query: &TextQuery) -> String {
    let term = |term: &TextTerm| {
        let phrase = term.words.join(" ").replace('"', "\"\"");
        match term.end {
            TermEnd::Whole => format!("\"{phrase}\""),
            TermEnd::Prefix => format!("\"{phrase}\" *"),
        }
    };
    query.terms().iter().map(term).collect::<Vec<_>>().join(" AND ")
}
