//! What follows from inputs, told in words: inputs in, text out, through one `check`.

use expect_test::{Expect, expect};
use rethread_core::session::Session;
use rethread_core::{
    Activity, AgentKind, Binding, Dropped, Entry, HeldPrompts, Input, Json, PromptStyle, QuestionKind,
    Refusal, Stop, TitleSource, Update, UpdateKind, decide,
};
use serde_json::{Value, json};

/// Takes the inputs one after the other and tells what was written of each.
fn check(inputs: Vec<Input>, expected: Expect) {
    let mut session = Session::default();
    let mut told = String::new();
    for input in inputs {
        match decide(&session, input) {
            Ok(entries) => {
                for entry in entries {
                    session.apply(&entry);
                    told.push_str(&tell(&entry));
                    told.push('\n');
                }
            }
            Err(refusal) => told.push_str(&format!("refused: {refusal}\n")),
        }
    }
    expected.assert_eq(&told);
}

fn tell(entry: &Entry) -> String {
    match entry {
        Entry::AgentBound { generation, native, binding, .. } => {
            format!("agent {generation} bound as {native}, {binding:?}")
        }
        Entry::AgentLost { generation, reason } => format!("agent {generation} lost: {reason}"),
        Entry::PromptHeld { message, .. } => format!("prompt {message} held"),
        Entry::PromptSent { message } => format!("prompt {message} sent"),
        Entry::PromptInserted { message, turn, .. } => format!("prompt {message} inserted into turn {turn}"),
        Entry::PromptDropped { message, why: Dropped::Cancelled } => {
            format!("prompt {message} dropped: cancelled")
        }
        Entry::PromptDropped { message, why: Dropped::Refused(error) } => {
            format!("prompt {message} dropped: {}", error.value()["message"])
        }
        Entry::TurnStarted { turn, .. } => format!("turn {turn} started"),
        Entry::StateChanged { activity, .. } => format!("state {activity:?}"),
        Entry::TurnEnded { turn, stop, .. } => format!("turn {turn} ended: {}", stop.reason),
        Entry::Updated { update, .. } => format!("update {}", update.body),
        Entry::QuestionAsked { question, .. } => format!("question {question} asked"),
        Entry::QuestionAnswered { question, answer } => format!("question {question} answered: {answer}"),
        Entry::QuestionWithdrawn { question } => format!("question {question} withdrawn"),
        Entry::OptionAsked { ask, option, value } => format!("option {option} asked as {ask}: {value}"),
        Entry::OptionSettled { ask, error } => format!("option {ask} settled: {error:?}"),
        Entry::CancelAsked { turn } => format!("turn {turn} to be cancelled"),
        Entry::TitleSet { title, by } => format!("title by {by:?}: {title}"),
        Entry::Opened { cwd, .. } => format!("opened in {cwd}"),
        Entry::RootsSet { roots, .. } => format!("roots {roots:?}"),
    }
}

fn prompt(id: &str) -> Input {
    let content = json!([{"type": "text", "text": id}]).into();
    Input::Prompt { message: id.into(), content, title: None, at: 0 }
}

fn bound(style: PromptStyle) -> Input {
    let (agent, native, kind) = ("a".to_owned(), "n".to_owned(), AgentKind::External);
    Input::AgentBound { agent, native, binding: Binding::Fresh, style, kind, at: 0 }
}

fn one_at_a_time() -> Input {
    bound(PromptStyle::OneAtATime)
}

fn acknowledging() -> Input {
    bound(PromptStyle::Acknowledged)
}

fn finished(id: &str, stop: Stop) -> Input {
    Input::PromptFinished { message: id.into(), stop, extra: None, at: 0 }
}

fn inserted(id: &str) -> Input {
    Input::PromptInserted { message: id.into(), at: 0 }
}

fn state(activity: Activity, stop: Option<&str>) -> Input {
    let state = json!({"sessionUpdate": "state_update"}).into();
    Input::AgentState { activity, stop: stop.map(Stop::plain), state, at: 0 }
}

