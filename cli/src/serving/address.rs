//! The path of the socket: named by the data folder, so that each store has its own.

use std::path::{Path, PathBuf};

use rethread::transport::local_socket::LONGEST_PATH;
use sha2::{Digest, Sha256};

use crate::paths::Paths;

/// The socket for the store of these folders, below the runtime folder of the user or the state folder. A path that is too
/// long for a socket is replaced by a short one below the temporary folder.
pub(crate) fn socket_path(paths: &Paths) -> PathBuf {
    let name = format!("{}.sock", fingerprint(paths.data()));
    let folder = paths.runtime().unwrap_or_else(|| paths.state().to_owned());
    let path = folder.join(&name);
    match path.as_os_str().len() <= LONGEST_PATH {
        true => path,
        false => short_folder().join(name),
    }
}

/// Names a data folder by a hash of its path without links.
fn fingerprint(data: &Path) -> String {
    let path = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A folder of this user below the temporary one. Whoever else makes it first makes it useless, not dangerous: its owner is
/// checked.
fn short_folder() -> PathBuf {
    // SAFETY: a plain call that cannot fail.
    let user = unsafe { libc::geteuid() };
    let name = format!("rethread-{user}");
    let temporary = std::env::temp_dir().join(&name);
    // The temporary folder may have a long name, too.
    if temporary.as_os_str().len() + 24 <= LONGEST_PATH { temporary } else { Path::new("/tmp").join(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_has_its_own_socket() {
        let home = |name: &str| Paths::below(Path::new(name));
        let one = socket_path(&home("/home/me/one"));
        assert_eq!(one, socket_path(&home("/home/me/one")));
        assert_ne!(one.file_name(), socket_path(&home("/home/me/two")).file_name());
        assert_eq!(one.file_name().unwrap().len(), "0123456789abcdef.sock".len());
    }

    #[test]
    fn a_long_path_is_replaced() {
        let long = format!("/{}", "x".repeat(LONGEST_PATH));
        let path = socket_path(&Paths::below(Path::new(&long)));
        assert!(path.as_os_str().len() <= LONGEST_PATH, "{}", path.display());
        assert!(path.to_string_lossy().contains("/rethread-"), "{}", path.display());
    }
}
