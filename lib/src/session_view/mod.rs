//! What a user sees of a session, folded from its events: messages, tool calls, terminals and plans in order of
//! appearance, the options, commands, title, usage and state, and the open questions. Each event is applied by itself and
//! says what it changed. Needs no runtime and no connection.

mod event;
mod item;
mod read;
mod standing;

use std::collections::HashMap;

use rethread_core::{Activity, Json, QuestionId, QuestionKind, Stop, Subject, Update, UpdateForm};
use serde_json::Value;

pub use event::SessionEvent;
pub use item::{ItemContent, Members, ViewItem};
pub use read::{FileLocation, PlanStep, TerminalExit};
pub use standing::{OptionChoice, OptionInfo, PermissionChoice, SessionCost, SlashCommand, TokenUsage};

/// The visible state of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionView {
    items: Vec<ViewItem>,
    places: HashMap<(Subject, String), usize>,
    info: ViewItem,
    options: Value,
    commands: Value,
    usage: Value,
    state: Value,
    activity: Option<Activity>,
    stop: Option<Stop>,
    questions: Vec<ViewQuestion>,
    children: Vec<(String, SessionView)>,
}

/// A question that waits for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewQuestion {
    /// Its id.
    pub id: QuestionId,
    /// A permission or an elicitation.
    pub kind: QuestionKind,
    /// The question in canonical form.
    pub body: Value,
}

/// What an event changed in a view.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewChange {
    /// An item is new, at this index.
    Added(usize),
    /// Text was appended to the message at this index.
    Appended {
        /// The index of the message.
        item: usize,
        /// The new text.
        text: String,
    },
    /// The item at this index changed in another way.
    Changed(usize),
    /// An item is gone; those after it have moved.
    Removed {
        /// What it was.
        subject: Subject,
        /// Its id.
        id: String,
    },
    /// The title or another property of the session.
    Info,
    /// The options, and with them mode and model.
    Options,
    /// The slash commands.
    Commands,
    /// The used tokens and the cost.
    Usage,
    /// What the agent does.
    State,
    /// This question was asked.
    Asked(QuestionId),
    /// This question is no longer open.
    Settled(QuestionId),
    /// Something to show once, which the view does not keep.
    Notice(SessionNotice),
    /// A sub-agent's view changed.
    Child {
        /// The session of the sub-agent.
        session: String,
        /// What changed in its view.
        change: Box<ViewChange>,
    },
}

/// A message to show once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionNotice {
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// The message in one line.
    pub title: String,
    /// The details.
    pub description: Option<String>,
}