fn exited() -> Input {
    Input::AgentExited { reason: "exit status 3".to_owned(), held: HeldPrompts::Drop, at: 0 }
}

fn exited_with_prompts_waiting() -> Input {
    Input::AgentExited { reason: "exit status 3".to_owned(), held: HeldPrompts::Wait, at: 0 }
}

fn update(kind: UpdateKind, id: &str, body: Value) -> Input {
    Input::Updated { update: Update { kind, id: id.to_owned(), body: body.into() }, known: false }
}

fn permission(id: &str) -> Input {
    let body: Json = json!({"title": "may I", "options": [{"optionId": "yes"}]}).into();
    Input::Question { question: id.into(), kind: QuestionKind::Permission, body }
}

fn answer(id: &str, outcome: Value) -> Input {
    Input::Answer { question: id.into(), answer: json!({"outcome": outcome}).into() }
}

fn options() -> Input {
    let list = json!([
        {"configId": "mode", "type": "select", "currentValue": "ask",
         "options": [{"value": "ask"}, {"groupId": "g", "options": [{"value": "code"}]}]},
        {"configId": "fast", "type": "boolean", "currentValue": false},
    ]);
    update(UpdateKind::ConfigOptionUpdate, "", json!({"configOptions": list}))
}

fn set(option: &str, value: Value) -> Input {
    Input::SetOption { ask: "a".into(), option: option.to_owned(), value: value.into() }
}

fn style_found() -> Input {
    Input::StyleFound { style: PromptStyle::OneAtATime, at: 0 }
}

