//! Rules 8.12 to 8.14: what version 1 is told only if it asked for it.

use std::collections::BTreeSet;

use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::view::Item;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::json;

use super::stage::{begun_bare, chunk, named_messages, script, text, with_tag, with_word};

async fn r8_12_notices_are_of_the_moment(pairing: Pairing) {
    for takes in [true, false] {
        let (world, client, session) =
            if takes { World::begun(pairing).await } else { begun_bare(pairing).await };
        client.prompt(&session, "say before\nnotice Beware\nsay after").await;
        let told: Vec<_> = with_word(&client, &session, "Beware");
        let told: Vec<_> =
            told.into_iter().filter(|update| update["sessionUpdate"] != "user_message").collect();
        let as_notice = takes || pairing.client == Version::V2;
        // An agent of version 1 says nothing to a client that does not take it.
        let expected = match (pairing.agent, as_notice) {
            (_, true) => vec!["notice"],
            (Version::V2, false) => vec!["agent_message_chunk"],
            (Version::V1, false) => vec![],
        };
        assert_eq!(told.iter().map(|update| update["sessionUpdate"].clone()).collect::<Vec<_>>(), expected);
        if expected == ["agent_message_chunk"] {
            assert_eq!(told[0]["content"]["text"], "\n\n[warning] Beware\n\n");
            assert!(named_messages(&client.view(&session)).iter().all(|(_, text)| text != "beforeafter"));
        }
        let next = world.replayed(&client, &session).await;
        let spoken =
            next.updates(&session).into_iter().filter(|update| !update.to_string().contains("say before"));
        assert_eq!(spoken.filter(|update| update.to_string().contains("Beware")).count(), 0);
        assert_eq!(next.view(&session).agent(), ["before", "after"]);
    }
}

async fn r8_13_a_compaction_stays_where_it_began(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let compaction =
        |status: &str| json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": status});
    let summary =
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text("sum")});
    let updates = [
        chunk("m", "before"),
        compaction("in_progress"),
        chunk("n", "between"),
        summary,
        compaction("completed"),
    ];
    client.prompt(&session, &script(&updates)).await;
    client.prompt(&session, "say later").await;
    let next = world.replayed(&client, &session).await;
    for heard in [&client, &next] {
        let view = heard.view(&session);
        let place = |is: &dyn Fn(&Item) -> bool| view.items.iter().position(is).expect("it is there");
        let message = |words: &'static str| {
            place(&move |item| matches!(item, Item::Message { text, .. } if text == words))
        };
        let at = place(&|item| matches!(item, Item::Other(tag) if tag == "compaction_update"));
        assert!(message("before") < at && at < message("between"), "{view}");
        let last = with_tag(heard, &session, "compaction_update").pop().expect("the last word on it");
        assert_eq!(last["status"], "completed");
        assert!(!with_word(heard, &session, "\"sum\"").is_empty());
    }
}

async fn r8_13_compactions_are_told_in_words_to_others(pairing: Pairing) {
    let (world, client, session) = begun_bare(pairing).await;
    client.prompt(&session, "say before; compact; say after").await;
    let next = {
        let again = world.restarted(&client).await;
        again.fold(&session).await;
        let next = again.connect();
        next.initialize_bare().await;
        next.load(&session).await;
        next
    };
    for heard in [&client, &next] {
        let told = with_tag(heard, &session, "compaction_update").len();
        match (pairing.client, pairing.agent) {
            (Version::V2, _) => assert!(told > 0),
            (Version::V1, Version::V1) => assert_eq!(told, 0),
            (Version::V1, Version::V2) => {
                assert_eq!(told, 0);
                let thoughts = heard.view(&session).texts("thought");
                assert!(
                    thoughts.iter().any(|text| text.trim() == "[the conversation was compacted]"),
                    "{thoughts:?}"
                );
            }
        }
        assert_eq!(heard.view(&session).agent(), ["before", "after"]);
    }
    // What is said in words has the same ids each time.
    let (live, again) = (thought_ids(&client, &session), thought_ids(&next, &session));
    assert!(again.is_subset(&live), "{again:?} in {live:?}");
}

fn thought_ids(client: &Client, session: &str) -> BTreeSet<String> {
    let thoughts = with_tag(client, session, "agent_thought_chunk").into_iter();
    thoughts.filter_map(|update| update["messageId"].as_str().map(str::to_owned)).collect()
}

async fn r8_14_plans_and_children_only_for_those_who_take_them(pairing: Pairing) {
    let (_world, client, session) = begun_bare(pairing).await;
    let plan = json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p",
        "content": "- [x] one\n- two"}});
    let removed = json!({"sessionUpdate": "plan_removed", "planId": "p"});
    client.prompt(&session, &script([&plan])).await;
    assert_eq!(client.view(&session).plan.len(), if pairing.client == Version::V1 { 2 } else { 0 });
    client.prompt(&session, &format!("{}subagent", script([&removed]))).await;
    assert_eq!(client.view(&session).plan, Vec::<String>::new());
    client.prompt(&session, "say done").await;
    let gated = ["plan_update", "plan_removed", "subagent_update", "session_message"];
    let told = client
        .server_messages()
        .into_iter()
        .filter(|message| gated.iter().any(|tag| message["params"]["update"]["sessionUpdate"] == *tag));
    assert_eq!(told.count() > 0, pairing.client == Version::V2);
    let foreign = client
        .server_messages()
        .into_iter()
        .filter(|message| message["method"] == "session/update" && message["params"]["sessionId"] != session);
    match pairing.client {
        Version::V1 => assert_eq!(foreign.count(), 0, "of sessions it does not know"),
        Version::V2 => assert_eq!(foreign.count(), 1),
    }
    if (pairing.client, pairing.agent) == (Version::V1, Version::V2) {
        // It is told in words, what the child says too.
        let view = client.view(&session);
        let thoughts = view.texts("thought").concat();
        assert!(thoughts.contains("A helper") && thoughts.contains("the child speaks"), "{view}");
    }
}

pairings!(
    r8_12_notices_are_of_the_moment,
    r8_13_a_compaction_stays_where_it_began,
    r8_13_compactions_are_told_in_words_to_others,
    r8_14_plans_and_children_only_for_those_who_take_them,
);
