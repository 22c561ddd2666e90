//! Several clients on one live session of one server, in every pairing of versions: who sees, who is asked, who waits,
//! and what one of them can do to the others.

mod leaving;
mod observers;
mod questions;
mod services;
mod setup;

use rethread::edge::Version;
use rethread::server::WhenUnattended;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const PERMISSION: &str = "session/request_permission";
const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// A session that two clients follow.
struct Shared {
    world: World,
    one: Client,
    two: Client,
    session: String,
}

impl Shared {
    /// The first client of the pairing's version makes the session, the second one loads it. Sessions are kept.
    async fn of(pairing: Pairing, other: Version) -> Self {
        let world = World::of(pairing).set(|config| config.when_unattended = WhenUnattended::Keep);
        let one = world.ready().await;
        Self::with(world, one, other).await
    }

    async fn with(world: World, one: Client, other: Version) -> Self {
        let session = one.new_session().await;
        let two = world.ready_as(other).await;
        two.load(&session).await;
        for client in [&one, &two] {
            client.on(PERMISSION, |_| None);
        }
        Self { world, one, two, session }
    }

    /// The first client prompts, and both have seen the first words of the turn, `a`.
    async fn begun(&self, script: &str) -> Value {
        let marks = (self.one.mark(), self.two.mark());
        let prompt = self.one.begin_prompt(&self.session, &format!("say a; {script}")).await;
        self.sees(&self.one, marks.0, "a").await;
        self.sees(&self.two, marks.1, "a").await;
        prompt
    }

    async fn sees(&self, client: &Client, mark: usize, text: &str) {
        let is = |update: &Value| update["content"]["text"] == text || update["content"][0]["text"] == text;
        client.wait_update(mark, &self.session, text, is).await;
    }
}

/// What a client is told of the state of a turn that it did not begin, from a mark on.
fn states(client: &Client, mark: usize, session: &str) -> Vec<Value> {
    let state = |update: Value| match client.version {
        Version::V1 => update["_meta"]["rethread"].get("state").cloned(),
        Version::V2 => update.get("state").cloned(),
    };
    let mut states: Vec<_> = client.updates_since(mark, session).into_iter().filter_map(state).collect();
    states.dedup();
    states
}

/// Waits until the client is told that the turn is over.
async fn idle(client: &Client, mark: usize, session: &str) -> Value {
    client
        .wait_update(mark, session, "the end of the turn", |update| {
            update["state"] == "idle" || update["_meta"]["rethread"]["state"] == "idle"
        })
        .await
}

async fn a_prompt_of_one_is_shown_to_the_other(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let (one, two, session) = (&shared.one, &shared.two, &shared.session);
        let (mark, own) = (two.mark(), one.mark());
        assert_eq!(one.prompt(session, "say hello").await.stop, "end_turn");
        let end = idle(two, mark, session).await;
        let stop =
            if other == Version::V1 { &end["_meta"]["rethread"]["stopReason"] } else { &end["stopReason"] };
        assert_eq!(stop, "end_turn");
        let seen = two.view_since(mark, session);
        assert_eq!((seen.user(), seen.agent()), (vec!["say hello".to_owned()], vec!["hello".to_owned()]));
        assert_eq!(states(two, mark, session), ["running", "idle"]);
        let prompt = two.updates_since(mark, session).into_iter().find(|update| {
            update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with("user_message"))
        });
        let sender = &prompt.as_ref().expect("the prompt was shown")["_meta"]["rethread"]["client"];
        assert_eq!(sender["name"], "test", "{prompt:?}");
        assert!(sender["id"].is_string(), "{sender}");
        let own = one.updates_since(own, session);
        assert!(
            own.iter().all(|update| update["_meta"]["rethread"].is_null()),
            "not to the sender: {own:#?}"
        );
        // The other way round.
        let mark = one.mark();
        assert_eq!(two.prompt(session, "say back").await.stop, "end_turn");
        idle(one, mark, session).await;
        assert_eq!(one.view_since(mark, session).user(), ["say back"]);
        let running = shared.world.agent.running();
        assert_eq!(
            running,
            if pairing.client == other { 1 } else { 2 },
            "clients that offer the same share a process"
        );
    }
}

async fn a_late_client_sees_all_of_a_running_turn(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        shared.begun("wait gate; say z").await;
        let late = shared.world.ready_as(other).await;
        late.load(&shared.session).await;
        assert_eq!(late.view(&shared.session).agent(), ["a"]);
        assert_eq!(states(&late, 0, &shared.session), ["running"]);
        let mark = late.mark();
        shared.world.agent.open_gate("gate");
        idle(&late, mark, &shared.session).await;
        assert_eq!(late.view(&shared.session).agent(), ["a", "z"]);
    }
}

