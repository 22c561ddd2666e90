//! Rule 8.15: sub-agents.

use rethread::edge::Version;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{begun_bare, item, script, shown_of_tools, text};

async fn r8_15_a_child_is_announced_before_it_speaks(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "subagent").await;
    client.wait("the child's words", |message| message.to_string().contains("the child speaks")).await;
    let next = world.replayed(&client, &session).await;
    for heard in [&client, &next] {
        let updates: Vec<_> =
            heard.server_messages().into_iter().filter(|said| said["method"] == "session/update").collect();
        let announced =
            updates.iter().position(|said| said["params"]["update"]["sessionUpdate"] == "subagent_update");
        let spoke = updates.iter().position(|said| said.to_string().contains("the child speaks"));
        let (announced, spoke) = (announced.expect("it is announced"), spoke.expect("it speaks"));
        assert!(announced < spoke);
        assert_eq!(updates[announced]["params"]["sessionId"], session.as_str());
        let child = &updates[announced]["params"]["update"]["sessionId"];
        assert_eq!(&updates[spoke]["params"]["sessionId"], child);
        assert_ne!(child, session.as_str());
    }
}

/// A client that wants no replay has not heard of the sub-agents that live.
async fn r8_15_a_child_is_announced_again_without_a_replay(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let announced = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "title": "Kid"});
    let more = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "description": "Helps"});
    client.prompt(&session, &script([&announced, &more])).await;
    let mark = client.mark();
    client.resume(&session).await;
    let is_announced = |update: &Value| update["sessionUpdate"] == "subagent_update";
    let again = client.wait_update(mark, &session, "the child", is_announced).await;
    assert_eq!((&again["sessionId"], &again["title"]), (&json!("kid"), &json!("Kid")));
    assert_eq!(again["description"], "Helps", "all that is true of it at once");
    let mark = client.mark();
    client.load(&session).await;
    let told = |mark: usize| client.updates_since(mark, &session).into_iter().filter(is_announced).count();
    assert_eq!(told(mark), 2, "a replay has it in its place");
    client.prompt(&session, "crash").await;
    let mark = client.mark();
    client.resume(&session).await;
    client.prompt(&session, "say more").await;
    assert_eq!(told(mark), 0, "it went with its agent");
}

async fn r8_15_all_that_a_child_does_is_in_the_words_of_the_client(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let announced = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "title": "Kid"});
    let of_kid = match pairing.agent {
        Version::V1 => vec![
            json!({"sessionUpdate": "agent_message_chunk", "content": text("k-said")}),
            json!({"sessionUpdate": "tool_call", "toolCallId": "k", "title": "k-call", "kind": "edit"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "k", "status": "completed",
                "content": [item("k-item")]}),
            json!({"sessionUpdate": "plan", "entries":
                [{"content": "k-entry", "priority": "high", "status": "pending"}]}),
        ],
        Version::V2 => vec![
            json!({"sessionUpdate": "agent_message", "messageId": "km", "content": [text("k-said")]}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "k", "title": "k-call", "kind": "edit"}),
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "k", "content": item("k-item")}),
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "kp", "entries":
                [{"content": "k-entry", "priority": "high", "status": "pending"}]}}),
        ],
    };
    let of_kid: String = of_kid.iter().map(|update| format!("rawof kid {update}\n")).collect();
    client.prompt(&session, &format!("{}{of_kid}say done", script([&announced]))).await;
    let next = world.replayed(&client, &session).await;
    for heard in [&client, &next] {
        let kid = heard.view("kid");
        assert_eq!(kid.agent(), ["k-said"], "{kid}");
        assert_eq!(shown_of_tools(&kid), [["k-item"]], "{kid}");
        assert_eq!(kid.plan, ["k-entry (pending)"], "{kid}");
        let first = heard.updates("kid").into_iter().find(|update| update["toolCallId"].is_string());
        let creates = match pairing.client {
            Version::V1 => "tool_call",
            Version::V2 => "tool_call_update",
        };
        assert_eq!(first.expect("a call")["sessionUpdate"], creates);
        assert_eq!(heard.view(&session).agent(), ["done"]);
    }
}

async fn r8_15_a_child_asks_in_its_own_name(pairing: Pairing) {
    for takes in [true, false] {
        let (world, client, session) =
            if takes { World::begun(pairing).await } else { begun_bare(pairing).await };
        let announced = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "title": "Kid"});
        let turn = client.begin_prompt(&session, &format!("{}say a\nwait on", script([&announced]))).await;
        client.wait_update(0, &session, "the turn", |update| update["content"]["text"] == "a").await;
        let call = json!({"toolCallId": "k", "title": "Run it"});
        let mut params = json!({"sessionId": "kid", "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]});
        match pairing.agent {
            Version::V1 => params["toolCall"] = call,
            Version::V2 => {
                params["title"] = json!("Run it?");
                params["subject"] = json!({"type": "tool_call", "toolCall": call});
            }
        }
        let method = "session/request_permission";
        world.agent.send(json!({"jsonrpc": "2.0", "id": 501, "method": method, "params": params})).await;
        let asked = client.wait_method(method).await;
        let knows_it = takes || pairing.client == Version::V2;
        assert_eq!(asked["params"]["sessionId"], if knows_it { "kid" } else { session.as_str() });
        let answer = world.agent.wait_received("answer", 1).await;
        assert_eq!(answer["result"]["outcome"]["optionId"], "yes");
        world.agent.open_gate("on");
        client.finish(&session, &turn).await;
    }
}

pairings!(
    r8_15_a_child_is_announced_before_it_speaks,
    r8_15_a_child_is_announced_again_without_a_replay,
    r8_15_all_that_a_child_does_is_in_the_words_of_the_client,
    r8_15_a_child_asks_in_its_own_name,
);
