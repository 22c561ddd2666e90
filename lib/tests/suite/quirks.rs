//! What a client sees of agents that do otherwise than the protocol has it: nothing of that. Each quirk is one that
//! a real agent has (`Quirk` says which); those that only a process can have are in the tests of the program.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rethread::edge::Version;
use rethread::server::{Config, NativeSessions};
use rethread_testkit::agent::quirk::{GREETING, INTERRUPTION, LONG_LINE, Quirk, SHORT_LIST, UNKNOWN_REQUEST};
use rethread_testkit::agent::{AgentConfig, Offer, Restores, ScriptedAgent};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::view::View;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;

/// An agent with this quirk that restores sessions by replaying them, where its version lets it choose.
fn loading(quirk: Quirk) -> impl FnOnce(AgentConfig) -> AgentConfig {
    move |config| config.without(&["resume"]).with(&[quirk])
}

/// A conversation that is over, and what its client saw of it.
async fn past(world: &World, prompts: &[&str]) -> (String, View) {
    let client = world.ready().await;
    let session = client.new_session().await;
    for prompt in prompts {
        client.prompt(&session, prompt).await;
    }
    let view = client.view(&session);
    client.disconnect().await;
    (session, view)
}

/// The same agent behind a store that has never heard of it, and its own id for its last session.
fn elsewhere(world: &World) -> (World, String) {
    let native = world.agent.sessions().last().cloned().expect("the agent has a session");
    (World::with(world.client, world.agent.clone()), native)
}

/// Writes the log events of this thread, and so of this test, to a file until the guard is dropped.
fn log_to_file() -> (PathBuf, (tempfile::TempDir, DefaultGuard)) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("log");
    let file = File::create(&path).expect("the folder is writable");
    let subscriber = tracing_subscriber::fmt().with_writer(Arc::new(file)).finish();
    (path, (folder, tracing::subscriber::set_default(subscriber)))
}

fn said(view: &View) -> (Vec<String>, Vec<String>) {
    (view.user(), view.agent())
}

/// Says whether the agent was given the kept transcript with its last prompt.
fn was_given_the_transcript(world: &World) -> bool {
    let prompts = world.agent.received_params("session/prompt");
    prompts.last().is_some_and(|params| params["prompt"].to_string().contains("# The conversation so far"))
}

async fn a_replay_without_ids_or_with_others_changes_nothing(pairing: Pairing) {
    for quirk in [Quirk::NoIdsOnReplay, Quirk::OtherIdsOnReplay] {
        let world = World::with_config(pairing, loading(quirk));
        let prompts = ["say one; tool call_1; say two", "think hm; say three"];
        let (session, before) = past(&world, &prompts).await;
        // Where the replay is all there is, each message is one, and is the same one the next time.
        let (other, native) = elsewhere(&world);
        let client = other.ready().await;
        client.load(&native).await;
        let adopted = client.view(&native);
        assert_eq!(said(&adopted), said(&before), "{quirk:?}");
        client.disconnect().await;
        let client = other.again().ready().await;
        client.load(&native).await;
        assert_eq!(client.view(&native), adopted, "{quirk:?}");
        client.disconnect().await;

        let client = world.again().ready().await;
        client.load(&session).await;
        assert_eq!(client.view(&session), before, "{quirk:?}");
        client.prompt(&session, "say four").await;
        assert!(!was_given_the_transcript(&world), "{quirk:?}: the agent has it all");
        assert_eq!(client.view(&session).agent(), ["one", "two", "three", "four"], "{quirk:?}");
    }
}

/// `rules_3_load_resume.rs` has it for sessions that we know.
async fn a_session_that_is_replayed_late_is_taken_in_whole(pairing: Pairing) {
    let world = World::with_config(pairing, loading(Quirk::ReplaysLate));
    let (_, before) = past(&world, &["say one", "say two"]).await;
    let (other, native) = elsewhere(&world);
    let client = other.ready().await;
    client.load(&native).await;
    assert_eq!(said(&client.view(&native)), said(&before));
    client.prompt(&native, "say three").await;
    assert_eq!(client.view(&native).agent(), ["one", "two", "three"]);
    assert_eq!(client.view(&native).user().len(), 3);
}

