//! Makes a journal with turns out of updates that were recorded elsewhere: what an agent replays of a session that only
//! it has, what an importer reads from the files of another tool. Ids and times are given; nothing is read or written.

use crate::decide::{settle_and_end, started};
use crate::{
    ConversationRole, Entry, Folded, Gathered, Input, Json, KnownThings, MessageId, Millis, Seq, Session,
    Stop, Subject, TitleSource, Update, prompt_title,
};

/// What is known of a session before its first update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The working directory.
    pub cwd: String,
    /// The additional roots.
    pub roots: Vec<String>,
    /// The agent, as a person would name it.
    pub agent: String,
    /// A title that is known already, and who gave it.
    pub title: Option<(String, TitleSource)>,
    /// When the session was made. Updates without a time before the first one that has one get this.
    pub at: Millis,
}

/// A journal in the making.
///
/// A user message begins a turn and is its prompt. The turn ends before the next user message, at
/// [`JournalBuilder::end_turn`] or at [`JournalBuilder::finish`]; tool calls, terminals and compactions that are open
/// then are settled. Conversation before the first user message is a turn without a prompt. A session without a title is
/// given the first words of its first prompt.
///
/// Entries can be taken out at any time, so that a long session needs little memory.
#[derive(Clone, Debug)]
pub struct JournalBuilder {
    session: Session,
    entries: Vec<Entry>,
    known: KnownThings,
    prompt: Option<IncomingPrompt>,
    has_conversation: bool,
    /// The time of the last update that had one.
    last: Millis,
    turn_started_at: Millis,
    /// What goes with the end of the turn: usage and the like.
    extra: Option<Json>,
}

/// The updates of a user message that begins a turn, until something else comes.
#[derive(Clone, Debug)]
struct IncomingPrompt {
    id: String,
    updates: Gathered,
    at: Millis,
}

impl JournalBuilder {
    /// Begins the journal of a session.
    #[must_use]
    pub fn new(origin: Origin) -> Self {
        let Origin { cwd, roots, agent, title, at } = origin;
        let mut builder = Self::resume(Session::default(), at);
        builder.write(Entry::Opened { cwd, roots, agent, at, moved_from: None });
        if let Some((title, by)) = title {
            builder.write(Entry::TitleSet { title, by });
        }
        builder
    }

    /// Goes on with a session that is stored already, between two turns. Its updates so far are given to
    /// [`JournalBuilder::pass`]; what comes first then is not before `at`.
    #[must_use]
    pub fn resume(session: Session, at: Millis) -> Self {
        Self {
            session,
            entries: Vec::new(),
            known: KnownThings::default(),
            prompt: None,
            has_conversation: false,
            last: at,
            turn_started_at: at,
            extra: None,
        }
    }

    /// Notes an update that the journal has already.
    pub fn pass(&mut self, update: &Update) {
        self.known.note_update(update);
    }

    /// Adds what follows from an input that is no update: an agent that is bound or gone.
    pub fn take_in(&mut self, input: Input) {
        self.insert_prompt();
        for entry in crate::decide::decide(&self.session, input).unwrap_or_default() {
            self.write(entry);
        }
    }

    /// Sets what goes with the end of the turn, such as its usage, as members of its last state.
    pub fn set_turn_extra(&mut self, extra: Json) {
        self.extra = Some(extra);
    }

    /// The things that were spoken of so far.
    #[must_use]
    pub fn known(&self) -> &KnownThings {
        &self.known
    }

    /// The state of the session after the entries so far.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Adds the update that comes next, in canonical shape: every message and tool call has an id. An update without a
    /// time has that of the one before.
    pub fn add(&mut self, update: Update, at: Option<Millis>) {
        let before = self.last;
        self.last = at.unwrap_or(before);
        let known = self.known.note_update(&update);
        self.has_conversation |= update.kind.meaning().conversation == ConversationRole::Essential;
        if update.kind.subject() == Subject::UserMessage {
            if self.prompt.as_ref().is_some_and(|prompt| prompt.id == update.id) {
                return self.go_on(update);
            }
            if !known {
                self.close_turn(Stop::plain("end_turn"), before);
                return self.begin(update);
            }
        }
        self.insert_prompt();
        if begins_turn(&update) {
            self.begin_turn(self.last);
        }
        self.decide(update, known);
    }

