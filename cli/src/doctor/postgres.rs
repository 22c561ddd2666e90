//! A PostgreSQL store: what an inspection found, in words and with remedies.

use std::path::Path;

use rethread::store::HostContact;
use rethread::store::postgres::inspect::{InspectedHost, PostgresInspection, Standby};
use rethread::store::postgres::{PostgresAddress, PostgresStore};
use serde_json::json;

use super::store::StoreReport;
use super::{Area, Finding, Level};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::escape::visible;
use crate::output::size::size;

/// A standby that is further behind is worth a warning.
const FAR_BEHIND: u64 = 64 * 1024 * 1024;

/// More dead than living rows, and at least this many, are bloat.
const MUCH_DEAD: u64 = 100_000;

/// Connects and inspects the store.
pub(crate) async fn examine(address: &PostgresAddress, config: &Path) -> StoreReport {
    let inspected = match PostgresStore::open(address) {
        Ok(store) => store.inspect().await,
        Err(error) => Err(error),
    };
    match inspected {
        Ok(inspection) => {
            let mut found = findings(address, &inspection);
            found.extend(meet_hosts(&inspection.hosts, config).await);
            StoreReport { findings: found, json: document(address, &inspection) }
        }
        Err(error) => {
            let failure = Failure::from(error);
            let mut finding = Finding::new(Area::Store, Level::Broken, failure.message());
            if let Some(hint) = failure.advice() {
                finding = finding.hint(hint);
            }
            StoreReport {
                findings: vec![finding],
                json: json!({"address": address.to_string(), "reachable": false}),
            }
        }
    }
}

fn findings(address: &PostgresAddress, found: &PostgresInspection) -> Vec<Finding> {
    let ok = |message: String| Finding::new(Area::Store, Level::Ok, message);
    let mut all = vec![
        ok(format!("{address}, PostgreSQL {}, schema version {}", found.server, found.schema)),
        ok(format!("{} sessions, {}", found.sessions, size(found.bytes))),
    ];
    all.extend(found.settings.iter().filter_map(|(name, value)| setting(name, value)));
    if found.in_recovery {
        let message = "the server is a standby: nothing can be written";
        all.push(
            Finding::new(Area::Store, Level::Broken, message)
                .hint("name the primary in the address of the store"),
        );
    }
    all.extend(found.standbys.iter().map(standby));
    let synchronous =
        found.settings.iter().any(|(name, value)| name == "synchronous_standby_names" && !value.is_empty());
    if !found.standbys.is_empty() && !synchronous {
        let message = "no standby is synchronous: a failover may lose the last commits";
        all.push(
            Finding::new(Area::Store, Level::Note, message)
                .hint("set synchronous_standby_names, see docs/scale.md"),
        );
    }
    let (living, dead) = found.tail;
    if dead > living && dead > MUCH_DEAD {
        let message = format!("the tail of the journals has {dead} dead rows and {living} living ones");
        all.push(
            Finding::new(Area::Store, Level::Warning, message)
                .hint("check that autovacuum runs, or run VACUUM on rethread.tail"),
        );
    }
    if found.unindexed > 0 {
        all.push(Finding::new(
            Area::Store,
            Level::Note,
            format!("{} sessions are to be indexed by the next search", found.unindexed),
        ));
    }
    all.extend(found.hosts.iter().map(host));
    all
}