async fn a_tool_call_that_was_never_announced_is_shown(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "unannounced call_7; say done").await;
    let live = client.view(&session);
    let shown = live.to_string();
    assert!(shown.contains("(completed)") && shown.contains("edited"), "{shown}");
    let told: Vec<_> =
        client.updates(&session).into_iter().filter(|update| update["toolCallId"] == "call_7").collect();
    let announced = match pairing.client {
        Version::V1 => "tool_call",
        Version::V2 => "tool_call_update",
    };
    assert_eq!(told[0]["sessionUpdate"], announced);
    client.disconnect().await;
    let client = world.again().ready().await;
    client.load(&session).await;
    assert_eq!(client.view(&session), live);
}

async fn a_line_of_570_kilobytes_comes_through(pairing: Pairing) {
    let world =
        World::with_config(pairing, |config| config.offering(&[Offer::Modes]).with(&[Quirk::LongAnswers]));
    let client = world.ready().await;
    let made = client.ask("session/new", json!({"cwd": "/work", "mcpServers": []})).await;
    let session = made["sessionId"].as_str().expect("an id").to_owned();
    let described = match pairing.client {
        Version::V1 => &made["modes"]["availableModes"][0],
        Version::V2 => &made["configOptions"][0]["options"][0],
    };
    assert_eq!(described["description"].as_str().map(str::len), Some(LONG_LINE));
    client.prompt(&session, "say before; long; say after").await;
    let live = client.view(&session);
    assert_eq!(live.agent().concat().len(), LONG_LINE + "beforeafter".len());
    client.disconnect().await;
    let client = world.again().ready().await;
    client.load(&session).await;
    assert_eq!(said(&client.view(&session)), said(&live));
}

