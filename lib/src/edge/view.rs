//! Encodes the entries of one session as updates and questions for one client. Owns what must be remembered per client
//! between entries. Does no I/O.

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
use super::tool_calls::{SendTime, ToolCalls};
use super::v1;
use super::v1::sent_messages::SentMessages;
use super::v1::tool_call::Announced;
use super::v1::{BooleanOptions, Compaction, Notices, PlanForm, Subagents, V1Context};

/// A message to send to a client.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// A `session/update` of the session.
    Update(Json),
    /// A `session/update` of a sub-agent's session, with the id of that session.
    SubagentUpdate(String, Json),
    /// A request that the client must answer.
    Question {
        /// The question that the request is about.
        question: QuestionId,
        /// The JSON-RPC method.
        method: &'static str,
        /// The parameters, without the session id.
        params: Fields,
    },
    /// The question was answered or withdrawn: the client's answer is no longer needed.
    WithdrawQuestion(QuestionId),
    /// A question that the client only sees, because it is an observer.
    QuestionSeen {
        /// The question.
        question: QuestionId,
        /// What is asked for.
        kind: QuestionKind,
        /// The parameters of the request in version 2, without the session id unless a sub-agent asks.
        params: Fields,
    },
    /// A question that an observer has seen is no longer open.
    QuestionClosed {
        /// The question.
        question: QuestionId,
        /// How it ended.
        outcome: Json,
    },
}

/// Whether an entry is replayed or new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// The entry is part of the history.
    Replay,
    /// The entry was just appended.
    Live,
}

/// The position of an entry. Messages that Rethread writes itself derive their id from it, so the id is the same in
/// every replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPosition {
    /// The sequence number of the entry, or of the first entry that was folded into it.
    pub seq: Seq,
    /// Whether the entry is replayed or new.
    pub timing: Timing,
}

/// Who runs the terminals that an agent's tool calls refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalOwner {
    /// The client, which knows them by id.
    Client,
    /// The agent; a v1 client is sent their output as text.
    Agent,
}

impl TerminalOwner {
    /// The owner for a client and an agent of these versions: only version 1 has terminals of the client.
    #[must_use]
    pub fn of(client: Version, agent: Version) -> Self {
        match (client, agent) {
            (Version::V1, Version::V1) => Self::Client,
            (Version::V1, Version::V2) | (Version::V2, _) => Self::Agent,
        }
    }
}

/// The optional features that a v1 client supports.
#[derive(Clone, Copy)]
struct ClientSupport {
    plan: PlanForm,
    booleans: BooleanOptions,
    notices: Notices,
    compaction: Compaction,
    subagents: Subagents,
}

/// Whether a turn runs that the client sees only as updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watching {
    /// A turn of other clients.
    Turn,
    /// Its own turn, or none.
    Nothing,
    /// Every turn, for it has none of its own.
    Everything,
}

/// What a client is to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// It takes part: it is asked questions.
    Participant,
    /// It only looks.
    Observer,
}

/// What one client has been sent of a session.
pub struct View {
    version: Version,
    support: ClientSupport,
    /// Decides which questions the client is asked.
    profile: ClientProfile,
    audience: Audience,
    /// Prompts that this client sent, which v1 does not echo.
    own_prompts: BTreeSet<MessageId>,
    /// Prompts that other clients sent, with their senders.
    other_prompts: BTreeMap<MessageId, Json>,
    /// Whether a v1 client does not wait for the running turn.
    watching: Watching,
    /// The last mode that was sent.
    mode: Option<String>,
    /// The messages that a v1 client was sent.
    messages: SentMessages,
    /// The tool calls that a v1 client was sent.
    calls: ToolCalls,
    /// The views of sub-agent sessions, by session id.
    subagents: BTreeMap<String, View>,
}

impl View {
    /// Makes a view for a client that has been sent nothing.
    #[must_use]
    pub fn new(client: &ClientProfile, terminals: TerminalOwner) -> Self {
        let support = ClientSupport {
            plan: client.plan(),
            booleans: client.booleans(),
            notices: client.notices(),
            compaction: client.compaction(),
            subagents: client.subagents(),
        };
        Self::of(client, support, terminals)
    }

    /// Makes a view for an observer, which is shown every turn and every question and is asked nothing.
    #[must_use]
    pub fn observer(client: &ClientProfile) -> Self {
        let view = Self::new(client, TerminalOwner::Agent);
        Self { audience: Audience::Observer, watching: Watching::Everything, ..view }
    }

