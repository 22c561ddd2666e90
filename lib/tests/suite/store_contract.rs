//! The contract of a store, run on every store there is.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;

use rethread::store::memory::MemoryStore;
use rethread::store::postgres::PostgresStore;
use rethread::store::{
    AgentName, Append, Archived, ArchivedFilter, Deleted, Durability, Lease, ListQuery, Listed, NewSession,
    OwnedHere, ReleaseAnswer, Revision, RowFacts, StoreError, Stub,
};
use rethread_core::{Seq, SessionId, TitleSource};
use rethread_testkit::postgres_server::PostgresServer;
use tempfile::TempDir;

mod imports;
mod laws;
pub(crate) mod searching;

use self::imports::*;
use self::searching::*;
use crate::store::{
    Blocking, append, append_of, append_one, entry, fork_of, listed_session, new_session, open, read_all,
    show,
};

/// A store and what must outlive it.
struct Fixture {
    store: Blocking,
    _dir: Option<TempDir>,
}

fn memory() -> Fixture {
    Fixture { store: Blocking::new(Arc::new(MemoryStore::new())), _dir: None }
}

fn embedded() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    Fixture { store: open(dir.path()), _dir: Some(dir) }
}

/// Nothing if the tests are not to use PostgreSQL, which is said.
fn postgres() -> Option<Fixture> {
    let store = PostgresStore::open(&PostgresServer::shared()?.database()).unwrap();
    Some(Fixture { store: Blocking::new(Arc::new(store)), _dir: None })
}

macro_rules! contract {
    ($($clause:ident)*) => {
        contract!(@ memory: $($clause)*);
        contract!(@ embedded: $($clause)*);
        contract!(@ postgres: $($clause)*);
    };
    (@ $backend:ident: $($clause:ident)*) => {
        mod $backend {
            $(#[test] fn $clause() {
                if let Some(fixture) = Option::from(super::$backend()) {
                    let fixture: super::Fixture = fixture;
                    super::$clause(&fixture.store);
                }
            })*
        }
    };
}

contract! {
    a_new_session_can_be_found_and_read
    an_id_is_given_once
    entries_are_numbered_without_a_gap
    an_append_at_the_wrong_place_is_refused
    an_append_with_an_old_epoch_is_refused
    one_refused_append_does_not_hinder_the_others
    an_append_changes_the_row
    a_title_yields_to_a_stronger_one
    an_id_of_the_agent_is_kept_once_in_a_row
    what_an_agent_lists_is_not_listed_twice
    a_claim_never_succeeds_against_a_live_lease
    a_claim_ends_the_lease_before_it
    a_release_leaves_no_owner
    a_release_can_be_asked_for
    an_old_lease_releases_nothing
    pages_are_about_as_large_as_asked
    reading_goes_on_where_the_end_was
    reading_in_the_middle_begins_there
    seeking_back_finds_a_place_before_an_entry
    seeking_back_does_not_go_to_the_beginning
    a_page_says_whether_it_begins_in_a_folded_part
    a_fold_changes_no_text
    a_fold_needs_the_lease
    a_fold_can_be_repeated
    a_fork_sees_what_was_and_not_what_comes
    a_fork_of_a_fork_sees_both
    a_fork_before_its_parents_fork_skips_the_parent
    a_fork_that_its_parent_does_not_reach_is_refused
    a_fork_keeps_the_text_of_a_deleted_parent
    sessions_are_found_by_a_part_of_their_id
    lists_are_newest_first
    lists_come_in_pages
    lists_can_be_of_one_directory
    lists_of_a_directory_do_not_mind_a_slash_at_its_end
    a_clock_that_goes_back_does_not_turn_a_list_around
    lists_treat_archived_sessions_as_asked
    lists_can_be_of_one_agent
    sessions_without_content_are_not_listed
    a_strange_cursor_is_refused
    a_title_from_outside_is_the_users
    archiving_stops_the_writer
    deleting_stops_the_writer_and_hides
    changes_are_told_since_the_last_question
    a_deleted_session_is_gone_for_everyone_but_find
    unknown_sessions_are_unknown_everywhere
    profiles_are_remembered
    imports_are_remembered_by_their_source
    a_session_is_found_by_the_id_of_its_agent
    what_is_not_known_is_added_up
    messages_and_tool_calls_are_found
    letters_are_compared_without_case_and_diacritics
    hits_are_newest_first_by_their_own_time
    hits_come_in_pages
    searches_can_be_of_one_directory_or_agent
    a_turn_is_found_when_it_has_ended
    shared_text_is_found_once
    archived_sessions_are_found_and_deleted_ones_are_not
    long_messages_are_one_hit
    an_index_that_was_made_anew_finds_the_same
    sessions_that_are_open_are_not_deleted_with_others
    one_of_several_prunes
}

fn id(text: &str) -> SessionId {
    SessionId::from(text)
}

fn texts(texts: &str) -> Vec<Arc<rethread_core::Entry>> {
    texts.split_whitespace().map(entry).collect()
}

