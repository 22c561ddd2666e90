//! Folders for the stores: one on a disk whose writes the system counts, and one on a RAM disk.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::meter::written_bytes;

const RAM_DISK: &str = "/dev/shm";
const PROBE: usize = 64 * 1024;

/// A new folder for a store, on disk where there is one.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(place()).expect("a folder can be made")
}

/// A new folder on a RAM disk.
pub(crate) fn ram_folder() -> Option<TempDir> {
    let is_ram_disk = Path::new(RAM_DISK).is_dir() && !counts_writes(Path::new(RAM_DISK));
    is_ram_disk.then(|| TempDir::new_in(RAM_DISK).expect("a folder can be made"))
}

/// Where [`folder`] makes its folders: the first place whose writes are counted, else the folder for temporary files.
pub(crate) fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let temporary = std::env::temp_dir();
        let places = [temporary.clone(), "/var/tmp".into(), env!("CARGO_TARGET_TMPDIR").into()];
        places.into_iter().find(|place| counts_writes(place)).unwrap_or(temporary)
    })
}

/// Whether the system counts what is written below this folder as written to disk.
pub(crate) fn counts_writes(place: &Path) -> bool {
    let Ok(folder) = TempDir::new_in(place) else { return false };
    let before = written_bytes(process::id());
    let written = File::create(folder.path().join("probe")).and_then(|mut file| {
        file.write_all(&[1; PROBE])?;
        file.sync_data()
    });
    written.is_ok() && written_bytes(process::id()) >= before + PROBE as u64
}
