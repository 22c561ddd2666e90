//! The workspace of a session's tools: its roots, resolving and displaying paths in them, and files that no tool may use.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread::command::{Environment, GuardianCommand};
use rethread::sandbox::{
    FileError, LinkPolicy, MissingDirs, PathError, PathTarget, ResolvedPath, Roots, open_regular,
};

use super::error::ToolError;
use super::excerpt;
use super::read_files::ReadFiles;

/// The workspace of the tools of a session.
#[derive(Clone, Debug)]
pub(super) struct Workspace {
    /// The roots as they were configured, the working directory first.
    pub(super) named: Vec<PathBuf>,
    /// The roots that exist.
    pub(super) roots: Roots,
    /// Environment variables that commands do not get.
    pub(super) hidden: Vec<String>,
    /// Files that no tool may read or write, by any path.
    pub(super) private: Vec<PathBuf>,
    /// The guardian that tracks the processes of commands.
    pub(super) guardian: Option<GuardianCommand>,
    /// The environment that commands are started in.
    pub(super) environment: Environment,
    /// The files that the model has read.
    pub(super) read_files: Arc<ReadFiles>,
}

/// An open file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) meta: Metadata,
    /// The resolved path.
    pub(super) at: ResolvedPath,
}

/// The target of a path.
#[derive(Debug)]
pub(super) enum Target {
    /// A regular file.
    File(Opened),
    /// A directory.
    Directory(ResolvedPath),
}

impl Workspace {
    /// A workspace with these roots.
    pub(super) fn new(named: Vec<PathBuf>) -> Self {
        let roots = Roots::find(&named);
        Self {
            named,
            roots,
            hidden: Vec::new(),
            private: Vec::new(),
            guardian: None,
            environment: Environment::Inherited,
            read_files: Arc::default(),
        }
    }

    /// The working directory.
    pub(super) fn cwd(&self) -> &Path {
        self.named.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// The absolute path of a path or a `file:` URL; relative paths begin at the working directory.
    pub(super) fn absolute(&self, sent: &str) -> PathBuf {
        file_address(sent).unwrap_or_else(|| self.cwd().join(sent))
    }

    /// A path for users: relative if it is below the working directory.
    pub(super) fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(self.cwd()) {
            Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
            Ok(below) => excerpt::name(below),
            Err(_) => excerpt::name(path),
        }
    }

    /// The error about a path.
    pub(super) fn error(&self, sent: &str, error: impl Into<FileError>) -> ToolError {
        let roots: Vec<_> = self.named.iter().map(|root| root.display().to_string()).collect();
        ToolError::of_file(sent, error.into(), &roots.join(", "))
    }

    /// Opens the target of a path that must exist.
    pub(super) fn target(&self, sent: &str) -> Result<Target, ToolError> {
        let found = self.try_target(&self.absolute(sent));
        found.map_err(|error| self.error(sent, error))
    }

    /// Opens a regular file.
    pub(super) fn file(&self, sent: &str) -> Result<Opened, ToolError> {
        match self.target(sent)? {
            Target::File(opened) => Ok(opened),
            Target::Directory(_) => Err(self.error(sent, std::io::Error::from_raw_os_error(libc::EISDIR))),
        }
    }

    /// Whether no tool may read or write this file.
    pub(super) fn is_private(&self, file: &Metadata) -> bool {
        // Looked up each time, because editors replace a file when they save it.
        let is_it = |path: &PathBuf| {
            std::fs::metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == (file.dev(), file.ino()))
        };
        self.private.iter().any(is_it)
    }

    fn try_target(&self, path: &Path) -> Result<Target, FileError> {
        let place = match self.roots.target(path, MissingDirs::Fail, LinkPolicy::Follow)? {
            PathTarget::Directory(_, at) => return Ok(Target::Directory(at)),
            PathTarget::Missing(_) => return Err(std::io::Error::from_raw_os_error(libc::ENOENT).into()),
            PathTarget::Entry(place) => place,
        };
        match open_regular(&place, libc::O_RDONLY) {
            Ok((_, meta)) if self.is_private(&meta) => Err(private()),
            Ok((file, meta)) => Ok(Target::File(Opened { file, meta, at: place.at })),
            Err(error @ (FileError::NotAFile | FileError::Path(PathError::Io(_)))) => {
                // A directory without read permission may still be passed through.
                match self.roots.directory_at(&place.at.real) {
                    Ok((_, at)) => Ok(Target::Directory(at)),
                    Err(_) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// The error about a private file.
pub(super) fn private() -> FileError {
    let why = "it holds keys, and no tool may use it";
    std::io::Error::new(std::io::ErrorKind::PermissionDenied, why).into()
}

/// The path of a `file:` URL of this machine.
fn file_address(sent: &str) -> Option<PathBuf> {
    let (scheme, rest) = sent.split_once("://")?;
    let (host, _) = rest.split_once('/')?;
    let is_here = host.is_empty() || host.eq_ignore_ascii_case("localhost");
    let path = &rest.as_bytes()[host.len()..];
    (scheme.eq_ignore_ascii_case("file") && is_here)
        .then(|| PathBuf::from(OsString::from_vec(percent_decoded(path))))
}

/// Decodes percent escapes; invalid ones stay unchanged.
fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}
