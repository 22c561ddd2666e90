//! The first reading of a Qwen file: one small node for each record, without its content; the conversation is the way
//! from the last record to the first. What was rewound is off that way.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use rethread_core::{Millis, RawMembers, TitleSource};

use super::known;
use crate::clock;
use crate::importer::lines::{LinePlace, SourceLines, for_each_record};
use crate::importer::sink::Sink;

/// The hash of a uuid.
type QwenKey = u64;

/// A record, which may be written in several parts.
#[derive(Debug)]
struct QwenNode {
    places: Vec<LinePlace>,
    parent: Option<QwenKey>,
}

/// What a file has.
#[derive(Debug, Default)]
pub(super) struct QwenIndex {
    nodes: HashMap<QwenKey, QwenNode>,
    last: Option<QwenKey>,
    pub(super) session: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) title: Option<(String, TitleSource)>,
    pub(super) first_at: Option<Millis>,
    pub(super) last_at: Option<Millis>,
    pub(super) version: String,
}

/// Reads a file once.
pub(super) fn index(
    path: &Path,
    lines: &mut SourceLines<File>,
    sink: &mut Sink,
) -> std::io::Result<QwenIndex> {
    let mut index = QwenIndex::default();
    for_each_record(path, lines, sink, |record, place, sink| index.record(record, place, sink))?;
    Ok(index)
}

impl QwenIndex {
    /// The places of the conversation in order, and the first record whose parent is missing, if one is.
    pub(super) fn conversation(&self) -> (Vec<LinePlace>, Option<LinePlace>) {
        let mut way = Vec::new();
        let mut seen = HashSet::new();
        let mut next = self.last;
        let mut broken = None;
        while let Some(key) = next.filter(|key| seen.insert(*key)) {
            let Some(node) = self.nodes.get(&key) else {
                broken = way.last().and_then(|node: &&QwenNode| node.places.first().copied());
                break;
            };
            way.push(node);
            next = node.parent;
        }
        (way.into_iter().rev().flat_map(|node| node.places.iter().copied()).collect(), broken)
    }

    fn record(&mut self, record: &RawMembers<'_>, place: LinePlace, sink: &mut Sink) {
        let text =
            |name: &str| record.text(name).map(|text| text.into_owned()).filter(|text| !text.is_empty());
        if let Some(version) = text("version") {
            self.version = version;
        }
        known::count_unknown(record, &self.version, sink);
        let at = record.text("timestamp").and_then(|at| clock::from_rfc3339(&at));
        self.first_at = self.first_at.or(at);
        self.last_at = self.last_at.max(at);
        self.cwd = self.cwd.take().or_else(|| text("cwd"));
        self.session = self.session.take().or_else(|| text("sessionId"));
        if record.text("subtype").as_deref() == Some("custom_title") {
            self.titled(record);
        }
        let Some(uuid) = text("uuid") else { return };
        let key = key(&uuid);
        let parent = text("parentUuid").map(|parent| self::key(&parent));
        self.nodes.entry(key).or_insert_with(|| QwenNode { places: Vec::new(), parent }).places.push(place);
        self.last = Some(key);
    }

    fn titled(&mut self, record: &RawMembers<'_>) {
        let payload = record.get("systemPayload").map(RawMembers::of).unwrap_or_default();
        let by = match payload.text("titleSource").as_deref() {
            Some("auto") => TitleSource::Agent,
            Some(_) | None => TitleSource::User,
        };
        if let Some(title) = payload.text("customTitle") {
            self.title = Some((title.into_owned(), by));
        }
    }
}

fn key(id: &str) -> QwenKey {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
