//! What of a session is told: its messages without those that are undone, and the sub-agents that it started, each with
//! how far it has been told.

use std::collections::HashSet;

use rethread_core::Millis;

use super::rows::{OpencodeDatabase, OpencodeNode, OpencodeSession};
use crate::importer::reader::ReadError;

/// How deep sub-agents may be in each other.
const MAX_DEPTH: usize = 8;

/// The conversation of a session, or of a sub-agent.
pub(super) struct OpencodeConversation {
    pub(super) session: String,
    pub(super) title: String,
    pub(super) created: Option<Millis>,
    pub(super) speaker: ConversationSpeaker,
    pub(super) children: Vec<OpencodeConversation>,
    /// A compaction whose summary has not come yet.
    pub(super) compaction: Option<PendingCompaction>,
    nodes: Vec<OpencodeNode>,
    next: usize,
    /// The message of which only some parts stay, and the first part that is undone.
    cut: Option<(String, String)>,
}

/// Who speaks in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConversationSpeaker {
    /// The user and the agent.
    Main,
    /// A sub-agent that was not announced yet.
    NewSubagent,
    /// A sub-agent.
    Subagent,
}

/// A compaction that was asked for.
pub(super) struct PendingCompaction {
    pub(super) id: String,
    pub(super) at: Option<Millis>,
}

impl OpencodeConversation {
    /// Finds what a session and its sub-agents have.
    pub(super) fn load(database: &OpencodeDatabase, session: &OpencodeSession) -> Result<Self, ReadError> {
        let mut seen = HashSet::from([session.id.clone()]);
        Self::load_below(database, session, ConversationSpeaker::Main, &mut seen, 0)
    }

    fn load_below(
        database: &OpencodeDatabase,
        session: &OpencodeSession,
        speaker: ConversationSpeaker,
        seen: &mut HashSet<String>,
        depth: usize,
    ) -> Result<Self, ReadError> {
        let mut children = Vec::new();
        let found = if depth < MAX_DEPTH { database.children(&session.id)? } else { Vec::new() };
        for child in found {
            if seen.insert(child.id.clone()) {
                let speaker = ConversationSpeaker::NewSubagent;
                children.push(Self::load_below(database, &child, speaker, seen, depth + 1)?);
            }
        }
        let mut nodes = database.messages(&session.id)?;
        let cut = undo(&mut nodes, session);
        Ok(Self {
            session: session.id.clone(),
            title: session.title.clone(),
            created: session.created,
            speaker,
            children,
            compaction: None,
            nodes,
            next: 0,
            cut,
        })
    }

    /// Says whether there are no messages.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The next message that is not later than a time, if one is given.
    pub(super) fn due(&mut self, until: Option<Millis>) -> Option<OpencodeNode> {
        let node = self.nodes.get(self.next)?;
        if until.is_some_and(|until| node.at.is_some_and(|at| at > until)) {
            return None;
        }
        self.next += 1;
        Some(node.clone())
    }

    /// Says whether a part of a message is undone.
    pub(super) fn is_undone(&self, message: &str, part: &str) -> bool {
        // The ids of parts ascend.
        self.cut.as_ref().is_some_and(|(cut, first)| cut == message && part >= first.as_str())
    }
}

/// Removes the messages that are undone. Returns the message of which some parts are.
fn undo(nodes: &mut Vec<OpencodeNode>, session: &OpencodeSession) -> Option<(String, String)> {
    let revert = session.revert.as_ref()?;
    let place = nodes.iter().position(|node| node.id == revert.message)?;
    match &revert.part {
        Some(part) => {
            nodes.truncate(place + 1);
            Some((revert.message.clone(), part.clone()))
        }
        None => {
            nodes.truncate(place);
            None
        }
    }
}
