//! The turns of a session, folded from its entries one after the other. Of a turn that is very long, parts are given out
//! before it has ended, so that memory stays bounded.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use rethread_core::{Entry, Json, MessageId, Millis, Seq, SessionId, Stop, TurnNo, Update, UpdateKind};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::event::TranscriptEvent;
use super::item::{TranscriptItem, items_of};
use super::outline::SessionOutline;
use super::scan::{JournalDamage, JournalScan, ScanStep};
use super::usage::{CostMeter, CostSum, TurnTokens};
use crate::clock;
use crate::session_view::{SessionEvent, SessionView};
use crate::store::{Store, StoreError};

/// About how many bytes of updates are kept of a turn before a part of it is given out.
const MAX_PART_BYTES: usize = 4 * 1024 * 1024;

/// A turn, or a part of a very long one.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptTurn {
    /// The number of the turn; nothing for what came after the last turn.
    pub number: Option<u64>,
    /// When it began.
    pub started_at: Option<Millis>,
    /// Whether this goes on with the turn before.
    pub continued: bool,
    /// How it ended; nothing if it has not, or if another part follows.
    pub end: Option<TurnEnding>,
    /// What was said and done.
    pub items: Vec<TranscriptItem>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnding {
    /// When.
    pub at: Millis,
    /// `end_turn`, `cancelled`, `error`, …
    pub stop_reason: String,
    /// The message of the error, if it failed.
    pub error: Option<String>,
    /// The tokens, if the agent reported them.
    pub tokens: Option<TurnTokens>,
    /// The cost by currency; empty if the agent reported none.
    pub cost: CostSum,
}

impl TurnEnding {
    fn new(stop: &Stop, at: Millis, state: &Json, cost: CostSum) -> Self {
        let error = stop.error.as_ref().and_then(|error| error.fields().text("message"));
        Self { at, stop_reason: stop.reason.clone(), error, tokens: TurnTokens::read(state), cost }
    }

    /// What there is to say of a turn that did not end by itself; nothing of one that did.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        match (self.stop_reason.as_str(), &self.error) {
            ("end_turn", _) => None,
            ("cancelled", _) => Some("the turn was cancelled".to_owned()),
            ("error", Some(error)) => Some(format!("the turn failed: {error}")),
            ("error", None) => Some("the turn failed".to_owned()),
            (reason, _) => Some(format!("the turn ended: {}", reason.replace('_', " "))),
        }
    }
}

/// Folds entries into turns.
#[derive(Default)]
pub struct TurnFold {
    view: SessionView,
    /// Events, each with the number of items before it.
    events: Vec<(usize, TranscriptEvent)>,
    number: Option<u64>,
    started_at: Option<Millis>,
    cost: CostMeter,
    bytes: usize,
    part: PartNumber,
    position: JournalPosition,
    /// What to go back to if the entries of a turn come again.
    at_turn_end: (CostMeter, JournalPosition),
}

/// Whether a part of the turn was given out already.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PartNumber {
    #[default]
    First,
    Later,
}

/// Whether an entry was seen: the first one opens the session, a later one of the kind forks it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum JournalPosition {
    #[default]
    Beginning,
    Within,
}

