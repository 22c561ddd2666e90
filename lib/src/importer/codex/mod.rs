//! Reads the rollout files of Codex: one file of JSON lines for each thread, plain or compressed, below `sessions` and
//! `archived_sessions`. A file is read twice: `index` finds what is undone, `telling` says what the records mean. What
//! comes before a fork or a revert is in another file (`thread`), and so are sub-agents, which are told along by time.

use std::path::{Path, PathBuf};

use rethread_core::{Millis, TitleSource, clean_title};

use super::reader::{Found, Places, ReadError, SessionReader, SessionSource, ToolInfo};
use super::sink::{SessionFacts, Sink};

mod calls;
mod finding;
mod index;
mod items;
mod known;
mod names;
mod outputs;
mod patches;
mod prompt;
mod rollout;
mod telling;
mod thread;

use rollout::{RolloutHead, ThreadPlace};
use telling::CodexSpeaker;
use thread::ThreadReader;

static CODEX: ToolInfo = ToolInfo {
    name: "codex",
    title: "Codex",
    agents: &["@agentclientprotocol/codex-acp", "@zed-industries/codex-acp", "codex-acp"],
};

/// Reads the files of Codex.
pub(super) struct CodexReader;

impl SessionReader for CodexReader {
    fn tool(&self) -> &'static ToolInfo {
        &CODEX
    }

    fn roots(&self, places: &Places) -> Vec<PathBuf> {
        let home = places.variable_or_home("CODEX_HOME", ".codex");
        vec![home.join("sessions"), home.join(finding::ARCHIVED)]
    }

    fn find(&self, root: &Path, _places: &Places, found: &mut Found) {
        finding::find(root, found);
    }

    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError> {
        let head = rollout::head(&source.path).map_err(ReadError::io(&source.path))?;
        let parts = parts_of(source);
        let main = ThreadReader::new(&source.path, head, &parts, CodexSpeaker::Main, sink)?;
        sink.begin(facts(&source.path, &main))?;
        let mut threads = vec![main];
        for (path, head) in &parts {
            if matches!(head.place, ThreadPlace::Subagent(_)) {
                let speaker = CodexSpeaker::Child(head.thread.clone());
                threads.push(ThreadReader::new(path, head.clone(), &parts, speaker, sink)?);
            }
        }
        tell(threads, sink)
    }
}

/// Tells what all threads of a session say in the order of time.
fn tell(mut threads: Vec<ThreadReader>, sink: &mut Sink) -> Result<(), ReadError> {
    loop {
        let mut next: Option<(Millis, usize)> = None;
        for (place, thread) in threads.iter_mut().enumerate() {
            // Of two of the same time the main thread comes first: it is what began the other.
            let at = thread.look_ahead()?.map(|at| (at, place));
            next = next.into_iter().chain(at).min();
        }
        let Some((_, place)) = next else { break };
        threads[place].tell(sink)?;
    }
    if let Some(main) = threads.first()
        && main.is_unfinished()
    {
        sink.unfinished()?;
    }
    Ok(())
}

/// The files that belong to a source, with what they say of themselves. One that cannot be read is missed where it is
/// needed.
fn parts_of(source: &SessionSource) -> Vec<(PathBuf, RolloutHead)> {
    let heads = source.parts.iter().map(|path| (path.clone(), rollout::head(path)));
    heads.filter_map(|(path, head)| Some((path, head.ok()?))).collect()
}

fn facts(path: &Path, main: &ThreadReader) -> SessionFacts {
    let (head, index) = (main.head(), main.index());
    let name = names::chosen(&finding::home_of(path), &head.thread).or_else(|| index.name.clone());
    let title = name.map(|name| clean_title(&name)).filter(|name| !name.is_empty());
    let is_archived = path.components().any(|part| part.as_os_str() == finding::ARCHIVED);
    SessionFacts {
        native: head.thread.clone(),
        cwd: Some(&head.cwd)
            .filter(|cwd| !cwd.is_empty())
            .or(index.cwd.as_ref())
            .cloned()
            .unwrap_or_default(),
        title: title.map(|title| (title, TitleSource::User)),
        // What a fork or a revert goes on from is older than the file.
        created: head.created.into_iter().chain(index.first_at).min(),
        updated: index.last_at,
        archived: index.last_at.filter(|_| is_archived),
    }
}
