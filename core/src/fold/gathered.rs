//! Collects the items of a turn and folds them now and then, so that a long stream needs little memory.

use super::{Folded, fold};

/// How many items are kept unfolded.
const LOOSE: usize = 4096;

/// Items of one session that follow each other, none of them from before the end of the last turn.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    items: Vec<Folded>,
    /// How many there were after the last fold.
    folded: usize,
}

impl Gathered {
    /// Adds the item that comes next.
    pub fn push(&mut self, item: Folded) {
        self.items.push(item);
        if self.items.len() > self.folded + LOOSE {
            self.fold();
        }
    }

    /// The items so far, folded.
    pub fn fold(&mut self) -> &[Folded] {
        if self.items.len() > self.folded {
            self.items = fold(&self.items);
            self.folded = self.items.len();
        }
        &self.items
    }

    /// Takes the items out, folded.
    pub fn take(&mut self) -> Vec<Folded> {
        self.fold();
        self.folded = 0;
        std::mem::take(&mut self.items)
    }
}
