//! Rules 5.1 to 5.6 and 5.11 to 5.13: what a prompt may have in it, how it is taken, how it is told.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, AgentImpl, Echo};
use rethread_testkit::view::Item;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{echoes, is_answered, prompted, settled, text};

async fn r5_01_the_answer_comes_at_the_end_with_a_stop_reason(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say a; wait go; say b").await;
    client.wait_update(0, &session, "the first words", |update| update["content"]["text"] == "a").await;
    settled(&client, &session).await;
    assert!(!is_answered(&client, &prompt), "the turn is not over");
    world.agent.open_gate("go");
    assert_eq!(client.answer(&prompt).await, Ok(json!({"stopReason": "end_turn"})));
    assert_eq!(client.view(&session).agent(), ["a", "b"], "all of it came before the answer");
    for reason in ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"] {
        assert_eq!(client.prompt(&session, &format!("stop {reason}")).await.stop, reason);
    }
    // Version 1 has a closed list; what is not in it is said beside.
    let prompt = client.begin_prompt(&session, "stop _tired").await;
    let answer = client.answer(&prompt).await.expect("the turn ended");
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(answer["_meta"]["rethread"]["stopReason"], "_tired");
}

async fn r5_01_every_answer_stands_at_the_end_of_its_own_turn(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let mut prompts = Vec::new();
    for text in ["say 1", "say 2", "say 3"] {
        prompts.push(client.begin_prompt(&session, text).await);
    }
    for prompt in &prompts {
        client.finish(&session, prompt).await;
    }
    let place = |message: &Value| match message["params"]["update"]["content"]["text"].as_str() {
        Some(text) => Some(text.to_owned()),
        None if message.get("method").is_none() && prompts.contains(&message["id"]) => {
            Some(format!("answer {}", 1 + prompts.iter().position(|prompt| *prompt == message["id"])?))
        }
        None => None,
    };
    let heard: Vec<_> = client.server_messages().iter().filter_map(place).collect();
    let at = |what: &str| heard.iter().position(|heard| heard == what).expect("it was heard");
    match pairing.agent {
        Version::V1 => assert_eq!(heard, ["1", "answer 1", "2", "answer 2", "3", "answer 3"]),
        // It may make one turn of them.
        Version::V2 => {
            for (text, answer) in [("1", "answer 1"), ("2", "answer 2"), ("3", "answer 3")] {
                assert!(at(text) < at(answer), "{heard:?}");
            }
        }
    }
}

async fn r5_02_text_and_links_are_always_taken(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig::bare(config.speaks));
    let client = world.ready().await;
    let session = client.new_session().await;
    let blocks = json!([
        {"type": "text", "text": "say hello", "annotations": {"audience": ["user"]}},
        {"type": "resource_link", "name": "a.txt", "uri": "file:///work/a.txt", "_meta": {"k": 1}},
    ]);
    let prompt = client.begin("session/prompt", json!({"sessionId": session, "prompt": blocks})).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(world.agent.received_params("session/prompt")[0]["prompt"], blocks, "as it was written");
    let image = json!([{"type": "image", "data": "aGk=", "mimeType": "image/png"}]);
    let error = client.refused("session/prompt", json!({"sessionId": session, "prompt": image})).await;
    assert_eq!(error["code"], -32602);
}

async fn r5_02_other_blocks_are_taken_where_the_agent_does(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let blocks = json!([
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///work/a.txt", "text": "one", "mimeType": "text/plain"}},
    ]);
    let prompt = client.begin("session/prompt", json!({"sessionId": session, "prompt": blocks})).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(world.agent.received_params("session/prompt")[0]["prompt"], blocks);
    let other = world.ready().await;
    client.disconnect().await;
    other.load(&session).await;
    assert_eq!(other.view(&session).user().concat(), "[image][audio][resource]");
}

