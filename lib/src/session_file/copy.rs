//! Copies sessions from one store to another, of whatever kind they are. A session is copied in parts, each with its place in
//! the ledger of imports in the same transaction, so that an interrupted copy goes on where it was, and a later one adds what
//! is new. What is equal is decided by the exports of both.

use std::collections::HashMap;
use std::sync::Arc;

use rethread_core::{Entry, Seq, SessionId, stored};
use sha2::{Digest as _, Sha256};

use super::{ExportRedaction, export_session};
use crate::clock;
use crate::store::facts::facts;
use crate::store::{
    AgentName, Append, Archived, ArchivedFilter, Durability, FoldUpTo, ImportProgress, ImportRecord,
    IndexProgress, Lease, ListQuery, Listed, NewSession, ProgressCallback, RowFacts, SessionRow, Snapshot,
    Store, StoreError, read_state,
};

/// The name of copies in the ledger of imports.
const TOOL: &str = "store copy";

/// How much of a journal is read at once, and how large a part is about.
const PAGE_BYTES: usize = 1024 * 1024;
const PART_ENTRIES: usize = 4000;

/// How many sessions are listed at once.
const LIST_PAGE: usize = 200;

/// What a copy has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// The sessions that were copied, in whole or in part.
    pub copied: usize,
    /// The sessions that were there already.
    pub unchanged: usize,
    /// The sessions that are open in the target, or are there and were not copied from this store.
    pub skipped: Vec<SessionId>,
    /// The sessions whose copy is not equal to the original.
    pub different: Vec<SessionId>,
}

/// Copies all sessions that are not deleted and have content. `label` names the source in the ledger of the target.
pub async fn copy_store(
    from: &dyn Store,
    to: &dyn Store,
    label: &str,
    mut progress: ProgressCallback,
) -> Result<CopyReport, StoreError> {
    let sessions = all_sessions(from).await?;
    let ledger = to.imports(TOOL).await?.into_iter().filter(|record| record.path == label);
    let ledger: HashMap<String, ImportRecord> = ledger.map(|record| (record.key.clone(), record)).collect();
    let mut report = CopyReport::default();
    for (done, row) in (1..).zip(&sessions) {
        let copy = SessionCopy { from, to, label, row };
        match copy.run(ledger.get(row.id.as_str())).await {
            Ok(CopyOutcome::Copied) => report.copied += 1,
            Ok(CopyOutcome::Unchanged) => report.unchanged += 1,
            Ok(CopyOutcome::Skipped) | Err(StoreError::LiveElsewhere { .. }) => {
                report.skipped.push(row.id.clone());
                continue;
            }
            Err(error) => return Err(error),
        }
        // Also what was there already: an earlier copy may have been interrupted before it has compared.
        if !is_equal(from, to, &row.id).await? {
            report.different.push(row.id.clone());
        }
        progress(IndexProgress { done, total: sessions.len() });
    }
    Ok(report)
}

/// Returns whether two stores have the same of a session: by their exports, and by what lists show.
pub async fn is_equal(from: &dyn Store, to: &dyn Store, id: &SessionId) -> Result<bool, StoreError> {
    let (Some(a), Some(b)) = (from.find(id).await?, to.find(id).await?) else { return Ok(false) };
    let listed = |row: &SessionRow| {
        let archived = row.archived == Archived::Yes;
        (
            row.cwd.clone(),
            row.roots.clone(),
            row.title.clone(),
            row.agent.clone(),
            row.agent_name.clone(),
            archived,
        )
    };
    Ok(listed(&a) == listed(&b) && export_hash(from, &a).await? == export_hash(to, &b).await?)
}

/// The hash of all lines of an export but the first, which names the parent.
async fn export_hash(store: &dyn Store, row: &SessionRow) -> Result<Vec<u8>, StoreError> {
    let (mut hash, mut lines) = (Sha256::new(), 0);
    export_session(store, row, ExportRedaction::Off, |line| {
        if lines > 0 {
            hash.update(line.as_bytes());
        }
        lines += 1;
        Ok::<_, StoreError>(())
    })
    .await?;
    Ok(hash.finalize().to_vec())
}

/// All sessions that lists have, the oldest change first.
async fn all_sessions(store: &dyn Store) -> Result<Vec<SessionRow>, StoreError> {
    let mut query = ListQuery { archived: ArchivedFilter::Include, limit: LIST_PAGE, ..ListQuery::default() };
    let mut rows = Vec::new();
    loop {
        let page = store.list(&query).await?;
        rows.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    rows.reverse();
    Ok(rows)
}

enum CopyOutcome {
    Copied,
    Unchanged,
    Skipped,
}

/// The copy of one session.
struct SessionCopy<'a> {
    from: &'a dyn Store,
    to: &'a dyn Store,
    label: &'a str,
    row: &'a SessionRow,
}

