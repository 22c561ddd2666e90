//! Sessions and entries for the tests of stores.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::Path;
use std::sync::Arc;

use rethread::store::{
    Archived, Changes, FoldUpTo, ListPage, ListQuery, ProgressCallback, PruneTurn, ReleaseAnswer, Revision,
    SearchPage, SearchQuery, SessionRow, Stub,
};

use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::{Append, Durability, Lease, Listed, NewSession, RowFacts, Store, StoreError};
use rethread_core::{Entry, Folded, Millis, Seq, SessionId, TurnNo, Update, UpdateKind};
use tokio::runtime::Runtime;

/// Where the tests put a database below their directory.
pub(crate) fn paths(dir: &Path) -> EmbeddedPaths {
    EmbeddedPaths { database: dir.join("data/rethread.db"), locks: dir.join("state/locks") }
}

pub(crate) fn open(dir: &Path) -> Blocking {
    Blocking::new(Arc::new(EmbeddedStore::open(&paths(dir)).unwrap()))
}

/// A page with its items.
#[derive(Debug)]
pub(crate) struct DecodedPage {
    pub(crate) items: Vec<Folded>,
    pub(crate) next: Seq,
    pub(crate) end: bool,
}

/// A store whose methods wait for their result.
pub(crate) struct Blocking {
    // Dropped before the runtime that it may use.
    store: Arc<dyn Store>,
    runtime: Runtime,
}

impl Blocking {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, runtime: tokio::runtime::Builder::new_current_thread().build().unwrap() }
    }

    pub(crate) fn create(&self, new: NewSession) -> Result<Lease, StoreError> {
        self.runtime.block_on(self.store.create(new))
    }

    /// Waits for what a method of the store returns.
    pub(crate) fn wait<T>(
        &self,
        call: impl AsyncFnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.runtime.block_on(call(self.store.as_ref()))
    }

    pub(crate) fn claim(&self, session: &SessionId) -> Result<Lease, StoreError> {
        self.runtime.block_on(self.store.claim(session))
    }

    pub(crate) fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.release(lease))
    }

    pub(crate) fn append(&self, append: Append) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.append(append))
    }

    pub(crate) fn read(
        &self,
        session: &SessionId,
        from: Seq,
        budget: usize,
    ) -> Result<DecodedPage, StoreError> {
        let page = self.runtime.block_on(self.store.read(session, from, budget))?;
        Ok(DecodedPage { items: page.decode()?, next: page.next, end: page.end })
    }

    pub(crate) fn fold(&self, lease: &Lease, upto: Seq) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.fold(lease, FoldUpTo { upto, snapshot: None }))
    }

    pub(crate) fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.runtime.block_on(self.store.find(session))
    }

    pub(crate) fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        self.runtime.block_on(self.store.list(query))
    }

    pub(crate) fn changes(&self, since: Option<Revision>) -> Result<Changes, StoreError> {
        self.runtime.block_on(self.store.changes(since))
    }

    pub(crate) fn set_title(&self, session: &SessionId, title: &str) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.set_title(session, title))
    }

    pub(crate) fn set_archived(
        &self,
        session: &SessionId,
        archived: Archived,
        at: Millis,
    ) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.set_archived(session, archived, at))
    }

    pub(crate) fn ask_release(&self, session: &SessionId, at: Millis) -> Result<ReleaseAnswer, StoreError> {
        self.runtime.block_on(self.store.ask_release(session, at))
    }

    pub(crate) fn decline_release(&self, session: &SessionId) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.decline_release(session))
    }

    pub(crate) fn delete(&self, session: &SessionId, at: Millis) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.delete(session, at))
    }

    pub(crate) fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.add_stubs(agent, stubs))
    }

    pub(crate) fn find_by_part(&self, part: &str, limit: usize) -> Vec<String> {
        let rows = self.runtime.block_on(self.store.find_by_part(part, limit)).expect("ids can be compared");
        rows.into_iter().map(|row| row.id.0).collect()
    }

    pub(crate) fn search(&self, query: &SearchQuery) -> Result<SearchPage, StoreError> {
        self.runtime.block_on(self.store.search(query))
    }

    pub(crate) fn rebuild_index(&self) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.rebuild_index(Box::new(|_| {})))
    }

    pub(crate) fn update_index(&self, progress: ProgressCallback) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.update_index(progress))
    }

    pub(crate) fn delete_unowned(
        &self,
        sessions: &[SessionId],
        at: Millis,
    ) -> Result<Vec<SessionId>, StoreError> {
        self.runtime.block_on(self.store.delete_unowned(sessions, at, Box::new(|_| {})))
    }

    pub(crate) fn size(&self, session: &SessionId) -> Result<u64, StoreError> {
        self.runtime.block_on(self.store.size(session))
    }

    pub(crate) fn begin_pruning(&self, at: Millis, since: Millis) -> Result<PruneTurn, StoreError> {
        self.runtime.block_on(self.store.begin_pruning(at, since))
    }

    pub(crate) fn profile(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.runtime.block_on(self.store.profile(key))
    }

    pub(crate) fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.remember_profile(key, profile, at))
    }
}

