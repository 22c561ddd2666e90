//! Sessions that move between hosts while hosts, networks and the database fail. Three hosts, one database with a synchronous standby,
//! clients that go to any host: whatever happens, what a client was shown is kept, once and in order, and no prompt is sent
//! twice. Runs if `RETHREAD_HOST_FAULTS` has the number of faults; needs `RETHREAD_TEST_POSTGRES`. `RETHREAD_HOST_SESSIONS` sets how many
//! sessions there are; with `RETHREAD_HOST_CARRYING` the hosts carry clients to each other, otherwise a client looks for the owner itself.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "a run has a report")]

mod hosts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hosts::cluster::{Cluster, has_own_processes};
use hosts::faults::{CurrentFault, FAULTS, happen};
use hosts::history;
use hosts::traveller::{Diary, Journey, Traveller};
use rethread_testkit::moments::Moments;

/// Sets the number of faults.
const ROUNDS: &str = "RETHREAD_HOST_FAULTS";
/// Sets the number of sessions.
const SESSIONS: &str = "RETHREAD_HOST_SESSIONS";
const DEFAULT_SESSIONS: usize = 60;

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_nothing_is_lost_doubled_or_sent_twice() {
    let Some(rounds) = number(ROUNDS) else {
        println!("SKIPPED: {ROUNDS} is not set");
        return;
    };
    let Some(cluster) = Cluster::start().await else { return };
    let apart = if has_own_processes().await { "with process ids of their own" } else { "on one machine" };
    let sessions = number(SESSIONS).unwrap_or(DEFAULT_SESSIONS);
    let journey = Arc::new(Journey { cluster, over: AtomicBool::new(false), fault: CurrentFault::default() });
    let travellers: Vec<_> =
        (0..sessions).map(|number| tokio::spawn(Traveller::new(journey.clone(), number).travel())).collect();
    let mut moments = Moments::new(7);
    println!("{sessions} sessions, 3 hosts {apart}, {rounds} faults, {}", moments.label(0));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut happened = BTreeMap::new();
    for round in 0..rounds {
        let fault = FAULTS[round % FAULTS.len()];
        let began = Instant::now();
        happen(&journey, fault, &mut moments).await;
        *happened.entry(fault.to_string()).or_insert(0) += 1;
        println!("fault {round}: {fault}, {:.1} s", began.elapsed().as_secs_f64());
    }
    journey.over.store(true, Ordering::Relaxed);
    let mut diaries = Vec::new();
    for traveller in travellers {
        diaries.push(traveller.await.expect("a client does not fail"));
    }
    report(diaries.iter().map(|(_, diary)| diary));
    let checked = history::check(&journey.cluster, &diaries).await;
    println!("{} sessions checked: {checked:?}; faults: {happened:?}", checked.sessions);
    assert!(checked.finished_turns >= sessions, "too little work was done: {checked:?}");
}

/// Says how long clients had no host, by what went on when they lost theirs.
fn report<'a>(diaries: impl Iterator<Item = &'a Diary>) {
    let mut gaps: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    let (mut sent, mut refused, mut failed) = (0, 0, BTreeMap::new());
    for diary in diaries {
        sent += diary.sent;
        refused += diary.refused;
        for (fault, gap) in &diary.gaps {
            gaps.entry(fault).or_default().push(*gap);
        }
        for why in &diary.failed {
            *failed.entry(why.chars().take(120).collect::<String>()).or_insert(0) += 1;
        }
    }
    println!("{sent} prompts sent, {refused} times at a host that did not own the session");
    for (fault, mut gaps) in gaps {
        gaps.sort();
        let (half, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
        println!(
            "without a host, {fault}: {} times, half within {:.1} s, longest {:.1} s",
            gaps.len(),
            half.as_secs_f64(),
            longest.as_secs_f64()
        );
    }
    for (why, count) in failed {
        println!("turns that failed, {count}: {why}");
    }
}
