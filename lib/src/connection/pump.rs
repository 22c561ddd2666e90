//! The writing half of a connection: sends the entries of subscribed sessions and queued messages in the right order. Only the
//! pump waits for a client that does not read. One subscribed session is in `subscription`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rethread_core::{Json, Seq, SessionId};
use serde_json::json;
use tokio::sync::Notify;

use super::io::ClientSink;
use super::sent_requests::{SentRequest, SentRequests};
use super::subscription::Subscription;
use crate::edge::dialect::StateUpdates;
use crate::edge::view::View;
use crate::outbox::{Attachment, Ephemeral, Outbound, Outgoing, Sender};
use crate::store::{Store, StoreError};
use crate::wire::{Id, Out};

/// The writing half.
pub(super) struct Pump {
    pub(super) sink: ClientSink,
    pub(super) outbox: Outgoing,
    pub(super) bell: Arc<Notify>,
    pub(super) store: Arc<dyn Store>,
    pub(super) asked: SentRequests,
    pub(super) out: Out,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) waiting: VecDeque<DeferredMessage>,
}

/// Something that waits for its place.
pub(super) struct DeferredMessage {
    session: SessionId,
    behind: Seq,
    message: Outbound,
}

/// Why the writing stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The client reads no more.
    Hung,
    /// All that was to be said has been said.
    Done,
}

impl Pump {
    /// Writes until the client hangs up or nobody has anything more to say.
    pub(super) async fn run(mut self) -> Stopped {
        loop {
            for subscription in &mut self.subscriptions {
                subscription.finish_piece().await;
                subscription.safe_upto = subscription.attachment.live.head();
            }
            let open = self.take_outbox();
            self.say_due();
            let moved = self.advance().await;
            if !self.out.is_empty() {
                if self.sink.write(&mut self.out).await.is_err() {
                    return Stopped::Hung;
                }
                continue;
            }
            if moved {
                continue;
            }
            if !open {
                return Stopped::Done;
            }
            self.bell.notified().await;
        }
    }

    /// Takes all that waits. Says whether more may come.
    fn take_outbox(&mut self) -> bool {
        let Some(messages) = self.outbox.take() else { return false };
        messages.into_iter().for_each(|message| self.take(message));
        true
    }

    fn take(&mut self, message: Outbound) {
        match message {
            Outbound::Answer { id, outcome } => match outcome {
                Ok(result) => self.out.result(id.id(), &result),
                Err(error) => self.out.error(id.id(), &error),
            },
            Outbound::Behind(session, behind, message) => {
                self.waiting.push_back(DeferredMessage { session, behind, message: *message });
            }
            Outbound::Refusal { id, error, slot } => {
                self.out.error(&id, &error);
                drop(slot);
            }
            Outbound::Attach(attachment) => self.attach(attachment),
            Outbound::Leave(session, seq) => self.leave_after(session, seq),
            Outbound::Ephemeral(session, ephemeral) => self.ephemeral(&session, &ephemeral),
            Outbound::PromptFrom(session, message, sender) => {
                let from = Outbound::PromptFrom(session.clone(), message.clone(), sender.clone());
                self.with_view(&session, from, |view| match sender {
                    Sender::Own => view.prompt_sent(message),
                    Sender::Other(tag) => view.sent_by(message, tag.json()),
                });
            }
            Outbound::OwnTerminal { session, ours, theirs } => {
                let (named, id) = (session.clone(), theirs.clone());
                let own = Outbound::OwnTerminal { session: named, ours: ours.clone(), theirs: id };
                self.with_view(&session, own, |view| view.own_terminal(ours, theirs));
            }
            Outbound::Relay { from, method, params } => {
                let id = self.asked.ask(SentRequest::Relayed(from));
                self.out.request(&id, &method, &params);
            }
            Outbound::CancelRelay(request) => {
                if let Some(id) = self.asked.take_back(&request) {
                    self.out.notification("$/cancel_request", &cancel(&id));
                }
            }
            Outbound::Notify { method, params } => self.out.notification(&method, &params),
        }
    }

