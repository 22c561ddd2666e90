//! Translates between one session and one agent process: decodes the agent's messages into inputs and encodes requests
//! to it. Owns the ids of this generation of the agent, and its options with the method that sets each. Does no I/O.

mod choices;
mod echoes;
mod id_references;
mod incoming;
pub mod outgoing;
mod subagents;
mod text_run;
mod version_check;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rethread_core::{Fields, Input, Json, KnownThings, QuestionKind, Update, UpdateKind};

pub use choices::MissingChoice;

use super::Version;
use super::dialect::AgentDialect;
use super::v1::options::{Options, Sources};
use crate::wire::Id;
use echoes::UnrepeatedPrompt;
use text_run::TextChunk;
use version_check::VersionCheck;

pub use version_check::VersionFinding;

/// Something that an agent sent about its session.
#[derive(Debug)]
pub enum AgentEvent {
    /// An input for the core.
    Input(Input),
    /// A question for the user.
    Question {
        /// The agent's request id, under which the answer is sent.
        request: Id,
        /// A permission or an elicitation.
        kind: QuestionKind,
        /// The question in canonical form.
        body: Json,
    },
    /// A request or notification for the client: files, terminals, extensions.
    Relay {
        /// The agent's request id; `None` for a notification.
        request: Option<Id>,
        /// The JSON-RPC method.
        method: String,
        /// The parameters as the agent wrote them.
        params: Json,
    },
    /// The agent cancelled one of its requests.
    Withdrawn {
        /// The id of the cancelled request.
        request: Id,
    },
}

/// Translates for one session at one agent process.
pub struct AgentTranslator {
    version: Version,
    generation: u32,
    /// Hashes of the ids that earlier agent processes used in this session; objects of this process must not overwrite
    /// theirs.
    earlier_ids: HashSet<u64>,
    /// The message in progress, for agents that send no message ids.
    open_message: Option<OpenMessage>,
    options: Options,
    sources: Sources,
    /// Whether this agent process has reported its options.
    option_report: OptionReport,
    /// The number of prompts that were sent and not acknowledged.
    unacknowledged: usize,
    /// User messages that may be echoes of unacknowledged prompts.
    possible_echoes: Vec<Update>,
    /// The agent's ids of user messages that are echoes of prompts.
    echoed_ids: HashSet<String>,
    /// The objects that this agent process has mentioned.
    seen: KnownThings,
    /// The last plain-text chunk.
    last_chunk: Option<TextChunk>,
    /// The sessions of sub-agents, each with its message in progress.
    subagents: HashMap<String, Option<OpenMessage>>,
    /// Whether the agent has proved which version it speaks.
    version_check: VersionCheck,
    /// The part of the last prompt that the agent may still repeat.
    unrepeated_prompt: UnrepeatedPrompt,
    /// The heading of the transcript that was sent to the agent.
    transcript_heading: Option<String>,
}

/// Whether this agent process has reported its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionReport {
    Received,
    /// The known options are those of an earlier process.
    Missing,
}

/// A message in progress that has no id from the agent: its kind and the id generated for it.
type OpenMessage = (UpdateKind, String);

impl AgentTranslator {
    /// Makes a translator for an agent that speaks `version`, the `generation`th agent of the session. `earlier_ids`
    /// contains the hash of every id that earlier generations used.
    #[must_use]
    pub fn new(version: Version, generation: u32, earlier_ids: HashSet<u64>) -> Self {
        Self {
            version,
            generation,
            earlier_ids,
            open_message: None,
            options: Options::default(),
            sources: Sources::default(),
            option_report: OptionReport::Missing,
            unacknowledged: 0,
            possible_echoes: Vec::new(),
            echoed_ids: HashSet::new(),
            seen: KnownThings::default(),
            last_chunk: None,
            subagents: HashMap::new(),
            version_check: VersionCheck::default(),
            unrepeated_prompt: UnrepeatedPrompt::default(),
            transcript_heading: None,
        }
    }

    /// The protocol version that the agent speaks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// What the agent does and expects.
    #[must_use]
    pub fn dialect(&self) -> AgentDialect {
        self.version.agent_dialect()
    }

    /// The options of the session.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Records that a turn begins: the next chunk without an id starts a new message.
    pub fn turn_started(&mut self) {
        self.open_message = None;
    }

    /// Returns the id under which clients know an object of the agent.
    #[must_use]
    pub fn public_id(&self, id: &str) -> String {
        if self.earlier_ids.contains(&id_hash(id)) {
            format!("{id}~{}", self.generation)
        } else {
            id.to_owned()
        }
    }

    /// Returns the agent's own id for an object that a client named.
    #[must_use]
    pub fn native_id(&self, id: &str) -> String {
        let suffix = format!("~{}", self.generation);
        match id.strip_suffix(&suffix) {
            Some(base) if self.earlier_ids.contains(&id_hash(base)) => base.to_owned(),
            Some(_) | None => id.to_owned(),
        }
    }

    /// Makes an input of an update, noting whether the object was mentioned before.
    fn input(&mut self, update: Update) -> Input {
        let known = self.seen.note_update(&update);
        Input::Updated { update, known }
    }

    fn options_update(&self) -> Update {
        let body: Fields =
            [("sessionUpdate", Json::of("config_option_update")), ("configOptions", self.options.to_v2())]
                .into_iter()
                .collect();
        Update { kind: UpdateKind::ConfigOptionUpdate, id: String::new(), body: body.json() }
    }
}

/// Strips the generation suffix from a public id.
#[must_use]
pub fn bare_id(id: &str) -> &str {
    match id.rsplit_once('~') {
        Some((base, generation)) if generation.parse::<u32>().is_ok() => base,
        Some(_) | None => id,
    }
}

/// Hashes an id for `earlier_ids`.
#[must_use]
pub fn id_hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
