//! What one client is shown of one session: entries become its updates and questions. Owns the little that a
//! client's view needs to remember between entries. Writes nothing itself.

use std::collections::{BTreeMap, BTreeSet};

use rethread_core::{
    Child, Entry, Fields, Json, MessageId, QuestionId, QuestionKind, ReplayRule, Seq, Stop, Subject,
    TitleSource, Update, UpdateKind,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use super::Version;
use super::capabilities::ClientProfile;
use super::tool_calls::{Told, ToolCalls};
use super::v1;
use super::v1::told::Messages;
use super::v1::tool_call::Announced;
use super::v1::{BooleanOptions, ClientView, Compaction, Notices, PlanForm, Subagents};

/// One thing to send.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown {
    /// A `session/update` of the session.
    Update(Json),
    /// A `session/update` in the name of a sub-agent's session.
    OfChild(String, Json),
    /// A request that wants an answer.
    Ask {
        /// Which question it is.
        question: QuestionId,
        /// The method.
        method: &'static str,
        /// The parameters, without the session id.
        params: Fields,
    },
    /// A request that wants none any more.
    Unask(QuestionId),
}

/// Whether an entry is history or happens now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It is replayed.
    Past,
    /// It has just been written.
    Now,
}

/// Where an entry stands: what is said in our own words of one has its id from there, each time it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number, or that of the first entry that was folded into it.
    pub seq: Seq,
    /// Whether it is history.
    pub when: When,
}

/// Who owns the terminals that an agent's tool calls refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminals {
    /// This client: it knows them by their ids.
    Client,
    /// The agent: a v1 client is shown their text.
    Agent,
}

/// What a version 1 client said it takes, read once.
#[derive(Clone, Copy)]
struct Taste {
    plan: PlanForm,
    booleans: BooleanOptions,
    notices: Notices,
    compaction: Compaction,
    subagents: Subagents,
}

/// Whether a turn runs that the client sees only as its updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watching {
    /// A turn of others.
    Turn,
    /// Its own turn, or none.
    Nothing,
}

/// A client's view of a session.
pub struct View {
    version: Version,
    taste: Taste,
    /// What the client can be asked.
    profile: ClientProfile,
    /// Prompts that this client sent: version 1 knows them already.
    own: BTreeSet<MessageId>,
    /// Prompts that other clients sent, with their senders.
    others: BTreeMap<MessageId, Json>,
    /// Whether the turn that runs is one that a version 1 client does not wait for.
    watching: Watching,
    /// The mode that was shown last.
    mode: Option<String>,
    /// The messages that a version 1 client was told of.
    messages: Messages,
    /// The tool calls that a version 1 client was shown.
    calls: ToolCalls,
    /// The sessions of sub-agents.
    children: BTreeMap<String, View>,
}

impl View {
    /// A view for this client.
    #[must_use]
    pub fn new(client: &ClientProfile, terminals: Terminals) -> Self {
        let taste = Taste {
            plan: client.plan(),
            booleans: client.booleans(),
            notices: client.notices(),
            compaction: client.compaction(),
            subagents: client.subagents(),
        };
        Self::of(client, taste, terminals)
    }

    fn of(client: &ClientProfile, taste: Taste, terminals: Terminals) -> Self {
        Self {
            version: client.version,
            taste,
            profile: client.clone(),
            own: BTreeSet::new(),
            others: BTreeMap::new(),
            watching: Watching::Nothing,
            mode: None,
            messages: Messages::default(),
            calls: ToolCalls::new(terminals),
            children: BTreeMap::new(),
        }
    }

    /// The version of the client.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Says whether the client is told of notices by answers, since it does not take them as updates.
    #[must_use]
    pub fn notices_by_answer(&self) -> bool {
        self.version == Version::V1 && self.taste.notices == Notices::AsText
    }

    /// What a version 1 client was told of messages.
    pub(super) fn told(&mut self) -> &mut Messages {
        &mut self.messages
    }

    /// The client sent this prompt itself.
    pub fn sent(&mut self, message: MessageId) {
        self.own.insert(message);
    }

    /// Another client sent this prompt.
    pub fn sent_by(&mut self, message: MessageId, sender: Json) {
        self.others.insert(message, sender);
    }

    /// A terminal that the client made for the agent: our id for it, and the client's.
    pub fn own_terminal(&mut self, ours: String, theirs: String) {
        self.calls.own_terminal(ours, theirs);
    }

    /// The turn that runs is one that the client does not wait for.
    pub fn in_turn_of_others(&mut self) {
        self.watching = Watching::Turn;
    }

