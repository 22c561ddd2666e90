//! Files and folders of other tools, opened for reading only: regular files, never through a symbolic link at the end of
//! a path that was found. Folders are listed without following links, so that loops do not matter.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rethread_core::Millis;

use super::reader::Found;

/// How many levels of folders are looked into.
const MAX_DEPTH: usize = 12;

/// A time in milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> Millis {
    u64::try_from(crate::clock::since_1970(time).as_millis()).unwrap_or(u64::MAX)
}

/// Opens a regular file for reading. A pipe or a device is refused without waiting for it.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok((file, metadata))
}

/// Lists the regular files below a folder for which `wanted` holds, in the order of their paths. Links are not followed.
/// Folders that cannot be read are reported.
pub fn files_below(
    folder: &Path,
    found: &mut Found,
    wanted: impl Fn(&Path) -> bool,
) -> Vec<(PathBuf, Metadata)> {
    let mut files = Vec::new();
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        let listed = match std::fs::read_dir(&folder) {
            Ok(listed) => listed,
            Err(error) => {
                found.unreadable(&folder, &error);
                continue;
            }
        };
        for item in listed {
            match item.and_then(|item| Ok((item.path(), item.metadata()?))) {
                Ok((path, metadata)) if metadata.is_dir() && depth < MAX_DEPTH => {
                    open.push((path, depth + 1))
                }
                Ok((path, metadata)) if metadata.is_file() && wanted(&path) => files.push((path, metadata)),
                Ok(_) => {}
                Err(error) => found.unreadable(&folder, &error),
            }
        }
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    files
}

/// The name of a file without its last extension.
#[must_use]
pub fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Says whether the name of a file ends with a text.
#[must_use]
pub fn has_ending(path: &Path, ending: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(ending))
}
