//! Reads the messages of a client. A message that needs an answer is only taken when an answer slot is free, so that a client
//! that does not read its answers is no longer read from. Other messages need no slot.

use std::collections::VecDeque;

use super::io::ClientSource;
use crate::outbox::{AnswerSlot, Outbox};
use crate::wire::{Line, RpcMessage, parse};

/// The lines of a client.
pub(super) struct Intake {
    source: ClientSource,
    /// Read and not given out.
    read: VecDeque<Line>,
    outbox: Outbox,
}

impl Intake {
    pub(super) fn new(source: ClientSource, outbox: Outbox) -> Self {
        Self { source, read: VecDeque::new(), outbox }
    }

    /// The next line, with a slot if it wants an answer; nothing when the client has said all, or is gone.
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<(Line, Option<AnswerSlot>)> {
        if self.read.is_empty() {
            self.read = self.source.batch().await?.into();
        }
        let slot = match self.outbox.free_slot() {
            Some(slot) => Some(slot),
            None if self.read.front().is_some_and(wants_answer) => Some(self.outbox.slot().await?),
            None => None,
        };
        self.read.pop_front().map(|line| (line, slot))
    }
}

fn wants_answer(line: &Line) -> bool {
    match line {
        Line::Text(bytes) => match parse(bytes) {
            Ok(RpcMessage::Request { .. }) | Err(_) => true,
            Ok(RpcMessage::Notification { .. } | RpcMessage::Response { .. }) => false,
        },
        Line::TooLong => true,
    }
}
