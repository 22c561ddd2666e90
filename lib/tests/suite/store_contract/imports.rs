//! The clauses about imports: the ledger of sources, sessions by the ids of agents, counts of what is not known.

use rethread::store::{DriftCount, ImportProgress, ImportRecord, NewSession, RowFacts};

use super::{id, native};
use crate::store::{Blocking, new_session};

fn record(path: &str, session: Option<&str>) -> ImportRecord {
    ImportRecord {
        tool: "claude".to_owned(),
        path: path.to_owned(),
        key: String::new(),
        size: 10,
        modified: 20,
        session: session.map(id),
        turns: 3,
        events: 7,
        hash: vec![1, 2, 3],
        progress: ImportProgress::Done,
    }
}

pub(super) fn imports_are_remembered_by_their_source(store: &Blocking) {
    let imports = |tool: &str| {
        let mut records = store.wait(async |store| store.imports(tool).await).unwrap();
        records.sort_by(|one, other| (&one.path, &one.key).cmp(&(&other.path, &other.key)));
        records
    };
    assert_eq!(imports("claude"), []);
    let begun = ImportRecord { progress: ImportProgress::Begun, ..record("/a", Some("s")) };
    let facts = RowFacts { import: Some(begun.clone()), ..RowFacts::default() };
    store.create(NewSession { facts, ..new_session("s") }).unwrap();
    assert_eq!(imports("claude"), [begun], "it is stored with the session");
    let refused = NewSession {
        facts: RowFacts { import: Some(record("/never", Some("s"))), ..RowFacts::default() },
        ..new_session("s")
    };
    store.create(refused).unwrap_err();
    let keyed = ImportRecord { key: "k".to_owned(), session: None, ..record("/a", None) };
    for record in [record("/a", Some("s")), keyed.clone(), record("/b", None)] {
        store.wait(async |store| store.remember_import(&record).await).unwrap();
    }
    assert_eq!(imports("claude"), [record("/a", Some("s")), keyed, record("/b", None)]);
    assert_eq!(imports("codex"), []);
}

pub(super) fn a_session_is_found_by_the_id_of_its_agent(store: &Blocking) {
    let facts = RowFacts { native: Some(native("n")), ..RowFacts::default() };
    let lease = store.create(NewSession { facts, ..new_session("s") }).unwrap();
    store.release(&lease).unwrap();
    let find = |agents: &[&str], native: &str| {
        store.wait(async |store| store.find_native(agents, native).await).unwrap()
    };
    assert_eq!(find(&["other", "agent"], "n"), Some(id("s")));
    assert_eq!(find(&["other"], "n"), None);
    assert_eq!(find(&["agent"], "s"), None);
    assert_eq!(find(&[], "n"), None);
    store.delete(&id("s"), 5).unwrap();
    assert_eq!(find(&["agent"], "n"), Some(id("s")), "also if it is deleted");
}

pub(super) fn what_is_not_known_is_added_up(store: &Blocking) {
    let count = |what: &str, count: u64| DriftCount {
        tool: "claude".to_owned(),
        version: "2.1".to_owned(),
        what: what.to_owned(),
        count,
    };
    store.wait(async |store| store.add_drift(&[count("b", 2), count("a", 1)], 1).await).unwrap();
    store.wait(async |store| store.add_drift(&[count("b", 3)], 2).await).unwrap();
    let drift = store.wait(async |store| store.drift().await).unwrap();
    assert_eq!(drift, [count("a", 1), count("b", 5)]);
}
