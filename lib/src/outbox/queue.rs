//! The queue of messages to a client. Answers always find room, because a request is only read when an answer slot is free;
//! other messages are refused when the queue is full.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_core::Json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Outbound;
use crate::live::Bell;
use crate::wire::{Id, Out, RpcError};

/// How much may wait for a client that does not read before what nobody has asked for is turned away. Entries do not
/// wait here.
const WAITING: usize = 4096;

/// How many requests may be read whose answers are not among the lines to be written. The client is not read from
/// while there are as many.
const SLOTS: usize = 2048;

// Requests that are worked on must not take up every slot: the answers of the others are what makes room.
const _: () = assert!(SLOTS > super::in_flight::MOST);

/// The way to a client. When the last clone is gone, nothing more will come.
#[derive(Clone)]
pub(crate) struct Outbox(Arc<Sending>);

/// The other end, where the writing half takes what waits.
pub(crate) struct Outgoing(Arc<Queue>);

/// Room for an answer, from when its request is read until the answer is among the lines to be written.
pub(crate) struct AnswerSlot {
    _permit: OwnedSemaphorePermit,
}

/// The client is gone, or does not read.
#[derive(Debug)]
pub(crate) struct NotHandedOver;

struct Sending(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    bell: Arc<Bell>,
    slots: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Outbound>,
    /// Nobody is left who could hand anything over.
    finished: bool,
    /// Nobody is left who would take it.
    closed: bool,
}

/// Creates a queue that notifies its receiver.
pub(crate) fn queue(bell: Arc<Bell>) -> (Outbox, Outgoing) {
    let queue = Arc::new(Queue { state: Mutex::default(), bell, slots: Arc::new(Semaphore::new(SLOTS)) });
    (Outbox(Arc::new(Sending(queue.clone()))), Outgoing(queue))
}

impl Outbox {
    /// Hands something over, unless too much waits.
    pub(crate) fn offer(&self, message: Outbound) -> Result<(), NotHandedOver> {
        let mut state = self.0.0.state();
        if state.closed || state.messages.len() >= WAITING {
            return Err(NotHandedOver);
        }
        state.messages.push_back(message);
        drop(state);
        self.0.0.bell.ring();
        Ok(())
    }

    /// Hands over what belongs to a request. There is always room: slots bound how much of it there can be.
    pub(super) fn push(&self, message: Outbound) {
        let mut state = self.0.0.state();
        if state.closed {
            // Released first: the message may hold a request, which answers here when it is dropped.
            return drop(state);
        }
        state.messages.push_back(message);
        drop(state);
        self.0.0.bell.ring();
    }

    /// Hands over what happened in a followed session. There is always room: the permit is one of few.
    pub(crate) fn hand_over_followed(&self, params: Json, room: OwnedSemaphorePermit) {
        self.push(Outbound::Followed { params, room });
    }

    /// Hands over what another host has for the client. There is always room: the permit is one of few.
    pub(crate) fn hand_over_carried(&self, lines: Out, room: OwnedSemaphorePermit) {
        self.push(Outbound::Carried { lines, room });
    }

    /// Answers a line that was not taken as a request.
    pub(crate) fn refuse(&self, id: Id, error: RpcError, slot: AnswerSlot) {
        self.push(Outbound::Refusal { id, error, slot });
    }

    /// Waits for room for one more answer; none is left when the client is gone.
    pub(crate) async fn slot(&self) -> Option<AnswerSlot> {
        let slots = self.0.0.slots.clone();
        slots.acquire_owned().await.ok().map(|permit| AnswerSlot { _permit: permit })
    }

    /// A slot that is free right now.
    pub(crate) fn free_slot(&self) -> Option<AnswerSlot> {
        let slots = self.0.0.slots.clone();
        slots.try_acquire_owned().ok().map(|permit| AnswerSlot { _permit: permit })
    }

    /// Says whether the client is gone.
    #[must_use]
    pub(crate) fn is_closed(&self) -> bool {
        self.0.0.state().closed
    }
}

impl Outgoing {
    /// Takes everything that waits; nothing if nothing waits and nobody is left to hand anything over.
    pub(crate) fn take(&self) -> Option<VecDeque<Outbound>> {
        let mut state = self.0.state();
        let messages = std::mem::take(&mut state.messages);
        (!messages.is_empty() || !state.finished).then_some(messages)
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.state().finished = true;
        self.0.bell.ring();
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.0.slots.close();
        let mut state = self.0.state();
        state.closed = true;
        let left = std::mem::take(&mut state.messages);
        // Outside the lock: requests among them answer here when they are dropped.
        drop(state);
        drop(left);
    }
}
