//! Creates the files of the embedded store with access for their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::fault::{failed, io_failed};
use super::{EmbeddedPaths, StoreError};

const PRIVATE_DIR: u32 = 0o700;
pub(super) const PRIVATE_FILE: u32 = 0o600;
const GROUP_AND_OTHERS: u32 = 0o077;

/// Creates missing directories and the database file, and removes access of other users from existing files. Existing
/// directories stay as they are, since they may be shared. Where nothing can be written, an existing database can be read.
pub(super) fn prepare(paths: &EmbeddedPaths) -> Result<(), StoreError> {
    match prepare_all(paths) {
        Err(StoreError::Unwritable { .. }) if paths.database.exists() => Ok(()),
        prepared => prepared,
    }
}

fn prepare_all(paths: &EmbeddedPaths) -> Result<(), StoreError> {
    if let Some(dir) = paths.database.parent() {
        make_dir(dir)?;
    }
    make_dir(&paths.locks)?;
    let database = &paths.database;
    make_file(database).map_err(io_failed("creating the database", database))?;
    for file in [database.clone(), with_suffix(database, "-wal"), with_suffix(database, "-shm")] {
        restrict_to_owner(&file).map_err(io_failed("protecting", &file))?;
    }
    make_dir(&paths.journals())
}

/// Refuses a folder on a network file system: locks and memory that processes share do not work there.
pub(super) fn check_file_system(paths: &EmbeddedPaths) -> Result<(), StoreError> {
    let folder = paths.database.parent().unwrap_or(Path::new("/"));
    match network_file_system(folder) {
        Some(name) => Err(failed(
            "opening the store in",
            folder,
            format!("it is on a network file system ({name}); set RETHREAD_HOME to a folder on a local disk"),
        )),
        None => Ok(()),
    }
}

/// The name of the network file system that a folder is on, if it is on one.
#[cfg(target_os = "linux")]
pub(super) fn network_file_system(folder: &Path) -> Option<&'static str> {
    const NETWORK: [(i64, &str); 6] = [
        (0x6969, "NFS"),
        (0xFF53_4D42, "CIFS"),
        (0xFE53_4D42, "SMB"),
        (0x517B, "SMB"),
        (0x5346_414F, "AFS"),
        (0x00C3_6400, "Ceph"),
    ];
    let path = std::ffi::CString::new(folder.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: all zeroes is a valid `statfs`.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero, and the struct is valid for the call.
    if unsafe { libc::statfs(path.as_ptr(), &mut found) } != 0 {
        return None;
    }
    #[allow(clippy::unnecessary_cast, reason = "the type differs between systems")]
    let kind = found.f_type as i64 & 0xFFFF_FFFF;
    NETWORK.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn network_file_system(_folder: &Path) -> Option<&'static str> {
    None
}

/// Appends a suffix to the file name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens a file and creates it if it is missing, without truncating it. Not for databases: see [`make_file`].
pub(super) fn create(path: &Path) -> io::Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::open(path),
        other => other,
    }
}

/// Creates a file if it is missing. An existing one must not be opened: closing it would release the locks that SQLite
/// holds on it for this process.
pub(super) fn make_file(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// Creates a directory so that it survives a power failure, as the files in it do.
pub(super) fn make_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_dir(parent)?;
    match DirBuilder::new().mode(PRIVATE_DIR).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => made.map_err(io_failed("creating the directory", dir))?,
    }
    // A directory that this user may not read cannot be synced.
    match File::open(parent) {
        Ok(parent) => parent.sync_all().map_err(io_failed("syncing the directory of", dir)),
        Err(_) => Ok(()),
    }
}

fn restrict_to_owner(file: &Path) -> io::Result<()> {
    let mode = match fs::metadata(file) {
        Ok(found) => found.permissions().mode(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if mode & GROUP_AND_OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(file, Permissions::from_mode(mode & !GROUP_AND_OTHERS))
}
