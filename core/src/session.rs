//! The state of one session, rebuilt by folding its journal. Knows nothing of connections, agents or stores.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::child::{self, Child};
use crate::{
    Activity, AgentKind, AskId, Binding, Entry, Json, MessageId, PromptStyle, QuestionId, QuestionKind, Seq,
    Stop, Subject, TitleSource, TurnNo, Update, UpdateKind,
};

/// What is true of a session after the entries so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The last entry that was applied.
    pub head: Seq,
    /// The working directory.
    pub cwd: String,
    /// The additional roots.
    pub roots: Vec<String>,
    /// The working directory before, if it was moved and no agent has opened it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// The agent it was made with.
    pub made_with: String,
    /// The title and who gave it; an empty one was taken away.
    pub title: Option<(String, TitleSource)>,
    /// How many agent processes have served it.
    pub generations: u32,
    /// The ids that agents gave it, oldest first.
    pub natives: Vec<Native>,
    /// The agent behind it now.
    pub agent: Option<BoundAgent>,
    /// How many turns there were.
    pub turns: TurnNo,
    /// The turn that runs.
    pub turn: Option<Turn>,
    /// Prompts that are not done with.
    pub prompts: Vec<OpenPrompt>,
    /// Questions that nobody has answered.
    pub questions: Vec<OpenQuestion>,
    /// Changes of options under way.
    pub asks: Vec<AskId>,
    /// What it is doing.
    pub activity: Activity,
    /// That in full, as clients are shown it; nothing before the first word of it.
    pub state: Option<Json>,
    /// How the last turn ended.
    pub last_stop: Option<Stop>,
    /// The last word on options, commands and usage, as updates.
    pub options: Option<Json>,
    /// The commands on offer.
    pub commands: Option<Json>,
    /// Tokens and cost.
    pub usage: Option<Json>,
    /// Tool calls that are not final, and those of this turn that are.
    pub calls: BTreeMap<String, Call>,
    /// Terminals that have not exited.
    pub terminals: BTreeMap<String, Call>,
    /// Compactions that have not come to an end.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub compactions: BTreeSet<String>,
    /// The sub-agents of the agent behind it, each behind the one that announced it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Child>,
}

/// An id that an agent has for the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    /// The agent, by the name it has for itself.
    pub agent: String,
    /// Its id.
    pub id: String,
}

/// The agent session behind a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundAgent {
    /// Which process of how many.
    pub generation: u32,
    /// The agent's id for the session.
    pub native: String,
    /// What it knew when it was bound.
    pub binding: Binding,
    /// How it takes prompts.
    pub style: PromptStyle,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "AgentKind::is_external")]
    pub kind: AgentKind,
}

/// A turn that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number.
    pub no: TurnNo,
    /// A client wants it to stop.
    pub cancelled: bool,
}

/// A tool call or terminal that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The turn it was announced in; 0 between turns.
    pub turn: TurnNo,
    /// Whether its last status was final.
    pub settled: bool,
}

/// A prompt between its arrival and the end of its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPrompt {
    /// The id of its message.
    pub message: MessageId,
    /// Its content blocks.
    pub content: Json,
    /// How far it is.
    pub phase: Phase,
    /// A client wants it to stop, and it was not acknowledged by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

impl OpenPrompt {
    /// Says whether it was written to an agent that has not acknowledged it.
    #[must_use]
    pub fn is_unacknowledged(&self) -> bool {
        matches!(self.phase, Phase::Sent { .. })
    }
}

/// How far a prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It waits.
    Held,
    /// It was written to an agent that will acknowledge it. `worked` says that foreground work began since.
    Sent {
        /// See above.
        worked: bool,
    },
    /// It was acknowledged-to-be by work that began and ended before the acknowledgement.
    Overtaken,
    /// It is part of the conversation.
    Inserted,
}

/// A question that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// Its id.
    pub question: QuestionId,
    /// What sort.
    pub kind: QuestionKind,
    /// The question.
    pub body: Json,
}

/// What a session is doing, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionProgress {
    /// Nothing runs.
    #[default]
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for the user.
    Waiting,
}

impl SessionProgress {
    /// The name in lists.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Waiting => "waiting",
        }
    }
}