    fn ephemeral(&mut self, session: &SessionId, ephemeral: &Ephemeral) {
        let Some(subscription) =
            self.subscriptions.iter().find(|subscription| subscription.session() == session)
        else {
            return;
        };
        let states = subscription.attachment.view.as_ref().map(|view| view.version().client_dialect().states);
        match ephemeral {
            Ephemeral::Notice(notice) => subscription.notice(notice, &mut self.out),
            Ephemeral::Error(updates) if states == Some(StateUpdates::Sent) => {
                updates.iter().for_each(|update| self.out.update(&subscription.name, update));
            }
            // Version 1 gets it as the answer to its prompt.
            Ephemeral::Error(_) => {}
        }
    }

    fn leave_after(&mut self, session: SessionId, seq: Seq) {
        let Some(subscription) = self.subscription(&session) else { return };
        match subscription.next.is_empty() {
            true => subscription.leave_after(seq),
            false => subscription.next.push_back(Outbound::Leave(session, seq)),
        }
    }

    fn subscription(&mut self, session: &SessionId) -> Option<&mut Subscription> {
        self.subscriptions.iter_mut().find(|subscription| subscription.session() == session)
    }

    /// Tells the view of a session something; if another attachment to the session waits, it is for that one.
    fn with_view(&mut self, session: &SessionId, message: Outbound, tell: impl FnOnce(&mut View)) {
        let Some(subscription) = self.subscription(session) else { return };
        if !subscription.next.is_empty() {
            subscription.next.push_back(message);
        } else if let Some(view) = subscription.attachment.view.as_mut() {
            tell(view);
        }
    }

    /// A client that asks for a session again has it replayed again, once it has been shown what it asked for before.
    fn attach(&mut self, attachment: Box<Attachment>) {
        match self.subscription(&attachment.session) {
            Some(subscription) => subscription.next.push_back(Outbound::Attach(attachment)),
            None => self.subscriptions.push(Subscription::new(*attachment)),
        }
    }

    /// Follows a session no longer. Whoever waits for an answer gets one when this drops the request.
    fn leave(&mut self, at: usize) {
        let subscription = self.subscriptions.remove(at);
        subscription.next.into_iter().for_each(|message| self.take(message));
    }

    /// Shows each session's next entries. Says whether any cursor moved.
    async fn advance(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.subscriptions.len() {
            let upto = self.upto(&self.subscriptions[at]);
            let subscription = &mut self.subscriptions[at];
            match subscription.advance(upto, &self.store, &mut self.out, &self.asked).await {
                Ok(read) => moved |= read,
                Err(error) => {
                    // A journal that cannot be read on is not shown with a hole in it.
                    self.fail(at, &error);
                    return true;
                }
            }
        }
        while let Some(done) = self.subscriptions.iter().position(Subscription::is_done) {
            self.leave(done);
            moved = true;
        }
        moved
    }

    fn fail(&mut self, at: usize, error: &StoreError) {
        if let Some((request, _)) = self.subscriptions[at].attachment.then.answer.take() {
            request.answer(Err(crate::live_session::store_error(error)));
        }
        self.leave(at);
    }

    /// The last entry that may be shown: the next thing that waits has its place behind it.
    fn upto(&self, subscription: &Subscription) -> Seq {
        let here = self.waiting.iter().filter(|waiting| waiting.session == *subscription.session());
        here.map(|waiting| waiting.behind).fold(subscription.safe_upto, Seq::min)
    }

    fn say_due(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let positions: HashMap<_, _> = self
            .subscriptions
            .iter()
            .map(|subscription| (subscription.session().clone(), subscription.attachment.cursor.next()))
            .collect();
        for waiting in std::mem::take(&mut self.waiting) {
            let due = positions.get(&waiting.session).is_none_or(|next| *next > waiting.behind);
            match due {
                true => self.take(waiting.message),
                false => self.waiting.push_back(waiting),
            }
        }
    }
}

/// What takes back a request.
pub(super) fn cancel(id: &Id) -> Json {
    json!({"requestId": id.as_number()}).into()
}
