//! Reads the session files of Claude Code: one file of JSON lines for each session below `projects`, whose records form a
//! tree. A file is read twice, so that only a small node of each record is in memory: `index` finds the tree, `order` the
//! conversation in it, `telling` says what the records mean.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rethread_core::{TitleSource, clean_title};

use super::files;
use super::lines::SourceLines;
use super::reader::{Found, Places, ReadError, SessionReader, SessionSource, ToolInfo};
use super::sink::{SessionFacts, Sink};

mod index;
mod known;
mod order;
mod prompt;
mod subagent_telling;
mod subagents;
mod telling;
mod tools;

use index::Index;
use order::Speakers;
use subagents::{SessionSubagents, is_subagent};
use telling::Telling;

/// What Claude Code prefixes titles of archived sessions with.
const ARCHIVED: &str = "[archived] ";

static CLAUDE: ToolInfo = ToolInfo {
    name: "claude",
    title: "Claude Code",
    agents: &[
        "@agentclientprotocol/claude-agent-acp",
        "@zed-industries/claude-agent-acp",
        "@zed-industries/claude-code-acp",
        "claude-agent-acp",
        "claude-code-acp",
    ],
};

/// Reads the files of Claude Code.
pub(super) struct ClaudeReader;

impl SessionReader for ClaudeReader {
    fn tool(&self) -> &'static ToolInfo {
        &CLAUDE
    }

    fn roots(&self, places: &Places) -> Vec<PathBuf> {
        vec![places.variable_or_home("CLAUDE_CONFIG_DIR", ".claude").join("projects")]
    }

    fn find(&self, root: &Path, _places: &Places, found: &mut Found) {
        match root.metadata() {
            Ok(metadata) if metadata.is_file() => {
                let beside = root.parent().map(subagents_beside).unwrap_or_default();
                let source = SessionSource::file(root, &metadata);
                add(source, &beside, found);
            }
            Ok(_) => {
                // The configuration folder may be named instead of the one inside of it.
                let projects = root.join("projects");
                let root = if projects.is_dir() { projects } else { root.to_owned() };
                find_below(&root, found);
            }
            Err(error) => found.unreadable(root, &error),
        }
    }

    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError> {
        let failed = || ReadError::io(&source.path);
        let (file, _) = files::open(&source.path).map_err(failed())?;
        let mut lines = SourceLines::new(file);
        let mut index = index::index(&source.path, &mut lines, sink).map_err(failed())?;
        index.sidecar_title = sidecar_title(&source.path);
        sink.begin(facts(&source.path, &index))?;
        let order = order::conversation(&index, Speakers::Main);
        let mut telling = Telling::new(sink, &index, SessionSubagents::of(&index, &source.parts));
        for number in order {
            let node = index.node(number);
            if let Some(record) = telling::record(&mut lines, node).map_err(failed())? {
                telling.record(node, &record, &mut lines)?;
            }
        }
        telling.finish()
    }
}

/// Finds the sessions below a folder of projects, with the files of their sub-agents.
fn find_below(root: &Path, found: &mut Found) {
    let listed = files::files_below(root, found, |path| files::has_ending(path, ".jsonl"));
    let (agents, sessions): (Vec<_>, Vec<_>) = listed
        .into_iter()
        .filter(|(path, _)| !is_inside_session(path, root))
        .partition(|(path, _)| is_subagent(path));
    let mut beside: BesideSessions = HashMap::new();
    for (path, _) in agents {
        if let Some(session) = subagents::session_of(&path) {
            beside.entry(session).or_default().push(path);
        }
    }
    for (path, metadata) in sessions {
        add(SessionSource::file(&path, &metadata), &beside, found);
    }
}

/// Old files of sub-agents, which are beside those of sessions, by their sessions.
type BesideSessions = HashMap<String, Vec<PathBuf>>;

fn subagents_beside(folder: &Path) -> BesideSessions {
    let mut beside = BesideSessions::new();
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in listed.map(|item| item.path()).filter(|path| is_subagent(path)) {
        if let Some(session) = subagents::session_of(&path) {
            beside.entry(session).or_default().push(path);
        }
    }
    beside
}

fn add(mut source: SessionSource, beside: &BesideSessions, found: &mut Found) {
    let mut parts = subagents::files_of(&source.path, found);
    parts.extend(beside.get(files::stem(&source.path)).into_iter().flatten().cloned());
    parts.into_iter().for_each(|part| source.add_part(part));
    found.sources.push(source);
}

/// Says whether a file is in the folder of a session, and no session itself.
fn is_inside_session(path: &Path, root: &Path) -> bool {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.components().any(|part| part.as_os_str() == "subagents" || part.as_os_str() == "workflows")
}

/// The title that the user gave, where it is in a file of its own in the session's folder.
fn sidecar_title(session: &Path) -> Option<String> {
    const LONGEST_FILE: u64 = 64 * 1024;
    let listed = std::fs::read_dir(session.with_extension("")).ok()?.flatten().map(|item| item.path());
    let path = listed.into_iter().find(|path| files::has_ending(path, "custom-title.json"))?;
    let (file, _) = files::open(&path).ok()?;
    let found: serde_json::Value = serde_json::from_reader(std::io::Read::take(file, LONGEST_FILE)).ok()?;
    let title =
        [&found["customTitle"], &found["title"], &found].into_iter().find_map(|title| title.as_str())?;
    Some(title.to_owned()).filter(|title| !title.is_empty())
}

fn facts(path: &Path, index: &Index) -> SessionFacts {
    let titles = [
        (&index.custom_title, TitleSource::User),
        (&index.sidecar_title, TitleSource::User),
        (&index.generated_title, TitleSource::Agent),
        (&index.summary, TitleSource::Agent),
    ];
    let title = titles.into_iter().find_map(|(title, by)| {
        let title = title.as_deref()?;
        let title = clean_title(title.strip_prefix(ARCHIVED).unwrap_or(title));
        (!title.is_empty()).then_some((title, by))
    });
    let is_archived = index.custom_title.as_deref().is_some_and(|title| title.starts_with(ARCHIVED));
    let last = index.nodes.iter().filter_map(|node| node.at).max();
    SessionFacts {
        // The name of the file is the id that Claude Code resumes by; records of a fork may have another.
        native: files::stem(path).to_owned(),
        cwd: index.cwd.clone().unwrap_or_default(),
        title,
        created: index.first_at,
        updated: last,
        archived: last.filter(|_| is_archived),
    }
}