impl Session {
    /// Folds one more entry in. It cannot fail: what is written is true.
    pub fn apply(&mut self, entry: &Entry) {
        self.head = self.head.next();
        match entry {
            Entry::Opened { cwd, roots, agent, moved_from, .. } => {
                self.opened(cwd, roots, agent);
                self.moved_from.clone_from(moved_from);
            }
            Entry::RootsSet { roots, .. } => self.roots.clone_from(roots),
            Entry::AgentBound { generation, agent, native, binding, style, kind } => {
                let (generation, binding, style, kind) = (*generation, *binding, *style, *kind);
                let bound = BoundAgent { generation, native: native.clone(), binding, style, kind };
                self.agent_bound(agent, bound);
            }
            Entry::AgentLost { .. } => self.agent_lost(),
            Entry::PromptHeld { message, content } => self.prompt_held(message, content),
            Entry::PromptSent { message } => self.prompt_sent(message),
            Entry::PromptInserted { message, content, .. } => self.prompt_inserted(message, content),
            Entry::PromptDropped { message, .. } => self.prompts.retain(|prompt| prompt.message != *message),
            Entry::TurnStarted { turn, state, .. } => self.turn_started(*turn, state),
            Entry::StateChanged { activity, state } => self.state_is(*activity, state),
            Entry::TurnEnded { stop, state, .. } => self.turn_ended(stop, state),
            Entry::Updated { update, known } => self.updated(update, *known),
            Entry::QuestionAsked { question, kind, body } => self.questions.push(OpenQuestion {
                question: question.clone(),
                kind: *kind,
                body: body.clone(),
            }),
            Entry::QuestionAnswered { question, .. } | Entry::QuestionWithdrawn { question } => {
                self.questions.retain(|open| open.question != *question);
            }
            Entry::OptionAsked { ask, .. } => self.asks.push(ask.clone()),
            Entry::OptionSettled { ask, .. } => self.asks.retain(|open| open != ask),
            Entry::CancelAsked { .. } => self.cancel_asked(),
            Entry::TitleSet { title, by } => self.title = Some((title.clone(), *by)),
        }
    }

    /// Folds entries that were read back: what was merged into one counts as all that it came from.
    pub fn replay(&mut self, last: Seq, entry: &Entry) {
        let head = self.head;
        self.apply(entry);
        self.head = head.max(last);
    }

