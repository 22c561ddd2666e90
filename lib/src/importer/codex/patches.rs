//! Changes of files as Codex records them: the patch that the model wrote, and what became of it.

use rethread_core::Json;
use serde_json::Value;

use crate::importer::updates::{FileOperation, changed_file, deleted_file, patched_file};

/// The changes that were made, by file: text that was added or deleted, or a diff.
pub(super) fn made(changes: &Value) -> Vec<Json> {
    let Some(files) = changes.as_object() else { return Vec::new() };
    files.iter().filter_map(|(path, change)| made_to(path, change)).collect()
}

/// The files that were changed.
pub(super) fn paths(changes: &Value) -> Vec<&str> {
    changes.as_object().map(|files| files.keys().map(String::as_str).collect()).unwrap_or_default()
}

fn made_to(path: &str, change: &Value) -> Option<Json> {
    // Old versions have the kind as the only member.
    let (kind, change) = match change["type"].as_str() {
        Some(kind) => (kind, change),
        None => change.as_object()?.iter().next().map(|(kind, change)| (kind.as_str(), change))?,
    };
    let content = change["content"].as_str();
    match kind {
        "add" => Some(changed_file(path, None, content?)),
        "delete" => Some(deleted_file(path, content?)),
        "update" => {
            let operation = change["move_path"].as_str().map_or(FileOperation::Modify, FileOperation::MoveTo);
            Some(patched_file(path, operation, change["unified_diff"].as_str()?))
        }
        _ => None,
    }
}

/// A file in a patch that the model wrote.
struct WantedChange<'a> {
    path: &'a str,
    kind: WantedKind,
    /// The old and the new lines of each place.
    places: Vec<(String, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedKind {
    Add,
    Update,
    Delete,
}

/// The changes that a patch asks for, and their files. The lines around them are part of both texts.
pub(super) fn wanted(patch: &str) -> (Vec<Json>, Vec<&str>) {
    let files = files(patch);
    let mut changes = Vec::new();
    for file in &files {
        match file.kind {
            WantedKind::Add => {
                let new: String = file.places.iter().map(|(_, new)| new.as_str()).collect();
                changes.push(changed_file(file.path, None, &new));
            }
            WantedKind::Update => {
                let places = file.places.iter().filter(|(old, new)| old != new);
                changes.extend(places.map(|(old, new)| changed_file(file.path, Some(old), new)));
            }
            WantedKind::Delete => {}
        }
    }
    (changes, files.iter().map(|file| file.path).collect())
}

fn files(patch: &str) -> Vec<WantedChange<'_>> {
    let mut files: Vec<WantedChange<'_>> = Vec::new();
    for line in patch.lines() {
        let begun = [
            ("*** Add File: ", WantedKind::Add),
            ("*** Update File: ", WantedKind::Update),
            ("*** Delete File: ", WantedKind::Delete),
        ];
        if let Some((path, kind)) =
            begun.iter().find_map(|(mark, kind)| Some((line.strip_prefix(mark)?, *kind)))
        {
            files.push(WantedChange { path: path.trim(), kind, places: Vec::new() });
            continue;
        }
        let Some(file) = files.last_mut().filter(|_| !line.starts_with("***")) else { continue };
        if line.starts_with("@@") || file.places.is_empty() {
            file.places.push((String::new(), String::new()));
        }
        let Some((old, new)) = file.places.last_mut() else { continue };
        let (is_old, is_new) = match line.as_bytes().first() {
            Some(b'+') => (false, true),
            Some(b'-') => (true, false),
            Some(b' ') => (true, true),
            Some(_) | None => continue,
        };
        for (text, _) in [(old, is_old), (new, is_new)].into_iter().filter(|(_, wanted)| *wanted) {
            text.push_str(&line[1..]);
            text.push('\n');
        }
    }
    files
}
