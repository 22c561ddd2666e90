//! Builds a page of items and decides where it ends. Independent of where the items come from.

use std::ops::ControlFlow;

use rethread_core::Seq;
use rethread_core::stored::{Stored, StoredError};

use super::{ItemVisitor, ReadProgress};

/// The visitor of the items, and the bytes that are left.
pub(super) struct PageBuilder<'a> {
    visit: ItemVisitor<'a>,
    room: usize,
    last: Option<Seq>,
}

impl<'a> PageBuilder<'a> {
    /// Makes an empty page of about `budget` bytes.
    pub(super) fn new(budget: usize, visit: ItemVisitor<'a>) -> Self {
        Self { visit, room: budget, last: None }
    }

    /// Returns whether something of this size fits. An empty page accepts any size.
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.last.is_none() || size <= self.room
    }

    /// Adds an item of about this size, or breaks with the sequence number to continue at.
    pub(super) fn take(&mut self, item: Stored<'_>, size: usize) -> Result<ControlFlow<Seq>, StoredError> {
        let first = item.first;
        // Items with the same sequence number must be on one page, since the next page cannot distinguish them.
        let together = self.last.is_none_or(|last| last == first);
        if (size > self.room && !together) || (self.visit)(item)?.is_break() {
            return Ok(ControlFlow::Break(first));
        }
        self.room = self.room.saturating_sub(size);
        self.last = Some(first);
        Ok(ControlFlow::Continue(()))
    }
}

/// Ends a page because its budget is used up.
pub(super) fn cut(next: Seq) -> ReadProgress {
    ReadProgress { next, end: false }
}

/// Ends a page at the end of the journal.
pub(super) fn end(next: Seq) -> ReadProgress {
    ReadProgress { next, end: true }
}
