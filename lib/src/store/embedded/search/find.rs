//! Searches the index: makes a query for FTS5 out of a parsed query, and collects the hits, newest first.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use rethread_core::search::{Excerpt, TermEnd, TextQuery, TextTerm};
use rethread_core::{Seq, Speaker, TurnNo};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::index_file::{IfMissing, IndexFile};
use super::message_row::{self, AGENT, DIRECTORY, token};
use super::newest_scan::ScanEnd;
use super::{IndexFault, SearchIndex};
use crate::store::embedded::fault::SqliteFault;
use crate::store::embedded::integers::from_sql;
use crate::store::embedded::open_store::OpenStore;
use crate::store::embedded::row::{COLUMNS, read_row};
use crate::store::search::{EXCERPT_BYTES, MessagePlace, bare_directory};
use crate::store::text_form::speaker;
use crate::store::{Deleted, SearchHit, SearchPage, SearchQuery, SessionRow, StoreError};

/// A session that hits are shown for.
#[derive(Clone)]
struct ShownSession {
    row: SessionRow,
    agent: String,
}

/// A message that was found.
pub(super) struct FoundMessage {
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

/// Collects the hits of a page.
pub(super) struct HitCollector<'a> {
    store: &'a OpenStore,
    query: &'a SearchQuery,
    sessions: HashMap<i64, Option<ShownSession>>,
    page: SearchPage,
    last: Option<(MessagePlace, i64, Seq)>,
}

impl OpenStore {
    pub(super) fn find_messages(
        &self,
        index: &SearchIndex,
        query: &SearchQuery,
    ) -> Result<SearchPage, IndexFault> {
        let before = query.after.as_deref().map(MessagePlace::of_cursor).transpose()?;
        let before = before.unwrap_or(MessagePlace(i64::MAX));
        let generation = self.index_generation()?;
        let found = index.with(generation, IfMissing::Create, |index| {
            match scope_expression(&index.connection, query)? {
                Some(scope) => self.page(index, query, &scope, before),
                None => Ok(SearchPage::default()),
            }
        })?;
        Ok(found.unwrap_or_default())
    }

    fn page(
        &self,
        index: &IndexFile,
        query: &SearchQuery,
        scope: &[String],
        before: MessagePlace,
    ) -> Result<SearchPage, IndexFault> {
        // One consistent state: the texts of the words that are found.
        let tx = index.connection.unchecked_transaction()?;
        let (sessions, page, last) = (HashMap::new(), SearchPage::default(), None);
        let mut collector = HitCollector { store: self, query, sessions, page, last };
        let before = match collector.scan_newest(&tx, scope, before)? {
            ScanEnd::Complete => return Ok(collector.page),
            ScanEnd::StoppedAt(place) => place,
        };
        let text = format!("{{text}} : ({})", text_expression(query.text.terms()));
        let expression = [&[text][..], scope].concat().join(" AND ");
        collector.each_place(&tx, &expression, before, |collector, place| {
            match message(&tx, place, &query.text)? {
                Some(found) => collector.offer(found),
                None => Ok(ControlFlow::Continue(())),
            }
        })?;
        Ok(collector.page)
    }
}

