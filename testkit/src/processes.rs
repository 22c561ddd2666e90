//! Finds processes and sends signals to those that a test has started.

use std::time::{Duration, Instant};

/// Returns which of these processes are running; zombies do not count.
#[must_use]
pub fn left_of(pids: &[i32]) -> Vec<i32> {
    pids.iter().copied().filter(|pid| is_there(*pid)).collect()
}

/// Waits until all of these processes have ended, up to a deadline.
pub async fn assert_gone_by(deadline: Instant, pids: &[i32], of: impl std::fmt::Debug) {
    while !left_of(pids).is_empty() {
        assert!(Instant::now() < deadline, "{:?} of {pids:?} left of {of:?}", left_of(pids));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends a signal to a process, or to a process group if the number is negative.
pub fn signal(target: i32, number: i32) {
    // SAFETY: a plain call, for processes that the test has started.
    assert_eq!(unsafe { libc::kill(target, number) }, 0, "no process {target}");
}

/// All descendants of a process whose parents are alive.
#[cfg(target_os = "linux")]
#[must_use]
pub fn descendants_of(root: i32) -> Vec<i32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(i32, i32)> = pids.filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let (mut found, mut next) = (vec![root], 0);
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

#[cfg(target_os = "linux")]
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(target_os = "linux")]
fn is_there(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

#[cfg(not(target_os = "linux"))]
fn is_there(pid: i32) -> bool {
    // SAFETY: a plain call that only checks for existence.
    unsafe { libc::kill(pid, 0) == 0 }
}
