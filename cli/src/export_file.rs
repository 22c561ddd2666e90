//! The file that an export is written to. It appears when it is complete, and replaces another one only on request.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rethread::store::SessionRow;

use crate::failure::{ExitCode, Failure};
use crate::output::stream::OutputStream;

/// How many characters of a title are part of a file name.
const MAX_TITLE: usize = 48;

/// Whether a file that exists is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// It is.
    Allowed,
    /// It is not.
    Refused,
}

/// Where an export is written to.
pub(crate) enum ExportFile {
    /// Stdout.
    Stdout(OutputStream),
    /// A pipe or a device.
    Special(BufWriter<File>, PathBuf),
    /// A file under another name, until it is complete.
    Pending(PendingFile),
}

impl ExportFile {
    /// Writes to stdout.
    pub(crate) fn stdout() -> Self {
        Self::Stdout(OutputStream::stdout())
    }

    /// Writes to a file, which only this user can read.
    pub(crate) fn create(path: &Path, overwrite: Overwrite) -> Result<Self, Failure> {
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                let file =
                    OpenOptions::new().write(true).open(path).map_err(|error| unwritten(path, &error))?;
                Ok(Self::Special(BufWriter::new(file), path.to_owned()))
            }
            Ok(_) if overwrite == Overwrite::Refused => Err(exists(path)),
            Ok(_) | Err(_) => PendingFile::create(path, overwrite).map(Self::Pending),
        }
    }

    /// Writes a text.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Stdout(stream) => stream.print(text),
            Self::Special(file, path) => {
                file.write_all(text.as_bytes()).map_err(|error| unwritten(path, &error))
            }
            Self::Pending(pending) => {
                let written = pending.file.write_all(text.as_bytes());
                written.map_err(|error| unwritten(&pending.path, &error))
            }
        }
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(stream) => stream.finish(),
            Self::Special(mut file, path) => file.flush().map_err(|error| unwritten(&path, &error)),
            Self::Pending(pending) => pending.finish(),
        }
    }
}

/// A file that is not complete. Removed on drop.
pub(crate) struct PendingFile {
    file: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
    overwrite: Overwrite,
}

impl PendingFile {
    fn create(path: &Path, overwrite: Overwrite) -> Result<Self, Failure> {
        let name = path.file_name().ok_or_else(|| {
            Failure::new(ExitCode::Usage, format!("{} is not the name of a file", path.display()))
        })?;
        let partial = format!(".{}.{}.partial", name.display(), std::process::id());
        let partial = path.with_file_name(partial);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial);
        let file = BufWriter::new(file.map_err(|error| unwritten(path, &error))?);
        Ok(Self { file, partial, path: path.to_owned(), overwrite })
    }

    fn finish(mut self) -> Result<(), Failure> {
        let written = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        written.map_err(|error| unwritten(&self.path, &error))?;
        let named = match self.overwrite {
            Overwrite::Allowed => fs::rename(&self.partial, &self.path),
            Overwrite::Refused => self.link(),
        };
        named.map_err(|error| {
            let is_there = error.kind() == io::ErrorKind::AlreadyExists;
            if is_there { exists(&self.path) } else { unwritten(&self.path, &error) }
        })
    }

    /// Gives the file its name. A link, unlike a rename, never replaces a file that has just come into being, but some file
    /// systems have none.
    fn link(&self) -> io::Result<()> {
        let linked = fs::hard_link(&self.partial, &self.path);
        linked.or_else(|error| {
            let is_there = error.kind() == io::ErrorKind::AlreadyExists;
            if is_there { Err(error) } else { fs::rename(&self.partial, &self.path) }
        })
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // It has its final name, or nobody wants it.
        let _ = fs::remove_file(&self.partial);
    }
}

/// The name of a session's file: the beginning of its title, and the end of its id.
pub(crate) fn file_name(row: &SessionRow, extension: &str) -> String {
    let title = row.title.as_ref().map_or("", |(title, _)| title.as_str());
    let title: String = title.chars().take(MAX_TITLE).collect();
    let words = |text: &str| {
        let letters = text.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect::<String>();
        letters.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join("-")
    };
    let id = words(row.id.as_str());
    match words(&title) {
        title if title.is_empty() => format!("{id}.{extension}"),
        title => format!("{title}-{id}.{extension}"),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::new(ExitCode::Refused, format!("{} exists already", path.display()))
        .hint("choose another name, or replace it with --force")
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::output_closed();
    }
    Failure::plain(&format!("writing {} failed: {error}", path.display()))
        .hint("check the folder and the space on its disk")
}