    fn of(client: &ClientProfile, support: ClientSupport, terminals: TerminalOwner) -> Self {
        Self {
            version: client.version,
            support,
            profile: client.clone(),
            audience: Audience::Participant,
            own_prompts: BTreeSet::new(),
            other_prompts: BTreeMap::new(),
            watching: Watching::Nothing,
            mode: None,
            messages: SentMessages::default(),
            calls: ToolCalls::new(terminals),
            subagents: BTreeMap::new(),
        }
    }

    /// The protocol version of the client.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether the client gets notices in answers, because it does not support them as updates.
    #[must_use]
    pub fn notices_by_answer(&self) -> bool {
        self.version == Version::V1 && self.support.notices == Notices::AsText
    }

    pub(super) fn sent_messages(&mut self) -> &mut SentMessages {
        &mut self.messages
    }

    /// Records that the client sent this prompt itself.
    pub fn prompt_sent(&mut self, message: MessageId) {
        self.own_prompts.insert(message);
    }

    /// Records that another client sent this prompt.
    pub fn sent_by(&mut self, message: MessageId, sender: Json) {
        self.other_prompts.insert(message, sender);
    }

    /// Records a terminal that the client runs for the agent: our id, and the id of the client.
    pub fn own_terminal(&mut self, ours: String, theirs: String) {
        self.calls.own_terminal(ours, theirs);
    }

    /// Records that the client does not wait for the running turn.
    pub fn in_turn_of_others(&mut self) {
        if self.watching == Watching::Nothing {
            self.watching = Watching::Turn;
        }
    }

    /// Returns the update with the current state for a client that attaches. A v1 client gets one only for a turn that it
    /// does not wait for.
    #[must_use]
    pub fn state_now(&self, state: &Json) -> Option<Json> {
        match (self.version, self.watching) {
            (Version::V2, _) => Some(state.clone()),
            (Version::V1, Watching::Turn | Watching::Everything) => Some(v1::state::info_update(state)),
            (Version::V1, Watching::Nothing) => None,
        }
    }

    /// Encodes a notice that is not stored.
    #[must_use]
    pub fn notice(&self, notice: &Json, seq: Seq) -> Vec<Json> {
        let update = Update { kind: UpdateKind::Notice, id: String::new(), body: notice.clone() };
        let mut shown = Vec::new();
        match self.version {
            Version::V2 => shown.push(ClientMessage::Update(notice.clone())),
            Version::V1 => {
                self.convert(&update, false, EntryPosition { seq, timing: Timing::Live }, &mut shown)
            }
        }
        let update = |one| match one {
            ClientMessage::Update(body) => Some(body),
            ClientMessage::SubagentUpdate(..)
            | ClientMessage::Question { .. }
            | ClientMessage::WithdrawQuestion(_)
            | ClientMessage::QuestionSeen { .. }
            | ClientMessage::QuestionClosed { .. } => None,
        };
        shown.into_iter().filter_map(update).collect()
    }

    /// Records that the client got the current mode in an answer.
    pub fn set_mode(&mut self, options: Option<&Json>) {
        self.mode = options.and_then(v1::options::current_mode);
    }