    /// The update that tells a client which begins to follow what the session is doing; version 1 is told only of a turn
    /// that it does not wait for.
    #[must_use]
    pub fn state_now(&self, state: &Json) -> Option<Json> {
        match (self.version, self.watching) {
            (Version::V2, _) => Some(state.clone()),
            (Version::V1, Watching::Turn) => Some(v1::state::info_update(state)),
            (Version::V1, Watching::Nothing) => None,
        }
    }

    /// The updates that show a notice which is not kept, as the client takes it.
    #[must_use]
    pub fn notice(&self, notice: &Json, seq: Seq) -> Vec<Json> {
        let update = Update { kind: UpdateKind::Notice, id: String::new(), body: notice.clone() };
        let mut shown = Vec::new();
        match self.version {
            Version::V2 => shown.push(Shown::Update(notice.clone())),
            Version::V1 => self.convert(&update, false, Place { seq, when: When::Now }, &mut shown),
        }
        let update = |one| match one {
            Shown::Update(body) => Some(body),
            Shown::OfChild(..) | Shown::Ask { .. } | Shown::Unask(_) => None,
        };
        shown.into_iter().filter_map(update).collect()
    }

    /// The client was told this mode in an answer.
    pub fn mode_is(&mut self, options: Option<&Json>) {
        self.mode = options.and_then(v1::options::current_mode);
    }

