//! Updates that were recorded elsewhere become a journal with turns: updates in, entries out.

use crate::common::{placed, text, update};
use expect_test::{Expect, expect};
use rethread_core::{Activity, Entry, JournalBuilder, Millis, Origin, Session, Stop, TitleSource, fold};
use serde_json::{Value, json};

fn origin() -> Origin {
    Origin { cwd: "/w".to_owned(), roots: Vec::new(), agent: "a".to_owned(), title: None, at: 100 }
}

fn build(updates: &[(Value, Option<Millis>)]) -> (Session, Vec<Entry>) {
    let mut journal = JournalBuilder::new(origin());
    updates.iter().for_each(|(body, at)| journal.add(update(body.clone()), *at));
    journal.finish()
}

/// Checks the entries, and that they are a journal: the same state comes of them, folded or not.
fn check_entries((session, entries): (Session, Vec<Entry>), expect: Expect) {
    let replayed = |items: &[rethread_core::Folded]| {
        let mut session = Session::default();
        items.iter().for_each(|item| session.replay(item.last, &item.entry));
        session
    };
    let items = placed(entries.clone());
    assert_eq!(replayed(&items), session);
    assert_eq!(replayed(&fold(&items)), Session { head: replayed(&fold(&items)).head, ..session.clone() });
    assert_eq!((session.activity, session.turn.is_none()), (Activity::Idle, true));
    assert!(session.calls.is_empty() && session.terminals.is_empty() && session.compactions.is_empty());
    expect.assert_eq(&entries.iter().map(line).collect::<String>());
}

