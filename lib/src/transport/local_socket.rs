//! Unix sockets between processes of one user. A socket is private (0600, in a folder that is 0700), and each side checks
//! that the other one is the same user before anything is sent.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The longest path of a socket that all systems accept.
pub const LONGEST_PATH: usize = 100;

/// Why a socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LocalSocketError {
    /// Nobody listens on it.
    #[error("nobody listens on {}", .0.display())]
    NobodyListens(PathBuf),
    /// Somebody listens on it already.
    #[error("another process listens on {}", .0.display())]
    InUse(PathBuf),
    /// The path is longer than a socket's may be.
    #[error("the path {} is longer than {LONGEST_PATH} bytes", .0.display())]
    TooLong(PathBuf),
    /// There is something else in its place.
    #[error("{} is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// Other users can reach it or have made it.
    #[error("{} is not private: {why}", path.display())]
    NotPrivate {
        /// The folder or the socket.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The process at the other end belongs to another user.
    #[error("the process at the other end of {} belongs to another user (id {user})", path.display())]
    OtherUser {
        /// The socket.
        path: PathBuf,
        /// The other user.
        user: u32,
    },
    /// The system refused.
    #[error("using {} failed", path.display())]
    Io {
        /// The folder or the socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl LocalSocketError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    fn not_private(path: &Path, why: impl Into<String>) -> Self {
        Self::NotPrivate { path: path.to_owned(), why: why.into() }
    }
}

/// A socket that accepts processes of this user. It is removed on drop.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket, so that only our own is removed.
    identity: (u64, u64),
}

impl LocalListener {
    /// Makes the socket, and its folder if it is missing. One on which nobody listens is replaced. Must be called in a
    /// runtime.
    pub fn bind(path: &Path) -> Result<Self, LocalSocketError> {
        if path.as_os_str().len() > LONGEST_PATH {
            return Err(LocalSocketError::TooLong(path.to_owned()));
        }
        let folder = folder_of(path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(LocalSocketError::io(folder))?;
        check_folder(folder)?;
        remove_unused(path)?;
        let listener = UnixListener::bind(path).map_err(LocalSocketError::io(path))?;
        // Nobody else gets as far as this in a private folder.
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(LocalSocketError::io(path))?;
        let made = fs::symlink_metadata(path).map_err(LocalSocketError::io(path))?;
        Ok(Self { listener, path: path.to_owned(), identity: (made.dev(), made.ino()) })
    }

    /// Where the socket is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection of a process of this user. Others are closed and reported as an error.
    pub async fn accept(&self) -> Result<UnixStream, LocalSocketError> {
        let (stream, _) = self.listener.accept().await.map_err(LocalSocketError::io(&self.path))?;
        check_peer(&stream, &self.path)?;
        Ok(stream)
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity);
        if ours {
            // What is left is replaced by the next one.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connects to a socket, after it was checked that the folder, the socket and the process behind it are this user's.
pub fn connect(path: &Path) -> Result<BlockingStream, LocalSocketError> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(LocalSocketError::NobodyListens(path.to_owned()));
        }
        found => found.map_err(LocalSocketError::io(path))?,
    };
    check_folder(folder_of(path))?;
    if !found.file_type().is_socket() {
        return Err(LocalSocketError::NotASocket(path.to_owned()));
    }
    if found.uid() != own_user() {
        return Err(LocalSocketError::not_private(path, format!("it belongs to user {}", found.uid())));
    }
    let stream = BlockingStream::connect(path).map_err(|source| {
        let nobody = matches!(source.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound);
        let path = path.to_owned();
        if nobody { LocalSocketError::NobodyListens(path) } else { LocalSocketError::Io { path, source } }
    })?;
    check_peer(&stream, path)?;
    Ok(stream)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A folder in which nobody else can put a socket or reach one. Links are not followed, since their owner could change
/// where they lead.
fn check_folder(folder: &Path) -> Result<(), LocalSocketError> {
    let found = fs::symlink_metadata(folder).map_err(LocalSocketError::io(folder))?;
    let wrong = |why: String| Err(LocalSocketError::not_private(folder, why));
    if !found.is_dir() {
        return wrong("it is not a folder".to_owned());
    }
    if found.uid() != own_user() {
        return wrong(format!("it belongs to user {}", found.uid()));
    }
    match found.mode() & 0o077 {
        0 => Ok(()),
        _ => wrong(format!("its mode is {:o}, not 700", found.mode() & 0o777)),
    }
}

/// Removes a socket on which nobody listens.
fn remove_unused(path: &Path) -> Result<(), LocalSocketError> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(LocalSocketError::io(path))?,
    };
    if !found.file_type().is_socket() {
        return Err(LocalSocketError::NotASocket(path.to_owned()));
    }
    match BlockingStream::connect(path) {
        Ok(_) => Err(LocalSocketError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(LocalSocketError::io(path))
        }
        Err(source) => Err(LocalSocketError::Io { path: path.to_owned(), source }),
    }
}

