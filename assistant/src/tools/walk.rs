//! Walks a directory tree. Each directory is opened through its parent and no symbolic link is followed, so that nothing
//! outside is visited even if the tree changes meanwhile.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rethread::sandbox::{DirEntry, EntryKind, FileError, at, entries};

use super::excerpt::counted;
use super::ignored::{Rules, is_ignored};
use super::stop::Stop;
use super::workspace::Workspace;

/// The maximum depth; each directory on the way is kept open.
const DEEPEST: usize = 100;

/// Which entries are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// Entries that ignore files name, and `.git`.
    Ignored,
    /// Nothing.
    Nothing,
}

/// The scope of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkScope {
    /// Which entries are skipped.
    pub(super) skip: Skip,
    /// The maximum number of levels.
    pub(super) depth: usize,
}

impl WalkScope {
    /// All levels, without the skipped entries.
    pub(super) fn whole(skip: Skip) -> Self {
        Self { skip, depth: DEEPEST }
    }
}

/// An entry that a walk visits.
pub(super) struct WalkEntry<'a> {
    /// The directory that contains it.
    pub(super) directory: &'a OwnedFd,
    /// The name in the directory.
    pub(super) name: &'a OsStr,
    /// The kind of entry.
    pub(super) kind: EntryKind,
    /// The path, with the root as it was configured.
    pub(super) path: &'a Path,
}

/// Counts of directories that were not visited completely.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SkippedEntries {
    /// Directories that could not be read.
    pub(super) unreadable: usize,
    /// Directories that are too large or too deep.
    pub(super) cut: usize,
}

impl SkippedEntries {
    /// Adds a note for each count that is not zero.
    pub(super) fn notes(self, notes: &mut Vec<String>) {
        if self.unreadable > 0 {
            notes.push(format!("{} could not be read", counted(self.unreadable, "directory", "directories")));
        }
        if self.cut > 0 {
            notes.push(format!(
                "{} too large or too deep to be listed whole",
                counted(self.cut, "directory is", "directories are")
            ));
        }
    }
}

/// A directory on the current path of the walk.
struct WalkLevel {
    directory: OwnedFd,
    path: PathBuf,
    rules: Rules,
    entries: std::vec::IntoIter<DirEntry>,
}

/// Visits everything below an absolute path, sorted by name, each directory before its entries.
pub(super) fn walk(
    workspace: &Workspace,
    start: &Path,
    scope: WalkScope,
    stop: &Stop,
    mut visit: impl FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
) -> Result<SkippedEntries, FileError> {
    let (directory, at) = workspace.roots.directory_at(start)?;
    let above = rules_above(workspace, &at.shown);
    let mut skipped = SkippedEntries::default();
    let mut levels = vec![open_level(directory, at.shown, &mut skipped)?];
    while let Some(level) = levels.last_mut() {
        if stop.now() {
            break;
        }
        let Some(entry) = level.entries.next() else {
            levels.pop();
            continue;
        };
        let path = level.path.join(&entry.name);
        let is_directory = entry.kind == EntryKind::Directory;
        if scope.skip == Skip::Ignored {
            let rules = above.iter().chain(levels.iter().map(|level| &level.rules));
            if entry.name == ".git" || is_ignored(rules, &path, is_directory) {
                continue;
            }
        }
        let level = levels.last().expect("it was just there");
        let found =
            WalkEntry { directory: &level.directory, name: &entry.name, kind: entry.kind, path: &path };
        if visit(&found).is_break() {
            break;
        }
        if is_directory && levels.len() < scope.depth {
            enter(&mut levels, &entry.name, path, &mut skipped);
        } else if is_directory && levels.len() == DEEPEST {
            skipped.cut += 1;
        }
    }
    Ok(skipped)
}

fn enter(levels: &mut Vec<WalkLevel>, name: &OsStr, path: PathBuf, skipped: &mut SkippedEntries) {
    let inside = &levels.last().expect("it is inside something").directory;
    // It was removed or replaced by a link meanwhile.
    let Ok(directory) = at::open_directory(inside.as_fd(), name) else { return };
    match open_level(directory, path, skipped) {
        Ok(level) => levels.push(level),
        Err(_) => skipped.unreadable += 1,
    }
}

fn open_level(
    directory: OwnedFd,
    path: PathBuf,
    skipped: &mut SkippedEntries,
) -> Result<WalkLevel, FileError> {
    let listed = entries(directory.as_fd())?;
    skipped.cut += usize::from(listed.cut);
    let rules = Rules::of(&directory, &path);
    Ok(WalkLevel { directory, path, rules, entries: listed.list.into_iter() })
}

/// The ignore rules of the directories above a path, up to its root, outermost first.
fn rules_above(workspace: &Workspace, path: &Path) -> Vec<Rules> {
    let above = path.ancestors().skip(1);
    let inside = above.map_while(|above| Some((above, workspace.roots.directory(above).ok()?)));
    let mut rules: Vec<Rules> = inside.map(|(path, directory)| Rules::of(&directory, path)).collect();
    rules.reverse();
    rules
}