fn check(updates: &[Value], expect: Expect) {
    let updates: Vec<_> = updates.iter().map(|body| (body.clone(), None)).collect();
    check_entries(build(&updates), expect);
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is not made here")]
fn line(entry: &Entry) -> String {
    match entry {
        Entry::Opened { at, .. } => format!("opened at {at}\n"),
        Entry::TitleSet { title, by } => format!("title {title:?} by {by:?}\n"),
        Entry::TurnStarted { turn, at, .. } => format!("turn {turn} started at {at}\n"),
        Entry::PromptInserted { message, turn, content, at } => {
            format!("  prompt {message} of turn {turn} at {at}: {content}\n")
        }
        Entry::TurnEnded { turn, stop, at, .. } => format!("turn {turn} ended at {at}: {}\n", stop.reason),
        Entry::Updated { update, known } => {
            format!("  {} {}\n", if *known { "known" } else { "new" }, update.body)
        }
        other => format!("{other:?}\n"),
    }
}

fn user(id: &str, words: &str) -> Value {
    text("user_message_chunk", id, words)
}

fn agent(id: &str, words: &str) -> Value {
    text("agent_message_chunk", id, words)
}

#[test]
fn a_user_message_begins_a_turn() {
    check(
        &[
            user("u1", "fix"),
            user("u1", " it\nplease"),
            agent("m1", "Do"),
            agent("m1", "ne"),
            user("u2", "thanks"),
            json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}),
        ],
        expect![[r#"
            opened at 100
            title "fix it" by Prompt
            turn 1 started at 100
              prompt u1 of turn 1 at 100: [{"type":"text","text":"fix it\nplease"}]
              new {"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"Do"}}
              known {"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"ne"}}
            turn 1 ended at 100: end_turn
            turn 2 started at 100
              prompt u2 of turn 2 at 100: [{"type":"text","text":"thanks"}]
              new {"sessionUpdate":"usage_update","used":1,"size":2}
            turn 2 ended at 100: end_turn
        "#]],
    );
}

#[test]
fn times_are_those_of_the_updates() {
    let updates = [
        (user("u1", "one"), Some(1_000)),
        (agent("m1", "a"), None),
        (agent("m1", "b"), Some(1_500)),
        (user("u2", "two"), Some(9_000)),
        (agent("m2", "c"), Some(8_000)),
    ];
    check_entries(
        build(&updates),
        expect![[r#"
        opened at 100
        title "one" by Prompt
        turn 1 started at 1000
          prompt u1 of turn 1 at 1000: [{"type":"text","text":"one"}]
          new {"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"a"}}
          known {"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"b"}}
        turn 1 ended at 1500: end_turn
        turn 2 started at 9000
          prompt u2 of turn 2 at 9000: [{"type":"text","text":"two"}]
          new {"sessionUpdate":"agent_message_chunk","messageId":"m2","content":{"type":"text","text":"c"}}
        turn 2 ended at 9000: end_turn
    "#]],
    );
}

#[test]
fn what_is_open_at_the_end_of_a_turn_is_settled() {
    check(
        &[
            user("u1", "run it"),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "Run", "status": "in_progress"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c2", "title": "Look", "status": "completed"}),
            json!({"sessionUpdate": "terminal_update", "terminalId": "t1", "command": "ls"}),
            user("u2", "again"),
            json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress"}),
        ],
        expect![[r#"
            opened at 100
            title "run it" by Prompt
            turn 1 started at 100
              prompt u1 of turn 1 at 100: [{"type":"text","text":"run it"}]
              new {"sessionUpdate":"tool_call_update","toolCallId":"c1","title":"Run","status":"in_progress"}
              new {"sessionUpdate":"tool_call_update","toolCallId":"c2","title":"Look","status":"completed"}
              new {"sessionUpdate":"terminal_update","terminalId":"t1","command":"ls"}
              known {"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"failed"}
              known {"sessionUpdate":"terminal_update","terminalId":"t1","exitStatus":{},"capabilities":null}
            turn 1 ended at 100: end_turn
            turn 2 started at 100
              prompt u2 of turn 2 at 100: [{"type":"text","text":"again"}]
              new {"sessionUpdate":"compaction_update","compactionId":"k","status":"in_progress"}
              known {"sessionUpdate":"compaction_update","compactionId":"k","status":"failed"}
            turn 2 ended at 100: end_turn
        "#]],
    );
}

#[test]
fn what_is_said_before_the_first_user_message_is_a_turn_without_a_prompt() {
    check(
        &[
            json!({"sessionUpdate": "available_commands_update", "availableCommands": []}),
            agent("m0", "Welcome"),
            user("u1", "hello"),
        ],
        expect![[r#"
            opened at 100
              new {"sessionUpdate":"available_commands_update","availableCommands":[]}
            turn 1 started at 100
              new {"sessionUpdate":"agent_message_chunk","messageId":"m0","content":{"type":"text","text":"Welcome"}}
            turn 1 ended at 100: end_turn
            title "hello" by Prompt
            turn 2 started at 100
              prompt u1 of turn 2 at 100: [{"type":"text","text":"hello"}]
            turn 2 ended at 100: end_turn
        "#]],
    );
}

#[test]
fn a_user_message_with_more_than_content_stays_as_it_is() {
    check(
        &[
            json!({"sessionUpdate": "user_message", "messageId": "u1", "content": [{"type": "text", "text": "hi"}],
                "_meta": {"k": 1}}),
            agent("m1", "hello"),
            json!({"sessionUpdate": "user_message", "messageId": "u2", "content": []}),
            json!({"sessionUpdate": "user_message", "messageId": "u3", "content": [{"type": "text", "text": "ho"}],
                "_meta": null}),
            user("u3", "!"),
            agent("m3", "yes"),
            user("u3", "late"),
        ],
        expect![[r#"
            opened at 100
            title "hi" by Prompt
            turn 1 started at 100
              new {"sessionUpdate":"user_message","messageId":"u1","content":[{"type":"text","text":"hi"}],"_meta":{"k":1}}
              new {"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"hello"}}
            turn 1 ended at 100: end_turn
            turn 2 started at 100
              new {"sessionUpdate":"user_message","messageId":"u2","content":[]}
            turn 2 ended at 100: end_turn
            turn 3 started at 100
              prompt u3 of turn 3 at 100: [{"type":"text","text":"ho!"}]
              new {"sessionUpdate":"agent_message_chunk","messageId":"m3","content":{"type":"text","text":"yes"}}
              known {"sessionUpdate":"user_message_chunk","messageId":"u3","content":{"type":"text","text":"late"}}
            turn 3 ended at 100: end_turn
        "#]],
    );
}

#[test]
fn titles_that_are_given_win_over_the_first_words() {
    let titled = json!({"sessionUpdate": "session_info_update", "title": "The agent's"});
    check(
        &[user("u1", "first words"), titled.clone(), user("u2", "more")],
        expect![[r#"
        opened at 100
        title "first words" by Prompt
        turn 1 started at 100
          prompt u1 of turn 1 at 100: [{"type":"text","text":"first words"}]
          new {"sessionUpdate":"session_info_update","title":"The agent's"}
        title "The agent's" by Agent
        turn 1 ended at 100: end_turn
        turn 2 started at 100
          prompt u2 of turn 2 at 100: [{"type":"text","text":"more"}]
        turn 2 ended at 100: end_turn
    "#]],
    );
    let mut journal =
        JournalBuilder::new(Origin { title: Some(("Mine".to_owned(), TitleSource::User)), ..origin() });
    journal.add(update(user("u1", "first words")), None);
    journal.add(update(titled), None);
    check_entries(
        journal.finish(),
        expect![[r#"
        opened at 100
        title "Mine" by User
        turn 1 started at 100
          prompt u1 of turn 1 at 100: [{"type":"text","text":"first words"}]
        turn 1 ended at 100: end_turn
    "#]],
    );
}

#[test]
fn a_source_may_say_how_a_turn_ended() {
    let mut journal = JournalBuilder::new(origin());
    journal.end_turn(Stop::plain("cancelled"), Some(150));
    assert!(!journal.has_conversation());
    journal.add(update(user("u1", "wait")), Some(200));
    journal.end_turn(Stop::plain("cancelled"), Some(300));
    journal.add(update(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2})), None);
    journal.add(update(agent("m1", "by myself")), Some(400));
    assert!(journal.has_conversation());
    check_entries(
        journal.finish(),
        expect![[r#"
        opened at 100
        title "wait" by Prompt
        turn 1 started at 200
          prompt u1 of turn 1 at 200: [{"type":"text","text":"wait"}]
        turn 1 ended at 300: cancelled
          new {"sessionUpdate":"usage_update","used":1,"size":2}
        turn 2 started at 400
          new {"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"by myself"}}
        turn 2 ended at 400: end_turn
    "#]],
    );
}

#[test]
fn entries_can_be_taken_out_on_the_way() {
    let updates = [user("u1", "one"), agent("m1", "a"), user("u2", "two"), agent("m2", "b")];
    let all = build(&updates.clone().map(|body| (body, None)));
    let mut journal = JournalBuilder::new(origin());
    let mut entries = Vec::new();
    for body in updates {
        journal.add(update(body), None);
        entries.extend(journal.take_entries());
    }
    let (session, rest) = journal.finish();
    entries.extend(rest);
    assert_eq!((session, entries), all);
}