async fn what_is_not_json_is_noted_and_not_shown(pairing: Pairing) {
    let (log, _guard) = log_to_file();
    let world = World::with_config(pairing, |config| config.with(&[Quirk::Greets]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let turn = client.prompt(&session, "print hello; say one; print {\"jsonrpc\": \"2.0\",; say two").await;
    assert_eq!(turn.stop, "end_turn");
    // It dies in the middle of a message.
    let request = client.begin_prompt(&session, "say three; torn").await;
    let stop = client.finish(&session, &request).await.stop;
    assert_eq!(stop, if pairing.client == Version::V1 { "error -32603" } else { "error" });
    assert_eq!(client.prompt(&session, "say four").await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["one", "two", "three", "four"]);
    let noted = std::fs::read_to_string(log).expect("there is a log");
    let lines = noted
        .lines()
        .filter(|line| line.ends_with("skipped a line of the agent that is not a message"))
        .count();
    let least = 2 * GREETING.len() + ["hello", "half JSON", "torn"].len();
    assert!(lines >= least, "{lines} of {least}: {noted}");
}

async fn no_result_is_an_answer(pairing: Pairing) {
    for quirk in [Quirk::AnswersNull, Quirk::AnswersNothing] {
        let world = World::with_config(pairing, |config| loading(quirk)(config.offering(&[Offer::Modes])));
        let (session, before) = past(&world, &["say one"]).await;
        let (other, native) = elsewhere(&world);
        let client = other.ready().await;
        client.load(&native).await;
        assert_eq!(client.view(&native).agent(), ["one"], "{quirk:?}");
        client.disconnect().await;

        let client = world.again().ready().await;
        client.load(&session).await;
        client.prompt(&session, "say two").await;
        assert!(!was_given_the_transcript(&world), "{quirk:?}: the load was a success");
        assert_eq!(world.agent.received_params("session/new").len(), 1, "{quirk:?}");
        assert_eq!(before.options, client.view(&session).options, "{quirk:?}: nothing said, nothing changed");
        client.close(&session).await.expect("it can be closed");
    }
}

async fn an_internal_error_for_an_unknown_session_is_no_dead_end(pairing: Pairing) {
    for restore in [Restores::Nothing, Restores::All] {
        let world = World::with_config(pairing, |config| config.with(&[Quirk::InternalForUnknown]));
        let (session, before) = past(&world, &["say one"]).await;
        // Either it says so of all that an earlier process had, or it has lost this one.
        world.agent.configure(|config| config.restores = restore);
        if restore == Restores::All {
            world.agent.forget();
        }
        let client = world.again().ready().await;
        client.load(&session).await;
        assert_eq!(client.view(&session), before);
        assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
        assert!(was_given_the_transcript(&world));
        assert_eq!(client.view(&session).agent(), ["one", "two"]);
        let error = client.load_refused("nobody-knows-this").await;
        assert_eq!(error["code"], -32002, "{error}");
        assert_eq!(error["data"]["sessionId"], "nobody-knows-this");
    }
}

/// A load that succeeds with nothing is a fresh session, whatever it is called.
async fn a_load_with_nothing_in_it_goes_on_from_the_transcript(pairing: Pairing) {
    let (log, _guard) = log_to_file();
    let world = World::with_config(pairing, loading(Quirk::ReplaysNothing));
    let (session, before) = past(&world, &["say one"]).await;
    let client = world.again().ready().await;
    client.load(&session).await;
    assert_eq!(client.view(&session), before, "no history is lost");
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["one", "two"]);
    assert!(was_given_the_transcript(&world));
    let noticed = client.updates(&session).iter().any(|update| update.to_string().contains("transcript"));
    assert!(noticed, "never a silent fresh session");
    let noted = std::fs::read_to_string(log).expect("there is a log");
    assert!(noted.contains(&format!("Load failed: the agent replayed nothing session={session}")), "{noted}");
}

async fn a_session_with_nothing_in_it_is_not_taken_in(pairing: Pairing) {
    let world = World::with_config(pairing, loading(Quirk::ReplaysNothing));
    past(&world, &["say one"]).await;
    let (other, native) = elsewhere(&world);
    let other = other.set(|config| config.native_sessions = NativeSessions::Hidden);
    let error = other.ready().await.load_refused(&native).await;
    assert_eq!(error["code"], -32002, "{error}");
}

async fn nothing_is_asked_before_initialize_is_answered(pairing: Pairing) {
    let quirky =
        |config: AgentConfig| AgentConfig { key: Some("strict"), ..config }.with(&[Quirk::InitializeFirst]);
    let world = World::with_config(pairing, quirky);
    let (session, before) = past(&world, &["say one"]).await;
    // One that is offered another version first is started once for each.
    let starts = world.agent.starts();
    // What it says of itself is known now: the client is answered before the agent has been.
    let client = world.again().ready().await;
    let made = client.begin("session/new", json!({"cwd": "/work", "mcpServers": []})).await;
    let echoed = client.begin("_agent/echo", json!({})).await;
    let listed = client.begin("session/list", json!({})).await;
    client.load(&session).await;
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
    for request in [made, echoed, listed] {
        client.answer(&request).await.expect("it is done when the agent is ready");
    }
    assert_eq!(before.agent(), ["one"]);
    assert_eq!(client.view(&session).agent(), ["one", "two"]);
    assert_eq!(world.agent.starts(), 2 * starts, "it did not die of it");
}

async fn a_second_prompt_never_disturbs_the_first(pairing: Pairing) {
    for quirk in [Quirk::SecondCancelsFirst, Quirk::SecondFailsFirst] {
        let world = World::with_config(pairing, |config| config.with(&[quirk]));
        let client = world.ready().await;
        let session = client.new_session().await;
        let first = client.begin_prompt(&session, "say one; wait gate; say two").await;
        client.wait_update(0, &session, "one", |update| update["content"]["text"] == "one").await;
        let others = [
            client.begin_prompt(&session, "say three").await,
            client.begin_prompt(&session, "say four").await,
        ];
        world.agent.open_gate("gate");
        for request in [&first, &others[0], &others[1]] {
            assert_eq!(client.finish(&session, request).await.stop, "end_turn", "{quirk:?}");
        }
        // One that comes right behind a cancel waits until that is over.
        let hanging = client.begin_prompt(&session, "say five; hang").await;
        client.wait_update(0, &session, "five", |update| update["content"]["text"] == "five").await;
        client.cancel(&session).await;
        let next = client.begin_prompt(&session, "say six").await;
        assert_eq!(client.finish(&session, &hanging).await.stop, "cancelled", "{quirk:?}");
        assert_eq!(client.finish(&session, &next).await.stop, "end_turn", "{quirk:?}");
        assert_eq!(
            client.view(&session).agent(),
            ["one", "two", "three", "four", "five", "six"],
            "{quirk:?}"
        );
    }
}

async fn an_unlisted_request_never_stops_an_agent(pairing: Pairing) {
    let world = World::with_config(pairing, loading(Quirk::AsksTheUnknown));
    let (session, _) =
        past(&world, &[&format!("ext {UNKNOWN_REQUEST}; apart {UNKNOWN_REQUEST}; say one")]).await;
    let client = world.again().ready().await;
    client.load(&session).await;
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
    // Between turns, and about a session that nobody has open.
    for (id, of) in [(7001, world.agent.sessions()[0].as_str()), (7002, "nobody-has-this")] {
        let request =
            json!({"jsonrpc": "2.0", "id": id, "method": UNKNOWN_REQUEST, "params": {"sessionId": of}});
        world.agent.send(request).await;
        wait_answered(&world, id).await;
    }
    client.disconnect().await;
    let (other, native) = elsewhere(&world);
    let client = other.ready().await;
    client.load(&native).await;
    assert!(!client.view(&native).items.is_empty(), "it is taken in");

    let answers = world.agent.received_params("answer");
    assert!(answers.len() >= 3 + 2 * 3 + 2 + 2, "{answers:?}");
    assert!(answers.iter().all(|answer| answer["error"]["code"] == -32601), "{answers:?}");
}

async fn wait_answered(world: &World, id: u64) {
    for _ in 0..500 {
        if world.agent.received_params("answer").iter().any(|answer| answer["id"] == id) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("request {id} was not answered");
}

async fn a_list_that_stops_short_hides_nothing_that_can_be_opened(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.with(&[Quirk::ShortList]));
    let client = world.ready().await;
    let mut sessions = Vec::new();
    for _ in 0..SHORT_LIST + 20 {
        sessions.push(client.new_session().await);
    }
    let beyond = world.agent.sessions().last().cloned().expect("there are many");
    let number: usize = beyond.trim_start_matches("native-").parse().expect("they are numbered");
    client.prompt(&sessions[number - 1], "say beyond the list").await;
    client.disconnect().await;

    let (other, _) = elsewhere(&world);
    let client = other.ready().await;
    let listed = all_listed(&client, SHORT_LIST).await;
    assert!(!listed.contains(&beyond), "the agent did not tell of it");
    client.load(&beyond).await;
    assert_eq!(client.view(&beyond).agent(), ["beyond the list"]);
    assert!(all_listed(&client, SHORT_LIST + 1).await.contains(&beyond), "it is known from now on");
}

/// All that is listed, as soon as it is so many: the agent's own list is learnt behind the scenes.
async fn all_listed(client: &Client, wanted: usize) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for _ in 0..200 {
        ids.clear();
        let mut params = json!({});
        loop {
            let page = client.ask("session/list", params).await;
            let infos = page["sessions"].as_array().cloned().unwrap_or_default();
            ids.extend(infos.iter().filter_map(|info| info["sessionId"].as_str().map(str::to_owned)));
            match page.get("nextCursor") {
                Some(Value::String(cursor)) => params = json!({"cursor": cursor}),
                Some(_) | None => break,
            }
        }
        if ids.len() == wanted {
            return ids;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} sessions are listed, not {wanted}", ids.len());
}

async fn what_an_agent_notes_in_the_users_name_is_not_the_users(pairing: Pairing) {
    let world = World::with_config(pairing, loading(Quirk::NotesInterruption));
    let client = world.ready().await;
    let session = client.new_session().await;
    let request = client.begin_prompt(&session, "say one; hang").await;
    client.wait_update(0, &session, "one", |update| update["content"]["text"] == "one").await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &request).await.stop, "cancelled");
    client.prompt(&session, "say two").await;
    client.disconnect().await;
    // Where nobody else kept the session, what the agent has of it is the truth.
    let (other, native) = elsewhere(&world);
    let adopting = other.ready().await;
    adopting.load(&native).await;
    assert_eq!(adopting.view(&native).user(), ["say one; hang", INTERRUPTION, "say two"]);
    adopting.disconnect().await;

    let client = world.again().ready().await;
    client.load(&session).await;
    client.prompt(&session, "say three").await;
    assert_eq!(client.view(&session).user(), ["say one; hang", "say two", "say three"]);
    assert!(!was_given_the_transcript(&world));
}

