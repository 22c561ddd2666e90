//! Pages of items: which, how many, how large; and what is wrong with a request.

use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::{RICH, all_backwards, all_forwards, items, read, short, shorts};

async fn the_newest_items_are_read_without_the_agent(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    assert_eq!(answer["_meta"]["rethread"]["read"], json!({}), "it is advertised");
    let session = client.new_session().await;
    client.prompt(&session, "say hello; chunks 3").await;
    let (told, seen) = (world.agent.received().len(), client.mark());
    let page = read(&client, json!({"sessionId": session})).await;
    let found = items(&page);
    let kinds = shorts(&found);
    assert_eq!(
        kinds[kinds.len() - 4..],
        [
            "user_message say hello; chunks 3",
            "agent_message hello",
            "agent_message c1 c2 c3",
            "turn_ended end_turn"
        ],
        "{page:#}"
    );
    assert!(kinds.contains(&"turn_started".to_owned()), "{kinds:?}");
    assert_eq!(page["more"], json!({"before": false, "after": false}));
    let last = found.last().expect("there are items");
    assert_eq!((&last["turn"], &last["last"]), (&json!(1), &page["head"]));
    assert!(last["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{last}");
    assert_eq!(world.agent.received().len(), told, "the agent is not asked");
    assert!(client.updates_since(seen, &session).is_empty(), "nothing is replayed");
}

async fn pages_lead_through_a_session_in_both_directions(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    for turn in 0..4 {
        client.prompt(&session, &format!("say a{turn}; tool t{turn}; say b{turn}")).await;
    }
    let whole = items(&read(&client, json!({"sessionId": session, "limit": 500})).await);
    for limit in [1, 2, 3, 7, 100] {
        assert_eq!(all_backwards(&client, &session, limit).await, whole, "backwards by {limit}");
        assert_eq!(all_forwards(&client, &session, limit).await, whole, "forwards by {limit}");
    }
    let middle = whole.iter().find(|item| short(item) == "agent_message a2").expect("it is there");
    let id = &middle["update"]["messageId"];
    let page = read(&client, json!({"sessionId": session, "around": id, "limit": 5})).await;
    let at = whole.iter().position(|item| item == middle).expect("it is there");
    assert_eq!(items(&page), whole[at - 2..at + 3], "the message is in the middle");
    assert_eq!(page["more"], json!({"before": true, "after": true}));
    let one = read(&client, json!({"sessionId": session, "around": id, "limit": 1})).await;
    assert_eq!(items(&one), std::slice::from_ref(middle));
    // An entry that the client names only makes it quicker: one that is wrong changes nothing.
    for seq in [json!(middle["seq"]), json!(0), json!(1), page["head"].clone(), json!(u64::MAX)] {
        let named = json!({"sessionId": session, "around": id, "seq": seq, "limit": 5});
        assert_eq!(read(&client, named).await, page, "with entry {seq}");
    }
    let nothing = read(&client, json!({"sessionId": session, "after": page["head"]})).await;
    assert_eq!((items(&nothing).len(), &nothing["more"]), (0, &json!({"before": true, "after": false})));
    let nothing = read(&client, json!({"sessionId": session, "before": 1})).await;
    assert_eq!((items(&nothing).len(), &nothing["more"]), (0, &json!({"before": false, "after": true})));
}

async fn a_running_turn_is_read_with_whole_items(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "chunks 4; wait gate; say end").await;
    let other = world.ready().await;
    let said = loop {
        let found = items(&read(&other, json!({"sessionId": session})).await);
        let said: Vec<_> =
            shorts(&found).into_iter().filter(|kind| kind.starts_with("agent_message")).collect();
        if said == ["agent_message c1 c2 c3 c4"] {
            break said;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(said.len(), 1);
    world.agent.open_gate("gate");
    client.finish(&session, &prompt).await;
    let found = shorts(&items(&read(&other, json!({"sessionId": session})).await));
    assert_eq!(found[found.len() - 2..], ["agent_message end", "turn_ended end_turn"]);
}

async fn sub_agents_have_whole_items_of_their_own(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, RICH).await;
    let found = items(&read(&client, json!({"sessionId": session})).await);
    let children: Vec<_> = found.iter().filter(|item| item.get("sessionId").is_some()).collect();
    assert_eq!(children.len(), 1, "{found:#?}");
    assert!(short(children[0]).starts_with("agent_message"), "{children:?}");
}

async fn large_items_are_cut_unless_they_are_asked_for(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, &format!("say {}", "x".repeat(400_000))).await;
    let found = items(&read(&client, json!({"sessionId": session})).await);
    let large: Vec<_> = found.iter().filter(|item| item.get("cut").is_some()).collect();
    assert_eq!(large.len(), 2, "the prompt and the answer");
    for item in large {
        assert!(item.to_string().len() < 300_000 && item["cut"]["bytes"].as_u64() > Some(400_000));
        let id = &item["update"]["messageId"];
        let whole = items(
            &read(&client, json!({"sessionId": session, "around": id, "limit": 1, "whole": true})).await,
        );
        assert!(whole[0].get("cut").is_none() && whole[0].to_string().len() > 400_000);
    }
}

