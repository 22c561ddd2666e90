//! Rule 8.5: tool calls.

use rethread::edge::Version;
use rethread_testkit::agent::Restores;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Map, Value, json};

use super::stage::{assert_replays, chunk, item, script, shown_of_tools};

/// A tool call as the client has it after all that it was told.
fn call_of(client: &Client, session: &str, id: &str) -> Map<String, Value> {
    let mut call = Map::new();
    for update in client.updates(session).into_iter().filter(|update| update["toolCallId"] == id) {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default().to_owned();
        let Value::Object(fields) = update else { continue };
        match tag.as_str() {
            "tool_call" => call = fields,
            "tool_call_content_chunk" => {
                let content = call.entry("content").or_insert_with(|| json!([]));
                content.as_array_mut().expect("content is a list").push(fields["content"].clone());
            }
            _ => {
                for (name, value) in fields {
                    match (client.version, value.is_null()) {
                        (Version::V2, true) => drop(call.remove(&name)),
                        (Version::V1, true) => {}
                        (_, false) => drop(call.insert(name, value)),
                    }
                }
            }
        }
    }
    call
}

async fn r8_05_tool_calls_are_patched(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let begins = match pairing.agent {
        Version::V1 => "tool_call",
        Version::V2 => "tool_call_update",
    };
    let patch = |fields: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1"});
        update.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        update
    };
    let updates = [
        json!({"sessionUpdate": begins, "toolCallId": "call_1", "title": "Read", "kind": "read",
            "status": "pending", "rawInput": {"a": 1}, "locations": [{"path": "/work/a"}, {"path": "/work/b"}],
            "content": [item("first")]}),
        patch(json!({"status": "in_progress"})),
        patch(json!({"content": [item("second"), item("third")], "locations": [{"path": "/work/c"}]})),
        patch(json!({"title": "Read it", "rawOutput": [1, 2]})),
        patch(json!({"status": "completed", "_meta": {"k": {"deep": 1}}})),
    ];
    client.prompt(&session, &script(&updates)).await;
    for heard in [&client, &world.replayed(&client, &session).await] {
        let call = call_of(heard, &session, "call_1");
        assert_eq!(call["title"], "Read it");
        assert_eq!(call["kind"], "read");
        assert_eq!(call["status"], "completed");
        assert_eq!(call["rawInput"], json!({"a": 1}));
        assert_eq!(call["rawOutput"], json!([1, 2]));
        assert_eq!(call["locations"], json!([{"path": "/work/c"}]));
        assert_eq!(call["content"], json!([item("second"), item("third")]));
        assert_eq!(call["_meta"]["k"], json!({"deep": 1}));
        let first = heard.updates(&session).into_iter().find(|update| update["toolCallId"] == "call_1");
        let creates = match pairing.client {
            Version::V1 => "tool_call",
            Version::V2 => "tool_call_update",
        };
        assert_eq!(first.expect("the call is told")["sessionUpdate"], creates);
    }
}

async fn r8_05_content_of_tool_calls_is_appended_and_cleared(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let more = |words: &str| json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "call_1", "content": item(words)});
    let patch = |name: &str, value: Value| json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", name: value});
    let begins = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T",
        "status": "completed", "rawInput": {"a": 1}, "content": [item("a")]});
    client.prompt(&session, &script([&begins, &more("b"), &more("c")])).await;
    assert_eq!(shown_of_tools(&client.view(&session)), [["a", "b", "c"]]);
    let updates = [patch("content", json!([item("d")])), more("e"), patch("rawInput", json!(null))];
    client.prompt(&session, &script(&updates)).await;
    assert_eq!(shown_of_tools(&client.view(&session)), [["d", "e"]]);
    assert_replays(&world, &client, &session, &client.view(&session)).await;
    let next = world.again().ready().await;
    next.load(&session).await;
    for heard in [&client, &next] {
        let input = call_of(heard, &session, "call_1").get("rawInput").cloned();
        assert!(input.is_none_or(|input| input == json!("")), "it was cleared");
    }
    next.prompt(&session, &script([&patch("content", json!(null))])).await;
    // The agent that says this is another process of it, and the call one of its own.
    assert_eq!(shown_of_tools(&next.view(&session)), [vec!["d", "e"], vec![]]);
}

async fn r8_05_a_cancelled_call_is_a_failed_one_in_version_1(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T",
        "status": "cancelled"});
    client.prompt(&session, &script([&call])).await;
    let status = match pairing.client {
        Version::V1 => "failed",
        Version::V2 => "cancelled",
    };
    for heard in [&client, &world.replayed(&client, &session).await] {
        assert_eq!(call_of(heard, &session, "call_1")["status"], status);
    }
}

