//! The identity of a process as a store records it: process id, host name and boot id. Does not read the environment.

use std::fs;

/// A process on a machine, during one boot of that machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    pub(super) pid: u32,
    pub(super) host: String,
    /// The boot id of the machine; empty on systems without one.
    pub(super) boot: String,
}

impl ProcessIdentity {
    /// Returns the identity of this process.
    pub(super) fn this() -> Self {
        Self { pid: std::process::id(), host: host_name(), boot: boot_id() }
    }

    /// Returns whether both processes belong to the same boot of the same machine.
    pub(super) fn shares_boot_with(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }
}

/// Returns whether any process with this id runs on this machine.
pub(super) fn runs(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: signal 0 is never delivered; the call only checks for existence.
    let answer = unsafe { libc::kill(pid, 0) };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer outlives the call, and the passed length excludes the final zero.
    let answer = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    if answer != 0 {
        return String::new();
    }
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
