//! Rules 3.1 to 3.23: `session/load`, `session/resume` and replay. After each bad input the connection still works.

use std::collections::BTreeSet;

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, Mind, Offer, Quirk, Restores};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

/// What a client hears when it opens a session.
struct Opened {
    /// The updates before the answer.
    before: Vec<Value>,
    /// The answer.
    answer: Value,
}

impl Opened {
    /// The tags of the updates before the answer that belong to the conversation.
    fn conversation(&self) -> Vec<&str> {
        let tags = self.before.iter().filter_map(|update| update["sessionUpdate"].as_str());
        tags.filter(|tag| is_conversation(tag)).collect()
    }
}

fn is_conversation(tag: &str) -> bool {
    ["message", "thought", "tool", "plan", "compaction"].iter().any(|part| tag.contains(part))
}

async fn open(client: &Client, method: &str, params: Value) -> Opened {
    let mark = client.mark();
    let id = client.begin(method, params).await;
    let answer = client.answer(&id).await.expect("the session opens");
    let heard = client.heard_since(mark);
    let at = heard.iter().position(|message| message["id"] == id).expect("it was answered");
    let before = heard[..at].iter().map(|message| message["params"]["update"].clone()).collect();
    Opened { before, answer }
}

/// Loads with the whole replay.
async fn load(client: &Client, session: &str) -> Opened {
    let (method, params) = client.load_params(session);
    open(client, method, params).await
}

fn resume_params(session: &str) -> Value {
    json!({"sessionId": session, "cwd": CWD, "mcpServers": []})
}

/// A session with a conversation, whose client and agent are gone.
async fn past(world: &World, prompts: &[&str]) -> (String, Client) {
    let client = world.ready().await;
    let session = client.new_session().await;
    for prompt in prompts {
        client.prompt(&session, prompt).await;
    }
    client.hang_up().await;
    world.agent.wait_gone().await;
    (session, client)
}

/// Asserts that these parameters are refused for this member, and that the connection still works.
async fn refused(client: &Client, method: &str, params: Value, field: &str) -> Value {
    let error = client.refused(method, params).await;
    assert_eq!(error["code"], -32602, "{error}");
    assert_eq!(error["data"]["field"], field, "{error}");
    assert!(error["data"]["expected"].is_string(), "{error}");
    client.ask("session/list", json!({})).await;
    error
}

const TALK: [&str; 2] = ["say hello; think hm; tool call_1; plan a,b", "chunks 20; usage 5/50; title Named"];

async fn r3_01_loading_is_offered_whatever_the_agent_can(pairing: Pairing) {
    let world = World::having(pairing, |config| AgentConfig::bare(config.speaks));
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
    if pairing.mind == Mind::Own {
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
        assert_eq!(world.agent.told("session/prompt").len(), 3, "no prompt is sent twice");
    }
}

async fn r3_02_a_replay_behind_the_agents_answer_is_not_heard(pairing: Pairing) {
    let late = |config: AgentConfig| match pairing.mind {
        Mind::Own => config.without(&["resume"]).with(&[Quirk::ReplaysLate]),
        // It replays nothing, so there is nothing to be heard.
        Mind::Library => config,
    };
    let world = World::having(pairing, late);
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
    let world = World::having(pairing, |config| config.offering(&[Offer::Modes, Offer::Effort]));
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
    client.hang_up().await;
    world.agent.wait_gone().await;

    params["sessionId"] = json!(session);
    params["additionalDirectories"] = json!(["/c"]);
    let next = world.ready().await;
    next.ask("session/resume", params).await;
    let told = world.agent.wait_told("session/resume", 1).await;
    assert_eq!(told["additionalDirectories"], json!(["/c"]));
    let list = next.ask("session/list", json!({})).await;
    assert_eq!(list["sessions"][0]["additionalDirectories"], json!(["/c"]));
    next.hang_up().await;
    world.agent.wait_gone().await;

    // 3.20: omitted is none, and never what was there before.
    let last = world.ready().await;
    last.resume(&session).await;
    let told = world.agent.wait_told("session/resume", 2).await;
    assert!(told.get("additionalDirectories").is_none());
    let list = last.ask("session/list", json!({})).await;
    assert!(list["sessions"][0].get("additionalDirectories").is_none());
}

