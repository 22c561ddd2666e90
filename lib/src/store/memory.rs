//! A store in memory, for tests and for sessions that need not outlive the process. It follows the same contract as the
//! other stores, but has only one owner.

mod imports;
mod search;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_core::{Entry, Folded, Millis, Seq, SessionId, TitleSource, fold, stored};

use super::cursor::ListCursor;
use super::lineage::{Layer, lineage};
use super::page::{Page, PageBuilder};
use super::process::ProcessIdentity;
use super::{
    Append, Archived, ChangedSession, Changes, Deleted, FoldUpTo, Lease, ListPage, ListQuery, Listed,
    NativeId, NewSession, OwnedHere, Owner, ProgressCallback, PruneTurn, ReleaseAnswer, Revision, RowFacts,
    SearchPage, SearchQuery, SessionRow, Store, StoreError, StoreFuture, Stub,
};
use crate::clock;

/// A store that keeps sessions in memory.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    sessions: HashMap<SessionId, StoredSession>,
    profiles: HashMap<String, Vec<u8>>,
    ledger: imports::MemoryLedger,
    revision: u64,
    pruned_at: Millis,
}

struct StoredSession {
    row: SessionRow,
    revision: u64,
    /// The epoch that the owner claimed.
    owned_epoch: u64,
    epoch: u64,
    items: Vec<SizedItem>,
    folded: Seq,
    natives: Vec<NativeId>,
}

/// An item with the size of its stored form, so that pages have the same size as in other stores.
#[derive(Clone)]
struct SizedItem {
    item: Folded,
    size: usize,
}

impl MemoryStore {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        // Every method leaves sessions consistent, so the state is valid even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A result that is there at once.
fn ready<'a, T: Send + 'a>(result: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Store for MemoryStore {
    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        ready(self.state().create(new))
    }

    fn claim(&self, session: &SessionId) -> StoreFuture<'_, Lease> {
        ready(self.state().claim(session))
    }

    fn release(&self, lease: &Lease) -> StoreFuture<'_, ()> {
        self.state().release(lease);
        ready(Ok(()))
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        ready(self.state().append(&append))
    }

    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> StoreFuture<'_, Page> {
        ready(self.state().read(session, from, budget))
    }

    fn seek_back(&self, session: &SessionId, before: Seq, budget: usize) -> StoreFuture<'_, Seq> {
        ready(self.state().seek_back(session, before, budget))
    }

    fn fold(&self, lease: &Lease, fold: FoldUpTo) -> StoreFuture<'_, ()> {
        ready(self.state().fold(lease, fold))
    }

    fn find(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionRow>> {
        ready(Ok(self.state().sessions.get(session).map(|stored| stored.row.clone())))
    }

    fn find_by_part(&self, part: &str, limit: usize) -> StoreFuture<'_, Vec<SessionRow>> {
        ready(Ok(self.state().find_by_part(part, limit)))
    }

    fn list(&self, query: &ListQuery) -> StoreFuture<'_, ListPage> {
        ready(self.state().list(query))
    }

    fn changes(&self, since: Option<Revision>) -> StoreFuture<'_, Changes> {
        ready(Ok(self.state().changes(since)))
    }

    fn search(&self, query: &SearchQuery) -> StoreFuture<'_, SearchPage> {
        ready(self.state().search(query))
    }

    fn update_index(&self, _progress: ProgressCallback) -> StoreFuture<'_, ()> {
        ready(Ok(()))
    }

    fn rebuild_index(&self, _progress: ProgressCallback) -> StoreFuture<'_, ()> {
        ready(Ok(()))
    }

    fn set_title(&self, session: &SessionId, title: &str) -> StoreFuture<'_, ()> {
        let title = Some((title.to_owned(), TitleSource::User));
        ready(self.state().change(session, |stored| stored.row.title = title))
    }

    fn set_archived(&self, session: &SessionId, archived: Archived, _at: Millis) -> StoreFuture<'_, ()> {
        ready(self.state().change(session, |stored| {
            stored.row.archived = archived;
            if archived == Archived::Yes {
                stored.epoch += 1;
            }
        }))
    }

    fn delete(&self, session: &SessionId, _at: Millis) -> StoreFuture<'_, ()> {
        ready(self.state().delete(session))
    }

    fn delete_unowned(
        &self,
        sessions: &[SessionId],
        _at: Millis,
        _progress: ProgressCallback,
    ) -> StoreFuture<'_, Vec<SessionId>> {
        ready(self.state().delete_unowned(sessions))
    }

    fn size(&self, session: &SessionId) -> StoreFuture<'_, u64> {
        ready(self.state().existing(session).map(|stored| stored.size()))
    }

    fn begin_pruning(&self, at: Millis, since: Millis) -> StoreFuture<'_, PruneTurn> {
        let mut state = self.state();
        if state.pruned_at >= since {
            return ready(Ok(PruneTurn::Done));
        }
        state.pruned_at = at;
        ready(Ok(PruneTurn::Ours))
    }

    fn ask_release(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ReleaseAnswer> {
        let mut answer = ReleaseAnswer::NotOwned;
        let asked = self.state().change(session, |stored| {
            if let Some(owner) = stored.row.owner.clone() {
                stored.row.release_asked_at = Some(at);
                answer = ReleaseAnswer::Asked(owner);
            }
        });
        ready(asked.map(|()| answer))
    }

    fn decline_release(&self, session: &SessionId) -> StoreFuture<'_, ()> {
        ready(self.state().change(session, |stored| stored.row.release_asked_at = None))
    }

    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> StoreFuture<'_, ()> {
        let mut state = self.state();
        for stub in stubs {
            let native = NativeId { agent: agent.to_owned(), id: stub.id.0.clone() };
            if !state.sessions.values().any(|stored| stored.natives.contains(&native)) {
                state.add_stub(agent, stub);
            }
        }
        ready(Ok(()))
    }

    fn profile(&self, key: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        ready(Ok(self.state().profiles.get(key).cloned()))
    }

    fn remember_profile(&self, key: &str, profile: &[u8], _at: Millis) -> StoreFuture<'_, ()> {
        self.state().profiles.insert(key.to_owned(), profile.to_vec());
        ready(Ok(()))
    }
}

