//! Rules 8.8 to 8.11: plans, options, commands and session info, of which the last word stands.

use std::collections::BTreeSet;

use rethread::edge::Version;
use rethread_testkit::agent::Offer;
use rethread_testkit::client::{CWD, Client, From};
use rethread_testkit::view::View;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Map, Value, json};

use super::stage::{assert_replays, script, with_tag};

async fn r8_08_a_plan_replaces_the_one_before(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "plan a,b,c; say x; plan d,e").await;
    assert_eq!(client.view(&session).plan, ["d (completed)", "e (pending)"]);
    assert_replays(&world, &client, &session, &client.view(&session)).await;
    let told = client.updates(&session).into_iter().filter(|update| update.to_string().contains("priority"));
    let ids: Vec<_> = told.map(|update| update["plan"]["planId"].clone()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1], "it is the same plan");
    if pairing.client == Version::V2 {
        assert!(ids[0].is_string());
    }
}

fn options(pairing: Pairing, offers: &[Offer]) -> World {
    World::with_config(pairing, |config| config.offering(offers))
}

/// What the client was last told of each option, whichever way, and of the two older views.
fn choices(client: &Client, session: &str) -> Map<String, Value> {
    let mut told = Map::new();
    let own = |message: &Value| {
        message["params"]["sessionId"] == session || message["result"]["sessionId"] == session
    };
    for message in client.server_messages() {
        let update = &message["params"]["update"];
        let body = if own(&message) && update.is_object() { update } else { &message["result"] };
        if let Some(mode) = update["currentModeId"].as_str().or(body["modes"]["currentModeId"].as_str()) {
            told.insert("the mode".to_owned(), json!(mode));
        }
        if let Some(model) = body["models"]["currentModelId"].as_str() {
            told.insert("the model".to_owned(), json!(model));
        }
        for option in body["configOptions"].as_array().into_iter().flatten() {
            let id = option.get("configId").or(option.get("id")).and_then(Value::as_str).unwrap_or_default();
            told.insert(id.to_owned(), option["currentValue"].clone());
        }
    }
    told
}

async fn r8_09_an_answer_has_all_options(pairing: Pairing) {
    let world = options(pairing, &[Offer::Modes, Offer::Models, Offer::Effort, Offer::Verbose]);
    let client = world.ready().await;
    let session = client.new_session().await;
    let id = match pairing.client {
        Version::V1 => "id",
        Version::V2 => "configId",
    };
    for (option, value) in [("effort", json!("high")), ("verbose", json!(true)), ("mode", json!("b"))] {
        let answer = client.set_option(&session, option, value.clone()).await;
        let list = answer["configOptions"].as_array().expect("a list").clone();
        let ids: BTreeSet<_> = list.iter().filter_map(|option| option[id].as_str()).collect();
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), ["effort", "mode", "model", "verbose"]);
        assert_eq!(list.len(), 4, "ids are unique");
        for known in &list {
            assert!(!known["currentValue"].is_null(), "{known}");
            if let Some(values) = known["options"].as_array() {
                assert!(values.iter().any(|offered| offered["value"] == known["currentValue"]), "{known}");
            }
        }
        assert!(list.iter().any(|known| known[id] == option && known["currentValue"] == value));
    }
}

async fn r8_09_a_wrong_choice_changes_nothing(pairing: Pairing) {
    let world = options(pairing, &[Offer::Modes, Offer::Models, Offer::Effort, Offer::Verbose]);
    let client = world.ready().await;
    let session = client.new_session().await;
    let before = choices(&client, &session);
    let wrong = [
        ("nothing", json!("high")),
        ("effort", json!("extreme")),
        ("effort", json!(true)),
        ("verbose", json!("yes")),
        ("mode", json!("z")),
    ];
    for (option, value) in wrong {
        let (method, params) = client.option_request(&session, option, value.clone());
        let error = client.request(method, params).await.expect_err("it is refused");
        assert_eq!(error["code"], -32602, "{option} = {value}: {error}");
        assert!(error["data"]["expected"].is_string(), "{error}");
    }
    assert_eq!(choices(&client, &session), before);
    assert!(world.agent.received_params("session/set_config_option").is_empty());
    assert!(world.agent.received_params("session/set_mode").is_empty());
}

async fn r8_09_lists_of_options_and_commands_are_replaced(pairing: Pairing) {
    let world = options(pairing, &[Offer::Effort]);
    let client = world.ready().await;
    let session = client.new_session().await;
    let id = match pairing.agent {
        Version::V1 => "id",
        Version::V2 => "configId",
    };
    let other = json!({"sessionUpdate": "config_option_update", "configOptions": [
        {id: "tone", "name": "Tone", "type": "select", "currentValue": "dry",
            "options": [{"value": "dry", "name": "Dry"}]}]});
    client.prompt(&session, &format!("commands a,b\n{}commands c", script([&other]))).await;
    let live = client.view(&session);
    assert_eq!(live.commands, ["c"]);
    assert_eq!(live.options.keys().collect::<Vec<_>>(), ["tone"]);
    // Up to the answer: an agent that is started again says what it offers now.
    let next = world.replayed(&client, &session).await;
    let said = next.said();
    let answered =
        said.iter().rposition(|said| said.from == From::Server && said.message.get("result").is_some());
    let past = &said[..=answered.expect("the load was answered")];
    assert_eq!(View::of(pairing.client, &session, past), live);
}

