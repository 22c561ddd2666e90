//! Rules 5.1 to 5.13: prompts, one at a time and many at once, those that fail and those that are refused.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, Echo, Mind};
use rethread_testkit::client::Client;
use rethread_testkit::view::Item;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// Sends a prompt under an id that is nothing like ours.
async fn prompt_as(client: &Client, id: &str, session: &str, words: &str) -> Value {
    let params = json!({"sessionId": session, "prompt": text(words)});
    client.send(json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})).await;
    json!(id)
}

/// Lets everything that is under way arrive: a request through the connection and one through the session.
async fn settled(client: &Client, session: &str) {
    client.ask("session/list", json!({})).await;
    client.ask("_agent/echo", json!({"sessionId": session})).await;
}

fn is_answered(client: &Client, id: &Value) -> bool {
    client.heard().iter().any(|message| message.get("method").is_none() && message["id"] == *id)
}

/// The prompts that reached the agent, as text.
fn prompted(world: &World) -> Vec<String> {
    let told = world.agent.told("session/prompt");
    told.iter().map(|params| params["prompt"][0]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

fn echoes(client: &Client, session: &str) -> Vec<Value> {
    let updates = client.updates(session).into_iter();
    updates
        .filter(|update| update["sessionUpdate"].as_str().unwrap_or("").starts_with("user_message"))
        .collect()
}

fn states(client: &Client, mark: usize, session: &str) -> Vec<String> {
    let updates = client.updates_since(mark, session).into_iter();
    updates.filter_map(|update| update["state"].as_str().map(str::to_owned)).collect()
}

/// Asserts that a turn failed, in the words of the client's version, and gives the error.
async fn failed(client: &Client, session: &str, prompt: &Value) -> Value {
    match client.version {
        Version::V1 => client.answer(prompt).await.expect_err("the turn failed"),
        Version::V2 => {
            assert_eq!(client.finish(session, prompt).await.stop, "error");
            let updates = client.updates(session);
            let idle = updates.iter().rfind(|update| update["state"] == "idle");
            idle.expect("the end was told")["error"].clone()
        }
    }
}

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
    let heard: Vec<_> = client.heard().iter().filter_map(place).collect();
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
    let world = World::having(pairing, |config| AgentConfig::bare(config.speaks));
    let client = world.ready().await;
    let session = client.new_session().await;
    let blocks = json!([
        {"type": "text", "text": "say hello", "annotations": {"audience": ["user"]}},
        {"type": "resource_link", "name": "a.txt", "uri": "file:///work/a.txt", "_meta": {"k": 1}},
    ]);
    let prompt = client.begin("session/prompt", json!({"sessionId": session, "prompt": blocks})).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(world.agent.told("session/prompt")[0]["prompt"], blocks, "as it was written");
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
    assert_eq!(world.agent.told("session/prompt")[0]["prompt"], blocks);
    let other = world.ready().await;
    client.hang_up().await;
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
    client.hang_up().await;
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
    if pairing.mind == Mind::Own {
        natures.push(Echo::BeforeAnswer);
    }
    for echo in natures {
        let world = World::having(pairing, |config| AgentConfig { echo, ..config });
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
        client.hang_up().await;
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

async fn r5_07_a_refused_prompt_is_not_part_of_the_conversation(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say hello").await;
    world.agent.forget();
    let prompt = client.begin_prompt(&session, "say lost").await;
    let mark = client.mark();
    match (pairing.client, pairing.agent) {
        // A version 1 agent takes a prompt by beginning with it: its error is the end of a turn.
        (Version::V2, Version::V1) => {
            assert_eq!(failed(&client, &session, &prompt).await["code"], -32002);
        }
        (_, Version::V2) => {
            let error = client.answer(&prompt).await.expect_err("it was not taken");
            assert_eq!(error["code"], -32002);
            settled(&client, &session).await;
            assert!(states(&client, mark, &session).is_empty(), "and no turn began");
            client.load(&session).await;
            let users: Vec<_> = echoes(&client, &session);
            assert!(users.iter().all(|echo| !echo.to_string().contains("lost")), "{users:?}");
        }
        (Version::V1, Version::V1) => {
            assert_eq!(client.answer(&prompt).await.expect_err("it failed")["code"], -32002);
        }
    }
}

async fn r5_07_what_fails_after_that_ends_the_turn(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say a; fail").await;
    let error = failed(&client, &session, &prompt).await;
    assert_eq!(error["code"], -32603);
    assert_eq!(error["message"], "the script failed");
    assert_eq!(error["data"], json!({"why": "it was told to"}), "the agent's own word on it");
    assert_eq!(client.view(&session).user(), ["say a; fail"]);
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
}

async fn r5_07_a_crash_ends_the_turn_with_its_reason(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say a; toolopen call_1; crash").await;
    let error = failed(&client, &session, &prompt).await;
    assert_eq!(error["code"], -32603);
    assert_eq!(error["message"], "the agent closed the connection");
    let view = client.view(&session);
    assert_eq!(view.agent(), ["a"]);
    let settled = |item: &Item| matches!(item, Item::Tool { status, .. } if status == "failed");
    assert!(view.items.iter().any(settled), "the open tool call is settled: {view}");
    if pairing.client == Version::V2 {
        let updates = client.updates(&session);
        let call = updates.iter().position(|update| update["status"] == "failed");
        let idle = updates.iter().position(|update| update["state"] == "idle");
        assert!(call < idle, "before the end of the turn");
    }
    // The next prompt starts the agent again; what may have run is not sent twice.
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
    assert_eq!(prompted(&world), ["say a; toolopen call_1; crash", "say b"]);
    assert_eq!(client.view(&session).agent(), ["a", "b"]);
    let starts: Vec<_> = world.agent.received().iter().map(|received| received.start).collect();
    assert!(starts.first() < starts.last());
    let restored = world.agent.told("session/resume");
    assert_eq!(restored.len(), 1, "the agent restores its own session");
    assert_eq!(restored[0]["sessionId"], world.agent.sessions()[0]);
    let live = client.view(&session);
    client.hang_up().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session), live);
}

/// A prompt that the agent was never sent is not lost with it: the next agent gets it.
async fn r5_07_a_crash_leaves_the_prompts_that_wait(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "wait go; crash").await;
    world.agent.wait_told("session/prompt", 1).await;
    let second = client.begin_prompt(&session, "crash").await;
    let third = client.begin_prompt(&session, "say three").await;
    settled(&client, &session).await;
    world.agent.open_gate("go");
    assert_eq!(failed(&client, &session, &first).await["code"], -32603);
    assert_eq!(failed(&client, &session, &second).await["code"], -32603);
    assert_eq!(client.finish(&session, &third).await.stop, "end_turn");
    assert_eq!(prompted(&world), ["wait go; crash", "crash", "say three"], "each is sent once");
    assert_eq!(client.view(&session).agent(), ["three"]);
    let live = client.view(&session);
    client.hang_up().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session), live);
}

