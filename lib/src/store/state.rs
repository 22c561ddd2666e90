//! The state of a session, read from a store: its snapshot and the entries after it.

use rethread_core::{Entry, Seq, Session, SessionId, stored};

use super::{SessionRow, Store, StoreError};

/// How much of a journal is read at once.
const PAGE: usize = 1024 * 1024;

/// The state of a session as the store has it, and its row.
pub(crate) async fn read_state(
    store: &dyn Store,
    id: &SessionId,
) -> Result<(Session, SessionRow), StoreError> {
    let row = store.find(id).await?.ok_or_else(|| StoreError::Unknown(id.clone()))?;
    Ok((state_of(store, &row).await?, row))
}

/// The state of a session at the head of its row: the snapshot, and what came after it.
async fn state_of(store: &dyn Store, row: &SessionRow) -> Result<Session, StoreError> {
    let mut session = snapshot_of(row).unwrap_or_default();
    replay(store, row, &mut session, row.head).await?;
    Ok(session)
}

/// The state of a session, and its state at the end of its last turn, or when it was made.
pub(crate) async fn state_and_turn_end(
    store: &dyn Store,
    row: &SessionRow,
) -> Result<(Session, Option<Session>), StoreError> {
    let mut now = snapshot_of(row).unwrap_or_default();
    let ended = replay(store, row, &mut now, row.head).await?;
    let mut turn_end = snapshot_of(row);
    if let Some(ended) = ended {
        let mut session = turn_end.unwrap_or_default();
        replay(store, row, &mut session, ended).await?;
        turn_end = Some(session);
    }
    Ok((now, turn_end))
}

fn snapshot_of(row: &SessionRow) -> Option<Session> {
    // A snapshot that cannot be read costs time, nothing else: the journal has it all.
    row.snapshot.as_deref().and_then(|bytes| stored::decode_session(bytes).ok())
}

/// Applies the entries up to `upto` that the state does not have. Returns the last one that ends a turn.
async fn replay(
    store: &dyn Store,
    row: &SessionRow,
    session: &mut Session,
    upto: Seq,
) -> Result<Option<Seq>, StoreError> {
    let (mut from, mut ended) = (session.head.next(), None);
    while from <= upto {
        let page = store.read(&row.id, from, PAGE).await?;
        for item in page.items() {
            let item = item?;
            let (first, last) = (item.first, item.last);
            if first > upto {
                break;
            }
            let entry = item.entry().map_err(|cause| page.damaged(first, cause))?;
            if let Entry::TurnEnded { .. } = *entry {
                ended = Some(last);
            }
            session.replay(last, &entry);
        }
        from = page.next;
        if page.end {
            break;
        }
    }
    session.head = upto;
    Ok(ended)
}
