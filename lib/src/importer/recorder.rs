//! Makes a journal of what a reader gives: turns with their prompts, stop reasons and tokens, models as options, and the
//! binding to the agent that can go on with the session. Counts and hashes the events, so that a source that has grown
//! is continued where it was left.

use rethread_core::{
    AgentKind, Binding, Entry, HeldPrompts, Input, JournalBuilder, Json, KnownThings, Millis, Origin,
    PromptStyle, Session, Stop, Update,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::reader::ToolInfo;
use super::sink::{ReadEvent, SessionFacts, UsedTokens};

/// How far a source was read: the number of events, and their hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadMark {
    /// How many events.
    pub events: u64,
    /// The SHA-256 of the events.
    pub hash: [u8; 32],
}

/// Turns events into entries.
pub(super) struct Recorder {
    builder: JournalBuilder,
    hasher: Sha256,
    events: u64,
    /// How far the entries go that end with a turn.
    complete: ReadMark,
    tokens: UsedTokens,
    model: Option<String>,
    last: Millis,
    now: Millis,
    end: SourceEnd,
}

/// How a source ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceEnd {
    /// Between two turns, as far as one can tell.
    Settled,
    /// In the middle of a turn.
    Unfinished,
}

impl Recorder {
    /// Begins the journal of a session. No time is taken to be later than `now`.
    pub(super) fn new(tool: &ToolInfo, facts: &SessionFacts, native: &str, now: Millis) -> Self {
        let at = facts.created.unwrap_or(now).min(now);
        let origin = Origin {
            cwd: facts.cwd.clone(),
            roots: Vec::new(),
            agent: tool.title.to_owned(),
            title: facts.title.clone(),
            at,
        };
        let mut recorder = Self::with(JournalBuilder::new(origin), at, now);
        recorder.bind(tool, native, Binding::Fresh);
        recorder
    }

    /// Goes on with a stored session. Events that it has already are given to [`Recorder::pass`] first.
    pub(super) fn resume(session: Session, at: Millis, now: Millis) -> Self {
        Self::with(JournalBuilder::resume(session, at), at, now)
    }

    fn with(builder: JournalBuilder, last: Millis, now: Millis) -> Self {
        Self {
            builder,
            hasher: Sha256::new(),
            events: 0,
            complete: ReadMark::default(),
            tokens: UsedTokens::default(),
            model: None,
            last,
            now,
            end: SourceEnd::Settled,
        }
    }

    /// Binds the agent that has the session under this id.
    pub(super) fn bind(&mut self, tool: &ToolInfo, native: &str, binding: Binding) {
        self.builder.take_in(Input::AgentBound {
            agent: tool.agent().to_owned(),
            native: native.to_owned(),
            binding,
            style: PromptStyle::OneAtATime,
            kind: AgentKind::External,
            at: self.last,
        });
    }

    /// Takes note of an event that the journal has already.
    pub(super) fn pass(&mut self, event: &ReadEvent) {
        self.count(event);
        match event {
            ReadEvent::Updated(update, at) => {
                self.time(*at);
                self.builder.pass(update);
            }
            ReadEvent::Model(name) => self.model = Some(name.clone()),
            ReadEvent::Begun(_)
            | ReadEvent::Tokens(_)
            | ReadEvent::TurnEnded(..)
            | ReadEvent::Unfinished
            | ReadEvent::Ended => {}
        }
        self.complete = self.mark();
    }

    /// Adds an event. Returns the entries that follow from it.
    pub(super) fn add(&mut self, event: ReadEvent) -> Vec<Entry> {
        let before = self.mark();
        self.count(&event);
        // A user message ends the turn before it; the end of a turn belongs to it.
        let complete = if matches!(event, ReadEvent::TurnEnded(..)) { self.mark() } else { before };
        match event {
            ReadEvent::Updated(update, at) => self.update(update, at),
            ReadEvent::Model(name) => self.model(name),
            ReadEvent::Tokens(tokens) => self.used(tokens),
            ReadEvent::TurnEnded(stop, at) => {
                let at = self.time(at);
                self.builder.end_turn(stop, Some(at));
            }
            ReadEvent::Unfinished => self.end = SourceEnd::Unfinished,
            ReadEvent::Begun(_) | ReadEvent::Ended => {}
        }
        let entries = self.builder.take_entries();
        if entries.iter().any(|entry| matches!(entry, Entry::TurnEnded { .. })) {
            self.complete = complete;
            self.tokens = UsedTokens::default();
        }
        entries
    }

    /// How far the finished turns go.
    pub(super) fn complete(&self) -> &ReadMark {
        &self.complete
    }