/// Asks each host that serves others to prove who it is.
async fn meet_hosts(hosts: &[InspectedHost], config: &Path) -> Vec<Finding> {
    let serving: Vec<_> = hosts.iter().filter(|host| host.valid && host.address.is_some()).collect();
    let mut all = Vec::new();
    for (at, host) in serving.iter().enumerate() {
        if let Some(other) = serving[..at].iter().find(|other| other.address == host.address) {
            let address = visible(host.address.as_deref().unwrap_or_default());
            let message = format!("hosts {} and {} have one address: {address}", other.number, host.number);
            all.push(
                Finding::new(Area::Store, Level::Warning, message)
                    .hint("give each its own with --advertise; one that was killed goes away by itself"),
            );
        }
    }
    let network = match Cluster::read(config) {
        Ok(Some(cluster)) => cluster.visitor(),
        Ok(None) if serving.is_empty() => return all,
        Ok(None) => {
            let message = "without a cluster_key, hosts do not carry clients to each other";
            all.push(
                Finding::new(Area::Store, Level::Note, message)
                    .hint("set the same cluster_key on all hosts, see docs/scale.md"),
            );
            return all;
        }
        Err(failure) => {
            all.push(Finding::new(Area::Store, Level::Warning, failure.message()));
            return all;
        }
    };
    for host in serving {
        let address = host.address.clone().unwrap_or_default();
        let contact = HostContact { number: host.number, address };
        all.push(match network.probe(&contact).await {
            Ok(()) => Finding::new(
                Area::Store,
                Level::Ok,
                format!("host {} answers at {}", host.number, contact.address),
            ),
            Err(why) => {
                let address = visible(&contact.address).into_owned();
                let message = format!("host {} at {address} cannot be used by others: {why}", host.number);
                Finding::new(Area::Store, Level::Warning, message)
                    .hint("check its address (--advertise), its certificate and its cluster_key")
            }
        });
    }
    all
}

fn setting(name: &str, value: &str) -> Option<Finding> {
    let broken = |what: &str, hint: &str| Some(Finding::new(Area::Store, Level::Broken, what).hint(hint));
    match (name, value) {
        ("fsync", "off") => {
            broken("fsync is off: a power failure of the database loses sessions", "set fsync = on")
        }
        ("full_page_writes", "off") => broken(
            "full_page_writes is off: a power failure may damage the database",
            "set full_page_writes = on",
        ),
        ("synchronous_commit", "off") => Some(
            Finding::new(
                Area::Store,
                Level::Warning,
                "synchronous_commit is off; rethread sets it to on for itself",
            )
            .hint("set it to on for this database; a pooler in between may keep the setting away"),
        ),
        _ => None,
    }
}

fn standby(standby: &Standby) -> Finding {
    let Standby { name, sync_state, lag_bytes } = standby;
    let message = format!("standby {name} ({sync_state}) is {} behind", size(*lag_bytes));
    match *lag_bytes > FAR_BEHIND {
        true => {
            Finding::new(Area::Store, Level::Warning, message).hint("check the standby and the network to it")
        }
        false => Finding::new(Area::Store, Level::Ok, message),
    }
}

fn host(host: &InspectedHost) -> Finding {
    let InspectedHost { name, pid, valid, sessions, .. } = host;
    match valid {
        true => {
            Finding::new(Area::Store, Level::Ok, format!("process {pid} on {name} owns {sessions} sessions"))
        }
        false => Finding::new(
            Area::Store,
            Level::Note,
            format!(
                "the lease of process {pid} on {name} is over; its {sessions} sessions can be taken over"
            ),
        ),
    }
}

fn document(address: &PostgresAddress, found: &PostgresInspection) -> serde_json::Value {
    let standbys: Vec<_> = found
        .standbys
        .iter()
        .map(|standby| json!({"name": standby.name, "syncState": standby.sync_state, "lagBytes": standby.lag_bytes}))
        .collect();
    let hosts: Vec<_> = found
        .hosts
        .iter()
        .map(|host| {
            json!({"name": host.name, "pid": host.pid, "valid": host.valid, "sessions": host.sessions,
            "number": host.number.0, "address": host.address})
        })
        .collect();
    json!({
        "address": address.to_string(), "reachable": true, "server": found.server, "schema": found.schema,
        "settings": found.settings.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "inRecovery": found.in_recovery, "standbys": standbys, "sessions": found.sessions, "bytes": found.bytes,
        "tail": {"living": found.tail.0, "dead": found.tail.1}, "unindexed": found.unindexed, "hosts": hosts,
    })
}