fn a_new_session_can_be_found_and_read(store: &Blocking) {
    let facts = RowFacts { roots: Some(vec!["/r".to_owned()]), ..RowFacts::default() };
    let new = NewSession { entries: texts("a b"), facts, snapshot: Some(vec![7]), ..new_session("s") };
    let lease = store.create(new).unwrap();
    assert_eq!((lease.epoch, lease.head), (1, Seq(2)));
    let row = store.find(&id("s")).unwrap().unwrap();
    assert_eq!((row.cwd.as_str(), row.agent.as_str(), row.head), ("/w", "agent", Seq(2)));
    assert_eq!((row.roots, row.snapshot, row.updated_at), (vec!["/r".to_owned()], Some(vec![7]), 1));
    assert_eq!((row.archived, row.deleted, row.parent), (Archived::No, Deleted::No, None));
    let owner = row.owner.unwrap();
    assert_eq!((owner.pid, owner.ours), (std::process::id(), OwnedHere::Yes));
    assert_eq!(show(&read_all(store, "s", 1000)), ["1 a", "2 b"]);
}

fn an_id_is_given_once(store: &Blocking) {
    store.create(new_session("s")).unwrap();
    assert!(matches!(store.create(new_session("s")), Err(StoreError::Exists(_))));
    store.delete(&id("s"), 5).unwrap();
    assert!(matches!(store.create(new_session("s")), Err(StoreError::Exists(_))));
}

fn entries_are_numbered_without_a_gap(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    append(store, &mut lease, texts("a")).unwrap();
    append(store, &mut lease, Vec::new()).unwrap();
    append(store, &mut lease, texts("b c")).unwrap();
    assert_eq!(show(&read_all(store, "s", 1000)), ["1 a", "2 b", "3 c"]);
}

fn an_append_at_the_wrong_place_is_refused(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    append(store, &mut lease, texts("a b")).unwrap();
    lease.head = Seq(1);
    let refused = append(store, &mut lease, texts("c")).unwrap_err();
    assert!(matches!(refused, StoreError::MovedOn { expected: Seq(1), found: Seq(2), .. }), "{refused}");
    lease.head = Seq(3);
    assert!(matches!(append(store, &mut lease, texts("c")), Err(StoreError::MovedOn { .. })));
    assert_eq!(show(&read_all(store, "s", 1000)), ["1 a", "2 b"]);
}

/// Takes the session of a lease anew.
fn claim_again(store: &Blocking, lease: &Lease) -> Lease {
    store.release(lease).unwrap();
    store.claim(&lease.session).unwrap()
}

/// Makes a session that nobody has open.
fn create_closed(store: &Blocking, session: &str) {
    let lease = store.create(new_session(session)).unwrap();
    store.release(&lease).unwrap();
}

fn an_append_with_an_old_epoch_is_refused(store: &Blocking) {
    let mut old = store.create(new_session("s")).unwrap();
    let mut new = claim_again(store, &old);
    let refused = append(store, &mut old, texts("old")).unwrap_err();
    assert!(matches!(refused, StoreError::StaleEpoch { held: 1, found: 2, .. }), "{refused}");
    append(store, &mut new, texts("new")).unwrap();
    assert_eq!(show(&read_all(store, "s", 1000)), ["1 new"]);
}

fn one_refused_append_does_not_hinder_the_others(store: &Blocking) {
    let a = store.create(new_session("a")).unwrap();
    let b = store.create(new_session("b")).unwrap();
    let strange = Append { session: id("none"), ..append_of(&a, texts("x")) };
    let late = Append { expected: Seq(9), ..append_of(&a, texts("x")) };
    let second = Append { expected: Seq(1), ..append_of(&a, texts("a2")) };
    store.append(append_of(&a, texts("a1"))).unwrap();
    assert!(matches!(store.append(strange), Err(StoreError::Unknown(_))));
    assert!(matches!(store.append(late), Err(StoreError::MovedOn { .. })));
    store.append(append_of(&b, texts("b1"))).unwrap();
    store.append(second).unwrap();
    assert_eq!(show(&read_all(store, "a", 1000)), ["1 a1", "2 a2"]);
    assert_eq!(show(&read_all(store, "b", 1000)), ["1 b1"]);
}

fn an_append_changes_the_row(store: &Blocking) {
    let lease = store.create(new_session("s")).unwrap();
    let facts = RowFacts {
        title: Some(("t".to_owned(), TitleSource::Prompt)),
        roots: Some(vec!["/x".to_owned(), "/y".to_owned()]),
        native: Some(native("n1")),
        listed: None,
        cwd: Some("/moved".to_owned()),
        agent_name: Some(AgentName(Some("codex".to_owned()))),
        import: None,
    };
    let changed =
        Append { facts, at: Some(77), durability: Durability::Power, ..append_of(&lease, texts("a")) };
    append_one(store, changed).unwrap();
    let row = store.find(&id("s")).unwrap().unwrap();
    assert_eq!(row.title, Some(("t".to_owned(), TitleSource::Prompt)));
    assert_eq!((row.roots, row.natives), (vec!["/x".to_owned(), "/y".to_owned()], vec!["n1".to_owned()]));
    assert_eq!((row.updated_at, row.head), (77, Seq(1)));
    assert_eq!((row.cwd.as_str(), row.agent_name.as_deref()), ("/moved", Some("codex")));
    store.release(&lease).unwrap();
    learn(store, "s", RowFacts { listed: Some(Listed), ..RowFacts::default() });
    assert_eq!(store.find(&id("s")).unwrap().unwrap().agent_name.as_deref(), Some("codex"), "it stays");
    let of = |cwd: &str| ids(store, &ListQuery { cwd: Some(cwd.to_owned()), ..some(10) });
    assert_eq!((of("/w"), of("/moved")), (Vec::<String>::new(), vec!["s".to_owned()]));
    learn(store, "s", RowFacts { agent_name: Some(AgentName(None)), ..RowFacts::default() });
    assert_eq!(store.find(&id("s")).unwrap().unwrap().agent_name, None);
}

