//! What goes wrong: hosts that are killed or stopped, networks that break, a database that ends, crashes or fails over.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread::lock::locked;
use rethread_testkit::moments::Moments;
use rethread_testkit::tcp_proxy::{CutMoment, ProxyMode};

use super::cluster::HOSTS;
use super::traveller::Journey;

/// Longer than a lease of 15 seconds.
const PAST_THE_LEASE: Duration = Duration::from_secs(18);

/// What is in the appends of prompts, chunks and last messages.
const CUT_TEXTS: [&[u8]; 3] = [b"think <", b"c7", b"done "];

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A host gets SIGKILL, and is started again later.
    KilledHost,
    /// A host gets SIGSTOP for longer than its lease, then SIGCONT.
    StoppedHost,
    /// A host is cut off from the database for longer than its lease.
    Partition,
    /// The same for a moment.
    ShortPartition,
    /// The database ends in order, or crashes, and is started again.
    RestartedDatabase,
    /// The primary crashes, and the synchronous standby takes its place.
    Failover,
    /// A connection is cut while an append is committed.
    CutInCommit,
}

/// One of each kind, in the order of a short run; those that happen most often are there twice.
pub(crate) const FAULTS: [Fault; 10] = [
    Fault::KilledHost,
    Fault::CutInCommit,
    Fault::RestartedDatabase,
    Fault::StoppedHost,
    Fault::Failover,
    Fault::CutInCommit,
    Fault::Partition,
    Fault::KilledHost,
    Fault::ShortPartition,
    Fault::CutInCommit,
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KilledHost => "host killed",
            Self::StoppedHost => "host stopped for 18 s",
            Self::Partition => "host cut off for 18 s",
            Self::ShortPartition => "host cut off for a moment",
            Self::RestartedDatabase => "database restarted",
            Self::Failover => "standby promoted",
            Self::CutInCommit => "connection cut in a commit",
        })
    }
}

/// The fault that goes on, for the report.
#[derive(Default)]
pub(crate) struct CurrentFault(Mutex<Option<Fault>>);

impl CurrentFault {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        locked(&self.0).map_or_else(|| "none".to_owned(), |fault| fault.to_string())
    }
}

/// Makes a fault happen, and mends it.
pub(crate) async fn happen(journey: &Arc<Journey>, fault: Fault, moments: &mut Moments) {
    *locked(&journey.fault.0) = Some(fault);
    let host = moments.below(HOSTS);
    let cluster = &journey.cluster;
    match fault {
        Fault::KilledHost => {
            cluster.kill(host).await;
            tokio::time::sleep(moments.up_to(Duration::from_secs(5))).await;
            cluster.run(host).await;
        }
        Fault::StoppedHost => {
            cluster.signal(host, libc::SIGSTOP);
            tokio::time::sleep(PAST_THE_LEASE).await;
            cluster.signal(host, libc::SIGCONT);
        }
        Fault::Partition => cut_off(journey, host, PAST_THE_LEASE).await,
        Fault::ShortPartition => cut_off(journey, host, moments.up_to(Duration::from_secs(3))).await,
        Fault::RestartedDatabase => {
            let crash = moments.below(2) == 0;
            blocking(journey, move |journey| journey.cluster.restart_database(crash)).await;
        }
        Fault::Failover => blocking(journey, |journey| journey.cluster.fail_over()).await,
        Fault::CutInCommit => cut_in_commit(journey, host, moments).await,
    }
    // Clients find their hosts again, and the next fault meets work.
    tokio::time::sleep(Duration::from_millis(500) + moments.up_to(Duration::from_secs(2))).await;
}

async fn cut_off(journey: &Journey, host: usize, time: Duration) {
    let proxy = &journey.cluster.hosts[host].proxy;
    proxy.set(ProxyMode::Silent);
    tokio::time::sleep(time).await;
    proxy.set(ProxyMode::Open);
}

async fn cut_in_commit(journey: &Journey, host: usize, moments: &mut Moments) {
    let proxy = &journey.cluster.hosts[host].proxy;
    let moment = [CutMoment::Before, CutMoment::Half, CutMoment::BeforeAnswer][moments.below(3)];
    let before = proxy.caught();
    proxy.cut_at(CUT_TEXTS[moments.below(CUT_TEXTS.len())], moment);
    for _ in 0..100 {
        if proxy.caught() > before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn blocking(journey: &Arc<Journey>, work: impl FnOnce(&Journey) + Send + 'static) {
    let journey = journey.clone();
    tokio::task::spawn_blocking(move || work(&journey)).await.expect("the database can be handled");
}