impl HitCollector<'_> {
    /// What is searched for.
    pub(super) fn query(&self) -> &SearchQuery {
        self.query
    }

    /// Visits the messages before a place that an expression finds, the newest first; all messages if it is empty.
    pub(super) fn each_place(
        &mut self,
        connection: &Connection,
        expression: &str,
        before: MessagePlace,
        mut each: impl FnMut(&mut Self, MessagePlace) -> Result<ControlFlow<()>, IndexFault>,
    ) -> Result<(), IndexFault> {
        let sql = match expression {
            "" => "SELECT id FROM message WHERE ?1 = '' AND id < ?2 AND id >= ?3 ORDER BY id DESC",
            _ => {
                "SELECT rowid FROM word WHERE word MATCH ?1 AND rowid < ?2 AND rowid >= ?3
                 ORDER BY rowid DESC"
            }
        };
        let mut statement = connection.prepare_cached(sql)?;
        let since = self.query.since.map_or(MessagePlace(0), MessagePlace::first_at);
        let mut rows = statement.query(params![expression, before.0, since.0])?;
        while let Some(row) = rows.next()? {
            if each(self, MessagePlace(row.get(0)?))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Adds a hit; breaks if the page was full.
    pub(super) fn offer(&mut self, found: FoundMessage) -> Result<ControlFlow<()>, IndexFault> {
        // The parts of a long message are one hit.
        if self.last.is_some_and(|(_, journal, seq)| (journal, seq) == (found.journal, found.seq)) {
            return Ok(ControlFlow::Continue(()));
        }
        let Some(session) = shown_for(self.store, &mut self.sessions, found.shown)? else {
            return Ok(ControlFlow::Continue(()));
        };
        if self.page.hits.len() == self.query.page_size() {
            self.page.next = self.last.map(|(place, ..)| place.cursor());
            return Ok(ControlFlow::Break(()));
        }
        self.last = Some((found.place, found.journal, found.seq));
        self.page.hits.push(found.hit(session));
        Ok(ControlFlow::Continue(()))
    }
}

/// The session that a hit is shown for; nothing if it was deleted and its text is about to be erased.
fn shown_for<'a>(
    store: &OpenStore,
    known: &'a mut HashMap<i64, Option<ShownSession>>,
    key: i64,
) -> Result<Option<&'a ShownSession>, StoreError> {
    Ok(match known.entry(key) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => place.insert(store.readers.read("reading", |tx| shown_session(tx, key))?),
    }
    .as_ref())
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

fn message(
    connection: &Connection,
    place: MessagePlace,
    query: &TextQuery,
) -> rusqlite::Result<Option<FoundMessage>> {
    message_if(connection, place, |text| Some(query.excerpt(text, EXCERPT_BYTES)))
}

/// The message at a place, if its text has an excerpt.
pub(super) fn message_if(
    connection: &Connection,
    place: MessagePlace,
    excerpt: impl Fn(&str) -> Option<Excerpt>,
) -> rusqlite::Result<Option<FoundMessage>> {
    let sql = "SELECT message.journal, shown, seq, message.turn, speaker, message, length, text
               FROM message JOIN indexed ON indexed.journal = message.journal WHERE id = ?1";
    let read = |row: &Row<'_>| {
        let Some(excerpt) = excerpt(&message_row::text(row, 6)?) else { return Ok(None) };
        Ok(Some(FoundMessage {
            place,
            journal: row.get(0)?,
            shown: row.get(1)?,
            seq: Seq(from_sql(row.get(2)?)),
            turn: TurnNo(from_sql(row.get(3)?)),
            speaker: speaker(row.get(4)?),
            message: row.get(5)?,
            excerpt,
        }))
    };
    Ok(connection.prepare_cached(sql)?.query_row([place.0], read).optional()?.flatten())
}

/// The directory and the agent of a query as FTS5 reads them, each as a condition; nothing if they exclude everything.
fn scope_expression(connection: &Connection, query: &SearchQuery) -> rusqlite::Result<Option<Vec<String>>> {
    let mut conditions = Vec::new();
    if let Some(cwd) = &query.cwd {
        let sql = "SELECT id FROM scope_name WHERE kind = ?1 AND name = ?2";
        let named = params![DIRECTORY, bare_directory(cwd)];
        let id: Option<i64> =
            connection.prepare_cached(sql)?.query_row(named, |row| row.get(0)).optional()?;
        let Some(id) = id else { return Ok(None) };
        conditions.push(format!("{{scope}} : \"{}\"", token(DIRECTORY, id)));
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
        conditions.push(format!("{{scope}} : ({})", tokens.join(" OR ")));
    }
    Ok(Some(conditions))
}

/// Terms that must all match, each as a quoted phrase. A word has no quotes, but nothing depends on that.
pub(super) fn text_expression<'a>(terms: impl IntoIterator<Item = &'a TextTerm>) -> String {
    let term = |term: &TextTerm| {
        let phrase = term.words.join(" ").replace('"', "\"\"");
        match term.end {
            TermEnd::Whole => format!("\"{phrase}\""),
            TermEnd::Prefix => format!("\"{phrase}\" *"),
        }
    };
    terms.into_iter().map(term).collect::<Vec<_>>().join(" AND ")
}
