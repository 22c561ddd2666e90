//! The files of the embedded store: who may see them. Nobody but their owner reads what sessions contain.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::fault::io_failed;
use super::{SqlitePaths, StoreError};

const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
const OTHERS: u32 = 0o077;

/// Makes the directories and the database file if they are missing, and takes the rights of others away from
/// files that are there. Directories that exist stay as they are: they may not be ours alone.
pub(super) fn prepare(paths: &SqlitePaths) -> Result<(), StoreError> {
    if let Some(dir) = paths.database.parent() {
        make_dir(dir)?;
    }
    make_dir(&paths.locks)?;
    let database = &paths.database;
    make_file(database).map_err(io_failed("creating the database", database))?;
    for file in [database.clone(), beside(database, "-wal"), beside(database, "-shm")] {
        close_to_others(&file).map_err(io_failed("protecting", &file))?;
    }
    Ok(())
}

/// The path with something added to its last name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens a file for locking or filling, and makes it if it is missing; what is in it stays. Never a database:
/// see [`make_file`].
pub(super) fn create(path: &Path) -> io::Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::open(path),
        other => other,
    }
}

/// Makes a file if it is missing. One that exists must not even be opened: closing it would drop the locks that
/// SQLite holds on it for this process.
fn make_file(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

fn make_dir(dir: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(dir);
    made.map_err(io_failed("creating the directory", dir))
}

fn close_to_others(file: &Path) -> io::Result<()> {
    let mode = match fs::metadata(file) {
        Ok(found) => found.permissions().mode(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if mode & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(file, Permissions::from_mode(mode & !OTHERS))
}
