//! The writing half of a connection: one cursor for each session that the client follows, and whatever else
//! is handed to it. Reads entries, has them shown in the client's version, writes lines. It alone waits for a
//! client that does not read; nobody waits for it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rethread_core::{Entry, Json, Seq, SessionId, UpdateKind};
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

use super::asked::{Asked, AskedOf};
use super::in_flight::InFlight;
use crate::edge::Version;
use crate::edge::v1::aside::with_notices;
use crate::edge::view::{Place, Shown, When};
use crate::live::Tailing;
use crate::outbox::{Attachment, Outbound};
use crate::store::StoreError;
use crate::store::journal::Journal;
use crate::wire::{Id, Out, RpcError};

/// How much is encoded before it is written.
const WRITE: usize = 256 * 1024;
/// How much is read from the store at once: a segment is unpacked as a whole anyway.
const READ: usize = 2 * 1024 * 1024;

/// The writing half.
pub(super) struct Pump<W> {
    pub(super) writer: W,
    pub(super) outbox: mpsc::Receiver<Outbound>,
    pub(super) bell: Arc<Notify>,
    pub(super) journal: Journal,
    pub(super) asked: Asked,
    pub(super) out: Out,
    pub(super) followed: Vec<Followed>,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) in_flight: InFlight,
}

/// A session that the client follows.
pub(super) struct Followed {
    attachment: Attachment,
    /// The session id as JSON text.
    name: String,
    /// Detach when everything up to here has been shown.
    leaves: Option<Seq>,
    /// The last entry of which it is certain that whatever has a place before it was handed over.
    known: Seq,
    settled: bool,
}

