//! One session that a client follows: a cursor in the journal. Encodes entries in the client's version; after the replay it
//! sends the current state, the answer to the request, and the open questions.

use std::collections::VecDeque;
use std::sync::Arc;

use rethread_core::{Entry, Json, Seq, UpdateKind};

use tokio::task::JoinHandle;

use super::pump::cancel;
use super::replay::{Lines, Piece, PiecePosition, Replay};
use super::sent_requests::{SentRequest, SentRequests};
use crate::edge::v1::side_updates::with_notices;
use crate::edge::view::{ClientMessage, EntryPosition, Timing, View};
use crate::live::Tailing;
use crate::outbox::{Attachment, Outbound};
use crate::store::{Store, StoreError};
use crate::wire::Out;

/// How much is encoded before it is written.
const WRITE: usize = 128 * 1024;
/// How much is read from the store at once, of what was written since the replay began.
const READ: usize = 128 * 1024;

/// A session that the client follows.
pub(super) struct Subscription {
    pub(super) attachment: Attachment,
    /// The session id as JSON text.
    pub(super) name: String,
    /// What is for the next attachment to the same session, which waits for this one: first the attachment itself.
    pub(super) next: VecDeque<Outbound>,
    /// The last entry of which it is certain that whatever has a place before it was handed over.
    pub(super) safe_upto: Seq,
    /// Messages that wait for their places.
    pub(super) waiting: Vec<DeferredMessage>,
    /// Whether the pump looks at it in the next round.
    active: bool,
    settled: bool,
    /// The last entry that is shown, for a client that leaves the session.
    until: Option<Seq>,
    /// What is made of history before it is needed.
    ahead: NextPiece,
}

/// Something that waits for its place behind an entry.
pub(super) struct DeferredMessage {
    pub(super) behind: Seq,
    pub(super) message: Outbound,
}

/// Whether a session has more to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// It is to be looked at again without being rung.
    More,
    /// It has nothing until it rings.
    UpToDate,
}

/// The next piece of a replay.
enum NextPiece {
    /// Nothing was begun.
    Nothing,
    /// It is being made, and has the view.
    Begun(JoinHandle<Result<Piece, StoreError>>),
    /// It is there, or cannot be had.
    Made(Result<Lines, StoreError>),
}

impl Subscription {
    /// Follows from where the attachment's cursor is.
    pub(super) fn new(attachment: Attachment) -> Self {
        let name = Json::of(&attachment.session).text().to_owned();
        let safe_upto = attachment.live.head();
        Self {
            attachment,
            name,
            next: VecDeque::new(),
            safe_upto,
            waiting: Vec::new(),
            active: false,
            settled: true,
            until: None,
            ahead: NextPiece::Nothing,
        }
    }

    /// Marks it as active. Says whether it was not.
    pub(super) fn activate(&mut self) -> bool {
        !std::mem::replace(&mut self.active, true)
    }

    /// It has nothing until it rings.
    pub(super) fn deactivate(&mut self) {
        self.active = false;
    }

    /// Takes the messages that have reached their places.
    pub(super) fn take_due(&mut self) -> Vec<Outbound> {
        let next = self.attachment.cursor.next();
        let due = self.waiting.extract_if(.., |waiting| waiting.behind < next);
        due.map(|waiting| waiting.message).collect()
    }

    /// The last entry that may be shown: the next message that waits has its place behind it.
    fn upto(&self) -> Seq {
        self.waiting.iter().map(|waiting| waiting.behind).fold(self.safe_upto, Seq::min)
    }

    /// Shows the next entries, as far as nothing has a place before them.
    pub(super) async fn advance(
        &mut self,
        store: &Arc<dyn Store>,
        out: &mut Out,
        asked: &SentRequests,
    ) -> Result<Advance, StoreError> {
        let upto = self.upto();
        let moved = self.show_next(upto, store, out, asked).await?;
        let next = self.attachment.cursor.next();
        // A message that waits behind `upto` is due.
        let more = next <= self.safe_upto || next > upto && !self.waiting.is_empty() || self.at_border(next);
        Ok(if moved && more { Advance::More } else { Advance::UpToDate })
    }

