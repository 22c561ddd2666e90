//! The first reading of a Claude file: one small node for each record of the conversation tree, without its content, and
//! what the other records say of the session as a whole. A file may have millions of records: a node has no allocation of
//! its own, and what belongs to nodes is found in sorted lists.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

use rethread_core::{Millis, RawMembers};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::known;
use super::subagents::prompt_key;
use crate::clock;
use crate::importer::lines::{LinePlace, SourceLines, for_each_record};
use crate::importer::sink::Sink;

/// The hash of a uuid, a message id or the id of a tool call.
pub(super) type Key = NonZeroU64;

/// The number of a node, in the order of the file.
pub(super) type NodeNumber = u32;

/// A record of the tree.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: LinePlace,
    pub(super) key: Key,
    pub(super) parent: Option<Key>,
    pub(super) kind: NodeKind,
    pub(super) at: Option<Millis>,
    /// Part of a sub-agent's conversation.
    pub(super) sidechain: bool,
    /// Written by the tool and not by a person.
    pub(super) meta: bool,
    /// Of another member of a team, or of another sort that is never a leaf.
    pub(super) foreign: bool,
    /// The id of the API message that an assistant record is a part of.
    pub(super) message: Option<Key>,
    /// Replaced by a later record with the same uuid, or taken back.
    pub(super) gone: bool,
}

/// The sorts of record that form the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    User,
    Assistant,
    System,
    Attachment,
    Progress,
}

/// A compaction: what follows goes on from a summary and some messages that were kept.
#[derive(Debug)]
pub(super) struct Boundary {
    pub(super) key: Key,
    /// Where the conversation before it ended.
    pub(super) before: Option<Key>,
    pub(super) kept: Kept,
}

/// The messages that a compaction kept.
#[derive(Debug, Default)]
pub(super) enum Kept {
    #[default]
    Nothing,
    /// These, behind the anchor.
    Messages { anchor: Key, keys: Vec<Key> },
    /// Those from head to tail, behind the anchor.
    Segment { head: Key, anchor: Key, tail: Key },
}

/// What a file has.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) nodes: Vec<Node>,
    /// The nodes sorted by their keys; those with the same key in the order of the file.
    by_key: Vec<NodeNumber>,
    /// The tool calls that assistant records make, in the order of the file.
    pub(super) calls: Vec<(NodeNumber, Key)>,
    /// The tool calls whose results user records have, in the order of the file.
    pub(super) results: Vec<(Key, NodeNumber)>,
    /// The hashes of what user records of sub-agents say.
    pub(super) prompts: HashMap<NodeNumber, Key>,
    pub(super) boundaries: Vec<Boundary>,
    pub(super) session: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) custom_title: Option<String>,
    /// The title in a file of its own.
    pub(super) sidecar_title: Option<String>,
    pub(super) generated_title: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) first_at: Option<Millis>,
    pub(super) version: String,
    /// The sub-agents that results of calls name.
    pub(super) started: HashMap<Key, String>,
    retracted: HashSet<Key>,
}

/// The hash of an id.
pub(super) fn key(id: &str) -> Key {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    Key::new(hasher.finish()).unwrap_or(Key::MIN)
}

/// Reads a file once.
pub(super) fn index(path: &Path, lines: &mut SourceLines<File>, sink: &mut Sink) -> io::Result<Index> {
    let mut index = Index::default();
    for_each_record(path, lines, sink, |record, place, sink| index.record(record, place, sink))?;
    index.sort();
    Ok(index)
}

impl Index {
    /// The last node with a key.
    pub(super) fn find(&self, key: Key) -> Option<NodeNumber> {
        let behind = self.by_key.partition_point(|number| self.node(*number).key <= key);
        let number = *self.by_key.get(behind.checked_sub(1)?)?;
        (self.node(number).key == key).then_some(number)
    }

    /// The node with a number that this index gave.
    pub(super) fn node(&self, number: NodeNumber) -> &Node {
        &self.nodes[number as usize]
    }

    /// The nodes with their numbers, in the order of the file.
    pub(super) fn numbered(&self) -> impl DoubleEndedIterator<Item = (NodeNumber, &Node)> {
        (0..number_of(self.nodes.len())).zip(&self.nodes)
    }

    /// Makes the nodes findable by their keys, and marks those that are replaced or taken back.
    fn sort(&mut self) {
        let nodes = &mut self.nodes;
        self.by_key = (0..number_of(nodes.len())).collect();
        self.by_key.sort_unstable_by_key(|number| (nodes[*number as usize].key, *number));
        for pair in self.by_key.windows(2) {
            if nodes[pair[0] as usize].key == nodes[pair[1] as usize].key {
                nodes[pair[0] as usize].gone = true;
            }
        }
        for node in nodes {
            node.gone |= self.retracted.contains(&node.key);
        }
    }

    fn record(&mut self, record: &RawMembers<'_>, place: LinePlace, sink: &mut Sink) {
        if let Some(version) = record.text("version").filter(|version| !version.is_empty()) {
            self.version = version.into_owned();
        }
        let kind = record.text("type").unwrap_or_default();
        known::count_unknown(&kind, record, &self.version, sink);
        let node = match &*kind {
            "user" => Some(NodeKind::User),
            "assistant" => Some(NodeKind::Assistant),
            "system" => Some(NodeKind::System),
            "attachment" => Some(NodeKind::Attachment),
            "progress" => Some(NodeKind::Progress),
            _ => None,
        };
        match node {
            Some(node) => self.add_node(node, record, place),
            None => self.fact(&kind, record),
        }
    }

