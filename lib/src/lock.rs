//! Taking a lock whose holder may have panicked: every one in this crate guards data that is whole at any time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
