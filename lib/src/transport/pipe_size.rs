//! The size of a pipe: how much one side can write before the other has read it.

use std::os::fd::AsFd;

/// Makes a pipe at least this large, as far as the system allows it: a smaller one is only slower. Does nothing to other files.
#[cfg(target_os = "linux")]
pub(crate) fn enlarge(pipe: impl AsFd, bytes: libc::c_int) {
    use std::os::fd::AsRawFd as _;

    let pipe = pipe.as_fd().as_raw_fd();
    // SAFETY: plain calls on a descriptor that is borrowed.
    unsafe {
        let size = libc::fcntl(pipe, libc::F_GETPIPE_SZ);
        if (0..bytes).contains(&size) {
            libc::fcntl(pipe, libc::F_SETPIPE_SZ, bytes);
        }
    }
}

/// Only Linux can change the size.
#[cfg(not(target_os = "linux"))]
pub(crate) fn enlarge(_pipe: impl AsFd, _bytes: libc::c_int) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_pipe_becomes_larger_and_never_smaller() {
        let (reader, writer) = std::io::pipe().unwrap();
        // SAFETY: a plain call on a descriptor that is open.
        let size = || unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_GETPIPE_SZ) };
        let before = size();
        enlarge(&writer, 4096);
        assert_eq!(size(), before);
        enlarge(&writer, before * 2);
        assert_eq!(size(), before * 2);
        enlarge(std::io::stdin(), 4096);
    }
}