async fn r5_03_a_refusal_is_told_and_the_prompt_does_not_come_again(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    assert_eq!(client.prompt(&session, "say no; stop refusal").await.stop, "refusal");
    assert_eq!(client.prompt(&session, "say yes").await.stop, "end_turn");
    assert_eq!(prompted(&world), ["say no; stop refusal", "say yes"]);
}

async fn r5_04_a_message_without_an_id_is_given_one(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "noid; chunks 3; think hm; say b").await;
    client.prompt(&session, "noid; say c").await;
    let view = client.view(&session);
    assert_eq!(view.agent(), ["c1 c2 c3", "b", "c"]);
    let mut named = Vec::new();
    for item in &view.items {
        if let Item::Message { who: "agent" | "thought", id, .. } = item {
            named.push(id.0.clone().expect("a message has an id"));
        }
    }
    assert_eq!(named.len(), 4);
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session), view, "with the same ids");
}

async fn r5_05_the_answer_says_that_the_prompt_is_in(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "hang").await;
    let answer = client.answer(&prompt).await.expect("it does not wait for the work");
    let message = answer["messageId"].as_str().expect("it has an id").to_owned();
    client.wait_update(0, &session, "the echo", |update| update["messageId"] == *message).await;
    client.cancel(&session).await;
    client.wait_update(0, &session, "the end", |update| update["state"] == "idle").await;
}

async fn r5_06_the_prompt_is_echoed_once_under_its_id(pairing: Pairing) {
    let mut natures = vec![Echo::AfterAnswer];
    if pairing.agent_impl == AgentImpl::Own {
        natures.push(Echo::BeforeAnswer);
    }
    for echo in natures {
        let world = World::with_config(pairing, |config| AgentConfig { echo, ..config });
        let client = world.ready().await;
        let session = client.new_session().await;
        let turn = client.prompt(&session, "say hello").await;
        let next = client.prompt(&session, "say again").await;
        let told: Vec<_> = echoes(&client, &session).iter().map(|echo| echo["messageId"].clone()).collect();
        assert_eq!(told, [json!(turn.message), json!(next.message)]);
        assert_eq!(client.view(&session).user(), ["say hello", "say again"]);
        // What the user said comes before what the agent makes of it.
        let view = client.view(&session);
        assert!(matches!(&view.items[0], Item::Message { who: "user", .. }), "{view}");
        client.disconnect().await;
        let later = world.again().ready().await;
        later.load(&session).await;
        let replayed: Vec<_> =
            echoes(&later, &session).iter().map(|echo| echo["messageId"].clone()).collect();
        assert_eq!(replayed, told, "a replay keeps the id");
    }
}

async fn r5_06_version_1_does_not_hear_its_own_prompt(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say hello").await;
    assert_eq!(echoes(&client, &session), Vec::<Value>::new());
    client.load(&session).await;
    assert_eq!(echoes(&client, &session).len(), 1, "a replay has it");
}

async fn r5_11_an_empty_prompt_is_refused(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    for prompt in [json!([]), json!(null), json!("hello"), json!({})] {
        let error = client.refused("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("prompt")), "{prompt}");
    }
    let error = client.refused("session/prompt", json!({"sessionId": session})).await;
    assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("prompt")));
    assert!(client.updates(&session).is_empty() && prompted(&world).is_empty());
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

