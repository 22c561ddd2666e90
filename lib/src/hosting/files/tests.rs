//! Files inside and outside the roots, and attempts to get from the one to the other.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::TempDir;

use super::{LONGEST, Lines, TextError, read, refused, write};
use crate::rooted::{FileError, PathError, Roots};

/// A folder with a root `in` and another root `too`, and a secret beside them.
struct Place {
    folder: TempDir,
    roots: Vec<String>,
}

impl Place {
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
        read(&Roots::find(&self.roots), &self.path(name), Lines::default())
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
    let place = Place::new();
    assert_eq!(place.read("in/deep/b.txt").unwrap(), "deep");
    assert_eq!(place.read("in/deep/../a.txt").unwrap().len(), 18);
    assert_eq!(place.read("too/c.txt").unwrap(), "too");
    place.write("in/new/er/d.txt", "made").unwrap();
    assert_eq!(fs::read_to_string(place.path("in/new/er/d.txt")).unwrap(), "made");
    assert_eq!(fs::read_dir(place.path("in/new/er")).unwrap().count(), 1, "no draft is left");
}

#[test]
fn lines_are_counted_from_one() {
    let place = Place::new();
    let lines = |first, count| {
        read(&Roots::find(&place.roots), &place.path("in/a.txt"), Lines { first, count }).unwrap()
    };
    assert_eq!(lines(Some(1), Some(1)), "one\n");
    assert_eq!(lines(Some(2), Some(2)), "two\nthree\n");
    assert_eq!(lines(Some(3), None), "three\nfour");
    assert_eq!(lines(None, Some(9)), "one\ntwo\nthree\nfour");
    assert_eq!(lines(None, Some(0)), "");
    assert_eq!(lines(Some(9), None), "");
}

#[test]
fn what_lies_outside_is_refused() {
    let place = Place::new();
    for path in ["out/secret.txt", "in/../out/secret.txt", "in/deep/../../out/secret.txt", "index/x", ""] {
        assert!(outside(place.read(path)), "{path}");
        assert!(outside(place.write(path, "no")), "{path}");
    }
    assert!(outside(read(&Roots::find(&place.roots), Path::new("/etc/passwd"), Lines::default())));
    // Up and over into another root is inside again.
    assert_eq!(place.read("in/../too/c.txt").unwrap(), "too");
    assert_eq!(fs::read_to_string(place.path("out/secret.txt")).unwrap(), "secret");
}

#[test]
fn links_may_stay_inside_and_not_lead_out() {
    let place = Place::new();
    symlink("deep/b.txt", place.path("in/file")).unwrap();
    symlink(place.path("in/deep"), place.path("in/folder")).unwrap();
    symlink("../too", place.path("in/other")).unwrap();
    assert_eq!(place.read("in/file").unwrap(), "deep");
    assert_eq!(place.read("in/folder/b.txt").unwrap(), "deep");
    assert_eq!(place.read("in/folder/../deep/b.txt").unwrap(), "deep");
    assert_eq!(place.read("in/other/c.txt").unwrap(), "too");
    place.write("in/file", "through the link").unwrap();
    assert_eq!(fs::read_to_string(place.path("in/deep/b.txt")).unwrap(), "through the link");
    assert!(fs::symlink_metadata(place.path("in/file")).unwrap().is_symlink());

    symlink("../out", place.path("in/way")).unwrap();
    symlink(place.path("out/secret.txt"), place.path("in/direct")).unwrap();
    symlink("way/secret.txt", place.path("in/twice")).unwrap();
    symlink("/proc/self/root", place.path("in/magic")).unwrap();
    for path in ["in/way/secret.txt", "in/way/new.txt", "in/direct", "in/twice", "in/magic/etc/passwd"] {
        assert!(outside(place.read(path)), "{path}");
        assert!(outside(place.write(path, "no")), "{path}");
    }
    assert_eq!(fs::read_to_string(place.path("out/secret.txt")).unwrap(), "secret");
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 1);

    symlink("round", place.path("in/round")).unwrap();
    assert!(matches!(place.read("in/round"), Err(TextError::File(FileError::Path(PathError::Io(_))))));
}