async fn answers_with_text_ids_are_answers(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.with(&[Quirk::AnswersWithTextIds]));
    let (session, before) = past(&world, &["say one; permit; say two"]).await;
    let client = world.again().ready().await;
    client.load(&session).await;
    assert_eq!(client.view(&session), before);
    assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
}

async fn a_second_session_with_the_same_id_is_refused(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.with(&[Quirk::OneSessionId]));
    let client = world.ready().await;
    let first = client.new_session().await;
    let error = client.refused("session/new", json!({"cwd": CWD, "mcpServers": []})).await;
    let message = error["message"].as_str().unwrap_or_default();
    let native = world.agent.sessions()[0].clone();
    assert!(message.contains(&native) && message.contains("twice"), "{error}");
    assert!(error["data"]["hint"].is_string(), "{error}");
    assert_eq!(client.prompt(&first, "say mine").await.stop, "end_turn");
    assert_eq!(client.view(&first).agent(), ["mine"]);
    // Once the first is closed its id is free.
    client.ask("session/close", json!({"sessionId": first})).await;
    let second = client.new_session().await;
    assert_eq!(client.prompt(&second, "say yours").await.stop, "end_turn");
    assert_eq!(client.view(&second).agent(), ["yours"]);
}

/// An agent that keeps no sessions and counts them anew with each start gives a new one the id that an old one had. Both go on,
/// whichever of them it is asked for first.
async fn an_agent_that_counts_anew_keeps_sessions_apart(pairing: Pairing) {
    for (first, rounds) in [(Asked::New, 1), (Asked::Old, 1), (Asked::Both, 12)] {
        for _ in 0..rounds {
            let world = World::of(pairing);
            let (old, _) = past(&world, &["say old"]).await;
            let fresh = ScriptedAgent::of(pairing);
            let next = World::over(world.client, fresh, world.store.clone(), Config::default());
            let client = next.ready().await;
            let new = opened_with(&client, &old, first).await;
            assert_eq!(next.agent.sessions()[0], world.agent.sessions()[0], "it counts anew");
            for (session, text) in [(&old, "older"), (&new, "newer"), (&old, "oldest"), (&new, "newest")] {
                let turn = client.prompt(session, &format!("say {text}")).await;
                assert_eq!(turn.stop, "end_turn", "{first:?}: {text}");
            }
            assert_eq!(client.view(&old).agent(), ["old", "older", "oldest"], "{first:?}");
            assert_eq!(client.view(&new).agent(), ["newer", "newest"], "{first:?}");
        }
    }
}

