//! The records of one thread in order, out of the files that have them: first what comes before a fork or a revert, then
//! its own file. Records that are undone are left out.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use rethread_core::{Millis, RawMembers};
use serde_json::Value;

use super::index::{self, ThreadIndex};
use super::rollout::{self, HistoryBase, RolloutHead};
use super::telling::{CodexEvent, CodexSpeaker, CodexTelling};
use crate::clock;
use crate::importer::lines::{LineEnd, SourceLine, SourceLines};
use crate::importer::reader::ReadError;
use crate::importer::sink::{Sink, SinkClosed};
use crate::importer::updates;

/// A file, or the beginning of one.
#[derive(Clone, Debug)]
pub(super) struct RolloutSegment {
    pub(super) path: PathBuf,
    end: Option<HistoryBase>,
}

/// A line of a thread.
pub(super) struct ThreadLine<'a> {
    pub(super) path: &'a Path,
    /// Its number in its file.
    pub(super) line: u64,
    /// Its number in the thread, from 1.
    pub(super) number: u64,
    pub(super) text: SourceLine<'a>,
}

/// Reads the lines of all files of a thread.
pub(super) struct ThreadLines {
    /// The files that are still to be read, the next one last.
    waiting: Vec<RolloutSegment>,
    current: Option<(RolloutSegment, SourceLines<Box<dyn Read>>)>,
    number: u64,
}

impl ThreadLines {
    pub(super) fn new(segments: &[RolloutSegment]) -> Self {
        Self { waiting: segments.iter().rev().cloned().collect(), current: None, number: 0 }
    }

    /// Gives the next line to a function; nothing at the end.
    pub(super) fn next<T>(&mut self, read: impl FnOnce(ThreadLine<'_>) -> T) -> Result<Option<T>, ReadError> {
        loop {
            let Some((segment, lines)) = &mut self.current else {
                let Some(segment) = self.waiting.pop() else { return Ok(None) };
                let input = rollout::open(&segment.path).map_err(ReadError::io(&segment.path))?;
                self.current = Some((segment, SourceLines::new(input)));
                continue;
            };
            let next = lines.next_line().map_err(ReadError::io(&segment.path))?;
            let Some((place, text)) = next.filter(|(place, text)| !is_behind(segment, place.offset, text))
            else {
                self.current = None;
                continue;
            };
            self.number += 1;
            let (path, number) = (segment.path.as_path(), self.number);
            return Ok(Some(read(ThreadLine { path, line: place.line, number, text })));
        }
    }
}

/// Says whether a line is behind the end of what is taken from a file.
fn is_behind(segment: &RolloutSegment, offset: u64, text: &SourceLine<'_>) -> bool {
    let Some(end) = &segment.end else { return false };
    let SourceLine::Text(text, _) = text else { return false };
    let ordinal = serde_json::from_str::<RawMembers<'_>>(text).ok().and_then(|record| ordinal(&record));
    ordinal.map_or(offset >= end.end_byte_offset, |ordinal| ordinal >= end.end_ordinal_exclusive)
}

/// The number that Codex gives to a record of a thread.
pub(super) fn ordinal(record: &RawMembers<'_>) -> Option<u64> {
    record.get("ordinal")?.get().parse().ok()
}

/// A record that is to be told.
#[derive(Debug)]
pub(super) struct CodexRecord {
    pub(super) number: u64,
    pub(super) at: Option<Millis>,
    pub(super) kind: String,
    pub(super) payload: Value,
}

/// Reads a thread and tells it.
pub(super) struct ThreadReader {
    head: RolloutHead,
    index: ThreadIndex,
    lines: ThreadLines,
    telling: CodexTelling,
    ahead: LookedAhead,
    last_at: Millis,
    /// The id by which a sub-agent is told.
    child: Option<String>,
}

/// What comes next.
#[derive(Debug)]
enum LookedAhead {
    Unknown,
    Record(CodexRecord),
    End,
}

impl ThreadReader {
    /// Reads a thread once to know what is undone in it.
    pub(super) fn new(
        path: &Path,
        head: RolloutHead,
        parts: &[(PathBuf, RolloutHead)],
        speaker: CodexSpeaker,
        sink: &mut Sink,
    ) -> Result<Self, ReadError> {
        let segments = lineage(path, &head, parts, sink);
        let index = index::index(&mut ThreadLines::new(&segments), &head, sink)?;
        let child = match &speaker {
            CodexSpeaker::Main => None,
            CodexSpeaker::Child(id) => Some(id.clone()),
        };
        let telling = CodexTelling::new(index.items_until, speaker);
        let (lines, last_at) = (ThreadLines::new(&segments), head.created.unwrap_or(0));
        Ok(Self { head, index, lines, telling, ahead: LookedAhead::Unknown, last_at, child })
    }

    pub(super) fn head(&self) -> &RolloutHead {
        &self.head
    }

    pub(super) fn index(&self) -> &ThreadIndex {
        &self.index
    }

