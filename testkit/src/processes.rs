//! Which processes are there, and signals to those that a test has started.

use std::time::{Duration, Instant};

/// Those of these processes that run. One that has ended and waits for its parent does not.
#[must_use]
pub fn left_of(pids: &[i32]) -> Vec<i32> {
    pids.iter().copied().filter(|pid| is_there(*pid)).collect()
}

/// Waits until all of these processes are gone, but not longer than until then.
pub async fn assert_gone_by(deadline: Instant, pids: &[i32], of: impl std::fmt::Debug) {
    while !left_of(pids).is_empty() {
        assert!(Instant::now() < deadline, "{:?} of {pids:?} left of {of:?}", left_of(pids));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends a signal to a process, or to a group if the number is negative.
pub fn signal(target: i32, number: i32) {
    // SAFETY: a plain call, for processes that the test has started.
    assert_eq!(unsafe { libc::kill(target, number) }, 0, "no process {target}");
}

#[cfg(target_os = "linux")]
fn is_there(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

#[cfg(not(target_os = "linux"))]
fn is_there(pid: i32) -> bool {
    // SAFETY: a plain call that only asks.
    unsafe { libc::kill(pid, 0) == 0 }
}