fn a_release_can_be_asked_for(store: &Blocking) {
    let asked = |at: Option<u64>| {
        assert_eq!(store.find(&id("s")).unwrap().unwrap().release_asked_at, at);
    };
    assert!(matches!(store.ask_release(&id("s"), 5), Err(StoreError::Unknown(_))));
    let lease = store.create(new_session("s")).unwrap();
    let since = store.changes(None).unwrap().revision;
    let answer = store.ask_release(&id("s"), 5).unwrap();
    assert!(matches!(answer, ReleaseAnswer::Asked(owner) if owner.pid == std::process::id()));
    asked(Some(5));
    let changes = store.changes(Some(since)).unwrap();
    let told: Vec<_> = changes.sessions.iter().map(|s| (s.id.0.as_str(), s.release_asked_at)).collect();
    assert_eq!(told, [("s", Some(5))]);
    store.decline_release(&id("s")).unwrap();
    asked(None);
    store.ask_release(&id("s"), 6).unwrap();
    let later = store.changes(Some(changes.revision)).unwrap();
    assert_eq!(later.sessions.len(), 1, "asked again, told again");
    store.release(&lease).unwrap();
    asked(None);
    assert_eq!(store.ask_release(&id("s"), 7).unwrap(), ReleaseAnswer::NotOwned);
    asked(None);
    let lease = store.claim(&id("s")).unwrap();
    store.ask_release(&id("s"), 8).unwrap();
    store.release(&lease).unwrap();
    store.claim(&id("s")).unwrap();
    asked(None);
}

fn learn(store: &Blocking, session: &str, facts: RowFacts) {
    let lease = store.claim(&id(session)).unwrap();
    append_one(store, Append { facts, ..append_of(&lease, Vec::new()) }).unwrap();
    store.release(&lease).unwrap();
}

fn a_title_yields_to_a_stronger_one(store: &Blocking) {
    create_closed(store, "s");
    let steps = [
        ("p", TitleSource::Prompt, "p"),
        ("q", TitleSource::Prompt, "q"),
        ("a", TitleSource::Agent, "a"),
        ("r", TitleSource::Prompt, "a"),
        ("u", TitleSource::User, "u"),
        ("b", TitleSource::Agent, "u"),
        ("v", TitleSource::User, "v"),
    ];
    for (title, by, then) in steps {
        learn(store, "s", RowFacts { title: Some((title.to_owned(), by)), ..RowFacts::default() });
        let row = store.find(&id("s")).unwrap().unwrap();
        assert_eq!(row.title.unwrap().0, then);
    }
}

fn an_id_of_the_agent_is_kept_once_in_a_row(store: &Blocking) {
    create_closed(store, "s");
    for native in ["x", "x", "1", "1", "x"] {
        learn(store, "s", RowFacts { native: Some(self::native(native)), ..RowFacts::default() });
    }
    assert_eq!(store.find(&id("s")).unwrap().unwrap().natives, ["x", "1", "x"]);
}

/// An agent may list a session while it is made, before or after we know whose it is.
fn what_an_agent_lists_is_not_listed_twice(store: &Blocking) {
    let native = self::native("x");
    let stub = Stub { id: id("x"), cwd: "/work".to_owned(), title: None, updated_at: 1 };
    let listed = || store.find(&id("x")).unwrap().is_some();
    store.add_stubs(&native.agent, std::slice::from_ref(&stub)).unwrap();
    assert!(listed());
    create_closed(store, "s");
    learn(store, "s", RowFacts { native: Some(native.clone()), ..RowFacts::default() });
    assert!(!listed());
    store.add_stubs(&native.agent, &[stub]).unwrap();
    assert!(!listed());
}

fn a_claim_never_succeeds_against_a_live_lease(store: &Blocking) {
    let mut first = store.create(new_session("s")).unwrap();
    append(store, &mut first, texts("a")).unwrap();
    let refused = store.claim(&id("s")).unwrap_err();
    assert!(matches!(refused, StoreError::LiveElsewhere { .. }), "{refused}");
    append(store, &mut first, texts("b")).unwrap();
    store.release(&first).unwrap();
    assert_eq!(store.claim(&id("s")).unwrap().head, Seq(2));
}

