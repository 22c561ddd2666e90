//! Marks on the connection between hosts. The host that owns a session marks the end of what it writes at once, with how far
//! each session has been shown. The host that carries the client passes everything on at a mark, so that it knows exactly
//! what its client has been shown when the connection is lost. A mark is a JSON array: no message of the protocol is one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rethread_core::{Json, Seq, SessionId};

use super::subscription::Subscription;
use crate::registry::Registry;
use crate::wire::Out;

/// What a mark says.
pub(super) struct Mark {
    /// The last entry of each session that has been shown; only what has changed.
    pub(super) shown: Vec<(SessionId, Seq)>,
    /// The sessions that the client does not follow any more.
    pub(super) left: Vec<SessionId>,
    /// What becomes of those.
    pub(super) left_for: LeftFor,
}

/// Why a client does not follow a session any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftFor {
    /// It was closed, archived or deleted.
    Good,
    /// The host stops: another one takes the session over.
    AnotherHost,
}

/// The sessions, those that were left, and whether the host stops.
type Written = (BTreeMap<String, u64>, Vec<String>, bool);

impl Mark {
    /// Reads a line, if it is a mark.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        if line.first() != Some(&b'[') {
            return None;
        }
        let (shown, left, stops) = serde_json::from_slice::<Written>(line).ok()?;
        Some(Self {
            shown: shown.into_iter().map(|(session, seq)| (SessionId(session), Seq(seq))).collect(),
            left: left.into_iter().map(SessionId).collect(),
            left_for: if stops { LeftFor::AnotherHost } else { LeftFor::Good },
        })
    }
}

/// Writes the marks of a connection.
pub(super) struct Marks {
    registry: Arc<Registry>,
    told: HashMap<SessionId, Seq>,
    left: Vec<String>,
}

impl Marks {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, told: HashMap::new(), left: Vec::new() }
    }

    /// The client does not follow a session any more.
    pub(super) fn leave(&mut self, session: &SessionId) {
        self.told.remove(session);
        self.left.push(session.0.clone());
    }

    /// Marks the end of what is written at once; nothing if nothing is.
    pub(super) fn write<'a>(
        &mut self,
        subscriptions: impl Iterator<Item = (&'a SessionId, &'a Subscription)>,
        out: &mut Out,
    ) {
        if out.is_empty() && self.left.is_empty() {
            return;
        }
        let mut shown = BTreeMap::new();
        for (session, subscription) in subscriptions {
            let last = Seq(subscription.attachment.cursor.next().0.saturating_sub(1));
            if self.told.insert(session.clone(), last) != Some(last) {
                shown.insert(session.0.clone(), last.0);
            }
        }
        let stops = self.registry.check_open().is_err();
        let mark: Written = (shown, std::mem::take(&mut self.left), stops);
        out.line(Json::of(&mark).text().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_array_of_the_right_shape_is_a_mark() {
        let mark = Mark::read(br#"[{"s":7},["t"],true]"#).expect("it is a mark");
        assert_eq!(mark.shown, [(SessionId("s".to_owned()), Seq(7))]);
        assert_eq!((mark.left, mark.left_for), (vec![SessionId("t".to_owned())], LeftFor::AnotherHost));
        assert!(Mark::read(br#"{"jsonrpc":"2.0","method":"x"}"#).is_none());
        assert!(Mark::read(br#"[1]"#).is_none());
    }
}
