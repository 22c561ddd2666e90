//! Rollout files of Codex: their names, opening them whether they are compressed or not, and what their first record says.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rethread_core::{Millis, RawMembers};
use serde::Deserialize;

use crate::clock;
use crate::importer::files;

/// What a compressed file has behind its name.
const COMPRESSED: &str = ".zst";

/// How often a file is looked for that Codex is compressing or unpacking, and how long is waited in between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(50);

/// How much of a file is looked at for its first record.
const MAX_HEAD_BYTES: u64 = 8 * 1024 * 1024;
const MAX_HEAD_LINES: usize = 5;

/// What the first record of a rollout says.
#[derive(Clone, Debug, Default)]
pub(super) struct RolloutHead {
    /// The id by which Codex resumes the thread.
    pub(super) thread: String,
    /// The id of the file: another one after a revert.
    pub(super) rollout: String,
    pub(super) place: ThreadPlace,
    pub(super) cwd: String,
    pub(super) created: Option<Millis>,
    pub(super) version: String,
    /// The part of another rollout that comes before this one.
    pub(super) base: Option<HistoryBase>,
    /// The first record of a sub-agent that is its own; those before are a copy of its parent's.
    pub(super) own_from: u64,
    /// What a sub-agent is called.
    pub(super) nickname: String,
}

/// Whose thread it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ThreadPlace {
    /// One of the user.
    #[default]
    Main,
    /// A sub-agent of another thread.
    Subagent(String),
    /// Work of Codex itself, such as a review of a command before it runs.
    Internal,
}

/// The part of another rollout that a rollout goes on from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct HistoryBase {
    /// The id of the other rollout.
    #[serde(rename = "thread_id")]
    pub(super) rollout: String,
    /// The first record that is not part of it.
    pub(super) end_ordinal_exclusive: u64,
    /// The same in bytes.
    pub(super) end_byte_offset: u64,
}

/// Says whether a file is a rollout by its name.
pub(super) fn is_rollout(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let plain = name.strip_suffix(COMPRESSED).unwrap_or(name);
    plain.starts_with("rollout-") && plain.ends_with(".jsonl")
}

/// The path that a rollout has when it is not compressed. This names it, as the other comes and goes.
pub(super) fn plain_path(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_suffix(COMPRESSED).map_or_else(|| path.to_owned(), |plain| path.with_file_name(plain))
}

/// The path that it has when it is compressed.
pub(super) fn compressed_path(plain: &Path) -> PathBuf {
    let mut path = plain.as_os_str().to_owned();
    path.push(COMPRESSED);
    path.into()
}

/// Opens a rollout by its plain path, whether it is compressed or not.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let compressed = compressed_path(path);
    let mut tries = 0;
    loop {
        tries += 1;
        match files::open(path) {
            Ok((file, _)) => return Ok(Box::new(file)),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(missing) => match files::open(&compressed) {
                Ok((file, _)) => return Ok(Box::new(zstd::Decoder::new(file)?)),
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                // It is neither here nor there for a moment when Codex swaps one for the other.
                Err(_) if tries < TRIES => std::thread::sleep(PAUSE),
                Err(_) => return Err(missing),
            },
        }
    }
}

/// Reads what a rollout says of itself. What has no such record has the ids of its name.
pub(super) fn head(path: &Path) -> io::Result<RolloutHead> {
    let mut input = BufReader::with_capacity(16 * 1024, open(path)?).take(MAX_HEAD_BYTES);
    let mut line = Vec::new();
    let mut head = RolloutHead::of_name(path);
    for _ in 0..MAX_HEAD_LINES {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let Ok(record) = serde_json::from_slice::<RawMembers<'_>>(&line) else { continue };
        if head.take_in(&record) {
            break;
        }
    }
    Ok(head)
}

impl RolloutHead {
    fn of_name(path: &Path) -> Self {
        let plain = plain_path(path);
        let stem = files::stem(&plain);
        // rollout-2026-03-04T10-00-00-THREAD or the same with _ROLLOUT behind it.
        let ids = stem.get("rollout-".len() + 20..).filter(|ids| !ids.is_empty()).unwrap_or(stem);
        let (thread, rollout) = ids.split_once('_').unwrap_or((ids, ids));
        Self { thread: thread.to_owned(), rollout: rollout.to_owned(), ..Self::default() }
    }

    /// Takes in a record, and says whether it was the one that was looked for.
    fn take_in(&mut self, record: &RawMembers<'_>) -> bool {
        let payload = record.get("payload").map(RawMembers::of).unwrap_or_default();
        let meta = match record.text("type").as_deref() {
            Some("session_meta") => &payload,
            // Before 0.32 records have no envelope.
            None if record.get("id").is_some() && record.get("timestamp").is_some() => record,
            Some(_) | None => return false,
        };
        let text = |name: &str| meta.text(name).map(|text| text.into_owned()).filter(|text| !text.is_empty());
        if let Some(id) = text("id").or_else(|| text("session_id")) {
            self.thread = id;
        }
        let parent = text("parent_thread_id");
        self.place = place(meta, parent);
        self.cwd = text("cwd").map(|cwd| local(&cwd)).unwrap_or_default();
        self.created = text("timestamp").and_then(|at| clock::from_rfc3339(&at));
        self.version = text("cli_version").unwrap_or_default();
        self.base = meta.get("history_base").and_then(|base| serde_json::from_str(base.get()).ok()).flatten();
        let own_from = meta.get("subagent_history_start_ordinal");
        self.own_from = own_from.and_then(|from| from.get().parse().ok()).unwrap_or(0);
        let names = ["agent_nickname", "agent_role", "agent_type", "agent_path"];
        self.nickname = names.into_iter().find_map(text).unwrap_or_default();
        true
    }
}

/// A path that may be written as a URI.
pub(super) fn local(path: &str) -> String {
    path.strip_prefix("file://").unwrap_or(path).to_owned()
}

fn place(meta: &RawMembers<'_>, parent: Option<String>) -> ThreadPlace {
    let Some(source) = meta.get("source").filter(|source| source.get().starts_with('{')) else {
        return parent.map_or(ThreadPlace::Main, ThreadPlace::Subagent);
    };
    let source = RawMembers::of(source);
    let Some(kind) = source.get("subagent") else {
        let is_internal = source.get("internal").is_some();
        return if is_internal { ThreadPlace::Internal } else { ThreadPlace::Main };
    };
    let spawned = RawMembers::of(kind).get("thread_spawn").map(RawMembers::of);
    let parent = parent.or_else(|| Some(spawned.as_ref()?.text("parent_thread_id")?.into_owned()));
    match (spawned.is_some() || kind.get() == r#""review""#, parent) {
        (true, Some(parent)) => ThreadPlace::Subagent(parent),
        (true, None) => ThreadPlace::Main,
        (false, _) => ThreadPlace::Internal,
    }
}
