//! Inspects the folders of a store: sizes, access, leftovers and the file system. Opens no database.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::super::EmbeddedPaths;
use super::super::files::{network_file_system, with_suffix};
use super::super::locks::{self, Holder};
use super::{Inspection, StoreLeftover, StoreProblem};

/// How old a file must be to count as left over.
pub(super) const LEFT_FOR: Duration = Duration::from_secs(60);

/// Access for others than the owner.
const OTHERS: u32 = 0o077;

pub(super) fn inspect(paths: &EmbeddedPaths, inspection: &mut Inspection) {
    let Some(folder) = paths.database.parent() else { return };
    if let Some(name) = network_file_system(folder) {
        inspection.problems.push(StoreProblem::NetworkFileSystem(name.to_owned()));
    }
    match fs::metadata(&paths.database) {
        Ok(meta) => {
            inspection.sizes.database = meta.len();
            exposed(&paths.database, &meta, inspection);
        }
        Err(error) => unreadable(&paths.database, &error, inspection),
    }
    inspection.sizes.log = fs::metadata(with_suffix(&paths.database, "-wal")).map_or(0, |meta| meta.len());
    copies(folder, paths, inspection);
    journal_sizes(&paths.journals(), inspection);
    stale_locks(&paths.locks, inspection);
}

/// What does not exist yet is no problem.
fn unreadable(path: &Path, error: &io::Error, inspection: &mut Inspection) {
    if error.kind() != io::ErrorKind::NotFound {
        let (path, cause) = (path.to_owned(), error.to_string());
        inspection.problems.push(StoreProblem::Unreadable { path, cause });
    }
}

fn exposed(path: &Path, meta: &Metadata, inspection: &mut Inspection) {
    if meta.permissions().mode() & OTHERS != 0 {
        inspection.problems.push(StoreProblem::Exposed(path.to_owned()));
    }
}

/// The copies that migrations made, and copies that were not finished.
fn copies(folder: &Path, paths: &EmbeddedPaths, inspection: &mut Inspection) {
    let (mut count, mut bytes) = (0, 0);
    for (name, meta) in entries(folder, inspection) {
        if is_copy(paths, &name) {
            inspection.sizes.backups += meta.len();
        } else if is_part(paths, &name) && is_old(&meta) {
            (count, bytes) = (count + 1, bytes + meta.len());
        }
    }
    if count > 0 {
        inspection.problems.push(StoreProblem::Left(StoreLeftover::UnusedFiles { count, bytes }));
    }
}

fn is_copy(paths: &EmbeddedPaths, name: &str) -> bool {
    base(paths).is_some_and(|base| name.starts_with(&format!("{base}.v")) && name.ends_with(".backup"))
}

fn is_part(paths: &EmbeddedPaths, name: &str) -> bool {
    base(paths).is_some_and(|base| name.starts_with(&format!("{base}.v")) && name.ends_with(".backup.part"))
}

fn base(paths: &EmbeddedPaths) -> Option<&str> {
    paths.database.file_name().and_then(|name| name.to_str())
}

/// Removes copies that were not finished. Call it while a store is open: then no process migrates.
pub(super) fn remove_parts(paths: &EmbeddedPaths) -> io::Result<()> {
    let Some(folder) = paths.database.parent() else { return Ok(()) };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| is_part(paths, name)) && is_old(&entry.metadata()?) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns whether nobody can be about to use a file.
pub(super) fn is_old(meta: &Metadata) -> bool {
    meta.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LEFT_FOR))
}

fn journal_sizes(folder: &Path, inspection: &mut Inspection) {
    for (name, meta) in entries(folder, inspection) {
        if name.ends_with(".log") {
            inspection.sizes.journal_files += 1;
            inspection.sizes.journals += meta.len();
        }
    }
}

fn stale_locks(folder: &Path, inspection: &mut Inspection) {
    let names: Vec<String> = entries(folder, inspection).into_iter().map(|(name, _)| name).collect();
    let stale = |name: &&String| {
        let lock = name.strip_suffix(".lock");
        lock.is_some_and(|lock| matches!(locks::query(folder, lock), Ok(Holder::Gone)))
    };
    let count = names.iter().filter(stale).count() as u64;
    if count > 0 {
        inspection.problems.push(StoreProblem::Left(StoreLeftover::StaleLocks(count)));
    }
}

/// The files of a folder with their names.
pub(super) fn entries(folder: &Path, inspection: &mut Inspection) -> Vec<(String, Metadata)> {
    let listed = fs::read_dir(folder).and_then(|entries| {
        let named = entries.map(|entry| entry.map(|entry| (entry.file_name(), entry.metadata())));
        named.collect::<Result<Vec<_>, _>>()
    });
    match listed {
        Ok(entries) => entries
            .into_iter()
            // One that has vanished meanwhile is not there.
            .filter_map(|(name, meta)| Some((name.into_string().ok()?, meta.ok()?)))
            .collect(),
        Err(error) => {
            unreadable(folder, &error, inspection);
            Vec::new()
        }
    }
}