    /// Says whether anything was done.
    async fn show_next(
        &mut self,
        upto: Seq,
        store: &Arc<dyn Store>,
        out: &mut Out,
        asked: &SentRequests,
    ) -> Result<bool, StoreError> {
        if self.finish_past(out, asked) {
            return Ok(true);
        }
        if out.len() >= WRITE {
            return Ok(true);
        }
        let next = self.attachment.cursor.next();
        match self.attachment.live.read(next, WRITE) {
            Tailing::Entries(entries) if entries.is_empty() || next > upto => Ok(self.settle(out, asked)),
            Tailing::Entries(entries) => {
                let mut seq = next;
                for entry in &entries {
                    self.show(seq, entry, out, asked);
                    seq = seq.next();
                    // Messages after the replay, and those that wait for a place, go exactly here.
                    if self.at_border(seq) || seq > upto {
                        break;
                    }
                }
                self.attachment.cursor.advance(seq);
                self.settle_at(seq, upto, out, asked);
                Ok(true)
            }
            Tailing::Behind if next <= upto.min(self.attachment.past) => {
                self.replay(upto, store, out, asked).await
            }
            Tailing::Behind => self.read_store(upto, store, out, asked).await,
        }
    }

    async fn read_store(
        &mut self,
        upto: Seq,
        store: &Arc<dyn Store>,
        out: &mut Out,
        asked: &SentRequests,
    ) -> Result<bool, StoreError> {
        let next = self.attachment.cursor.next();
        let page = store.read(&self.attachment.session, next, READ).await?;
        let mut reached = page.next;
        for item in page.items() {
            let item = item?;
            // Entries since the replay began follow the messages after the replay.
            if self.at_border(item.first) || item.first > upto {
                reached = item.first;
                break;
            }
            let first = item.first;
            let entry = item.entry().map_err(|cause| page.damaged(first, cause))?;
            self.show(first, &entry, out, asked);
        }
        self.attachment.cursor.advance(reached);
        self.settle_at(reached, upto, out, asked);
        Ok(true)
    }