fn a_claim_ends_the_lease_before_it(store: &Blocking) {
    let mut first = store.create(new_session("s")).unwrap();
    append(store, &mut first, texts("a")).unwrap();
    let second = claim_again(store, &first);
    assert_eq!((second.epoch, second.head), (2, Seq(1)));
    assert!(matches!(append(store, &mut first, texts("b")), Err(StoreError::StaleEpoch { .. })));
}

fn a_release_leaves_no_owner(store: &Blocking) {
    let lease = store.create(new_session("s")).unwrap();
    store.release(&lease).unwrap();
    assert_eq!(store.find(&id("s")).unwrap().unwrap().owner, None);
    store.claim(&id("s")).unwrap();
    assert!(store.find(&id("s")).unwrap().unwrap().owner.is_some());
}

fn an_old_lease_releases_nothing(store: &Blocking) {
    let old = store.create(new_session("s")).unwrap();
    claim_again(store, &old);
    store.release(&old).unwrap();
    assert!(store.find(&id("s")).unwrap().unwrap().owner.is_some());
}

fn pages_are_about_as_large_as_asked(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    let long = "x".repeat(1000);
    append(store, &mut lease, (0..20).map(|_| entry(&long)).collect()).unwrap();
    let page = store.read(&id("s"), Seq(0), 5500).unwrap();
    assert_eq!((page.items.len(), page.next, page.end), (5, Seq(6), false));
    let one = store.read(&id("s"), Seq(3), 1).unwrap();
    assert_eq!((one.items.len(), one.items[0].first, one.next), (1, Seq(3), Seq(4)));
    for budget in [0, 1, 3000, 50_000] {
        assert_eq!(read_all(store, "s", budget).len(), 20);
    }
}

fn reading_goes_on_where_the_end_was(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    let nothing = store.read(&id("s"), Seq(0), 1000).unwrap();
    assert_eq!((nothing.items.len(), nothing.next, nothing.end), (0, Seq(1), true));
    append(store, &mut lease, texts("a b")).unwrap();
    let page = store.read(&id("s"), nothing.next, 1000).unwrap();
    assert_eq!((show(&page.items), page.end), (vec!["1 a".to_owned(), "2 b".to_owned()], true));
    append(store, &mut lease, texts("c")).unwrap();
    let page = store.read(&id("s"), page.next, 1000).unwrap();
    assert_eq!(show(&page.items), ["3 c"]);
    assert!(store.read(&id("s"), page.next, 1000).unwrap().items.is_empty());
}

fn reading_in_the_middle_begins_there(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    append(store, &mut lease, texts("a b c d e")).unwrap();
    store.fold(&lease, Seq(3)).unwrap();
    for from in 1..=5 {
        let page = store.read(&id("s"), Seq(from), 1000).unwrap();
        assert_eq!(page.items[0].first, Seq(from));
        assert_eq!(page.items.len() as u64, 6 - from);
    }
}

fn seek(store: &Blocking, session: &str, before: u64, budget: usize) -> u64 {
    store.wait(async |store| store.seek_back(&id(session), Seq(before), budget).await).unwrap().0
}

fn seeking_back_finds_a_place_before_an_entry(store: &Blocking) {
    let mut parent = store.create(new_session("p")).unwrap();
    append(store, &mut parent, (0..10).map(|_| entry(&"x".repeat(1000))).collect()).unwrap();
    store.fold(&parent, Seq(5)).unwrap();
    let mut child = store.create(fork_of("s", "p", 8)).unwrap();
    append(store, &mut child, (0..10).map(|_| entry(&"y".repeat(1000))).collect()).unwrap();
    store.fold(&child, Seq(12)).unwrap();
    for before in 0..=25 {
        let mut nearer = u64::MAX;
        for budget in [0, 1, 2500, 6000] {
            let found = seek(store, "s", before, budget);
            assert!(found == 0 || found < before, "{found} is before {before}");
            assert!(found <= nearer, "more bytes before {before} begin no later");
            nearer = found;
            let page = store.read(&id("s"), Seq(found), 100_000).unwrap();
            assert!(page.next >= Seq(before.min(19)), "reading from {found} leads to {before}");
        }
        assert_eq!(seek(store, "s", before, 1_000_000), 0);
    }
    assert!(matches!(
        store.wait(async |store| store.seek_back(&id("unknown"), Seq(1), 1).await),
        Err(StoreError::Unknown(_))
    ));
}

fn seeking_back_does_not_go_to_the_beginning(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    for _ in 0..40 {
        append(store, &mut lease, (0..100).map(|_| entry(&"x".repeat(1000))).collect()).unwrap();
    }
    for folded in [Seq(0), Seq(1500), Seq(3000)] {
        store.fold(&lease, folded).unwrap();
        for before in [4001, 2000] {
            let found = seek(store, "s", before, 10_000);
            assert!(
                found < before && found + 1600 > before,
                "{found} is near {before}, folded up to {folded}"
            );
        }
    }
}

fn a_page_says_whether_it_begins_in_a_folded_part(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    append(store, &mut lease, texts("a b c d")).unwrap();
    let begins = |from| {
        let page = store.wait(async |store| store.read(&id("s"), Seq(from), 1000).await);
        page.unwrap().begins_folded()
    };
    assert!(!begins(1));
    store.fold(&lease, Seq(2)).unwrap();
    assert_eq!([1, 2, 3, 4, 5].map(begins), [true, true, false, false, false]);
}