impl MemoryState {
    fn create(&mut self, new: NewSession) -> Result<Lease, StoreError> {
        if self.sessions.get(&new.id).is_some_and(|stored| !stored.is_stub()) {
            return Err(StoreError::Exists(new.id));
        }
        if let Some((parent, fork)) = &new.parent {
            self.existing(parent)?.reaches(*fork)?;
        }
        let at = if new.parent.is_some() { new.at.max(self.later_than_others(&new.id)) } else { new.at };
        let mut stored = StoredSession::new(&new);
        stored.write(&new.entries, &new.facts, at);
        stored.row.snapshot.clone_from(&new.snapshot);
        let lease = stored.lease();
        self.drop_stub(&new.facts);
        self.remember_import(&new.facts);
        stored.revision = self.next_revision();
        self.sessions.insert(new.id, stored);
        Ok(lease)
    }

    fn remember_import(&mut self, facts: &RowFacts) {
        if let Some(record) = &facts.import {
            self.ledger.remember(record);
        }
    }

    fn claim(&mut self, session: &SessionId) -> Result<Lease, StoreError> {
        let revision = self.next_revision();
        let stored = self.existing(session)?;
        if let Some(owner) = stored.row.owner.clone() {
            return Err(StoreError::LiveElsewhere { session: session.clone(), owner });
        }
        stored.epoch += 1;
        stored.owned_epoch = stored.epoch;
        stored.revision = revision;
        stored.row.owner = Some(this_process());
        stored.row.release_asked_at = None;
        Ok(stored.lease())
    }

    fn release(&mut self, lease: &Lease) {
        let revision = self.next_revision();
        if let Some(stored) = self.sessions.get_mut(&lease.session)
            && stored.owned_epoch == lease.epoch
        {
            stored.row.owner = None;
            stored.row.release_asked_at = None;
            stored.revision = revision;
        }
        self.free_deleted();
    }

    fn read(&mut self, session: &SessionId, from: Seq, budget: usize) -> Result<Page, StoreError> {
        let head = self.existing(session)?.row.head;
        let mut page = PageBuilder::new(session, budget);
        for layer in self.layers(session, head) {
            if let Some(next) = self.fill(&layer, from, &mut page) {
                return Ok(page.cut(next));
            }
        }
        Ok(page.end(from.max(head.next())))
    }

    fn seek_back(&mut self, session: &SessionId, before: Seq, budget: usize) -> Result<Seq, StoreError> {
        let head = self.existing(session)?.row.head;
        let mut size = 0;
        for layer in self.layers(session, head).iter().rev() {
            let Some(stored) = self.sessions.get(&layer.key) else { continue };
            let within =
                |sized: &&SizedItem| sized.item.first > layer.after && sized.item.first <= layer.upto;
            for sized in stored.items.iter().rev().filter(within) {
                if sized.item.first < before {
                    size += sized.size;
                    if size > budget {
                        return Ok(sized.item.first);
                    }
                }
            }
        }
        Ok(Seq(0))
    }

