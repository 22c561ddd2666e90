//! Stores the entries of a session that comes from elsewhere: turn by turn in one form, without marks of trust, in one step
//! if it is not very large. Files of sessions and importers of other tools write sessions by this and in no other way.

use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use rethread_core::session::Native;
use rethread_core::{Entry, KnownThings, Millis, Seq, Session, SessionId, stored};

use super::canonical::{CanonicalFold, size};
use crate::store::{
    Append, Durability, FoldUpTo, Lease, NativeId, NewSession, RowFacts, Snapshot, Store, StoreError,
};

/// Up to this size a session is stored in one step, so that a crash leaves nothing of it.
const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// The row of a session that is written.
pub(crate) struct WrittenRow {
    /// The id of the session.
    pub(crate) id: SessionId,
    /// The working directory.
    pub(crate) cwd: String,
    /// The display name of the agent.
    pub(crate) agent: String,
    /// Other values of the row from the first step on.
    pub(crate) facts: RowFacts,
    /// When it was changed last.
    pub(crate) at: Millis,
}

/// Which of the agents' ids become those of the session.
pub(crate) enum KeptNatives {
    /// All that its entries bind.
    All,
    /// Those that the session has in the end.
    These(Peekable<IntoIter<Native>>),
    /// None: they stay with the original.
    None,
}

/// Stores the entries of one session in batches.
pub(crate) struct SessionWriter<'a> {
    store: &'a dyn Store,
    row: WrittenRow,
    natives: KeptNatives,
    turns: CanonicalFold,
    session: Session,
    lease: Option<Lease>,
    batch: Vec<Arc<Entry>>,
    bytes: usize,
    last_turn_end: Seq,
    /// The agent's id that is stored with the batch.
    native: Option<NativeId>,
    /// When the session is changed by the next batch, if that is to be seen in lists.
    touched: Option<Millis>,
}

impl<'a> SessionWriter<'a> {
    /// Writes a new session.
    pub(crate) fn new(store: &'a dyn Store, row: WrittenRow, natives: KeptNatives) -> Self {
        Self {
            store,
            row,
            natives,
            turns: CanonicalFold::default(),
            session: Session::default(),
            lease: None,
            batch: Vec::new(),
            bytes: 0,
            last_turn_end: Seq(0),
            native: None,
            touched: None,
        }
    }

    /// Goes on with a stored session that is owned and between two turns.
    pub(crate) fn resume(
        store: &'a dyn Store,
        row: WrittenRow,
        lease: Lease,
        session: Session,
        known: KnownThings,
    ) -> Self {
        let turns = CanonicalFold::after(known);
        Self { turns, session, lease: Some(lease), ..Self::new(store, row, KeptNatives::All) }
    }

    /// Sets when the session was changed last, if nothing of it is stored yet.
    pub(crate) fn changed_at(&mut self, at: Millis) {
        self.row.at = at;
    }

    /// Returns whether something of the session is stored.
    pub(crate) fn is_stored(&self) -> bool {
        self.lease.is_some()
    }

    /// Drops the entries since the last turn, unless a part of them is written. Returns whether they were dropped.
    pub(crate) fn drop_open_turn(&mut self) -> bool {
        let is_whole = self.session.turn.is_none();
        if is_whole {
            self.turns.restart_turn();
        }
        is_whole
    }

    /// Gives the session up without its last entries.
    pub(crate) async fn abandon(mut self) -> Result<(), StoreError> {
        match self.lease.take() {
            Some(lease) => self.store.release(&lease).await,
            None => Ok(()),
        }
    }

