//! The items of a stretch: messages, tool calls and the like as one update each, and events. What a sub-agent said is folded
//! for each sub-agent by itself.

use rethread_core::{Entry, Folded, Json, MessageId, ReplayRule, Seq, Subject, Update, UpdateKind, fold};
use serde::Serialize;
use serde_json::json;

use super::cut::{self, CutNote};
use super::event::event_of;
use super::position::{TurnTime, TurnTimes};
use super::stretch::Stretch;
use crate::clock;
use crate::secret::{SecretFinder, redacted_json};

/// One item of a session as clients read it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadItem {
    /// The first entry that it came from.
    pub(super) seq: Seq,
    /// The last entry that it came from, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<Seq>,
    turn: Option<u64>,
    time: Option<String>,
    /// The sub-agent that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(flatten)]
    body: ItemBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<CutNote>,
    /// The id of the message, tool call or the like.
    #[serde(skip)]
    id: String,
}

/// What an item says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum ItemBody {
    /// An update in canonical form.
    Update(Json),
    /// What is no update.
    Event(Json),
}

/// Whether an entry is history or new: some updates are shown only when they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It happened before the client began to read.
    History,
    /// It has just happened.
    New,
}

impl ReadItem {
    fn new(seq: Seq, last: Seq, at: TurnTime, body: ItemBody) -> Self {
        let (turn, time) = (at.turn, at.at.map(clock::rfc3339));
        let last = (last != seq).then_some(last);
        Self { seq, last, turn, time, session_id: None, body, cut: None, id: String::new() }
    }

    fn update(seq: Seq, last: Seq, at: TurnTime, update: &Update) -> Self {
        let id = update.id.clone();
        Self { id, ..Self::new(seq, last, at, ItemBody::Update(update.body.clone())) }
    }

    /// The last entry that it came from.
    pub(super) fn last(&self) -> Seq {
        self.last.unwrap_or(self.seq)
    }

    /// Names the last entry also if it is the first one.
    pub(super) fn with_last(self) -> Self {
        Self { last: Some(self.last()), ..self }
    }

    /// Whether it is the message or tool call with this id.
    pub(super) fn is(&self, id: &str) -> bool {
        !self.id.is_empty() && self.id == id
    }

    /// Whether it is an update that is neither a prompt nor a state.
    fn is_said_by_agent(&self) -> bool {
        let ItemBody::Update(body) = &self.body else { return false };
        Update::read(body.clone()).kind.subject() != Subject::UserMessage
    }

    /// The same without what looks like a secret.
    pub(super) fn redacted(mut self, finder: &mut SecretFinder) -> Self {
        let (ItemBody::Update(body) | ItemBody::Event(body)) = &mut self.body;
        *body = redacted_json(body, finder);
        self
    }

    /// Shortens it to this many bytes. What it had is noted.
    pub(super) fn cut_to(&mut self, longest: usize) {
        let ItemBody::Update(body) = &mut self.body else { return };
        let bytes = body.text().len();
        if bytes > longest {
            *body = cut::shortened(body, longest);
            self.cut = Some(CutNote { bytes });
        }
    }
}

/// The items of whole turns, in order. Entries up to `past` are history.
pub(super) fn items_of(stretch: &Stretch, past: Seq) -> Vec<ReadItem> {
    let freshness = |seq: Seq| if seq <= past { Freshness::History } else { Freshness::New };
    let times = TurnTimes::of(&stretch.items, stretch.since);
    let mut items = Vec::new();
    let turns = stretch.items.split_inclusive(|item| matches!(item.entry, Entry::TurnEnded { .. }));
    for turn in turns {
        let start = items.len();
        let (children, own): (Vec<_>, Vec<_>) =
            turn.iter().cloned().partition(|item| child_of(&item.entry).is_some());
        for item in fold(&own) {
            items.extend(entry_items(&item, times.at(item.first), freshness(item.first)));
        }
        for (child, said) in by_child(children) {
            for item in fold(&said) {
                let read = entry_items(&item, times.at(item.first), freshness(item.first));
                items.extend(read.into_iter().map(|read| of_child(read, &child)));
            }
        }
        items[start..].sort_by_key(|item: &ReadItem| item.seq);
    }
    items
}