    fn fold(&mut self, lease: &Lease, fold: FoldUpTo) -> Result<(), StoreError> {
        self.session(&lease.session)?.check_epoch(lease.epoch)?;
        let cuts = self.forks_of(&lease.session);
        let stored = self.session(&lease.session)?;
        stored.fold(fold.upto, &cuts);
        if let Some(snapshot) = fold.snapshot {
            stored.row.snapshot = Some(snapshot.state);
        }
        Ok(())
    }

    fn find_by_part(&self, part: &str, limit: usize) -> Vec<SessionRow> {
        let matches = |row: &SessionRow| {
            let id = row.id.as_str();
            row.deleted == Deleted::No && (id.starts_with(part) || id.ends_with(part))
        };
        let found = self.sessions.values().filter(|stored| matches(&stored.row));
        let mut rows: Vec<_> = found.map(StoredSession::listing).collect();
        rows.sort_by_cached_key(|row| std::cmp::Reverse(ListCursor::after(row)));
        rows.truncate(limit);
        rows
    }

    fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        let after = query.after.as_deref().map(ListCursor::decode).transpose()?;
        let listed = self.sessions.values().filter(|stored| stored.matches(query));
        let mut rows: Vec<_> = listed.map(StoredSession::listing).collect();
        rows.sort_by_cached_key(|row| std::cmp::Reverse(ListCursor::after(row)));
        if let Some(after) = after {
            rows.retain(|row| ListCursor::after(row) < after);
        }
        Ok(ListPage::of(rows, query.limit))
    }

    fn changes(&self, since: Option<Revision>) -> Changes {
        let since = since.unwrap_or(Revision(self.revision));
        let mut changed: Vec<_> = self.sessions.values().filter(|stored| stored.revision > since.0).collect();
        changed.sort_by_key(|stored| stored.revision);
        let sessions = changed.into_iter().map(StoredSession::changed).collect();
        Changes { sessions, revision: Revision(self.revision) }
    }

    fn change(
        &mut self,
        session: &SessionId,
        change: impl FnOnce(&mut StoredSession),
    ) -> Result<(), StoreError> {
        let revision = self.next_revision();
        let stored = self.existing(session)?;
        change(stored);
        stored.revision = revision;
        Ok(())
    }

    fn delete(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let revision = self.next_revision();
        let stored = self.session(session)?;
        if stored.row.deleted == Deleted::No {
            stored.row.deleted = Deleted::Yes;
            stored.epoch += 1;
            stored.revision = revision;
        }
        self.free_deleted();
        Ok(())
    }

    fn delete_unowned(&mut self, sessions: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        let mut deleted = Vec::new();
        for session in sessions {
            let row = &self.session(session)?.row;
            if row.owner.is_none() && row.deleted == Deleted::No {
                self.delete(session)?;
                deleted.push(session.clone());
            }
        }
        Ok(deleted)
    }

    /// Drops the text of deleted sessions that nobody owns, as far as no fork needs it.
    fn free_deleted(&mut self) {
        let gone = |stored: &&StoredSession| stored.row.deleted == Deleted::Yes && stored.row.owner.is_none();
        let deleted: Vec<_> =
            self.sessions.values().filter(gone).map(|stored| stored.row.id.clone()).collect();
        for id in deleted {
            let needed = self.forks_of(&id).into_iter().max().unwrap_or(Seq(0));
            if let Some(stored) = self.sessions.get_mut(&id) {
                stored.items.retain(|sized| sized.item.first <= needed);
                stored.row.snapshot = None;
                stored.row.title = None;
            }
        }
    }

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }
}

impl MemoryState {
    /// Returns a session, also if it is deleted.
    fn session(&mut self, session: &SessionId) -> Result<&mut StoredSession, StoreError> {
        self.sessions.get_mut(session).ok_or_else(|| StoreError::Unknown(session.clone()))
    }

    /// Returns a session that is not deleted.
    fn existing(&mut self, session: &SessionId) -> Result<&mut StoredSession, StoreError> {
        let stored = self.session(session)?;
        match stored.row.deleted {
            Deleted::No => Ok(stored),
            Deleted::Yes => Err(StoreError::Unknown(session.clone())),
        }
    }