    /// How the source ends.
    pub(super) fn end(&self) -> SourceEnd {
        self.end
    }

    /// The latest time of an event.
    pub(super) fn last(&self) -> Millis {
        self.last
    }

    /// Says whether there was a message or a tool call.
    pub(super) fn has_conversation(&self) -> bool {
        self.builder.has_conversation()
    }

    /// Ends the last turn. Returns the last entries.
    pub(super) fn end_turn(&mut self) -> Vec<Entry> {
        let stop = match self.end {
            SourceEnd::Settled => Stop::plain("end_turn"),
            SourceEnd::Unfinished => Stop::plain("cancelled"),
        };
        self.builder.end_turn(stop, None);
        self.complete = self.mark();
        self.builder.take_entries()
    }

    /// The entries that end the service of the agent in a session of which this is the state.
    pub(super) fn closing(&self, session: &Session, tool: &ToolInfo) -> Vec<Entry> {
        let reason = format!("the session was imported from {}", tool.title);
        let gone = Input::AgentExited { reason, held: HeldPrompts::Drop, at: self.last };
        // A model of the past is no choice that a later agent is to be asked for.
        let options = self.model.is_some().then(|| Entry::Updated { update: options(&[]), known: false });
        let gone = rethread_core::decide(session, gone).unwrap_or_default();
        options.into_iter().chain(gone).collect()
    }

    /// Binds the agent again to a session that goes on, with the model that it had.
    pub(super) fn go_on(&mut self, tool: &ToolInfo, native: &str) -> Vec<Entry> {
        self.bind(tool, native, Binding::Resumed);
        if let Some(name) = self.model.clone() {
            self.builder.add(options(&[model_option(&name)]), None);
        }
        self.builder.take_entries()
    }

    /// The things that were spoken of so far.
    pub(super) fn known(&self) -> &KnownThings {
        self.builder.known()
    }

    fn update(&mut self, update: Update, at: Option<Millis>) {
        let at = self.time(at);
        self.builder.add(update, Some(at));
    }

    fn model(&mut self, name: String) {
        if self.model.as_ref() != Some(&name) {
            self.builder.add(options(&[model_option(&name)]), None);
            self.model = Some(name);
        }
    }

    fn used(&mut self, more: UsedTokens) {
        let sum = &mut self.tokens;
        for (sum, more) in [
            (&mut sum.input, more.input),
            (&mut sum.output, more.output),
            (&mut sum.cached_read, more.cached_read),
            (&mut sum.cached_write, more.cached_write),
        ] {
            *sum = sum.saturating_add(more);
        }
        let total = [sum.input, sum.output, sum.cached_read, sum.cached_write];
        let total = total.into_iter().fold(0, u64::saturating_add);
        let usage = json!({"inputTokens": sum.input, "outputTokens": sum.output,
            "cachedReadTokens": sum.cached_read, "cachedWriteTokens": sum.cached_write, "totalTokens": total});
        self.builder.set_turn_extra(json!({"usage": usage}).into());
    }

    /// A time that is not in the future; that of the event before if there is none.
    fn time(&mut self, at: Option<Millis>) -> Millis {
        let at = at.map_or(self.last, |at| at.min(self.now));
        self.last = self.last.max(at);
        at
    }

    fn count(&mut self, event: &ReadEvent) {
        let mut field = |bytes: &[u8]| {
            self.hasher.update((bytes.len() as u64).to_le_bytes());
            self.hasher.update(bytes);
        };
        match event {
            // Titles and the like may change at any time.
            ReadEvent::Begun(_) | ReadEvent::Unfinished | ReadEvent::Ended => return,
            ReadEvent::Updated(update, at) => {
                field(update.id.as_bytes());
                field(update.body.text().as_bytes());
                field(&at.unwrap_or(0).to_le_bytes());
            }
            ReadEvent::Model(name) => field(name.as_bytes()),
            ReadEvent::Tokens(tokens) => {
                for count in [tokens.input, tokens.output, tokens.cached_read, tokens.cached_write] {
                    field(&count.to_le_bytes());
                }
            }
            ReadEvent::TurnEnded(stop, _) => field(stop.reason.as_bytes()),
        }
        self.events += 1;
    }

    fn mark(&self) -> ReadMark {
        ReadMark { events: self.events, hash: self.hasher.clone().finalize().into() }
    }
}

fn options(list: &[Json]) -> Update {
    Update::read(json!({"sessionUpdate": "config_option_update", "configOptions": list}).into())
}

/// The model as an option whose only value it is.
fn model_option(name: &str) -> Json {
    json!({"configId": "model", "name": "Model", "category": "model", "type": "select", "currentValue": name,
        "options": [{"value": name, "name": name}]})
    .into()
}