impl TurnFold {
    /// Adds an entry. Returns the turn that it ends, or a part of one that is very long.
    pub fn push(&mut self, entry: &Entry) -> Option<TranscriptTurn> {
        self.note_event(entry);
        match entry {
            Entry::TurnStarted { turn, at, .. } => self.begin(*turn, *at),
            Entry::PromptInserted { message, turn, content, at } => self.prompt(message, *turn, content, *at),
            Entry::Updated { update, .. } => return self.update(update),
            Entry::TurnEnded { stop, at, state, .. } => {
                let end = TurnEnding::new(stop, *at, state, self.cost.take());
                self.at_turn_end = (self.cost.clone(), JournalPosition::Within);
                return Some(self.take(Some(end)));
            }
            Entry::AgentBound { binding, .. } => self.cost.bound(*binding),
            Entry::QuestionAsked { question, kind, body } => {
                let (question, kind, body) = (question.clone(), *kind, body.clone());
                self.apply(&SessionEvent::Asked { question, kind, body });
            }
            Entry::QuestionAnswered { question, .. } | Entry::QuestionWithdrawn { question } => {
                self.apply(&SessionEvent::Settled { question: question.clone() });
            }
            Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::StateChanged { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => {}
        }
        None
    }

    /// Gives out what came after the last turn, or the turn that has not ended.
    pub fn finish(&mut self) -> Option<TranscriptTurn> {
        for question in self.view.questions() {
            let body = &question.body;
            let title = [&body["title"], &body["toolCall"]["title"], &body["message"]];
            let title = title.iter().find_map(|title| title.as_str()).unwrap_or("a question").to_owned();
            self.events.push((usize::MAX, TranscriptEvent::QuestionOpen { title }));
        }
        let something = !self.view.items().is_empty() || !self.events.is_empty() || self.number.is_some();
        something.then(|| self.take(None))
    }

    /// Drops what came since the last turn, because it will come again. A part that was given out stays.
    pub fn restart_turn(&mut self) {
        if self.part == PartNumber::First {
            self.take(None);
            (self.cost, self.position) = self.at_turn_end.clone();
        }
    }

    /// Notes what happens besides the conversation. The first entry of a session is no fork, and an agent that ends between
    /// two turns disturbs nobody.
    fn note_event(&mut self, entry: &Entry) {
        let position = std::mem::replace(&mut self.position, JournalPosition::Within);
        let Some(event) = TranscriptEvent::read(entry) else { return };
        let is_noise = match &event {
            TranscriptEvent::Forked => position == JournalPosition::Beginning,
            TranscriptEvent::AgentLost { .. } => self.number.is_none(),
            TranscriptEvent::AgentBound { .. }
            | TranscriptEvent::PromptDropped
            | TranscriptEvent::CancelAsked
            | TranscriptEvent::QuestionOpen { .. } => false,
        };
        if !is_noise {
            self.events.push((self.view.items().len(), event));
        }
    }

    fn begin(&mut self, turn: TurnNo, at: Millis) {
        self.number = Some(turn.0);
        self.started_at = self.started_at.or(Some(at));
    }

    fn prompt(&mut self, message: &MessageId, turn: TurnNo, content: &Json, at: Millis) {
        self.begin(turn, at);
        let body = json!({"sessionUpdate": "user_message", "messageId": message, "content": content});
        let update = Update { kind: UpdateKind::UserMessage, id: message.0.clone(), body: body.into() };
        self.bytes += content.text().len();
        self.apply(&SessionEvent::Updated(update));
    }

    fn update(&mut self, update: &Update) -> Option<TranscriptTurn> {
        if update.kind == UpdateKind::UsageUpdate {
            self.cost.reported(&update.body);
        }
        self.bytes += update.body.text().len();
        self.apply(&SessionEvent::Updated(update.clone()));
        (self.bytes > MAX_PART_BYTES).then(|| {
            let part = self.take_part();
            self.part = PartNumber::Later;
            part
        })
    }

    fn apply(&mut self, event: &SessionEvent) {
        self.view.apply(event);
    }

    /// Gives out a part of the turn, which goes on.
    fn take_part(&mut self) -> TranscriptTurn {
        let (number, started_at) = (self.number, self.started_at);
        let part = self.take(None);
        (self.number, self.started_at) = (number, started_at);
        part
    }

    fn take(&mut self, end: Option<TurnEnding>) -> TranscriptTurn {
        let mut items = items_of(&self.view);
        for (shift, (at, event)) in self.events.drain(..).enumerate() {
            let at = at.saturating_add(shift).min(items.len());
            items.insert(at, TranscriptItem::Event(event));
        }
        self.view.forget_items();
        self.bytes = 0;
        TranscriptTurn {
            number: self.number.take(),
            started_at: self.started_at.take(),
            continued: std::mem::take(&mut self.part) == PartNumber::Later,
            end,
            items,
        }
    }
}

/// Reads the turns of a session one by one.
pub struct TurnReader<'a> {
    scan: JournalScan<'a>,
    /// Nothing once the end was given out.
    fold: Option<TurnFold>,
    /// Those that were read and not given out.
    turns: VecDeque<TranscriptTurn>,
}

impl<'a> TurnReader<'a> {
    /// Begins with the first turn of the session, or of the oldest session that it was forked from.
    #[must_use]
    pub fn new(store: &'a dyn Store, session: &'a SessionId) -> Self {
        Self {
            scan: JournalScan::new(store, session),
            fold: Some(TurnFold::default()),
            turns: VecDeque::new(),
        }
    }

