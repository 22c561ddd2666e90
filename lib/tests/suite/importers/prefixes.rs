//! A file is read while its tool still writes it: what was read of its finished turns must come again, and first, when
//! there is more of it. Each file of JSON lines that undoes nothing is cut behind each of its lines and read.

use std::fs;
use std::path::{Path, PathBuf};

use rethread::importer::{Found, Places, ReadEvent, SessionReader, Sink};

use super::reader;

/// Files in which nothing is taken back.
const CASES: [(&str, &str); 12] = [
    ("codex", "codex-0.166/conversation"),
    ("codex", "codex-0.166/unknown_and_damaged"),
    ("codex", "codex-0.149/conversation"),
    ("codex", "codex-0.149/compaction"),
    ("codex", "codex-0.149/review"),
    ("codex", "codex-0.20/bare_items"),
    ("codex", "codex-0.20/resumed_by_a_newer_version"),
    ("gemini", "gemini-0.61/conversation"),
    ("gemini", "gemini-0.61/unknown_and_damaged"),
    ("qwen", "qwen-0.24/conversation"),
    ("qwen", "qwen-0.24/compaction"),
    ("qwen", "qwen-0.24/commands_and_fragments"),
];

#[test]
fn finished_turns_of_a_file_stay_the_same_while_it_grows() {
    for (tool, case) in CASES {
        check(reader(tool), &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import").join(case));
    }
}

fn check(reader: &'static dyn SessionReader, case: &Path) {
    let scratch = tempfile::tempdir().expect("a folder can be made");
    let root = scratch.path().join("files");
    let original = only_file(&case.join("files"));
    let copy = root.join(original.strip_prefix(case.join("files")).expect("it is inside"));
    fs::create_dir_all(copy.parent().expect("it has a folder")).expect("a folder can be made");
    let bytes = fs::read(&original).expect("it can be read");
    let whole = events(reader, &root, &copy, &bytes);
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    for end in ends {
        let finished = finished(events(reader, &root, &copy, &bytes[..end]));
        let line = bytes[..end].iter().filter(|byte| **byte == b'\n').count();
        let same = whole.iter().take(finished.len()).collect::<Vec<_>>();
        assert_eq!(finished.iter().collect::<Vec<_>>(), same, "{} up to line {line}", case.display());
    }
}

/// The file with the conversation.
fn only_file(folder: &Path) -> PathBuf {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for item in fs::read_dir(folder).expect("the fixture is there") {
            let path = item.expect("it can be listed").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                return path;
            }
        }
    }
    panic!("there is no file in {}", folder.display());
}

fn events(reader: &'static dyn SessionReader, root: &Path, copy: &Path, bytes: &[u8]) -> Vec<ReadEvent> {
    fs::write(copy, bytes).expect("it can be written");
    let mut found = Found::default();
    reader.find(root, &Places::default(), &mut found);
    let source = found.sources.pop().expect("the file is found");
    let (mut sink, mut events) = Sink::channel();
    let reading = std::thread::spawn(move || {
        reader.read(&source, &mut sink).expect("it can be read");
        drop(sink.finish());
    });
    let mut all = Vec::new();
    while let Some(batch) = events.blocking_recv() {
        all.extend(batch);
    }
    reading.join().expect("the reader does not panic");
    all.retain(|event| !matches!(event, ReadEvent::Begun(_) | ReadEvent::Ended));
    all
}

/// The events of the turns that are over: not those of the last one, if it is not.
fn finished(mut events: Vec<ReadEvent>) -> Vec<ReadEvent> {
    if matches!(events.last(), Some(ReadEvent::Unfinished)) {
        let is_prompt = |event: &ReadEvent| {
            let ReadEvent::Updated(update, _) = event else { return false };
            update.kind == rethread_core::UpdateKind::UserMessage
        };
        events.truncate(events.iter().rposition(is_prompt).unwrap_or(0));
    }
    events
}
