//! Reads and encodes a part of a replay, so that a long history needs little memory.

use std::sync::Arc;

use rethread_core::stored::{ItemSort, Stored};
use rethread_core::{Json, Seq, SessionId};
use tokio::sync::oneshot;

use super::subscription::not_made;
use crate::edge::replay_fast_path::FastPath;
use crate::edge::view::{ClientMessage, EntryPosition, Timing, View};
use crate::store::{Page, Store, StoreError};
use crate::wire::Out;

/// About how many stored bytes make the first piece: small, so that the client has something to read soon.
const FIRST_PIECE: usize = 64 * 1024;
/// About how many stored bytes make each later piece. While one is written, the next is made.
const PIECE: usize = 128 * 1024;

/// What is to be made into lines.
pub(super) struct Replay {
    pub(super) session: SessionId,
    /// The session id as JSON text.
    pub(super) name: String,
    pub(super) from: Seq,
    /// Nothing after this is shown, and all up to here is history.
    pub(super) upto: Seq,
    pub(super) view: View,
    /// Empty, with the room of lines that have been sent.
    pub(super) lines: Out,
    pub(super) position: PiecePosition,
}

/// Which piece of a replay is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PiecePosition {
    /// The first one; the client has nothing to read yet.
    First,
    /// One that follows others.
    Later,
}

impl PiecePosition {
    fn stored_bytes(self) -> usize {
        match self {
            Self::First => FIRST_PIECE,
            Self::Later => PIECE,
        }
    }
}

/// A piece of a replay.
pub(super) struct Piece {
    /// The view that has shown it.
    pub(super) view: View,
    pub(super) lines: Lines,
}

/// What is sent of a piece.
pub(super) struct Lines {
    pub(super) lines: Out,
    /// Everything before this is in them, or in earlier ones.
    pub(super) reached: Seq,
    /// The last end of a turn in them.
    pub(super) turn_end: Option<Seq>,
}

impl Replay {
    /// Reads and encodes the next piece, on a thread that may block.
    pub(super) async fn piece(self, store: Arc<dyn Store>) -> Result<Piece, StoreError> {
        let (session, from, budget) = (self.session.clone(), self.from, self.position.stored_bytes());
        let (done, piece) = oneshot::channel();
        let encode = move |page: Page| _ = done.send(self.encode(&page));
        store.read_to(&session, from, budget, Box::new(encode)).await?;
        piece.await.unwrap_or_else(|stopped| Err(not_made(stopped)))
    }

    fn encode(mut self, page: &Page) -> Result<Piece, StoreError> {
        let mut lines = std::mem::take(&mut self.lines);
        let stored = self.position.stored_bytes();
        lines.reserve(stored + stored / 2);
        let mut shown = Vec::new();
        let (mut reached, mut turn_end) = (page.next, None);
        for item in page.items() {
            let item = item?;
            if item.sort() == ItemSort::TurnEnded {
                turn_end = Some(item.last);
            }
            if item.first > self.upto {
                reached = item.first;
                break;
            }
            self.encode_item(item, page, &mut shown, &mut lines)?;
        }
        Ok(Piece { view: self.view, lines: Lines { lines, reached, turn_end } })
    }

    fn encode_item(
        &mut self,
        item: Stored<'_>,
        page: &Page,
        shown: &mut Vec<ClientMessage>,
        lines: &mut Out,
    ) -> Result<(), StoreError> {
        match item.sort() {
            // Of these nothing is ever shown afterwards.
            ItemSort::Bookkeeping => {}
            ItemSort::TurnEnded => self.view.turn_ended(),
            ItemSort::Any => {
                let say = &mut |update: &[&str]| lines.update_of(&self.name, update);
                let fast_path = item.raw_item().map(|raw_item| self.view.show_from_text(raw_item, say));
                if fast_path != Some(FastPath::Taken) {
                    let first = item.first;
                    let entry = item.entry().map_err(|cause| page.damaged(first, cause))?;
                    let place = EntryPosition { seq: first, timing: Timing::Replay };
                    self.view.show(&entry, place, shown);
                    shown.drain(..).for_each(|shown| write(shown, &self.name, lines));
                }
            }
        }
        Ok(())
    }
}

fn write(shown: ClientMessage, name: &str, lines: &mut Out) {
    match shown {
        ClientMessage::Update(update) => lines.update(name, &update),
        ClientMessage::SubagentUpdate(child, update) => lines.update(Json::of(&child).text(), &update),
        // History asks nobody: what is still open is asked when the replay is over.
        ClientMessage::Question { .. }
        | ClientMessage::WithdrawQuestion(_)
        | ClientMessage::QuestionSeen { .. }
        | ClientMessage::QuestionClosed { .. } => {}
    }
}