/// What the agent is asked for first.
#[derive(Clone, Copy, Debug)]
enum Asked {
    New,
    Old,
    Both,
}

/// Loads a session and makes a new one, whose id is returned.
async fn opened_with(client: &Client, old: &str, first: Asked) -> String {
    let (method, params) = client.load_params(old);
    let setup = json!({"cwd": CWD, "mcpServers": []});
    let made = match first {
        Asked::New => {
            let made = client.ask("session/new", setup).await;
            client.load(old).await;
            made
        }
        Asked::Old => {
            client.load(old).await;
            client.prompt(old, "usage 1/2").await;
            client.ask("session/new", setup).await
        }
        Asked::Both => {
            let loading = client.begin(method, params).await;
            let making = client.begin("session/new", setup).await;
            client.answer(&loading).await.expect("it is stored");
            client.answer(&making).await.expect("an agent makes sessions")
        }
    };
    made["sessionId"].as_str().expect("it has an id").to_owned()
}

pairings!(wire:
    // The answers of an agent of the library are the library's.
    answers_with_text_ids_are_answers,
    // The ids of its sessions are the library's.
    a_second_session_with_the_same_id_is_refused,
    // The same.
    an_agent_that_counts_anew_keeps_sessions_apart,
);
/// What a client sees of an agent that echoes the version, and what the agent is told, is what it is with a plain
/// version 1 agent.
async fn an_agent_that_echoes_the_version_is_used_as_version_1(pairing: Pairing) {
    for quirk in [Quirk::EchoesVersion, Quirk::EchoesVersionWithInfo] {
        for script in ["noid; say one; tool call_1; say two", "tool call_1; say one; say two"] {
            let plain = World::with_config(pairing, |config| config.offering(&[Offer::Modes]));
            let echoing = |config: AgentConfig| {
                AgentConfig { key: Some("echo"), ..config }.offering(&[Offer::Modes]).with(&[quirk])
            };
            let world = World::with_config(pairing, echoing);
            let (_, expected) = past(&plain, &[script, "say three"]).await;
            let (session, seen) = past(&world, &[script, "say three"]).await;
            assert_eq!(seen.to_string(), expected.to_string(), "{quirk:?}, {script}");
            assert_eq!(
                world.agent.received_params("session/prompt").len(),
                2,
                "{quirk:?}: no prompt is sent twice"
            );
            assert_eq!(world.agent.starts(), 1, "{quirk:?}");
            // In the next processes too, although the agent says something else.
            for number in 2..4 {
                world.agent.wait_gone().await;
                let client = world.again().ready().await;
                client.load(&session).await;
                let turn = client.prompt(&session, "noid; say four; permit").await;
                assert_eq!(turn.stop, "end_turn", "{quirk:?}");
                assert_eq!(world.agent.starts(), number, "{quirk:?}: it is started once");
                let offer = world.agent.received_params("initialize").pop().expect("it was initialized");
                assert_eq!(offer["protocolVersion"], 1, "{quirk:?}: it is offered what it speaks");
                let said = client.view(&session).agent();
                assert_eq!(said.len(), 3 + 2 * (number - 1), "{quirk:?}: {said:?}");
                client.disconnect().await;
            }
        }
    }
}