impl SessionView {
    /// Makes a view of all these events.
    #[must_use]
    pub fn of<'a>(events: impl IntoIterator<Item = &'a SessionEvent>) -> Self {
        let mut view = Self::default();
        for event in events {
            view.apply(event);
        }
        view
    }

    /// Applies an event, and returns what it changed.
    pub fn apply(&mut self, event: &SessionEvent) -> Option<ViewChange> {
        match event {
            SessionEvent::Prompted { content } => Some(self.add(ViewItem::prompt(&content.value()))),
            SessionEvent::Updated(update) => self.updated(update),
            SessionEvent::StateChanged { activity, stop, body } => {
                self.activity = Some(*activity);
                self.stop.clone_from(stop);
                self.state = body.value();
                Some(ViewChange::State)
            }
            SessionEvent::Asked { question, kind, body } => {
                let asked = ViewQuestion { id: question.clone(), kind: *kind, body: body.value() };
                self.questions.push(asked);
                Some(ViewChange::Asked(question.clone()))
            }
            SessionEvent::Settled { question } => {
                let before = self.questions.len();
                self.questions.retain(|open| open.id != *question);
                (self.questions.len() < before).then(|| ViewChange::Settled(question.clone()))
            }
        }
    }

    /// Drops all items, so that a long session needs little memory. A later update of one of them makes a new item.
    pub fn forget_items(&mut self) {
        self.items.clear();
        self.places.clear();
        self.children.clear();
    }

    /// The items in order of first appearance.
    #[must_use]
    pub fn items(&self) -> &[ViewItem] {
        &self.items
    }

    /// The item with this id.
    #[must_use]
    pub fn item(&self, subject: Subject, id: &str) -> Option<&ViewItem> {
        self.places.get(&(subject, id.to_owned())).map(|at| &self.items[*at])
    }

    /// The views of sub-agents by session id, in order of appearance.
    #[must_use]
    pub fn children(&self) -> &[(String, SessionView)] {
        &self.children
    }

    /// The questions that wait for the user, the oldest first.
    #[must_use]
    pub fn questions(&self) -> &[ViewQuestion] {
        &self.questions
    }

    /// What the agent does; `None` before it has said so.
    #[must_use]
    pub fn activity(&self) -> Option<Activity> {
        if self.questions.is_empty() { self.activity } else { Some(Activity::RequiresAction) }
    }

    /// Why the last turn ended, if it has ended.
    #[must_use]
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    fn updated(&mut self, update: &Update) -> Option<ViewChange> {
        let body = update.body.value();
        match update.kind.subject() {
            Subject::UserMessage
            | Subject::AgentMessage
            | Subject::Thought
            | Subject::ToolCall
            | Subject::Terminal
            | Subject::Compaction => Some(self.upsert(update, &body)),
            Subject::Plan => self.plan_updated(update, body),
            Subject::Commands => Some(replaced(&mut self.commands, body, ViewChange::Commands)),
            Subject::Options => Some(replaced(&mut self.options, body, ViewChange::Options)),
            Subject::Usage => Some(replaced(&mut self.usage, body, ViewChange::Usage)),
            Subject::SessionInfo => {
                self.info.update(update.kind, &body);
                Some(ViewChange::Info)
            }
            Subject::Notice => Some(ViewChange::Notice(notice(&body))),
            Subject::Other => self.other(update, body),
        }
    }

    fn upsert(&mut self, update: &Update, body: &Value) -> ViewChange {
        let key = (update.kind.subject(), update.id.clone());
        let (at, is_new) = match self.places.get(&key) {
            Some(at) => (*at, false),
            None => {
                self.items.push(ViewItem::new(key.0, &key.1));
                self.places.insert(key, self.items.len() - 1);
                (self.items.len() - 1, true)
            }
        };
        let appended = self.items[at].update(update.kind, body);
        match appended {
            _ if is_new => ViewChange::Added(at),
            Some(text) => ViewChange::Appended { item: at, text },
            None => ViewChange::Changed(at),
        }
    }

    fn plan_updated(&mut self, update: &Update, body: Value) -> Option<ViewChange> {
        let key = (Subject::Plan, update.id.clone());
        let known = self.places.get(&key).copied();
        match (update.kind.meaning().form, known) {
            (UpdateForm::Removal, None) => None,
            (UpdateForm::Removal, Some(at)) => {
                self.items.remove(at);
                self.places.remove(&key);
                self.places.values_mut().filter(|place| **place > at).for_each(|place| *place -= 1);
                Some(ViewChange::Removed { subject: Subject::Plan, id: update.id.clone() })
            }
            (_, Some(at)) => {
                self.items[at].replace(body);
                Some(ViewChange::Changed(at))
            }
            (_, None) => {
                let mut item = ViewItem::new(Subject::Plan, &update.id);
                item.replace(body);
                Some(self.add(item))
            }
        }
    }

    /// An update of a sub-agent has the sub-agent's session as its id.
    fn other(&mut self, update: &Update, body: Value) -> Option<ViewChange> {
        if update.id.is_empty() {
            let mut item = ViewItem::new(Subject::Other, "");
            item.replace(body);
            return Some(self.add(item));
        }
        let session = update.id.clone();
        let at = self.children.iter().position(|(known, _)| *known == session).unwrap_or_else(|| {
            self.children.push((session.clone(), Self::default()));
            self.children.len() - 1
        });
        let change = self.children[at].1.updated(&Update::read(update.body.clone()))?;
        Some(ViewChange::Child { session, change: Box::new(change) })
    }

    fn add(&mut self, item: ViewItem) -> ViewChange {
        let at = self.items.len();
        if !item.id.is_empty() {
            self.places.insert((item.subject, item.id.clone()), at);
        }
        self.items.push(item);
        ViewChange::Added(at)
    }
}

fn replaced(place: &mut Value, body: Value, change: ViewChange) -> ViewChange {
    *place = body;
    change
}

fn notice(body: &Value) -> SessionNotice {
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    SessionNotice {
        severity: text("severity").unwrap_or_else(|| "info".to_owned()),
        title: text("title").unwrap_or_default(),
        description: text("description"),
    }
}

/// The JSON of a value, for the readers of the core.
fn json(value: &Value) -> Json {
    Json::from(value.clone())
}