    /// Encodes one entry.
    pub fn show(&mut self, entry: &Entry, position: EntryPosition, shown: &mut Vec<ClientMessage>) {
        let timing = position.timing;
        match entry {
            Entry::PromptInserted { message, content, .. } => self.prompt(message, content, timing, shown),
            Entry::TurnStarted { state, .. } | Entry::StateChanged { state, .. } => {
                self.state(state, timing, shown);
            }
            Entry::TurnEnded { state, stop, .. } => {
                self.turn_ended();
                self.state(state, timing, shown);
                self.others_turn_ended(stop, position, shown);
            }
            Entry::Updated { update, known } => self.update(update, *known, position, shown),
            Entry::QuestionAsked { question, kind, body } => {
                if timing == Timing::Live {
                    // A question must not refer to a tool call whose latest content was not sent.
                    self.mark_all_due();
                    self.flush_stale(shown);
                    shown.extend(self.ask(question, *kind, body));
                }
            }
            Entry::QuestionAnswered { question, answer } => {
                self.question_closed(question, Some(answer), timing, shown);
            }
            Entry::QuestionWithdrawn { question } => self.question_closed(question, None, timing, shown),
            Entry::TitleSet { title, by: TitleSource::User | TitleSource::Prompt } => {
                if timing == Timing::Live {
                    shown.push(ClientMessage::Update(title_update(title)));
                }
            }
            // The agent's own title update was sent already.
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

    /// Records the end of a turn: its tool calls get no more content.
    pub fn turn_ended(&mut self) {
        self.calls.turn_ended();
        self.subagents.values_mut().for_each(Self::turn_ended);
    }

    fn question_closed(
        &self,
        question: &QuestionId,
        answer: Option<&Json>,
        timing: Timing,
        shown: &mut Vec<ClientMessage>,
    ) {
        let question = question.clone();
        match (timing, self.audience) {
            (Timing::Live, Audience::Participant) => shown.push(ClientMessage::WithdrawQuestion(question)),
            (Timing::Live, Audience::Observer) => {
                shown.push(ClientMessage::QuestionClosed { question, outcome: outcome_of(answer) });
            }
            (Timing::Replay, _) => {}
        }
    }

    fn mark_all_due(&mut self) {
        self.calls.mark_all_due();
        self.subagents.values_mut().for_each(Self::mark_all_due);
    }

    /// Encodes an open question as a request, if the client can answer it.
    #[must_use]
    pub fn ask(&self, question: &QuestionId, kind: QuestionKind, body: &Json) -> Option<ClientMessage> {
        if self.audience == Audience::Observer {
            let (question, params) = (question.clone(), body.fields());
            return Some(ClientMessage::QuestionSeen { question, kind, params });
        }
        if kind == QuestionKind::Elicitation && !self.profile.supports_elicitation(body) {
            return None;
        }
        let (method, mut params) = match (kind, self.version) {
            (QuestionKind::Permission, Version::V1) => {
                let params = v1::permission::to_v1(body, question.as_str(), &self.calls.at(Timing::Live));
                ("session/request_permission", params)
            }
            (QuestionKind::Permission, Version::V2) => ("session/request_permission", body.fields()),
            (QuestionKind::Elicitation, _) => ("elicitation/create", body.fields()),
        };
        // A client without support for sub-agents is asked in the parent session.
        let accepted = self.accepts_subagents();
        params.take("sessionId");
        if let Some(child) = body.fields().take("sessionId").filter(|_| accepted) {
            params.set("sessionId", child);
        }
        Some(ClientMessage::Question { question: question.clone(), method, params })
    }

    /// Announces a sub-agent to a client that attached later; `None` if the client does not support sub-agents.
    #[must_use]
    pub fn subagent_announcement(&self, child: &Child) -> Option<ClientMessage> {
        let body = match (self.version, self.support.subagents) {
            (Version::V2, _) => child.body.clone(),
            (Version::V1, Subagents::Accepted) => {
                v1::side_updates::subagent_to_v1(&child.body, Subagents::Accepted, "").pop()?
            }
            (Version::V1, Subagents::Withheld) => return None,
        };
        Some(match child.parent.as_str() {
            "" => ClientMessage::Update(body),
            parent => ClientMessage::SubagentUpdate(parent.to_owned(), body),
        })
    }

    /// Sends tool calls again whose content or terminal output has changed.
    pub fn flush_stale(&mut self, shown: &mut Vec<ClientMessage>) {
        shown.extend(self.calls.take_due_updates().into_iter().map(ClientMessage::Update));
        let mut subagents = std::mem::take(&mut self.subagents);
        for (child, view) in &mut subagents {
            let mut messages = Vec::new();
            view.flush_stale(&mut messages);
            self.forward_subagent(child, messages, shown);
        }
        self.subagents = subagents;
    }

    fn prompt(
        &mut self,
        message: &MessageId,
        content: &Json,
        timing: Timing,
        shown: &mut Vec<ClientMessage>,
    ) {
        // Each prompt is inserted once.
        let own = timing == Timing::Live && self.own_prompts.remove(message);
        let sender = self.other_prompts.remove(message).filter(|_| timing == Timing::Live);
        match self.version {
            Version::V2 => {
                let body = content_update("user_message", "messageId", message.as_str(), content.raw());
                shown.push(ClientMessage::Update(with_sender(body, sender)));
            }
            Version::V1 if own => {}
            Version::V1 => {
                if sender.is_some() && self.watching == Watching::Nothing {
                    self.watching = Watching::Turn;
                    let running = json!({"state": "running"}).into();
                    shown.push(ClientMessage::Update(v1::state::info_update(&running)));
                }
                let blocks: Vec<&RawValue> = serde_json::from_str(content.text()).unwrap_or_default();
                for block in blocks {
                    let body = content_update("user_message_chunk", "messageId", message.as_str(), block);
                    shown.push(ClientMessage::Update(with_sender(body, sender.clone())));
                }
            }
        }
    }

    fn state(&self, state: &Json, timing: Timing, shown: &mut Vec<ClientMessage>) {
        match (self.version, timing, self.watching) {
            (Version::V2, Timing::Live, _) => shown.push(ClientMessage::Update(state.clone())),
            (Version::V1, Timing::Live, Watching::Turn | Watching::Everything) => {
                shown.push(ClientMessage::Update(v1::state::info_update(state)));
            }
            (Version::V1, Timing::Live, Watching::Nothing) | (_, Timing::Replay, _) => {}
        }
    }

    /// Sends a v1 client that did not wait for the turn the reason of a failure: it gets no answer with it.
    fn others_turn_ended(&mut self, stop: &Stop, position: EntryPosition, shown: &mut Vec<ClientMessage>) {
        if position.timing == Timing::Replay || self.watching == Watching::Nothing {
            return;
        }
        if self.watching == Watching::Turn {
            self.watching = Watching::Nothing;
        }
        if self.version == Version::V1 && stop.reason == "error" {
            let notice = v1::state::failed_notice(stop);
            shown.extend(self.notice(&notice, position.seq).into_iter().map(ClientMessage::Update));
        }
    }

    fn update(
        &mut self,
        update: &Update,
        known: bool,
        position: EntryPosition,
        shown: &mut Vec<ClientMessage>,
    ) {
        if position.timing == Timing::Replay && update.kind.meaning().replay != ReplayRule::InPlace {
            return;
        }
        if self.notices_by_answer() && is_own_info_notice(update) {
            return;
        }
        if update.kind == UpdateKind::Other && !update.id.is_empty() {
            return self.subagent_update(update, known, position, shown);
        }
        self.update_or_convert(update, known, position, shown);
    }

    fn update_or_convert(
        &mut self,
        update: &Update,
        known: bool,
        position: EntryPosition,
        shown: &mut Vec<ClientMessage>,
    ) {
        match self.version {
            Version::V2 => shown.push(ClientMessage::Update(update.body.clone())),
            Version::V1 => self.update_v1(update, known, position, shown),
        }
    }

    fn update_v1(
        &mut self,
        update: &Update,
        known: bool,
        position: EntryPosition,
        shown: &mut Vec<ClientMessage>,
    ) {
        match update.kind {
            UpdateKind::ConfigOptionUpdate => self.mode_update(&update.body, shown),
            UpdateKind::TerminalUpdate | UpdateKind::TerminalOutputChunk => {
                self.calls.update_terminal(update, position.timing);
            }
            UpdateKind::ToolCallUpdate => {
                let body = self.calls.call_changed(update);
                let update = Update { kind: update.kind, id: update.id.clone(), body };
                return self.convert(&update, known, position, shown);
            }
            UpdateKind::ToolCallContentChunk => {
                if self.calls.content_added(update, announced(known)) == SendTime::Later {
                    return;
                }
            }
            UpdateKind::UserMessage | UpdateKind::AgentMessage | UpdateKind::AgentThought => {
                return shown.extend(self.messages.show(update).into_iter().map(ClientMessage::Update));
            }
            UpdateKind::UserMessageChunk | UpdateKind::AgentMessageChunk | UpdateKind::AgentThoughtChunk => {
                // Only v2 agents send a message in chunks and then as a whole.
                if self.calls.terminals == TerminalOwner::Agent {
                    return shown.extend(self.messages.show(update).into_iter().map(ClientMessage::Update));
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
        self.convert(update, known, position, shown);
    }

    fn convert(&self, update: &Update, known: bool, position: EntryPosition, shown: &mut Vec<ClientMessage>) {
        // Only these updates may need a note; the others must not pay for formatting its id.
        let may_need_note =
            matches!(update.kind.subject(), Subject::Notice | Subject::Compaction | Subject::Other);
        let note = if may_need_note { format!("note-{}", position.seq) } else { String::new() };
        let at = self.calls.at(position.timing);
        let view = V1Context {
            plan: self.support.plan,
            booleans: self.support.booleans,
            notices: self.support.notices,
            compaction: self.support.compaction,
            subagents: self.support.subagents,
            terminals: &at,
            calls: &at,
            note_id: &note,
        };
        shown.extend(
            v1::update::to_v1(update, announced(known), &view).into_iter().map(ClientMessage::Update),
        );
    }

    /// Encodes an update of a sub-agent in its own session.
    fn subagent_update(
        &mut self,
        update: &Update,
        known: bool,
        position: EntryPosition,
        shown: &mut Vec<ClientMessage>,
    ) {
        let inner = Update::read(update.body.clone());
        if position.timing == Timing::Replay && inner.kind.meaning().replay == ReplayRule::LiveOnly {
            return;
        }
        let (support, terminals) = (self.support, self.calls.terminals);
        let child = self.subagents.entry(update.id.clone());
        let child = child.or_insert_with(|| Self::of(&self.profile, support, terminals));
        let mut messages = Vec::new();
        child.update_or_convert(&inner, known, position, &mut messages);
        self.forward_subagent(&update.id, messages, shown);
    }

    fn accepts_subagents(&self) -> bool {
        self.version == Version::V2 || self.support.subagents == Subagents::Accepted
    }

    /// Sends messages in the sub-agent's session, or in the parent session if the client does not support sub-agents.
    fn forward_subagent(&self, child: &str, messages: Vec<ClientMessage>, shown: &mut Vec<ClientMessage>) {
        let accepted = self.accepts_subagents();
        shown.extend(messages.into_iter().filter_map(|one| match one {
            ClientMessage::Update(body) if accepted => {
                Some(ClientMessage::SubagentUpdate(child.to_owned(), body))
            }
            ClientMessage::Update(body) => {
                v1::side_updates::subagent_update_to_v1(child, &body).map(ClientMessage::Update)
            }
            other @ (ClientMessage::SubagentUpdate(..)
            | ClientMessage::Question { .. }
            | ClientMessage::WithdrawQuestion(_)
            | ClientMessage::QuestionSeen { .. }
            | ClientMessage::QuestionClosed { .. }) => Some(other),
        }));
    }

    fn mode_update(&mut self, options: &Json, shown: &mut Vec<ClientMessage>) {
        let mode = v1::options::current_mode(options);
        if let Some(mode) = mode.as_ref().filter(|mode| self.mode.as_ref() != Some(mode)) {
            let body = json!({"sessionUpdate": "current_mode_update", "currentModeId": mode});
            shown.push(ClientMessage::Update(body.into()));
        }
        self.mode = mode;
    }
}

fn announced(known: bool) -> Announced {
    if known { Announced::Known } else { Announced::New }
}

/// How a question ended, for an observer: the outcome of a permission, what was done with a form but not what was filled in,
/// or that it was withdrawn.
fn outcome_of(answer: Option<&Json>) -> Json {
    let Some(answer) = answer else { return json!({"outcome": "withdrawn"}).into() };
    let fields = answer.fields();
    match (fields.get("outcome"), fields.get("action")) {
        (Some(outcome), _) => outcome.clone(),
        (None, Some(action)) => [("action", action.clone())].into_iter().collect::<Fields>().json(),
        (None, None) => json!({}).into(),
    }
}

/// The update that sets a title.
#[must_use]
pub fn title_update(title: &str) -> Json {
    json!({"sessionUpdate": "session_info_update", "title": title}).into()
}

/// Returns whether a notice is an informational one of Rethread itself, which is not worth a line of text in the
/// conversation.
fn is_own_info_notice(update: &Update) -> bool {
    if update.kind != UpdateKind::Notice {
        return false;
    }
    let fields = update.body.fields();
    fields.text("severity").as_deref() == Some("info")
        && fields.get("_meta").is_some_and(|meta| meta.fields().get("rethread").is_some())
}

/// Adds the client that sent a prompt.
fn with_sender(body: Json, sender: Option<Json>) -> Json {
    let Some(sender) = sender else { return body };
    let mut fields = body.fields();
    fields.set("_meta", json!({"rethread": {"client": sender.value()}}).into());
    fields.json()
}

/// Makes an update whose content is copied verbatim.
pub(super) fn content_update(tag: &str, id_field: &str, id: &str, content: &RawValue) -> Json {
    Json::of(&ContentUpdate { tag, id_field, id, content })
}

struct ContentUpdate<'a> {
    tag: &'a str,
    id_field: &'a str,
    id: &'a str,
    content: &'a RawValue,
}

impl Serialize for ContentUpdate<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("sessionUpdate", self.tag)?;
        map.serialize_entry(self.id_field, self.id)?;
        map.serialize_entry("content", self.content)?;
        map.end()
    }
}
