//! Which messages, tool calls and other things of a session were spoken of. Entries record whether an update is the first
//! one of its thing, for the fold and for version 1; whoever makes entries asks this.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{Subject, Update, UpdateKind};

/// The things that were spoken of, as hashes of kind and id.
#[derive(Clone, Debug, Default)]
pub struct KnownThings(HashSet<u64>);

impl KnownThings {
    /// Says whether the thing was spoken of before, and remembers that it is now. What has no id is never known.
    pub fn note(&mut self, kind: UpdateKind, id: &str) -> bool {
        if id.is_empty() {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        (kind.whole(), id).hash(&mut hasher);
        !self.0.insert(hasher.finish())
    }

    /// The same for the thing that an update speaks of. The ids of a sub-agent are apart from those around it.
    pub fn note_update(&mut self, update: &Update) -> bool {
        if update.kind.subject() != Subject::Other || update.id.is_empty() {
            return self.note(update.kind, &update.id);
        }
        let inner = Update::read(update.body.clone());
        !inner.id.is_empty() && self.note(inner.kind, &format!("{}/{}", update.id, inner.id))
    }
}