async fn r5_07_a_prompt_that_was_sent_is_not_sent_again(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let (_, sent) = waiting_prompt(pairing, &world, &client, &session).await;
    let before = prompted(&world);
    // Its other session takes the agent along.
    world.agent.configure(|config| config.echo = Echo::AfterAnswer);
    let other = client.new_session().await;
    client.prompt(&other, "crash").await;
    assert_eq!(client.answer(&sent).await.expect_err("nobody knows whether it ran")["code"], -32603);
    assert_eq!(client.prompt(&session, "say next").await.stop, "end_turn");
    assert_eq!(prompted(&world), [before, vec!["crash".to_owned(), "say next".to_owned()]].concat());
    assert_eq!(client.view(&session).agent(), ["next"]);
}

async fn r5_07_a_crash_answers_the_prompts_that_are_in(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "wait go; crash").await;
    world.agent.wait_told("session/prompt", 1).await;
    let second = client.begin_prompt(&session, "say two").await;
    settled(&client, &session).await;
    world.agent.open_gate("go");
    failed(&client, &session, &first).await;
    let outcome = client.answer(&second).await;
    match pairing.client {
        Version::V1 => assert_eq!(outcome.expect_err("its turn failed")["code"], -32603),
        // It was inserted before the crash.
        Version::V2 if pairing.mind == Mind::Own => assert!(outcome.is_ok(), "{outcome:?}"),
        // It waited at the agent.
        Version::V2 => assert_eq!(outcome.expect_err("nobody knows whether it ran")["code"], -32603),
    }
    assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
    assert_eq!(prompted(&world), ["wait go; crash", "say two", "say three"]);
}

