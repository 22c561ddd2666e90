//! Rules 3.1 to 3.6: what a load brings, and when.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, AgentImpl, Offer, Quirk, Restores};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::json;

use super::stage::{TALK, load, open, past, refused, resume_params};

async fn r3_01_loading_is_offered_whatever_the_agent_can(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig::bare(config.speaks));
    let (session, before) = past(&world, &TALK).await;
    let client = world.connect();
    let hello = client.initialize().await;
    match pairing.client {
        Version::V1 => {
            assert_eq!(hello["agentCapabilities"]["loadSession"], true);
            let session = &hello["agentCapabilities"]["sessionCapabilities"];
            assert_eq!(session["resume"], json!({}), "3.6");
        }
        Version::V2 => assert!(hello["capabilities"]["session"].is_object()),
    }
    let opened = load(&client, &session).await;
    assert!(!opened.conversation().is_empty());
    assert_eq!(client.view(&session), before.view(&session));
}

async fn r3_02_the_whole_conversation_comes_before_the_answer(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, before) = past(&world, &TALK).await;
    let client = world.ready().await;
    let mark = client.mark();
    load(&client, &session).await;
    assert_eq!(client.view(&session), before.view(&session));
    // What the agent repeats when it takes the session up again is not heard a second time.
    let opened = client.mark();
    client.prompt(&session, "say again").await;
    assert_eq!(client.view_since(opened, &session).agent(), ["again"]);
    assert_eq!(client.view_since(mark, &session).agent().len(), 3);
    assert_eq!(client.view_since(mark, &session).user().len(), 3);
}

async fn r3_02_a_replay_is_whole_whatever_the_agent_restores(pairing: Pairing) {
    let bare = |config: &mut AgentConfig| *config = AgentConfig::bare(config.speaks);
    let mut changes: Vec<fn(&mut AgentConfig)> =
        vec![bare, |config| *config = config.clone().without(&["resume"]), |config| {
            config.restores = Restores::Nothing
        }];
    // An agent of the library replays nothing.
    if pairing.agent_impl == AgentImpl::Own {
        changes.push(|config| config.quirks = vec![Quirk::OtherIdsOnReplay]);
    }
    for change in changes {
        let world = World::of(pairing);
        let (session, before) = past(&world, &TALK).await;
        world.agent.configure(change);
        let client = world.ready().await;
        load(&client, &session).await;
        assert_eq!(client.view(&session), before.view(&session));
        let mark = client.mark();
        assert_eq!(client.prompt(&session, "say more; tool call_1").await.stop, "end_turn");
        let said = client.view_since(mark, &session).agent();
        assert_eq!(said.last().map(String::as_str), Some("more"), "{said:?}");
        assert_eq!(world.agent.received_params("session/prompt").len(), 3, "no prompt is sent twice");
    }
}

async fn r3_02_a_replay_behind_the_agents_answer_is_not_heard(pairing: Pairing) {
    let late = |config: AgentConfig| match pairing.agent_impl {
        AgentImpl::Own => config.without(&["resume"]).with(&[Quirk::ReplaysLate]),
        // It replays nothing, so there is nothing to be heard.
        AgentImpl::Library => config,
    };
    let world = World::with_config(pairing, late);
    let (session, before) = past(&world, &TALK).await;
    let client = world.ready().await;
    load(&client, &session).await;
    let mark = client.mark();
    // At once: the prompt waits for the agent, and must not run into its replay.
    assert_eq!(client.prompt(&session, "slow 25; say again").await.stop, "end_turn");
    let said = client.view_since(mark, &session).agent();
    assert!(!said.iter().any(|text| text == "hello"), "{said:?}");
    assert_eq!(client.view(&session).user().len(), before.view(&session).user().len() + 1);
}

async fn r3_02_a_replay_can_be_had_again_and_again(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, TALK[0]).await;
    let live = client.view(&session);
    for _ in 0..3 {
        let mark = client.mark();
        load(&client, &session).await;
        assert_eq!(client.view_since(mark, &session), live);
    }
    client.prompt(&session, "say once").await;
    let heard = client.updates(&session);
    let once = heard.iter().filter(|update| update["content"]["text"] == "once").count();
    assert_eq!(once, 1, "a client follows a session once");
}

async fn r3_03_notices_are_not_replayed(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, before) = past(&world, &["notice Beware; say hello"]).await;
    let noticed = |client: &Client| client.updates(&session).iter().any(|u| u["title"] == "Beware");
    assert!(noticed(&before));
    let client = world.ready().await;
    load(&client, &session).await;
    assert!(!noticed(&client));
    assert_eq!(client.view(&session).agent(), ["hello"]);
}

