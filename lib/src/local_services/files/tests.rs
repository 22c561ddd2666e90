//! Tests with files inside and outside the roots, and attempts to escape.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::TempDir;

use super::{LineRange, MAX_TEXT_BYTES, TextError, read, refused, write};
use crate::sandbox::{FileError, PathError, Roots};

/// A folder with two roots, `in` and `too`, and a secret beside them.
struct TestFolder {
    folder: TempDir,
    roots: Vec<String>,
}

impl TestFolder {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        for name in ["in/deep", "too", "out"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        fs::write(path.join("in/a.txt"), "one\ntwo\nthree\nfour").unwrap();
        fs::write(path.join("in/deep/b.txt"), "deep").unwrap();
        fs::write(path.join("too/c.txt"), "too").unwrap();
        fs::write(path.join("out/secret.txt"), "secret").unwrap();
        let roots = ["in", "too"].map(|name| path.join(name).to_string_lossy().into_owned());
        Self { folder, roots: roots.to_vec() }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    fn read(&self, name: &str) -> Result<String, TextError> {
        read(&Roots::find(&self.roots), &self.path(name), LineRange::default())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), TextError> {
        write(&Roots::find(&self.roots), &self.path(name), text)
    }
}

fn outside<T>(outcome: Result<T, TextError>) -> bool {
    matches!(outcome, Err(TextError::File(FileError::Path(PathError::Outside))))
}

#[test]
fn files_inside_are_read_and_written() {
    let folder = TestFolder::new();
    assert_eq!(folder.read("in/deep/b.txt").unwrap(), "deep");
    assert_eq!(folder.read("in/deep/../a.txt").unwrap().len(), 18);
    assert_eq!(folder.read("too/c.txt").unwrap(), "too");
    folder.write("in/new/er/d.txt", "made").unwrap();
    assert_eq!(fs::read_to_string(folder.path("in/new/er/d.txt")).unwrap(), "made");
    assert_eq!(fs::read_dir(folder.path("in/new/er")).unwrap().count(), 1, "no draft is left");
}

#[test]
fn lines_are_counted_from_one() {
    let folder = TestFolder::new();
    let lines = |first, count| {
        read(&Roots::find(&folder.roots), &folder.path("in/a.txt"), LineRange { first, count }).unwrap()
    };
    assert_eq!(lines(Some(1), Some(1)), "one\n");
    assert_eq!(lines(Some(2), Some(2)), "two\nthree\n");
    assert_eq!(lines(Some(3), None), "three\nfour");
    assert_eq!(lines(None, Some(9)), "one\ntwo\nthree\nfour");
    assert_eq!(lines(None, Some(0)), "");
    assert_eq!(lines(Some(9), None), "");
}

#[test]
fn paths_outside_are_refused() {
    let folder = TestFolder::new();
    for path in ["out/secret.txt", "in/../out/secret.txt", "in/deep/../../out/secret.txt", "index/x", ""] {
        assert!(outside(folder.read(path)), "{path}");
        assert!(outside(folder.write(path, "no")), "{path}");
    }
    assert!(outside(read(&Roots::find(&folder.roots), Path::new("/etc/passwd"), LineRange::default())));
    // A path through `..` into another root is inside again.
    assert_eq!(folder.read("in/../too/c.txt").unwrap(), "too");
    assert_eq!(fs::read_to_string(folder.path("out/secret.txt")).unwrap(), "secret");
}

#[test]
fn links_may_stay_inside_and_not_lead_out() {
    let folder = TestFolder::new();
    symlink("deep/b.txt", folder.path("in/file")).unwrap();
    symlink(folder.path("in/deep"), folder.path("in/folder")).unwrap();
    symlink("../too", folder.path("in/other")).unwrap();
    assert_eq!(folder.read("in/file").unwrap(), "deep");
    assert_eq!(folder.read("in/folder/b.txt").unwrap(), "deep");
    assert_eq!(folder.read("in/folder/../deep/b.txt").unwrap(), "deep");
    assert_eq!(folder.read("in/other/c.txt").unwrap(), "too");
    folder.write("in/file", "through the link").unwrap();
    assert_eq!(fs::read_to_string(folder.path("in/deep/b.txt")).unwrap(), "through the link");
    assert!(fs::symlink_metadata(folder.path("in/file")).unwrap().is_symlink());

    symlink("../out", folder.path("in/way")).unwrap();
    symlink(folder.path("out/secret.txt"), folder.path("in/direct")).unwrap();
    symlink("way/secret.txt", folder.path("in/twice")).unwrap();
    symlink("/proc/self/root", folder.path("in/magic")).unwrap();
    for path in ["in/way/secret.txt", "in/way/new.txt", "in/direct", "in/twice", "in/magic/etc/passwd"] {
        assert!(outside(folder.read(path)), "{path}");
        assert!(outside(folder.write(path, "no")), "{path}");
    }
    assert_eq!(fs::read_to_string(folder.path("out/secret.txt")).unwrap(), "secret");
    assert_eq!(fs::read_dir(folder.path("out")).unwrap().count(), 1);

    symlink("round", folder.path("in/round")).unwrap();
    assert!(matches!(folder.read("in/round"), Err(TextError::File(FileError::Path(PathError::Io(_))))));
}

#[test]
fn a_root_may_itself_be_a_link() {
    let folder = TestFolder::new();
    symlink(folder.path("in"), folder.path("named")).unwrap();
    let roots = [folder.path("named").to_string_lossy().into_owned()];
    for name in ["named/deep/b.txt", "in/deep/b.txt"] {
        let text = read(&Roots::find(&roots), &folder.path(name), LineRange::default());
        assert_eq!(text.unwrap(), "deep", "{name}");
    }
}

/// A directory and a file are swapped for links that lead out, again and again, while they are read and written:
/// nothing outside is read or changed.
#[test]
fn swapping_files_for_links_never_leads_outside() {
    let folder = TestFolder::new();
    fs::create_dir(folder.path("in/real")).unwrap();
    fs::write(folder.path("in/real/secret.txt"), "harmless").unwrap();
    fs::write(folder.path("in/plain.txt"), "harmless").unwrap();
    symlink(folder.path("out"), folder.path("in/trap")).unwrap();
    symlink(folder.path("out/secret.txt"), folder.path("in/bait.txt")).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |one: &str, other: &str| {
                let _ = fs::rename(folder.path(one), folder.path("in/held"));
                let _ = fs::rename(folder.path(other), folder.path(one));
                let _ = fs::rename(folder.path("in/held"), folder.path(other));
            };
            while !over.load(Ordering::Relaxed) {
                swap("in/real", "in/trap");
                swap("in/plain.txt", "in/bait.txt");
            }
        });
        let mut read = 0;
        for _ in 0..1500 {
            for path in ["in/real/secret.txt", "in/plain.txt"] {
                if let Ok(text) = folder.read(path) {
                    assert_eq!(text, "harmless", "{path}");
                    read += 1;
                }
                let _ = folder.write(path, "harmless");
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(read > 0, "some reads must have met the file");
    });
    assert_eq!(fs::read_to_string(folder.path("out/secret.txt")).unwrap(), "secret");
    assert_eq!(fs::read_dir(folder.path("out")).unwrap().count(), 1);
}