/// Entries to be copied, and the entry of the source that follows them.
struct Part {
    entries: Vec<Arc<Entry>>,
    next: Seq,
    end: bool,
}

impl SessionCopy<'_> {
    async fn run(&self, known: Option<&ImportRecord>) -> Result<CopyOutcome, StoreError> {
        let id = &self.row.id;
        let (next, mut lease) = match (self.to.find(id).await?, known) {
            (None, _) => {
                // A fork is copied with the text of its parent: it stands on its own.
                let part = self.part(Seq(0)).await?;
                let lease = self.create(&part).await?;
                (part, lease)
            }
            (Some(_), Some(record)) => {
                let part = self.part(Seq(record.size)).await?;
                if part.entries.is_empty() && record.progress == ImportProgress::Done {
                    return Ok(CopyOutcome::Unchanged);
                }
                let mut lease = self.to.claim(id).await?;
                self.append(&mut lease, &part).await?;
                (part, lease)
            }
            (Some(_), None) => return Ok(CopyOutcome::Skipped),
        };
        let mut part = next;
        while !part.end {
            part = self.part(part.next).await?;
            self.append(&mut lease, &part).await?;
        }
        let finished = self.finish(&lease).await;
        self.to.release(&lease).await?;
        finished?;
        if self.row.archived == Archived::Yes {
            self.to.set_archived(id, Archived::Yes, clock::now()).await?;
        }
        Ok(CopyOutcome::Copied)
    }

    /// Reads the next part. It ends behind a turn if that is near, and behind each new id of an agent: a change of the row has
    /// one.
    async fn part(&self, from: Seq) -> Result<Part, StoreError> {
        let mut part = Part { entries: Vec::new(), next: from, end: false };
        loop {
            let page = self.from.read(&self.row.id, part.next, PAGE_BYTES).await?;
            for item in page.decode()? {
                let bound = matches!(item.entry, Entry::AgentBound { .. });
                let ended = matches!(item.entry, Entry::TurnEnded { .. });
                part.next = item.last.next();
                part.entries.push(Arc::new(item.entry));
                if bound || (ended && part.entries.len() >= PART_ENTRIES) {
                    return Ok(part);
                }
            }
            part.next = page.next;
            if page.end {
                part.end = true;
                return Ok(part);
            }
        }
    }

    fn record(&self, part: &Part) -> ImportRecord {
        ImportRecord {
            tool: TOOL.to_owned(),
            path: self.label.to_owned(),
            key: self.row.id.0.clone(),
            size: part.next.0,
            modified: self.row.updated_at,
            session: Some(self.row.id.clone()),
            progress: if part.end { ImportProgress::Done } else { ImportProgress::Begun },
            ..ImportRecord::default()
        }
    }

    fn facts(&self, part: &Part) -> RowFacts {
        let native = facts(part.entries.iter().map(AsRef::as_ref)).native;
        RowFacts { native, import: Some(self.record(part)), ..RowFacts::default() }
    }

    async fn create(&self, part: &Part) -> Result<Lease, StoreError> {
        let row = self.row;
        let facts = RowFacts {
            title: row.title.clone(),
            roots: Some(row.roots.clone()),
            listed: Some(Listed),
            agent_name: Some(AgentName(row.agent_name.clone())),
            ..self.facts(part)
        };
        let new = NewSession {
            id: row.id.clone(),
            cwd: row.cwd.clone(),
            agent: row.agent.clone(),
            parent: None,
            entries: part.entries.clone(),
            facts,
            snapshot: None,
            at: row.updated_at,
        };
        self.to.create(new).await
    }

    async fn append(&self, lease: &mut Lease, part: &Part) -> Result<(), StoreError> {
        let append = Append {
            session: lease.session.clone(),
            epoch: lease.epoch,
            expected: lease.head,
            entries: part.entries.clone(),
            facts: self.facts(part),
            durability: Durability::Power,
            at: None,
        };
        self.to.append(append).await?;
        lease.head = Seq(lease.head.0 + part.entries.len() as u64);
        Ok(())
    }

    /// Folds the copy, and stores its state, so that opening it is quick.
    async fn finish(&self, lease: &Lease) -> Result<(), StoreError> {
        let (session, _) = read_state(self.to, &lease.session).await?;
        if !session.is_idle() {
            return Ok(());
        }
        let snapshot = Some(Snapshot { head: session.head, state: stored::encode_session(&session) });
        self.to.fold(lease, FoldUpTo { upto: lease.head, snapshot }).await
    }
}