async fn a_failed_turn_of_one_reaches_the_other(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let mark = shared.two.mark();
        shared.one.prompt(&shared.session, "say a; fail").await;
        let end = idle(&shared.two, mark, &shared.session).await;
        let told = if other == Version::V1 { end["_meta"]["rethread"].clone() } else { end };
        assert_eq!(told["stopReason"], "error", "{told}");
        if other == Version::V1 {
            let notice =
                |update: &Value| update["sessionUpdate"] == "notice" && update["severity"] == "error";
            shared.two.wait_update(mark, &shared.session, "why", notice).await;
        }
    }
}

async fn an_agent_that_dies_ends_the_turn_for_both(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let mark = shared.two.mark();
        let prompt = shared.one.begin_prompt(&shared.session, "say a; crash").await;
        let turn = shared.one.finish(&shared.session, &prompt).await;
        assert!(turn.stop.starts_with("error"), "{turn:?}");
        idle(&shared.two, mark, &shared.session).await;
        // The next prompt of either brings it back.
        assert_eq!(shared.two.prompt(&shared.session, "say again").await.stop, "end_turn");
    }
}

async fn equal_request_ids_of_two_clients_are_two_requests(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let session = &shared.session;
        let prompt = |text: &str| {
            let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
            json!({"jsonrpc": "2.0", "id": "same", "method": "session/prompt", "params": params})
        };
        let id = json!("same");
        let mark = shared.two.mark();
        shared.one.send(prompt("say first; wait gate")).await;
        shared.sees(&shared.two, mark, "first").await;
        shared.two.send(prompt("say second")).await;
        // Whose request it is decides, not its id: the prompt of the first one goes on.
        shared.two.notify("$/cancel_request", json!({"requestId": "same"})).await;
        shared.world.agent.open_gate("gate");
        assert_eq!(shared.one.finish(session, &id).await.stop, "end_turn");
        // The second one is answered in any case: it may have been taken back in time, or not.
        let _ = shared.two.answer(&id).await;
    }
}

async fn a_cancel_of_one_ends_the_turn_of_the_other(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let prompt = shared.begun("hang").await;
        shared.two.cancel(&shared.session).await;
        assert_eq!(shared.one.finish(&shared.session, &prompt).await.stop, "cancelled");
    }
}

/// Many clients load one session at the same instant: it is opened once.
async fn opening_is_atomic(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say kept").await;
    client.disconnect().await;
    let mut loads = Vec::new();
    for at in 0..8 {
        let next = world.ready_as(VERSIONS[at % 2]).await;
        let session = session.clone();
        loads.push(tokio::spawn(async move {
            next.load(&session).await;
            assert_eq!(next.view(&session).agent(), ["kept"]);
            next
        }));
    }
    let mut clients = Vec::new();
    for load in loads {
        clients.push(load.await.expect("every load is answered"));
    }
    let mark = clients[7].mark();
    assert_eq!(clients[0].prompt(&session, "say on").await.stop, "end_turn");
    clients[7].wait_update(mark, &session, "the turn", |update| update["content"]["text"] == "on").await;
}

/// Two clients load a session that only the agent has: it is taken in once.
async fn a_session_of_the_agent_is_taken_in_once(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say known to the agent").await;
    let native = world.agent.sessions().first().cloned().expect("the agent has it");
    first.disconnect().await;
    let elsewhere = World::with(world.client, world.agent.clone());
    let (one, two) = (elsewhere.ready().await, elsewhere.ready().await);
    tokio::join!(one.load(&native), two.load(&native));
    for client in [&one, &two] {
        assert_eq!(client.view(&native).agent(), ["known to the agent"]);
    }
    assert_eq!(one.prompt(&native, "say and here").await.stop, "end_turn");
    shared_words(&two, &native).await;
}

async fn shared_words(client: &Client, session: &str) {
    client.wait_update(0, session, "the turn", |update| update["content"]["text"] == "and here").await;
}

pairings!(
    a_prompt_of_one_is_shown_to_the_other,
    a_late_client_sees_all_of_a_running_turn,
    a_failed_turn_of_one_reaches_the_other,
    an_agent_that_dies_ends_the_turn_for_both,
    equal_request_ids_of_two_clients_are_two_requests,
    a_cancel_of_one_ends_the_turn_of_the_other,
    opening_is_atomic,
);
pairings!(wire:
    // An agent of the library keeps no sessions of its own.
    a_session_of_the_agent_is_taken_in_once,
);
