//! The state of a session, read from a store: its snapshot and the entries after it.

use std::ops::ControlFlow;

use rethread_core::{Seq, Session, SessionId, stored};

use super::{SessionRow, Store, StoreError};

/// How much of a journal is read at once.
const PAGE: usize = 1024 * 1024;

/// The state of a session as the store has it, and its last sequence number.
pub(crate) fn read_state(store: &dyn Store, id: &SessionId) -> Result<(Session, Seq), StoreError> {
    let row = store.find(id)?.ok_or_else(|| StoreError::Unknown(id.clone()))?;
    Ok((state_of(store, &row)?, row.head))
}

/// The state of a session at the head of its row: the snapshot, and what came after it.
pub(crate) fn state_of(store: &dyn Store, row: &SessionRow) -> Result<Session, StoreError> {
    // A snapshot that cannot be read costs time, nothing else: the journal has it all.
    let kept = row.snapshot.as_deref().and_then(|bytes| stored::decode_session(bytes).ok());
    let mut session = kept.unwrap_or_default();
    let mut from = session.head.next();
    while from <= row.head {
        let reached = store.walk(&row.id, from, PAGE, &mut |item| {
            if item.first > row.head {
                return Ok(ControlFlow::Break(()));
            }
            session.replay(item.last, &*item.entry()?);
            Ok(ControlFlow::Continue(()))
        })?;
        from = reached.next;
        if reached.end {
            break;
        }
    }
    session.head = row.head;
    Ok(session)
}