fn a_fold_changes_no_text(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    append(store, &mut lease, texts("a b c")).unwrap();
    store.fold(&lease, Seq(2)).unwrap();
    assert_eq!(show(&read_all(store, "s", 1)), ["1 a", "2 b", "3 c"]);
    append(store, &mut lease, texts("d")).unwrap();
    store.fold(&lease, Seq(99)).unwrap();
    assert_eq!(show(&read_all(store, "s", 1)), ["1 a", "2 b", "3 c", "4 d"]);
    append(store, &mut lease, texts("e")).unwrap();
    assert_eq!(show(&read_all(store, "s", 1000)), ["1 a", "2 b", "3 c", "4 d", "5 e"]);
}

fn a_fold_needs_the_lease(store: &Blocking) {
    let mut old = store.create(new_session("s")).unwrap();
    append(store, &mut old, texts("a")).unwrap();
    claim_again(store, &old);
    assert!(matches!(store.fold(&old, Seq(1)), Err(StoreError::StaleEpoch { .. })));
}

fn a_fold_can_be_repeated(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    store.fold(&lease, Seq(0)).unwrap();
    append(store, &mut lease, texts("a b")).unwrap();
    for _ in 0..3 {
        store.fold(&lease, Seq(2)).unwrap();
    }
    assert_eq!(show(&read_all(store, "s", 1000)), ["1 a", "2 b"]);
}

fn a_fork_sees_what_was_and_not_what_comes(store: &Blocking) {
    let mut parent = store.create(new_session("p")).unwrap();
    append(store, &mut parent, texts("a b c")).unwrap();
    let mut child = store.create(fork_of("f", "p", 2)).unwrap();
    assert_eq!((child.epoch, child.head), (1, Seq(2)));
    append(store, &mut parent, texts("d")).unwrap();
    append(store, &mut child, texts("x y")).unwrap();
    store.fold(&parent, Seq(4)).unwrap();
    for budget in [1, 1000] {
        assert_eq!(show(&read_all(store, "f", budget)), ["1 a", "2 b", "3 x", "4 y"]);
        assert_eq!(show(&read_all(store, "p", budget)), ["1 a", "2 b", "3 c", "4 d"]);
    }
    assert_eq!(store.find(&id("f")).unwrap().unwrap().parent, Some((id("p"), Seq(2))));
}

fn a_fork_of_a_fork_sees_both(store: &Blocking) {
    let mut a = store.create(new_session("a")).unwrap();
    append(store, &mut a, texts("a1 a2 a3")).unwrap();
    let mut b = store.create(fork_of("b", "a", 2)).unwrap();
    append(store, &mut b, texts("b3 b4")).unwrap();
    let mut c = store.create(fork_of("c", "b", 3)).unwrap();
    append(store, &mut c, texts("c4")).unwrap();
    store.fold(&b, Seq(4)).unwrap();
    for budget in [1, 1000] {
        assert_eq!(show(&read_all(store, "c", budget)), ["1 a1", "2 a2", "3 b3", "4 c4"]);
    }
}

fn a_fork_before_its_parents_fork_skips_the_parent(store: &Blocking) {
    let mut a = store.create(new_session("a")).unwrap();
    append(store, &mut a, texts("a1 a2 a3")).unwrap();
    let mut b = store.create(fork_of("b", "a", 3)).unwrap();
    append(store, &mut b, texts("b4")).unwrap();
    let mut c = store.create(fork_of("c", "b", 1)).unwrap();
    append(store, &mut c, texts("c2")).unwrap();
    store.fold(&a, Seq(3)).unwrap();
    assert_eq!(show(&read_all(store, "c", 1)), ["1 a1", "2 c2"]);
    let empty = store.create(fork_of("e", "a", 0)).unwrap();
    assert_eq!(empty.head, Seq(0));
    assert!(read_all(store, "e", 1).is_empty());
}

fn a_fork_that_its_parent_does_not_reach_is_refused(store: &Blocking) {
    store.create(new_session("p")).unwrap();
    let refused = store.create(fork_of("f", "p", 1)).unwrap_err();
    assert!(matches!(refused, StoreError::MovedOn { .. }), "{refused}");
    assert!(matches!(store.create(fork_of("f", "none", 0)), Err(StoreError::Unknown(_))));
    assert_eq!(store.find(&id("f")).unwrap(), None);
}

fn a_fork_keeps_the_text_of_a_deleted_parent(store: &Blocking) {
    let mut parent = store.create(new_session("p")).unwrap();
    append(store, &mut parent, texts("a b")).unwrap();
    store.create(fork_of("f", "p", 2)).unwrap();
    store.delete(&id("p"), 9).unwrap();
    assert_eq!(show(&read_all(store, "f", 1000)), ["1 a", "2 b"]);
}

fn ids(store: &Blocking, query: &ListQuery) -> Vec<String> {
    let page = store.list(query).unwrap();
    page.rows.into_iter().map(|row| row.id.0).collect()
}

