//! Modes, models and other options: changed inside and outside of turns, in all the ways that a version has,
//! and refused with nothing changed (rules 8.9 and 8.10).

use rethread::edge::Version;
use rethread_testkit::agent::Offer;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const OFFERS: [Offer; 4] = [Offer::Modes, Offer::Models, Offer::Effort, Offer::Verbose];

/// The methods by which options are changed at an agent.
const SETTERS: [&str; 3] = ["session/set_mode", "session/set_model", "session/set_config_option"];

fn changes(world: &World) -> usize {
    SETTERS.iter().map(|method| world.agent.received_params(method).len()).sum()
}

/// What is chosen, as the client sees it.
fn chosen(client: &Client, session: &str) -> Vec<(String, String)> {
    client.view(session).options.into_iter().collect()
}

fn all(mode: &str, model: &str, effort: &str, verbose: &str) -> Vec<(String, String)> {
    let pairs = [("effort", effort), ("mode", mode), ("model", model), ("verbose", verbose)];
    pairs.iter().map(|(option, value)| ((*option).to_owned(), (*value).to_owned())).collect()
}

/// Changes everything once, and back.
async fn change_all(client: &Client, session: &str) {
    let before = chosen(client, session);
    assert_eq!(before, all("a", "fast", "low", "false"));
    let answer = client.set_option(session, "effort", "high").await;
    let named = answer["configOptions"].as_array().expect("the answer has all options");
    assert!(named.len() >= 2, "{answer}");
    client.set_option(session, "verbose", true).await;
    match client.version {
        Version::V1 => {
            client.ask("session/set_mode", json!({"sessionId": session, "modeId": "b"})).await;
            client.ask("session/set_model", json!({"sessionId": session, "modelId": "deep"})).await;
        }
        Version::V2 => {
            client.set_option(session, "mode", "b").await;
            client.set_option(session, "model", "deep").await;
        }
    }
}

async fn r8_09_options_can_be_changed_between_turns(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&OFFERS));
    let client = world.ready().await;
    let session = client.new_session().await;
    change_all(&client, &session).await;
    assert_eq!(changes(&world), 4);
    assert_eq!(client.prompt(&session, "say a").await.stop, "end_turn");
    let next = world.restarted(&client).await.ready().await;
    next.load(&session).await;
    assert_eq!(chosen(&next, &session), all("b", "deep", "high", "true"));
}

async fn r8_09_options_can_be_changed_during_a_turn(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&OFFERS));
    let client = world.ready().await;
    let session = client.new_session().await;
    let prompt = client.begin_prompt(&session, "say a; wait go; say b").await;
    client.wait_update(0, &session, "the first words", |update| update["content"]["text"] == "a").await;
    change_all(&client, &session).await;
    assert_eq!(changes(&world), 4, "at once, not after the turn");
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["a", "b"]);
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(chosen(&next, &session), all("b", "deep", "high", "true"));
}

/// What cannot be set, with the field that the error names.
fn nonsense(client: &Client, session: &str) -> Vec<(&'static str, Value, &'static str)> {
    let mut bad = vec![
        ("nobody", json!("low"), "configId"),
        ("effort", json!("extreme"), "value"),
        ("effort", json!(true), "value"),
        ("verbose", json!("true"), "value"),
        ("mode", json!("z"), "value"),
        ("model", json!("z"), "value"),
    ];
    if client.version == Version::V1 {
        // These are asked for by methods of their own.
        bad.truncate(4);
    }
    let written = |(option, value, field)| {
        let (method, params) = client.option_request(session, option, value);
        (method, params, field)
    };
    let mut requests: Vec<_> = bad.into_iter().map(written).collect();
    if client.version == Version::V1 {
        requests.push(("session/set_mode", json!({"sessionId": session, "modeId": "z"}), "modeId"));
        requests.push(("session/set_model", json!({"sessionId": session, "modelId": "z"}), "modelId"));
        requests.push(("session/set_mode", json!({"sessionId": session}), "modeId"));
    }
    requests.push((
        "session/set_config_option",
        json!({"sessionId": session, "configId": "effort"}),
        "value",
    ));
    requests
}