/// With no agent to be had, nobody waits for ever.
async fn r5_07_a_restart_that_fails_answers_the_prompts_that_wait(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "wait go; crash").await;
    world.agent.wait_told("session/prompt", 1).await;
    let waiting =
        [client.begin_prompt(&session, "say two").await, client.begin_prompt(&session, "say three").await];
    settled(&client, &session).await;
    world.agent.break_starts(1);
    world.agent.open_gate("go");
    failed(&client, &session, &first).await;
    for prompt in &waiting {
        let error = client.answer(prompt).await.expect_err("no agent took it");
        assert_eq!(error["code"], -32603);
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains("did not start"), "{error}");
    }
    assert_eq!(client.prompt(&session, "say four").await.stop, "end_turn");
    assert_eq!(prompted(&world), ["wait go; crash", "say four"]);
}

async fn r5_07_an_agent_that_does_not_start_refuses_the_prompt(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let crashed = client.begin_prompt(&session, "crash").await;
    failed(&client, &session, &crashed).await;
    world.agent.break_starts(1);
    let prompt = client.begin_prompt(&session, "say lost").await;
    let error = client.answer(&prompt).await.expect_err("nobody took it");
    assert_eq!(error["code"], -32603);
    assert!(error["message"].as_str().is_some_and(|message| message.contains("did not start")), "{error}");
    assert_eq!(client.prompt(&session, "say here").await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["here"]);
    assert_eq!(prompted(&world), ["crash", "say here"]);
}

async fn r5_08_a_rejected_prompt_does_not_end_the_work(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say a; wait go; say b").await;
    client.wait_update(0, &session, "the first words", |update| update["content"]["text"] == "a").await;
    let mark = client.mark();
    for bad in [json!([]), json!([{"type": "_future"}])] {
        let error = client.refused("session/prompt", json!({"sessionId": session, "prompt": bad})).await;
        assert_eq!(error["code"], -32602);
    }
    settled(&client, &session).await;
    assert!(states(&client, mark, &session).is_empty());
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["a", "b"]);
    assert_eq!(prompted(&world).len(), 1);
}

async fn r5_09_prompts_while_busy_run_in_their_order(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let words = ["wait go; say one", "say two", "say three"];
    let mut prompts = Vec::new();
    for word in words {
        prompts.push(client.begin_prompt(&session, word).await);
    }
    match pairing.agent {
        // It takes one at a time: the others are held, and are not part of the conversation yet.
        Version::V1 => {
            world.agent.wait_told("session/prompt", 1).await;
            settled(&client, &session).await;
            assert_eq!(prompted(&world).len(), 1);
            for held in &prompts[1..] {
                assert!(!is_answered(&client, held), "it is not inserted");
            }
            let told = echoes(&client, &session);
            assert!(told.iter().all(|echo| !echo.to_string().contains("say two")), "{told:?}");
        }
        // It gets them at once.
        Version::V2 => {
            world.agent.wait_told("session/prompt", 3).await;
            // An agent of the library lets them wait.
            let taken = if pairing.mind == Mind::Own { &prompts[..] } else { &prompts[..1] };
            if pairing.client == Version::V2 {
                for prompt in taken {
                    client.wait("its answer", |message| message["id"] == *prompt).await;
                }
            }
        }
    }
    world.agent.open_gate("go");
    for prompt in &prompts {
        assert_eq!(client.finish(&session, prompt).await.stop, "end_turn");
    }
    assert_eq!(prompted(&world), words);
    assert_eq!(client.view(&session).agent(), ["one", "two", "three"]);
    assert_eq!(client.view(&session).user(), words);
    client.hang_up().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session).user(), words);
    assert_eq!(next.view(&session).agent(), ["one", "two", "three"]);
}