    fn append(&mut self, append: &Append) -> Result<(), StoreError> {
        let (others, revision) = (self.later_than_others(&append.session), self.next_revision());
        let stored = self.session(&append.session)?;
        stored.check_epoch(append.epoch)?;
        if stored.row.head != append.expected {
            return Err(stored.moved_on(append.expected));
        }
        let before = stored.row.updated_at;
        let at = append.at.map_or(before, |at| at.max(before).max(others));
        stored.write(&append.entries, &append.facts, at);
        stored.revision = revision;
        self.drop_stub(&append.facts);
        self.remember_import(&append.facts);
        Ok(())
    }

    fn layers(&self, session: &SessionId, head: Seq) -> Vec<Layer<SessionId>> {
        let parent_of = |id: &SessionId| {
            Ok::<_, Infallible>(self.sessions.get(id).and_then(|stored| stored.row.parent.clone()))
        };
        let Ok(layers) = lineage(session.clone(), head, parent_of);
        layers
    }

    /// Adds the items of a layer. Returns where to continue if they do not all fit.
    fn fill(&self, layer: &Layer<SessionId>, from: Seq, page: &mut PageBuilder) -> Option<Seq> {
        let from = from.max(layer.after.next());
        let stored = self.sessions.get(&layer.key)?;
        if from <= stored.folded.min(layer.upto) {
            page.begin_folded();
        }
        let start = stored.items.partition_point(|sized| sized.item.first < from);
        let mut last = None;
        for sized in &stored.items[start..] {
            let first = sized.item.first;
            if first > layer.upto {
                break;
            }
            // Items with the same sequence number must be on one page, since the next page cannot distinguish them.
            if last != Some(first) && !page.has_room(sized.size) {
                return Some(first);
            }
            page.add_item(sized.item.clone(), sized.size);
            last = Some(first);
        }
        None
    }

    /// The sequence numbers at which other sessions were forked from this one.
    fn forks_of(&self, session: &SessionId) -> Vec<Seq> {
        let heads = self.sessions.values().map(|stored| (&stored.row.id, stored.row.head));
        let layers = heads.filter(|(id, _)| *id != session).flat_map(|(id, head)| self.layers(id, head));
        layers.filter(|layer| layer.key == *session).map(|layer| layer.upto).collect()
    }
}

impl MemoryState {
    /// The first millisecond after the last change of all other listed sessions.
    fn later_than_others(&self, session: &SessionId) -> Millis {
        let listed =
            |stored: &&StoredSession| stored.row.listed.is_some() && stored.row.deleted == Deleted::No;
        let others = self.sessions.values().filter(listed).filter(|stored| stored.row.id != *session);
        others.map(|stored| stored.row.updated_at + 1).max().unwrap_or(0)
    }

    /// Removes the stub of a session that an agent listed before it was known to be the same session.
    fn drop_stub(&mut self, facts: &RowFacts) {
        let Some(native) = &facts.native else { return };
        let id = SessionId(native.id.clone());
        if self.sessions.get(&id).is_some_and(|stored| stored.is_stub() && stored.row.agent == native.agent) {
            self.sessions.remove(&id);
        }
    }

    fn add_stub(&mut self, agent: &str, stub: &Stub) {
        let stored = self.sessions.entry(stub.id.clone()).or_insert_with(|| StoredSession::stub(agent, stub));
        if stored.is_stub() {
            stored.row.updated_at = stub.updated_at;
            if !matches!(stored.row.title, Some((_, TitleSource::User))) {
                stored.row.title = stub.title.clone().map(|title| (title, TitleSource::Agent));
            }
        }
    }
}

impl StoredSession {
    fn stub(agent: &str, stub: &Stub) -> Self {
        let mut stored = Self::new(&NewSession {
            id: stub.id.clone(),
            cwd: stub.cwd.clone(),
            agent: agent.to_owned(),
            parent: None,
            entries: Vec::new(),
            facts: RowFacts::default(),
            snapshot: None,
            at: stub.updated_at,
        });
        stored.row.owner = None;
        stored.row.listed = Some(Listed);
        stored
    }

    fn new(new: &NewSession) -> Self {
        let head = new.parent.as_ref().map_or(Seq(0), |(_, fork)| *fork);
        let row = SessionRow {
            id: new.id.clone(),
            cwd: new.cwd.clone(),
            roots: Vec::new(),
            title: None,
            agent: new.agent.clone(),
            natives: Vec::new(),
            updated_at: new.at,
            head,
            snapshot: None,
            archived: Archived::No,
            deleted: Deleted::No,
            owner: Some(this_process()),
            parent: new.parent.clone(),
            agent_name: None,
            release_asked_at: None,
            listed: None,
        };
        Self {
            row,
            revision: 0,
            owned_epoch: 1,
            epoch: 1,
            items: Vec::new(),
            folded: head,
            natives: Vec::new(),
        }
    }

