//! Finds programs in the search path.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds a program by its path or in a search path, or in that of this process.
pub(crate) fn find_program(program: impl AsRef<Path>, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let program = program.as_ref();
    if program.components().count() > 1 {
        return std::fs::canonicalize(program).ok().filter(|path| is_program(path));
    }
    let folders = search_path.map(OsStr::to_owned).or_else(|| std::env::var_os("PATH"))?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
