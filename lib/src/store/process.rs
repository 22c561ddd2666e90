//! What a store writes down of the process it runs in. Reads no environment.

use std::fs;

/// A process on a machine that was started at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: u32,
    /// The name of the machine.
    pub(super) host: String,
    /// Names the run of the machine between two starts; empty where there is no such name.
    pub(super) boot: String,
}

impl Process {
    /// This one.
    pub(super) fn this() -> Self {
        Self { pid: std::process::id(), host: host_name(), boot: boot_id() }
    }

    /// Says whether both run, or ran, on one machine between two starts of it.
    pub(super) fn shares_boot_with(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }
}

/// Says whether a process with this number runs on this machine, whoever it belongs to.
pub(super) fn runs(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: signal 0 is never delivered; the call only asks.
    let answer = unsafe { libc::kill(pid, 0) };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer outlives the call, and its length is the one passed, less the final zero.
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
