//! Rule 1.20: every request is answered exactly once, however requests follow each other and whether or not the client
//! reads.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rethread::transport::{Wire, memory as pipe};
use rethread_testkit::barrage::{self, Plan, Until};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{DEADLINE, Pairing, World, pairings};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::stage::introduction;

/// A session with a conversation, whose client and agent are gone.
async fn past(world: &World) -> String {
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "chunks 30; tool call_1").await;
    client.disconnect().await;
    world.agent.wait_gone().await;
    session
}

fn answers(client: &Client, id: &Value) -> usize {
    let answers = |message: &&Value| message.get("method").is_none() && message["id"] == *id;
    client.server_messages().iter().filter(answers).count()
}

async fn r1_20_each_of_several_loads_is_answered(pairing: Pairing) {
    let world = World::of(pairing);
    let session = past(&world).await;
    let client = world.ready().await;
    let (method, params) = client.load_params(&session);
    let resume = json!({"sessionId": session, "cwd": CWD, "mcpServers": []});
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(client.begin(method, params.clone()).await);
        ids.push(client.begin("session/resume", resume.clone()).await);
    }
    for id in &ids {
        client.answer(id).await.expect("the session is opened");
    }
    // The whole conversation came with each load.
    let mark = client.mark();
    client.load(&session).await;
    let (once, heard) = (client.updates_since(mark, &session).len(), client.updates(&session).len());
    assert!(heard >= 4 * once, "{heard} updates, {once} with one load");
    client.prompt(&session, "say once").await;
    let updates = client.updates(&session);
    assert_eq!(updates.iter().filter(|update| update["content"]["text"] == "once").count(), 1);
    for id in &ids {
        assert_eq!(answers(&client, id), 1);
    }
}

async fn r1_20_a_load_is_answered_whatever_ends_the_session(pairing: Pairing) {
    let world = World::of(pairing);
    for (end, twice) in [
        ("session/close", false),
        ("session/close", true),
        ("session/archive", false),
        ("session/archive", true),
        ("session/delete", false),
        ("session/delete", true),
    ] {
        let session = past(&world).await;
        // Each time in the next process: then the session has to be opened.
        let client = world.again().ready().await;
        let (method, params) = client.load_params(&session);
        let mut ids = vec![client.begin(method, params.clone()).await];
        ids.push(client.begin(end, json!({"sessionId": session})).await);
        if twice {
            ids.push(client.begin(method, params).await);
            ids.push(client.begin(end, json!({"sessionId": session})).await);
        }
        for id in &ids {
            // A session that is deleted meanwhile may be an error.
            let _ = client.answer(id).await;
        }
        client.ask("session/list", json!({})).await;
        for id in &ids {
            assert_eq!(answers(&client, id), 1, "{end} {twice}");
        }
        client.disconnect().await;
        world.agent.wait_gone().await;
    }
}

async fn r1_20_random_requests_are_each_answered_once(pairing: Pairing) {
    let world = World::of(pairing);
    for seed in 1..3 {
        let (here, there) = pipe::pair();
        let server = world.server.clone();
        let serving = tokio::spawn(async move { server.serve(there).await });
        let plan = Plan { version: pairing.client, seed, cwd: CWD.to_owned(), until: Until::Sent(400) };
        let tally = barrage::run(here.into(), plan.clone()).await;
        tally.assert_exact(plan);
        serving.await.expect("the server does not panic");
    }
}

/// How many requests a client sends that does not read. More than the server takes before it stops to read.
const UNREAD: usize = 20_000;

/// Sends requests and counts those that the server has taken off the wire, or nearly.
async fn pour(mut writer: Box<dyn AsyncWrite + Send + Unpin>, sent: Arc<AtomicUsize>) {
    for id in 0..UNREAD {
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "session/nonsense"}));
        if writer.write_all(line.as_bytes()).await.is_err() {
            return;
        }
        sent.store(id + 1, Ordering::Relaxed);
    }
    writer.flush().await.expect("the server reads");
}

/// Waits until nothing more is taken for a while, and gives how much was.
async fn stuck(sent: &AtomicUsize) -> usize {
    loop {
        let before = sent.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(700)).await;
        let now = sent.load(Ordering::Relaxed);
        if now == before || now == UNREAD {
            return now;
        }
    }
}

async fn r1_20_a_client_that_does_not_read_is_not_read_from(pairing: Pairing) {
    let world = World::of(pairing);
    for reads in [true, false] {
        let (here, there) = pipe::pair();
        let server = world.server.clone();
        let serving = tokio::spawn(async move { server.serve(there).await });
        let Wire { reader, mut writer } = here.into();
        let mut lines = BufReader::new(reader).lines();
        let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize",
            "params": introduction(pairing.client.number())});
        writer.write_all(format!("{hello}\n").as_bytes()).await.expect("the server reads");
        lines.next_line().await.expect("the server answers");

        let sent = Arc::new(AtomicUsize::new(0));
        let pouring = tokio::spawn(pour(writer, sent.clone()));
        let taken = stuck(&sent).await;
        assert!(taken < UNREAD, "everything was read");
        if reads {
            let mut open: HashSet<usize> = (0..UNREAD).collect();
            while !open.is_empty() {
                let line = lines.next_line().await.expect("the server writes").expect("more answers");
                let answer: Value = serde_json::from_str(&line).expect("JSON");
                let id =
                    answer["id"].as_u64().and_then(|id| usize::try_from(id).ok()).expect("an id of ours");
                assert!(open.remove(&id), "answered twice: {answer}");
                assert_eq!(answer["error"]["code"], -32601, "{answer}");
            }
            pouring.await.expect("everything was taken");
        } else {
            // One that goes away is let go all the same.
            drop(lines);
            pouring.abort();
        }
        let ended = tokio::time::timeout(4 * DEADLINE, serving).await;
        ended.expect("the server lets go of a client that is gone").expect("the server does not panic");
    }
}

/// More requests than may be open at a time.
const TOO_MANY: usize = 1100;

async fn r1_20_a_client_with_too_many_requests_can_still_cancel(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.set_deadline(4 * DEADLINE);
    let mut ids = Vec::new();
    for _ in 0..TOO_MANY {
        ids.push(client.begin_prompt(&session, "hang").await);
    }
    let error = client.answer(&ids[TOO_MANY - 1]).await.expect_err("too many are open");
    assert_eq!(error["code"], -32603, "{error}");
    assert!(error["data"]["hint"].is_string(), "{error}");
    client.cancel(&session).await;
    for id in &ids[..TOO_MANY - 1] {
        let _ = client.answer(id).await;
    }
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

pairings!(agent V1: r1_20_a_client_with_too_many_requests_can_still_cancel);
pairings!(
    r1_20_a_client_that_does_not_read_is_not_read_from,
    r1_20_each_of_several_loads_is_answered,
    r1_20_a_load_is_answered_whatever_ends_the_session,
    r1_20_random_requests_are_each_answered_once,
);
