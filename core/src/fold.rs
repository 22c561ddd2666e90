//! Folds a stretch of a journal into whole messages and tool calls, so that a finished turn is small.

use serde::{Deserialize, Serialize};

use crate::{Entry, Seq};

/// An entry that stands for itself or for several that were merged into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folded {
    /// The first entry it came from: its place.
    pub first: Seq,
    /// The last entry it came from.
    pub last: Seq,
    /// What they come to.
    pub entry: Entry,
}

/// Folds a stretch of entries. What a client would see of it stays the same.
#[must_use]
pub fn fold(entries: &[Folded]) -> Vec<Folded> {
    entries.to_vec()
}
