//! Rules 8.1 to 8.4 and 8.16: messages, their ids and their order.

use rethread::edge::Version;
use rethread_testkit::agent::Offer;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{assert_replays, chunk, named_messages, script, text, with_tag};

fn whole(id: &str, content: Value) -> Value {
    json!({"sessionUpdate": "agent_message", "messageId": id, "content": content})
}

async fn r8_01_messages_are_upserts(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let updates = [
        chunk("m", "one"),
        chunk("m", " two"),
        whole("m", json!([text("new")])),
        chunk("m", " more"),
        json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"k": 1}}),
        whole("n", json!([text("gone")])),
        whole("n", json!(null)),
        chunk("n", "back"),
        chunk("o", "x"),
        whole("o", json!([])),
        whole("p", json!([text("a"), text("b")])),
    ];
    client.prompt(&session, &script(&updates)).await;
    if pairing.client == Version::V2 {
        assert_eq!(client.view(&session).agent(), ["new more", "back", "", "ab"]);
        assert_replays(&world, &client, &session, &client.view(&session)).await;
    } else {
        let next = world.replayed(&client, &session).await;
        assert_eq!(next.view(&session).agent(), ["new more", "back", "ab"]);
    }
}

async fn r8_02_an_id_names_one_message_of_each_kind(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let thought = json!({"sessionUpdate": "agent_thought_chunk", "messageId": "m", "content": text("hm")});
    client.prompt(&session, &script([&thought, &chunk("m", "said"), &thought, &chunk("m", " more")])).await;
    let view = client.view(&session);
    assert_eq!(view.texts("thought"), ["hmhm"]);
    assert_eq!(view.agent(), ["said more"]);
    assert_replays(&world, &client, &session, &view).await;
}

async fn r8_03_messages_without_an_id_get_one(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&[Offer::Modes, Offer::Effort]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let quiet = "plan a; usage 1/2; commands; title T; mode b; notice N";
    client
        .prompt(&session, &format!("noid; say a; {quiet}; say b; think c; say d; tool call_1; say e"))
        .await;
    client.prompt(&session, "noid; say f; say g").await;
    let live = client.view(&session);
    assert_eq!(live.agent(), ["ab", "d", "e", "fg"]);
    assert_eq!(live.texts("thought"), ["c"]);
    let named = named_messages(&live);
    let of_agent: Vec<_> = named.iter().filter(|(_, text)| text.len() < 3).collect();
    assert_eq!(of_agent.len(), 5, "{named:?}");
    for update in with_tag(&client, &session, "agent_message_chunk") {
        assert!(update["messageId"].is_string(), "{update}");
    }
    let next = world.replayed(&client, &session).await;
    let again = named_messages(&next.view(&session));
    for message in of_agent {
        assert!(again.contains(message), "{message:?} in {again:?}");
    }
}

async fn r8_04_the_same_chunk_twice_is_said_twice(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, &script([&chunk("m", "ha"), &chunk("m", "ha"), &chunk("m", "ha")])).await;
    assert_eq!(client.view(&session).agent(), ["hahaha"]);
    assert_replays(&world, &client, &session, &client.view(&session)).await;
}

async fn r8_04_a_replay_shows_what_was_live(pairing: Pairing) {
    let world =
        World::with_config(pairing, |config| config.offering(&[Offer::Modes, Offer::Models, Offer::Effort]));
    let client = world.ready().await;
    let session = client.new_session().await;
    client
        .prompt(&session, "say a; chunks 9; think b; tool call_1; plan x,y; usage 1/2; commands one; title T")
        .await;
    client
        .prompt(
            &session,
            "mode b; tool call_2; whole w; compact; unknown _x; say z; plan y; commands one,two",
        )
        .await;
    assert_replays(&world, &client, &session, &client.view(&session)).await;
    for version in [Version::V1, Version::V2] {
        let other = world.again().ready_as(version).await;
        other.load(&session).await;
        let view = other.view(&session);
        assert_eq!(view, client.view(&session), "v{}:\n{view}", version.number());
        other.disconnect().await;
    }
}

async fn r8_16_a_whole_message_is_shown_once(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    // RecordedMessage in pieces, then as a whole; told longer and longer; told in one piece.
    let updates = [
        chunk("m", "one"),
        chunk("m", " two"),
        whole("m", json!([text("one two")])),
        whole("n", json!([text("a")])),
        whole("n", json!([text("ab")])),
        whole("n", json!([text("ab"), text("c")])),
        whole("o", json!([text("x")])),
    ];
    client.prompt(&session, &script(&updates)).await;
    assert_eq!(client.view(&session).agent(), ["one two", "abc", "x"]);
    assert_replays(&world, &client, &session, &client.view(&session)).await;
}

async fn r8_16_a_changed_message_is_not_lost(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let updates = [
        whole("m", json!([text("first")])),
        whole("m", json!([text("second")])),
        whole("m", json!([text("third")])),
        chunk("m", " more"),
        whole("n", json!([text("wrong")])),
        whole("n", json!([])),
        chunk("n", "right"),
        json!({"sessionUpdate": "agent_message", "messageId": "o", "_meta": {"k": 1}}),
    ];
    client.prompt(&session, &script(&updates)).await;
    let live = client.view(&session).agent();
    match pairing.client {
        Version::V1 => {
            assert_eq!(live, ["first", "second", "third more", "wrong", "(message withdrawn)", "right", ""]);
        }
        Version::V2 => assert_eq!(live, ["third more", "right", ""]),
    }
    let next = world.replayed(&client, &session).await;
    assert_eq!(next.view(&session).agent(), ["third more", "right", ""]);
}

pairings!(r8_04_the_same_chunk_twice_is_said_twice, r8_04_a_replay_shows_what_was_live,);

pairings!(agent V1:
    r8_03_messages_without_an_id_get_one,
);

pairings!(agent V2:
    r8_01_messages_are_upserts,
    r8_02_an_id_names_one_message_of_each_kind,
    r8_16_a_whole_message_is_shown_once,
    r8_16_a_changed_message_is_not_lost,
);
