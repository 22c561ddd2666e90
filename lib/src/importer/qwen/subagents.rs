//! The sub-agents of a Qwen session: each has a file in a folder of the project, and a small one beside it that says which
//! call started it.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::importer::files;
use crate::importer::reader::Found;

/// The largest file about a sub-agent.
const MAX_BYTES: u64 = 1024 * 1024;

/// What is known of a sub-agent.
#[derive(Clone, Debug, Default)]
pub(super) struct QwenAgentMeta {
    pub(super) id: String,
    pub(super) title: String,
}

/// The files of the sub-agents of a session, which is in `chats` or a folder in that.
pub(super) fn files_of(session: &Path, found: &mut Found) -> Vec<PathBuf> {
    let chats = session.ancestors().find(|folder| folder.ends_with("chats"));
    let Some(project) = chats.and_then(Path::parent) else { return Vec::new() };
    let folder = project.join("subagents").join(files::stem(session));
    match folder.is_dir() {
        true => {
            let listed = files::files_below(&folder, found, |path| files::has_ending(path, ".jsonl"));
            listed.into_iter().map(|(path, _)| path).collect()
        }
        false => Vec::new(),
    }
}

/// The sub-agents of these files by the calls that started them; where that is not known, by their own ids.
pub(super) fn by_call(parts: &[PathBuf]) -> HashMap<String, (PathBuf, QwenAgentMeta)> {
    let mut agents = HashMap::new();
    for path in parts {
        let name = files::stem(path);
        let id = name.strip_prefix("agent-").unwrap_or(name).to_owned();
        let meta = meta(&path.with_extension("meta.json")).unwrap_or_default();
        let text = |name: &str| meta[name].as_str().filter(|text| !text.is_empty());
        let title = text("description").or_else(|| text("agentType")).unwrap_or("Sub-agent").to_owned();
        let call = text("toolUseId").unwrap_or(&id).to_owned();
        agents.insert(call, (path.clone(), QwenAgentMeta { id, title }));
    }
    agents
}

fn meta(path: &Path) -> Option<Value> {
    let (file, _) = files::open(path).ok()?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