/// Its first words may have nothing in them that only version 1 has. The answer to the prompt shows it at last.
async fn a_prompt_answered_with_a_stop_reason_ends_the_turn(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.with(&[Quirk::EchoesVersionWithInfo]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let turn = client.prompt(&session, "say one; stop max_tokens").await;
    assert_eq!(turn.stop, "max_tokens");
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
    let request = client.begin_prompt(&session, "say three; hang").await;
    client.wait_update(0, &session, "three", |update| update["content"]["text"] == "three").await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &request).await.stop, "cancelled");
    assert_eq!(client.view(&session).agent(), ["one", "two", "three"]);
    assert_eq!(client.view(&session).user().len(), 3);
    assert_eq!(world.agent.received_params("session/prompt").len(), 3);
}

/// Prompts that were sent before it was noticed are not sent again, whatever the agent makes of them.
async fn prompts_sent_to_an_agent_that_echoes_the_version_are_sent_once(pairing: Pairing) {
    for quirk in [Quirk::EchoesVersion, Quirk::EchoesVersionWithInfo] {
        let world = World::with_config(pairing, |config| config.with(&[quirk]));
        let client = world.ready().await;
        let session = client.new_session().await;
        let first = client.begin_prompt(&session, "wait gate; say one").await;
        let second = client.begin_prompt(&session, "say two").await;
        world.agent.wait_received("session/prompt", 1).await;
        world.agent.open_gate("gate");
        assert_eq!(client.finish(&session, &first).await.stop, "end_turn", "{quirk:?}");
        match client.answer(&second).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error["message"], "this agent takes one prompt at a time", "{quirk:?}"),
        }
        assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn", "{quirk:?}");
        assert_eq!(world.agent.received_params("session/prompt").len(), 3, "{quirk:?}");
        let said = client.view(&session).agent();
        assert!(said == ["one", "three"] || said == ["one", "two", "three"], "{quirk:?}: {said:?}");
    }
}

