//! Makes sessions in the store of a test, through the interface of the store.

use std::path::Path;
use std::sync::Arc;

use rethread::clock;
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::facts::facts;
use rethread::store::{Append, Durability, Lease, NewSession, RowFacts, Store as _};
use rethread_core::{
    AgentKind, Binding, Entry, JournalBuilder, Json, Millis, Origin, PromptStyle, Session, Update, stored,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// An open store.
pub(super) struct Stored {
    // Dropped before the runtime that it may use.
    pub(super) store: EmbeddedStore,
    runtime: Runtime,
}

/// A session to make.
pub(super) struct Made<'a> {
    pub(super) id: &'a str,
    pub(super) cwd: &'a str,
    pub(super) agent: &'a str,
    /// How many milliseconds ago it was changed.
    pub(super) ago: Millis,
    /// What was said, in the canonical shape of updates.
    pub(super) updates: Vec<Value>,
}

impl Stored {
    pub(super) fn open(home: &Path) -> Self {
        let paths = EmbeddedPaths { database: home.join("rethread.db"), locks: home.join("state/locks") };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self { store: EmbeddedStore::open(&paths).expect("the store opens"), runtime }
    }

    pub(super) fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Makes a session that nobody owns.
    pub(super) fn add(&self, made: &Made<'_>) {
        let lease = self.add_owned(made);
        self.wait(self.store.release(&lease)).expect("it can be released");
    }

    /// Makes a session whose last turns are in a journal file, as a process leaves it that was killed.
    pub(super) fn add_with_tail(&self, made: &Made<'_>, tail: &[Value]) {
        let mut lease = self.add_owned(made);
        let origin = Origin {
            cwd: made.cwd.to_owned(),
            roots: Vec::new(),
            agent: made.agent.to_owned(),
            title: None,
            at: 1,
        };
        let mut journal = JournalBuilder::new(origin);
        tail.iter().for_each(|update| journal.add(Update::read(Json::from(update.clone())), Some(2)));
        // Without the entry that opens a session.
        let entries: Vec<_> = journal.finish().1.into_iter().skip(1).map(Arc::new).collect();
        for entry in entries {
            let append = Append {
                session: lease.session.clone(),
                epoch: lease.epoch,
                expected: lease.head,
                facts: RowFacts::default(),
                entries: vec![entry],
                durability: Durability::Power,
                at: None,
            };
            self.wait(self.store.append(append)).expect("it can be written");
            lease.head = lease.head.next();
        }
        self.wait(self.store.release(&lease)).expect("it can be released");
    }

    /// Makes a session that this process owns.
    pub(super) fn add_owned(&self, made: &Made<'_>) -> Lease {
        let at = clock::now() - made.ago;
        let origin = Origin {
            cwd: made.cwd.to_owned(),
            roots: Vec::new(),
            agent: made.agent.to_owned(),
            title: None,
            at: at - 1000,
        };
        let mut journal = JournalBuilder::new(origin);
        made.updates
            .iter()
            .for_each(|update| journal.add(Update::read(Json::from(update.clone())), Some(at)));
        let (mut session, mut entries) = journal.finish();
        let bound = bound(made, &session);
        session.apply(&bound);
        entries.insert(1, bound);
        let new = NewSession {
            id: made.id.into(),
            cwd: made.cwd.to_owned(),
            agent: made.agent.to_owned(),
            parent: None,
            facts: facts(entries.iter()),
            entries: entries.into_iter().map(Arc::new).collect(),
            snapshot: Some(stored::encode_session(&session)),
            at,
        };
        self.wait(self.store.create(new)).expect("it can be created")
    }
}

fn bound(made: &Made<'_>, session: &Session) -> Entry {
    Entry::AgentBound {
        generation: session.generations + 1,
        agent: made.agent.to_owned(),
        native: format!("native-{}", made.id),
        binding: Binding::Fresh,
        style: PromptStyle::OneAtATime,
        kind: AgentKind::External,
    }
}

/// A prompt.
pub(super) fn prompt(id: &str, text: &str) -> Value {
    json!({"sessionUpdate": "user_message", "messageId": id, "content": [{"type": "text", "text": text}]})
}

/// An answer.
pub(super) fn answer(id: &str, text: &str) -> Value {
    json!({"sessionUpdate": "agent_message", "messageId": id, "content": [{"type": "text", "text": text}]})
}

/// Updates for this many turns, the first of which begins with this prompt.
pub(super) fn turns(first: &str, count: usize) -> Vec<Value> {
    let turn = |no: usize| {
        let text = if no == 0 { first.to_owned() } else { format!("prompt {}", no + 1) };
        [prompt(&format!("p{no}"), &text), answer(&format!("a{no}"), &format!("answer {}", no + 1))]
    };
    (0..count).flat_map(turn).collect()
}
