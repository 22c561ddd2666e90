//! The laws of journals, checked on random ones: what is stored is what was, any prefix replays, and folding
//! changes neither what a client sees nor the state at the end of a turn.

use crate::common::act::{TAGS, acts, wild_acts};
use crate::common::journal::{Manner, journal};
use crate::common::view::view_of;
use crate::common::view_v1::view_v1_of;
use proptest::prelude::*;
use rethread_core::{
    AgentKind, Binding, Entry, Folded, Json, PromptStyle, Seq, Session, Update, UpdateKind, fold, stored,
};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 120,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..ProptestConfig::default()
    }
}

/// The state after these items. The head is left out: of a folded journal the store knows it.
fn state(items: &[Folded]) -> Session {
    let mut session = Session::default();
    for item in items {
        session.replay(item.last, &item.entry);
    }
    Session { head: Seq(0), ..session }
}

/// Folds window by window, the sizes of which come round again.
fn fold_windows(items: &[Folded], sizes: &[usize]) -> Vec<Folded> {
    let mut rest = items;
    let mut folded = Vec::new();
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (window, later) = rest.split_at(rest.len().min(*size));
        folded.extend(fold(window));
        rest = later;
    }
    folded
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..12usize, 1..5)
}

fn turn_ends(items: &[Folded]) -> Vec<Seq> {
    items.iter().filter(|item| matches!(item.entry, Entry::TurnEnded { .. })).map(|item| item.last).collect()
}