    /// The title, if it has one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_ref().map(|(title, _)| title.as_str()).filter(|title| !title.is_empty())
    }

    /// A prompt that is not done with.
    #[must_use]
    pub fn prompt(&self, message: &MessageId) -> Option<&OpenPrompt> {
        self.prompts.iter().find(|prompt| prompt.message == *message)
    }

    /// Returns whether nothing is under way: no turn, and no prompt that waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.activity == Activity::Idle && self.turn.is_none() && self.prompts.is_empty()
    }

    /// What a session that a process has open is doing, in short.
    #[must_use]
    pub fn progress(&self) -> SessionProgress {
        let open = self.turn.is_some() || !self.prompts.is_empty();
        match self.activity {
            Activity::RequiresAction => SessionProgress::Waiting,
            Activity::Idle | Activity::Running | Activity::Other if !self.questions.is_empty() => {
                SessionProgress::Waiting
            }
            Activity::Running => SessionProgress::Running,
            Activity::Idle | Activity::Other if open => SessionProgress::Running,
            Activity::Idle | Activity::Other => SessionProgress::Idle,
        }
    }

    /// Says whether the agent has something left to do that it was asked to stop.
    #[must_use]
    pub fn cancel_is_awaited(&self) -> bool {
        let unacknowledged = |prompt: &OpenPrompt| prompt.cancelled && prompt.is_unacknowledged();
        self.turn.as_ref().is_some_and(|turn| turn.cancelled) || self.prompts.iter().any(unacknowledged)
    }

    fn cancel_asked(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.cancelled = true;
        }
        for prompt in self.prompts.iter_mut().filter(|prompt| prompt.is_unacknowledged()) {
            prompt.cancelled = true;
        }
    }

    fn opened(&mut self, cwd: &str, roots: &[String], agent: &str) {
        cwd.clone_into(&mut self.cwd);
        self.roots = roots.to_vec();
        agent.clone_into(&mut self.made_with);
        // A fork begins in the midst of another session: the agent's side of that one is not its own. That of a session
        // that was moved belongs to the old directory.
        self.natives.clear();
        self.agent_lost();
    }

    fn agent_bound(&mut self, agent: &str, bound: BoundAgent) {
        let native = Native { agent: agent.to_owned(), id: bound.native.clone() };
        self.generations = bound.generation;
        self.agent = Some(bound);
        self.moved_from = None;
        if self.natives.last() != Some(&native) {
            self.natives.push(native);
        }
    }

    fn agent_lost(&mut self) {
        self.agent = None;
        self.children.clear();
    }

    fn prompt_held(&mut self, message: &MessageId, content: &Json) {
        self.prompts.push(OpenPrompt {
            message: message.clone(),
            content: content.clone(),
            phase: Phase::Held,
            cancelled: false,
        });
    }

    fn prompt_sent(&mut self, message: &MessageId) {
        if let Some(prompt) = self.prompts.iter_mut().find(|prompt| prompt.message == *message)
            && prompt.phase == Phase::Held
        {
            prompt.phase = Phase::Sent { worked: false };
        }
    }

    fn prompt_inserted(&mut self, message: &MessageId, content: &Json) {
        let cancelled = self.prompt(message).is_some_and(|prompt| prompt.cancelled);
        self.prompts.retain(|prompt| prompt.message != *message);
        if let Some(turn) = &mut self.turn {
            // An agent that takes a prompt which it was asked to stop works on what is cancelled.
            turn.cancelled |= cancelled;
            self.prompts.push(OpenPrompt {
                message: message.clone(),
                content: content.clone(),
                phase: Phase::Inserted,
                cancelled,
            });
        }
    }

    fn turn_started(&mut self, turn: TurnNo, state: &Json) {
        self.turns = turn;
        self.turn = Some(Turn { no: turn, cancelled: false });
        for prompt in &mut self.prompts {
            if matches!(prompt.phase, Phase::Sent { .. }) {
                prompt.phase = Phase::Sent { worked: true };
            }
        }
        self.state_is(Activity::Running, state);
    }

    fn turn_ended(&mut self, stop: &Stop, state: &Json) {
        self.turn = None;
        self.last_stop = Some(stop.clone());
        // Work that a prompt was inserted into was done on that one, not on others that were under way.
        let claimed = self.prompts.iter().any(|prompt| prompt.phase == Phase::Inserted);
        let after = if claimed { Phase::Sent { worked: false } } else { Phase::Overtaken };
        self.prompts.retain(|prompt| prompt.phase != Phase::Inserted);
        for prompt in &mut self.prompts {
            if prompt.phase == (Phase::Sent { worked: true }) {
                prompt.phase = after;
            }
        }
        self.calls.retain(|_, call| !call.settled);
        self.terminals.retain(|_, terminal| !terminal.settled);
        self.state_is(Activity::Idle, state);
    }

    fn state_is(&mut self, activity: Activity, state: &Json) {
        self.activity = activity;
        self.state = Some(state.clone());
    }

    fn updated(&mut self, update: &Update, known: bool) {
        match update.kind.subject() {
            Subject::ToolCall => self.call_changed(update, known),
            Subject::Terminal => self.terminal_changed(update, known),
            Subject::Compaction => self.compaction_changed(update),
            Subject::Options => self.options = Some(update.body.clone()),
            Subject::Commands => self.commands = Some(update.body.clone()),
            Subject::Usage => self.usage = Some(update.body.clone()),
            Subject::Other => child::heard(&mut self.children, update),
            Subject::UserMessage
            | Subject::AgentMessage
            | Subject::Thought
            | Subject::Plan
            | Subject::SessionInfo
            | Subject::Notice => {}
        }
    }

    fn call_changed(&mut self, update: &Update, known: bool) {
        let settled = update.body.fields().get("status").map(|status| {
            matches!(status.as_string().as_deref(), Some("completed" | "failed" | "cancelled"))
        });
        let turn = self.turn.as_ref().map(|turn| turn.no).unwrap_or_default();
        changed(&mut self.calls, &update.id, turn, known, settled);
    }

    fn compaction_changed(&mut self, update: &Update) {
        // A status that is none is a change of it too: a fold keeps the last one, whatever it is.
        let Some(status) = update.body.fields().get("status").map(Json::as_string) else { return };
        match status.as_deref() {
            Some("in_progress") => self.compactions.insert(update.id.clone()),
            Some(_) | None => self.compactions.remove(&update.id),
        };
    }

    fn terminal_changed(&mut self, update: &Update, known: bool) {
        let status =
            update.body.fields().take("exitStatus").filter(|_| update.kind == UpdateKind::TerminalUpdate);
        let turn = self.turn.as_ref().map(|turn| turn.no).unwrap_or_default();
        changed(&mut self.terminals, &update.id, turn, known, status.map(|status| !status.is_null()));
    }
}

/// Takes in what an update says of a thing; `settled` is nothing if it says nothing of that.
fn changed(things: &mut BTreeMap<String, Call>, id: &str, turn: TurnNo, known: bool, settled: Option<bool>) {
    // A late word on something that was settled in an earlier turn does not begin it anew.
    if known && settled.is_none() && !things.contains_key(id) {
        return;
    }
    let thing = things.entry(id.to_owned()).or_insert(Call { turn, settled: false });
    if let Some(settled) = settled {
        thing.settled = settled;
    }
}
