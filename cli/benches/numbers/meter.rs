//! Reads the processor time and memory of a process.

use std::fs;

/// The processor time of all threads of a process, in nanoseconds.
pub(crate) fn processor_time(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

/// The peak memory of a process, in KiB.
pub(crate) fn peak_memory(pid: u32) -> u64 {
    status(pid, "VmHWM")
}

/// The current memory of a process, in KiB.
pub(crate) fn memory(pid: u32) -> u64 {
    status(pid, "VmRSS")
}

fn status(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with(name)).expect("every process has it");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of KiB")
}

/// The median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