    /// Returns whether the row only comes from an agent's list.
    fn is_stub(&self) -> bool {
        self.row.head == Seq(0) && self.row.deleted == Deleted::No && self.row.owner.is_none()
    }

    fn lease(&self) -> Lease {
        Lease { session: self.row.id.clone(), epoch: self.epoch, head: self.row.head, folded: self.folded }
    }

    fn check_epoch(&self, held: u64) -> Result<(), StoreError> {
        if self.epoch == held {
            return Ok(());
        }
        Err(StoreError::StaleEpoch { session: self.row.id.clone(), held, found: self.epoch })
    }

    fn reaches(&self, seq: Seq) -> Result<(), StoreError> {
        if seq <= self.row.head { Ok(()) } else { Err(self.moved_on(seq)) }
    }

    fn moved_on(&self, expected: Seq) -> StoreError {
        StoreError::MovedOn { session: self.row.id.clone(), expected, found: self.row.head }
    }

    fn write(&mut self, entries: &[Arc<Entry>], facts: &RowFacts, at: Millis) {
        for entry in entries {
            self.row.head = self.row.head.next();
            let item = Folded { first: self.row.head, last: self.row.head, entry: entry.as_ref().clone() };
            self.items.push(SizedItem::of(item));
        }
        self.row.updated_at = at;
        self.apply_facts(facts);
    }

    fn apply_facts(&mut self, facts: &RowFacts) {
        if let Some((title, by)) = &facts.title
            && self.row.title.as_ref().is_none_or(|(_, old)| by <= old)
        {
            self.row.title = Some((title.clone(), *by));
        }
        if let Some(roots) = &facts.roots {
            self.row.roots.clone_from(roots);
        }
        if let Some(cwd) = &facts.cwd {
            self.row.cwd.clone_from(cwd);
        }
        if let Some(agent) = &facts.agent_name {
            self.row.agent_name.clone_from(&agent.0);
        }
        if let Some(native) = &facts.native {
            self.natives.push(native.clone());
            if self.row.natives.last() != Some(&native.id) {
                self.row.natives.push(native.id.clone());
            }
        }
        self.row.listed = self.row.listed.or(facts.listed);
    }

    /// Folds the unfolded entries without merging across the forks in `cuts`.
    fn fold(&mut self, upto: Seq, cuts: &[Seq]) {
        let upto = upto.min(self.row.head);
        let start = self.items.partition_point(|sized| sized.item.first <= self.folded);
        let end = self.items.partition_point(|sized| sized.item.first <= upto);
        if start >= end {
            return;
        }
        let open: Vec<_> = self.items[start..end].iter().map(|sized| sized.item.clone()).collect();
        let stretches = open.chunk_by(|item, _| !cuts.contains(&item.last));
        let folded: Vec<_> = stretches.flat_map(fold).map(SizedItem::of).collect();
        debug_assert!(folded.is_sorted_by_key(|sized| sized.item.first), "a fold keeps the order");
        self.items.splice(start..end, folded);
        self.folded = upto;
    }

    fn matches(&self, query: &ListQuery) -> bool {
        query.includes(&self.row) && query.agent.as_deref().is_none_or(|agent| self.was_served_by(agent))
    }

    fn size(&self) -> u64 {
        self.items.iter().map(|sized| sized.size as u64).sum()
    }

    fn was_served_by(&self, agent: &str) -> bool {
        let wanted = agent.to_ascii_lowercase();
        let mut names =
            std::iter::once(&self.row.agent).chain(self.natives.iter().map(|native| &native.agent));
        names.any(|name| name.to_ascii_lowercase().contains(&wanted))
    }

    fn changed(&self) -> ChangedSession {
        ChangedSession {
            id: self.row.id.clone(),
            epoch: self.epoch,
            archived: self.row.archived,
            deleted: self.row.deleted,
            release_asked_at: self.row.release_asked_at,
        }
    }

    fn listing(&self) -> SessionRow {
        SessionRow { head: self.folded, snapshot: None, ..self.row.clone() }
    }
}

impl SizedItem {
    fn of(item: Folded) -> Self {
        let size = stored::encode_entry(&item.entry).len();
        Self { item, size }
    }
}

fn this_process() -> Owner {
    let process = ProcessIdentity::this();
    let (since, ours) = (clock::now(), OwnedHere::Yes);
    Owner { pid: process.pid, host: process.host, since, ours, contact: None }
}