async fn r3_07_resume_does_not_replay(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &TALK).await;
    let client = world.ready().await;
    let mut params = vec![resume_params(&session)];
    if pairing.client == Version::V2 {
        let mut null = resume_params(&session);
        null["replayFrom"] = Value::Null;
        params.push(null);
    }
    for params in params {
        let opened = open(&client, "session/resume", params).await;
        assert_eq!(opened.conversation(), [""; 0], "3.8");
    }
    let mark = client.mark();
    client.prompt(&session, "say more").await;
    let tags = client.updates_since(mark, &session);
    let said: Vec<_> =
        tags.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk").collect();
    assert_eq!(said.len(), 1);
    assert_eq!(client.view(&session).agent(), ["more"]);
}

async fn r3_09_start_replays_everything_before_the_answer(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, before) = past(&world, &TALK).await;
    let client = world.ready().await;
    let mut params = resume_params(&session);
    params["replayFrom"] = json!({"type": "start"});
    let opened = open(&client, "session/resume", params).await;
    assert_eq!(opened.conversation().first(), Some(&"user_message"));
    assert_eq!(client.view(&session), before.view(&session));
}

async fn r3_10_a_cursor_is_inclusive(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say one").await;
    let second = client.prompt(&session, "say two").await.message.expect("an id");
    client.prompt(&session, "say three").await;
    let from = |message: &str| {
        let mut params = resume_params(&session);
        params["replayFrom"] = json!({"type": "_message", "messageId": message});
        params
    };
    let mark = client.mark();
    open(&client, "session/resume", from(&second)).await;
    let view = client.view_since(mark, &session);
    assert_eq!(view.user(), ["say two", "say three"]);
    assert_eq!(view.agent(), ["two", "three"]);
    // From a message of the agent's, too.
    let is_two = |update: &&Value| update["content"]["text"] == "two";
    let spoken = client.updates(&session).iter().find(is_two).expect("it was said")["messageId"].clone();
    let mark = client.mark();
    open(&client, "session/resume", from(spoken.as_str().expect("an id"))).await;
    let view = client.view_since(mark, &session);
    assert_eq!(view.user(), ["say three"]);
    assert_eq!(view.agent(), ["two", "three"]);
}

async fn r3_11_a_bad_cursor_is_refused_and_nothing_is_resumed(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    for from in [
        json!("start"),
        json!(5),
        json!([]),
        json!({}),
        json!({"type": "end"}),
        json!({"type": "_other"}),
        json!({"type": 5}),
        json!({"type": "_message"}),
        json!({"type": "_message", "messageId": 5}),
    ] {
        let mut params = resume_params(&session);
        params["replayFrom"] = from;
        refused(&client, "session/resume", params, "replayFrom").await;
    }
    let mut params = resume_params(&session);
    params["replayFrom"] = json!({"type": "_message", "messageId": "nobody"});
    refused(&client, "session/resume", params, "replayFrom.messageId").await;
    // 3.14: a resume that failed tells nothing and attaches nobody.
    assert!(client.updates(&session).is_empty());
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]});
    assert_eq!(client.refused("session/prompt", prompt).await["code"], -32002);
    load(&client, &session).await;
}

async fn r3_12_the_state_comes_between_replay_and_answer(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["stop refusal"]).await;
    let client = world.ready().await;
    for params in [client.load_params(&session).1, resume_params(&session)] {
        let opened = open(&client, "session/resume", params).await;
        let last = opened.before.last().expect("the state");
        assert_eq!(last["sessionUpdate"], "state_update");
        assert_eq!(last["state"], "idle");
        // 3.13: for context, the last reason; never another.
        assert!(last.get("stopReason").is_none_or(|reason| reason == "refusal"), "{last}");
        let states = opened.before.iter().filter(|update| update["sessionUpdate"] == "state_update");
        assert_eq!(states.count(), 1, "the past states are not replayed");
    }
}

async fn r3_12_the_state_of_a_session_that_was_never_prompted_is_idle(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &[]).await;
    let client = world.ready().await;
    let opened = open(&client, "session/resume", resume_params(&session)).await;
    assert_eq!(opened.before, [json!({"sessionUpdate": "state_update", "state": "idle"})]);
}

async fn r3_14_the_state_of_running_work_is_running(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say one; wait gate; say two").await;
    client.wait_update(0, &session, "the first word", |update| update["content"]["text"] == "one").await;
    let mark = client.mark();
    let opened = load(&client, &session).await;
    let last = opened.before.last().expect("the state");
    assert_eq!((&last["sessionUpdate"], &last["state"]), (&json!("state_update"), &json!("running")));
    world.agent.open_gate("gate");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    let states: Vec<_> = client
        .updates_since(mark, &session)
        .into_iter()
        .filter(|update| update["sessionUpdate"] == "state_update")
        .map(|update| update["state"].clone())
        .collect();
    assert_eq!(states, ["running", "idle"], "no stale state follows a newer one");
    assert_eq!(client.view_since(mark, &session).agent(), ["one", "two"]);
}

