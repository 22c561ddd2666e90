//! Sessions and entries for the tests of stores.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::Path;
use std::sync::Arc;

use rethread::store::sqlite::{SqlitePaths, SqliteStore};
use rethread::store::{Append, Durability, Lease, Listed, NewSession, Page, RowFacts, Store, StoreError};
use rethread_core::{Entry, Folded, Seq, SessionId, TurnNo, Update, UpdateKind};

/// Where the tests put a database below their directory.
pub(crate) fn paths(dir: &Path) -> SqlitePaths {
    SqlitePaths { database: dir.join("data/rethread.db"), locks: dir.join("state/locks") }
}

pub(crate) fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(&paths(dir)).unwrap()
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
        snapshot: None,
        durability: Durability::Process,
        at: Some(2),
    }
}

/// Appends and moves the lease's head along.
pub(crate) fn append(
    store: &dyn Store,
    lease: &mut Lease,
    entries: Vec<Arc<Entry>>,
) -> Result<(), StoreError> {
    let count = entries.len() as u64;
    append_one(store, append_of(lease, entries))?;
    lease.head = Seq(lease.head.0 + count);
    Ok(())
}

pub(crate) fn append_one(store: &dyn Store, append: Append) -> Result<(), StoreError> {
    let mut outcomes = store.append(&[append]);
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// Reads all pages and checks that they fit together.
pub(crate) fn read_all(store: &dyn Store, session: &str, budget: usize) -> Vec<Folded> {
    let session = SessionId::from(session);
    let (mut items, mut from) = (Vec::new(), Seq(0));
    loop {
        let Page { items: more, next, end } = store.read(&session, from, budget).unwrap();
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
