//! A small disk for the programs of a test: a file system in memory that is mounted in a mount namespace of its own. It can
//! be filled and made read-only. Linux only.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr;

/// A mounted disk, which is gone when this is dropped and its programs have ended.
pub struct SmallDisk {
    /// Keeps the namespace alive.
    holder: Child,
    at: PathBuf,
}

/// Whether a disk can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It can only be read.
    ReadOnly,
    /// It can be written.
    Writable,
}

impl SmallDisk {
    /// Mounts a disk of this size at a folder, which exists. Nothing if the system does not allow that: it says so, and the
    /// test is to end.
    #[must_use]
    pub fn mount(at: &Path, bytes: u64) -> Option<Self> {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null()).stdout(Stdio::null());
        let target = c_string(at.as_os_str());
        let options = c_string(OsStr::new(&format!("size={bytes},mode=0700")));
        let namespaces = Namespaces::of_this_user();
        // SAFETY: only system calls are made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                namespaces.unshare()?;
                mount(None, c"/", libc::MS_REC | libc::MS_PRIVATE, None)?;
                mount(Some(c"tmpfs"), &target, 0, Some(&options))
            });
        }
        match command.spawn() {
            Ok(holder) => Some(Self { holder, at: at.to_owned() }),
            Err(error) => {
                eprintln!("skipped: no file system can be mounted here: {error}");
                None
            }
        }
    }

    /// Has a program see this disk. `cwd` is its working directory.
    pub fn enter(&self, command: &mut Command, cwd: &Path) {
        let namespaces = ["user", "mnt"].map(|kind| {
            File::open(format!("/proc/{}/ns/{kind}", self.holder.id())).expect("the holder has namespaces")
        });
        let (cwd, own_user) = (c_string(cwd.as_os_str()), Namespaces::of_this_user() == Namespaces::Mounts);
        // SAFETY: only system calls are made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                let [user, mounts] = &namespaces;
                if !own_user {
                    checked(libc::setns(user.as_raw_fd(), libc::CLONE_NEWUSER))?;
                }
                checked(libc::setns(mounts.as_raw_fd(), libc::CLONE_NEWNS))?;
                checked(libc::chdir(cwd.as_ptr()))
            });
        }
    }

    /// The root of the disk, as this process can open it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let inside = self.at.strip_prefix("/").expect("the folder has an absolute path");
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(inside)
    }

    /// Takes all room that is left.
    pub fn fill(&self) {
        let opened = File::options().create(true).append(true).open(self.filling());
        let mut file = opened.expect("a file can be made");
        let full = loop {
            if let Err(error) = file.write_all(&[0; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
    }

    /// Gives back what [`SmallDisk::fill`] took.
    pub fn make_room(&self) {
        fs::remove_file(self.filling()).expect("the disk was filled");
    }

    /// Mounts the disk again, with this access.
    pub fn set_access(&self, access: Access) {
        let flags = match access {
            Access::ReadOnly => libc::MS_REMOUNT | libc::MS_RDONLY,
            Access::Writable => libc::MS_REMOUNT,
        };
        let target = c_string(self.at.as_os_str());
        let mut command = Command::new("true");
        self.enter(&mut command, Path::new("/"));
        // SAFETY: only a system call is made between fork and exec.
        unsafe {
            command.pre_exec(move || mount(None, &target, flags, None));
        }
        assert!(command.status().expect("the disk can be mounted again").success());
    }

    fn filling(&self) -> PathBuf {
        self.path().join("filling")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The namespaces that are needed to mount something.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Namespaces {
    /// Of mounts, for root.
    Mounts,
    /// Of users too, in which other users may mount. With the maps of the user's and the group's id.
    UsersAndMounts { user: String, group: String },
}

impl Namespaces {
    fn of_this_user() -> Self {
        // SAFETY: plain calls that cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        match user {
            0 => Self::Mounts,
            _ => {
                Self::UsersAndMounts { user: format!("{user} {user} 1"), group: format!("{group} {group} 1") }
            }
        }
    }

    /// Leaves the namespaces of the parent. Called between fork and exec.
    fn unshare(&self) -> io::Result<()> {
        // SAFETY: plain calls.
        unsafe {
            match self {
                Self::Mounts => checked(libc::unshare(libc::CLONE_NEWNS)),
                Self::UsersAndMounts { user, group } => {
                    checked(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS))?;
                    write_file(c"/proc/self/setgroups", b"deny")?;
                    write_file(c"/proc/self/uid_map", user.as_bytes())?;
                    write_file(c"/proc/self/gid_map", group.as_bytes())
                }
            }
        }
    }
}

fn c_string(text: &OsStr) -> CString {
    CString::new(text.as_bytes()).expect("there is no zero in it")
}

/// Writes to a file without allocating.
fn write_file(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: path and bytes are valid for the calls.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        checked(file)?;
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        checked(if written < 0 { -1 } else { 0 })
    }
}

fn mount(
    kind: Option<&std::ffi::CStr>,
    target: &std::ffi::CStr,
    flags: libc::c_ulong,
    options: Option<&std::ffi::CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&std::ffi::CStr>| text.map_or(ptr::null(), std::ffi::CStr::as_ptr);
    // SAFETY: the strings are valid for the call.
    checked(unsafe {
        libc::mount(pointer(kind), target.as_ptr(), pointer(kind), flags, pointer(options).cast())
    })
}

fn checked(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
