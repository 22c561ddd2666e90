//! Names the clients of a server: a number for each connection, and the name that the client gave itself.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use rethread_core::Json;
use serde_json::json;

/// Identifies one client of a server for as long as its connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(u64);

impl ClientId {
    /// An id that no other client of this process has.
    #[must_use]
    pub fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client-{}", self.0)
    }
}

/// A client as the other clients of a session see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTag {
    /// Its id.
    pub id: ClientId,
    /// The name from its `initialize`, if it gave one.
    pub name: Option<String>,
}

impl ClientTag {
    /// The value of `_meta.rethread.client`.
    #[must_use]
    pub fn json(&self) -> Json {
        json!({"id": self.id.to_string(), "name": self.name}).into()
    }

    /// What messages to people call it.
    #[must_use]
    pub fn display_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.id.to_string())
    }
}
