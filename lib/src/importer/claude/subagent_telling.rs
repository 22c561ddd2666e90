//! Tells the conversations of sub-agents, each behind the tool call that started it.

use std::fs::File;
use std::path::Path;

use rethread_core::Millis;
use serde_json::Value;

use super::index::{self, Index, NodeNumber, key};
use super::order::{self, Speakers};
use super::subagents::{SessionSubagents, Subagent};
use super::telling::{self, Telling};
use crate::importer::files;
use crate::importer::lines::SourceLines;
use crate::importer::reader::ReadError;
use crate::importer::updates;

impl Telling<'_> {
    /// Tells what the sub-agent did that a call started.
    pub(super) fn subagent(
        &mut self,
        block: &Value,
        at: Option<Millis>,
        lines: &mut SourceLines<File>,
    ) -> Result<(), ReadError> {
        let name = block["name"].as_str().unwrap_or_default();
        if !matches!(name, "Task" | "Agent") || !self.child.is_empty() {
            return Ok(());
        }
        let named = block["id"].as_str().and_then(|id| self.index.started.get(&key(id)));
        let Some((id, subagent)) = self.subagents.of_call(named, &block["input"]) else { return Ok(()) };
        let session = format!("agent-{id}");
        let title = block["input"]["description"].as_str().unwrap_or(name);
        self.sink.update(updates::subagent(&session, title, "running"), at)?;
        match subagent {
            Subagent::File(path) => self.subagent_file(&session, &path)?,
            Subagent::Branch(records) => self.subagent_records(&session, self.index, &records, lines)?,
        }
        Ok(self.sink.update(updates::subagent(&session, title, "idle"), None)?)
    }

    fn subagent_file(&mut self, session: &str, path: &Path) -> Result<(), ReadError> {
        let read = files::open(path).and_then(|(file, _)| {
            let mut lines = SourceLines::new(file);
            let index = index::index(path, &mut lines, self.sink)?;
            Ok((lines, index))
        });
        let (mut lines, index) = match read {
            Ok(read) => read,
            Err(error) => {
                self.sink.damaged(path, 0, error.to_string());
                return Ok(());
            }
        };
        let records = order::conversation(&index, Speakers::Subagent);
        self.subagent_records(session, &index, &records, &mut lines)
    }

    fn subagent_records(
        &mut self,
        session: &str,
        index: &Index,
        records: &[NodeNumber],
        lines: &mut SourceLines<File>,
    ) -> Result<(), ReadError> {
        let mut inner = Telling::new(self.sink, index, SessionSubagents::default());
        session.clone_into(&mut inner.child);
        for node in records.iter().map(|number| index.node(*number)) {
            // What has changed meanwhile is read by the next import.
            if let Ok(Some(record)) = telling::record(lines, node) {
                inner.record(node, &record, lines)?;
            }
        }
        inner.finish()
    }
}
