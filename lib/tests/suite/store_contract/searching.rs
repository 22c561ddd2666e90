//! Searching, on every store there is.

use std::sync::Arc;

use rethread::store::{
    Append, Archived, Lease, Listed, NativeId, NewSession, RowFacts, SearchHit, SearchQuery, StoreError,
};
use rethread_core::search::{PartKind, TextQuery};
use rethread_core::{Entry, Millis, Seq, Speaker, Stop, TurnNo, Update};
use serde_json::{Value, json};

use crate::store::{Blocking, append, append_of, new_session};

/// A turn: a prompt at a time, what the agent says, and the end a second later.
pub(crate) fn turn(number: u64, at: Millis, prompt: &str, said: &[Value]) -> Vec<Arc<Entry>> {
    let content = json!([{"type": "text", "text": prompt}]).into();
    let message = format!("p{number}").as_str().into();
    let mut entries = vec![Entry::PromptInserted { message, turn: TurnNo(number), content, at }];
    let updates = said.iter().map(|update| Update::read(update.clone().into()));
    entries.extend(updates.map(|update| Entry::Updated { update, known: false }));
    let state = json!({"sessionUpdate": "state_update", "state": "idle"}).into();
    entries.push(Entry::TurnEnded {
        turn: TurnNo(number),
        stop: Stop::plain("end_turn"),
        at: at + 1000,
        state,
    });
    entries.into_iter().map(Arc::new).collect()
}

pub(crate) fn chunk_of(id: &str, text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}})
}

pub(crate) fn tool_call(id: &str, title: &str, text: &str) -> Value {
    let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "title": title, "status": "completed",
           "content": content})
}

/// A session with turns, which this store owns.
fn session(store: &Blocking, id: &str, cwd: &str, turns: &[(Millis, &str, &[Value])]) -> Lease {
    let facts = RowFacts { listed: Some(Listed), ..RowFacts::default() };
    let mut lease = store.create(NewSession { cwd: cwd.to_owned(), facts, ..new_session(id) }).unwrap();
    for (number, (at, prompt, said)) in (1..).zip(turns) {
        append(store, &mut lease, turn(number, *at, prompt, said)).unwrap();
    }
    lease
}

fn query(text: &str) -> SearchQuery {
    SearchQuery::new(TextQuery::parse(text).unwrap(), 20)
}

fn search(store: &Blocking, text: &str) -> Vec<String> {
    found(store, &query(text))
}

fn found(store: &Blocking, query: &SearchQuery) -> Vec<String> {
    store.search(query).unwrap().hits.iter().map(show).collect()
}

/// `session turn message: excerpt`, with the matches in brackets.
fn show(hit: &SearchHit) -> String {
    let part = |part: &rethread_core::search::ExcerptPart| match part.kind {
        PartKind::Plain => part.text.clone(),
        PartKind::Match => format!("[{}]", part.text),
    };
    let excerpt: String = hit.excerpt.parts.iter().map(part).collect();
    format!("{} {} {}: {excerpt}", hit.session, hit.turn, hit.message)
}

pub(super) fn messages_and_tool_calls_are_found(store: &Blocking) {
    let said =
        [chunk_of("a1", "The pars"), chunk_of("a1", "er works."), tool_call("t1", "Run tests", "all green")];
    session(store, "s", "/w", &[(1000, "Fix the parser", &said)]);
    assert_eq!(search(store, "parser"), ["s 1 a1: The [parser] works.", "s 1 p1: Fix the [parser]"]);
    assert_eq!(search(store, "\"tests all\""), ["s 1 t1: Run [tests all] green"]);
    assert_eq!(search(store, "the pars*"), ["s 1 a1: [The] [parser] works.", "s 1 p1: Fix [the] [parser]"]);
    assert_eq!(search(store, "fix works"), Vec::<String>::new(), "all words must be in one message");
    assert_eq!(search(store, "pars"), Vec::<String>::new());
    assert_eq!(search(store, "completed"), Vec::<String>::new(), "a status is no text");
    let hit = store.search(&query("green")).unwrap().hits.remove(0);
    assert_eq!((hit.speaker, hit.cwd.as_str(), hit.agent.as_str()), (Speaker::Tool, "/w", "agent"));
    assert!(hit.at > 1000 && hit.at < 2000, "{}", hit.at);
}