/// A version 1 agent does, and so does an agent of the library, which is told of the others and lets them wait.
fn takes_one_at_a_time(pairing: Pairing) -> bool {
    pairing.agent == Version::V1 || pairing.mind == Mind::Library
}

/// An agent that lets prompts wait.
fn holding(pairing: Pairing) -> World {
    match pairing.mind {
        Mind::Own => World::having(pairing, |config| AgentConfig { echo: Echo::AtGate, ..config }),
        Mind::Library => World::of(pairing),
    }
}

/// A prompt that waits: behind another one for an agent that takes one at a time, or unacknowledged.
async fn waiting_prompt(
    pairing: Pairing,
    world: &World,
    client: &Client,
    session: &str,
) -> (Option<Value>, Value) {
    if takes_one_at_a_time(pairing) {
        let first = client.begin_prompt(session, "wait go; say one").await;
        world.agent.wait_told("session/prompt", 1).await;
        let held = prompt_as(client, "mine", session, "say two").await;
        if pairing.agent == Version::V2 {
            world.agent.wait_told("session/prompt", 2).await;
        }
        return (Some(first), held);
    }
    let only = prompt_as(client, "mine", session, "say two").await;
    world.agent.wait_told("session/prompt", 1).await;
    (None, only)
}

/// Asserts that a prompt that waited was withdrawn, in the words of the client's version.
async fn withdrawn(client: &Client, prompt: &Value) {
    match (client.version, client.answer(prompt).await) {
        (Version::V1, answer) => assert_eq!(answer, Ok(json!({"stopReason": "cancelled"}))),
        (Version::V2, answer) => assert_eq!(answer.expect_err("it was not inserted")["code"], -32800),
    }
}

async fn r5_10_a_cancel_withdraws_a_prompt_that_waits(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let (first, held) = waiting_prompt(pairing, &world, &client, &session).await;
    client.cancel(&session).await;
    withdrawn(&client, &held).await;
    if let Some(first) = first {
        assert_eq!(client.finish(&session, &first).await.stop, "cancelled");
        let heard = if pairing.agent == Version::V1 { 1 } else { 2 };
        assert_eq!(prompted(&world).len(), heard, "an agent of version 1 never heard of the other one");
    }
    world.agent.open_gate("acknowledge");
    assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
    client.hang_up().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert!(!next.view(&session).user().contains(&"say two".to_owned()), "it was never said");
    assert_eq!(next.view(&session).agent(), ["three"]);
}

async fn r5_10_a_prompt_that_waits_can_be_taken_back(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let (first, held) = waiting_prompt(pairing, &world, &client, &session).await;
    client.notify("$/cancel_request", json!({"requestId": held})).await;
    withdrawn(&client, &held).await;
    world.agent.open_gate("go");
    world.agent.open_gate("acknowledge");
    if let Some(first) = first {
        assert_eq!(client.finish(&session, &first).await.stop, "end_turn", "the other one goes on");
    }
    if pairing.agent == Version::V1 {
        assert_eq!(prompted(&world).len(), 1);
        assert!(world.agent.told("$/cancel_request").is_empty());
    } else {
        let prompt = world.agent.received().into_iter().rfind(|it| it.method == "session/prompt");
        let told = world.agent.wait_told("$/cancel_request", 1).await;
        assert_eq!(Some(&told["requestId"]), prompt.and_then(|it| it.id).as_ref(), "by our own number");
    }
    assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
    assert!(!client.view_since(0, &session).agent().contains(&"two".to_owned()));
}