fn some(limit: usize) -> ListQuery {
    ListQuery { limit, ..ListQuery::default() }
}

fn sessions_are_found_by_a_part_of_their_id(store: &Blocking) {
    for (id, at) in [("ab-1", 1), ("ab-2", 3), ("xx-é1", 2), ("ba", 4)] {
        store.create(listed_session(id, "/w", at)).unwrap();
    }
    store.create(new_session("empty-1")).unwrap();
    assert_eq!(store.find_by_part("ab", 9), ["ab-2", "ab-1"]);
    assert_eq!(store.find_by_part("ab", 1), ["ab-2"]);
    assert_eq!(store.find_by_part("1", 9), ["xx-é1", "empty-1", "ab-1"]);
    assert_eq!(store.find_by_part("é1", 9), ["xx-é1"]);
    for none in ["-", "ab-1 ", "%", "AB", "xx-é1 and more"] {
        assert_eq!(store.find_by_part(none, 9), Vec::<String>::new(), "{none}");
    }
    store.set_archived(&id("ab-1"), Archived::Yes, 5).unwrap();
    store.delete(&id("ab-2"), 5).unwrap();
    assert_eq!(store.find_by_part("ab", 9), ["ab-1"]);
}

fn lists_are_newest_first(store: &Blocking) {
    for (name, at) in [("a", 5), ("b", 7), ("c", 7), ("d", 1)] {
        let lease = store.create(listed_session(name, "/w", at)).unwrap();
        store.release(&lease).unwrap();
    }
    assert_eq!(ids(store, &some(10)), ["c", "b", "a", "d"]);
    let lease = store.claim(&id("d")).unwrap();
    append_one(store, Append { at: Some(8), ..append_of(&lease, texts("x")) }).unwrap();
    assert_eq!(ids(store, &some(10)), ["d", "c", "b", "a"]);
    let row = &store.list(&some(1)).unwrap().rows[0];
    assert_eq!(row.owner.as_ref().map(|owner| owner.ours), Some(OwnedHere::Yes));
    assert_eq!(row.snapshot, None);
}

fn lists_come_in_pages(store: &Blocking) {
    for at in 0..25_u64 {
        store.create(listed_session(&format!("s{at:02}"), "/w", at / 4)).unwrap();
    }
    let whole = ids(store, &some(100));
    for limit in [1, 4, 5, 24, 25] {
        let (mut pages, mut query) = (Vec::new(), some(limit));
        loop {
            let page = store.list(&query).unwrap();
            assert!(page.rows.len() <= limit);
            pages.extend(page.rows.into_iter().map(|row| row.id.0));
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        assert_eq!(pages, whole);
    }
    assert_eq!(store.list(&some(25)).unwrap().next, None);
}

fn lists_can_be_of_one_directory(store: &Blocking) {
    for (name, cwd, at) in [("a", "/w", 1), ("b", "/v", 2), ("c", "/w", 3), ("d", "/w/x", 4)] {
        store.create(listed_session(name, cwd, at)).unwrap();
    }
    let in_w = ListQuery { cwd: Some("/w".to_owned()), ..some(10) };
    assert_eq!(ids(store, &in_w), ["c", "a"]);
    let first = store.list(&ListQuery { limit: 1, ..in_w.clone() }).unwrap();
    assert_eq!(ids(store, &ListQuery { after: first.next, ..in_w }), ["a"]);
}

fn lists_of_a_directory_do_not_mind_a_slash_at_its_end(store: &Blocking) {
    for (name, cwd, at) in [("a", "/w", 1), ("b", "/w/", 2), ("c", "/w", 3), ("d", "/w/x/", 4), ("e", "/", 5)]
    {
        store.create(listed_session(name, cwd, at)).unwrap();
    }
    for (cwd, expected) in
        [("/w", &["c", "b", "a"][..]), ("/w/", &["c", "b", "a"]), ("/w/x", &["d"]), ("/", &["e"])]
    {
        let query = ListQuery { cwd: Some(cwd.to_owned()), ..some(10) };
        assert_eq!(ids(store, &query), expected, "{cwd}");
        let first = store.list(&ListQuery { limit: 1, ..query.clone() }).unwrap();
        let rest = ListQuery { after: first.next.clone(), ..query };
        assert_eq!(first.next.map(|_| ids(store, &rest)).unwrap_or_default(), expected[1..], "{cwd}");
    }
}

fn a_clock_that_goes_back_does_not_turn_a_list_around(store: &Blocking) {
    for (name, at) in [("a", 1000), ("b", 2000), ("c", 3000)] {
        let lease = store.create(listed_session(name, "/w", at)).unwrap();
        store.release(&lease).unwrap();
    }
    let touch = |name: &str, at: u64| {
        let lease = store.claim(&id(name)).unwrap();
        append_one(store, Append { at: Some(at), ..append_of(&lease, texts("x")) }).unwrap();
        store.release(&lease).unwrap();
    };
    touch("a", 50);
    assert_eq!(ids(store, &some(10)), ["a", "c", "b"]);
    touch("b", 60);
    touch("b", 55);
    assert_eq!(ids(store, &some(10)), ["b", "a", "c"]);
    let fork = NewSession { facts: listed_session("f", "/w", 1).facts, at: 70, ..fork_of("f", "b", 1) };
    store.create(fork).unwrap();
    assert_eq!(ids(store, &some(10)), ["f", "b", "a", "c"], "a fork is always new");
    // What is put away counts too, for lists that have it among the others.
    store.set_archived(&id("f"), Archived::Yes, 80).unwrap();
    touch("c", 90);
    let all = ListQuery { archived: ArchivedFilter::Include, ..some(10) };
    assert_eq!(ids(store, &all), ["c", "f", "b", "a"]);
    touch("a", 5000);
    assert_eq!(store.find(&id("a")).unwrap().unwrap().updated_at, 5000, "a clock that is right again");
}

fn lists_treat_archived_sessions_as_asked(store: &Blocking) {
    for (name, at) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        store.create(listed_session(name, "/w", at)).unwrap();
    }
    store.set_archived(&id("b"), Archived::Yes, 9).unwrap();
    store.set_archived(&id("d"), Archived::Yes, 9).unwrap();
    for cwd in [None, Some("/w".to_owned())] {
        let of = |archived| ListQuery { archived, cwd: cwd.clone(), ..some(10) };
        assert_eq!(ids(store, &of(ArchivedFilter::Exclude)), ["c", "a"]);
        assert_eq!(ids(store, &of(ArchivedFilter::Only)), ["d", "b"]);
        assert_eq!(ids(store, &of(ArchivedFilter::Include)), ["d", "c", "b", "a"]);
        let first = store.list(&ListQuery { limit: 3, ..of(ArchivedFilter::Include) }).unwrap();
        let rest = ListQuery { after: first.next, ..of(ArchivedFilter::Include) };
        assert_eq!(ids(store, &rest), ["a"]);
    }
    store.set_archived(&id("d"), Archived::No, 10).unwrap();
    assert_eq!(ids(store, &some(10)), ["d", "c", "a"]);
}