async fn r3_15_every_replayed_message_has_its_id(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.prompt(&session, "noid; say one; tool call_1; say two; think hm").await;
    client.prompt(&session, "chunks 3; say three").await;
    let live = client.view(&session);
    client.hang_up().await;
    let next = world.ready().await;
    load(&next, &session).await;
    let mut seen = BTreeSet::new();
    let mut last = None;
    for update in next.updates(&session) {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default();
        if !tag.contains("message") && !tag.contains("thought") {
            continue;
        }
        let id = update["messageId"].as_str().expect("a replayed message has an id").to_owned();
        let key = (tag.trim_end_matches("_chunk").to_owned(), id);
        if last.as_ref() != Some(&key) {
            assert!(seen.insert(key.clone()), "{key:?} comes twice");
        }
        last = Some(key);
    }
    // The ids are those that were there live.
    assert_eq!(next.view(&session), live);
    if let Some(first) = first.message {
        assert!(seen.contains(&("user_message".to_owned(), first)));
    }
}

async fn r3_17_a_compaction_keeps_its_place(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, before) = past(&world, &["say one; compact; say two"]).await;
    let client = world.ready().await;
    load(&client, &session).await;
    assert_eq!(client.view(&session), before.view(&session));
    let updates = client.updates(&session);
    let compactions: Vec<_> =
        updates.iter().filter(|update| update["sessionUpdate"] == "compaction_update").collect();
    assert_eq!(compactions.last().expect("a compaction")["status"], "completed");
}

async fn r3_18_another_directory_is_refused_and_the_right_one_named(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    for (method, mut params) in [client.load_params(&session), ("session/resume", resume_params(&session))] {
        let mark = client.mark();
        params["cwd"] = json!("/elsewhere");
        let error = refused(&client, method, params.clone(), "cwd").await;
        assert_eq!(error["data"]["got"], "/elsewhere");
        assert!(error["data"]["hint"].as_str().expect("a hint").contains(CWD));
        params["cwd"] = json!("work");
        refused(&client, method, params.clone(), "cwd").await;
        params.as_object_mut().expect("an object").remove("cwd");
        refused(&client, method, params.clone(), "cwd").await;
        assert!(client.updates_since(mark, &session).is_empty());
        params["cwd"] = json!("/work/");
        client.ask(method, params).await;
        client.close(&session).await.expect("it closes");
    }
}

async fn r3_19_servers_are_those_of_the_last_request(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let mut server = json!({"name": "tools", "command": "/bin/tools", "args": [], "env": []});
    if pairing.client == Version::V2 {
        server["type"] = json!("stdio");
    }
    let made = client.ask("session/new", json!({"cwd": CWD, "mcpServers": [server]})).await;
    let session = made["sessionId"].as_str().expect("an id").to_owned();
    client.hang_up().await;
    world.agent.wait_gone().await;
    let next = world.ready().await;
    next.ask("session/resume", json!({"sessionId": session, "cwd": CWD})).await;
    let told = world.agent.wait_told("session/resume", 1).await;
    assert_eq!(told["mcpServers"], json!([]), "servers are not restored");
    next.hang_up().await;
    world.agent.wait_gone().await;
    let last = world.ready().await;
    let (method, mut params) = last.load_params(&session);
    params["mcpServers"] = json!([server]);
    last.ask(method, params).await;
    let told = world.agent.wait_told("session/resume", 2).await;
    assert_eq!(told["mcpServers"][0]["name"], "tools");
}

async fn r3_19_a_transport_that_the_agent_lacks_is_refused(pairing: Pairing) {
    let world = World::having(pairing, |config| config.without(&["http"]));
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    let (method, mut params) = client.load_params(&session);
    params["mcpServers"] =
        json!([{"type": "http", "name": "x", "url": "https://example.com", "headers": []}]);
    refused(&client, method, params, "mcpServers[0].type").await;
    assert!(client.updates(&session).is_empty());
    load(&client, &session).await;
}

async fn r3_20_each_additional_directory_is_absolute(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    let (method, mut params) = client.load_params(&session);
    params["additionalDirectories"] = json!(["/a", "./b"]);
    refused(&client, method, params, "additionalDirectories[1]").await;
    load(&client, &session).await;
}