/// A session with nothing in it.
pub(crate) fn new_session(id: &str) -> NewSession {
    NewSession {
        id: id.into(),
        cwd: "/w".to_owned(),
        agent: "agent".to_owned(),
        parent: None,
        entries: Vec::new(),
        facts: RowFacts::default(),
        snapshot: None,
        at: 1,
    }
}

/// A session that lists show.
pub(crate) fn listed_session(id: &str, cwd: &str, at: u64) -> NewSession {
    let facts = RowFacts { listed: Some(Listed), ..RowFacts::default() };
    NewSession { cwd: cwd.to_owned(), facts, at, ..new_session(id) }
}

pub(crate) fn fork_of(id: &str, parent: &str, at: u64) -> NewSession {
    NewSession { parent: Some((parent.into(), Seq(at))), ..new_session(id) }
}

/// An entry that no fold merges with another.
pub(crate) fn entry(text: &str) -> Arc<Entry> {
    let content = serde_json::json!([]).into();
    Arc::new(Entry::PromptInserted { message: text.into(), turn: TurnNo(1), content, at: 1 })
}

/// One more piece of a message.
pub(crate) fn chunk(message: &str, text: &str) -> Arc<Entry> {
    let body = serde_json::json!({
        "sessionUpdate": "agent_message_chunk",
        "messageId": message,
        "content": {"type": "text", "text": text},
    });
    let update = Update { kind: UpdateKind::AgentMessageChunk, id: message.to_owned(), body: body.into() };
    Arc::new(Entry::Updated { update, known: true })
}

/// An append after the lease's head.
pub(crate) fn append_of(lease: &Lease, entries: Vec<Arc<Entry>>) -> Append {
    Append {
        session: lease.session.clone(),
        epoch: lease.epoch,
        expected: lease.head,
        entries,
        facts: RowFacts::default(),
        durability: Durability::Process,
        at: Some(2),
    }
}

/// Appends and moves the lease's head along.
pub(crate) fn append(
    store: &Blocking,
    lease: &mut Lease,
    entries: Vec<Arc<Entry>>,
) -> Result<(), StoreError> {
    let count = entries.len() as u64;
    append_one(store, append_of(lease, entries))?;
    lease.head = Seq(lease.head.0 + count);
    Ok(())
}

pub(crate) fn append_one(store: &Blocking, append: Append) -> Result<(), StoreError> {
    store.append(append)
}

/// Reads all pages and checks that they fit together.
pub(crate) fn read_all(store: &Blocking, session: &str, budget: usize) -> Vec<Folded> {
    let session = SessionId::from(session);
    let (mut items, mut from) = (Vec::new(), Seq(0));
    loop {
        let DecodedPage { items: more, next, end } = store.read(&session, from, budget).unwrap();
        assert!(end || !more.is_empty(), "a page that is not the last has something");
        items.extend(more);
        if end {
            let head = store.find(&session).unwrap().unwrap().head;
            assert_eq!(next, head.next(), "the end is after the head");
            return items;
        }
        assert!(next > from, "reading gets on");
        from = next;
    }
}

/// Items as text: `1 a`.
pub(crate) fn show(items: &[Folded]) -> Vec<String> {
    items.iter().map(show_item).collect()
}

fn show_item(item: &Folded) -> String {
    let Entry::PromptInserted { message, .. } = &item.entry else {
        panic!("not an entry of these tests: {item:?}")
    };
    assert_eq!(item.first, item.last);
    format!("{} {message}", item.first)
}