#[test]
fn a_root_may_itself_be_a_link() {
    let place = Place::new();
    symlink(place.path("in"), place.path("named")).unwrap();
    let roots = [place.path("named").to_string_lossy().into_owned()];
    for name in ["named/deep/b.txt", "in/deep/b.txt"] {
        let text = read(&Roots::find(&roots), &place.path(name), Lines::default());
        assert_eq!(text.unwrap(), "deep", "{name}");
    }
}

/// Somebody swaps a directory and a file for links that lead out, again and again, while they are read and
/// written: nothing outside is ever read or changed.
#[test]
fn a_swap_between_look_and_use_leads_nowhere() {
    let place = Place::new();
    fs::create_dir(place.path("in/real")).unwrap();
    fs::write(place.path("in/real/secret.txt"), "harmless").unwrap();
    fs::write(place.path("in/plain.txt"), "harmless").unwrap();
    symlink(place.path("out"), place.path("in/trap")).unwrap();
    symlink(place.path("out/secret.txt"), place.path("in/bait.txt")).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |one: &str, other: &str| {
                let _ = fs::rename(place.path(one), place.path("in/held"));
                let _ = fs::rename(place.path(other), place.path(one));
                let _ = fs::rename(place.path("in/held"), place.path(other));
            };
            while !over.load(Ordering::Relaxed) {
                swap("in/real", "in/trap");
                swap("in/plain.txt", "in/bait.txt");
            }
        });
        let mut read = 0;
        for _ in 0..1500 {
            for path in ["in/real/secret.txt", "in/plain.txt"] {
                if let Ok(text) = place.read(path) {
                    assert_eq!(text, "harmless", "{path}");
                    read += 1;
                }
                let _ = place.write(path, "harmless");
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(read > 0, "some reads must have met the file");
    });
    assert_eq!(fs::read_to_string(place.path("out/secret.txt")).unwrap(), "secret");
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 1);
}

#[test]
fn a_file_that_is_written_keeps_what_it_is() {
    let place = Place::new();
    let path = place.path("in/a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    place.write("in/a.txt", "new").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
    // Its other name may lie outside the roots, and keeps what it has.
    fs::hard_link(&path, place.path("out/twin.txt")).unwrap();
    place.write("in/a.txt", "n").unwrap();
    assert_eq!(fs::read_to_string(place.path("out/twin.txt")).unwrap(), "new");
    assert_eq!(fs::read_to_string(&path).unwrap(), "n");
}

#[test]
fn what_is_no_text_file_is_refused_in_words() {
    let place = Place::new();
    fs::write(place.path("in/bytes"), [0xff, 0xfe]).unwrap();
    let long = fs::File::create(place.path("in/long")).unwrap();
    long.set_len(LONGEST as u64 + 1).unwrap();
    let fifo = std::ffi::CString::new(place.path("in/fifo").to_str().unwrap()).unwrap();
    // SAFETY: the path has its end.
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
        let error = place.read(name).unwrap_err();
        let told = refused(&error, "path", name, &place.roots);
        assert_eq!(told.code, code, "{name}: {told:?}");
        assert!(told.message.contains(says), "{name}: {told:?}");
        let data = told.data.unwrap().value();
        assert_eq!((data["field"].as_str(), data["got"].as_str()), (Some("path"), Some(name)));
        assert!(data["hint"].is_string());
        assert_eq!(data["uri"].is_string(), code == -32002);
    }
    // Of a file that is too long some lines can be had.
    let lines = Lines { first: Some(2), count: None };
    assert_eq!(read(&Roots::find(&place.roots), &place.path("in/long"), lines).unwrap(), "");
    assert!(matches!(place.write("in/x", &"x".repeat(LONGEST + 1)), Err(TextError::TooLong)));
    assert!(matches!(place.write("in/fifo", "x"), Err(TextError::File(FileError::NotAFile))));
}
