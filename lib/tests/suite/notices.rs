//! Notices for a version 1 client that does not take them: with the answer to the request at hand, and in one chunk of
//! text that is of the moment.

use std::time::Duration;

use rethread::edge::Version;
use rethread::transport::{Wire, memory as pipe};
use rethread_core::{Entry, Seq, SessionId, UpdateKind};
use rethread_testkit::agent::{AgentConfig, Restores};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{DEADLINE, Pairing, World, pairings};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// A client that takes no notices.
async fn plain(world: &World) -> Client {
    let client = world.connect();
    client.initialize_bare().await;
    client
}

/// A session with one turn that an earlier process left.
async fn past(world: &World, text: &str) -> String {
    let first = plain(world).await;
    let session = first.new_session().await;
    first.prompt(&session, text).await;
    first.disconnect().await;
    session
}

/// Says whether a second process of the agent has the session.
async fn bound_anew(world: &World, session: &str) -> bool {
    let page =
        world.store.read(&SessionId(session.to_owned()), Seq(0), usize::MAX).await.expect("it can be read");
    let anew = |entry: &Entry| matches!(entry, Entry::AgentBound { generation: 2.., .. });
    page.decode().expect("it can be decoded").iter().any(|item| anew(&item.entry))
}

async fn answer_to_prompt(client: &Client, session: &str, text: &str) -> Value {
    let prompt = client.begin_prompt(session, text).await;
    client.answer(&prompt).await.expect("the turn ends well")
}

fn chunks_with(client: &Client, session: &str, words: &str) -> usize {
    let updates = client.updates(session).into_iter();
    let chunks = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.filter(|update| update.to_string().contains(words)).count()
}

async fn a_session_that_was_lost_is_told_with_the_answer_and_once_in_words(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig { restores: Restores::Nothing, ..config });
    let session = past(&world, "say one").await;
    let world = world.again();
    let client = plain(&world).await;
    client.load(&session).await;
    let answer = answer_to_prompt(&client, &session, "say two").await;
    let notice = &answer["_meta"]["rethread"]["notice"];
    assert_eq!((&notice["severity"], notice.get("sessionUpdate")), (&json!("warning"), None), "{answer}");
    assert_eq!(notice["title"], "The agent could not restore this session");
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(chunks_with(&client, &session, "could not restore"), 1);
    // Of the moment: not with the next answer, and in no replay.
    let next = answer_to_prompt(&client, &session, "say three").await;
    assert_eq!(next.get("_meta"), None, "{next}");
    client.disconnect().await;
    let later = plain(&world.again()).await;
    later.load(&session).await;
    assert_eq!(later.view(&session).agent(), ["one", "two", "three"]);
}

/// Good news do not stand in the midst of the agent's words.
async fn a_session_that_was_restored_is_told_with_the_answer_only(pairing: Pairing) {
    let world = World::of(pairing);
    let client = plain(&world).await;
    let session = client.new_session().await;
    client.prompt(&session, "say one; crash").await;
    let answer = answer_to_prompt(&client, &session, "say two").await;
    assert_eq!(answer["_meta"]["rethread"]["notice"]["title"], "Session restored", "{answer}");
    assert_eq!(chunks_with(&client, &session, "restored"), 0);
    assert_eq!(client.view(&session).agent(), ["one", "two"]);
}

