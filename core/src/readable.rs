//! What a person reads of a journal: who speaks and the text, entry by entry, folded or not. Transcripts, search, export
//! and `show` use it, so that all of them show the same. How a passage is laid out is theirs.

mod content;

use crate::{Entry, Fields, Json, Screen, Stop, Subject, Update, UpdateForm};
pub use content::TextPart;

/// Who or what a passage is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Speaker {
    /// The user.
    User,
    /// The agent.
    Agent,
    /// The agent, thinking.
    Thought,
    /// A tool call.
    Tool,
    /// A terminal.
    Terminal,
    /// A plan.
    Plan,
    /// A compaction: the summary of what came before.
    Compaction,
    /// A notice, or how a turn ended if it did not end well.
    Notice,
}

impl Speaker {
    /// The word for it in a heading.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Agent => "Agent",
            Self::Thought => "Thought",
            Self::Tool => "Tool",
            Self::Terminal => "Terminal",
            Self::Plan => "Plan",
            Self::Compaction => "Compaction",
            Self::Notice => "Notice",
        }
    }
}

/// What a person reads of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Who speaks.
    pub speaker: Speaker,
    /// The id of the message, tool call, terminal, plan or compaction; empty if there is none.
    pub id: String,
    /// The session of the sub-agent that speaks; empty if no sub-agent does.
    pub child: String,
    /// Whether this goes on with what was said under the same id, changes it or stands for itself. A folded turn has
    /// almost no chunks.
    pub form: UpdateForm,
    /// What a tool call or a notice is called.
    pub title: Option<String>,
    /// The status of a tool call or a compaction, the severity of a notice.
    pub status: Option<String>,
    /// The text, in the order of the entry.
    pub parts: Vec<TextPart>,
}

impl Passage {
    /// The title and the status in one line; empty if there is neither.
    #[must_use]
    pub fn heading(&self) -> String {
        self.title.iter().chain(&self.status).map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// The parts as plain text, one below the other.
    #[must_use]
    pub fn content(&self) -> String {
        let texts = self.parts.iter().map(TextPart::text).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// All of it as plain text: the heading, then the content.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = [self.heading(), self.content()];
        lines.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn is_empty(&self) -> bool {
        self.title.is_none() && self.status.is_none() && self.parts.iter().all(|part| part.text().is_empty())
    }
}

/// Reads an entry, or a folded item, as a person would; nothing if there is nothing to read in it.
#[must_use]
pub fn readable(entry: &Entry) -> Option<Passage> {
    match entry {
        Entry::PromptInserted { message, content, .. } => Some(Passage {
            parts: content::parts(content),
            ..passage(Speaker::User, message.as_str(), UpdateForm::Complete)
        }),
        Entry::Updated { update, .. } => readable_update(update),
        Entry::TurnEnded { stop, .. } => ending(stop),
        Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentBound { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptDropped { .. }
        | Entry::TurnStarted { .. }
        | Entry::StateChanged { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => None,
    }
}

/// Reads an update as a person would.
#[must_use]
pub fn readable_update(update: &Update) -> Option<Passage> {
    if update.kind.subject() == Subject::Other && !update.id.is_empty() {
        let inner = Update::read(update.body.clone());
        let nested = inner.kind.subject() != Subject::Other;
        let passage = nested.then(|| readable_update(&inner)).flatten()?;
        return Some(Passage { child: update.id.clone(), ..passage });
    }
    let meaning = update.kind.meaning();
    let fields = update.body.fields();
    let empty = passage(meaning.speaker?, &update.id, meaning.form);
    let parts = match (meaning.subject, meaning.form) {
        (Subject::Terminal, _) => terminal(update),
        (Subject::Plan, UpdateForm::Removal) => return None,
        (Subject::Plan, _) => plan(&fields),
        (Subject::Notice, _) => fields.text("description").map(TextPart::Text).into_iter().collect(),
        (_, form) => match (meaning.content, form) {
            (Some(place), UpdateForm::Chunk) => {
                fields.get(place.chunk).and_then(content::part).into_iter().collect()
            }
            (Some(place), _) => fields.get(place.whole).map(content::parts).unwrap_or_default(),
            (None, _) => Vec::new(),
        },
    };
    let title = fields.text("title");
    let status = fields.text("status").or_else(|| fields.text("severity"));
    let passage = Passage { title, status, parts, ..empty };
    (!passage.is_empty()).then_some(passage)
}

fn passage(speaker: Speaker, id: &str, form: UpdateForm) -> Passage {
    let (id, child) = (id.to_owned(), String::new());
    Passage { speaker, id, child, form, title: None, status: None, parts: Vec::new() }
}

/// What is said of a turn that did not end by itself.
fn ending(stop: &Stop) -> Option<Passage> {
    let message = || stop.error.as_ref().and_then(|error| error.fields().text("message"));
    let text = match (stop.reason.as_str(), message()) {
        ("end_turn", _) => return None,
        ("cancelled", _) => "the turn was cancelled".to_owned(),
        ("error", Some(message)) => format!("the turn failed: {message}"),
        ("error", None) => "the turn failed".to_owned(),
        (reason, _) => format!("the turn ended: {}", reason.replace('_', " ")),
    };
    Some(Passage { parts: vec![TextPart::Text(text)], ..passage(Speaker::Notice, "", UpdateForm::Event) })
}

fn terminal(update: &Update) -> Vec<TextPart> {
    let mut screen = Screen::default();
    screen.update(update);
    let text = screen.text();
    if text.is_empty() { Vec::new() } else { vec![TextPart::Text(text)] }
}

/// A plan as text: its steps as a task list, or its prose, or the file that it is in.
fn plan(update: &Fields) -> Vec<TextPart> {
    let plan = update.get("plan").map(Json::fields).unwrap_or_default();
    let steps = plan.get("entries").and_then(Json::items).unwrap_or_default();
    let step = |step: &Json| {
        let step = step.fields();
        let mark = match step.text("status").as_deref() {
            Some("completed") => 'x',
            Some("in_progress") => '~',
            Some(_) | None => ' ',
        };
        format!("[{mark}] {}", step.text("content").unwrap_or_default())
    };
    let steps: Vec<_> = steps.iter().map(step).collect();
    let parts = [
        (!steps.is_empty()).then(|| TextPart::Text(steps.join("\n"))),
        plan.text("content").map(TextPart::Text),
        plan.text("uri").map(TextPart::Link),
    ];
    parts.into_iter().flatten().collect()
}