fn lists_can_be_of_one_agent(store: &Blocking) {
    for (name, agent, at) in [("a", "Codex", 1), ("b", "claude", 2), ("c", "codex-acp", 3)] {
        store.create(NewSession { agent: agent.to_owned(), ..listed_session(name, "/w", at) }).unwrap();
    }
    let facts = RowFacts { native: Some(native("n")), listed: Some(Listed), ..RowFacts::default() };
    store.create(NewSession { facts, agent: "claude".to_owned(), at: 4, ..new_session("d") }).unwrap();
    let of = |agent: &str| ListQuery { agent: Some(agent.to_owned()), ..some(10) };
    assert_eq!(ids(store, &of("codex")), ["c", "a"]);
    assert_eq!(ids(store, &of("AGENT")), ["d"], "one that took the session over");
    assert_eq!(ids(store, &of("%")), Vec::<String>::new());
    assert_eq!(ids(store, &ListQuery { cwd: Some("/w".to_owned()), limit: 1, ..of("claude") }), ["d"]);
    let first = store.list(&ListQuery { limit: 1, ..of("codex") }).unwrap();
    assert_eq!(ids(store, &ListQuery { after: first.next, ..of("codex") }), ["a"]);
}

fn sessions_without_content_are_not_listed(store: &Blocking) {
    create_closed(store, "s");
    assert!(ids(store, &some(10)).is_empty());
    learn(store, "s", RowFacts { listed: Some(rethread::store::Listed), ..RowFacts::default() });
    assert_eq!(ids(store, &some(10)), ["s"]);
    learn(store, "s", RowFacts::default());
    assert_eq!(ids(store, &some(10)), ["s"]);
}

fn a_strange_cursor_is_refused(store: &Blocking) {
    for cursor in ["", "x", "AQ", "not a cursor", "AQAAAAAAAAAH", "AgAAAAAAAAAHcw", "AQAAAAAAAAAHcw=="] {
        let query = ListQuery { after: Some(cursor.to_owned()), ..some(1) };
        assert!(matches!(store.list(&query), Err(StoreError::BadCursor)), "{cursor}");
    }
    let fine = ListQuery { after: Some("AQAAAAAAAAAHcw".to_owned()), ..some(1) };
    assert!(store.list(&fine).is_ok());
}

fn a_title_from_outside_is_the_users(store: &Blocking) {
    let lease = store.create(listed_session("s", "/w", 1)).unwrap();
    store.release(&lease).unwrap();
    store.set_title(&id("s"), "mine").unwrap();
    learn(store, "s", RowFacts { title: Some(("x".to_owned(), TitleSource::Agent)), ..RowFacts::default() });
    let row = store.find(&id("s")).unwrap().unwrap();
    assert_eq!(row.title, Some(("mine".to_owned(), TitleSource::User)));
    let mut lease = store.claim(&lease.session).unwrap();
    store.set_title(&id("s"), "again").unwrap();
    append(store, &mut lease, texts("a")).unwrap();
}

