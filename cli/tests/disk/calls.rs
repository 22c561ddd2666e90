//! Reads a record of strace (`-f -y -xx`): the system calls of a program that change a folder, and its writes to a pipe.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The system calls to record.
pub(crate) const TRACED: &str = "openat,open,creat,write,pwrite64,pwritev,writev,ftruncate,fallocate,fsync,fdatasync,\
                                 rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat";

/// One call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) what: Effect,
    /// The place in the record at which it began. It ended where it stands in the list.
    pub(crate) began: usize,
    /// The place in the record at which it ended.
    pub(crate) ended: usize,
}

/// What a call does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Opens a file and creates it if it is missing.
    Create(PathBuf),
    MakeDir(PathBuf),
    Write {
        file: PathBuf,
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        file: PathBuf,
        length: u64,
    },
    /// Of a file or a directory.
    Sync(PathBuf),
    Remove(PathBuf),
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    /// A write to the pipe.
    Answer(Vec<u8>),
}

/// Reads a record: the calls that concern files below `folder`, and the writes to the pipe with this name.
pub(crate) fn parse(record: &str, folder: &Path, pipe: &str) -> Vec<Call> {
    let mut unfinished: HashMap<&str, (usize, String)> = HashMap::new();
    let mut calls = Vec::new();
    for (at, line) in record.lines().enumerate() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            unfinished.insert(process, (at, begun.trim_end().to_owned()));
            continue;
        }
        let (began, text) = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let Some((began, begun)) = unfinished.remove(process) else { continue };
                let end = resumed.split_once(" resumed>").map_or("", |(_, end)| end);
                (began, format!("{begun}{end}"))
            }
            None => (at, rest.to_owned()),
        };
        let what = effect(&text, pipe).filter(|what| what.concerns(folder));
        calls.extend(what.map(|what| Call { what, began, ended: at }));
    }
    calls
}

impl Effect {
    fn concerns(&self, folder: &Path) -> bool {
        match self {
            Self::Create(path)
            | Self::MakeDir(path)
            | Self::Sync(path)
            | Self::Remove(path)
            | Self::Write { file: path, .. }
            | Self::Truncate { file: path, .. }
            | Self::Rename { to: path, .. } => path.starts_with(folder),
            Self::Answer(_) => true,
        }
    }
}

fn effect(call: &str, pipe: &str) -> Option<Effect> {
    let (name, rest) = call.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    // A file descriptor as a result is followed by its path.
    let result: i64 = result.split(['<', ' ']).next()?.parse().ok()?;
    let result = u64::try_from(result).ok()?;
    let arguments: Vec<&str> = split(arguments);
    let path = |at: usize| arguments.get(at).and_then(|text| quoted(text)).map(path_of);
    match name {
        "open" | "creat" => opened(path(0)?, arguments.get(1).copied().unwrap_or("O_CREAT|O_TRUNC")),
        "openat" => opened(path(1)?, arguments.get(2)?),
        "mkdir" => path(0).map(Effect::MakeDir),
        "mkdirat" => path(1).map(Effect::MakeDir),
        "unlink" => path(0).map(Effect::Remove),
        "unlinkat" => path(1).map(Effect::Remove),
        "rename" => Some(Effect::Rename { from: path(0)?, to: path(1)? }),
        "renameat" | "renameat2" => Some(Effect::Rename { from: path(1)?, to: path(3)? }),
        "fsync" | "fdatasync" => descriptor(arguments.first()?).map(path_of).map(Effect::Sync),
        "ftruncate" => {
            let length = arguments.get(1)?.parse().ok()?;
            Some(Effect::Truncate { file: path_of(descriptor(arguments.first()?)?), length })
        }
        "pwrite64" => {
            let (bytes, offset) = (written(arguments.get(1)?, result)?, arguments.get(3)?.parse().ok()?);
            Some(Effect::Write { file: path_of(descriptor(arguments.first()?)?), offset, bytes })
        }
        "write" => {
            let to = descriptor(arguments.first()?)?;
            let is_pipe = to == pipe.as_bytes();
            if is_pipe { written(arguments.get(1)?, result).map(Effect::Answer) } else { None }
        }
        // A store does not use them; a test that misses such a write would prove nothing.
        "writev" | "pwritev" | "fallocate" => {
            let to = path_of(descriptor(arguments.first()?)?);
            assert!(!to.is_absolute() || to.starts_with("/dev"), "{name} to {}", to.display());
            None
        }
        _ => None,
    }
}

fn opened(path: PathBuf, flags: &str) -> Option<Effect> {
    assert!(!flags.contains("O_TRUNC") || !flags.contains("O_WRONLY"), "{} is truncated", path.display());
    flags.contains("O_CREAT").then_some(Effect::Create(path))
}

/// Splits arguments at commas. All texts are in hexadecimal, so that none has a comma.
fn split(arguments: &str) -> Vec<&str> {
    arguments.split(", ").map(str::trim).collect()
}

fn quoted(argument: &str) -> Option<Vec<u8>> {
    // A text that was cut off ends with dots; none may be.
    let hex = argument.strip_prefix('"')?.strip_suffix('"')?;
    unescaped(hex)
}

fn written(argument: &str, count: u64) -> Option<Vec<u8>> {
    let mut bytes = quoted(argument)?;
    bytes.truncate(usize::try_from(count).ok()?);
    Some(bytes)
}

/// The path behind a file descriptor, `3<path>`. Nothing for a file that was removed.
fn descriptor(argument: &str) -> Option<Vec<u8>> {
    let path = argument.split_once('<')?.1.strip_suffix('>')?;
    unescaped(path)
}

fn unescaped(hex: &str) -> Option<Vec<u8>> {
    let byte = |digits: &str| u8::from_str_radix(digits, 16).ok();
    hex.split("\\x").skip(1).map(byte).collect()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    #[test]
    fn calls_are_read_with_their_beginning_and_end() {
        let (file, other, pipe) = (hex("/home/a"), hex("/etc/b"), hex("pipe:[7]"));
        let record = format!(
            "10 openat(AT_FDCWD<{file}>, \"{file}\", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3<{file}>\n\
             10 openat(AT_FDCWD<{file}>, \"{other}\", O_RDWR|O_CREAT, 0600) = 4<{other}>\n\
             10 pwrite64(3<{file}>, \"{}\", 3, 5 <unfinished ...>\n\
             11 write(1<{pipe}>, \"{}\", 2) = 2\n\
             10 <... pwrite64 resumed>) = 2\n\
             10 fdatasync(3<{file}>) = -1 EIO (Input/output error)\n\
             10 fdatasync(3<{file}>) = 0\n",
            hex("abc"),
            hex("{}")
        );
        let calls = parse(&record, Path::new("/home"), "pipe:[7]");
        let file = PathBuf::from("/home/a");
        let call = |what, began, ended| Call { what, began, ended };
        let expected = [
            call(Effect::Create(file.clone()), 0, 0),
            call(Effect::Answer(b"{}".to_vec()), 3, 3),
            call(Effect::Write { file: file.clone(), offset: 5, bytes: b"ab".to_vec() }, 2, 4),
            call(Effect::Sync(file), 6, 6),
        ];
        assert_eq!(calls, expected);
    }
}
