//! The registration of a server: a locked file in the state folder that says which process serves the store and where. The
//! lock makes sure that there is one server; what a dead one left in the file is ignored.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registered {
    /// The process of the server.
    pub(crate) pid: u32,
    /// Its socket, once it listens.
    pub(crate) socket: Option<PathBuf>,
    /// Its other addresses.
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    /// Its store, without a password; nothing for the embedded one.
    #[serde(default)]
    pub(crate) store: Option<String>,
}

impl Registered {
    /// All addresses for people.
    pub(crate) fn all_addresses(&self) -> Vec<String> {
        let socket = self.socket.iter().map(|path| format!("unix:{}", path.display()));
        socket.chain(self.addresses.iter().cloned()).collect()
    }

    /// Reads the file. Nothing if there is none, or if it was left empty.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
    }
}

/// The registration of this process. The file is emptied on drop.
#[derive(Debug)]
pub(crate) struct Registration {
    file: File,
}

/// Why this process cannot be the server.
#[derive(Debug)]
pub(crate) enum NotRegistered {
    /// Another process is.
    Taken(Option<Registered>),
    /// The file cannot be used.
    Io(io::Error),
}

impl Registration {
    /// Registers this process, without addresses.
    pub(crate) fn take(path: &Path) -> Result<Self, NotRegistered> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(NotRegistered::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(NotRegistered::Taken(Registered::read(path))),
            Err(TryLockError::Error(error)) => return Err(NotRegistered::Io(error)),
        }
        let mut registration = Self { file };
        let starting = Registered { pid: std::process::id(), ..Registered::default() };
        registration.write(&starting).map_err(NotRegistered::Io)?;
        Ok(registration)
    }

    /// Replaces what the file says.
    pub(crate) fn write(&mut self, registered: &Registered) -> io::Result<()> {
        let text = serde_json::to_vec(registered)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&text)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Whoever finds it is told by the socket that nobody is there.
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_registers_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.json");
        assert_eq!(Registered::read(&path), None);
        let mut first = Registration::take(&path).unwrap();
        assert_eq!(Registered::read(&path).unwrap().pid, std::process::id());
        let said = Registered {
            pid: 7,
            socket: Some("/run/a.sock".into()),
            addresses: vec!["http://127.0.0.1:1".into()],
            store: None,
        };
        first.write(&said).unwrap();
        match Registration::take(&path) {
            Err(NotRegistered::Taken(Some(other))) => {
                assert_eq!(other.all_addresses(), ["unix:/run/a.sock", "http://127.0.0.1:1"]);
            }
            other => panic!("{other:?}"),
        }
        first.write(&Registered { pid: 7, ..Registered::default() }).unwrap();
        assert_eq!(Registered::read(&path).unwrap().socket, None, "a shorter text replaces a longer one");
        drop(first);
        assert_eq!(Registered::read(&path), None);
        Registration::take(&path).unwrap();
    }
}
