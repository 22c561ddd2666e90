//! What observers see: of a session that is live in their server, open in another process, or not open.

use rethread::edge::Version;
use rethread_core::SessionId;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const PERMISSION: &str = "session/request_permission";
const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

async fn sees(observer: &Client, session: &str, text: &str) {
    let is = |update: &Value| update["content"]["text"] == text || update["content"][0]["text"] == text;
    observer.wait_update(0, session, text, is).await;
}

/// The process that has the session open, if one has.
async fn is_owned(world: &World, session: &str) -> bool {
    let row = world.store.find(&SessionId(session.to_owned())).await.expect("the store works");
    row.expect("it is there").owner.is_some()
}

async fn a_live_session_is_followed_by_its_tail(pairing: Pairing) {
    for version in VERSIONS {
        let (world, client, session) = World::begun(pairing).await;
        client.on(PERMISSION, |_| None);
        client.prompt(&session, "say before").await;
        let observer = world.observer(version).await;
        let answer = observer.load(&session).await;
        assert!(answer.is_object());
        assert_eq!(observer.view(&session), { replayed(&world, version, &session).await });
        let mark = observer.mark();
        let prompt = client.begin_prompt(&session, "say live; permit; say after").await;
        let request = client.wait_method(PERMISSION).await;
        let question = observer.wait_method("_rethread/question").await["params"].clone();
        assert_eq!((&question["sessionId"], &question["kind"]), (&json!(session), &json!("permission")));
        assert_eq!(question["params"]["sessionId"], session, "the parameters of version 2");
        assert!(question["params"]["options"][0]["optionId"].is_string(), "{question}");
        let option = request["params"]["options"][0]["optionId"].clone();
        let outcome = json!({"outcome": "selected", "optionId": option});
        client.reply(&request["id"], Ok(json!({"outcome": outcome}))).await;
        let closed = observer.wait_method("_rethread/question_closed").await["params"].clone();
        assert_eq!((&closed["questionId"], &closed["outcome"]), (&question["questionId"], &outcome));
        assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
        sees(&observer, &session, "after").await;
        let view = observer.view_since(mark, &session);
        assert_eq!(view.user(), ["say live; permit; say after"]);
        let requests = observer.server_messages();
        assert!(
            !requests.iter().any(|message| message["id"].is_number() && message["method"].is_string()),
            "an observer is sent no requests"
        );
    }
}

/// What a full client is shown of a session.
async fn replayed(world: &World, version: Version, session: &str) -> rethread_testkit::view::View {
    let client = world.ready_as(version).await;
    client.load(session).await;
    client.view(session)
}

async fn a_session_that_nobody_has_open_is_not_opened(pairing: Pairing) {
    for version in VERSIONS {
        let (world, client, session) = World::begun(pairing).await;
        client.prompt(&session, "say kept").await;
        client.disconnect().await;
        world.agent.wait_gone().await;
        let started = world.agent.received_params("initialize").len();
        let observer = world.observer(version).await;
        // Where a session is opened, and with what, is nothing to an observer.
        let (method, mut params) = observer.load_params(&session);
        params["cwd"] = json!("relative");
        params["mcpServers"] = json!("none");
        observer.ask(method, params).await;
        assert_eq!(observer.view(&session).agent(), ["kept"]);
        assert!(!is_owned(&world, &session).await, "nothing is claimed");
        assert_eq!(world.agent.received_params("initialize").len(), started, "no agent is started");
        // It is opened and closed again, here and elsewhere; the observer sees all of it.
        let client = world.ready().await;
        client.load(&session).await;
        client.prompt(&session, "say again").await;
        sees(&observer, &session, "again").await;
        client.disconnect().await;
        world.agent.wait_gone().await;
        let elsewhere = world.again();
        let client = elsewhere.ready().await;
        client.load(&session).await;
        let prompt = client.begin_prompt(&session, "say elsewhere; wait gate; say end").await;
        sees(&observer, &session, "elsewhere").await;
        world.agent.open_gate("gate");
        client.finish(&session, &prompt).await;
        sees(&observer, &session, "end").await;
        assert_eq!(observer.view(&session).agent(), ["kept", "again", "elsewhere", "end"]);
        client.disconnect().await;
        let client = world.ready().await;
        client.load(&session).await;
        client.prompt(&session, "say back").await;
        sees(&observer, &session, "back").await;
        assert_eq!(observer.view(&session).agent(), ["kept", "again", "elsewhere", "end", "back"]);
    }
}

async fn an_observer_that_comes_in_mid_turn_sees_the_state_and_the_question(pairing: Pairing) {
    for version in VERSIONS {
        let (world, client, session) = World::begun(pairing).await;
        client.on(PERMISSION, |_| None);
        let prompt = client.begin_prompt(&session, "say a; permit").await;
        client.wait_method(PERMISSION).await;
        for server in [&world, &world.again()] {
            let observer = server.observer(version).await;
            observer.load(&session).await;
            let question = observer.wait_method("_rethread/question").await;
            assert_eq!(question["params"]["kind"], "permission");
            let state = |update: &Value| {
                update["state"].is_string() || update["_meta"]["rethread"]["state"].is_string()
            };
            observer.wait_update(0, &session, "the state of the turn", state).await;
            assert_eq!(observer.view(&session).agent(), ["a"]);
        }
        client.cancel(&session).await;
        client.finish(&session, &prompt).await;
    }
}

/// A form is shown to an observer, but not what was filled in.
async fn what_is_filled_in_is_not_shown(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let observer = world.observer(pairing.client).await;
    observer.resume(&session).await;
    let answer = json!({"action": "accept", "content": {"name": "hidden"}});
    client.on("elicitation/create", move |_| Some(Ok(answer.clone())));
    client.prompt(&session, "elicit").await;
    let seen = observer.wait_method("_rethread/question").await;
    assert_eq!(seen["params"]["kind"], "elicitation");
    let closed = observer.wait_method("_rethread/question_closed").await;
    assert_eq!(closed["params"]["outcome"], json!({"action": "accept"}));
}

pairings!(
    a_live_session_is_followed_by_its_tail,
    a_session_that_nobody_has_open_is_not_opened,
    an_observer_that_comes_in_mid_turn_sees_the_state_and_the_question,
    what_is_filled_in_is_not_shown,
);
