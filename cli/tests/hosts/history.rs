//! The check of a whole run: what each client was shown, what the database has, who wrote it, and what agents were prompted.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread::store::Store as _;
use rethread::store::postgres::PostgresStore;
use rethread_core::{Seq, SessionId};
use rethread_testkit::kept;
use rethread_testkit::view::View;
use serde_json::Value;

use super::cluster::{Cluster, HOSTS};
use super::connection::{HostConnection, NoAnswer};
use super::traveller::Diary;

/// Within this time all sessions can be loaded again.
const SETTLED: Duration = Duration::from_secs(60);

/// What was checked.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) sessions: usize,
    pub(crate) entries: u64,
    pub(crate) views: usize,
    pub(crate) finished_turns: usize,
    pub(crate) prompts: usize,
    pub(crate) epochs: usize,
}

/// Checks everything. Panics with what is wrong.
pub(crate) async fn check(cluster: &Cluster, diaries: &[(Version, Diary)]) -> Checked {
    let mut checked = Checked { sessions: diaries.len(), ..Checked::default() };
    for (version, diary) in diaries {
        let label = format!("session {}", diary.session);
        let last = loaded(cluster, *version, &diary.session).await;
        check_views(&label, diary, &last);
        checked.views += diary.views.len();
        checked.finished_turns += diary.finished.len();
    }
    checked.entries = check_journals(cluster, diaries).await;
    checked.prompts = check_prompts(cluster, diaries);
    checked.epochs =
        check_writers(&cluster.sql(
            "SELECT session, old_epoch, epoch, old_head, head, writer FROM public.witness ORDER BY number",
        ));
    checked
}

/// What a new client is shown, at whatever host has the session.
async fn loaded(cluster: &Cluster, version: Version, session: &str) -> View {
    let give_up = Instant::now() + SETTLED;
    let mut said = vec![String::new(); HOSTS];
    for host in (0..HOSTS).cycle() {
        match loaded_at(cluster, host, version, session).await {
            Ok(view) => return view,
            Err(why) => said[host] = format!("{why:?}"),
        }
        assert!(Instant::now() < give_up, "session {session} cannot be loaded any more: {said:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    unreachable!("the loop ends only with a view")
}

async fn loaded_at(
    cluster: &Cluster,
    host: usize,
    version: Version,
    session: &str,
) -> Result<View, NoAnswer> {
    let cwd = cluster.cwd().display().to_string();
    let mut connection = HostConnection::open(&cluster.url(host), &cluster.token, version).await?;
    connection.load(session, &cwd, Duration::from_secs(15)).await?;
    Ok(connection.shown(session))
}

/// Nothing that was shown is lost or changed, nothing is there twice, and each turn that ended is whole.
fn check_views(label: &str, diary: &Diary, last: &View) {
    for (number, view) in diary.views.iter().enumerate() {
        if let Err(wrong) = kept::check(view, last) {
            panic!("{label}, connection {number}: {wrong}\nshown:\n{view}\nin the end:\n{last}");
        }
    }
    if let Err(doubled) = kept::nothing_is_doubled(last) {
        panic!("{label}: {doubled}\n{last}");
    }
    let (user, agent) = (last.user(), last.agent());
    for prompt in &diary.finished {
        assert_eq!(user.iter().filter(|text| *text == prompt).count(), 1, "{label}: {prompt}\n{last}");
        let done = prompt.rsplit("say ").next().expect("it says something last");
        assert_eq!(agent.iter().filter(|text| *text == done).count(), 1, "{label}: {done}\n{last}");
    }
}

/// All journals can be read: the store finds gaps, and what is folded has its place. Returns the number of their entries.
async fn check_journals(cluster: &Cluster, diaries: &[(Version, Diary)]) -> u64 {
    let address = cluster.database_url().parse().expect("the address is valid");
    let store = tokio::task::spawn_blocking(move || PostgresStore::open(&address).expect("the store opens"));
    let store = store.await.expect("the store opens");
    let mut entries = 0;
    for (_, diary) in diaries {
        let session: SessionId = diary.session.as_str().into();
        let (mut from, mut expected) = (Seq(0), Seq(1));
        loop {
            let page = store.read(&session, from, 256 * 1024).await.expect("the journal can be read");
            for item in page.decode().expect("entries can be decoded") {
                assert!(
                    item.first >= expected,
                    "session {session}: {:?} comes after {expected:?}",
                    item.first
                );
                expected = item.first.next();
            }
            from = page.next;
            if page.end {
                break;
            }
        }
        entries += from.0 - 1;
    }
    entries
}

/// No prompt reached an agent twice, and each that did was sent by a client. Returns how many there were.
fn check_prompts(cluster: &Cluster, diaries: &[(Version, Diary)]) -> usize {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for host in 0..HOSTS {
        for line in fs::read_to_string(cluster.prompt_log(host)).unwrap_or_default().lines() {
            let logged: Value = serde_json::from_str(line).expect("a line of the log is JSON");
            *seen.entry(logged["text"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "agents got prompts twice: {twice:?}");
    for (_, diary) in diaries {
        for prompt in &diary.finished {
            assert!(seen.contains_key(prompt), "no agent got {prompt}");
        }
    }
    seen.len()
}

/// Epochs only grow, entries are added at the end, and in each epoch by one host. Returns the number of epochs.
fn check_writers(witness: &str) -> usize {
    let mut leases: HashMap<&str, (i64, i64)> = HashMap::new();
    let mut writers: HashMap<(&str, i64), &str> = HashMap::new();
    for line in witness.lines() {
        let [session, old_epoch, epoch, old_head, head, writer] =
            line.split('|').collect::<Vec<_>>().try_into().expect("a line has six fields");
        let number = |text: &str| text.parse::<i64>().expect("it is a number");
        let (old, new) = ((number(old_epoch), number(old_head)), (number(epoch), number(head)));
        if let Some(known) = leases.insert(session, new) {
            assert_eq!(known, old, "the lease of session {session} changed unseen: {line}");
        }
        assert!(new.0 >= old.0 && new.1 >= old.1, "a lease went back: {line}");
        if new.1 > old.1 {
            assert_eq!(new.0, old.0, "an append changed the epoch: {line}");
            let known = writers.entry((session, new.0)).or_insert(writer);
            assert_eq!(*known, writer, "two hosts wrote in one epoch: {line}");
        }
    }
    writers.len()
}