async fn r8_05_a_restarted_agent_does_not_overwrite_what_was(pairing: Pairing) {
    for restores in [Restores::All, Restores::Nothing] {
        let (world, client, session) = World::begun(pairing).await;
        world.agent.configure(|config| config.restores = restores);
        let begins = match pairing.agent {
            Version::V1 => "tool_call",
            Version::V2 => "tool_call_update",
        };
        let call = |words: &str| {
            json!({"sessionUpdate": begins, "toolCallId": "call_1", "title": words, "status": "completed",
                "content": [item(words)]})
        };
        client.prompt(&session, &script([&chunk("m", "one"), &call("one")])).await;
        let again = world.restarted(&client).await;
        let next = again.ready().await;
        next.load(&session).await;
        next.prompt(&session, &script([&chunk("m", "two"), &call("two"), &chunk("m", "!")])).await;
        let view = next.view(&session);
        assert_eq!(view.agent(), ["one", "two!"], "{view}");
        assert_eq!(shown_of_tools(&view), [["one"], ["two"]], "{view}");
        assert_replays(&again, &next, &session, &view).await;
    }
}

async fn r8_05_diffs_are_shown_in_the_words_of_the_client(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "tool call_1").await;
    for heard in [&client, &world.replayed(&client, &session).await] {
        let call = call_of(heard, &session, "call_1");
        let diff = call["content"].as_array().expect("content").iter().find(|item| item["type"] == "diff");
        let diff = diff.expect("the diff is there");
        match pairing.client {
            Version::V1 => {
                assert_eq!(diff["path"], "/work/a.txt");
                assert_eq!(diff["oldText"], "one\n");
                assert_eq!(diff["newText"], "two\n");
            }
            Version::V2 => {
                assert_eq!(diff["changes"][0]["path"], "/work/a.txt");
                assert_eq!(diff["changes"][0]["operation"], "modify");
                let patch = diff["patch"]["text"].as_str().expect("a patch");
                assert!(patch.contains("\n-one\n+two\n"), "{patch}");
            }
        }
    }
}

async fn r8_05_a_diff_that_cannot_be_rebuilt_is_told_in_words(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let diff = json!({"type": "diff", "changes": [
        {"operation": "delete", "path": "/work/gone.bin", "fileType": "binary"},
        {"operation": "move", "path": "/work/new.txt", "oldPath": "/work/old.txt"}]});
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T",
        "content": [diff]});
    client.prompt(&session, &script([&call])).await;
    for heard in [&client, &world.replayed(&client, &session).await] {
        let told = call_of(heard, &session, "call_1")["content"].to_string();
        for path in ["/work/gone.bin", "/work/new.txt", "/work/old.txt"] {
            assert!(told.contains(path), "{told}");
        }
    }
}

async fn r8_05_many_chunks_of_content_do_not_cost_their_square(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let begin = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T"});
    let text = item(&"x".repeat(500));
    let more = json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "call_1", "content": text});
    let end = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "completed"});
    let updates: Vec<_> = [&begin].into_iter().chain([&more; 200]).chain([&end]).collect();
    client.prompt(&session, &script(updates.iter().copied())).await;
    let said: usize = updates.iter().map(|update| update.to_string().len()).sum();
    let heard: Vec<_> =
        client.updates(&session).into_iter().filter(|update| update["toolCallId"].is_string()).collect();
    let sent: usize = heard.iter().map(|update| update.to_string().len()).sum();
    assert!(sent < 8 * said, "{sent} bytes for {said}");
    assert_eq!(heard.last().expect("updates")["status"], "completed", "nothing comes after the end");
    let content = call_of(&client, &session, "call_1")["content"].clone();
    assert_eq!(content.as_array().expect("a list").len(), 200);
}

pairings!(
    r8_05_tool_calls_are_patched,
    r8_05_a_restarted_agent_does_not_overwrite_what_was,
    r8_05_diffs_are_shown_in_the_words_of_the_client,
);

pairings!(agent V2:
    r8_05_many_chunks_of_content_do_not_cost_their_square,
    r8_05_content_of_tool_calls_is_appended_and_cleared,
    r8_05_a_cancelled_call_is_a_failed_one_in_version_1,
    r8_05_a_diff_that_cannot_be_rebuilt_is_told_in_words,
);