async fn r3_21_an_unknown_session_is_not_found(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let long = "x".repeat(100_000);
    let null = "\u{0}";
    for id in ["nobody", "", "../../etc/passwd", "/etc/passwd", "%2e%2e", "native-1", null, &long] {
        let error = client.load_refused(id).await;
        assert_eq!(error["code"], -32002);
        assert_eq!(error["data"]["sessionId"], id);
        for method in ["session/resume", "session/prompt", "session/status", "session/set_title"] {
            let mut params = resume_params(id);
            params["prompt"] = json!([{"type": "text", "text": "hi"}]);
            params["title"] = json!("A title");
            let error = client.refused(method, params).await;
            assert_eq!(error["code"], -32002, "{method}");
            assert_eq!(error["data"]["sessionId"], id, "{method}");
        }
    }
    for id in [json!(null), json!(5), json!({"a": 1}), json!(["x"])] {
        let (method, mut params) = client.load_params("x");
        params["sessionId"] = id;
        refused(&client, method, params, "sessionId").await;
    }
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

async fn r3_22_each_connection_opens_a_session_for_itself(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "say hi"}]});
    let error = client.refused("session/prompt", prompt).await;
    assert_eq!(error["code"], -32002);
    assert_eq!(error["data"]["sessionId"], session);
    assert!(error["data"]["hint"].is_string());
    client.cancel(&session).await;
    client.ask("session/list", json!({})).await;
    assert!(client.updates(&session).is_empty());
    client.resume(&session).await;
    assert_eq!(client.prompt(&session, "say hi").await.stop, "end_turn");
    let prompts = world.agent.told("session/prompt");
    assert_eq!(prompts.len(), 2);
    assert_eq!(prompts[1]["sessionId"], world.agent.sessions()[0], "to the session that the agent has open");
}

async fn r3_22_a_session_can_be_opened_right_behind_its_close(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say hello").await;
    for _ in 0..20 {
        let close = client.begin("session/close", json!({"sessionId": session})).await;
        let late = client.begin_prompt(&session, "say late").await;
        let (method, params) = client.load_params(&session);
        let load = client.begin(method, params).await;
        client.answer(&close).await.expect("it closes");
        assert_eq!(client.answer(&late).await.expect_err("it is closed")["code"], -32002);
        client.answer(&load).await.expect("it opens again");
    }
    let mark = client.mark();
    assert_eq!(client.prompt(&session, "say again").await.stop, "end_turn");
    assert_eq!(client.view_since(mark, &session).agent(), ["again"]);
    let told = world.agent.told("session/prompt");
    assert!(!json!(told).to_string().contains("late"));
}

async fn r3_23_no_update_is_made_up_for_the_end_of_a_replay(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &TALK).await;
    let client = world.ready().await;
    load(&client, &session).await;
    let known = [
        "user_message",
        "user_message_chunk",
        "agent_message",
        "agent_message_chunk",
        "agent_thought",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "plan_update",
        "usage_update",
        "session_info_update",
        "available_commands_update",
        "state_update",
    ];
    // That the agent has restored the session is told when it has, and so is no part of the replay.
    let of_replay = |update: &&Value| update["_meta"]["rethread"].is_null();
    for update in client.updates(&session).iter().filter(of_replay) {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default();
        assert!(known.contains(&tag), "{tag}");
    }
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
        client.hang_up().await;
    }
}

/// The same on SQLite, where a finished turn is folded into whole messages.
async fn r3_02_r3_10_r3_15_hold_on_disk(pairing: Pairing) {
    let (world, _folder) = World::on_disk(pairing);
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
    r3_07_resume_does_not_replay,
    r3_15_every_replayed_message_has_its_id,
    r3_17_a_compaction_keeps_its_place,
    r3_18_another_directory_is_refused_and_the_right_one_named,
    r3_19_servers_are_those_of_the_last_request,
    r3_19_a_transport_that_the_agent_lacks_is_refused,
    r3_20_each_additional_directory_is_absolute,
    r3_21_an_unknown_session_is_not_found,
    r3_22_each_connection_opens_a_session_for_itself,
    r3_22_a_session_can_be_opened_right_behind_its_close,
    r3_23_no_update_is_made_up_for_the_end_of_a_replay,
    both_versions_load_what_the_other_made,
);

pairings!(client V1: missing_or_null_servers_of_a_load_are_refused);

pairings!(
    client V2:
    r3_09_start_replays_everything_before_the_answer,
    r3_10_a_cursor_is_inclusive,
    r3_11_a_bad_cursor_is_refused_and_nothing_is_resumed,
    r3_12_the_state_comes_between_replay_and_answer,
    r3_12_the_state_of_a_session_that_was_never_prompted_is_idle,
    r3_14_the_state_of_running_work_is_running,
    the_load_of_the_earlier_draft_replays_and_needs_no_servers,
);
