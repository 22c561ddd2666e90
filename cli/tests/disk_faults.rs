//! Promises 1 to 3 of docs/durability.md on a disk that loses power or fails. Runs if `RETHREAD_DISK_TESTS` is set; needs
//! strace and a C compiler. `.ci/run` installs strace and runs this.
#![cfg(target_os = "linux")]

mod disk;

use disk::recorded_run::RecordedRun;
use disk::{faults, power_cuts};

const SWITCH: &str = "RETHREAD_DISK_TESTS";

/// A record of a real run is cut at many points.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_turn_survives_a_power_cut() {
    if std::env::var_os(SWITCH).is_none() {
        println!("SKIPPED: {SWITCH} is not set");
        return;
    }
    let run = RecordedRun::record().await;
    let checked = power_cuts::check(&run).await;
    println!("power cuts: {} calls, {} answers, {checked:?}", run.calls.len(), run.answers.len());
    assert!(checked.states >= 300, "too few states: {checked:?}");
}

/// Writes, syncs and opens of the store fail, one at a time and many in a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_shown_that_a_failing_disk_does_not_have() {
    if std::env::var_os(SWITCH).is_none() {
        println!("SKIPPED: {SWITCH} is not set");
        return;
    }
    let checked = faults::check().await;
    println!("faults: {checked:?}");
    assert!(checked.with_faults >= 100, "too few runs with a fault: {checked:?}");
}
