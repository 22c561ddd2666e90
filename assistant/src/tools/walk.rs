//! A walk through a directory and all below it, each opened inside the one before and no symbolic link followed:
//! whatever is swapped meanwhile, nothing outside is seen. What is looked for is somebody else's.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rethread::sandbox::{DirEntry, EntryKind, FileError, at, entries};

use super::excerpt::counted;
use super::ignored::{Rules, is_ignored};
use super::stop::Stop;
use super::workspace::Workspace;

/// How deep directories are entered at most: each is held open.
const DEEPEST: usize = 100;

/// What is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// What the project's ignore files name, and the store of its history.
    Ignored,
    /// Nothing.
    Nothing,
}

/// How far a sweep goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkScope {
    /// What is passed over.
    pub(super) skip: Skip,
    /// How many levels are seen.
    pub(super) depth: usize,
}

impl WalkScope {
    /// Everything below, but for what is passed over.
    pub(super) fn whole(skip: Skip) -> Self {
        Self { skip, depth: DEEPEST }
    }
}

/// Something that a sweep has come to.
pub(super) struct WalkEntry<'a> {
    /// The directory that it is in.
    pub(super) directory: &'a OwnedFd,
    /// Its name there.
    pub(super) name: &'a OsStr,
    /// What it is.
    pub(super) kind: EntryKind,
    /// Its path, with the root as it was named.
    pub(super) path: &'a Path,
}

/// What was not seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SkippedEntries {
    /// Directories that could not be read.
    pub(super) unreadable: usize,
    /// Directories with too much in them, or too deep.
    pub(super) cut: usize,
}

impl SkippedEntries {
    /// Says what was missed, if anything was.
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

/// A directory that is being looked through.
struct WalkLevel {
    directory: OwnedFd,
    path: PathBuf,
    rules: Rules,
    entries: std::vec::IntoIter<DirEntry>,
}

/// Shows everything below an absolute path, by name, each directory before what is in it.
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
    // One that was removed or swapped for a link meanwhile is not there any more.
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

/// The rules of the directories above a path, as far up as the roots go: outermost first.
fn rules_above(workspace: &Workspace, path: &Path) -> Vec<Rules> {
    let above = path.ancestors().skip(1);
    let inside = above.map_while(|above| Some((above, workspace.roots.directory(above).ok()?)));
    let mut rules: Vec<Rules> = inside.map(|(path, directory)| Rules::of(&directory, path)).collect();
    rules.reverse();
    rules
}
