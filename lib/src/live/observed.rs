//! Where the observers of a session read on: at the tail of the live session while there is one, else at a tail without entries
//! that only says how far the store is. A change between the two loses nothing, since a cursor that is behind reads the store.

use std::sync::{Arc, Mutex, Weak};

use super::{Cursor, Live};
use crate::lock::locked;

/// Where the observers of one session read on.
pub(crate) struct ObservedTail {
    current: Mutex<Arc<Live>>,
    cursors: Mutex<Vec<Weak<Cursor>>>,
}

impl ObservedTail {
    /// Begins with this tail.
    pub(crate) fn new(current: Arc<Live>) -> Self {
        Self { current: Mutex::new(current), cursors: Mutex::default() }
    }

    /// The tail to read.
    #[must_use]
    pub(crate) fn current(&self) -> Arc<Live> {
        locked(&self.current).clone()
    }

    /// Another tail is the one to read from now on.
    pub(crate) fn switch(&self, to: Arc<Live>) {
        *locked(&self.current) = to;
        self.cursors(|cursor| cursor.ring());
    }

    /// Rings a cursor when the tail is another one, and at once.
    pub(crate) fn attach(&self, cursor: &Arc<Cursor>) {
        locked(&self.cursors).push(Arc::downgrade(cursor));
        self.current().attach(cursor);
        cursor.ring();
    }

    /// Says whether anybody observes.
    #[must_use]
    pub(crate) fn is_observed(&self) -> bool {
        let mut any = false;
        self.cursors(|_| any = true);
        any
    }

    fn cursors(&self, mut each: impl FnMut(&Arc<Cursor>)) {
        locked(&self.cursors).retain(|cursor| match cursor.upgrade() {
            Some(cursor) => {
                each(&cursor);
                true
            }
            None => false,
        });
    }
}
