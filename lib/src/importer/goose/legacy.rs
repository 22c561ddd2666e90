//! The files of JSON lines in which goose kept sessions before it had a database: facts in the first line, then one message
//! in each.

use std::fs::File;
use std::io;
use std::path::Path;

use rethread_core::TitleSource;
use serde_json::Value;

use super::rows::{GooseNode, time};
use super::telling::GooseTelling;
use super::title;
use crate::clock;
use crate::importer::files;
use crate::importer::lines::{LineEnd, SourceLine, SourceLines};
use crate::importer::reader::ReadError;
use crate::importer::sink::{SessionFacts, Sink};

/// What stands for the version in reports.
const VERSION: &str = "jsonl";

/// Reads a file.
pub(super) fn read(path: &Path, sink: &mut Sink) -> Result<(), ReadError> {
    let failed = || ReadError::io(path);
    let (file, metadata) = files::open(path).map_err(failed())?;
    let modified = metadata.modified().ok().map(files::millis);
    let mut lines = SourceLines::new(file);
    let first = next(&mut lines).map_err(failed())?;
    let second = next(&mut lines).map_err(failed())?;
    // These lines are read again below: files without facts begin with a message.
    let (file, _) = files::open(path).map_err(failed())?;
    let mut facts = facts(path, &first);
    facts.created = facts.created.or_else(|| second["created"].as_u64().and_then(time));
    facts.updated = facts.updated.or(modified);
    sink.begin(facts)?;
    let mut lines = SourceLines::new(file);
    let mut telling = GooseTelling::new(sink, path, VERSION);
    while let Some((place, line)) = lines.next_line().map_err(failed())? {
        let record = match line {
            SourceLine::Text(text, end) => match serde_json::from_str::<Value>(text) {
                Ok(record) => Ok(record),
                // It is being written: the next import has it.
                Err(_) if end == LineEnd::Missing => continue,
                Err(error) => Err(format!("it is not JSON: {error}")),
            },
            SourceLine::Damaged(reason) => Err(reason.to_owned()),
        };
        match record {
            Ok(record) if record["role"].is_string() => telling.line(place.line, &record)?,
            Ok(_) if place.line == 1 => {}
            Ok(_) => telling.damaged(place.line, "it is no message"),
            Err(reason) => telling.damaged(place.line, &reason),
        }
    }
    telling.finish()
}

/// The next line; nothing if it cannot be read.
fn next(lines: &mut SourceLines<File>) -> io::Result<Value> {
    Ok(match lines.next_line()? {
        Some((_, SourceLine::Text(text, _))) => serde_json::from_str::<Value>(text).unwrap_or_default(),
        Some((_, SourceLine::Damaged(_))) | None => Value::Null,
    })
}

impl GooseTelling<'_> {
    fn line(&mut self, line: u64, record: &Value) -> Result<(), ReadError> {
        let metadata = serde_json::from_value(record["metadata"].clone()).unwrap_or_default();
        let node = GooseNode {
            row: line,
            id: record["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned),
            role: record["role"].as_str().unwrap_or_default().to_owned(),
            at: record["created"].as_u64().and_then(time),
            metadata,
        };
        if node.is_shown() { self.message(&node, &record["content"]) } else { Ok(()) }
    }
}

fn facts(path: &Path, first: &Value) -> SessionFacts {
    let at = |name: &str| first[name].as_str().and_then(clock::from_rfc3339);
    SessionFacts {
        native: files::stem(path).to_owned(),
        cwd: first["working_dir"].as_str().unwrap_or_default().to_owned(),
        title: first["description"].as_str().and_then(|words| title(words, TitleSource::Agent)),
        created: at("created_at").or_else(|| first["created"].as_u64().and_then(time)),
        updated: at("updated_at"),
        archived: None,
    }
}