fn archiving_stops_the_writer(store: &Blocking) {
    let mut lease = store.create(new_session("s")).unwrap();
    store.set_archived(&id("s"), Archived::Yes, 5).unwrap();
    assert!(matches!(append(store, &mut lease, texts("a")), Err(StoreError::StaleEpoch { .. })));
    let row = store.find(&id("s")).unwrap().unwrap();
    assert_eq!((row.archived, row.owner.is_some()), (Archived::Yes, true), "until it is released");
    assert!(matches!(store.claim(&id("s")), Err(StoreError::LiveElsewhere { .. })));
    store.release(&lease).unwrap();
    let mut lease = store.claim(&id("s")).unwrap();
    store.set_archived(&id("s"), Archived::No, 6).unwrap();
    append(store, &mut lease, texts("a")).unwrap();
    assert_eq!(store.find(&id("s")).unwrap().unwrap().archived, Archived::No);
}

fn changes_are_told_since_the_last_question(store: &Blocking) {
    let mut since = Revision::default();
    let mut changed = || {
        let changes = store.changes(Some(since)).unwrap();
        assert!(changes.revision >= since);
        assert_eq!(store.changes(None).unwrap().revision, changes.revision);
        since = changes.revision;
        changes.sessions.into_iter().map(|session| session.id.0).collect::<Vec<_>>()
    };
    assert!(changed().is_empty());
    let mut a = store.create(new_session("a")).unwrap();
    store.create(new_session("b")).unwrap();
    assert_eq!(changed(), ["a", "b"]);
    assert!(changed().is_empty());
    append(store, &mut a, texts("x")).unwrap();
    assert_eq!(changed(), ["a"], "it is the newest now");
    store.set_title(&id("b"), "t").unwrap();
    store.set_archived(&id("a"), Archived::Yes, 5).unwrap();
    assert_eq!(changed(), ["b", "a"]);
    store.delete(&id("b"), 6).unwrap();
    let last = store.changes(Some(since)).unwrap();
    assert_eq!(last.sessions.len(), 1);
    assert_eq!((last.sessions[0].deleted, last.sessions[0].epoch), (Deleted::Yes, 2));
}

fn deleting_stops_the_writer_and_hides(store: &Blocking) {
    let mut lease = store.create(listed_session("s", "/w", 1)).unwrap();
    store.delete(&id("s"), 5).unwrap();
    store.delete(&id("s"), 6).unwrap();
    let refused = append(store, &mut lease, texts("a")).unwrap_err();
    assert!(matches!(refused, StoreError::StaleEpoch { held: 1, found: 2, .. }), "{refused}");
    for archived in [ArchivedFilter::Exclude, ArchivedFilter::Include, ArchivedFilter::Only] {
        assert!(ids(store, &ListQuery { archived, ..some(10) }).is_empty());
    }
}

fn a_deleted_session_is_gone_for_everyone_but_find(store: &Blocking) {
    store.create(new_session("s")).unwrap();
    store.delete(&id("s"), 5).unwrap();
    assert_eq!(store.find(&id("s")).unwrap().unwrap().deleted, Deleted::Yes);
    assert!(matches!(store.claim(&id("s")), Err(StoreError::Unknown(_))));
    assert!(matches!(store.read(&id("s"), Seq(0), 1), Err(StoreError::Unknown(_))));
    assert!(matches!(store.set_title(&id("s"), "t"), Err(StoreError::Unknown(_))));
    assert!(matches!(store.set_archived(&id("s"), Archived::Yes, 6), Err(StoreError::Unknown(_))));
    assert!(matches!(store.create(fork_of("f", "s", 0)), Err(StoreError::Unknown(_))));
}

fn unknown_sessions_are_unknown_everywhere(store: &Blocking) {
    let none = id("none");
    let lease = rethread::store::Lease { session: none.clone(), epoch: 1, head: Seq(0), folded: Seq(0) };
    assert_eq!(store.find(&none).unwrap(), None);
    assert!(matches!(store.claim(&none), Err(StoreError::Unknown(_))));
    assert!(matches!(store.read(&none, Seq(0), 1), Err(StoreError::Unknown(_))));
    assert!(matches!(store.fold(&lease, Seq(1)), Err(StoreError::Unknown(_))));
    assert!(matches!(store.set_title(&none, "t"), Err(StoreError::Unknown(_))));
    assert!(matches!(store.set_archived(&none, Archived::Yes, 1), Err(StoreError::Unknown(_))));
    assert!(matches!(store.delete(&none, 1), Err(StoreError::Unknown(_))));
    assert!(matches!(append_one(store, append_of(&lease, texts("a"))), Err(StoreError::Unknown(_))));
    store.release(&lease).unwrap();
}

fn profiles_are_remembered(store: &Blocking) {
    assert_eq!(store.profile("k").unwrap(), None);
    store.remember_profile("k", &[1], 1).unwrap();
    store.remember_profile("l", &[9], 1).unwrap();
    store.remember_profile("k", &[2, 3], 2).unwrap();
    assert_eq!(store.profile("k").unwrap(), Some(vec![2, 3]));
    assert_eq!(store.profile("l").unwrap(), Some(vec![9]));
}

fn native(id: &str) -> rethread::store::NativeId {
    rethread::store::NativeId { agent: "agent".to_owned(), id: id.to_owned() }
}