async fn r3_04_the_answer_tells_what_is_chosen(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&[Offer::Modes, Offer::Effort]));
    let (session, _) = past(&world, &["mode b"]).await;
    let client = world.ready().await;
    for params in [client.load_params(&session), ("session/resume", resume_params(&session))] {
        let answer = open(&client, params.0, params.1).await.answer;
        let options = answer["configOptions"].as_array().expect("options");
        let mode = options.iter().find(|option| option["category"] == "mode").expect("the mode");
        assert_eq!(mode["currentValue"], "b");
        if pairing.client == Version::V1 {
            assert_eq!(answer["modes"]["currentModeId"], "b");
        }
    }
}

async fn r3_05_additional_directories_are_those_of_the_last_request(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let mut params = json!({"cwd": CWD, "mcpServers": [], "additionalDirectories": ["/a", "/b"]});
    let made = client.ask("session/new", params.clone()).await;
    let session = made["sessionId"].as_str().expect("an id").to_owned();
    client.prompt(&session, "say hello").await;
    client.disconnect().await;
    world.agent.wait_gone().await;

    params["sessionId"] = json!(session);
    params["additionalDirectories"] = json!(["/c"]);
    let next = world.ready().await;
    next.ask("session/resume", params).await;
    let told = world.agent.wait_received("session/resume", 1).await;
    assert_eq!(told["additionalDirectories"], json!(["/c"]));
    let list = next.ask("session/list", json!({})).await;
    assert_eq!(list["sessions"][0]["additionalDirectories"], json!(["/c"]));
    next.disconnect().await;
    world.agent.wait_gone().await;

    // 3.20: omitted is none, and never what was there before.
    let last = world.ready().await;
    last.resume(&session).await;
    let told = world.agent.wait_received("session/resume", 2).await;
    assert!(told.get("additionalDirectories").is_none());
    let list = last.ask("session/list", json!({})).await;
    assert!(list["sessions"][0].get("additionalDirectories").is_none());
}

async fn missing_or_null_servers_of_a_load_are_refused(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    let missing = json!({"sessionId": session, "cwd": CWD});
    let null = json!({"sessionId": session, "cwd": CWD, "mcpServers": null});
    for params in [missing.clone(), null.clone()] {
        let error = refused(&client, "session/load", params, "mcpServers").await;
        assert!(error["data"]["hint"].as_str().expect("a hint").contains("\"mcpServers\": []"));
    }
    // A resume may leave them out.
    for params in [missing, null] {
        client.ask("session/resume", params).await;
    }
    load(&client, &session).await;
}

async fn the_load_of_the_earlier_draft_replays_and_needs_no_servers(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, before) = past(&world, &TALK).await;
    let client = world.ready().await;
    for params in [
        json!({"sessionId": session, "cwd": CWD}),
        json!({"sessionId": session, "cwd": CWD, "mcpServers": null}),
    ] {
        let mark = client.mark();
        let opened = open(&client, "session/load", params).await;
        assert!(opened.answer["configOptions"].is_array());
        assert_eq!(opened.before.last().expect("the state")["sessionUpdate"], "state_update");
        assert_eq!(client.view_since(mark, &session), before.view(&session));
    }
}

async fn both_versions_load_what_the_other_made(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, before) = past(&world, &TALK).await;
    for version in [Version::V1, Version::V2] {
        let client = world.ready_as(version).await;
        client.load(&session).await;
        assert_eq!(client.view(&session), before.view(&session));
        client.disconnect().await;
    }
}

/// The same on the embedded store, where a finished turn is folded into whole messages.
async fn r3_02_r3_10_r3_15_hold_on_disk(pairing: Pairing) {
    let world = World::on_disk(pairing);
    let (session, before) = past(&world, &["noid; say one; chunks 9", TALK[0], TALK[1]]).await;
    let client = world.again().ready().await;
    let opened = load(&client, &session).await;
    assert_eq!(client.view(&session), before.view(&session));
    if pairing.client == Version::V1 {
        return;
    }
    let users = opened.before.iter().filter(|update| update["sessionUpdate"] == "user_message");
    let second = users.map(|update| update["messageId"].clone()).nth(1).expect("a second prompt");
    let mark = client.mark();
    let mut params = resume_params(&session);
    params["replayFrom"] = json!({"type": "_message", "messageId": second});
    open(&client, "session/resume", params).await;
    assert_eq!(client.view_since(mark, &session).user(), TALK);
}

pairings!(
    r3_02_r3_10_r3_15_hold_on_disk,
    r3_01_loading_is_offered_whatever_the_agent_can,
    r3_02_the_whole_conversation_comes_before_the_answer,
    r3_02_a_replay_is_whole_whatever_the_agent_restores,
    r3_02_a_replay_behind_the_agents_answer_is_not_heard,
    r3_02_a_replay_can_be_had_again_and_again,
    r3_03_notices_are_not_replayed,
    r3_04_the_answer_tells_what_is_chosen,
    r3_05_additional_directories_are_those_of_the_last_request,
    both_versions_load_what_the_other_made,
);

pairings!(client V1:
    missing_or_null_servers_of_a_load_are_refused,
);

pairings!(client V2:
    the_load_of_the_earlier_draft_replays_and_needs_no_servers,
);
