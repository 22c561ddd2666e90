//! The translation for one session at one agent process: what the agent says becomes inputs, what is asked of
//! it becomes its requests. Owns the ids of this generation of the agent, its options and where they are set.
//! Sends nothing and waits for nothing.

pub mod ask;
mod child;
mod choices;
mod hear;
mod refer;
mod repeated;
mod run;
mod spoken;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rethread_core::{Fields, Input, Json, KnownThings, QuestionKind, Update, UpdateKind};

pub use choices::Lacking;

use super::Version;
use super::v1::options::{Options, Sources};
use crate::wire::Id;
use repeated::Repeatable;
use spoken::Spoken;

pub use spoken::Sign;

/// Something that an agent said about its session.
#[derive(Debug)]
pub enum Heard {
    /// An occurrence for the core.
    Input(Input),
    /// A question for the user, to be answered under the agent's request id.
    Question {
        /// The agent's request id.
        request: Id,
        /// What sort.
        kind: QuestionKind,
        /// The question in canonical shape.
        body: Json,
    },
    /// Something for the client alone: files, terminals, extensions.
    Relay {
        /// The agent's request id; none for a notification.
        request: Option<Id>,
        /// The method.
        method: String,
        /// The parameters as they came.
        params: Json,
    },
    /// The agent takes back one of its requests.
    Withdrawn {
        /// Which.
        request: Id,
    },
}

/// The state of the translation.
pub struct Link {
    version: Version,
    generation: u32,
    /// Hashes of the ids that were in use before this agent process: it must not overwrite their things.
    older: HashSet<u64>,
    /// The message that is being said by an agent that names none.
    speaking: Option<Speaking>,
    options: Options,
    sources: Sources,
    /// Whether this agent process has said what it offers.
    offered: Offered,
    /// Prompts that were sent and not acknowledged.
    unacknowledged: usize,
    /// User messages that may be the echo of such a prompt.
    early: Vec<Update>,
    /// The agent's ids of user messages that are ours.
    echoes: HashSet<String>,
    /// The things that this agent process has spoken of.
    said: KnownThings,
    /// The sessions of its sub-agents, and the message that each is saying.
    children: HashMap<String, Option<Speaking>>,
    /// Whether it has shown that it speaks the version it answered with.
    spoken: Spoken,
    /// What of the last prompt the agent may repeat.
    repeatable: Repeatable,
    /// The heading of the transcript that the agent was given.
    heading: Option<String>,
}

/// Whether an agent has said what it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offered {
    /// It has.
    Told,
    /// What is known was said by an earlier process of it.
    Untold,
}

/// A message that is being said by an agent that names none: its kind and the id that it was given.
type Speaking = (UpdateKind, String);

impl Link {
    /// A translation for an agent that speaks `version`, as the `generation`th agent of the session. `older`
    /// has every id that earlier generations used.
    #[must_use]
    pub fn new(version: Version, generation: u32, older: HashSet<u64>) -> Self {
        Self {
            version,
            generation,
            older,
            speaking: None,
            options: Options::default(),
            sources: Sources::default(),
            offered: Offered::Untold,
            unacknowledged: 0,
            early: Vec::new(),
            echoes: HashSet::new(),
            said: KnownThings::default(),
            children: HashMap::new(),
            spoken: Spoken::default(),
            repeatable: Repeatable::default(),
            heading: None,
        }
    }

    /// The version spoken.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// A turn begins: a message without an id is a new one.
    pub fn turn_started(&mut self) {
        self.speaking = None;
    }

    /// The id under which clients know a thing of the agent's.
    #[must_use]
    pub fn public_id(&self, id: &str) -> String {
        if self.older.contains(&id_hash(id)) { format!("{id}~{}", self.generation) } else { id.to_owned() }
    }

    /// The id under which the agent knows a thing that clients name.
    #[must_use]
    pub fn native_id(&self, id: &str) -> String {
        let suffix = format!("~{}", self.generation);
        match id.strip_suffix(&suffix) {
            Some(base) if self.older.contains(&id_hash(base)) => base.to_owned(),
            Some(_) | None => id.to_owned(),
        }
    }

    /// An update as an input, with whether the thing it speaks of was there already.
    fn heard(&mut self, update: Update) -> Input {
        let known = self.said.note_update(&update);
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

/// The id that a thing was given by whoever made it, whichever generation it was named for.
#[must_use]
pub fn bare_id(id: &str) -> &str {
    match id.rsplit_once('~') {
        Some((base, generation)) if generation.parse::<u32>().is_ok() => base,
        Some(_) | None => id,
    }
}

/// The hash under which an older id is remembered.
#[must_use]
pub fn id_hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