fn check_peer(stream: &impl AsRawFd, path: &Path) -> Result<(), LocalSocketError> {
    let user = peer_user(stream).map_err(LocalSocketError::io(path))?;
    match user == own_user() {
        true => Ok(()),
        false => Err(LocalSocketError::OtherUser { path: path.to_owned(), user }),
    }
}

/// The user that this process acts as.
fn own_user() -> u32 {
    // SAFETY: a plain call that cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(target_os = "linux")]
fn peer_user(stream: &impl AsRawFd) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the struct is valid for the given length.
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if outcome == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn peer_user(stream: &impl AsRawFd) -> io::Result<u32> {
    let (mut user, mut group) = (0, 0);
    // SAFETY: the descriptor is open, and both numbers are valid.
    let outcome = unsafe { libc::getpeereid(stream.as_raw_fd(), &raw mut user, &raw mut group) };
    if outcome == 0 { Ok(user) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_socket_is_private_and_is_removed() {
        let folder = folder();
        let path = folder.path().join("below/a.sock");
        let listener = LocalListener::bind(&path).unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let _client = connect(&path).unwrap();
        listener.accept().await.unwrap();
        drop(listener);
        assert!(!path.exists());
        assert!(matches!(connect(&path), Err(LocalSocketError::NobodyListens(_))));
    }

    #[tokio::test]
    async fn a_leftover_is_replaced_and_a_socket_in_use_is_not() {
        let folder = folder();
        let path = folder.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(matches!(connect(&path), Err(LocalSocketError::NobodyListens(_))), "a leftover");
        let _listener = LocalListener::bind(&path).unwrap();
        assert!(matches!(LocalListener::bind(&path), Err(LocalSocketError::InUse(_))));
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_folder_of_others_is_not_used() {
        let folder = folder();
        let path = folder.path().join("a.sock");
        let _listener = LocalListener::bind(&path).unwrap();
        for mode in [0o750, 0o701, 0o777] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            assert!(matches!(connect(&path), Err(LocalSocketError::NotPrivate { .. })), "{mode:o}");
            let other = LocalListener::bind(&folder.path().join("b.sock"));
            assert!(matches!(other, Err(LocalSocketError::NotPrivate { .. })), "{mode:o}");
        }
        // Somebody else's link to a private folder.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(matches!(connect(&link.join("a.sock")), Err(LocalSocketError::NotPrivate { .. })));
    }

    /// Runs this as another user. Only root can; says whether it was done.
    #[cfg(target_os = "linux")]
    fn as_somebody_else(run: impl FnOnce() + Send + 'static) -> bool {
        if own_user() != 0 {
            return false;
        }
        let other = std::thread::spawn(|| {
            // SAFETY: a plain call. Unlike the function of the C library it changes this thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) }, 0);
            run();
        });
        other.join().unwrap();
        true
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_folder_or_a_process_of_another_user_is_refused() {
        use std::os::fd::{FromRawFd, OwnedFd};
        let folder = folder();
        let path = folder.path().join("a.sock");
        let listener = LocalListener::bind(&path).unwrap();
        // Whatever the folder allows: who connects is checked, too.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let to = path.clone();
        if !as_somebody_else(move || drop(BlockingStream::connect(to).unwrap())) {
            return;
        }
        let refused = listener.accept().await;
        assert!(matches!(refused, Err(LocalSocketError::OtherUser { user: 65_534, .. })), "{refused:?}");
        drop(listener);

        // A socket of ours on which somebody else listens.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        // SAFETY: the descriptor is owned by nobody else, and the address is valid for its length.
        let socket = unsafe {
            let socket = OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0));
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as libc::sa_family_t;
            for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_encoded_bytes()) {
                *to = *from as libc::c_char;
            }
            let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
            assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length), 0);
            socket
        };
        let number = socket.as_raw_fd();
        // SAFETY: the descriptor is open.
        as_somebody_else(move || assert_eq!(unsafe { libc::listen(number, 1) }, 0));
        let refused = connect(&path);
        assert!(matches!(refused, Err(LocalSocketError::OtherUser { user: 65_534, .. })), "{refused:?}");

        std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
        assert!(matches!(connect(&path), Err(LocalSocketError::NotPrivate { .. })), "its folder");
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let folder = folder();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        assert!(matches!(LocalListener::bind(&path), Err(LocalSocketError::NotASocket(_))));
        assert!(matches!(connect(&path), Err(LocalSocketError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        let long = folder.path().join("x".repeat(LONGEST_PATH));
        assert!(matches!(LocalListener::bind(&long), Err(LocalSocketError::TooLong(_))));
    }
}