pub(super) fn letters_are_compared_without_case_and_diacritics(store: &Blocking) {
    session(store, "s", "/w", &[(1, "Ein Übermaß an CAFÉ in snake_case, 東京タワー", &[])]);
    for text in [
        "ubermaß",
        "cafe",
        "Café",
        "SNAKE_CASE",
        "snake*",
        "東京",
        "タワー",
        "京タ",
        "東",
        "ー",
        "\"an cafe in\"",
    ] {
        assert_eq!(search(store, text).len(), 1, "{text}");
    }
    for text in ["snake", "case", "京東", "caf", "塔"] {
        assert_eq!(search(store, text).len(), 0, "{text}");
    }
}

pub(super) fn hits_are_newest_first_by_their_own_time(store: &Blocking) {
    session(store, "new", "/w", &[(5000, "word five", &[]), (3000, "word three", &[])]);
    session(store, "old", "/w", &[(1000, "word one", &[]), (4000, "word four", &[])]);
    let texts =
        ["new 1 p1: [word] five", "old 2 p2: [word] four", "new 2 p2: [word] three", "old 1 p1: [word] one"];
    assert_eq!(search(store, "word"), texts);
    let since = SearchQuery { since: Some(3000), ..query("word") };
    assert_eq!(found(store, &since), texts[..3]);
}

pub(super) fn hits_come_in_pages(store: &Blocking) {
    // Several of the same millisecond, which only their number tells apart.
    let turns: Vec<(Millis, String)> = (0..7).map(|number| (number / 3, format!("word n{number}"))).collect();
    let turns: Vec<(Millis, &str, &[Value])> =
        turns.iter().map(|(at, text)| (*at, text.as_str(), &[][..])).collect();
    session(store, "s", "/w", &turns);
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.search(&SearchQuery { after, limit: 2, ..query("word") }).unwrap();
        assert!(page.hits.len() <= 2 && !page.hits.is_empty());
        all.extend(page.hits.iter().map(|hit| hit.turn.0));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(all, [7, 6, 5, 4, 3, 2, 1]);
    let strange = SearchQuery { after: Some("!".to_owned()), ..query("word") };
    assert!(matches!(store.search(&strange), Err(StoreError::BadCursor)));
}

pub(super) fn searches_can_be_of_one_directory_or_agent(store: &Blocking) {
    let here = session(store, "here", "/w/here/", &[(1, "word", &[])]);
    session(store, "there", "/w/there", &[(2, "word", &[])]);
    let native = Some(NativeId { agent: "Claude Code".to_owned(), id: "n".to_owned() });
    let served = Append { facts: RowFacts { native, ..RowFacts::default() }, ..append_of(&here, Vec::new()) };
    store.append(served).unwrap();
    let sessions = |cwd: Option<&str>, agent: Option<&str>| {
        let (cwd, agent) = (cwd.map(str::to_owned), agent.map(str::to_owned));
        let hits = store.search(&SearchQuery { cwd, agent, ..query("word") }).unwrap().hits;
        hits.into_iter().map(|hit| hit.session.0).collect::<Vec<_>>()
    };
    assert_eq!(sessions(Some("/w/here"), None), ["here"]);
    assert_eq!(sessions(Some("/w/there/"), None), ["there"]);
    assert_eq!(sessions(Some("/w"), None), Vec::<String>::new());
    assert_eq!(sessions(None, Some("claude")), ["here"]);
    assert_eq!(sessions(None, Some("AGENT")), ["there", "here"]);
    assert_eq!(sessions(Some("/w/there"), Some("claude")), Vec::<String>::new());
    let hit = store
        .search(&SearchQuery { cwd: Some("/w/here".to_owned()), ..query("word") })
        .unwrap()
        .hits
        .remove(0);
    assert_eq!(hit.agent, "Claude Code", "the agent that served it last");
}

pub(super) fn a_turn_is_found_when_it_has_ended(store: &Blocking) {
    let mut lease = session(store, "s", "/w", &[(1, "first word", &[])]);
    assert_eq!(search(store, "word").len(), 1);
    let mut entries = turn(2, 5, "second word", &[chunk_of("a", "another word")]);
    let end = entries.pop().unwrap();
    append(store, &mut lease, entries).unwrap();
    assert_eq!(search(store, "word").len(), 1, "the turn runs");
    append(store, &mut lease, vec![end]).unwrap();
    assert_eq!(search(store, "word").len(), 3);
    store.fold(&lease, lease.head).unwrap();
    assert_eq!(search(store, "word").len(), 3, "a fold changes nothing");
    // A turn whose process has ended will not end any more.
    let mut entries = turn(3, 9, "third word", &[]);
    entries.pop();
    append(store, &mut lease, entries).unwrap();
    store.release(&lease).unwrap();
    assert_eq!(search(store, "word").len(), 4);
}

