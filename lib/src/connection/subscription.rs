//! One session that a client follows: a cursor in the journal. Encodes entries in the client's version; after the replay it
//! sends the current state, the answer to the request, and the open questions.

use std::collections::VecDeque;
use std::sync::Arc;

use rethread_core::{Entry, Fields, Folded, Json, QuestionId, QuestionKind, Seq, SessionId, UpdateKind};

use tokio::task::JoinHandle;

use super::replay::{Lines, Piece, PiecePosition, Replay};
use super::sent_requests::{SentRequest, SentRequests};
use crate::edge::client_request::UpdateDelivery;
use crate::edge::v1::side_updates::with_notices;
use crate::edge::view::{ClientMessage, EntryPosition, Timing, View};
use crate::live::Tailing;
use crate::outbox::{Attachment, CANCEL_REQUEST, Outbound, cancelled};
use crate::store::{Page, Store, StoreError};
use crate::wire::Out;

/// The notification of a question for an observer.
const QUESTION: &str = "_rethread/question";
/// The notification that a question is no longer open.
const QUESTION_CLOSED: &str = "_rethread/question_closed";
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
    /// The first entry after the last end of a turn that was shown: nothing is folded across it.
    turn_start: Seq,
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
        let (safe_upto, turn_start) = (attachment.live.head(), attachment.cursor.next());
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
            turn_start,
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
                    self.show(seq, seq, entry, out, asked);
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
            Tailing::Behind if next <= upto.min(self.attachment.past) && !self.is_redacted() => {
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
        let page = self.page(next, store).await?;
        let mut reached = page.next;
        for item in page.items() {
            let item = item?;
            if item.last < next {
                continue;
            }
            // Entries since the replay began follow the messages after the replay.
            if self.at_border(item.first) || item.first > upto {
                reached = item.first;
                break;
            }
            let (first, last) = (item.first, item.last);
            let entry = item.entry().map_err(|cause| page.damaged(first, cause))?;
            self.show(first, last, &entry, out, asked);
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
        let Lines { lines, reached, turn_end } = made?;
        self.turn_start = turn_end.map_or(self.turn_start, Seq::next);
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
        then.updates.iter().for_each(|update| self.write_update(update, out));
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
        then.after_answer.iter().for_each(|update| self.write_update(update, out));
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
        shown.into_iter().flatten().for_each(|update| self.write_update(&update, out));
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

    /// The next entries from the store. The store may have folded what an observer of another process's session is in the
    /// midst of: then the whole of it is shown, which replaces what was shown.
    async fn page(&self, next: Seq, store: &Arc<dyn Store>) -> Result<Page, StoreError> {
        let session = &self.attachment.session;
        let mut page = store.read(session, next, READ).await?;
        let first = page.items().next().transpose()?.map(|item| item.first);
        if self.attachment.observing.is_none() || first == Some(next) || self.turn_start >= next {
            return Ok(page);
        }
        let mut from = self.turn_start;
        loop {
            page = store.read(session, from, READ).await?;
            if page.end || page.next > next {
                return Ok(page);
            }
            from = page.next;
        }
    }

    /// An observer reads on where the session is now.
    pub(super) fn find_tail(&mut self) {
        let Some(observing) = &self.attachment.observing else { return };
        let current = observing.tail.current();
        if !Arc::ptr_eq(&current, &self.attachment.live) {
            current.attach(&self.attachment.cursor);
            self.attachment.live = current;
        }
    }

    fn is_redacted(&self) -> bool {
        self.attachment.observing.as_ref().is_some_and(|observing| observing.redactor.is_some())
    }

    fn show(&mut self, first: Seq, last: Seq, entry: &Entry, out: &mut Out, asked: &SentRequests) {
        if let Entry::TurnEnded { .. } = entry {
            self.turn_start = last.next();
        }
        let redactor = self.attachment.observing.as_mut().and_then(|observing| observing.redactor.as_mut());
        match redactor {
            None => self.show_entry(first, entry, out, asked),
            Some(redactor) => {
                for item in redactor.push(Folded { first, last, entry: entry.clone() }) {
                    self.show_entry(item.first, &item.entry, out, asked);
                }
            }
        }
    }

    fn show_entry(&mut self, seq: Seq, entry: &Entry, out: &mut Out, asked: &SentRequests) {
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
            ClientMessage::Update(update) => self.write_update(&update, out),
            ClientMessage::SubagentUpdate(child, update) => match self.attachment.updates {
                UpdateDelivery::Sent => out.update(Json::of(&child).text(), &update),
                UpdateDelivery::Withheld => {}
            },
            ClientMessage::QuestionSeen { question, kind, mut params } => {
                if params.get("sessionId").is_none() {
                    params.set("sessionId", Json::of(&self.attachment.session));
                }
                let seen = question_seen(&self.attachment.session, &question, kind, &params);
                out.notification(QUESTION, &seen);
            }
            ClientMessage::QuestionClosed { question, outcome } => {
                let closed: Fields = [
                    ("sessionId", Json::of(&self.attachment.session)),
                    ("questionId", Json::of(&question)),
                    ("outcome", outcome),
                ]
                .into_iter()
                .collect();
                out.notification(QUESTION_CLOSED, &closed.json());
            }
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
                    out.notification(CANCEL_REQUEST, &cancelled(&id));
                }
            }
        }
    }

    /// Sends an update of the session, if the client is sent updates.
    pub(super) fn write_update(&self, update: &Json, out: &mut Out) {
        match self.attachment.updates {
            UpdateDelivery::Sent => out.update(&self.name, update),
            UpdateDelivery::Withheld => {}
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
        // An observer waits for the session to go on.
        let over = self.attachment.observing.is_none() && self.attachment.live.is_over(next);
        !self.after_replay_pending() && (before_next || left || over)
    }
}

/// What an observer is told of a question.
fn question_seen(session: &SessionId, question: &QuestionId, kind: QuestionKind, params: &Fields) -> Json {
    let kind = match kind {
        QuestionKind::Permission => "permission",
        QuestionKind::Elicitation => "elicitation",
    };
    let seen: Fields = [
        ("sessionId", Json::of(session)),
        ("questionId", Json::of(question)),
        ("kind", Json::of(kind)),
        ("params", params.json()),
    ]
    .into_iter()
    .collect();
    seen.json()
}

/// The error for a piece that was not made, because its task panicked or the runtime stops.
pub(super) fn not_made(stopped: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Io { context: "encoding a replay".to_owned(), source: stopped.into() }
}