    /// Takes in a record that is not part of the tree.
    fn fact(&mut self, kind: &str, record: &RawMembers<'_>) {
        let text =
            |name: &str| record.text(name).map(|text| text.into_owned()).filter(|text| !text.is_empty());
        let (place, value) = match kind {
            "custom-title" => (&mut self.custom_title, text("customTitle")),
            "ai-title" => (&mut self.generated_title, text("aiTitle")),
            "summary" => (&mut self.summary, text("summary")),
            "relocated" => (&mut self.cwd, text("relocatedCwd")),
            _ => return,
        };
        if value.is_some() {
            *place = value;
        }
    }

    fn add_node(&mut self, kind: NodeKind, record: &RawMembers<'_>, place: LinePlace) {
        let Some(uuid) = record.text("uuid") else { return };
        let at = record.text("timestamp").and_then(|at| clock::from_rfc3339(&at));
        self.first_at = self.first_at.or(at);
        if self.cwd.is_none() {
            self.cwd = record.text("cwd").map(|cwd| cwd.into_owned());
        }
        if self.session.is_none() {
            self.session = record.text("sessionId").map(|id| id.into_owned());
        }
        let key = key(&uuid);
        let number = number_of(self.nodes.len());
        let message = record.get("message").map(RawMembers::of).unwrap_or_default();
        let node = Node::new(kind, key, record, &message, place, at);
        self.take_back(record);
        self.note_blocks(number, record, message.get("content"));
        if kind == NodeKind::User && node.sidechain {
            self.prompts.extend(prompt_key(record).map(|prompt| (number, prompt)));
        }
        self.boundaries.extend(boundary(key, record));
        self.nodes.push(node);
    }

    /// Notes the tool calls and the results that a record has, and the sub-agent that its first result names.
    fn note_blocks(&mut self, number: NodeNumber, record: &RawMembers<'_>, content: Option<&RawValue>) {
        let first = self.results.len();
        for block in blocks(content) {
            match (block.kind.as_str(), &block.id, &block.tool_use_id) {
                ("tool_use", Some(call), _) => self.calls.push((number, key(call))),
                ("tool_result", _, Some(call)) => self.results.push((key(call), number)),
                _ => {}
            }
        }
        let result = record.get("toolUseResult").filter(|result| result.get().contains("\"agentId\""));
        let agent =
            result.and_then(|result| RawMembers::of(result).text("agentId").map(|id| id.into_owned()));
        if let Some(((call, _), agent)) = self.results.get(first).zip(agent) {
            self.started.insert(*call, agent);
        }
    }

    /// Notes the records that this one replaces or takes back.
    fn take_back(&mut self, record: &RawMembers<'_>) {
        for name in ["supersedesUuids", "retractedMessageUuids"] {
            let list = record.get(name).and_then(|list| serde_json::from_str::<Vec<String>>(list.get()).ok());
            self.retracted.extend(list.unwrap_or_default().iter().map(|uuid| self::key(uuid)));
        }
    }
}

impl Node {
    fn new(
        kind: NodeKind,
        key: Key,
        record: &RawMembers<'_>,
        message: &RawMembers<'_>,
        place: LinePlace,
        at: Option<Millis>,
    ) -> Self {
        let is = |name: &str| record.get(name).is_some_and(|value| value.get() == "true");
        let attachment = record.get("attachment").map(RawMembers::of).unwrap_or_default();
        Self {
            place,
            key,
            parent: record.text("parentUuid").map(|id| self::key(&id)),
            kind,
            at,
            sidechain: is("isSidechain"),
            meta: is("isMeta"),
            foreign: record.text("teamName").is_some()
                || kind == NodeKind::Progress
                || attachment.text("type").as_deref() == Some("fork_briefing"),
            message: message.text("id").map(|id| self::key(&id)),
            gone: false,
        }
    }

    pub(super) fn is_message(&self) -> bool {
        matches!(self.kind, NodeKind::User | NodeKind::Assistant)
    }
}

/// The number of the node at a place.
fn number_of(place: usize) -> NodeNumber {
    NodeNumber::try_from(place).expect("no file has four thousand million records")
}

/// What tells a content block apart.
#[derive(Deserialize)]
struct BlockHead {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    tool_use_id: Option<String>,
}

fn blocks(content: Option<&RawValue>) -> Vec<BlockHead> {
    let list = content.filter(|content| content.get().starts_with('['));
    list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompactMetadata {
    preserved_messages: Option<PreservedMessages>,
    preserved_segment: Option<PreservedSegment>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreservedMessages {
    anchor_uuid: String,
    uuids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreservedSegment {
    head_uuid: String,
    anchor_uuid: String,
    tail_uuid: String,
}

fn boundary(own: Key, record: &RawMembers<'_>) -> Option<Boundary> {
    record.text("subtype").filter(|subtype| subtype == "compact_boundary")?;
    let metadata = record.get("compactMetadata");
    let metadata = metadata.and_then(|found| serde_json::from_str::<CompactMetadata>(found.get()).ok());
    let kept = match metadata {
        Some(CompactMetadata { preserved_messages: Some(kept), .. }) => Kept::Messages {
            anchor: key(&kept.anchor_uuid),
            keys: kept.uuids.iter().map(|uuid| key(uuid)).collect(),
        },
        Some(CompactMetadata { preserved_segment: Some(kept), .. }) => Kept::Segment {
            head: key(&kept.head_uuid),
            anchor: key(&kept.anchor_uuid),
            tail: key(&kept.tail_uuid),
        },
        Some(CompactMetadata { preserved_messages: None, preserved_segment: None }) | None => Kept::Nothing,
    };
    let before = record.text("logicalParentUuid").map(|uuid| key(&uuid));
    Some(Boundary { key: own, before, kept })
}
