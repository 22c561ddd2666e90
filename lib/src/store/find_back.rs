//! Finds an item of a journal from its end: what is looked for is nearly always near it, and a journal may be very long.

use rethread_core::stored::{RawItem, Stored, StoredError};
use rethread_core::{Entry, Seq, SessionId, UpdateKind};

use super::{Store, StoreError};

/// How much is read at once.
const BLOCK: usize = 512 * 1024;

/// What an item has to do with the thing that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// Nothing.
    None,
    /// It speaks of the thing, which may have begun earlier.
    Mention,
    /// The thing begins with it.
    Beginning,
}

/// The place of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemPlace {
    /// Its first entry.
    pub(crate) first: Seq,
    /// Its last entry.
    pub(crate) last: Seq,
}

/// Finds the newest beginning of a thing; if it has none, its first mention.
pub(crate) async fn find_back(
    store: &dyn Store,
    session: &SessionId,
    look: impl Fn(Stored<'_>) -> Result<Sighting, StoredError>,
) -> Result<Option<ItemPlace>, StoreError> {
    let (mut before, mut mentioned) = (Seq(u64::MAX - 1), None);
    while before > Seq(1) {
        let from = store.seek_back(session, before, BLOCK).await?;
        let (mut next, mut begun, mut first_mention) = (from, None, None);
        while next < before {
            let page = store.read(session, next, BLOCK).await?;
            for item in page.items() {
                let item = item?;
                let place = ItemPlace { first: item.first, last: item.last };
                match look(item).map_err(|cause| page.damaged(place.first, cause))? {
                    Sighting::None => {}
                    Sighting::Mention => first_mention = first_mention.or(Some(place)),
                    Sighting::Beginning => begun = Some(place),
                }
            }
            if page.end {
                break;
            }
            next = page.next;
        }
        if begun.is_some() {
            return Ok(begun);
        }
        mentioned = first_mention.or(mentioned);
        before = from;
    }
    Ok(mentioned)
}

/// Finds where a message of a session begins.
pub(crate) async fn find_message(
    store: &dyn Store,
    session: &SessionId,
    message: &str,
) -> Result<Option<ItemPlace>, StoreError> {
    find_back(store, session, |item| {
        Ok(match item.raw_item() {
            Some(RawItem::Prompt { message: id, .. }) => prompt(id == message),
            Some(RawItem::Update { kind, id, known, .. }) => said(kind, id == message, known),
            None => in_entry(&*item.entry()?, message),
        })
    })
    .await
}

fn in_entry(entry: &Entry, message: &str) -> Sighting {
    if let Entry::Updated { update, known } = entry {
        return said(update.kind, update.id == message, *known);
    }
    prompt(matches!(entry, Entry::PromptInserted { message: id, .. } if id.as_str() == message))
}

fn prompt(is_it: bool) -> Sighting {
    if is_it { Sighting::Beginning } else { Sighting::None }
}

fn said(kind: UpdateKind, is_it: bool, known: bool) -> Sighting {
    match (is_it && kind.subject().is_message(), known) {
        (false, _) => Sighting::None,
        (true, true) => Sighting::Mention,
        (true, false) => Sighting::Beginning,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::{MessageId, TurnNo, Update};
    use serde_json::json;

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{NewSession, RowFacts};

    fn said(id: &str, known: bool, bytes: usize) -> Entry {
        let body = json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
            "content": {"type": "text", "text": "x".repeat(bytes)}});
        Entry::Updated { update: Update::read(body.into()), known }
    }

    fn prompt(id: &str) -> Entry {
        let content = json!([{"type": "text", "text": id}]).into();
        Entry::PromptInserted { message: MessageId(id.to_owned()), turn: TurnNo(1), content, at: 0 }
    }

    async fn stored(entries: Vec<Entry>) -> MemoryStore {
        let store = MemoryStore::new();
        let new = NewSession {
            id: "s".into(),
            cwd: "/".to_owned(),
            agent: String::new(),
            parent: None,
            entries: entries.into_iter().map(Arc::new).collect(),
            facts: RowFacts::default(),
            snapshot: None,
            at: 0,
        };
        store.create(new).await.expect("it is new");
        store
    }

    #[tokio::test]
    async fn a_message_is_found_where_it_begins_however_long_it_is() {
        let mut entries = vec![prompt("p1"), said("m1", false, 10)];
        entries.extend((0..40).map(|_| said("m1", true, BLOCK / 8)));
        entries.extend([prompt("p2"), said("m2", false, 10), said("never begun", true, 10)]);
        let store = stored(entries).await;
        for (id, place) in [("p1", 1), ("m1", 2), ("p2", 43), ("m2", 44), ("never begun", 45)] {
            let found = find_message(&store, &"s".into(), id).await.expect("it can be read");
            assert_eq!(found.map(|place| place.first), Some(Seq(place)), "{id}");
        }
        assert_eq!(find_message(&store, &"s".into(), "nobody").await.ok(), Some(None));
    }
}