    /// Shows one entry.
    pub fn show(&mut self, entry: &Entry, place: Place, shown: &mut Vec<Shown>) {
        let when = place.when;
        match entry {
            Entry::PromptInserted { message, content, .. } => self.prompt(message, content, when, shown),
            Entry::TurnStarted { state, .. } | Entry::StateChanged { state, .. } => {
                self.state(state, when, shown);
            }
            Entry::TurnEnded { state, stop, .. } => {
                self.turn_ended();
                self.state(state, when, shown);
                self.others_turn_ended(stop, place, shown);
            }
            Entry::Updated { update, known } => self.update(update, *known, place, shown),
            Entry::QuestionAsked { question, kind, body } => {
                if when == When::Now {
                    // Nobody is asked about what they have not seen.
                    self.make_due();
                    self.settle(shown);
                    shown.extend(self.ask(question, *kind, body));
                }
            }
            Entry::QuestionAnswered { question, .. } | Entry::QuestionWithdrawn { question } => {
                if when == When::Now {
                    shown.push(Shown::Unask(question.clone()));
                }
            }
            Entry::TitleSet { title, by: TitleSource::User | TitleSource::Prompt } => {
                if when == When::Now {
                    shown.push(Shown::Update(title_update(title)));
                }
            }
            // The agent's own word for it was shown as it came.
            Entry::TitleSet { by: TitleSource::Agent, .. } => {}
            Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. } => {}
        }
    }

    /// A turn is over, which alone says nothing: nothing is expected to be added to its tool calls any more.
    pub fn turn_ended(&mut self) {
        self.calls.turn_ended();
        self.children.values_mut().for_each(Self::turn_ended);
    }

    fn make_due(&mut self) {
        self.calls.make_due();
        self.children.values_mut().for_each(Self::make_due);
    }

    /// The request for a question that is open, if the client can answer it.
    #[must_use]
    pub fn ask(&self, question: &QuestionId, kind: QuestionKind, body: &Json) -> Option<Shown> {
        if kind == QuestionKind::Elicitation && !self.profile.elicits(body) {
            return None;
        }
        let (method, mut params) = match (kind, self.version) {
            (QuestionKind::Permission, Version::V1) => {
                let params = v1::permission::to_v1(body, question.as_str(), &self.calls.at(When::Now));
                ("session/request_permission", params)
            }
            (QuestionKind::Permission, Version::V2) => ("session/request_permission", body.fields()),
            (QuestionKind::Elicitation, _) => ("elicitation/create", body.fields()),
        };
        // A client that was not told of a sub-agent is asked in the name of its parent.
        let told = self.is_told_of_children();
        params.take("sessionId");
        if let Some(child) = body.fields().take("sessionId").filter(|_| told) {
            params.set("sessionId", child);
        }
        Some(Shown::Ask { question: question.clone(), method, params })
    }

    /// Announces a sub-agent to a client that was not there, if it takes word of such.
    #[must_use]
    pub fn announce(&self, child: &Child) -> Option<Shown> {
        let body = match (self.version, self.taste.subagents) {
            (Version::V2, _) => child.body.clone(),
            (Version::V1, Subagents::Accepted) => {
                v1::aside::subagent_to_v1(&child.body, Subagents::Accepted, "").pop()?
            }
            (Version::V1, Subagents::Withheld) => return None,
        };
        Some(match child.parent.as_str() {
            "" => Shown::Update(body),
            parent => Shown::OfChild(parent.to_owned(), body),
        })
    }

    /// Shows what several entries together have made stale: the text of terminals inside tool calls. Only what
    /// is not a live terminal of the client's own is ever stale.
    pub fn settle(&mut self, shown: &mut Vec<Shown>) {
        shown.extend(self.calls.redraw().into_iter().map(Shown::Update));
        let mut children = std::mem::take(&mut self.children);
        for (child, view) in &mut children {
            let mut of_child = Vec::new();
            view.settle(&mut of_child);
            self.in_name_of(child, of_child, shown);
        }
        self.children = children;
    }

    fn prompt(&mut self, message: &MessageId, content: &Json, when: When, shown: &mut Vec<Shown>) {
        // It is inserted once.
        let own = when == When::Now && self.own.remove(message);
        let sender = self.others.remove(message).filter(|_| when == When::Now);
        match self.version {
            Version::V2 => {
                let body = body_of("user_message", "messageId", message.as_str(), content.raw());
                shown.push(Shown::Update(with_sender(body, sender)));
            }
            Version::V1 if own => {}
            Version::V1 => {
                if sender.is_some() && self.watching == Watching::Nothing {
                    self.watching = Watching::Turn;
                    let running = json!({"state": "running"}).into();
                    shown.push(Shown::Update(v1::state::info_update(&running)));
                }
                let blocks: Vec<&RawValue> = serde_json::from_str(content.text()).unwrap_or_default();
                for block in blocks {
                    let body = body_of("user_message_chunk", "messageId", message.as_str(), block);
                    shown.push(Shown::Update(with_sender(body, sender.clone())));
                }
            }
        }
    }

    fn state(&self, state: &Json, when: When, shown: &mut Vec<Shown>) {
        match (self.version, when, self.watching) {
            (Version::V2, When::Now, _) => shown.push(Shown::Update(state.clone())),
            (Version::V1, When::Now, Watching::Turn) => {
                shown.push(Shown::Update(v1::state::info_update(state)));
            }
            (Version::V1, When::Now, Watching::Nothing) | (_, When::Past, _) => {}
        }
    }

    /// A version 1 client that did not wait for the turn gets no answer that says why it failed.
    fn others_turn_ended(&mut self, stop: &Stop, place: Place, shown: &mut Vec<Shown>) {
        if place.when == When::Past
            || std::mem::replace(&mut self.watching, Watching::Nothing) == Watching::Nothing
        {
            return;
        }
        if self.version == Version::V1 && stop.reason == "error" {
            let notice = v1::state::failed_notice(stop);
            shown.extend(self.notice(&notice, place.seq).into_iter().map(Shown::Update));
        }
    }

    fn update(&mut self, update: &Update, known: bool, place: Place, shown: &mut Vec<Shown>) {
        if place.when == When::Past && update.kind.meaning().replay != ReplayRule::InPlace {
            return;
        }
        if self.notices_by_answer() && is_quiet(update) {
            return;
        }
        if update.kind == UpdateKind::Other && !update.id.is_empty() {
            return self.child_update(update, known, place, shown);
        }
        self.tell(update, known, place, shown);
    }

    fn tell(&mut self, update: &Update, known: bool, place: Place, shown: &mut Vec<Shown>) {
        match self.version {
            Version::V2 => shown.push(Shown::Update(update.body.clone())),
            Version::V1 => self.update_v1(update, known, place, shown),
        }
    }

    fn update_v1(&mut self, update: &Update, known: bool, place: Place, shown: &mut Vec<Shown>) {
        match update.kind {
            UpdateKind::ConfigOptionUpdate => self.mode_update(&update.body, shown),
            UpdateKind::TerminalUpdate | UpdateKind::TerminalOutputChunk => {
                self.calls.hear_terminal(update, place.when);
            }
            UpdateKind::ToolCallUpdate => {
                let body = self.calls.changed(update);
                let update = Update { kind: update.kind, id: update.id.clone(), body };
                return self.convert(&update, known, place, shown);
            }
            UpdateKind::ToolCallContentChunk => {
                if self.calls.grown(update, announced(known)) == Told::Later {
                    return;
                }
            }
            UpdateKind::UserMessage | UpdateKind::AgentMessage | UpdateKind::AgentThought => {
                return shown.extend(self.messages.show(update).into_iter().map(Shown::Update));
            }
            UpdateKind::UserMessageChunk | UpdateKind::AgentMessageChunk | UpdateKind::AgentThoughtChunk => {
                // Only an agent of version 2 says a message in pieces and then as a whole.
                if self.calls.terminals == Terminals::Agent {
                    return shown.extend(self.messages.show(update).into_iter().map(Shown::Update));
                }
            }
            UpdateKind::PlanUpdate
            | UpdateKind::PlanRemoved
            | UpdateKind::AvailableCommandsUpdate
            | UpdateKind::SessionInfoUpdate
            | UpdateKind::UsageUpdate
            | UpdateKind::CompactionUpdate
            | UpdateKind::CompactionSummaryChunk
            | UpdateKind::Notice
            | UpdateKind::Other => {}
        }
        self.convert(update, known, place, shown);
    }

    fn convert(&self, update: &Update, known: bool, place: Place, shown: &mut Vec<Shown>) {
        // A message of ours that only some updates need: the many others must not pay for its id.
        let in_words =
            matches!(update.kind.subject(), Subject::Notice | Subject::Compaction | Subject::Other);
        let note = if in_words { format!("note-{}", place.seq) } else { String::new() };
        let at = self.calls.at(place.when);
        let view = ClientView {
            plan: self.taste.plan,
            booleans: self.taste.booleans,
            notices: self.taste.notices,
            compaction: self.taste.compaction,
            subagents: self.taste.subagents,
            terminals: &at,
            calls: &at,
            note_id: &note,
        };
        shown.extend(v1::update::to_v1(update, announced(known), &view).into_iter().map(Shown::Update));
    }

    /// What a sub-agent says of its own work is told in the name of its session.
    fn child_update(&mut self, update: &Update, known: bool, place: Place, shown: &mut Vec<Shown>) {
        let inner = Update::read(update.body.clone());
        if place.when == When::Past && inner.kind.meaning().replay == ReplayRule::LiveOnly {
            return;
        }
        let (taste, terminals) = (self.taste, self.calls.terminals);
        let child = self.children.entry(update.id.clone());
        let child = child.or_insert_with(|| Self::of(&self.profile, taste, terminals));
        let mut of_child = Vec::new();
        child.tell(&inner, known, place, &mut of_child);
        self.in_name_of(&update.id, of_child, shown);
    }

    fn is_told_of_children(&self) -> bool {
        self.version == Version::V2 || self.taste.subagents == Subagents::Accepted
    }

    /// A client that takes no word of sub-agents is told in the name of their parent.
    fn in_name_of(&self, child: &str, of_child: Vec<Shown>, shown: &mut Vec<Shown>) {
        let told = self.is_told_of_children();
        shown.extend(of_child.into_iter().filter_map(|one| match one {
            Shown::Update(body) if told => Some(Shown::OfChild(child.to_owned(), body)),
            Shown::Update(body) => v1::aside::of_child_to_v1(child, &body).map(Shown::Update),
            other @ (Shown::OfChild(..) | Shown::Ask { .. } | Shown::Unask(_)) => Some(other),
        }));
    }

    fn mode_update(&mut self, options: &Json, shown: &mut Vec<Shown>) {
        let mode = v1::options::current_mode(options);
        if let Some(mode) = mode.as_ref().filter(|mode| self.mode.as_ref() != Some(mode)) {
            let body = json!({"sessionUpdate": "current_mode_update", "currentModeId": mode});
            shown.push(Shown::Update(body.into()));
        }
        self.mode = mode;
    }
}