/// Something that waits for its place.
pub(super) struct Waiting {
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

impl<W: AsyncWrite + Unpin> Pump<W> {
    /// Writes until the client hangs up or nobody has anything more to say.
    pub(super) async fn run(mut self) -> Stopped {
        loop {
            for followed in &mut self.followed {
                followed.known = followed.attachment.live.head();
            }
            let open = self.take_outbox();
            self.say_due();
            let moved = self.advance().await;
            if !self.out.is_empty() {
                if self.flush().await.is_err() {
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
            tokio::select! {
                () = self.bell.notified() => {}
                message = self.outbox.recv() => match message {
                    Some(message) => self.take(message),
                    None => return Stopped::Done,
                },
            }
        }
    }

    fn take_outbox(&mut self) -> bool {
        loop {
            match self.outbox.try_recv() {
                Ok(message) => self.take(message),
                Err(mpsc::error::TryRecvError::Empty) => return true,
                Err(mpsc::error::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, message: Outbound) {
        match message {
            Outbound::Answer { id, outcome } => self.answer(&id, &outcome),
            Outbound::Behind(session, behind, message) => {
                self.waiting.push_back(Waiting { session, behind, message: *message });
            }
            Outbound::Refusal { id, error } => self.out.error(&id, &error),
            Outbound::Attach(attachment) => self.attach(*attachment),
            Outbound::Detach(session, after) => {
                if let Some(followed) = self.followed(&session) {
                    followed.leaves = Some(after);
                }
            }
            Outbound::Trouble(session, updates) => self.trouble(&session, &updates),
            Outbound::OwnPrompt(session, message) => {
                if let Some(followed) = self.followed(&session) {
                    followed.attachment.view.sent(message);
                }
            }
            Outbound::Relay { from, method, params } => {
                let id = self.asked.ask(AskedOf::Relayed(from));
                self.out.request(&id, &method, &params);
            }
            Outbound::Unrelay(request) => {
                if let Some(id) = self.asked.take_back(&request) {
                    self.out.notification("$/cancel_request", &cancel(&id));
                }
            }
            Outbound::Notify { method, params } => self.out.notification(&method, &params),
        }
    }

    fn trouble(&mut self, session: &SessionId, updates: &[Json]) {
        let followed = self.followed.iter().find(|followed| followed.attachment.session == *session);
        // Version 1 hears it as the answer to its prompt.
        if let Some(followed) = followed.filter(|followed| followed.attachment.view.version() == Version::V2)
        {
            updates.iter().for_each(|update| self.out.update(&followed.name, update));
        }
    }

    fn followed(&mut self, session: &SessionId) -> Option<&mut Followed> {
        self.followed.iter_mut().find(|followed| followed.attachment.session == *session)
    }

    fn attach(&mut self, attachment: Attachment) {
        self.followed.retain(|followed| followed.attachment.session != attachment.session);
        let name = Json::of(&attachment.session).text().to_owned();
        let known = attachment.live.head();
        self.followed.push(Followed { attachment, name, leaves: None, known, settled: true });
    }

    /// Shows each session's next entries. Says whether any cursor moved.
    async fn advance(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.followed.len() {
            let upto = self.upto(&self.followed[at]);
            let followed = &mut self.followed[at];
            match followed.advance(upto, &self.journal, &mut self.out, &self.asked, &self.in_flight).await {
                Ok(read) => moved |= read,
                Err(error) => {
                    // A journal that cannot be read on is not shown with a hole in it.
                    self.fail(at, &error);
                    return true;
                }
            }
        }
        self.followed.retain(|followed| !followed.gone());
        moved
    }

    fn fail(&mut self, at: usize, error: &StoreError) {
        let mut followed = self.followed.remove(at);
        if let Some((id, _)) = followed.attachment.then.answer.take() {
            self.answer(&id, &Err(crate::runner::store_error(error)));
        }
    }

    /// The last entry that may be shown: the next thing that waits has its place behind it.
    fn upto(&self, followed: &Followed) -> Seq {
        let here = self.waiting.iter().filter(|waiting| waiting.session == followed.attachment.session);
        here.map(|waiting| waiting.behind).fold(followed.known, Seq::min)
    }

    fn say_due(&mut self) {
        let positions: HashMap<_, _> = self
            .followed
            .iter()
            .map(|followed| (followed.attachment.session.clone(), followed.attachment.cursor.next()))
            .collect();
        for waiting in std::mem::take(&mut self.waiting) {
            let due = positions.get(&waiting.session).is_none_or(|next| *next > waiting.behind);
            match due {
                true => self.take(waiting.message),
                false => self.waiting.push_back(waiting),
            }
        }
    }

    fn answer(&mut self, id: &Id, outcome: &Result<Json, RpcError>) {
        self.in_flight.answered(id);
        match outcome {
            Ok(result) => self.out.result(id, result),
            Err(error) => self.out.error(id, error),
        }
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        let bytes = self.out.take();
        self.writer.write_all(&bytes).await?;
        self.writer.flush().await?;
        self.out.reuse(bytes);
        Ok(())
    }
}

impl Followed {
    async fn advance(
        &mut self,
        upto: Seq,
        journal: &Journal,
        out: &mut Out,
        asked: &Asked,
        in_flight: &InFlight,
    ) -> Result<bool, StoreError> {
        if self.finish_past(out, asked, in_flight) {
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
                    // What stands between past and present goes exactly there, and so does what waits.
                    if self.at_border(seq) || seq > upto {
                        break;
                    }
                }
                self.attachment.cursor.advance(seq);
                Ok(true)
            }
            Tailing::Behind => self.read_store(upto, journal, out, asked).await,
        }
    }

    async fn read_store(
        &mut self,
        upto: Seq,
        journal: &Journal,
        out: &mut Out,
        asked: &Asked,
    ) -> Result<bool, StoreError> {
        let next = self.attachment.cursor.next();
        let page = journal.read(self.attachment.session.clone(), next, READ).await?;
        let mut reached = page.next;
        for item in &page.items {
            // What was written since the replay began comes after what stands between past and present.
            if self.at_border(item.first) || item.first > upto {
                reached = item.first;
                break;
            }
            self.show(item.first, &item.entry, out, asked);
        }
        self.attachment.cursor.advance(reached);
        Ok(true)
    }

    fn at_border(&self, next: Seq) -> bool {
        self.pending_then() && next > self.attachment.past
    }

    fn pending_then(&self) -> bool {
        let then = &self.attachment.then;
        then.answer.is_some()
            || !then.updates.is_empty()
            || !then.open.is_empty()
            || !then.after_answer.is_empty()
    }

    /// When the replay is over: how things stand, the answer, and the open questions.
    fn finish_past(&mut self, out: &mut Out, asked: &Asked, in_flight: &InFlight) -> bool {
        if !self.pending_then() || self.attachment.cursor.next() <= self.attachment.past {
            return false;
        }
        self.settle(out, asked);
        let then = std::mem::take(&mut self.attachment.then);
        for update in &then.updates {
            out.update(&self.name, update);
        }
        if let Some((id, answer)) = &then.answer {
            in_flight.answered(id);
            out.result(id, &with_notices(answer, &self.early_notices()));
        }
        for update in &then.after_answer {
            out.update(&self.name, update);
        }
        for shown in then.open {
            self.write(shown, out, asked);
        }
        true
    }

    /// The notices that were written before the answer could be sent, for a client that is told of them by answers.
    fn early_notices(&self) -> Vec<Json> {
        if !self.attachment.view.notices_by_answer() {
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

    fn show(&mut self, seq: Seq, entry: &Entry, out: &mut Out, asked: &Asked) {
        let when = if seq <= self.attachment.past { When::Past } else { When::Now };
        let mut shown = Vec::new();
        self.attachment.view.show(entry, Place { seq, when }, &mut shown);
        self.settled = false;
        for shown in shown {
            self.write(shown, out, asked);
        }
    }

    fn settle(&mut self, out: &mut Out, asked: &Asked) -> bool {
        if std::mem::replace(&mut self.settled, true) {
            return false;
        }
        let mut shown = Vec::new();
        self.attachment.view.settle(&mut shown);
        let any = !shown.is_empty();
        for shown in shown {
            self.write(shown, out, asked);
        }
        any
    }

    fn write(&self, shown: Shown, out: &mut Out, asked: &Asked) {
        match shown {
            Shown::Update(update) => out.update(&self.name, &update),
            Shown::OfChild(child, update) => out.update(Json::of(&child).text(), &update),
            Shown::Ask { question, method, mut params } => {
                let id = asked.ask(AskedOf::Question(self.attachment.session.clone(), question));
                // A sub-agent asks in its own name.
                if params.get("sessionId").is_none() {
                    params.set("sessionId", Json::of(&self.attachment.session));
                }
                out.request(&id, method, &params.json());
            }
            Shown::Unask(question) => {
                if let Some(id) = asked.question(&question) {
                    out.notification("$/cancel_request", &cancel(&id));
                }
            }
        }
    }

    fn gone(&self) -> bool {
        self.leaves.is_some_and(|seq| self.attachment.cursor.next() > seq)
    }
}

fn cancel(id: &Id) -> Json {
    json!({"requestId": id.as_number()}).into()
}
