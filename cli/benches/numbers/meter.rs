//! Reads the processor time, the memory and the written bytes of a process, and the clock that all processes share.

use std::fs;
use std::time::Duration;

/// The processor time of all threads of a process, in nanoseconds. Threads that have ended are not included.
pub(crate) fn processor_time(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

/// The processor time since an earlier reading, in microseconds.
pub(crate) fn processor_time_since(pid: u32, before: u64) -> f64 {
    processor_time(pid).saturating_sub(before) as f64 / 1e3
}

/// The peak memory of a process, in KiB.
pub(crate) fn peak_memory(pid: u32) -> u64 {
    field(pid, "status", "VmHWM:")
}

/// The current memory of a process, in KiB.
pub(crate) fn memory(pid: u32) -> u64 {
    field(pid, "status", "VmRSS:")
}

/// The bytes that a process has written to disk. It can be read until the end of the process has been waited for.
pub(crate) fn written_bytes(pid: u32) -> u64 {
    field(pid, "io", "write_bytes:")
}

/// Whether a process has ended and nobody has waited for it yet.
pub(crate) fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("nobody has waited for it");
    // The name of the program, in parentheses, may contain spaces.
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

fn field(pid: u32, file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the process exists");
    let line = text.lines().find(|line| line.starts_with(name)).expect("every process has it");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// The time of the monotonic clock, which is the same in all processes.
pub(crate) fn monotonic() -> Duration {
    time_of(libc::CLOCK_MONOTONIC)
}

/// The processor time of the calling thread.
pub(crate) fn thread_processor_time() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0, "every system has this clock");
    let seconds = u64::try_from(time.tv_sec).expect("the clock starts at 0");
    Duration::from_secs(seconds) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}