async fn r5_12_a_block_that_the_agent_does_not_take_is_refused(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["image", "audio", "embeddedContext"]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let blocks = [
        json!({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
        json!({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}),
        json!({"type": "resource", "resource": {"uri": "file:///a", "text": "a"}}),
        json!({"type": "future_block", "x": 1}),
        json!({"type": "_own", "x": 1}),
        json!({"text": "no type"}),
    ];
    for block in blocks {
        let prompt = json!([{"type": "text", "text": "say never"}, block]);
        let error = client.refused("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
        assert_eq!(error["code"], -32602, "{block}");
        assert_eq!(error["data"]["field"], "prompt[1].type", "{block}");
    }
    assert!(client.updates(&session).is_empty() && prompted(&world).is_empty());
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

async fn r5_13_a_session_must_be_opened_on_this_connection(pairing: Pairing) {
    let world = World::of(pairing);
    let (client, other) = (world.ready().await, world.ready().await);
    let session = client.new_session().await;
    client.prompt(&session, "say hello").await;
    for asked in [session.as_str(), "nobody", "../../etc/passwd", ""] {
        let params = json!({"sessionId": asked, "prompt": text("say never")});
        let error = other.refused("session/prompt", params).await;
        assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!(asked)));
    }
    client.close(&session).await.expect("it can be closed");
    let params = json!({"sessionId": session, "prompt": text("say never")});
    assert_eq!(client.refused("session/prompt", params).await["code"], -32002);
    other.resume(&session).await;
    assert_eq!(other.prompt(&session, "say here").await.stop, "end_turn");
    assert_eq!(prompted(&world), ["say hello", "say here"]);
}

async fn r5_12_a_malformed_block_is_refused_by_its_place_and_member(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let good = json!({"type": "text", "text": "say hello"});
    for (bad, field) in [
        (json!(7), "prompt[1]"),
        (json!("say hello"), "prompt[1]"),
        (json!(null), "prompt[1]"),
        (json!({}), "prompt[1].type"),
        (json!({"type": 7}), "prompt[1].type"),
        (json!({"type": "text"}), "prompt[1].text"),
        (json!({"type": "text", "text": 7}), "prompt[1].text"),
        (json!({"type": "text", "text": null}), "prompt[1].text"),
        (json!({"type": "image", "mimeType": "image/png"}), "prompt[1].data"),
        (json!({"type": "image", "data": "aGk="}), "prompt[1].mimeType"),
        (json!({"type": "audio", "data": 5, "mimeType": "audio/wav"}), "prompt[1].data"),
        (json!({"type": "resource_link", "name": "a"}), "prompt[1].uri"),
        (json!({"type": "resource_link", "uri": "file:///a"}), "prompt[1].name"),
        (json!({"type": "resource"}), "prompt[1].resource"),
        (json!({"type": "resource", "resource": "a"}), "prompt[1].resource"),
        (json!({"type": "resource", "resource": {}}), "prompt[1].resource.uri"),
        (json!({"type": "resource", "resource": {"uri": "file:///a"}}), "prompt[1].resource.text"),
        (json!({"type": "resource", "resource": {"uri": "file:///a", "blob": 7}}), "prompt[1].resource.blob"),
    ] {
        let params = json!({"sessionId": session, "prompt": [good, bad]});
        let error = client.refused("session/prompt", params).await;
        assert_eq!(
            (&error["code"], &error["data"]["field"]),
            (&json!(-32602), &json!(field)),
            "{bad}: {error}"
        );
        assert!(error["message"].as_str().is_some_and(|message| message.contains(field)), "{error}");
    }
    assert!(world.agent.received_params("session/prompt").is_empty(), "the agent does not hear of it");
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

pairings!(
    r5_02_text_and_links_are_always_taken,
    r5_02_other_blocks_are_taken_where_the_agent_does,
    r5_03_a_refusal_is_told_and_the_prompt_does_not_come_again,
    r5_04_a_message_without_an_id_is_given_one,
    r5_11_an_empty_prompt_is_refused,
    r5_12_a_block_that_the_agent_does_not_take_is_refused,
    r5_12_a_malformed_block_is_refused_by_its_place_and_member,
    r5_13_a_session_must_be_opened_on_this_connection,
);

pairings!(client V1:
    r5_01_the_answer_comes_at_the_end_with_a_stop_reason,
    r5_01_every_answer_stands_at_the_end_of_its_own_turn,
    r5_06_version_1_does_not_hear_its_own_prompt,
);

pairings!(client V2:
    r5_05_the_answer_says_that_the_prompt_is_in,
    r5_06_the_prompt_is_echoed_once_under_its_id,
);
