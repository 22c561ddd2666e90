//! Finds the threads of Codex: of several files of a thread the one that it goes on in, with the files of its sub-agents
//! and of what comes before it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::rollout::{self, RolloutHead, ThreadPlace};
use crate::importer::files;
use crate::importer::reader::{Found, SessionSource};

/// The folders with the threads, and with those that the user has archived.
pub(super) const SESSIONS: &str = "sessions";
pub(super) const ARCHIVED: &str = "archived_sessions";

/// Finds the threads below a folder, or the one in a file.
pub(super) fn find(root: &Path, found: &mut Found) {
    let is_file = match root.metadata() {
        Ok(metadata) => metadata.is_file(),
        Err(error) => return found.unreadable(root, &error),
    };
    let named = is_file.then(|| rollout::plain_path(root));
    let mut paths: HashSet<PathBuf> = named.iter().cloned().collect();
    let home = home_of(root);
    if !is_file {
        paths.extend(rollouts(root, found));
    }
    // What belongs to a thread may be in the other folder.
    for folder in [SESSIONS, ARCHIVED].map(|name| home.join(name)).iter().filter(|folder| folder.is_dir()) {
        if !folder.starts_with(root) {
            paths.extend(rollouts(folder, found));
        }
    }
    let threads = KnownThreads::of(paths, found);
    let is_wanted = |path: &Path, head: &RolloutHead| match &named {
        // A sub-agent, or what a revert has left, is read if the user names it.
        Some(named) => path == named,
        None => path.starts_with(root) && threads.is_session(path, head),
    };
    let wanted = threads.heads.iter().filter(|(path, head)| is_wanted(path, head));
    found.sources.extend(wanted.filter_map(|(path, head)| threads.source(path, head)));
}

/// The folder in which Codex keeps everything, for a file or a folder inside of it.
pub(super) fn home_of(path: &Path) -> PathBuf {
    let inside = path.ancestors().find(|folder| folder.ends_with(SESSIONS) || folder.ends_with(ARCHIVED));
    inside.and_then(Path::parent).unwrap_or(path).to_owned()
}

fn rollouts(root: &Path, found: &mut Found) -> Vec<PathBuf> {
    let listed = files::files_below(root, found, rollout::is_rollout);
    listed.into_iter().map(|(path, _)| rollout::plain_path(&path)).collect()
}

/// What is known of all files.
struct KnownThreads {
    heads: BTreeMap<PathBuf, RolloutHead>,
    /// The file that each thread goes on in.
    current: HashMap<String, PathBuf>,
    by_rollout: HashMap<String, PathBuf>,
    children: HashMap<String, Vec<PathBuf>>,
}

impl KnownThreads {
    fn of(paths: HashSet<PathBuf>, found: &mut Found) -> Self {
        let mut heads = BTreeMap::new();
        for path in paths {
            match rollout::head(&path) {
                Ok(head) => {
                    heads.insert(path, head);
                }
                Err(error) => found.unreadable(&path, &error),
            }
        }
        let mut known =
            Self { heads, current: HashMap::new(), by_rollout: HashMap::new(), children: HashMap::new() };
        for (path, head) in &known.heads {
            known.by_rollout.insert(head.rollout.clone(), path.clone());
            let newest = known.current.entry(head.thread.clone()).or_insert_with(|| path.clone());
            // A revert goes on in a new file. Names begin with the time, and those of reverts are longer.
            if path.file_name() > newest.file_name() {
                newest.clone_from(path);
            }
        }
        for (path, head) in &known.heads {
            if let ThreadPlace::Subagent(parent) = &head.place
                && known.current.get(&head.thread) == Some(path)
            {
                known.children.entry(parent.clone()).or_default().push(path.clone());
            }
        }
        known
    }

    /// Says whether a file has a session of its own, and not one that is undone or part of another.
    fn is_session(&self, path: &Path, head: &RolloutHead) -> bool {
        let is_own = match &head.place {
            ThreadPlace::Main => true,
            ThreadPlace::Subagent(parent) => !self.current.contains_key(parent),
            ThreadPlace::Internal => false,
        };
        is_own && self.current.get(&head.thread).is_some_and(|current| current == path)
    }

    fn source(&self, path: &Path, head: &RolloutHead) -> Option<SessionSource> {
        let metadata = path.symlink_metadata().or_else(|_| rollout::compressed_path(path).symlink_metadata());
        let mut source = SessionSource::file(path, &metadata.ok()?);
        let mut open = vec![(path, head)];
        let mut seen: HashSet<&Path> = HashSet::from([path]);
        while let Some((_, head)) = open.pop() {
            let base = head.base.as_ref().and_then(|base| self.by_rollout.get(&base.rollout));
            let children = self.children.get(&head.thread).into_iter().flatten();
            for part in children.chain(base) {
                if seen.insert(part)
                    && let Some(head) = self.heads.get(part)
                {
                    source.add_part(part.clone());
                    open.push((part, head));
                }
            }
        }
        Some(source)
    }
}
