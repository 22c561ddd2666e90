//! A page while it is being filled. Decides where a page ends; knows nothing of where its items come from.

use std::ops::ControlFlow;

use rethread_core::{Folded, Seq};

use super::Page;

/// The items so far and the room that is left.
pub(super) struct Filling {
    items: Vec<Folded>,
    room: usize,
}

impl Filling {
    /// An empty page with room for about `budget` bytes.
    pub(super) fn new(budget: usize) -> Self {
        Self { items: Vec::new(), room: budget }
    }

    /// Takes one more item of about this size, or breaks with the place to read on at.
    pub(super) fn take(&mut self, item: Folded, size: usize) -> ControlFlow<Seq> {
        // Two items with one place cannot be told apart by the next page: they stay together.
        let together = self.items.last().is_none_or(|last| last.first == item.first);
        if size > self.room && !together {
            return ControlFlow::Break(item.first);
        }
        self.room = self.room.saturating_sub(size);
        self.items.push(item);
        ControlFlow::Continue(())
    }

    /// The page that ends where the room did.
    pub(super) fn cut(self, next: Seq) -> Page {
        Page { items: self.items, next, end: false }
    }

    /// The page that ends where the journal does.
    pub(super) fn end(self, next: Seq) -> Page {
        Page { items: self.items, next, end: true }
    }
}