fn announced(known: bool) -> Announced {
    if known { Announced::Known } else { Announced::New }
}

/// The update that tells a title.
#[must_use]
pub fn title_update(title: &str) -> Json {
    json!({"sessionUpdate": "session_info_update", "title": title}).into()
}

/// Good news of our own: not worth a line of text in the midst of the agent's words.
fn is_quiet(update: &Update) -> bool {
    if update.kind != UpdateKind::Notice {
        return false;
    }
    let fields = update.body.fields();
    fields.text("severity").as_deref() == Some("info")
        && fields.get("_meta").is_some_and(|meta| meta.fields().get("rethread").is_some())
}

/// The same prompt with the client that sent it.
fn with_sender(body: Json, sender: Option<Json>) -> Json {
    let Some(sender) = sender else { return body };
    let mut fields = body.fields();
    fields.set("_meta", json!({"rethread": {"client": sender.value()}}).into());
    fields.json()
}

/// An update whose content stays exactly as it is.
pub(super) fn body_of(tag: &str, id_field: &str, id: &str, content: &RawValue) -> Json {
    Json::of(&Body { tag, id_field, id, content })
}

/// The same, to be written.
struct Body<'a> {
    tag: &'a str,
    id_field: &'a str,
    id: &'a str,
    content: &'a RawValue,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("sessionUpdate", self.tag)?;
        map.serialize_entry(self.id_field, self.id)?;
        map.serialize_entry("content", self.content)?;
        map.end()
    }
}
