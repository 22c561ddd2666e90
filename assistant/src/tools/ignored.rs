//! What the ignore files of a project leave out. They are read through the directories that were opened; ignore
//! files outside the roots do not count.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rethread::sandbox::open_regular_in;

/// The files that say what to leave out; of two, the later one counts.
const FILES: [&str; 2] = [".gitignore", ".ignore"];
/// How much of such a file is read.
const LARGEST: u64 = 256 * 1024;

/// What one directory leaves out below it.
#[derive(Debug)]
pub(super) struct Rules(Option<Gitignore>);

impl Rules {
    /// Reads what an open directory with this path says.
    pub(super) fn of(directory: &OwnedFd, path: &Path) -> Self {
        let mut builder = GitignoreBuilder::new(path);
        let mut any = false;
        for name in FILES {
            let Ok((file, _)) = open_regular_in(directory.as_fd(), OsStr::new(name), libc::O_RDONLY) else {
                continue;
            };
            let mut bytes = Vec::new();
            if file.take(LARGEST).read_to_end(&mut bytes).is_err() {
                continue;
            }
            for line in String::from_utf8_lossy(&bytes).lines() {
                // A line that makes no sense leaves nothing out.
                any |= builder.add_line(None, line).is_ok();
            }
        }
        Self(if any { builder.build().ok() } else { None })
    }
}

/// Says whether something is left out, by rules of the innermost directory last.
pub(super) fn is_ignored<'a>(
    rules: impl DoubleEndedIterator<Item = &'a Rules>,
    path: &Path,
    is_directory: bool,
) -> bool {
    for rules in rules.rev().filter_map(|rules| rules.0.as_ref()) {
        match rules.matched(path, is_directory) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}