/// What a fork at this place is made of.
fn up_to(items: &[Folded], end: Seq) -> Vec<Folded> {
    items.iter().filter(|item| item.first <= end).cloned().collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_read_back_is_what_was_written(acts in acts(), sizes in sizes()) {
        let live = journal(&acts, Manner::Free);
        let read: Vec<Folded> = live
            .iter()
            .map(|item| {
                let entry = stored::decode_entry(&stored::encode_entry(&item.entry)).expect("it reads");
                Folded { entry, ..item.clone() }
            })
            .collect();
        prop_assert_eq!(&read, &live);
        let folded = fold_windows(&live, &sizes);
        prop_assert_eq!(&fold_windows(&read, &sizes), &folded);
        let segment = stored::decode_segment(&stored::encode_segment(&folded)).expect("it reads");
        prop_assert_eq!(segment, folded);
    }

    #[test]
    fn joined_stretches_are_read_one_after_the_other(acts in acts(), cut in any::<prop::sample::Index>()) {
        let items = journal(&acts, Manner::Free);
        let (before, after) = items.split_at(cut.index(items.len()));
        let joined = stored::join_segments(&stored::encode_segment(before), &stored::encode_segment(after));
        prop_assert_eq!(joined.as_ref(), Some(&stored::encode_segment(&items)));
    }

    #[test]
    fn a_stretch_of_the_first_version_is_read_and_not_joined(acts in acts()) {
        let items = journal(&acts, Manner::Free);
        let mut first = vec![stored::VERSION];
        serde_json::to_writer(&mut first, &items).expect("it is plain data");
        prop_assert_eq!(stored::decode_segment(&first).expect("it reads"), items.clone());
        let second = stored::encode_segment(&items);
        prop_assert_eq!(stored::join_segments(&first, &second), None);
        prop_assert_eq!(stored::join_segments(&second, &first), None);
    }

    #[test]
    fn a_stretch_that_is_cut_or_changed_is_refused_or_read_but_never_more(
        acts in acts(), at in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let items = journal(&acts, Manner::Free);
        let whole = stored::encode_segment(&items);
        let at = at.index(whole.len());
        if let Ok(read) = stored::decode_segment(&whole[..at]) {
            prop_assert_eq!(&read[..], &items[..read.len()]);
        }
        let mut changed = whole;
        changed[at] = byte;
        // Whatever comes of it, it comes to an end.
        let _ = stored::decode_segment(&changed);
    }

    #[test]
    fn what_is_known_of_an_item_before_it_is_read_is_true(acts in acts()) {
        let items = journal(&acts, Manner::Free);
        let segment = stored::encode_segment(&items);
        let found: Vec<_> = stored::SegmentItems::of(&segment).expect("it reads").collect();
        prop_assert_eq!(found.len(), items.len());
        for (found, item) in found.into_iter().zip(&items) {
            let found = found.expect("it reads");
            prop_assert_eq!((found.first, found.last), (item.first, item.last));
            let aside = matches!(item.entry, Entry::PromptSent { .. } | Entry::TurnStarted { .. });
            let ended = matches!(&item.entry, Entry::TurnEnded { stop, .. } if stop.error.is_none());
            prop_assert_eq!(found.sort() == stored::ItemSort::Bookkeeping, aside);
            prop_assert_eq!(found.sort() == stored::ItemSort::TurnEnded, ended);
            let raw_item = match &item.entry {
                Entry::PromptInserted { message, content, .. } => {
                    Some(stored::RawItem::Prompt { message: message.as_str(), content: content.text() })
                }
                Entry::Updated { update: Update { kind, id, body }, known } => {
                    Some(stored::RawItem::Update { kind: *kind, id, known: *known, body: body.text() })
                }
                Entry::Opened { .. }
                | Entry::RootsSet { .. }
                | Entry::AgentBound { .. }
                | Entry::AgentLost { .. }
                | Entry::PromptHeld { .. }
                | Entry::PromptSent { .. }
                | Entry::PromptDropped { .. }
                | Entry::TurnStarted { .. }
                | Entry::StateChanged { .. }
                | Entry::TurnEnded { .. }
                | Entry::QuestionAsked { .. }
                | Entry::QuestionAnswered { .. }
                | Entry::QuestionWithdrawn { .. }
                | Entry::OptionAsked { .. }
                | Entry::OptionSettled { .. }
                | Entry::CancelAsked { .. }
                | Entry::TitleSet { .. } => None,
            };
            prop_assert_eq!(found.raw_item(), raw_item);
        }
    }

    #[test]
    fn any_prefix_replays(acts in acts(), cut in any::<prop::sample::Index>()) {
        let items = journal(&acts, Manner::Free);
        let mut whole = Session::default();
        items.iter().for_each(|item| whole.apply(&item.entry));
        let (before, after) = items.split_at(cut.index(items.len()));
        let mut session = Session::default();
        before.iter().for_each(|item| session.apply(&item.entry));
        let mut session = stored::decode_session(&stored::encode_session(&session)).expect("it reads");
        after.iter().for_each(|item| session.apply(&item.entry));
        prop_assert_eq!(session, whole);
    }

    #[test]
    fn folding_changes_nothing_that_a_client_sees(acts in acts(), sizes in sizes(), again in sizes()) {
        let items = journal(&acts, Manner::Free);
        let folded = fold_windows(&items, &sizes);
        prop_assert_eq!(view_of(&folded), view_of(&items));
        prop_assert_eq!(view_of(&fold(&items)), view_of(&items));
        prop_assert_eq!(view_of(&fold_windows(&folded, &again)), view_of(&items));
    }

    #[test]
    fn folding_changes_nothing_that_a_client_of_the_first_version_sees(acts in acts(), sizes in sizes()) {
        let items = journal(&acts, Manner::Streaming);
        let folded = fold_windows(&items, &sizes);
        prop_assert_eq!(view_v1_of(&folded), view_v1_of(&items));
        prop_assert_eq!(view_v1_of(&fold(&folded)), view_v1_of(&items));
    }

    #[test]
    fn folding_again_changes_nothing(acts in acts(), sizes in sizes()) {
        let items = journal(&acts, Manner::Free);
        let folded = fold(&items);
        prop_assert!(folded.len() <= items.len());
        prop_assert!(folded.is_sorted_by_key(|item| item.first));
        prop_assert_eq!(&fold(&folded), &folded);
        let folded = fold(&fold_windows(&items, &sizes));
        prop_assert_eq!(&fold(&folded), &folded);
    }

    #[test]
    fn folding_keeps_the_state_and_the_view_at_every_turn_end(acts in acts(), sizes in sizes()) {
        let items = journal(&acts, Manner::Free);
        let folded = [fold(&items), fold_windows(&items, &sizes)];
        for folded in &folded {
            prop_assert_eq!(state(folded), state(&items));
            for end in turn_ends(&items) {
                prop_assert!(folded.iter().all(|item| item.last <= end || item.first > end));
                let (fork, parent) = (up_to(folded, end), up_to(&items, end));
                prop_assert_eq!(state(&fork), state(&parent));
                prop_assert_eq!(view_of(&fork), view_of(&parent));
            }
        }
    }

    #[test]
    fn bodies_that_make_no_sense_do_no_harm(acts in wild_acts(), sizes in sizes()) {
        let items = journal(&acts, Manner::Free);
        let folded = fold_windows(&items, &sizes);
        prop_assert_eq!(view_of(&folded), view_of(&items));
        prop_assert_eq!(state(&folded), state(&items));
        let folded = fold(&items);
        prop_assert_eq!(view_of(&folded), view_of(&items));
        prop_assert_eq!(&fold(&folded), &folded);
    }
}

