//! The state of a session, read from a store: its snapshot and the entries after it.

use rethread_core::stored::ItemSort;
use rethread_core::{Entry, Seq, Session, SessionId, stored};

use super::{Page, SessionRow, Store, StoreError};

/// How much of a journal is read at once.
const PAGE: usize = 1024 * 1024;

/// The state of a session as the store has it, and its row. Needs no ownership: the session may be live in another process.
pub async fn read_state(store: &dyn Store, id: &SessionId) -> Result<(Session, SessionRow), StoreError> {
    let row = store.find(id).await?.ok_or_else(|| StoreError::Unknown(id.clone()))?;
    Ok((state_of(store, &row).await?, row))
}

/// The state of a session as the store has it, unless more than this many entries would have to be read for it.
pub(crate) async fn read_state_within(
    store: &dyn Store,
    id: &SessionId,
    most: u64,
) -> Result<Option<Session>, StoreError> {
    let row = store.find(id).await?.ok_or_else(|| StoreError::Unknown(id.clone()))?;
    let known = snapshot_of(&row).map_or(Seq(0), |session| session.head);
    if row.head.0.saturating_sub(known.0) > most {
        return Ok(None);
    }
    state_of(store, &row).await.map(Some)
}

/// The state of a session at the head of its row: the snapshot, and what came after it.
async fn state_of(store: &dyn Store, row: &SessionRow) -> Result<Session, StoreError> {
    let mut session = snapshot_of(row).unwrap_or_default();
    let mut from = session.head.next();
    while from <= row.head {
        let page = store.read(&row.id, from, PAGE).await?;
        replay(&page, row.head, &mut session, |_, _| {})?;
        from = page.next;
        if page.end {
            break;
        }
    }
    session.head = row.head;
    Ok(session)
}

/// The state of a session, and its state at the end of its last turn, or when it was made.
pub(crate) async fn state_and_turn_end(
    store: &dyn Store,
    row: &SessionRow,
) -> Result<(Session, Option<Session>), StoreError> {
    let mut turn_end = snapshot_of(row);
    let mut now = turn_end.clone().unwrap_or_default();
    let pages = pages_after(store, row, now.head).await?;
    let mut last = None;
    for page in &pages {
        last = last_turn_end(page, row.head)?.or(last);
    }
    for page in &pages {
        replay(page, row.head, &mut now, |seq, session| {
            if Some(seq) == last {
                turn_end = Some(session.clone());
            }
        })?;
    }
    now.head = row.head;
    Ok((now, turn_end))
}

fn snapshot_of(row: &SessionRow) -> Option<Session> {
    // A snapshot that cannot be read costs time, nothing else: the journal has it all.
    row.snapshot.as_deref().and_then(|bytes| stored::decode_session(bytes).ok())
}

/// Reads what comes after an entry. That is little: a fold stores a snapshot.
async fn pages_after(store: &dyn Store, row: &SessionRow, after: Seq) -> Result<Vec<Page>, StoreError> {
    let (mut pages, mut from) = (Vec::new(), after.next());
    while from <= row.head {
        let page = store.read(&row.id, from, PAGE).await?;
        let end = page.end;
        from = page.next;
        pages.push(page);
        if end {
            break;
        }
    }
    Ok(pages)
}

/// The last entry of a page up to `upto` that ends a turn. Most entries are not decoded for that.
fn last_turn_end(page: &Page, upto: Seq) -> Result<Option<Seq>, StoreError> {
    let mut ended = None;
    for item in page.items() {
        let item = item?;
        let (first, last) = (item.first, item.last);
        if first > upto {
            break;
        }
        let ends = match item.sort() {
            ItemSort::TurnEnded => true,
            ItemSort::Bookkeeping => false,
            ItemSort::Any if item.raw_item().is_some() => false,
            ItemSort::Any => {
                let entry = item.entry().map_err(|cause| page.damaged(first, cause))?;
                matches!(*entry, Entry::TurnEnded { .. })
            }
        };
        if ends {
            ended = Some(last);
        }
    }
    Ok(ended)
}

/// Applies the entries of a page up to `upto`.
fn replay(
    page: &Page,
    upto: Seq,
    session: &mut Session,
    mut applied: impl FnMut(Seq, &Session),
) -> Result<(), StoreError> {
    for item in page.items() {
        let item = item?;
        let (first, last) = (item.first, item.last);
        if first > upto {
            break;
        }
        let entry = item.entry().map_err(|cause| page.damaged(first, cause))?;
        session.replay(last, &entry);
        applied(last, session);
    }
    Ok(())
}