    /// The next turn, or a part of one that is very long.
    pub async fn next(&mut self) -> Result<Option<TranscriptTurn>, StoreError> {
        while self.turns.is_empty() {
            let Some(fold) = &mut self.fold else { return Ok(None) };
            match self.scan.step().await? {
                ScanStep::Page(page) => {
                    let items = self.scan.decoded(&page)?;
                    self.turns.extend(items.iter().filter_map(|item| fold.push(&item.entry)));
                }
                ScanStep::Restarted => fold.restart_turn(),
                ScanStep::End => return Ok(self.fold.take().and_then(|mut fold| fold.finish())),
            }
        }
        Ok(self.turns.pop_front())
    }

    /// Where the journal is damaged, if the reader has come upon it.
    #[must_use]
    pub fn damage(&self) -> Option<&JournalDamage> {
        self.scan.damage()
    }
}

/// Reads all turns of a session and passes them on one by one, until `visit` returns an error. Returns where the journal is
/// damaged, if it is.
pub async fn each_turn<E: From<StoreError>>(
    store: &dyn Store,
    session: &SessionId,
    mut visit: impl FnMut(TranscriptTurn) -> Result<(), E>,
) -> Result<Option<JournalDamage>, E> {
    let turns = TurnReader::new(store, session);
    visit_turns(turns, |turn| visit(turn).map(ControlFlow::<()>::Continue)).await
}

/// Reads one turn that an outline has, without those before and after it, and passes it on; in parts if it is very long.
pub async fn one_turn<E: From<StoreError>>(
    store: &dyn Store,
    outline: &SessionOutline,
    number: u64,
    mut visit: impl FnMut(TranscriptTurn) -> Result<(), E>,
) -> Result<Option<JournalDamage>, E> {
    let Some(at) = outline.turns.iter().position(|turn| turn.number == number) else { return Ok(None) };
    let (first, position) = match at.checked_sub(1) {
        Some(before) => (outline.turns[before].last.next(), JournalPosition::Within),
        None => (Seq(0), JournalPosition::Beginning),
    };
    let scan = JournalScan::starting_at(store, &outline.id, first);
    let at_turn_end = (CostMeter::default(), position);
    let fold = TurnFold { position, at_turn_end, ..TurnFold::default() };
    visit_turns(TurnReader { scan, fold: Some(fold), turns: VecDeque::new() }, |mut turn| {
        match turn.number {
            Some(found) if found == number => {}
            Some(_) => return Ok(ControlFlow::Break(())),
            // What came before it, if that is very long.
            None => return Ok(ControlFlow::Continue(())),
        }
        let is_over = turn.end.is_some();
        // Agents report the cost of all turns so far.
        turn.end.iter_mut().for_each(|end| end.cost = outline.turns[at].cost.clone());
        visit(turn)?;
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })
    .await
}

/// Passes turns on, until there are no more or no more are wanted.
async fn visit_turns<E: From<StoreError>>(
    mut turns: TurnReader<'_>,
    mut visit: impl FnMut(TranscriptTurn) -> Result<ControlFlow<()>, E>,
) -> Result<Option<JournalDamage>, E> {
    while let Some(turn) = turns.next().await? {
        if visit(turn)?.is_break() {
            return Ok(None);
        }
    }
    Ok(turns.damage().cloned())
}

impl Serialize for TranscriptTurn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let end = self.end.as_ref();
        let mut members = serializer.serialize_struct("TranscriptTurn", 9)?;
        members.serialize_field("turn", &self.number)?;
        members.serialize_field("startedAt", &self.started_at.map(clock::rfc3339))?;
        members.serialize_field("endedAt", &end.map(|end| clock::rfc3339(end.at)))?;
        members.serialize_field("stopReason", &end.map(|end| &end.stop_reason))?;
        members.serialize_field("error", &end.and_then(|end| end.error.as_ref()))?;
        members.serialize_field("tokens", &end.and_then(|end| end.tokens))?;
        members.serialize_field("cost", &end.map(|end| &end.cost))?;
        members.serialize_field("continued", &self.continued)?;
        members.serialize_field("items", &self.items)?;
        members.end()
    }
}