async fn refuse_all(world: &World, client: &Client, session: &str) {
    let before = (chosen(client, session), client.updates(session).len());
    for (method, params, field) in nonsense(client, session) {
        let error = client.refused(method, params.clone()).await;
        assert_eq!(error["code"], -32602, "{method} {params}: {error}");
        assert_eq!(error["data"]["field"], field, "{method} {params}: {error}");
        assert!(error["data"]["expected"].is_string(), "{method} {params}: {error}");
    }
    assert_eq!((chosen(client, session), client.updates(session).len()), before, "nothing changed");
    assert_eq!(changes(world), 0, "and the agent heard nothing of it");
}

async fn r8_09_nonsense_changes_nothing(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&OFFERS));
    let client = world.ready().await;
    let session = client.new_session().await;
    refuse_all(&world, &client, &session).await;
    assert_eq!(client.prompt(&session, "say a").await.stop, "end_turn");
    let after = client.view(&session);
    client.load(&session).await;
    assert_eq!(client.view(&session).options, after.options);
}

async fn r8_09_nonsense_changes_nothing_during_a_turn(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&OFFERS));
    let client = world.ready().await;
    let session = client.new_session().await;
    let prompt = client.begin_prompt(&session, "say a; wait go; say b").await;
    client.wait_update(0, &session, "the first words", |update| update["content"]["text"] == "a").await;
    refuse_all(&world, &client, &session).await;
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["a", "b"]);
}

async fn r8_09_an_agent_without_options_has_none_to_set(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let (method, params) = client.option_request(&session, "effort", json!("low"));
    assert_eq!(client.refused(method, params).await["code"], -32602);
    if pairing.client == Version::V1 {
        for (method, field) in [("session/set_mode", "modeId"), ("session/set_model", "modelId")] {
            let error = client.refused(method, json!({"sessionId": session, field: "a"})).await;
            assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)));
        }
    }
    let (method, params) = client.option_request("nobody", "effort", json!("low"));
    assert_eq!(client.refused(method, params).await["code"], -32002);
}

async fn r8_10_the_views_of_the_mode_stay_in_step(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&[Offer::Modes, Offer::ModeOption]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let mark = client.mark();
    client.ask("session/set_mode", json!({"sessionId": session, "modeId": "b"})).await;
    // One state: what was set in one way is seen in the other.
    let tells = |update: &Value| update["configOptions"][0]["currentValue"] == "b";
    client.wait_update(mark, &session, "the option", tells).await;
    client.wait_update(mark, &session, "the mode", |update| update["currentModeId"] == "b").await;
    let mark = client.mark();
    let answer = client.set_option(&session, "mode", "a").await;
    assert_eq!(answer["configOptions"][0]["currentValue"], "a");
    client.wait_update(mark, &session, "the mode", |update| update["currentModeId"] == "a").await;
    let mark = client.mark();
    client.prompt(&session, "mode b").await;
    client.wait_update(mark, &session, "the mode", |update| update["currentModeId"] == "b").await;
    client.wait_update(mark, &session, "the option", tells).await;
    let answer = client.load(&session).await;
    assert_eq!(answer["modes"]["currentModeId"], "b");
    assert_eq!(answer["configOptions"][0]["currentValue"], "b");
}

/// Rule 2.8 holds for every answer that has options.
async fn r2_08_r8_09_a_client_without_booleans_is_not_told_of_them(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&OFFERS));
    let client = world.connect();
    client.initialize_bare().await;
    let session = client.new_session().await;
    client.set_option(&session, "effort", "high").await;
    client.prompt(&session, "mode b").await;
    client.load(&session).await;
    let told = json!(client.server_messages()).to_string();
    assert!(told.contains("effort") && !told.contains(r#""type":"boolean""#), "{told}");
}

pairings!(
    r8_09_options_can_be_changed_between_turns,
    r8_09_options_can_be_changed_during_a_turn,
    r8_09_nonsense_changes_nothing,
    r8_09_nonsense_changes_nothing_during_a_turn,
    r8_09_an_agent_without_options_has_none_to_set,
);

pairings!(client V1:
    r8_10_the_views_of_the_mode_stay_in_step,
    r2_08_r8_09_a_client_without_booleans_is_not_told_of_them,
);