/// Whether it is met for the first time or its sessions are opened from what is kept.
async fn an_agent_that_cannot_be_initialized_says_why(pairing: Pairing) {
    for (quirk, why) in [
        (Quirk::RefusesInitialize, "the agent refused to initialize: license expired"),
        (Quirk::MuteOnInitialize, "the agent did not answer initialize within 0.1 s"),
    ] {
        let world = World::with_config(pairing, |config| AgentConfig { key: Some("failing"), ..config });
        let (session, before) = past(&world, &["say one"]).await;
        world.agent.configure(|config| config.quirks = vec![quirk]);
        let world = world.set(|config| config.start_limit = Duration::from_millis(100));
        let client = world.ready().await;
        client.load(&session).await;
        assert_eq!(client.view(&session), before, "{quirk:?}: the store answers");
        let prompt = client.begin_prompt(&session, "say two").await;
        let error = client.answer(&prompt).await.expect_err("there is no agent");
        assert_eq!(error["message"], why);

        let (other, _) = elsewhere(&world);
        let client = other.set(|config| config.start_limit = Duration::from_millis(100)).connect();
        let error = client.refused("initialize", client.introduction()).await;
        assert_eq!(error["message"], why);
    }
}

async fn a_prompt_that_the_agent_repeats_is_there_once(pairing: Pairing) {
    let world = World::with_config(pairing, loading(Quirk::RepeatsPrompt));
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say one").await;
    let user =
        |update: &Value| update["sessionUpdate"].as_str().is_some_and(|tag| tag.contains("user_message"));
    let shown = client.updates(&session).into_iter().filter(user).count();
    assert_eq!(shown, usize::from(pairing.client == Version::V2), "the agent's own words are not shown");
    let blocks = json!([{"type": "text", "text": "say two"}, {"type": "text", "text": "say two"}]);
    let request = client.begin("session/prompt", json!({"sessionId": session, "prompt": blocks})).await;
    assert_eq!(client.finish(&session, &request).await.stop, "end_turn");
    let live = client.view(&session);
    assert_eq!(live.user().len(), 2, "{live}");
    client.disconnect().await;
    let client = world.again().ready().await;
    client.load(&session).await;
    assert_eq!(said(&client.view(&session)), said(&live));
    // What only sounds like it is somebody else's.
    client
        .prompt(
            &session,
            r#"raw {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"}}"#,
        )
        .await;
    assert_eq!(client.view(&session).user().len(), 4);
}

