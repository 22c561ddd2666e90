//! A Gemini conversation that can be read twice: a file of JSON lines, or in old versions one JSON object, which is kept.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rethread_core::RawMembers;
use serde_json::Value;

use super::fold::{GeminiFold, GeminiPlace};
use crate::importer::files;
use crate::importer::lines::{LinePlace, SourceLine, SourceLines, for_each_record};
use crate::importer::reader::ReadError;
use crate::importer::sink::Sink;

/// The largest file with one object.
const MAX_OBJECT_BYTES: u64 = 64 * 1024 * 1024;

/// A conversation that was folded.
pub(in crate::importer) struct GeminiConversation {
    pub(super) fold: GeminiFold,
    content: ConversationContent,
    /// The lines that were read last, for messages and for calls.
    read: [Option<(LinePlace, Value)>; 2],
}

enum ConversationContent {
    Lines(Box<SourceLines<File>>),
    Object,
}

/// What a line is read for: each has a memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadFor {
    Message,
    Call,
}

impl GeminiConversation {
    /// Folds a file.
    pub(in crate::importer) fn read(path: &Path, sink: &mut Sink) -> Result<Self, ReadError> {
        match files::has_ending(path, ".json") {
            true => Self::object(path, sink),
            false => Self::lines(path, sink),
        }
    }

    fn lines(path: &Path, sink: &mut Sink) -> Result<Self, ReadError> {
        let failed = || ReadError::io(path);
        let (file, _) = files::open(path).map_err(failed())?;
        let mut lines = SourceLines::new(file);
        let mut fold = GeminiFold::default();
        let each = |record: &RawMembers<'_>, place, sink: &mut Sink| fold.record(record, place, path, sink);
        for_each_record(path, &mut lines, sink, each).map_err(failed())?;
        Ok(Self { fold, content: ConversationContent::Lines(Box::new(lines)), read: [None, None] })
    }

    fn object(path: &Path, sink: &mut Sink) -> Result<Self, ReadError> {
        let (file, metadata) = files::open(path).map_err(ReadError::io(path))?;
        let refused = |reason: String| ReadError::Format { path: path.to_owned(), reason };
        if metadata.len() > MAX_OBJECT_BYTES {
            return Err(refused(format!("is larger than {} MB", MAX_OBJECT_BYTES >> 20)));
        }
        let mut text = String::new();
        file.take(MAX_OBJECT_BYTES).read_to_string(&mut text).map_err(ReadError::io(path))?;
        let mut fold = GeminiFold::default();
        let record = serde_json::from_str::<RawMembers<'_>>(&text);
        let record = record.map_err(|error| refused(format!("is not a JSON object: {error}")))?;
        fold.record(&record, LinePlace::default(), path, sink);
        let value = serde_json::from_str(&text).map_err(|error| refused(format!("is damaged: {error}")))?;
        let read = [Some((LinePlace::default(), value)), None];
        Ok(Self { fold, content: ConversationContent::Object, read })
    }

    /// Reads a message again; nothing if the file has changed meanwhile.
    pub(super) fn message(
        &mut self,
        place: GeminiPlace,
        read_for: ReadFor,
    ) -> Result<Option<&Value>, std::io::Error> {
        let slot = match (&mut self.content, read_for) {
            (ConversationContent::Object, _) => 0,
            (ConversationContent::Lines(lines), read_for) => {
                let slot = usize::from(read_for == ReadFor::Call);
                if self.read[slot].as_ref().is_none_or(|(line, _)| *line != place.line) {
                    self.read[slot] = read_line(lines, place.line)?;
                }
                slot
            }
        };
        let record = self.read[slot].as_ref().map(|(_, record)| record);
        Ok(record.map(|record| match place.index {
            Some(index) if record["$set"]["messages"].is_array() => &record["$set"]["messages"][index],
            Some(index) => &record["messages"][index],
            None => record,
        }))
    }
}

fn read_line(
    lines: &mut SourceLines<File>,
    place: LinePlace,
) -> Result<Option<(LinePlace, Value)>, std::io::Error> {
    lines.go_to(place)?;
    Ok(match lines.next_line()? {
        Some((_, SourceLine::Text(text, _))) => serde_json::from_str(text).ok().map(|record| (place, record)),
        Some((_, SourceLine::Damaged(_))) | None => None,
    })
}