#[test]
fn a_written_file_keeps_its_mode() {
    let folder = TestFolder::new();
    let path = folder.path("in/a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    folder.write("in/a.txt", "new").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
    // The other hard link may be outside the roots and keeps its content.
    fs::hard_link(&path, folder.path("out/twin.txt")).unwrap();
    folder.write("in/a.txt", "n").unwrap();
    assert_eq!(fs::read_to_string(folder.path("out/twin.txt")).unwrap(), "new");
    assert_eq!(fs::read_to_string(&path).unwrap(), "n");
}

#[test]
fn anything_but_a_text_file_is_refused_with_a_reason() {
    let folder = TestFolder::new();
    fs::write(folder.path("in/bytes"), [0xff, 0xfe]).unwrap();
    let long = fs::File::create(folder.path("in/long")).unwrap();
    long.set_len(MAX_TEXT_BYTES as u64 + 1).unwrap();
    let fifo = std::ffi::CString::new(folder.path("in/fifo").to_str().unwrap()).unwrap();
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    for (name, code, says) in [
        ("in/bytes", -32602, "UTF-8"),
        ("in/long", -32602, "52428800"),
        ("in/fifo", -32602, "regular file"),
        ("in/deep", -32602, "regular file"),
        ("in/none", -32002, "does not exist"),
        ("in/none/none", -32002, "does not exist"),
        ("in/a.txt/none", -32602, "directory"),
        ("out/secret.txt", -32602, "inside the session's roots"),
    ] {
        let error = folder.read(name).unwrap_err();
        let told = refused(&error, "path", name, &folder.roots);
        assert_eq!(told.code, code, "{name}: {told:?}");
        assert!(told.message.contains(says), "{name}: {told:?}");
        let data = told.data.unwrap().value();
        assert_eq!((data["field"].as_str(), data["got"].as_str()), (Some("path"), Some(name)));
        assert!(data["hint"].is_string());
        assert_eq!(data["uri"].is_string(), code == -32002);
    }
    // Some lines of a file that is too long can be read.
    let lines = LineRange { first: Some(2), count: None };
    assert_eq!(read(&Roots::find(&folder.roots), &folder.path("in/long"), lines).unwrap(), "");
    assert!(matches!(folder.write("in/x", &"x".repeat(MAX_TEXT_BYTES + 1)), Err(TextError::TooLong)));
    assert!(matches!(folder.write("in/fifo", "x"), Err(TextError::File(FileError::NotAFile))));
}