async fn an_answer_fits_the_longest_line(pairing: Pairing) {
    const LIMIT: usize = 40_000;
    let client = World::of(pairing).set(|config| config.longest_line = LIMIT).ready().await;
    let session = client.new_session().await;
    for _ in 0..10 {
        client.prompt(&session, &format!("say {}", "zebra ".repeat(500))).await;
    }
    let page = read(&client, json!({"sessionId": session, "limit": 500})).await;
    assert!(page.to_string().len() < LIMIT && page["more"]["before"] == true);
    let all = all_backwards(&client, &session, 500).await;
    assert_eq!(all.iter().filter(|item| short(item).starts_with("agent_message")).count(), 10);
    assert_eq!(all_forwards(&client, &session, 500).await, all);
}

async fn bad_parameters_are_refused(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let refused = async |method: &str, field: &str, mut params: Value| {
        if params.get("sessionId").is_none() {
            params["sessionId"] = json!(session);
        }
        let error = client.refused(method, params.clone()).await;
        assert_eq!(
            (&error["code"], &error["data"]["field"]),
            (&json!(-32602), &json!(field)),
            "{params} {error}"
        );
        assert!(error.to_string().len() < 1000, "{field}");
    };
    for (field, params) in [
        ("sessionId", json!({"sessionId": 7})),
        ("limit", json!({"limit": 0})),
        ("limit", json!({"limit": 501})),
        ("limit", json!({"limit": "many"})),
        ("before", json!({"before": -1})),
        ("before", json!({"before": "x"})),
        ("after", json!({"after": 1.5})),
        ("after", json!({"before": 1, "after": 1})),
        ("around", json!({"before": 1, "around": "x"})),
        ("around", json!({"around": "nobody"})),
        ("around", json!({"around": "nobody", "seq": 1})),
        ("seq", json!({"seq": 1})),
        ("seq", json!({"around": "x", "seq": "x"})),
        ("around", json!({"around": "x".repeat(100_000)})),
        ("whole", json!({"whole": 1})),
    ] {
        refused("_rethread/read", field, params).await;
    }
    for (field, params) in
        [("after", json!({})), ("after", json!({"after": "x"})), ("sessionId", json!({"sessionId": []}))]
    {
        refused("_rethread/follow", field, params).await;
    }
    for method in ["_rethread/read", "_rethread/follow"] {
        let error = client.refused(method, json!({"sessionId": "nobody", "after": 0})).await;
        assert_eq!(error["code"], -32002, "{method}: {error}");
    }
}

pairings! {
    wire:
    the_newest_items_are_read_without_the_agent,
    pages_lead_through_a_session_in_both_directions,
    a_running_turn_is_read_with_whole_items,
    sub_agents_have_whole_items_of_their_own,
    large_items_are_cut_unless_they_are_asked_for,
    an_answer_fits_the_longest_line,
    bad_parameters_are_refused,
}