/// The items without what looks like a secret. What an agent has said in a turn that still runs is left out: a secret may be
/// split between what was said and what is not said yet.
pub(super) fn redacted_items(
    stretch: &Stretch,
    items: Vec<ReadItem>,
    finder: &mut SecretFinder,
) -> Vec<ReadItem> {
    let ended = stretch.items.iter().rev().find(|item| matches!(item.entry, Entry::TurnEnded { .. }));
    let settled = ended.map_or(Seq(0), |item| item.last);
    let shown = |item: &ReadItem| item.last() <= settled || !item.is_said_by_agent();
    items.into_iter().filter(shown).map(|item| item.redacted(finder)).collect()
}

/// What a client is given of one entry.
pub(super) fn entry_items(item: &Folded, at: TurnTime, freshness: Freshness) -> Vec<ReadItem> {
    let Folded { first, last, entry } = item;
    let mut items = Vec::new();
    match entry {
        Entry::PromptInserted { message, content, .. } => {
            items.push(ReadItem::update(*first, *last, at, &prompt_update(message, content)));
        }
        Entry::Updated { update, .. } => match child_of(entry) {
            Some(child) => {
                let inner = Update::read(update.body.clone());
                if is_shown(inner.kind, freshness) {
                    items.push(of_child(ReadItem::update(*first, *last, at, &inner), child));
                }
            }
            None if is_shown(update.kind, freshness) => {
                items.push(ReadItem::update(*first, *last, at, update));
            }
            None => {}
        },
        Entry::TurnStarted { state, .. }
        | Entry::StateChanged { state, .. }
        | Entry::TurnEnded { state, .. } => {
            if freshness == Freshness::New {
                items.push(ReadItem::new(*first, *last, at, ItemBody::Update(state.clone())));
            }
        }
        Entry::TitleSet { title, .. } => {
            if freshness == Freshness::New {
                let body = json!({"sessionUpdate": "session_info_update", "title": title}).into();
                items.push(ReadItem::new(*first, *last, at, ItemBody::Update(body)));
            }
        }
        Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentBound { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptDropped { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. } => {}
    }
    let event = event_of(entry, *first, at.turn);
    items.extend(event.map(|event| ReadItem::new(*first, *last, at, ItemBody::Event(event))));
    items
}

/// The id of the message or tool call that an entry speaks of.
pub(super) fn id_in(entry: &Entry) -> Option<String> {
    match entry {
        Entry::PromptInserted { message, .. } => Some(message.0.clone()),
        Entry::Updated { update, .. } if child_of(entry).is_some() => {
            Some(Update::read(update.body.clone()).id)
        }
        Entry::Updated { update, .. } => Some(update.id.clone()),
        Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentBound { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptDropped { .. }
        | Entry::TurnStarted { .. }
        | Entry::StateChanged { .. }
        | Entry::TurnEnded { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => None,
    }
}

fn prompt_update(message: &MessageId, content: &Json) -> Update {
    let fields = [
        ("sessionUpdate", Json::of("user_message")),
        ("messageId", Json::of(message)),
        ("content", content.clone()),
    ];
    let body = fields.into_iter().collect::<rethread_core::Fields>().json();
    Update { kind: UpdateKind::UserMessage, id: message.0.clone(), body }
}

/// As in a replay: what describes the session as it is now is told apart from its history.
fn is_shown(kind: UpdateKind, freshness: Freshness) -> bool {
    freshness == Freshness::New || kind.meaning().replay == ReplayRule::InPlace
}

/// The sub-agent that an entry is of.
fn child_of(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::Updated { update, .. } if update.kind == UpdateKind::Other && !update.id.is_empty() => {
            Some(&update.id)
        }
        Entry::Updated { .. }
        | Entry::PromptInserted { .. }
        | Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentBound { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptDropped { .. }
        | Entry::TurnStarted { .. }
        | Entry::StateChanged { .. }
        | Entry::TurnEnded { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => None,
    }
}

fn of_child(item: ReadItem, child: &str) -> ReadItem {
    ReadItem { session_id: Some(child.to_owned()), ..item }
}

/// The updates of each sub-agent, in the order in which they first spoke.
fn by_child(items: Vec<Folded>) -> Vec<(String, Vec<Folded>)> {
    let mut children: Vec<(String, Vec<Folded>)> = Vec::new();
    for Folded { first, last, entry } in items {
        let Entry::Updated { update, known } = entry else { continue };
        let inner = Entry::Updated { update: Update::read(update.body), known };
        let said = Folded { first, last, entry: inner };
        match children.iter_mut().find(|(child, _)| *child == update.id) {
            Some((_, list)) => list.push(said),
            None => children.push((update.id, vec![said])),
        }
    }
    children
}