async fn r8_09_boolean_options_are_for_those_who_take_them(pairing: Pairing) {
    let world = options(pairing, &[Offer::Effort, Offer::Verbose]);
    // Somebody else takes them, so the agent tells them.
    let other = world.ready_as(Version::V2).await;
    let made = other.new_session().await;
    other.set_option(&made, "verbose", true).await;
    let client = world.connect();
    client.initialize_bare().await;
    let answer = client.load(&made).await;
    let mark = client.mark();
    let set_answer = client.set_option(&made, "effort", "high").await;
    let update = client
        .wait_update(mark, &made, "the options", |update| update["sessionUpdate"] == "config_option_update");
    for told in [answer, set_answer, update.await] {
        let booleans = told.to_string().contains("\"boolean\"");
        assert_eq!(booleans, pairing.client == Version::V2, "{told}");
    }
}

async fn r8_10_modes_models_and_options_are_one_state(pairing: Pairing) {
    for offers in [
        &[Offer::Modes, Offer::Models, Offer::Effort][..],
        &[Offer::Modes, Offer::ModeOption, Offer::Models, Offer::Effort][..],
    ] {
        let world = options(pairing, offers);
        let client = world.ready().await;
        let session = client.new_session().await;
        let is = |client: &Client, mode: &str, model: &str| {
            let told = choices(client, &session);
            assert_eq!(told["mode"], mode, "{told:?}");
            assert_eq!(told["model"], model, "{told:?}");
            if pairing.client == Version::V1 {
                assert_eq!(told["the mode"], mode, "{told:?}");
            }
        };
        is(&client, "a", "fast");
        client.set_option(&session, "mode", "b").await;
        is(&client, "b", "fast");
        client.set_option(&session, "model", "deep").await;
        is(&client, "b", "deep");
        if pairing.client == Version::V1 {
            client.ask("session/set_mode", json!({"sessionId": session, "modeId": "a"})).await;
            is(&client, "a", "deep");
            client.ask("session/set_model", json!({"sessionId": session, "modelId": "fast"})).await;
            is(&client, "a", "fast");
            let wrong = json!({"sessionId": session, "modeId": "z"});
            assert_eq!(client.refused("session/set_mode", wrong).await["code"], -32602);
            let wrong = json!({"sessionId": session, "modelId": "z"});
            assert_eq!(client.refused("session/set_model", wrong).await["code"], -32602);
        } else {
            client.set_option(&session, "mode", "a").await;
            client.set_option(&session, "model", "fast").await;
        }
        is(&client, "a", "fast");
        client.prompt(&session, "mode b").await;
        is(&client, "b", "fast");
        // Also while a turn runs.
        let turn = client.begin_prompt(&session, "say x; wait on").await;
        client.wait_update(0, &session, "the turn", |update| update["content"]["text"] == "x").await;
        client.set_option(&session, "model", "deep").await;
        is(&client, "b", "deep");
        world.agent.open_gate("on");
        client.finish(&session, &turn).await;
        let next = world.replayed(&client, &session).await;
        is(&next, "b", "deep");
        if pairing.client == Version::V1 {
            assert_eq!(choices(&next, &session)["the model"], "deep");
        }
    }
}

async fn r8_11_session_info_is_patched(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let info = |fields: Value| {
        let mut update = json!({"sessionUpdate": "session_info_update"});
        update.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        update
    };
    let updates = [info(json!({"title": "First"})), info(json!({"updatedAt": "2026-01-02T03:04:05Z"}))];
    client.prompt(&session, &script(&updates)).await;
    assert_eq!(client.view(&session).title.as_deref(), Some("First"));
    client.prompt(&session, &script([&info(json!({"title": null}))])).await;
    assert_eq!(client.view(&session).title, None);
    let listed = client.ask("session/list", json!({})).await;
    assert!(listed["sessions"][0]["title"].is_null(), "{listed}");
    for update in with_tag(&client, &session, "session_info_update") {
        assert!(update.get("cwd").is_none() && update.get("additionalDirectories").is_none(), "{update}");
    }
    assert_replays(&world, &client, &session, &client.view(&session)).await;
}

async fn r8_11_the_title_of_the_user_stays(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "title Theirs").await;
    assert_eq!(client.view(&session).title.as_deref(), Some("Theirs"));
    let named = json!({"sessionId": session, "title": " Mine "});
    assert_eq!(client.ask("session/set_title", named).await["title"], "Mine");
    client.prompt(&session, "title Theirs again").await;
    assert_eq!(client.view(&session).title.as_deref(), Some("Mine"));
    let listed = client.ask("session/list", json!({"cwd": CWD})).await;
    assert_eq!(listed["sessions"][0]["title"], "Mine");
    assert_replays(&world, &client, &session, &client.view(&session)).await;
}

pairings!(
    r8_08_a_plan_replaces_the_one_before,
    r8_09_an_answer_has_all_options,
    r8_09_a_wrong_choice_changes_nothing,
    r8_09_lists_of_options_and_commands_are_replaced,
    r8_09_boolean_options_are_for_those_who_take_them,
    r8_10_modes_models_and_options_are_one_state,
    r8_11_session_info_is_patched,
    r8_11_the_title_of_the_user_stays,
);