    /// Shows a piece of history, and has the next one made meanwhile.
    async fn replay(
        &mut self,
        upto: Seq,
        store: &Arc<dyn Store>,
        out: &mut Out,
        asked: &SentRequests,
    ) -> Result<bool, StoreError> {
        if matches!(self.ahead, NextPiece::Nothing) {
            let next = self.attachment.cursor.next();
            self.begin_piece(next, upto, store, Out::default(), PiecePosition::First);
        }
        self.finish_piece().await;
        let NextPiece::Made(made) = std::mem::replace(&mut self.ahead, NextPiece::Nothing) else {
            return Ok(false);
        };
        let Lines { lines, reached } = made?;
        self.settled = false;
        let spare = out.append(lines);
        self.attachment.cursor.advance(reached);
        self.settle_at(reached, upto, out, asked);
        if reached <= upto.min(self.attachment.past) {
            self.begin_piece(reached, upto, store, spare, PiecePosition::Later);
            // Its task runs before the lines of this piece are written, so that both happen at the same time.
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// Whatever has its place before the end of the history was handed over before, so the piece may go up to there.
    fn begin_piece(
        &mut self,
        from: Seq,
        upto: Seq,
        store: &Arc<dyn Store>,
        lines: Out,
        position: PiecePosition,
    ) {
        let Some(view) = self.attachment.view.take() else { return };
        let (session, name) = (self.attachment.session.clone(), self.name.clone());
        let upto = upto.min(self.attachment.past);
        let replay = Replay { session, name, from, upto, view, lines, position };
        self.ahead = NextPiece::Begun(tokio::spawn(replay.piece(store.clone())));
    }

    /// Waits for the piece that is being made: until then nothing can be shown otherwise, or asked of the view.
    pub(super) async fn finish_piece(&mut self) {
        if let NextPiece::Begun(made) = &mut self.ahead {
            let made = made.await.unwrap_or_else(|stopped| Err(not_made(stopped)));
            self.ahead = NextPiece::Made(made.map(|piece| {
                self.attachment.view = Some(piece.view);
                piece.lines
            }));
        }
    }

    fn at_border(&self, next: Seq) -> bool {
        self.after_replay_pending() && next > self.attachment.past
    }

    fn after_replay_pending(&self) -> bool {
        let then = &self.attachment.then;
        then.answer.is_some()
            || !then.updates.is_empty()
            || !then.open.is_empty()
            || then.notice.is_some()
            || !then.after_answer.is_empty()
    }

    /// When the replay is over: how things stand, the answer, and the open questions.
    fn finish_past(&mut self, out: &mut Out, asked: &SentRequests) -> bool {
        if !self.after_replay_pending() || self.attachment.cursor.next() <= self.attachment.past {
            return false;
        }
        self.settle(out, asked);
        let then = std::mem::take(&mut self.attachment.then);
        for update in &then.updates {
            out.update(&self.name, update);
        }
        if let Some((request, answer)) = then.answer
            && let Some(id) = request.take_id()
        {
            let mut notices = self.early_notices();
            notices.extend(then.notice.clone().filter(|_| self.notices_by_answer()));
            out.result(id.id(), &with_notices(&answer, &notices));
        }
        if let Some(notice) = &then.notice {
            self.notice(notice, out);
        }
        for update in &then.after_answer {
            out.update(&self.name, update);
        }
        for shown in then.open {
            self.write(shown, out, asked);
        }
        true
    }

    fn notices_by_answer(&self) -> bool {
        self.attachment.view.as_ref().is_some_and(View::notices_by_answer)
    }

    /// Shows a notice that is not kept.
    pub(super) fn notice(&self, notice: &Json, out: &mut Out) {
        let shown =
            self.attachment.view.as_ref().map(|view| view.notice(notice, self.attachment.cursor.next()));
        shown.into_iter().flatten().for_each(|update| out.update(&self.name, &update));
    }

    /// The client leaves the session once it has been shown everything up to this entry.
    pub(super) fn leave_after(&mut self, seq: Seq) {
        self.until = Some(seq);
    }

    /// The notices that were written before the answer could be sent, for a client that gets notices with answers.
    fn early_notices(&self) -> Vec<Json> {
        if !self.notices_by_answer() {
            return Vec::new();
        }
        let notice = |entry: &Arc<Entry>| {
            let Entry::Updated { update, .. } = &**entry else { return None };
            (update.kind == UpdateKind::Notice).then(|| update.body.clone())
        };
        match self.attachment.live.read(self.attachment.past.next(), WRITE) {
            Tailing::Entries(entries) => entries.iter().filter_map(notice).collect(),
            Tailing::Behind => Vec::new(),
        }
    }

    fn show(&mut self, seq: Seq, entry: &Entry, out: &mut Out, asked: &SentRequests) {
        let timing = if seq <= self.attachment.past { Timing::Replay } else { Timing::Live };
        let mut shown = Vec::new();
        if let Some(view) = &mut self.attachment.view {
            view.show(entry, EntryPosition { seq, timing }, &mut shown);
        }
        self.settled = false;
        for shown in shown {
            self.write(shown, out, asked);
        }
    }

    /// Sends everything that was delayed before a message that waits behind the last entry.
    fn settle_at(&mut self, next: Seq, upto: Seq, out: &mut Out, asked: &SentRequests) {
        if next > upto {
            self.settle(out, asked);
        }
    }

    fn settle(&mut self, out: &mut Out, asked: &SentRequests) -> bool {
        if std::mem::replace(&mut self.settled, true) {
            return false;
        }
        let mut shown = Vec::new();
        if let Some(view) = &mut self.attachment.view {
            view.flush_stale(&mut shown);
        }
        let any = !shown.is_empty();
        for shown in shown {
            self.write(shown, out, asked);
        }
        any
    }

    fn write(&self, shown: ClientMessage, out: &mut Out, asked: &SentRequests) {
        match shown {
            ClientMessage::Update(update) => out.update(&self.name, &update),
            ClientMessage::SubagentUpdate(child, update) => out.update(Json::of(&child).text(), &update),
            ClientMessage::Question { question, method, mut params } => {
                let id = asked.ask(SentRequest::Question(self.attachment.session.clone(), question));
                // A sub-agent asks in its own name.
                if params.get("sessionId").is_none() {
                    params.set("sessionId", Json::of(&self.attachment.session));
                }
                out.request(&id, method, &params.json());
            }
            ClientMessage::WithdrawQuestion(question) => {
                if let Some(id) = asked.question(&question) {
                    out.notification("$/cancel_request", &cancel(&id));
                }
            }
        }
    }

    /// Says whether the client has been shown and answered all that there is, and the session has ended; or all that
    /// there was before the next attachment to it.
    pub(super) fn is_done(&self) -> bool {
        let next = self.attachment.cursor.next();
        let before_next = match self.next.front() {
            Some(Outbound::Attach(attachment)) => next > attachment.past,
            Some(_) | None => false,
        };
        let left = self.until.is_some_and(|until| next > until);
        !self.after_replay_pending() && (before_next || left || self.attachment.live.is_over(next))
    }
}

/// The error for a piece that was not made, because its task panicked or the runtime stops.
pub(super) fn not_made(stopped: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Io { context: "encoding a replay".to_owned(), source: stopped.into() }
}