async fn r5_10_a_prompt_that_runs_can_be_taken_back_in_version_1(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let running = prompt_as(&client, "mine", &session, "say a; hang").await;
    client.wait_update(0, &session, "the first words", |update| update["content"]["text"] == "a").await;
    client.notify("$/cancel_request", json!({"requestId": running})).await;
    assert_eq!(client.answer(&running).await, Ok(json!({"stopReason": "cancelled"})));
    let told = world.agent.received();
    assert!(told.iter().all(|received| !received.params.to_string().contains("mine")), "never that id");
    match pairing.agent {
        Version::V1 => {
            let prompt = told.iter().find(|received| received.method == "session/prompt");
            let number = prompt.and_then(|prompt| prompt.id.clone());
            assert_eq!(world.agent.told("$/cancel_request"), [json!({"requestId": number})]);
        }
        // Its request was answered when the prompt was taken: what is left to cancel is the work.
        Version::V2 => assert_eq!(world.agent.told("session/cancel").len(), 1),
    }
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
}

async fn r5_10_a_prompt_that_is_in_cannot_be_taken_back_in_version_2(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = prompt_as(&client, "mine", &session, "say a; wait go; say b").await;
    let answer = client.wait("its answer", |message| message["id"] == "mine").await;
    assert!(answer["result"]["messageId"].is_string());
    client.notify("$/cancel_request", json!({"requestId": prompt})).await;
    settled(&client, &session).await;
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    let answers = client.heard().into_iter().filter(|message| message["id"] == "mine").count();
    assert_eq!(answers, 1, "it is not answered twice");
    assert!(world.agent.told("$/cancel_request").is_empty() && world.agent.told("session/cancel").is_empty());
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
    let world = World::having(pairing, |config| config.without(&["image", "audio", "embeddedContext"]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let blocks = [
        json!({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
        json!({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}),
        json!({"type": "resource", "resource": {"uri": "file:///a", "text": "a"}}),
        json!({"type": "future_block", "x": 1}),
        json!({"type": "_own", "x": 1}),
        json!({"text": "no type"}),
        json!("no object"),
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

pairings!(
    r5_02_text_and_links_are_always_taken,
    r5_02_other_blocks_are_taken_where_the_agent_does,
    r5_03_a_refusal_is_told_and_the_prompt_does_not_come_again,
    r5_04_a_message_without_an_id_is_given_one,
    r5_07_a_refused_prompt_is_not_part_of_the_conversation,
    r5_07_what_fails_after_that_ends_the_turn,
    r5_07_a_crash_ends_the_turn_with_its_reason,
    r5_07_an_agent_that_does_not_start_refuses_the_prompt,
    r5_08_a_rejected_prompt_does_not_end_the_work,
    r5_09_prompts_while_busy_run_in_their_order,
    r5_10_a_cancel_withdraws_a_prompt_that_waits,
    r5_10_a_prompt_that_waits_can_be_taken_back,
    r5_11_an_empty_prompt_is_refused,
    r5_12_a_block_that_the_agent_does_not_take_is_refused,
    r5_13_a_session_must_be_opened_on_this_connection,
);

pairings!(client V1:
    r5_01_the_answer_comes_at_the_end_with_a_stop_reason,
    r5_01_every_answer_stands_at_the_end_of_its_own_turn,
    r5_06_version_1_does_not_hear_its_own_prompt,
    r5_10_a_prompt_that_runs_can_be_taken_back_in_version_1,
);

pairings!(client V2:
    r5_05_the_answer_says_that_the_prompt_is_in,
    r5_06_the_prompt_is_echoed_once_under_its_id,
    r5_10_a_prompt_that_is_in_cannot_be_taken_back_in_version_2,
);

// It takes one at a time: the others wait here.
pairings!(agent V1:
    r5_07_a_crash_leaves_the_prompts_that_wait,
    r5_07_a_restart_that_fails_answers_the_prompts_that_wait,
);

pairings!(agent V2:
    r5_07_a_crash_answers_the_prompts_that_are_in,
);

pairings!(agent V2:
    r5_07_a_prompt_that_was_sent_is_not_sent_again,
);
