//! The names that users give to threads: Codex keeps them in a file of its own, to which it appends.

use std::path::Path;

use rethread_core::RawMembers;

use crate::importer::files;
use crate::importer::lines::{SourceLine, SourceLines};

const NAMES: &str = "session_index.jsonl";

/// The name of a thread, if it has one. What cannot be read is no name.
pub(super) fn chosen(home: &Path, thread: &str) -> Option<String> {
    let (file, _) = files::open(&home.join(NAMES)).ok()?;
    let mut lines = SourceLines::new(file);
    let mut name = None;
    while let Ok(Some((_, line))) = lines.next_line() {
        let SourceLine::Text(text, _) = line else { continue };
        let Ok(record) = serde_json::from_str::<RawMembers<'_>>(text) else { continue };
        if record.text("id").as_deref() == Some(thread) {
            name = record.text("thread_name").map(|name| name.into_owned());
        }
    }
    name
}
