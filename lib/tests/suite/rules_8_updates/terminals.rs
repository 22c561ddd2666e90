//! Rules 8.6, 8.7 and 8.17: terminals.

use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{assert_replays, script, shown_of_tools, with_tag, with_word};

fn terminal(fields: Value) -> Value {
    let mut update = json!({"sessionUpdate": "terminal_update", "terminalId": "term_1"});
    update.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    update
}

fn output(data: &str) -> Value {
    json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "term_1", "data": data})
}

fn showing() -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T", "status": "completed",
        "content": [{"type": "terminal", "terminalId": "term_1"}]})
}

/// What the client sees of the terminal in its tool call.
fn screen(client: &Client, session: &str) -> String {
    shown_of_tools(&client.view(session)).concat().concat()
}

async fn r8_06_terminal_output_is_replaced_by_a_snapshot(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    // The reference comes before the terminal; "he" and "llo", each encoded for itself; then "snap" and "é!" cut
    // inside the letter.
    let updates = [
        showing(),
        terminal(json!({"command": "ls"})),
        output("aGU="),
        output("bGxv"),
        terminal(json!({"output": {"data": "c25hcA=="}})),
        output("ww=="),
        output("qSE="),
    ];
    let turn = client
        .begin_prompt(
            &session,
            &format!("{}wait on\nraw {}", script(&updates), terminal(json!({"exitStatus": {"exitCode": 3}}))),
        )
        .await;
    let all = |update: &Value| {
        update["data"] == "qSE=" || update["content"][0]["content"]["text"].to_string().contains("snapé!")
    };
    client.wait_update(0, &session, "all output", all).await;
    assert!(screen(&client, &session).contains("snapé!"), "{}", client.view(&session));
    assert!(!screen(&client, &session).contains("hello"));
    world.agent.open_gate("on");
    client.finish(&session, &turn).await;
    let exit = match pairing.client {
        Version::V1 => "[exit status 3]",
        Version::V2 => "",
    };
    for heard in [&client, &world.replayed(&client, &session).await] {
        let shown = screen(heard, &session);
        assert!(shown.contains("snapé!") && shown.contains(exit), "{shown}");
        assert!(!shown.contains("hello"), "{shown}");
    }
}

async fn r8_06_a_terminal_may_be_told_before_its_call(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let updates = [terminal(json!({"command": "ls"})), output("aGk="), showing()];
    client.prompt(&session, &script(&updates)).await;
    for heard in [&client, &world.replayed(&client, &session).await] {
        assert!(screen(heard, &session).contains("hi"), "{}", heard.view(&session));
    }
}

async fn r8_06_terminals_of_a_restarted_agent_are_others(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client
        .prompt(
            &session,
            &script(&[
                terminal(json!({"command": "a"})),
                showing(),
                output("b25l"),
                terminal(json!({"exitStatus": {}})),
            ]),
        )
        .await;
    let again = world.restarted(&client).await;
    let next = again.ready().await;
    next.load(&session).await;
    next.prompt(
        &session,
        &script(&[
            terminal(json!({"command": "b"})),
            showing(),
            output("dHdv"),
            terminal(json!({"exitStatus": {}})),
        ]),
    )
    .await;
    let shown = shown_of_tools(&next.view(&session));
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0][0].contains("one") && !shown[0][0].contains("two"), "{shown:?}");
    assert!(shown[1][0].contains("two") && !shown[1][0].contains("one"), "{shown:?}");
    assert_replays(&again, &next, &session, &next.view(&session)).await;
}

#[tokio::test]
async fn r8_06_terminals_of_a_restarted_client_are_others() {
    let (world, client, session) = World::begun(Pairing::of(Version::V1, Version::V1)).await;
    let printing = |client: &Client, text: &'static str| {
        client.on("terminal/output", move |_| Some(Ok(json!({"output": text, "truncated": false}))));
    };
    printing(&client, "one");
    client.prompt(&session, "term").await;
    let again = world.restarted(&client).await;
    let next = again.ready().await;
    next.load(&session).await;
    printing(&next, "two");
    let mark = next.mark();
    next.prompt(&session, "term").await;
    // The client knows its terminal by the id that it gave it, which is that of the first one.
    let live = next.updates_since(mark, &session);
    assert!(live.iter().any(|update| update["content"][0]["terminalId"] == "client-term-1"), "{live:#?}");
    let last = again.replayed(&next, &session).await;
    let shown = shown_of_tools(&last.view(&session)).concat();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].contains("one") && shown[1].contains("two"), "{shown:?}");
}

async fn r8_07_an_exit_is_told_and_ends_the_terminal(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let can = json!({"command": "ls", "capabilities": {"cancel": {}}});
    client.prompt(&session, &script(&[terminal(can), showing(), output("aGk=")])).await;
    // An agent that dies takes its terminals along.
    client.prompt(&session, "crash").await;
    let next = world.replayed(&client, &session).await;
    for heard in [&client, &next] {
        match pairing.client {
            Version::V1 => assert!(screen(heard, &session).contains("[ended]"), "{}", heard.view(&session)),
            Version::V2 => {
                let told = with_tag(heard, &session, "terminal_update");
                let exits = |update: &Value| update.get("exitStatus").is_some_and(Value::is_object);
                let exit = told.iter().find(|update| exits(update)).expect("the exit is told");
                assert_eq!(exit["capabilities"], json!(null), "it cannot be cancelled any more: {exit}");
            }
        }
    }
}

async fn r8_17_terminals_of_the_client_are_not_those_of_the_agent(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "term").await;
    let next = world.replayed(&client, &session).await;
    let refers = |client: &Client| {
        client.updates(&session).iter().any(|update| update["content"].to_string().contains("\"terminalId\""))
    };
    let terminal_items = |client: &Client| {
        let items =
            client.updates(&session).into_iter().filter_map(|update| update["content"].as_array().cloned());
        items.flatten().filter(|item| item["type"] == "terminal").count()
    };
    match (pairing.client, pairing.agent) {
        (Version::V1, Version::V1) => {
            // Its own, live; a replay has the text, since the terminal is gone.
            assert_eq!(with_word(&client, &session, "client-term-1").len(), 1);
            assert_eq!(terminal_items(&next), 0);
            assert!(screen(&next, &session).contains("hi"), "{}", next.view(&session));
        }
        (Version::V1, Version::V2) => {
            assert_eq!(terminal_items(&client) + terminal_items(&next), 0, "no terminal is made up");
            assert!(client.server_messages().iter().all(|message| message["method"] != "terminal/create"));
            for heard in [&client, &next] {
                assert!(screen(heard, &session).contains("hi"), "{}", heard.view(&session));
            }
        }
        (Version::V2, Version::V1) => {
            // Nobody asks a client of version 2 to run one.
            assert!(client.server_messages().iter().all(|message| message["method"] != "terminal/create"));
        }
        (Version::V2, Version::V2) => {
            assert!(refers(&client) && refers(&next));
            for heard in [&client, &next] {
                assert!(screen(heard, &session).contains("hi"), "{}", heard.view(&session));
            }
        }
    }
}

pairings!(r8_17_terminals_of_the_client_are_not_those_of_the_agent,);

pairings!(agent V2:
    r8_06_terminal_output_is_replaced_by_a_snapshot,
    r8_06_a_terminal_may_be_told_before_its_call,
    r8_06_terminals_of_a_restarted_agent_are_others,
    r8_07_an_exit_is_told_and_ends_the_terminal,
);
