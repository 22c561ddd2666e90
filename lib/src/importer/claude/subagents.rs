//! The sub-agents of a Claude session: each has a file of its own, or in old versions a branch of the session's file that
//! is marked as such. A tool call started each of them; its result or its prompt says which.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rethread_core::RawMembers;
use serde_json::Value;

use super::index::{Index, Key, NodeNumber, key};
use crate::importer::files;
use crate::importer::lines::{SourceLine, SourceLines};
use crate::importer::reader::Found;

/// A sub-agent's conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subagent {
    /// A file of its own.
    File(PathBuf),
    /// Records of the session's file, in order.
    Branch(Vec<NodeNumber>),
}

/// The sub-agents of a session by what started them.
#[derive(Debug, Default)]
pub(super) struct SessionSubagents {
    /// By the ids that results of calls name.
    by_id: HashMap<String, Subagent>,
    /// By their first prompt.
    by_prompt: HashMap<Key, Vec<(String, Subagent)>>,
    told: HashSet<String>,
}

impl SessionSubagents {
    /// Those of a session with these files of sub-agents.
    pub(super) fn of(index: &Index, parts: &[PathBuf]) -> Self {
        let mut subagents = Self::default();
        for path in parts.iter().filter(|path| files::has_ending(path, ".jsonl")) {
            let id = id_of(path).to_owned();
            // One that cannot be read is found by its id, and reported then.
            if let Ok(Some(prompt)) = first_prompt(path) {
                let found = (id.clone(), Subagent::File(path.clone()));
                subagents.by_prompt.entry(prompt).or_default().push(found);
            }
            subagents.by_id.insert(id, Subagent::File(path.clone()));
        }
        for branch in branches(index) {
            let Some(first) = branch.first() else { continue };
            // One that nothing prompted is found by nothing.
            let Some(prompt) = index.prompts.get(first) else { continue };
            let id = format!("at-line-{}", index.node(*first).place.line);
            let found = (id, Subagent::Branch(branch));
            subagents.by_prompt.entry(*prompt).or_default().push(found);
        }
        subagents
    }

    /// The sub-agent that a call started: the one that its result names, else one with its prompt. Each is given once.
    pub(super) fn of_call(&mut self, named: Option<&String>, input: &Value) -> Option<(String, Subagent)> {
        let by_id = named.and_then(|id| Some((id.clone(), self.by_id.get(id)?.clone())));
        let by_prompt = || {
            let started = self.by_prompt.get(&key(input["prompt"].as_str()?))?;
            started.iter().find(|(id, _)| !self.told.contains(id)).cloned()
        };
        let (id, subagent) = by_id.or_else(by_prompt)?;
        self.told.insert(id.clone()).then_some((id, subagent))
    }
}

/// The files of the sub-agents of a session.
pub(super) fn files_of(session: &Path, found: &mut Found) -> Vec<PathBuf> {
    let folder = session.with_extension("").join("subagents");
    let mut parts: Vec<_> = match folder.is_dir() {
        true => files::files_below(&folder, found, is_subagent).into_iter().map(|(path, _)| path).collect(),
        false => Vec::new(),
    };
    parts.sort();
    parts
}

/// Says whether a file has the conversation of a sub-agent.
pub(super) fn is_subagent(path: &Path) -> bool {
    files::stem(path).starts_with("agent-") && files::has_ending(path, ".jsonl")
}

/// The session that an old file of a sub-agent, beside those of sessions, belongs to.
pub(super) fn session_of(path: &Path) -> Option<String> {
    let (file, _) = files::open(path).ok()?;
    let mut lines = SourceLines::new(file);
    let Some((_, SourceLine::Text(text, _))) = lines.next_line().ok()? else { return None };
    let record: RawMembers<'_> = serde_json::from_str(text).ok()?;
    record.text("sessionId").map(|id| id.into_owned())
}

fn id_of(path: &Path) -> &str {
    let stem = files::stem(path);
    stem.strip_prefix("agent-").unwrap_or(stem)
}

/// The first prompt in a file.
fn first_prompt(path: &Path) -> io::Result<Option<Key>> {
    const LINES_LOOKED_AT: usize = 8;
    let (file, _) = files::open(path)?;
    let mut lines = SourceLines::new(file);
    for _ in 0..LINES_LOOKED_AT {
        let Some((_, line)) = lines.next_line()? else { break };
        let SourceLine::Text(text, _) = line else { continue };
        let Ok(record) = serde_json::from_str::<RawMembers<'_>>(text) else { continue };
        if record.text("type").as_deref() == Some("user") {
            return Ok(prompt_key(&record));
        }
    }
    Ok(None)
}

/// The hash of the text of a user record.
pub(super) fn prompt_key(record: &RawMembers<'_>) -> Option<Key> {
    let message = RawMembers::of(record.get("message")?);
    if let Some(words) = message.text("content") {
        return Some(key(&words));
    }
    let blocks: Vec<Value> = serde_json::from_str(message.get("content")?.get()).ok()?;
    let words = blocks.iter().find_map(|block| block["text"].as_str())?;
    Some(key(words))
}

/// The branches of sub-agents in the session's own file, in order.
fn branches(index: &Index) -> Vec<Vec<NodeNumber>> {
    let mut branch_of: HashMap<NodeNumber, usize> = HashMap::new();
    let mut branches: Vec<Vec<NodeNumber>> = Vec::new();
    for (number, node) in index.numbered().filter(|(_, node)| node.sidechain && !node.gone) {
        // A parent is before its children in the file; one that is not begins a branch.
        let parent = node.parent.and_then(|parent| index.find(parent));
        let branch = parent.and_then(|parent| branch_of.get(&parent)).copied().unwrap_or(branches.len());
        branch_of.insert(number, branch);
        match branches.get_mut(branch) {
            Some(records) => records.push(number),
            None => branches.push(vec![number]),
        }
    }
    branches
}
