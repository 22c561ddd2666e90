//! The folders in use, from `RETHREAD_HOME` or the XDG variables. Only this file reads them.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rethread::store::embedded::EmbeddedPaths;

/// The folders in use.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    data: PathBuf,
    state: PathBuf,
    config: PathBuf,
    runtime: Option<PathBuf>,
}

impl Paths {
    /// Reads the environment.
    pub(crate) fn from_environment() -> Result<Self, NoHome> {
        if let Some(home) = variable("RETHREAD_HOME") {
            return Ok(Self { runtime: runtime(), ..Self::below(&home) });
        }
        let home = variable("HOME");
        let below = |name: &str, standard: &str| {
            let given = variable(name).filter(|path| path.is_absolute());
            given.or_else(|| home.as_ref().map(|home| home.join(standard))).ok_or(NoHome)
        };
        Ok(Self {
            data: below("XDG_DATA_HOME", ".local/share")?.join("rethread"),
            state: below("XDG_STATE_HOME", ".local/state")?.join("rethread"),
            config: below("XDG_CONFIG_HOME", ".config")?.join("rethread"),
            runtime: runtime(),
        })
    }

    /// The folders of a `RETHREAD_HOME`, without one for sockets.
    pub(crate) fn below(home: &Path) -> Self {
        let (data, config) = (home.to_owned(), home.to_owned());
        Self { data, state: home.join("state"), config, runtime: None }
    }

    /// The folder with the data.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The folder for locks and logs.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// The folder for sockets in the user's runtime folder, if there is one.
    pub(crate) fn runtime(&self) -> Option<PathBuf> {
        self.runtime.clone()
    }

    /// The file with the tokens of remote clients; its folder may be missing.
    pub(crate) fn tokens(&self) -> PathBuf {
        self.data.join("tokens.json")
    }

    /// Makes the folder with the data.
    pub(crate) fn make_data(&self) -> io::Result<()> {
        make_private(&self.data)
    }

    /// The home folder of the user.
    pub(crate) fn user_home() -> Option<PathBuf> {
        variable("HOME").filter(|home| home.is_absolute())
    }

    /// The file in which a server registers; its folder may be missing.
    pub(crate) fn registration(&self) -> PathBuf {
        self.state.join("server.json")
    }

    /// Makes the folder for locks and logs.
    pub(crate) fn make_state(&self) -> io::Result<()> {
        make_private(&self.state)
    }

    /// The database and the lock files.
    pub(crate) fn store(&self) -> EmbeddedPaths {
        EmbeddedPaths { database: self.data.join("rethread.db"), locks: self.state.join("locks") }
    }

    /// The configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// The file with the prompts that were typed in chats; its folder is created if it is missing.
    pub(crate) fn chat_history(&self) -> io::Result<PathBuf> {
        make_private(&self.state)?;
        Ok(self.state.join("chat_history"))
    }

    /// The folder for copies of databases that are imported, which may not exist.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.state.join("scratch")
    }

    /// The folder for logs, which may not exist.
    pub(crate) fn log_folder(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// The folder for logs, created if it is missing. On a full or read-only disk nothing is logged.
    pub(crate) fn logs(&self) -> io::Result<PathBuf> {
        let logs = self.log_folder();
        match make_private(&logs).map_err(|error| error.kind()) {
            Err(io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem) => Ok(logs),
            Err(other) => Err(other.into()),
            Ok(()) => Ok(logs),
        }
    }
}

/// Neither `RETHREAD_HOME` nor `HOME` is set.
#[derive(Debug)]
pub(crate) struct NoHome;

fn runtime() -> Option<PathBuf> {
    let folder = variable("XDG_RUNTIME_DIR").filter(|path| path.is_absolute() && path.is_dir())?;
    Some(folder.join("rethread"))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn make_private(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
