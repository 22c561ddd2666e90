//! The part of the store interface for importing the sessions of other tools: which sources were imported and how far, and
//! what in them was not known.

use rethread_core::{Millis, SessionId};

use super::StoreFuture;

/// What a store keeps of imports.
pub trait ImportLedger {
    /// Returns the sources of a tool that were imported.
    fn imports(&self, tool: &str) -> StoreFuture<'_, Vec<ImportRecord>>;

    /// Stores how far a source was imported, in place of what was stored of it before.
    fn remember_import(&self, record: &ImportRecord) -> StoreFuture<'_, ()>;

    /// Returns the session that one of these agents has under this id, also if it is deleted.
    fn find_native(&self, agents: &[&str], native: &str) -> StoreFuture<'_, Option<SessionId>>;

    /// Adds to the counts of what was not known in the sources of a tool.
    fn add_drift(&self, drift: &[DriftCount], at: Millis) -> StoreFuture<'_, ()>;

    /// Returns what was not known in sources, by tool, version and name.
    fn drift(&self) -> StoreFuture<'_, Vec<DriftCount>>;
}

/// How far a source was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportRecord {
    /// The tool.
    pub tool: String,
    /// The file or database.
    pub path: String,
    /// The session inside of a database; empty for a file.
    pub key: String,
    /// The size that the source had.
    pub size: u64,
    /// When the source had been changed.
    pub modified: Millis,
    /// The session that it became or that was there before; nothing if it had no conversation.
    pub session: Option<SessionId>,
    /// The turns that the session had then.
    pub turns: u64,
    /// How many events of the source the session has; 0 if it was not made by an import.
    pub events: u64,
    /// The hash of these events.
    pub hash: Vec<u8>,
    /// Whether all of the source was stored.
    pub progress: ImportProgress,
}

/// Whether an import was finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportProgress {
    /// It was.
    #[default]
    Done,
    /// It was begun, and perhaps interrupted.
    Begun,
}

/// Something that a reader does not know, and how often it was there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriftCount {
    /// The tool.
    pub tool: String,
    /// The version of the tool that wrote it; empty if the records do not say.
    pub version: String,
    /// The kind of record, or the field.
    pub what: String,
    /// How often.
    pub count: u64,
}