pub(super) fn shared_text_is_found_once(store: &Blocking) {
    let mut parent = session(store, "p", "/w", &[(1, "shared word", &[])]);
    let fork_at = parent.head;
    append(store, &mut parent, turn(2, 3000, "own word of the parent", &[])).unwrap();
    let facts = RowFacts { listed: Some(Listed), ..RowFacts::default() };
    let fork =
        NewSession { parent: Some(("p".into(), fork_at)), facts, cwd: "/f".to_owned(), ..new_session("f") };
    let mut fork = store.create(fork).unwrap();
    append(store, &mut fork, turn(2, 2000, "own word of the fork", &[])).unwrap();
    let all = ["p 2 p2: own [word] of the parent", "f 2 p2: own [word] of the fork", "p 1 p1: shared [word]"];
    assert_eq!(search(store, "word"), all);
    store.release(&parent).unwrap();
    store.delete(&"p".into(), 5).unwrap();
    assert_eq!(search(store, "word"), ["f 2 p2: own [word] of the fork", "f 1 p1: shared [word]"]);
    let in_fork = SearchQuery { cwd: Some("/f".to_owned()), ..query("shared") };
    assert_eq!(found(store, &in_fork), ["f 1 p1: [shared] word"]);
    store.release(&fork).unwrap();
    store.delete(&"f".into(), 6).unwrap();
    assert_eq!(search(store, "word"), Vec::<String>::new());
}

pub(super) fn archived_sessions_are_found_and_deleted_ones_are_not(store: &Blocking) {
    for id in ["a", "b"] {
        let lease = session(store, id, "/w", &[(1, "word", &[])]);
        store.release(&lease).unwrap();
    }
    assert_eq!(search(store, "word").len(), 2);
    store.set_archived(&"a".into(), Archived::Yes, 5).unwrap();
    store.delete(&"b".into(), 5).unwrap();
    let hits = store.search(&query("word")).unwrap().hits;
    assert_eq!(
        hits.iter().map(|hit| (hit.session.as_str(), hit.archived)).collect::<Vec<_>>(),
        [("a", Archived::Yes)]
    );
}

pub(super) fn long_messages_are_one_hit(store: &Blocking) {
    let long = "needle in a long haystack of text ".repeat(10_000);
    session(store, "s", "/w", &[(1, &format!("{long} END_MARK"), &[])]);
    assert_eq!(search(store, "needle").len(), 1);
    assert_eq!(search(store, "end_mark").len(), 1, "also at its end");
}

pub(super) fn an_index_that_was_made_anew_finds_the_same(store: &Blocking) {
    session(store, "s", "/w", &[(1, "word one", &[]), (2, "word two", &[])]);
    let before = search(store, "word");
    store.rebuild_index().unwrap();
    assert_eq!(search(store, "word"), before);
    assert_eq!(before.len(), 2);
}

pub(super) fn sessions_that_are_open_are_not_deleted_with_others(store: &Blocking) {
    let open = session(store, "open", "/w", &[(1, "word", &[])]);
    for id in ["a", "b"] {
        let lease = session(store, id, "/w", &[(1, "word", &[])]);
        store.release(&lease).unwrap();
    }
    assert!(store.size(&"a".into()).unwrap() > 0);
    let ids = ["open", "a", "b"].map(Into::into);
    assert_eq!(store.delete_unowned(&ids, 5).unwrap(), ["a", "b"].map(Into::into));
    assert_eq!(search(store, "word"), ["open 1 p1: [word]"]);
    assert_eq!(store.delete_unowned(&ids, 5).unwrap(), []);
    assert_eq!(open.head, Seq(2));
}

pub(super) fn one_of_several_prunes(store: &Blocking) {
    use rethread::store::PruneTurn;
    assert_eq!(store.begin_pruning(1000, 500).unwrap(), PruneTurn::Ours);
    assert_eq!(store.begin_pruning(1001, 501).unwrap(), PruneTurn::Done);
    assert_eq!(store.begin_pruning(2000, 1001).unwrap(), PruneTurn::Ours);
}