async fn the_notices_of_an_agent_are_told_in_both_ways(pairing: Pairing) {
    let world = World::of(pairing);
    let client = plain(&world).await;
    let session = client.new_session().await;
    let answer = answer_to_prompt(&client, &session, "notice One\nnotice Two\nsay words").await;
    let ours = &answer["_meta"]["rethread"];
    assert_eq!(ours["notice"]["title"], "Two", "{answer}");
    assert_eq!(ours["notices"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(ours["notices"][0], json!({"severity": "warning", "title": "One"}));
    let taking = world.ready().await;
    let other = taking.new_session().await;
    let answer = answer_to_prompt(&taking, &other, "notice One").await;
    assert_eq!(answer.get("_meta"), None, "a client that takes notices has had it: {answer}");
}

/// What a client shows that appends every chunk to the text before it, whatever its message.
fn joined(client: &Client, session: &str) -> String {
    let updates = client.updates(session).into_iter();
    let chunks = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.map(|update| update["content"]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn a_notice_in_words_has_a_line_of_its_own(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig { restores: Restores::Nothing, ..config });
    let session = past(&world, "say one").await;
    let world = world.again();
    let client = plain(&world).await;
    client.load(&session).await;
    client.prompt(&session, "say two\nnotice Beware\nsay three").await;
    let text = joined(&client, &session);
    let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    let starts = |line: &str, words: &str| line.starts_with(&format!("[warning] {words}"));
    assert!(lines[0] == "one" && starts(lines[1], "The agent could not restore this session"), "{text:?}");
    match pairing.agent {
        // It has none for a client that does not take them.
        Version::V1 => assert_eq!(lines[2..], ["twothree"], "{text:?}"),
        Version::V2 => {
            assert_eq!((lines[2], lines[4]), ("two", "three"), "{text:?}");
            assert!(starts(lines[3], "Beware"), "{text:?}");
        }
    }
    assert!(text.contains("one\n\n[warning]"), "a paragraph of its own: {text:?}");
}

/// A client that reads late finds the answer to its load with what has come before it.
async fn a_notice_that_is_there_before_the_answer_to_a_load_goes_with_it(pairing: Pairing) {
    let world = World::of(pairing);
    // More than the pipe takes: the answer has to wait for the client.
    let session = past(&world, &format!("say {}", "long ".repeat(60_000))).await;
    let world = world.again();
    let (here, there) = pipe::pair();
    let server = world.server.clone();
    let serving = tokio::spawn(async move { server.serve(there).await });
    let Wire { reader, mut writer } = here.into();
    let mut lines = BufReader::new(reader).lines();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}}});
    writer.write_all(format!("{initialize}\n").as_bytes()).await.expect("the server reads");
    lines.next_line().await.expect("the server writes");
    let load = json!({"jsonrpc": "2.0", "id": 2, "method": "session/load",
        "params": {"sessionId": session, "cwd": CWD, "mcpServers": []}});
    writer.write_all(format!("{load}\n").as_bytes()).await.expect("the server reads");
    let bound = async {
        while !bound_anew(&world, &session).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, bound).await.expect("the agent comes up behind the load");
    let answer = loop {
        let line = lines.next_line().await.expect("the server writes").expect("and has not ended");
        let message: Value = serde_json::from_str(&line).expect("lines are messages");
        if message["id"] == 2 {
            break message;
        }
    };
    assert_eq!(answer["result"]["_meta"]["rethread"]["notice"]["title"], "Session restored", "{answer}");
    drop(writer);
    tokio::time::timeout(2 * DEADLINE, serving).await.expect("the server ends").expect("without a panic");
}

async fn secrets_are_struck_out_of_notices(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let mut server = json!({"name": "s", "command": "/bin/true", "args": [],
        "env": [{"name": "TOKEN", "value": "hunter2-hunter2"}]});
    if pairing.client == Version::V2 {
        server["type"] = json!("stdio");
    }
    let new = client.ask("session/new", json!({"cwd": CWD, "mcpServers": [server]})).await;
    let session = new["sessionId"].as_str().unwrap_or_default().to_owned();
    client.prompt(&session, "notice the token hunter2-hunter2 is bad").await;
    let updates = json!(client.updates(&session)).to_string();
    assert!(updates.contains("the token [secret] is bad"), "{updates}");
    let page = world.store.read(&SessionId(session), Seq(0), usize::MAX).await.expect("it can be read");
    let notice =
        |entry: &Entry| matches!(entry, Entry::Updated { update, .. } if update.kind == UpdateKind::Notice);
    let notices: Vec<_> =
        page.decode().expect("it can be decoded").into_iter().filter(|item| notice(&item.entry)).collect();
    assert!(!notices.is_empty() && !format!("{notices:?}").contains("hunter2"), "{notices:?}");
}

pairings!(secrets_are_struck_out_of_notices,);

pairings!(client V1:
    a_session_that_was_restored_is_told_with_the_answer_only,
    a_notice_that_is_there_before_the_answer_to_a_load_goes_with_it,
);

// An agent of version 1 has none for a client that does not take them.
#[tokio::test]
async fn the_notices_of_an_agent() {
    the_notices_of_an_agent_are_told_in_both_ways(Pairing::of(Version::V1, Version::V2)).await;
}

pairings!(wire client V1:
    // An agent of the library is given the whole history: it loses nothing.
    a_session_that_was_lost_is_told_with_the_answer_and_once_in_words,
    // The same.
    a_notice_in_words_has_a_line_of_its_own,
);