    /// Ends the turn that runs, if one does, for a source that says when and how.
    pub fn end_turn(&mut self, stop: Stop, at: Option<Millis>) {
        self.last = at.unwrap_or(self.last);
        self.close_turn(stop, self.last);
    }

    /// Says whether there was a message or a tool call.
    #[must_use]
    pub fn has_conversation(&self) -> bool {
        self.has_conversation
    }

    /// Takes out the entries so far.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    /// Ends the last turn. Gives the state of the session and the entries that were not taken out.
    #[must_use]
    pub fn finish(mut self) -> (Session, Vec<Entry>) {
        self.end_turn(Stop::plain("end_turn"), None);
        (self.session, self.entries)
    }

    fn close_turn(&mut self, stop: Stop, at: Millis) {
        self.insert_prompt();
        if self.session.turn.is_some() {
            // A clock that went back makes no turn that ends before it began.
            let at = at.max(self.turn_started_at);
            let extra = self.extra.take();
            let ended = settle_and_end(&self.session, stop, extra, at);
            ended.into_iter().for_each(|entry| self.write(entry));
        }
    }

    fn begin(&mut self, update: Update) {
        let (id, updates) = (update.id.clone(), Gathered::default());
        self.prompt = Some(IncomingPrompt { id, updates, at: self.last });
        self.go_on(update);
    }

    fn go_on(&mut self, update: Update) {
        if let Some(prompt) = &mut self.prompt {
            let entry = Entry::Updated { update, known: false };
            prompt.updates.push(Folded { first: Seq(0), last: Seq(0), entry });
        }
    }

    /// Begins the turn of the user message that is complete now.
    fn insert_prompt(&mut self) {
        let Some(IncomingPrompt { id, mut updates, at }) = self.prompt.take() else { return };
        let items = updates.take();
        let content = plain_content(&items);
        if self.session.title.is_none()
            && let Some(title) = items.iter().find_map(title_of)
        {
            self.write(Entry::TitleSet { title, by: TitleSource::Prompt });
        }
        self.begin_turn(at);
        match content {
            Some(content) => {
                let (message, turn) = (MessageId(id), self.session.turns);
                self.write(Entry::PromptInserted { message, turn, content, at });
            }
            // It says more than a prompt can: it stays as it is.
            None => items.into_iter().for_each(|item| self.write(item.entry)),
        }
    }

    fn begin_turn(&mut self, at: Millis) {
        if self.session.turn.is_none() {
            self.turn_started_at = at;
            self.write(started(self.session.turns.next(), at));
        }
    }

    fn decide(&mut self, update: Update, known: bool) {
        for entry in crate::decide::updated(&self.session, update, known) {
            self.write(entry);
        }
    }

    fn write(&mut self, entry: Entry) {
        self.session.apply(&entry);
        self.entries.push(entry);
    }
}

/// Says whether an update is something that happens in a turn.
fn begins_turn(update: &Update) -> bool {
    match update.kind.meaning().conversation {
        ConversationRole::Essential | ConversationRole::Accompanying => true,
        ConversationRole::Outside => matches!(update.kind.subject(), Subject::Terminal | Subject::Compaction),
    }
}

fn title_of(item: &Folded) -> Option<String> {
    let Entry::Updated { update, .. } = &item.entry else { return None };
    prompt_title(update.body.fields().get("content")?)
}

/// The content blocks of a user message that has nothing else.
fn plain_content(items: &[Folded]) -> Option<Json> {
    let [Folded { entry: Entry::Updated { update, .. }, .. }] = items else { return None };
    let mut fields = update.body.fields();
    let plain = fields.iter().all(|(name, value)| match name {
        "sessionUpdate" | "messageId" | "content" => true,
        _ => value.is_null(),
    });
    let content = fields.take("content").filter(|_| plain)?;
    content.items().is_some_and(|blocks| !blocks.is_empty()).then_some(content)
}