    /// Returns whether no entry has come yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.session.head == Seq(0) && self.turns.is_empty()
    }

    /// The state of the session after the turns so far.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Adds an entry; the entries of a turn are stored when it has ended.
    pub(crate) async fn entry(&mut self, entry: Entry) -> Result<(), StoreError> {
        for entry in self.turns.push(entry) {
            self.write(entry).await?;
        }
        Ok(())
    }

    /// Adds the entries since the last turn as they are.
    pub(crate) async fn end_turn(&mut self) -> Result<(), StoreError> {
        for entry in self.turns.take() {
            self.write(entry).await?;
        }
        Ok(())
    }

    /// Adds an entry that is in its final form.
    pub(crate) async fn write(&mut self, entry: Entry) -> Result<(), StoreError> {
        if let Some(native) = self.next_native(&entry) {
            // A change of the row has room for one id.
            if self.native.is_some() {
                self.store_batch(None, RowFacts::default()).await?;
            }
            self.native = Some(native);
        }
        self.session.apply(&entry);
        if matches!(entry, Entry::TurnEnded { .. }) {
            self.last_turn_end = self.session.head;
        }
        self.bytes += size(&entry);
        self.batch.push(Arc::new(entry));
        if self.bytes <= MAX_BATCH_BYTES {
            return Ok(());
        }
        self.store_batch(None, RowFacts::default()).await
    }

    /// Stores the rest with the last changes of the row, folds the finished turns and releases the session.
    pub(crate) async fn finish(self, facts: RowFacts) -> Result<(), StoreError> {
        self.finish_at(facts, None).await
    }

    /// The same for a session that is changed at a time, and gets its place in lists by that.
    pub(crate) async fn finish_at(mut self, facts: RowFacts, at: Option<Millis>) -> Result<(), StoreError> {
        self.end_turn().await?;
        self.touched = at;
        let snapshot = self.session.turn.is_none().then(|| stored::encode_session(&self.session));
        self.store_batch(snapshot.clone(), facts).await?;
        let Some(lease) = self.lease.take() else { return Ok(()) };
        if self.last_turn_end > lease.folded {
            let snapshot = snapshot.map(|state| Snapshot { head: self.session.head, state });
            self.store.fold(&lease, FoldUpTo { upto: self.last_turn_end, snapshot }).await?;
        }
        self.store.release(&lease).await
    }

    /// The agent's id that an entry brings, if the session is to have it.
    fn next_native(&mut self, entry: &Entry) -> Option<NativeId> {
        let Entry::AgentBound { agent, native, .. } = entry else { return None };
        let kept = match &mut self.natives {
            KeptNatives::All => true,
            KeptNatives::These(natives) => {
                natives.next_if(|next| next.agent == *agent && next.id == *native).is_some()
            }
            KeptNatives::None => false,
        };
        kept.then(|| NativeId { agent: agent.clone(), id: native.clone() })
    }

    async fn store_batch(&mut self, snapshot: Option<Vec<u8>>, facts: RowFacts) -> Result<(), StoreError> {
        self.bytes = 0;
        let (entries, native) = (std::mem::take(&mut self.batch), self.native.take());
        let facts = RowFacts { native, ..facts };
        let count = entries.len() as u64;
        match &mut self.lease {
            None => {
                let new = self.new_session(entries, facts, snapshot);
                self.lease = Some(self.store.create(new).await?);
            }
            Some(_) if count == 0 && facts == RowFacts::default() => {}
            Some(lease) => {
                let append = Append {
                    session: self.row.id.clone(),
                    epoch: lease.epoch,
                    expected: lease.head,
                    entries,
                    facts,
                    durability: Durability::Process,
                    at: self.touched.take(),
                };
                self.store.append(append).await?;
                lease.head = Seq(lease.head.0 + count);
            }
        }
        Ok(())
    }

    fn new_session(
        &self,
        entries: Vec<Arc<Entry>>,
        facts: RowFacts,
        snapshot: Option<Vec<u8>>,
    ) -> NewSession {
        let first = self.row.facts.clone();
        let facts = RowFacts {
            title: facts.title.or(first.title),
            listed: facts.listed.or(first.listed),
            import: facts.import.or(first.import),
            ..facts
        };
        let WrittenRow { id, cwd, agent, at, .. } = &self.row;
        let (id, cwd, agent) = (id.clone(), cwd.clone(), agent.clone());
        NewSession { id, cwd, agent, parent: None, entries, facts, snapshot, at: *at }
    }
}
