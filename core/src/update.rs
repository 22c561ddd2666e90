//! What an agent says of its work, in one canonical shape: an upsert of something that has an id.
//! The body is the whole update as the second protocol version writes it, with ids that are ours. What the kinds mean is
//! in `kind`.

use serde::{Deserialize, Serialize};

use crate::{Fields, Json, UpdateKind};

/// One update: its kind, the id of the thing it speaks of (empty where there is none), and its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// What it speaks of.
    pub kind: UpdateKind,
    /// The id of that thing: message, tool call, terminal, plan or compaction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The whole update, `sessionUpdate` included.
    pub body: Json,
}

impl Update {
    /// Reads kind and id out of a canonical body.
    #[must_use]
    pub fn read(body: Json) -> Self {
        let (kind, id) = identify(&body.fields());
        Self { kind, id, body }
    }

    /// Makes an update of the members of a canonical body.
    #[must_use]
    pub fn of(body: &Fields) -> Self {
        let (kind, id) = identify(body);
        Self { kind, id, body: body.json() }
    }
}

fn identify(body: &Fields) -> (UpdateKind, String) {
    let kind = body.text("sessionUpdate").map_or(UpdateKind::Other, |tag| UpdateKind::of_tag(&tag));
    (kind, kind.meaning().id.get(body).unwrap_or_default())
}
