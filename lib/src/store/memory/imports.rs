//! The ledger of imports in memory.

use std::collections::BTreeMap;

use rethread_core::{Millis, SessionId};

use super::{MemoryStore, ready};
use crate::store::{DriftCount, ImportLedger, ImportRecord, StoreFuture};

/// What is kept of imports.
#[derive(Default)]
pub(super) struct MemoryLedger {
    records: BTreeMap<(String, String, String), ImportRecord>,
    drift: BTreeMap<(String, String, String), u64>,
}

impl MemoryLedger {
    /// Stores how far a source was imported.
    pub(super) fn remember(&mut self, record: &ImportRecord) {
        let key = (record.tool.clone(), record.path.clone(), record.key.clone());
        self.records.insert(key, record.clone());
    }
}

impl ImportLedger for MemoryStore {
    fn imports(&self, tool: &str) -> StoreFuture<'_, Vec<ImportRecord>> {
        let state = self.state();
        let records = state.ledger.records.values().filter(|record| record.tool == tool);
        ready(Ok(records.cloned().collect()))
    }

    fn remember_import(&self, record: &ImportRecord) -> StoreFuture<'_, ()> {
        self.state().ledger.remember(record);
        ready(Ok(()))
    }

    fn find_native(&self, agents: &[&str], native: &str) -> StoreFuture<'_, Option<SessionId>> {
        let state = self.state();
        let has_it = |stored: &&super::StoredSession| {
            let is_it =
                |known: &crate::store::NativeId| known.id == native && agents.contains(&known.agent.as_str());
            stored.natives.iter().any(is_it)
        };
        ready(Ok(state.sessions.values().find(has_it).map(|stored| stored.row.id.clone())))
    }

    fn add_drift(&self, drift: &[DriftCount], _at: Millis) -> StoreFuture<'_, ()> {
        let mut state = self.state();
        for DriftCount { tool, version, what, count } in drift {
            let key = (tool.clone(), version.clone(), what.clone());
            *state.ledger.drift.entry(key).or_default() += count;
        }
        ready(Ok(()))
    }

    fn drift(&self) -> StoreFuture<'_, Vec<DriftCount>> {
        let state = self.state();
        let count = |((tool, version, what), count): (&(String, String, String), &u64)| DriftCount {
            tool: tool.clone(),
            version: version.clone(),
            what: what.clone(),
            count: *count,
        };
        ready(Ok(state.ledger.drift.iter().map(count).collect()))
    }
}