    /// Says whether the last turn has no end.
    pub(super) fn is_unfinished(&self) -> bool {
        self.telling.is_unfinished()
    }

    /// Finds what comes next, and when that was; nothing at the end.
    pub(super) fn look_ahead(&mut self) -> Result<Option<Millis>, ReadError> {
        if matches!(self.ahead, LookedAhead::Unknown) {
            self.ahead = self.read()?.map_or(LookedAhead::End, LookedAhead::Record);
        }
        Ok(match &self.ahead {
            LookedAhead::Record(record) => Some(record.at.unwrap_or(self.last_at)),
            LookedAhead::Unknown | LookedAhead::End => None,
        })
    }

    /// Tells what comes next.
    pub(super) fn tell(&mut self, sink: &mut Sink) -> Result<(), SinkClosed> {
        let LookedAhead::Record(record) = std::mem::replace(&mut self.ahead, LookedAhead::Unknown) else {
            return Ok(());
        };
        self.last_at = record.at.unwrap_or(self.last_at);
        let at = record.at;
        for event in self.telling.record(record) {
            match &self.child {
                Some(child) => of_child(child, &self.head.nickname, event, at, sink)?,
                None => of_main(event, at, sink)?,
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<CodexRecord>, ReadError> {
        let (index, own_from) = (&self.index, self.head.own_from);
        loop {
            let read =
                self.lines.next(|line| record(&line, own_from).filter(|_| !index.is_undone(line.number)))?;
            match read {
                Some(Some(record)) => return Ok(Some(record)),
                Some(None) => {}
                None => return Ok(None),
            }
        }
    }
}

fn of_main(event: CodexEvent, at: Option<Millis>, sink: &mut Sink) -> Result<(), SinkClosed> {
    match event {
        CodexEvent::Update(update) => sink.update(update, at),
        CodexEvent::Model(name) => sink.model(&name),
        CodexEvent::Tokens(tokens) => sink.tokens(tokens),
        CodexEvent::TurnBegun => Ok(()),
        CodexEvent::TurnEnded(stop) => sink.end_turn(stop, at),
    }
}

fn of_child(
    child: &str,
    nickname: &str,
    event: CodexEvent,
    at: Option<Millis>,
    sink: &mut Sink,
) -> Result<(), SinkClosed> {
    let name = if nickname.is_empty() { "Sub-agent" } else { nickname };
    match event {
        CodexEvent::Update(update) => sink.update(updates::of_subagent(child, update), at),
        CodexEvent::TurnBegun => sink.update(updates::subagent(child, name, "running"), at),
        CodexEvent::TurnEnded(_) => sink.update(updates::subagent(child, name, "idle"), at),
        CodexEvent::Model(_) | CodexEvent::Tokens(_) => Ok(()),
    }
}

/// The files of a thread, the oldest first.
fn lineage(
    path: &Path,
    head: &RolloutHead,
    parts: &[(PathBuf, RolloutHead)],
    sink: &mut Sink,
) -> Vec<RolloutSegment> {
    let mut segments = vec![RolloutSegment { path: path.to_owned(), end: None }];
    let mut seen = HashSet::from([head.rollout.as_str()]);
    let mut next = head.base.as_ref();
    while let Some(base) = next {
        let part = parts.iter().find(|(_, head)| head.rollout == base.rollout);
        let Some((path, head)) = part.filter(|(_, head)| seen.insert(&head.rollout)) else {
            let reason = format!("the rollout {} that it goes on from is not here", base.rollout);
            sink.damaged(path, 1, reason);
            break;
        };
        segments.push(RolloutSegment { path: path.clone(), end: Some(base.clone()) });
        next = head.base.as_ref();
    }
    segments.reverse();
    segments
}

/// Reads a line as a record; nothing if it is damaged or a copy of the parent's.
fn record(line: &ThreadLine<'_>, own_from: u64) -> Option<CodexRecord> {
    let SourceLine::Text(text, _) = line.text else { return None };
    let record: RawMembers<'_> = serde_json::from_str(text).ok()?;
    if own_from > 0 && ordinal(&record).is_some_and(|ordinal| ordinal < own_from) {
        return None;
    }
    let at = record.text("timestamp").and_then(|at| clock::from_rfc3339(&at));
    let kind = record.text("type").unwrap_or_default().into_owned();
    let (number, payload) = (line.number, record.get("payload"));
    // These are large, and say nothing that is told.
    if matches!(&*kind, "session_meta" | "world_state") {
        return None;
    }
    let (kind, payload) = match payload {
        Some(payload) => (kind, payload.get()),
        // Before 0.32 items have no envelope.
        None => ("response_item".to_owned(), text),
    };
    let payload = serde_json::from_str(payload).ok()?;
    Some(CodexRecord { number, at, kind, payload })
}

/// Says whether a line that cannot be read is being written.
pub(super) fn is_half_written(line: &SourceLine<'_>) -> bool {
    matches!(line, SourceLine::Text(_, LineEnd::Missing))
}
