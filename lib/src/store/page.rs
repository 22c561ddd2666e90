//! A page while it is being filled. Decides where a page ends; knows nothing of where its items come from, nor of
//! what becomes of them.

use std::ops::ControlFlow;

use rethread_core::Seq;
use rethread_core::stored::{Stored, StoredError};

use super::{Reached, See};

/// Whoever sees the items, and the room that is left.
pub(super) struct Filling<'a> {
    see: See<'a>,
    room: usize,
    last: Option<Seq>,
}

impl<'a> Filling<'a> {
    /// An empty page with room for about `budget` bytes.
    pub(super) fn new(budget: usize, see: See<'a>) -> Self {
        Self { see, room: budget, last: None }
    }

    /// Says whether something of about this size can begin here: on an empty page anything can.
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.last.is_none() || size <= self.room
    }

    /// Takes one more item of about this size, or breaks with the place to read on at.
    pub(super) fn take(&mut self, item: Stored<'_>, size: usize) -> Result<ControlFlow<Seq>, StoredError> {
        let first = item.first;
        // Two items with one place cannot be told apart by the next page: they stay together.
        let together = self.last.is_none_or(|last| last == first);
        if (size > self.room && !together) || (self.see)(item)?.is_break() {
            return Ok(ControlFlow::Break(first));
        }
        self.room = self.room.saturating_sub(size);
        self.last = Some(first);
        Ok(ControlFlow::Continue(()))
    }
}

/// The page ends where the room did.
pub(super) fn cut(next: Seq) -> Reached {
    Reached { next, end: false }
}

/// The page ends where the journal does.
pub(super) fn end(next: Seq) -> Reached {
    Reached { next, end: true }
}
