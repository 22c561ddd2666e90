//! Reads the session files of Claude Code: one file of JSON lines for each session below `projects`, whose records form a
//! tree. A file is read twice, so that only a small node of each record is in memory: `index` finds the tree, `order` the
//! conversation in it, `telling` says what the records mean.

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
mod telling;
mod tools;

use index::Index;
use order::Speakers;
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
            Ok(metadata) if metadata.is_file() => found.sources.push(SessionSource::file(root, &metadata)),
            Ok(_) => {
                // The configuration folder may be named instead of the one inside of it.
                let projects = root.join("projects");
                let root = if projects.is_dir() { projects } else { root.to_owned() };
                let listed = files::files_below(&root, found, is_session);
                found
                    .sources
                    .extend(listed.iter().map(|(path, metadata)| SessionSource::file(path, metadata)));
            }
            Err(error) => found.unreadable(root, &error),
        }
    }

    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError> {
        let failed = || ReadError::io(&source.path);
        let (file, _) = files::open(&source.path).map_err(failed())?;
        let mut lines = SourceLines::new(file);
        let index = index::index(&source.path, &mut lines, sink).map_err(failed())?;
        sink.begin(facts(&source.path, &index))?;
        let order = order::conversation(&index, Speakers::Main);
        let mut telling = Telling::new(sink, &index.version);
        for place in order {
            let node = &index.nodes[place];
            if let Some(record) = telling::record(&mut lines, node).map_err(failed())? {
                telling.record(node, &record)?;
            }
        }
        telling.finish()
    }
}

/// A file with a session; those of sub-agents belong to one.
fn is_session(path: &Path) -> bool {
    let is_subagent = files::stem(path).starts_with("agent-")
        || path.components().any(|part| part.as_os_str() == "subagents");
    files::has_ending(path, ".jsonl") && !is_subagent
}

fn facts(path: &Path, index: &Index) -> SessionFacts {
    let titles = [
        (&index.custom_title, TitleSource::User),
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
