//! The rules of `.gitignore` and `.ignore` files. They are read through directories that are already open; ignore files
//! outside the roots have no effect.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rethread::sandbox::open_regular_in;

/// The names of ignore files; rules of the later one win.
const FILES: [&str; 2] = [".gitignore", ".ignore"];
/// The maximum number of bytes of an ignore file that are read.
const LARGEST: u64 = 256 * 1024;

/// The ignore rules of one directory.
#[derive(Debug)]
pub(super) struct Rules(Option<Gitignore>);

impl Rules {
    /// Reads the rules of an open directory with this path.
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
                // An invalid line is skipped.
                any |= builder.add_line(None, line).is_ok();
            }
        }
        Self(if any { builder.build().ok() } else { None })
    }
}

/// Whether a path is ignored; rules are ordered from the outermost directory to the innermost.
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
