//! The writing half of a connection: sends the entries of subscribed sessions and queued messages in the right order. Only the
//! pump waits for a client that does not read. It works in rounds, and looks only at the active sessions: those that rang the
//! bell, or that something in the queue concerns, until they have nothing more. One subscribed session is in `subscription`.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rethread_core::{Seq, SessionId};

use super::io::ClientSink;
use super::marks::Marks;
use super::sent_requests::{SentRequest, SentRequests};
use super::subscription::{Advance, DeferredMessage, Subscription};
use crate::edge::dialect::StateUpdates;
use crate::edge::reading_request::FOLLOWED;
use crate::edge::view::View;
use crate::live::{Bell, Cursor};
use crate::outbox::{Attachment, CANCEL_REQUEST, Ephemeral, Outbound, Outgoing, Sender, cancelled};
use crate::store::{Store, StoreError};
use crate::wire::Out;

/// Fewer bytes than this wait for the next round, if one follows. A piece of a replay does not.
const HELD_BACK: usize = 4 * 1024;

/// The writing half.
pub(super) struct Pump {
    pub(super) sink: ClientSink,
    pub(super) outbox: Outgoing,
    pub(super) bell: Arc<Bell>,
    pub(super) store: Arc<dyn Store>,
    pub(super) asked: SentRequests,
    pub(super) out: Out,
    /// Boxed, since a map has room for several.
    pub(super) subscriptions: foldhash::HashMap<SessionId, Box<Subscription>>,
    /// The cursors of the active subscriptions, in the order in which they became active.
    pub(super) active: Vec<Arc<Cursor>>,
    /// Messages with a place in a session, until the queue has been taken: the session may follow in it.
    pub(super) unplaced: VecDeque<(SessionId, DeferredMessage)>,
    /// For a client that another host carries here: tells that host how far it has been shown its sessions.
    pub(super) marks: Option<Marks>,
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
            self.begin_round().await;
            let open = self.take_outbox();
            self.say_due();
            self.advance().await;
            // What the next round has for the client, such as the answer behind the last entry, goes with it.
            let more = !self.active.is_empty();
            if more && self.out.len() < HELD_BACK {
                continue;
            }
            if let Some(marks) = &mut self.marks {
                let subscriptions =
                    self.subscriptions.iter().map(|(session, followed)| (session, &**followed));
                marks.write(subscriptions, &mut self.out);
            }
            if !self.out.is_empty() && self.sink.write(&mut self.out).await.is_err() {
                return Stopped::Hung;
            }
            if more {
                continue;
            }
            if !open {
                return Stopped::Done;
            }
            // After a replay it is large, and a client may be idle for days.
            self.out.shrink(HELD_BACK);
            self.bell.rung().await;
        }
    }

    /// Looks how far each active session may be shown. Before the queue is taken: what has a place up to there is in it.
    async fn begin_round(&mut self) {
        for cursor in self.bell.take_rung() {
            self.activate(&cursor);
        }
        for cursor in &self.active {
            if let Some(subscription) = self.subscriptions.get_mut(cursor.session()) {
                subscription.finish_piece().await;
                subscription.find_tail();
                subscription.safe_upto = subscription.attachment.live.head();
            }
        }
    }

    /// Has a subscription looked at in this round, unless the cursor is not its own.
    fn activate(&mut self, cursor: &Arc<Cursor>) {
        if let Some(subscription) = self.subscriptions.get_mut(cursor.session())
            && Arc::ptr_eq(&subscription.attachment.cursor, cursor)
            && subscription.activate()
        {
            self.active.push(cursor.clone());
        }
    }

    /// Takes all that waits. Says whether more may come.
    fn take_outbox(&mut self) -> bool {
        let Some(messages) = self.outbox.take() else { return false };
        messages.into_iter().for_each(|message| self.take(message));
        self.place();
        true
    }

    /// Has messages wait for their places; those of sessions that the client does not follow are due.
    fn place(&mut self) {
        while let Some((session, message)) = self.unplaced.pop_front() {
            match self.subscriptions.get_mut(&session) {
                Some(subscription) => {
                    subscription.waiting.push(message);
                    let cursor = subscription.attachment.cursor.clone();
                    self.activate(&cursor);
                }
                None => self.take(message.message),
            }
        }
    }

    fn take(&mut self, message: Outbound) {
        match message {
            Outbound::Answer { id, outcome } => match outcome {
                Ok(result) => self.out.result(id.id(), &result),
                Err(error) => self.out.error(id.id(), &error),
            },
            Outbound::Behind(session, behind, message) => {
                self.unplaced.push_back((session, DeferredMessage { behind, message: *message }));
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
                    self.out.notification(CANCEL_REQUEST, &cancelled(&id));
                }
            }
            Outbound::Followed { params, room } => {
                self.out.notification(FOLLOWED, &params);
                drop(room);
            }
            Outbound::Carried { lines, room } => {
                _ = self.out.append(lines);
                drop(room);
            }
            Outbound::Notify { method, params } => self.out.notification(&method, &params),
            Outbound::ListChanges { method, params, waiting } => {
                self.out.notification(method, &params);
                drop(waiting);
            }
        }
    }

    fn ephemeral(&mut self, session: &SessionId, ephemeral: &Ephemeral) {
        let Some(subscription) = self.subscriptions.get(session) else { return };
        let states = subscription.attachment.view.as_ref().map(|view| view.version().client_dialect().states);
        match ephemeral {
            Ephemeral::Notice(notice) => subscription.notice(notice, &mut self.out),
            Ephemeral::Error(updates) if states == Some(StateUpdates::Sent) => {
                updates.iter().for_each(|update| subscription.write_update(update, &mut self.out));
            }
            // Version 1 gets it as the answer to its prompt.
            Ephemeral::Error(_) => {}
        }
    }

    fn leave_after(&mut self, session: SessionId, seq: Seq) {
        let Some(subscription) = self.subscriptions.get_mut(&session) else { return };
        let cursor = subscription.attachment.cursor.clone();
        match subscription.next.is_empty() {
            true => subscription.leave_after(seq),
            false => subscription.next.push_back(Outbound::Leave(session, seq)),
        }
        self.activate(&cursor);
    }

    /// Tells the view of a session something; if another attachment to the session waits, it is for that one.
    fn with_view(&mut self, session: &SessionId, message: Outbound, tell: impl FnOnce(&mut View)) {
        let Some(subscription) = self.subscriptions.get_mut(session) else { return };
        if !subscription.next.is_empty() {
            subscription.next.push_back(message);
        } else if let Some(view) = subscription.attachment.view.as_mut() {
            tell(view);
        }
    }

    /// A client that asks for a session again has it replayed again, once it has been shown what it asked for before.
    fn attach(&mut self, attachment: Box<Attachment>) {
        let cursor = match self.subscriptions.entry(attachment.session.clone()) {
            Entry::Occupied(mut followed) => {
                followed.get_mut().next.push_back(Outbound::Attach(attachment));
                followed.get().attachment.cursor.clone()
            }
            Entry::Vacant(place) => {
                place.insert(Box::new(Subscription::new(*attachment))).attachment.cursor.clone()
            }
        };
        self.activate(&cursor);
    }

    /// Follows a session no longer. Whoever waits for an answer gets one when this drops the request.
    fn leave(&mut self, session: &SessionId) {
        let Some(subscription) = self.subscriptions.remove(session) else { return };
        subscription.next.into_iter().for_each(|message| self.take(message));
        let waiting = subscription.waiting.into_iter().map(|message| (session.clone(), message));
        self.unplaced.extend(waiting);
        self.place();
        if let Some(marks) = &mut self.marks
            && !self.subscriptions.contains_key(session)
        {
            marks.leave(session);
        }
    }

    /// Says what has reached its place. Before anything is shown: the views are not in use.
    fn say_due(&mut self) {
        for at in 0..self.active.len() {
            let followed = self.subscriptions.get_mut(self.active[at].session());
            let due = followed.map(|followed| followed.take_due()).unwrap_or_default();
            due.into_iter().for_each(|message| self.take(message));
        }
    }

    /// Shows the next entries of each active session. Those that have more stay active.
    async fn advance(&mut self) {
        for cursor in std::mem::take(&mut self.active) {
            let Some(subscription) = self.subscriptions.get_mut(cursor.session()) else { continue };
            match subscription.advance(&self.store, &mut self.out, &self.asked).await {
                Ok(_) if subscription.is_done() => self.leave(cursor.session()),
                Ok(Advance::More) => self.active.push(cursor),
                Ok(Advance::UpToDate) => subscription.deactivate(),
                // A journal that cannot be read on is not shown with a hole in it.
                Err(error) => self.fail(cursor.session(), &error),
            }
        }
    }

    fn fail(&mut self, session: &SessionId, error: &StoreError) {
        let followed = self.subscriptions.get_mut(session);
        if let Some((request, _)) = followed.and_then(|followed| followed.attachment.then.answer.take()) {
            request.answer(Err(crate::live_session::store_error(error)));
        }
        self.leave(session);
    }
}