/// The transcript is for the agent; whoever looks at the list wants to know what the conversation is about.
async fn a_title_made_of_the_transcript_is_no_title(pairing: Pairing) {
    for abilities in [&["embeddedContext"][..], &[]] {
        let world = World::with_config(pairing, |config| {
            AgentConfig { restores: Restores::Nothing, ..config }
                .without(abilities)
                .with(&[Quirk::TitlesPrompt])
        });
        let (session, before) = past(&world, &["say one"]).await;
        let client = world.again().ready().await;
        client.load(&session).await;
        client.prompt(&session, "say two").await;
        assert!(was_given_the_transcript(&world));
        assert_eq!(client.view(&session).title, before.title);
        let listed = client.ask("session/list", json!({})).await;
        assert_eq!(listed["sessions"][0]["title"], "say one", "{listed}");
        client.prompt(&session, "say three").await;
        let listed = client.ask("session/list", json!({})).await;
        assert_eq!(listed["sessions"][0]["title"], "say three", "{listed}");
    }
}

/// An agent may keep embedded resources in files that its model need not read: copilot does. A command has to be the
/// first text.
async fn the_transcript_reaches_the_model_of_an_agent_that_puts_resources_aside(pairing: Pairing) {
    for (prompt, kind) in [("say two", "text"), ("/test it", "resource")] {
        let world =
            World::with_config(pairing, |config| AgentConfig { restores: Restores::Nothing, ..config });
        let (session, _) = past(&world, &["say one"]).await;
        let client = world.again().ready().await;
        client.load(&session).await;
        client.prompt(&session, prompt).await;
        assert!(was_given_the_transcript(&world));
        let told = world.agent.received_params("session/prompt").pop().expect("it was prompted");
        assert_eq!(told["prompt"][0]["type"], kind, "{told}");
        assert_eq!(told["prompt"][1]["text"], prompt, "{told}");
    }
}

pairings!(a_tool_call_that_was_never_announced_is_shown);

pairings!(wire:
    // An agent of the library replays nothing.
    a_replay_without_ids_or_with_others_changes_nothing,
    // It keeps no sessions.
    a_session_that_is_replayed_late_is_taken_in_whole,
    // It says of modes what the library lets it say.
    a_line_of_570_kilobytes_comes_through,
    // It does not write to the wire by itself.
    what_is_not_json_is_noted_and_not_shown,
    // Its answers are the library's.
    no_result_is_an_answer,
    // It keeps no sessions.
    an_internal_error_for_an_unknown_session_is_no_dead_end,
    // It keeps no sessions.
    a_session_with_nothing_in_it_is_not_taken_in,
    // The library answers in any order.
    nothing_is_asked_before_initialize_is_answered,
    // It is given its history and not a transcript.
    the_transcript_reaches_the_model_of_an_agent_that_puts_resources_aside,
    // The same.
    a_title_made_of_the_transcript_is_no_title,
    // It is in this process and answers.
    an_agent_that_cannot_be_initialized_says_why,
    // It can ask for nothing before it has answered.
    an_unlisted_request_never_stops_an_agent,
    // It lists nothing.
    a_list_that_stops_short_hides_nothing_that_can_be_opened,
    // It keeps no sessions.
    what_an_agent_notes_in_the_users_name_is_not_the_users,
);

// A version 2 agent takes prompts as they come, and resumes without a replay that could be empty.
pairings!(agent V1:
    a_prompt_that_the_agent_repeats_is_there_once,
    an_agent_that_echoes_the_version_is_used_as_version_1,
    a_prompt_answered_with_a_stop_reason_ends_the_turn,
    prompts_sent_to_an_agent_that_echoes_the_version_are_sent_once,
    a_second_prompt_never_disturbs_the_first,
    a_load_with_nothing_in_it_goes_on_from_the_transcript,
);
