//! The first reading of a Gemini file: folds its records to the list of messages and calls that are there in the end, each
//! with the place where it was written last. Content is not kept.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use rethread_core::{Millis, RawMembers};
use serde_json::value::RawValue;

use super::known;
use crate::clock;
use crate::importer::lines::LinePlace;
use crate::importer::sink::Sink;

/// The hash of the id of a message or a call.
pub(in crate::importer) type GeminiKey = u64;

/// Where a message is: in a line, or in the list that a line has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::importer) struct GeminiPlace {
    pub(super) line: LinePlace,
    pub(super) index: Option<usize>,
}

/// Something that is told.
#[derive(Clone, Copy, Debug)]
pub(in crate::importer) struct GeminiPiece {
    key: GeminiKey,
    pub(super) what: GeminiPieceKind,
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::importer) enum GeminiPieceKind {
    /// A message without its calls.
    Message(GeminiPlace),
    /// A call. Its message may be much older: later calls are added to it.
    Call(GeminiKey),
}

/// What a file has.
#[derive(Debug, Default)]
pub(in crate::importer) struct GeminiFold {
    pub(super) pieces: Vec<GeminiPiece>,
    /// Where a call was written last. This is kept when messages are written again without it.
    pub(super) calls: HashMap<GeminiKey, GeminiPlace>,
    pub(super) session: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) project: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) started: Option<Millis>,
    pub(super) updated: Option<Millis>,
    told: HashSet<GeminiKey>,
}

/// The hash of an id.
pub(in crate::importer) fn key(id: &str) -> GeminiKey {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl GeminiFold {
    /// Folds a record in.
    pub(super) fn record(&mut self, record: &RawMembers<'_>, line: LinePlace, path: &Path, sink: &mut Sink) {
        if let Some(id) = record.text("$rewindTo") {
            return self.rewind(key(&id));
        }
        if record.get("id").is_some() && record.get("type").is_some() {
            return self.message(record, GeminiPlace { line, index: None }, sink);
        }
        if let Some(set) = record.get("$set") {
            let set = RawMembers::of(set);
            if set.get("messages").is_some_and(|list| list.get().starts_with('[')) {
                // All of it is written again.
                self.pieces.clear();
                self.told.clear();
            }
            return self.facts(&set, line, sink);
        }
        if record.get("sessionId").is_some() {
            return self.facts(record, line, sink);
        }
        match record.iter().next() {
            Some((name, _)) if name.starts_with('$') => sink.drift(known::VERSION, &format!("record {name}")),
            Some(_) => sink.damaged(path, line.line, "it is no record of Gemini CLI"),
            None => {}
        }
    }

    /// What is known of the session, perhaps with messages.
    fn facts(&mut self, facts: &RawMembers<'_>, line: LinePlace, sink: &mut Sink) {
        known::count_unknown("session", facts, sink);
        let text =
            |name: &str| facts.text(name).map(|text| text.into_owned()).filter(|text| !text.is_empty());
        let time = |name: &str| facts.text(name).and_then(|at| clock::from_rfc3339(&at));
        for (place, name) in [
            (&mut self.session, "sessionId"),
            (&mut self.kind, "kind"),
            (&mut self.summary, "summary"),
            (&mut self.project, "projectHash"),
        ] {
            *place = text(name).or_else(|| place.take());
        }
        self.started = self.started.or(time("startTime"));
        self.updated = self.updated.max(time("lastUpdated"));
        let directories: Option<Vec<String>> =
            facts.get("directories").and_then(|list| serde_json::from_str(list.get()).ok());
        self.directory = self.directory.take().or_else(|| directories.unwrap_or_default().into_iter().next());
        let messages =
            facts.get("messages").and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list.get()).ok());
        for (index, message) in messages.unwrap_or_default().into_iter().enumerate() {
            self.message(&RawMembers::of(message), GeminiPlace { line, index: Some(index) }, sink);
        }
    }

    fn message(&mut self, message: &RawMembers<'_>, place: GeminiPlace, sink: &mut Sink) {
        let Some(id) = message.text("id") else { return };
        let kind = message.text("type").unwrap_or_default();
        known::count_message(&kind, message, sink);
        self.updated = self.updated.max(message.text("timestamp").and_then(|at| clock::from_rfc3339(&at)));
        let key = key(&id);
        let what = GeminiPieceKind::Message(place);
        let is_same =
            |piece: &&mut GeminiPiece| piece.key == key && matches!(piece.what, GeminiPieceKind::Message(_));
        match self.told.insert(key) {
            true => self.pieces.push(GeminiPiece { key, what }),
            // It is most often the last one.
            false => {
                if let Some(piece) = self.pieces.iter_mut().rev().find(is_same) {
                    piece.what = what;
                }
            }
        }
        let calls = message
            .get("toolCalls")
            .and_then(|list| serde_json::from_str::<Vec<RawMembers<'_>>>(list.get()).ok());
        for call in calls.unwrap_or_default() {
            let Some(id) = call.text("id") else { continue };
            let key = self::key(&id);
            self.calls.insert(key, place);
            if self.told.insert(key) {
                self.pieces.push(GeminiPiece { key, what: GeminiPieceKind::Call(key) });
            }
        }
    }

    /// Takes a message back, and all behind it. One that is not known takes all back.
    fn rewind(&mut self, key: GeminiKey) {
        let place = self.pieces.iter().position(|piece| piece.key == key).unwrap_or(0);
        for piece in self.pieces.drain(place..) {
            self.told.remove(&piece.key);
        }
    }
}