#[test]
fn an_agent_that_was_taken_for_an_acknowledging_one_is_sent_no_prompt_twice() {
    check(
        vec![
            acknowledging(),
            prompt("p1"),
            prompt("p2"),
            prompt("p3"),
            style_found(),
            finished("p3", Stop::failed(-32600, "one at a time")),
            prompt("p4"),
            finished("p1", Stop::plain("end_turn")),
            finished("p2", Stop::plain("end_turn")),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            prompt p1 held
            prompt p1 sent
            prompt p2 held
            prompt p2 sent
            prompt p3 held
            prompt p3 sent
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p3 dropped: "one at a time"
            prompt p4 held
            turn 1 ended: end_turn
            turn 2 started
            prompt p2 inserted into turn 2
            turn 2 ended: end_turn
            turn 3 started
            prompt p4 inserted into turn 3
            prompt p4 sent
        "#]],
    );
}

#[test]
fn a_prompt_that_is_answered_while_another_is_worked_on_ends_with_that() {
    check(
        vec![
            acknowledging(),
            prompt("p1"),
            prompt("p2"),
            Input::Cancel,
            style_found(),
            finished("p2", Stop::plain("cancelled")),
            finished("p1", Stop::plain("cancelled")),
            style_found(),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            prompt p1 held
            prompt p1 sent
            prompt p2 held
            prompt p2 sent
            turn 1 to be cancelled
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p2 inserted into turn 1
            turn 1 ended: cancelled
        "#]],
    );
}

#[test]
fn a_turn_of_an_agent_that_takes_one_prompt_at_a_time() {
    check(
        vec![one_at_a_time(), prompt("p1"), finished("p1", Stop::plain("end_turn"))],
        expect![[r#"
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p1 sent
            turn 1 ended: end_turn
        "#]],
    );
}

#[test]
fn prompts_while_busy_are_held_and_begin_in_order() {
    check(
        vec![
            one_at_a_time(),
            prompt("p1"),
            prompt("p2"),
            prompt("p3"),
            finished("p1", Stop::plain("end_turn")),
            finished("p2", Stop::plain("end_turn")),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p1 sent
            prompt p2 held
            prompt p3 held
            turn 1 ended: end_turn
            turn 2 started
            prompt p2 inserted into turn 2
            prompt p2 sent
            turn 2 ended: end_turn
            turn 3 started
            prompt p3 inserted into turn 3
            prompt p3 sent
        "#]],
    );
}

#[test]
fn a_prompt_waits_for_the_agent_or_hears_that_there_is_none() {
    check(
        vec![
            prompt("p1"),
            Input::AgentFailed { error: json!({"code": -32603, "message": "no such program"}).into() },
            prompt("p2"),
            one_at_a_time(),
        ],
        expect![[r#"
            prompt p1 held
            prompt p1 dropped: "no such program"
            prompt p2 held
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p2 inserted into turn 1
            prompt p2 sent
        "#]],
    );
}

#[test]
fn an_acknowledging_agent_tells_its_own_state() {
    check(
        vec![
            acknowledging(),
            prompt("p1"),
            state(Activity::Running, None),
            inserted("p1"),
            prompt("p2"),
            inserted("p2"),
            state(Activity::RequiresAction, None),
            state(Activity::Running, None),
            state(Activity::Idle, Some("end_turn")),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            prompt p1 held
            prompt p1 sent
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p2 held
            prompt p2 sent
            prompt p2 inserted into turn 1
            state RequiresAction
            state Running
            turn 1 ended: end_turn
        "#]],
    );
}

#[test]
fn an_acknowledgement_before_any_state_begins_the_turn_and_one_after_the_work_does_not() {
    check(
        vec![
            acknowledging(),
            prompt("p1"),
            inserted("p1"),
            state(Activity::Idle, None),
            prompt("p2"),
            state(Activity::Running, None),
            state(Activity::Idle, Some("end_turn")),
            inserted("p2"),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            prompt p1 held
            prompt p1 sent
            turn 1 started
            prompt p1 inserted into turn 1
            turn 1 ended: end_turn
            prompt p2 held
            prompt p2 sent
            turn 2 started
            turn 2 ended: end_turn
            prompt p2 inserted into turn 2
        "#]],
    );
}

#[test]
fn work_on_one_prompt_says_nothing_of_another_that_was_sent_with_it() {
    check(
        vec![
            acknowledging(),
            prompt("p1"),
            prompt("p2"),
            inserted("p1"),
            state(Activity::Running, None),
            state(Activity::Idle, Some("end_turn")),
            inserted("p2"),
            state(Activity::Running, None),
            state(Activity::Idle, Some("refusal")),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            prompt p1 held
            prompt p1 sent
            prompt p2 held
            prompt p2 sent
            turn 1 started
            prompt p1 inserted into turn 1
            state Running
            turn 1 ended: end_turn
            turn 2 started
            prompt p2 inserted into turn 2
            state Running
            turn 2 ended: refusal
        "#]],
    );
}

#[test]
fn a_prompt_that_the_agent_gives_back_was_cancelled() {
    check(
        vec![
            acknowledging(),
            prompt("p1"),
            Input::PromptRefused {
                message: "p1".into(),
                error: json!({"code": -32800, "message": ""}).into(),
            },
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            prompt p1 held
            prompt p1 sent
            prompt p1 dropped: cancelled
        "#]],
    );
}

#[test]
fn a_refused_prompt_was_never_there() {
    check(
        vec![
            acknowledging(),
            prompt("p1"),
            Input::PromptRefused { message: "p1".into(), error: json!({"message": "no"}).into() },
            inserted("p1"),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            prompt p1 held
            prompt p1 sent
            prompt p1 dropped: "no"
            refused: no prompt p1 is waiting
        "#]],
    );
}

#[test]
fn a_cancel_holds_for_a_prompt_that_is_acknowledged_after_it() {
    check(
        vec![
            acknowledging(),
            prompt("p1"),
            Input::Cancel,
            Input::Cancel,
            inserted("p1"),
            permission("q1"),
            state(Activity::Idle, Some("error")),
            prompt("p2"),
            Input::Cancel,
            prompt("p3"),
            exited_with_prompts_waiting(),
            acknowledging(),
            prompt("p4"),
            Input::Cancel,
            Input::PromptRefused { message: "p4".into(), error: json!({"message": "aborted"}).into() },
            prompt("p5"),
            inserted("p5"),
            state(Activity::Idle, Some("error")),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            prompt p1 held
            prompt p1 sent
            turn 1 to be cancelled
            turn 1 started
            prompt p1 inserted into turn 1
            question q1 asked
            question q1 withdrawn
            turn 1 ended: cancelled
            prompt p2 held
            prompt p2 sent
            turn 2 to be cancelled
            prompt p3 held
            prompt p3 sent
            prompt p2 dropped: cancelled
            prompt p3 dropped: "exit status 3"
            agent 1 lost: exit status 3
            agent 2 bound as n, Fresh
            prompt p4 held
            prompt p4 sent
            turn 2 to be cancelled
            prompt p4 dropped: cancelled
            prompt p5 held
            prompt p5 sent
            turn 2 started
            prompt p5 inserted into turn 2
            turn 2 ended: error
        "#]],
    );
}

#[test]
fn cancel_stops_the_turn_and_drops_what_waits() {
    check(
        vec![
            Input::Cancel,
            one_at_a_time(),
            prompt("p1"),
            permission("q1"),
            prompt("p2"),
            Input::Cancel,
            Input::Cancel,
            permission("q2"),
            finished("p1", Stop::failed(-1, "aborted")),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p1 sent
            question q1 asked
            state RequiresAction
            prompt p2 held
            prompt p2 dropped: cancelled
            turn 1 to be cancelled
            question q1 withdrawn
            state Running
            question q2 asked
            question q2 withdrawn
            turn 1 ended: cancelled
        "#]],
    );
}

#[test]
fn withdrawing_drops_what_waits_and_cancels_what_runs() {
    check(
        vec![
            one_at_a_time(),
            prompt("p1"),
            prompt("p2"),
            prompt("p3"),
            Input::Withdraw { message: "p2".into() },
            Input::Withdraw { message: "p1".into() },
            Input::Withdraw { message: "p1".into() },
            Input::Withdraw { message: "p2".into() },
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p1 sent
            prompt p2 held
            prompt p3 held
            prompt p2 dropped: cancelled
            turn 1 to be cancelled
            refused: no prompt p2 is waiting
        "#]],
    );
}

#[test]
fn agent_loss_settles_everything_it_left_open() {
    check(
        vec![
            one_at_a_time(),
            prompt("p1"),
            prompt("p2"),
            update(UpdateKind::ToolCallUpdate, "c1", json!({"toolCallId": "c1", "status": "in_progress"})),
            update(UpdateKind::ToolCallUpdate, "c2", json!({"toolCallId": "c2", "status": "completed"})),
            update(UpdateKind::TerminalUpdate, "t1", json!({"terminalId": "t1"})),
            permission("q1"),
            exited(),
            exited(),
            prompt("p3"),
            one_at_a_time(),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p1 sent
            prompt p2 held
            update {"toolCallId":"c1","status":"in_progress"}
            update {"toolCallId":"c2","status":"completed"}
            update {"terminalId":"t1"}
            question q1 asked
            state RequiresAction
            question q1 withdrawn
            state Running
            update {"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"failed"}
            update {"sessionUpdate":"terminal_update","terminalId":"t1","exitStatus":{},"capabilities":null}
            prompt p2 dropped: "exit status 3"
            turn 1 ended: error
            agent 1 lost: exit status 3
            prompt p3 held
            agent 2 bound as n, Fresh
            turn 2 started
            prompt p3 inserted into turn 2
            prompt p3 sent
        "#]],
    );
}

fn compaction(id: &str, status: &str) -> Input {
    update(UpdateKind::CompactionUpdate, id, json!({"compactionId": id, "status": status}))
}

#[test]
fn a_compaction_does_not_outlive_the_turn_that_was_cut_off() {
    let turn = |end: Vec<Input>| {
        let begin = vec![acknowledging(), prompt("p1"), inserted("p1"), compaction("c0", "in_progress")];
        let begin = begin.into_iter().chain([compaction("c0", "completed"), compaction("c1", "in_progress")]);
        begin.chain(end).collect::<Vec<_>>()
    };
    let last = |inputs: Vec<Input>, expected: &str| {
        let mut session = Session::default();
        let mut told = Vec::new();
        for input in inputs {
            for entry in decide(&session, input).expect("nothing is refused") {
                session.apply(&entry);
                told.push(tell(&entry));
            }
        }
        let status = |status: &str| {
            format!(
                r#"update {{"sessionUpdate":"compaction_update","compactionId":"c1","status":"{status}"}}"#
            )
        };
        let ends: Vec<_> =
            told.iter().filter(|line| line.contains("\"sessionUpdate\":\"compaction")).collect();
        assert_eq!(ends.len(), usize::from(!expected.is_empty()), "{told:?}");
        assert!(ends.iter().all(|end| **end == status(expected)), "{told:?}");
        assert_eq!(session.compactions.is_empty(), !expected.is_empty());
    };
    last(turn(vec![state(Activity::Idle, Some("cancelled"))]), "cancelled");
    last(turn(vec![Input::Cancel, state(Activity::Idle, Some("error"))]), "cancelled");
    last(turn(vec![state(Activity::Idle, Some("error"))]), "failed");
    last(turn(vec![exited()]), "failed");
    last(turn(vec![Input::Cancel, exited()]), "cancelled");
    // One that goes on in the background is the agent's business until the agent is gone.
    last(turn(vec![state(Activity::Idle, Some("end_turn"))]), "");
    last(turn(vec![state(Activity::Idle, Some("end_turn")), exited()]), "failed");
}

#[test]
fn prompts_that_were_not_sent_wait_for_the_next_agent() {
    check(
        vec![
            one_at_a_time(),
            prompt("p1"),
            prompt("p2"),
            exited_with_prompts_waiting(),
            acknowledging(),
            prompt("p3"),
            inserted("p2"),
            exited_with_prompts_waiting(),
            prompt("p4"),
            Input::AgentFailed { error: json!({"message": "no agent"}).into() },
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p1 sent
            prompt p2 held
            turn 1 ended: error
            agent 1 lost: exit status 3
            agent 2 bound as n, Fresh
            prompt p2 sent
            prompt p3 held
            prompt p3 sent
            turn 2 started
            prompt p2 inserted into turn 2
            prompt p3 dropped: "exit status 3"
            turn 2 ended: error
            agent 2 lost: exit status 3
            prompt p4 held
            prompt p4 dropped: "no agent"
        "#]],
    );
}

#[test]
fn only_what_was_offered_is_an_approval() {
    check(
        vec![
            one_at_a_time(),
            prompt("p1"),
            permission("q1"),
            permission("q2"),
            permission("q3"),
            answer("q1", json!({"outcome": "selected", "optionId": "yes"})),
            answer("q2", json!({"outcome": "selected", "optionId": "always"})),
            answer("q3", json!({"outcome": "maybe"})),
            answer("q3", json!({"outcome": "cancelled"})),
        ],
        expect![[r#"
            agent 1 bound as n, Fresh
            turn 1 started
            prompt p1 inserted into turn 1
            prompt p1 sent
            question q1 asked
            state RequiresAction
            question q2 asked
            question q3 asked
            question q1 answered: {"outcome":{"outcome":"selected","optionId":"yes"}}
            question q2 answered: {"outcome":{"outcome":"cancelled"}}
            question q3 answered: {"outcome":{"outcome":"cancelled"}}
            state Running
            refused: question q3 is not open
        "#]],
    );
}

#[test]
fn options_take_only_what_is_on_offer() {
    check(
        vec![
            options(),
            one_at_a_time(),
            set("mode", json!("code")),
            set("mode", json!("fly")),
            set("fast", json!("yes")),
            set("fast", json!(true)),
            set("colour", json!("red")),
            Input::OptionAnswered { ask: "a".into(), error: None, options: None },
        ],
        expect![[r#"
            update {"configOptions":[{"configId":"mode","type":"select","currentValue":"ask","options":[{"value":"ask"},{"groupId":"g","options":[{"value":"code"}]}]},{"configId":"fast","type":"boolean","currentValue":false}]}
            agent 1 bound as n, Fresh
            option mode asked as a: "code"
            refused: option mode does not accept the value "fly"
            refused: option fast does not accept the value "yes"
            option fast asked as a: true
            refused: the session has no option colour
            option a settled: None
        "#]],
    );
}

#[test]
fn choices_are_made_again_one_at_a_time() {
    let offers = |options: Value, tried: &[&str]| Input::AgentOffers {
        ask: "b".into(),
        options: options.into(),
        tried: tried.iter().map(|option| (*option).to_owned()).collect(),
    };
    let select = |id: &str, category: &str, current: &str, other: &str| {
        json!({"configId": id, "category": category, "type": "select", "currentValue": current,
            "options": [{"value": current}, {"value": other}]})
    };
    let kept = json!([select("mode", "mode", "code", "ask"), select("model", "model", "deep", "fast"),
        {"configId": "fast", "type": "boolean", "currentValue": true}]);
    // The model first, by whatever name; then what differs, is on offer and was not asked for yet.
    let now = json!([{"configId": "fast", "type": "boolean", "currentValue": false},
        select("mode", "mode", "ask", "code"), select("llm", "model", "fast", "deep")]);
    let fewer = json!([{"configId": "fast", "type": "select", "currentValue": "no", "options": []},
        select("mode", "mode", "ask", "plan")]);
    check(
        vec![
            update(UpdateKind::ConfigOptionUpdate, "", json!({"configOptions": kept})),
            offers(now.clone(), &[]),
            offers(now.clone(), &["llm"]),
            offers(now, &["llm", "mode"]),
            offers(fewer, &[]),
            offers(kept, &[]),
        ],
        expect![[r#"
            update {"configOptions":[{"configId":"mode","category":"mode","type":"select","currentValue":"code","options":[{"value":"code"},{"value":"ask"}]},{"configId":"model","category":"model","type":"select","currentValue":"deep","options":[{"value":"deep"},{"value":"fast"}]},{"configId":"fast","type":"boolean","currentValue":true}]}
            option llm asked as b: "deep"
            option mode asked as b: "code"
            option fast asked as b: true
        "#]],
    );
}

#[test]
fn the_users_title_stays() {
    let told = |title: &str| {
        update(
            UpdateKind::SessionInfoUpdate,
            "",
            json!({"sessionUpdate": "session_info_update", "title": title}),
        )
    };
    let mut first = prompt("p1");
    if let Input::Prompt { title, .. } = &mut first {
        *title = Some("from the prompt".to_owned());
    }
    check(
        vec![
            first,
            told("from the agent"),
            Input::SetTitle { title: "  \n ".to_owned() },
            Input::SetTitle { title: " mine\n own ".to_owned() },
            told("from the agent again"),
        ],
        expect![[r#"
            title by Prompt: from the prompt
            prompt p1 held
            update {"sessionUpdate":"session_info_update","title":"from the agent"}
            title by Agent: from the agent
            refused: the title is empty
            title by User: mine own
        "#]],
    );
}

#[test]
fn an_empty_prompt_is_refused() {
    let empty = Input::Prompt { message: "p".into(), content: json!([]).into(), title: None, at: 0 };
    assert_eq!(decide(&Session::default(), empty), Err(Refusal::EmptyPrompt));
    assert!(TitleSource::User < TitleSource::Prompt, "an earlier source wins");
}