/// JSON that is valid as text and yet cannot be read as values.
#[test]
fn bodies_that_cannot_be_read_do_no_harm() {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let oddities =
        ["1e999", r#""\ud800""#, r#"{"\ud800":1}"#, r#"{"a":1,"a":2}"#, "[[]]", r#""\u0061""#, &deep];
    let mut entries = Vec::new();
    for odd in oddities {
        for tag in TAGS {
            for body in odd_bodies(tag, odd) {
                let update = Update { kind: UpdateKind::of_tag(tag), id: "x".to_owned(), body };
                entries.push(Entry::Updated { update, known: !entries.is_empty() });
            }
        }
    }
    let items = crate::common::placed(entries);
    let folded = fold(&items);
    assert_eq!(fold(&folded), folded);
    let _ = (state(&items), state(&folded));
}

fn odd_bodies(tag: &str, odd: &str) -> Vec<Json> {
    let field = UpdateKind::of_tag(tag).meaning().id.name().unwrap_or("id");
    let named = format!(r#""sessionUpdate":"{tag}","{field}":"x""#);
    let members = ["content", "output", "data", "summary", "_meta", "status", "exitStatus"];
    let with_member = |name| format!(r#"{{{named},"{name}":{odd}}}"#);
    let inside = [
        format!(r#"{{{named},"content":[{odd}],"output":{{"data":{odd}}},"summary":[{odd}]}}"#),
        format!(r#"{{{named},"content":{{"type":"text","text":{odd}}}}}"#),
        format!(r#"{{{named},"_meta":{{"k":{odd}}}}}"#),
        format!(r#"{{{named},"content":{{"type":"text","text":"plain"}}}}"#),
        odd.to_owned(),
    ];
    let bodies = members.into_iter().map(with_member).chain(inside);
    bodies.map(|body| Json::parse(body).expect("valid as text")).collect()
}

#[test]
fn an_agent_that_was_bound_before_its_kind_was_recorded_is_external() {
    let old = br#"{"AgentBound":{"generation":1,"agent":"rethread","native":"n","binding":"fresh","style":"acknowledged"}}"#;
    let entry = stored::decode_entry(&[&[stored::VERSION][..], &old[..]].concat()).expect("it reads");
    let Entry::AgentBound { kind, .. } = &entry else { panic!("{entry:?}") };
    assert_eq!(*kind, AgentKind::External);
    assert_eq!(stored::encode_entry(&entry)[1..], old[..], "and is written as it was");
    let mut within = entry.clone();
    let Entry::AgentBound { kind, .. } = &mut within else { unreachable!() };
    *kind = AgentKind::InProcess;
    assert_eq!(stored::decode_entry(&stored::encode_entry(&within)).expect("it reads"), within);
}

#[test]
fn a_session_that_was_opened_before_sessions_could_be_moved_is_not_moved() {
    let old = br#"{"Opened":{"cwd":"/w","roots":[],"agent":"a","at":1}}"#;
    let entry = stored::decode_entry(&[&[stored::VERSION][..], &old[..]].concat()).expect("it reads");
    let Entry::Opened { moved_from, .. } = &entry else { panic!("{entry:?}") };
    assert_eq!(*moved_from, None);
    assert_eq!(stored::encode_entry(&entry)[1..], old[..], "and is written as it was");
    let mut moved = entry.clone();
    let Entry::Opened { moved_from, .. } = &mut moved else { unreachable!() };
    *moved_from = Some("/before".to_owned());
    assert_eq!(stored::decode_entry(&stored::encode_entry(&moved)).expect("it reads"), moved);
}

#[test]
fn a_moved_session_has_its_new_directory_and_no_agent_of_its_own() {
    let opened = |cwd: &str, moved_from: Option<&str>| Entry::Opened {
        cwd: cwd.to_owned(),
        roots: vec!["/r".to_owned()],
        agent: "a".to_owned(),
        at: 1,
        moved_from: moved_from.map(str::to_owned),
    };
    let bound = |native: &str| Entry::AgentBound {
        generation: 1,
        agent: "a".to_owned(),
        native: native.to_owned(),
        binding: Binding::Fresh,
        style: PromptStyle::OneAtATime,
        kind: AgentKind::External,
    };
    let mut session = Session::default();
    [opened("/old", None), bound("n"), opened("/new", Some("/old"))].iter().for_each(|e| session.apply(e));
    assert_eq!((session.cwd.as_str(), session.moved_from.as_deref()), ("/new", Some("/old")));
    assert!(session.natives.is_empty() && session.agent.is_none());
    let read = stored::decode_session(&stored::encode_session(&session)).expect("it reads");
    assert_eq!(read, session);
    session.apply(&bound("m"));
    assert_eq!((session.natives.len(), session.moved_from), (1, None), "the agent knows the new directory");
}
