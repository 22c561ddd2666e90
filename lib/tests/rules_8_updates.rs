//! Section 8 of the rules: what each update means, live and in a replay, on all pairings.

#[path = "rules_8_updates/samples.rs"]
mod samples;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rethread::edge::Version;
use rethread::transport::{Wire, memory as pipe};
use rethread_testkit::agent::{Mind, Offer, Restores};
use rethread_testkit::client::{CWD, Client, From};
use rethread_testkit::view::{Item, Name, View};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, ReadBuf};

use samples::Kept;

/// The script that says these updates.
fn script<'a>(updates: impl IntoIterator<Item = &'a Value>) -> String {
    updates.into_iter().map(|update| format!("raw {update}\n")).collect()
}

/// A world with a client and a session.
async fn begun(pairing: Pairing) -> (World, Client, String) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    (world, client, session)
}

/// The same with a client that takes nothing beyond what it must.
async fn begun_bare(pairing: Pairing) -> (World, Client, String) {
    let world = World::of(pairing);
    let client = world.connect();
    client.initialize_bare().await;
    let session = client.new_session().await;
    (world, client, session)
}

/// Ends the client's process and gives the next one.
async fn restarted(world: &World, client: &Client) -> World {
    client.hang_up().await;
    world.agent.wait_gone().await;
    world.again()
}

/// A client that loads the session from the next process, after a fold of all of it.
async fn replayed(world: &World, client: &Client, session: &str) -> Client {
    let again = restarted(world, client).await;
    again.fold(session);
    let next = again.ready().await;
    next.load(session).await;
    next
}

/// Finds that clients of both versions are shown this by a replay, before a fold and after it.
async fn assert_replays(world: &World, client: &Client, session: &str, expected: &View) {
    let again = restarted(world, client).await;
    for folded in ["as written", "folded"] {
        let version = client.version;
        let next = again.ready_as(version).await;
        next.load(session).await;
        let view = next.view(session);
        assert_eq!(view, *expected, "{folded}, v{}:\n{view}\nexpected:\n{expected}", version.number());
        next.hang_up().await;
        world.agent.wait_gone().await;
        again.fold(session);
    }
}

/// The updates of a session that have a word in them.
fn with_word(client: &Client, session: &str, word: &str) -> Vec<Value> {
    let updates = client.updates(session).into_iter();
    // The prompt has all words in it.
    let spoken = updates.filter(|update| !update.to_string().contains("raw {"));
    spoken.filter(|update| update.to_string().contains(word)).collect()
}

fn with_tag(client: &Client, session: &str, tag: &str) -> Vec<Value> {
    client.updates(session).into_iter().filter(|update| update["sessionUpdate"] == tag).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn chunk(id: &str, words: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": text(words)})
}

fn whole(id: &str, content: Value) -> Value {
    json!({"sessionUpdate": "agent_message", "messageId": id, "content": content})
}

fn item(words: &str) -> Value {
    json!({"type": "content", "content": text(words)})
}

/// A tool call as the client has it after all that it was told.
fn call_of(client: &Client, session: &str, id: &str) -> Map<String, Value> {
    let mut call = Map::new();
    for update in client.updates(session).into_iter().filter(|update| update["toolCallId"] == id) {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default().to_owned();
        let Value::Object(fields) = update else { continue };
        match tag.as_str() {
            "tool_call" => call = fields,
            "tool_call_content_chunk" => {
                let content = call.entry("content").or_insert_with(|| json!([]));
                content.as_array_mut().expect("content is a list").push(fields["content"].clone());
            }
            _ => {
                for (name, value) in fields {
                    match (client.version, value.is_null()) {
                        (Version::V2, true) => drop(call.remove(&name)),
                        (Version::V1, true) => {}
                        (_, false) => drop(call.insert(name, value)),
                    }
                }
            }
        }
    }
    call
}

/// What tool calls show, each as its lines.
fn shown_of_tools(view: &View) -> Vec<Vec<String>> {
    let content = |item: &Item| match item {
        Item::Tool { content, .. } => Some(content.clone()),
        Item::Message { .. } | Item::Other(_) => None,
    };
    view.items.iter().filter_map(content).collect()
}

/// The messages of a view with their ids.
fn named_messages(view: &View) -> Vec<(String, String)> {
    let message = |item: &Item| match item {
        Item::Message { id: Name(Some(id)), text, .. } => Some((id.clone(), text.clone())),
        Item::Message { .. } | Item::Tool { .. } | Item::Other(_) => None,
    };
    view.items.iter().filter_map(message).collect()
}

// 8.1 and 8.2: messages.

async fn r8_01_messages_are_upserts(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let updates = [
        chunk("m", "one"),
        chunk("m", " two"),
        whole("m", json!([text("new")])),
        chunk("m", " more"),
        json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"k": 1}}),
        whole("n", json!([text("gone")])),
        whole("n", json!(null)),
        chunk("n", "back"),
        chunk("o", "x"),
        whole("o", json!([])),
        whole("p", json!([text("a"), text("b")])),
    ];
    client.prompt(&session, &script(&updates)).await;
    if pairing.client == Version::V2 {
        assert_eq!(client.view(&session).agent(), ["new more", "back", "", "ab"]);
        assert_replays(&world, &client, &session, &client.view(&session)).await;
    } else {
        let next = replayed(&world, &client, &session).await;
        assert_eq!(next.view(&session).agent(), ["new more", "back", "ab"]);
    }
}

async fn r8_02_an_id_names_one_message_of_each_kind(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let thought = json!({"sessionUpdate": "agent_thought_chunk", "messageId": "m", "content": text("hm")});
    client.prompt(&session, &script([&thought, &chunk("m", "said"), &thought, &chunk("m", " more")])).await;
    let view = client.view(&session);
    assert_eq!(view.texts("thought"), ["hmhm"]);
    assert_eq!(view.agent(), ["said more"]);
    assert_replays(&world, &client, &session, &view).await;
}

// 8.3 and 8.4: ids and order.

async fn r8_03_every_update_of_the_schema_arrives(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let samples = samples::all(pairing.agent);
    let all = script(samples.iter().map(|sample| &sample.update));
    client.prompt(&session, &format!("toolopen call_1\n{all}")).await;
    for sample in &samples {
        let Some(tag) = sample.tag(pairing.client) else { continue };
        let heard = with_word(&client, &session, sample.word);
        assert!(
            heard.iter().any(|update| update["sessionUpdate"] == tag),
            "{tag} of {}: {heard:#?}",
            sample.update
        );
        if pairing.client == pairing.agent && sample.update["sessionUpdate"] == tag {
            assert!(heard.contains(&sample.update), "unchanged: {}\n{heard:#?}", sample.update);
        }
    }
    let next = replayed(&world, &client, &session).await;
    for sample in samples.iter().filter(|sample| sample.tag(pairing.client).is_some()) {
        let heard = next.heard().into_iter().filter(|message| !message.to_string().contains("raw {"));
        let heard = heard.filter(|message| message.to_string().contains(sample.word)).count();
        match sample.kept {
            Kept::Yes => assert!(heard > 0, "replay: {}", sample.update),
            Kept::No if sample.word.starts_with("w-") => assert_eq!(heard, 0, "replay: {}", sample.update),
            Kept::No => {}
        }
    }
}

#[test]
fn r8_03_there_is_a_sample_of_every_update() {
    let refused = serde_json::from_value::<agent_client_protocol_schema::v1::SessionUpdate>(
        json!({"sessionUpdate": "nothing"}),
    );
    let known = refused.expect_err("there is no such update").to_string();
    let tags = known.split('`').skip(3).step_by(2);
    let sampled =
        |version, tag: &str| samples::all(version).iter().any(|sample| sample.update["sessionUpdate"] == tag);
    let tags: Vec<_> = tags.collect();
    assert_eq!(tags.len(), 19, "{known}");
    for tag in tags {
        assert!(sampled(Version::V1, tag), "{tag}");
        let renamed = ["tool_call", "plan", "current_mode_update"];
        assert!(sampled(Version::V2, tag) || renamed.contains(&tag), "{tag}");
    }
    let only_two = [
        "user_message",
        "agent_message",
        "agent_thought",
        "state_update",
        "tool_call_content_chunk",
        "terminal_update",
        "terminal_output_chunk",
    ];
    for tag in only_two {
        assert!(sampled(Version::V2, tag), "{tag}");
    }
    for sample in samples::all(Version::V2) {
        let parsed: agent_client_protocol_schema::v2::SessionUpdate =
            serde_json::from_value(sample.update.clone()).expect("a sample is of the schema");
        let other = matches!(parsed, agent_client_protocol_schema::v2::SessionUpdate::Other(_));
        assert_eq!(other, ["future_update", "_own_update"].contains(&sample.two), "{}", sample.update);
    }
}

/// What an unknown update may look like: of its members only the bytes are known.
const ODD: &str = r#"{"sessionUpdate":"_odd","n":[1.50,1e2,-0.0,12345678901234567890],"s":"\u00e9\/é","o":{ "b" : 1,"a":null },"_meta":{"k":{"z":1.0}}}"#;

async fn r8_03_unknown_updates_are_kept_to_the_byte(pairing: Pairing) {
    let world = World::of(pairing);
    let (client, live) = listening(&world);
    client.initialize().await;
    let session = client.new_session().await;
    client.prompt(&session, &format!("raw {ODD}\nsay after")).await;
    let again = restarted(&world, &client).await;
    again.fold(&session);
    let (next, replay) = listening(&again);
    next.initialize().await;
    next.load(&session).await;
    for heard in [live, replay] {
        let heard = heard.lock().expect("nobody panics").clone();
        let heard = String::from_utf8(heard).expect("lines are text");
        assert!(heard.contains(&format!("\"update\":{ODD}")), "{heard}");
    }
}

/// A client and all bytes that it hears.
fn listening(world: &World) -> (Client, Arc<Mutex<Vec<u8>>>) {
    let (here, there) = pipe::pair();
    let server = world.server.clone();
    let serving = tokio::spawn(async move { server.serve(there.into()).await });
    let mut wire: Wire = here.into();
    let heard = Arc::new(Mutex::new(Vec::new()));
    wire.reader = Box::new(Listening { reader: wire.reader, heard: heard.clone() });
    (Client::over(wire, world.client, Some(serving)), heard)
}

/// A reader that keeps what was read.
struct Listening<R> {
    reader: R,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Listening<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(context, buffer);
        self.heard.lock().expect("nobody panics").extend_from_slice(&buffer.filled()[before..]);
        read
    }
}

async fn r8_03_messages_without_an_id_get_one(pairing: Pairing) {
    let world = World::having(pairing, |config| config.offering(&[Offer::Modes, Offer::Effort]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let quiet = "plan a; usage 1/2; commands; title T; mode b; notice N";
    client
        .prompt(&session, &format!("noid; say a; {quiet}; say b; think c; say d; tool call_1; say e"))
        .await;
    client.prompt(&session, "noid; say f; say g").await;
    let live = client.view(&session);
    assert_eq!(live.agent(), ["ab", "d", "e", "fg"]);
    assert_eq!(live.texts("thought"), ["c"]);
    let named = named_messages(&live);
    let of_agent: Vec<_> = named.iter().filter(|(_, text)| text.len() < 3).collect();
    assert_eq!(of_agent.len(), 5, "{named:?}");
    for update in with_tag(&client, &session, "agent_message_chunk") {
        assert!(update["messageId"].is_string(), "{update}");
    }
    let next = replayed(&world, &client, &session).await;
    let again = named_messages(&next.view(&session));
    for message in of_agent {
        assert!(again.contains(message), "{message:?} in {again:?}");
    }
}

async fn r8_04_the_same_chunk_twice_is_said_twice(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    client.prompt(&session, &script([&chunk("m", "ha"), &chunk("m", "ha"), &chunk("m", "ha")])).await;
    assert_eq!(client.view(&session).agent(), ["hahaha"]);
    assert_replays(&world, &client, &session, &client.view(&session)).await;
}

async fn r8_04_a_replay_shows_what_was_live(pairing: Pairing) {
    let world =
        World::having(pairing, |config| config.offering(&[Offer::Modes, Offer::Models, Offer::Effort]));
    let client = world.ready().await;
    let session = client.new_session().await;
    client
        .prompt(&session, "say a; chunks 9; think b; tool call_1; plan x,y; usage 1/2; commands one; title T")
        .await;
    client
        .prompt(
            &session,
            "mode b; tool call_2; whole w; compact; unknown _x; say z; plan y; commands one,two",
        )
        .await;
    assert_replays(&world, &client, &session, &client.view(&session)).await;
    for version in [Version::V1, Version::V2] {
        let other = world.again().ready_as(version).await;
        other.load(&session).await;
        let view = other.view(&session);
        assert_eq!(view, client.view(&session), "v{}:\n{view}", version.number());
        other.hang_up().await;
    }
}

// 8.5: tool calls.

async fn r8_05_tool_calls_are_patched(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let begins = match pairing.agent {
        Version::V1 => "tool_call",
        Version::V2 => "tool_call_update",
    };
    let patch = |fields: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1"});
        update.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        update
    };
    let updates = [
        json!({"sessionUpdate": begins, "toolCallId": "call_1", "title": "Read", "kind": "read",
            "status": "pending", "rawInput": {"a": 1}, "locations": [{"path": "/work/a"}, {"path": "/work/b"}],
            "content": [item("first")]}),
        patch(json!({"status": "in_progress"})),
        patch(json!({"content": [item("second"), item("third")], "locations": [{"path": "/work/c"}]})),
        patch(json!({"title": "Read it", "rawOutput": [1, 2]})),
        patch(json!({"status": "completed", "_meta": {"k": {"deep": 1}}})),
    ];
    client.prompt(&session, &script(&updates)).await;
    for heard in [&client, &replayed(&world, &client, &session).await] {
        let call = call_of(heard, &session, "call_1");
        assert_eq!(call["title"], "Read it");
        assert_eq!(call["kind"], "read");
        assert_eq!(call["status"], "completed");
        assert_eq!(call["rawInput"], json!({"a": 1}));
        assert_eq!(call["rawOutput"], json!([1, 2]));
        assert_eq!(call["locations"], json!([{"path": "/work/c"}]));
        assert_eq!(call["content"], json!([item("second"), item("third")]));
        assert_eq!(call["_meta"]["k"], json!({"deep": 1}));
        let first = heard.updates(&session).into_iter().find(|update| update["toolCallId"] == "call_1");
        let creates = match pairing.client {
            Version::V1 => "tool_call",
            Version::V2 => "tool_call_update",
        };
        assert_eq!(first.expect("the call is told")["sessionUpdate"], creates);
    }
}

async fn r8_05_content_of_tool_calls_is_appended_and_cleared(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let more = |words: &str| json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "call_1", "content": item(words)});
    let patch = |name: &str, value: Value| json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", name: value});
    let begins = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T",
        "status": "completed", "rawInput": {"a": 1}, "content": [item("a")]});
    client.prompt(&session, &script([&begins, &more("b"), &more("c")])).await;
    assert_eq!(shown_of_tools(&client.view(&session)), [["a", "b", "c"]]);
    let updates = [patch("content", json!([item("d")])), more("e"), patch("rawInput", json!(null))];
    client.prompt(&session, &script(&updates)).await;
    assert_eq!(shown_of_tools(&client.view(&session)), [["d", "e"]]);
    assert_replays(&world, &client, &session, &client.view(&session)).await;
    let next = world.again().ready().await;
    next.load(&session).await;
    for heard in [&client, &next] {
        let input = call_of(heard, &session, "call_1").get("rawInput").cloned();
        assert!(input.is_none_or(|input| input == json!("")), "it was cleared");
    }
    next.prompt(&session, &script([&patch("content", json!(null))])).await;
    // The agent that says this is another process of it, and the call one of its own.
    assert_eq!(shown_of_tools(&next.view(&session)), [vec!["d", "e"], vec![]]);
}

async fn r8_05_a_cancelled_call_is_a_failed_one_in_version_1(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T",
        "status": "cancelled"});
    client.prompt(&session, &script([&call])).await;
    let status = match pairing.client {
        Version::V1 => "failed",
        Version::V2 => "cancelled",
    };
    for heard in [&client, &replayed(&world, &client, &session).await] {
        assert_eq!(call_of(heard, &session, "call_1")["status"], status);
    }
}

async fn r8_05_a_restarted_agent_does_not_overwrite_what_was(pairing: Pairing) {
    let mut natures = vec![Restores::All];
    if pairing.mind == Mind::Own {
        natures.push(Restores::Nothing);
    }
    for restores in natures {
        let (world, client, session) = begun(pairing).await;
        world.agent.configure(|config| config.restores = restores);
        let begins = match pairing.agent {
            Version::V1 => "tool_call",
            Version::V2 => "tool_call_update",
        };
        let call = |words: &str| {
            json!({"sessionUpdate": begins, "toolCallId": "call_1", "title": words, "status": "completed",
                "content": [item(words)]})
        };
        client.prompt(&session, &script([&chunk("m", "one"), &call("one")])).await;
        let again = restarted(&world, &client).await;
        let next = again.ready().await;
        next.load(&session).await;
        next.prompt(&session, &script([&chunk("m", "two"), &call("two"), &chunk("m", "!")])).await;
        let view = next.view(&session);
        assert_eq!(view.agent(), ["one", "two!"], "{view}");
        assert_eq!(shown_of_tools(&view), [["one"], ["two"]], "{view}");
        assert_replays(&again, &next, &session, &view).await;
    }
}

async fn r8_05_diffs_are_shown_in_the_words_of_the_client(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    client.prompt(&session, "tool call_1").await;
    for heard in [&client, &replayed(&world, &client, &session).await] {
        let call = call_of(heard, &session, "call_1");
        let diff = call["content"].as_array().expect("content").iter().find(|item| item["type"] == "diff");
        let diff = diff.expect("the diff is there");
        match pairing.client {
            Version::V1 => {
                assert_eq!(diff["path"], "/work/a.txt");
                assert_eq!(diff["oldText"], "one\n");
                assert_eq!(diff["newText"], "two\n");
            }
            Version::V2 => {
                assert_eq!(diff["changes"][0]["path"], "/work/a.txt");
                assert_eq!(diff["changes"][0]["operation"], "modify");
                let patch = diff["patch"]["text"].as_str().expect("a patch");
                assert!(patch.contains("\n-one\n+two\n"), "{patch}");
            }
        }
    }
}

async fn r8_05_a_diff_that_cannot_be_rebuilt_is_told_in_words(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let diff = json!({"type": "diff", "changes": [
        {"operation": "delete", "path": "/work/gone.bin", "fileType": "binary"},
        {"operation": "move", "path": "/work/new.txt", "oldPath": "/work/old.txt"}]});
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T",
        "content": [diff]});
    client.prompt(&session, &script([&call])).await;
    for heard in [&client, &replayed(&world, &client, &session).await] {
        let told = call_of(heard, &session, "call_1")["content"].to_string();
        for path in ["/work/gone.bin", "/work/new.txt", "/work/old.txt"] {
            assert!(told.contains(path), "{told}");
        }
    }
}

// 8.6 and 8.7: terminals.

fn terminal(fields: Value) -> Value {
    let mut update = json!({"sessionUpdate": "terminal_update", "terminalId": "term_1"});
    update.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    update
}

fn output(data: &str) -> Value {
    json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "term_1", "data": data})
}

fn showing() -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "T", "status": "completed",
        "content": [{"type": "terminal", "terminalId": "term_1"}]})
}

/// What the client sees of the terminal in its tool call.
fn screen(client: &Client, session: &str) -> String {
    shown_of_tools(&client.view(session)).concat().concat()
}

async fn r8_06_terminal_output_is_replaced_by_a_snapshot(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    // The reference comes before the terminal; "he" and "llo", each encoded for itself; then "snap" and "é!" cut
    // inside the letter.
    let updates = [
        showing(),
        terminal(json!({"command": "ls"})),
        output("aGU="),
        output("bGxv"),
        terminal(json!({"output": {"data": "c25hcA=="}})),
        output("ww=="),
        output("qSE="),
    ];
    let turn = client
        .begin_prompt(
            &session,
            &format!("{}wait on\nraw {}", script(&updates), terminal(json!({"exitStatus": {"exitCode": 3}}))),
        )
        .await;
    let all = |update: &Value| {
        update["data"] == "qSE=" || update["content"][0]["content"]["text"].to_string().contains("snapé!")
    };
    client.wait_update(0, &session, "all output", all).await;
    assert!(screen(&client, &session).contains("snapé!"), "{}", client.view(&session));
    assert!(!screen(&client, &session).contains("hello"));
    world.agent.open_gate("on");
    client.finish(&session, &turn).await;
    let exit = match pairing.client {
        Version::V1 => "[exit status 3]",
        Version::V2 => "",
    };
    for heard in [&client, &replayed(&world, &client, &session).await] {
        let shown = screen(heard, &session);
        assert!(shown.contains("snapé!") && shown.contains(exit), "{shown}");
        assert!(!shown.contains("hello"), "{shown}");
    }
}

async fn r8_06_a_terminal_may_be_told_before_its_call(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let updates = [terminal(json!({"command": "ls"})), output("aGk="), showing()];
    client.prompt(&session, &script(&updates)).await;
    for heard in [&client, &replayed(&world, &client, &session).await] {
        assert!(screen(heard, &session).contains("hi"), "{}", heard.view(&session));
    }
}

async fn r8_06_terminals_of_a_restarted_agent_are_others(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    client
        .prompt(
            &session,
            &script(&[
                terminal(json!({"command": "a"})),
                showing(),
                output("b25l"),
                terminal(json!({"exitStatus": {}})),
            ]),
        )
        .await;
    let again = restarted(&world, &client).await;
    let next = again.ready().await;
    next.load(&session).await;
    next.prompt(
        &session,
        &script(&[
            terminal(json!({"command": "b"})),
            showing(),
            output("dHdv"),
            terminal(json!({"exitStatus": {}})),
        ]),
    )
    .await;
    let shown = shown_of_tools(&next.view(&session));
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0][0].contains("one") && !shown[0][0].contains("two"), "{shown:?}");
    assert!(shown[1][0].contains("two") && !shown[1][0].contains("one"), "{shown:?}");
    assert_replays(&again, &next, &session, &next.view(&session)).await;
}

#[tokio::test]
async fn r8_06_terminals_of_a_restarted_client_are_others() {
    let (world, client, session) = begun(Pairing::of(Version::V1, Version::V1)).await;
    let printing = |client: &Client, text: &'static str| {
        client.on("terminal/output", move |_| Some(Ok(json!({"output": text, "truncated": false}))));
    };
    printing(&client, "one");
    client.prompt(&session, "term").await;
    let again = restarted(&world, &client).await;
    let next = again.ready().await;
    next.load(&session).await;
    printing(&next, "two");
    let mark = next.mark();
    next.prompt(&session, "term").await;
    // The client knows its terminal by the id that it gave it, which is that of the first one.
    let live = next.updates_since(mark, &session);
    assert!(live.iter().any(|update| update["content"][0]["terminalId"] == "client-term-1"), "{live:#?}");
    let last = replayed(&again, &next, &session).await;
    let shown = shown_of_tools(&last.view(&session)).concat();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].contains("one") && shown[1].contains("two"), "{shown:?}");
}

async fn r8_07_an_exit_is_told_and_ends_the_terminal(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let can = json!({"command": "ls", "capabilities": {"cancel": {}}});
    client.prompt(&session, &script(&[terminal(can), showing(), output("aGk=")])).await;
    // An agent that dies takes its terminals along.
    client.prompt(&session, "crash").await;
    let next = replayed(&world, &client, &session).await;
    for heard in [&client, &next] {
        match pairing.client {
            Version::V1 => assert!(screen(heard, &session).contains("[ended]"), "{}", heard.view(&session)),
            Version::V2 => {
                let told = with_tag(heard, &session, "terminal_update");
                let exits = |update: &Value| update.get("exitStatus").is_some_and(Value::is_object);
                let exit = told.iter().find(|update| exits(update)).expect("the exit is told");
                assert_eq!(exit["capabilities"], json!(null), "it cannot be cancelled any more: {exit}");
            }
        }
    }
}

async fn r8_17_terminals_of_the_client_are_not_those_of_the_agent(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    client.prompt(&session, "term").await;
    let next = replayed(&world, &client, &session).await;
    let refers = |client: &Client| {
        client.updates(&session).iter().any(|update| update["content"].to_string().contains("\"terminalId\""))
    };
    let terminal_items = |client: &Client| {
        let items =
            client.updates(&session).into_iter().filter_map(|update| update["content"].as_array().cloned());
        items.flatten().filter(|item| item["type"] == "terminal").count()
    };
    match (pairing.client, pairing.agent) {
        (Version::V1, Version::V1) => {
            // Its own, live; a replay has the text, since the terminal is gone.
            assert_eq!(with_word(&client, &session, "client-term-1").len(), 1);
            assert_eq!(terminal_items(&next), 0);
            assert!(screen(&next, &session).contains("hi"), "{}", next.view(&session));
        }
        (Version::V1, Version::V2) => {
            assert_eq!(terminal_items(&client) + terminal_items(&next), 0, "no terminal is made up");
            assert!(client.heard().iter().all(|message| message["method"] != "terminal/create"));
            for heard in [&client, &next] {
                assert!(screen(heard, &session).contains("hi"), "{}", heard.view(&session));
            }
        }
        (Version::V2, Version::V1) => {
            // Nobody asks a client of version 2 to run one.
            assert!(client.heard().iter().all(|message| message["method"] != "terminal/create"));
        }
        (Version::V2, Version::V2) => {
            assert!(refers(&client) && refers(&next));
            for heard in [&client, &next] {
                assert!(screen(heard, &session).contains("hi"), "{}", heard.view(&session));
            }
        }
    }
}

// 8.8: plans.

async fn r8_08_a_plan_replaces_the_one_before(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
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

// 8.9 and 8.10: options and commands.

fn options(pairing: Pairing, offers: &[Offer]) -> World {
    World::having(pairing, |config| config.offering(offers))
}

/// What the client was last told of each option, whichever way, and of the two older views.
fn choices(client: &Client, session: &str) -> Map<String, Value> {
    let mut told = Map::new();
    let own = |message: &Value| {
        message["params"]["sessionId"] == session || message["result"]["sessionId"] == session
    };
    for message in client.heard() {
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

async fn set(client: &Client, session: &str, option: &str, value: Value) -> Result<Value, Value> {
    let mut params = json!({"sessionId": session, "configId": option, "value": value});
    match (client.version, params["value"].is_boolean()) {
        (_, true) => params["type"] = json!("boolean"),
        (Version::V2, false) => params["type"] = json!("id"),
        (Version::V1, false) => {}
    }
    client.request("session/set_config_option", params).await
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
        let answer = set(&client, &session, option, value.clone()).await.expect("it can be set");
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
        let error = set(&client, &session, option, value.clone()).await.expect_err("it is refused");
        assert_eq!(error["code"], -32602, "{option} = {value}: {error}");
        assert!(error["data"]["expected"].is_string(), "{error}");
    }
    assert_eq!(choices(&client, &session), before);
    assert!(world.agent.told("session/set_config_option").is_empty());
    assert!(world.agent.told("session/set_mode").is_empty());
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
    let next = replayed(&world, &client, &session).await;
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
    set(&other, &made, "verbose", json!(true)).await.expect("it can be set");
    let client = world.connect();
    client.initialize_bare().await;
    let answer = client.load(&made).await;
    let mark = client.mark();
    let set_answer = set(&client, &made, "effort", json!("high")).await.expect("it can be set");
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
        set(&client, &session, "mode", json!("b")).await.expect("it can be set");
        is(&client, "b", "fast");
        set(&client, &session, "model", json!("deep")).await.expect("it can be set");
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
            set(&client, &session, "mode", json!("a")).await.expect("it can be set");
            set(&client, &session, "model", json!("fast")).await.expect("it can be set");
        }
        is(&client, "a", "fast");
        client.prompt(&session, "mode b").await;
        is(&client, "b", "fast");
        // Also while a turn runs.
        let turn = client.begin_prompt(&session, "say x; wait on").await;
        client.wait_update(0, &session, "the turn", |update| update["content"]["text"] == "x").await;
        set(&client, &session, "model", json!("deep")).await.expect("it can be set in a turn");
        is(&client, "b", "deep");
        world.agent.open_gate("on");
        client.finish(&session, &turn).await;
        let next = replayed(&world, &client, &session).await;
        is(&next, "b", "deep");
        if pairing.client == Version::V1 {
            assert_eq!(choices(&next, &session)["the model"], "deep");
        }
    }
}

// 8.11: session info.

async fn r8_11_session_info_is_patched(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
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
    let (world, client, session) = begun(pairing).await;
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

// 8.12 to 8.14: what version 1 has to ask for.

async fn r8_12_notices_are_of_the_moment(pairing: Pairing) {
    for takes in [true, false] {
        let (world, client, session) = if takes { begun(pairing).await } else { begun_bare(pairing).await };
        client.prompt(&session, "say before\nnotice Beware\nsay after").await;
        let told: Vec<_> = with_word(&client, &session, "Beware");
        let told: Vec<_> =
            told.into_iter().filter(|update| update["sessionUpdate"] != "user_message").collect();
        let as_notice = takes || pairing.client == Version::V2;
        // An agent of version 1 says nothing to a client that does not take it.
        let expected = match (pairing.agent, as_notice) {
            (_, true) => vec!["notice"],
            (Version::V2, false) => vec!["agent_message_chunk"],
            (Version::V1, false) => vec![],
        };
        assert_eq!(told.iter().map(|update| update["sessionUpdate"].clone()).collect::<Vec<_>>(), expected);
        if expected == ["agent_message_chunk"] {
            assert_eq!(told[0]["content"]["text"], "[warning] Beware");
            assert!(named_messages(&client.view(&session)).iter().all(|(_, text)| text != "beforeafter"));
        }
        let next = replayed(&world, &client, &session).await;
        let spoken =
            next.updates(&session).into_iter().filter(|update| !update.to_string().contains("say before"));
        assert_eq!(spoken.filter(|update| update.to_string().contains("Beware")).count(), 0);
        assert_eq!(next.view(&session).agent(), ["before", "after"]);
    }
}

async fn r8_13_a_compaction_stays_where_it_began(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let compaction =
        |status: &str| json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": status});
    let summary =
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text("sum")});
    let updates = [
        chunk("m", "before"),
        compaction("in_progress"),
        chunk("n", "between"),
        summary,
        compaction("completed"),
    ];
    client.prompt(&session, &script(&updates)).await;
    client.prompt(&session, "say later").await;
    let next = replayed(&world, &client, &session).await;
    for heard in [&client, &next] {
        let view = heard.view(&session);
        let place = |is: &dyn Fn(&Item) -> bool| view.items.iter().position(is).expect("it is there");
        let message = |words: &'static str| {
            place(&move |item| matches!(item, Item::Message { text, .. } if text == words))
        };
        let at = place(&|item| matches!(item, Item::Other(tag) if tag == "compaction_update"));
        assert!(message("before") < at && at < message("between"), "{view}");
        let last = with_tag(heard, &session, "compaction_update").pop().expect("the last word on it");
        assert_eq!(last["status"], "completed");
        assert!(!with_word(heard, &session, "\"sum\"").is_empty());
    }
}

async fn r8_13_compactions_are_told_in_words_to_others(pairing: Pairing) {
    let (world, client, session) = begun_bare(pairing).await;
    client.prompt(&session, "say before; compact; say after").await;
    let next = {
        let again = restarted(&world, &client).await;
        again.fold(&session);
        let next = again.connect();
        next.initialize_bare().await;
        next.load(&session).await;
        next
    };
    for heard in [&client, &next] {
        let told = with_tag(heard, &session, "compaction_update").len();
        match (pairing.client, pairing.agent) {
            (Version::V2, _) => assert!(told > 0),
            (Version::V1, Version::V1) => assert_eq!(told, 0),
            (Version::V1, Version::V2) => {
                assert_eq!(told, 0);
                let thoughts = heard.view(&session).texts("thought");
                assert!(
                    thoughts.iter().any(|text| text == "[the conversation was compacted]"),
                    "{thoughts:?}"
                );
            }
        }
        assert_eq!(heard.view(&session).agent(), ["before", "after"]);
    }
    // What is said in words has the same ids each time.
    let (live, again) = (thought_ids(&client, &session), thought_ids(&next, &session));
    assert!(again.is_subset(&live), "{again:?} in {live:?}");
}

fn thought_ids(client: &Client, session: &str) -> BTreeSet<String> {
    let thoughts = with_tag(client, session, "agent_thought_chunk").into_iter();
    thoughts.filter_map(|update| update["messageId"].as_str().map(str::to_owned)).collect()
}

async fn r8_14_plans_and_children_only_for_those_who_take_them(pairing: Pairing) {
    let (_world, client, session) = begun_bare(pairing).await;
    let plan = json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p",
        "content": "- [x] one\n- two"}});
    let removed = json!({"sessionUpdate": "plan_removed", "planId": "p"});
    client.prompt(&session, &script([&plan])).await;
    assert_eq!(client.view(&session).plan.len(), if pairing.client == Version::V1 { 2 } else { 0 });
    client.prompt(&session, &format!("{}subagent", script([&removed]))).await;
    assert_eq!(client.view(&session).plan, Vec::<String>::new());
    client.prompt(&session, "say done").await;
    let gated = ["plan_update", "plan_removed", "subagent_update", "session_message"];
    let told = client
        .heard()
        .into_iter()
        .filter(|message| gated.iter().any(|tag| message["params"]["update"]["sessionUpdate"] == *tag));
    assert_eq!(told.count() > 0, pairing.client == Version::V2);
    let foreign = client
        .heard()
        .into_iter()
        .filter(|message| message["method"] == "session/update" && message["params"]["sessionId"] != session);
    match pairing.client {
        Version::V1 => assert_eq!(foreign.count(), 0, "of sessions it does not know"),
        Version::V2 => assert_eq!(foreign.count(), 1),
    }
    if (pairing.client, pairing.agent) == (Version::V1, Version::V2) {
        // It is told in words, what the child says too.
        let view = client.view(&session);
        let thoughts = view.texts("thought").concat();
        assert!(thoughts.contains("A helper") && thoughts.contains("the child speaks"), "{view}");
    }
}

// 8.15: sub-agents.

async fn r8_15_a_child_is_announced_before_it_speaks(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    client.prompt(&session, "subagent").await;
    client.wait("the child's words", |message| message.to_string().contains("the child speaks")).await;
    let next = replayed(&world, &client, &session).await;
    for heard in [&client, &next] {
        let updates: Vec<_> =
            heard.heard().into_iter().filter(|said| said["method"] == "session/update").collect();
        let announced =
            updates.iter().position(|said| said["params"]["update"]["sessionUpdate"] == "subagent_update");
        let spoke = updates.iter().position(|said| said.to_string().contains("the child speaks"));
        let (announced, spoke) = (announced.expect("it is announced"), spoke.expect("it speaks"));
        assert!(announced < spoke);
        assert_eq!(updates[announced]["params"]["sessionId"], session.as_str());
        let child = &updates[announced]["params"]["update"]["sessionId"];
        assert_eq!(&updates[spoke]["params"]["sessionId"], child);
        assert_ne!(child, session.as_str());
    }
}

/// A client that wants no replay has not heard of the sub-agents that live.
async fn r8_15_a_child_is_announced_again_without_a_replay(pairing: Pairing) {
    let (_world, client, session) = begun(pairing).await;
    let announced = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "title": "Kid"});
    let more = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "description": "Helps"});
    client.prompt(&session, &script([&announced, &more])).await;
    let mark = client.mark();
    client.resume(&session).await;
    let is_announced = |update: &Value| update["sessionUpdate"] == "subagent_update";
    let again = client.wait_update(mark, &session, "the child", is_announced).await;
    assert_eq!((&again["sessionId"], &again["title"]), (&json!("kid"), &json!("Kid")));
    assert_eq!(again["description"], "Helps", "all that is true of it at once");
    let mark = client.mark();
    client.load(&session).await;
    let told = |mark: usize| client.updates_since(mark, &session).into_iter().filter(is_announced).count();
    assert_eq!(told(mark), 2, "a replay has it in its place");
    client.prompt(&session, "crash").await;
    let mark = client.mark();
    client.resume(&session).await;
    client.prompt(&session, "say more").await;
    assert_eq!(told(mark), 0, "it went with its agent");
}

async fn r8_15_all_that_a_child_does_is_in_the_words_of_the_client(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let announced = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "title": "Kid"});
    let of_kid = match pairing.agent {
        Version::V1 => vec![
            json!({"sessionUpdate": "agent_message_chunk", "content": text("k-said")}),
            json!({"sessionUpdate": "tool_call", "toolCallId": "k", "title": "k-call", "kind": "edit"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "k", "status": "completed",
                "content": [item("k-item")]}),
            json!({"sessionUpdate": "plan", "entries":
                [{"content": "k-entry", "priority": "high", "status": "pending"}]}),
        ],
        Version::V2 => vec![
            json!({"sessionUpdate": "agent_message", "messageId": "km", "content": [text("k-said")]}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "k", "title": "k-call", "kind": "edit"}),
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "k", "content": item("k-item")}),
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "kp", "entries":
                [{"content": "k-entry", "priority": "high", "status": "pending"}]}}),
        ],
    };
    let of_kid: String = of_kid.iter().map(|update| format!("rawof kid {update}\n")).collect();
    client.prompt(&session, &format!("{}{of_kid}say done", script([&announced]))).await;
    let next = replayed(&world, &client, &session).await;
    for heard in [&client, &next] {
        let kid = heard.view("kid");
        assert_eq!(kid.agent(), ["k-said"], "{kid}");
        assert_eq!(shown_of_tools(&kid), [["k-item"]], "{kid}");
        assert_eq!(kid.plan, ["k-entry (pending)"], "{kid}");
        let first = heard.updates("kid").into_iter().find(|update| update["toolCallId"].is_string());
        let creates = match pairing.client {
            Version::V1 => "tool_call",
            Version::V2 => "tool_call_update",
        };
        assert_eq!(first.expect("a call")["sessionUpdate"], creates);
        assert_eq!(heard.view(&session).agent(), ["done"]);
    }
}

async fn r8_15_a_child_asks_in_its_own_name(pairing: Pairing) {
    for takes in [true, false] {
        let (world, client, session) = if takes { begun(pairing).await } else { begun_bare(pairing).await };
        let announced = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "title": "Kid"});
        let turn = client.begin_prompt(&session, &format!("{}say a\nwait on", script([&announced]))).await;
        client.wait_update(0, &session, "the turn", |update| update["content"]["text"] == "a").await;
        let call = json!({"toolCallId": "k", "title": "Run it"});
        let mut params = json!({"sessionId": "kid", "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]});
        match pairing.agent {
            Version::V1 => params["toolCall"] = call,
            Version::V2 => {
                params["title"] = json!("Run it?");
                params["subject"] = json!({"type": "tool_call", "toolCall": call});
            }
        }
        let method = "session/request_permission";
        world.agent.send(json!({"jsonrpc": "2.0", "id": 501, "method": method, "params": params})).await;
        let asked = client.wait_method(method).await;
        let knows_it = takes || pairing.client == Version::V2;
        assert_eq!(asked["params"]["sessionId"], if knows_it { "kid" } else { session.as_str() });
        let answer = world.agent.wait_told("answer", 1).await;
        assert_eq!(answer["result"]["outcome"]["optionId"], "yes");
        world.agent.open_gate("on");
        client.finish(&session, &turn).await;
    }
}

// 8.16: whole messages for version 1.

async fn r8_16_a_whole_message_is_shown_once(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    // Said in pieces, then as a whole; told longer and longer; told in one piece.
    let updates = [
        chunk("m", "one"),
        chunk("m", " two"),
        whole("m", json!([text("one two")])),
        whole("n", json!([text("a")])),
        whole("n", json!([text("ab")])),
        whole("n", json!([text("ab"), text("c")])),
        whole("o", json!([text("x")])),
    ];
    client.prompt(&session, &script(&updates)).await;
    assert_eq!(client.view(&session).agent(), ["one two", "abc", "x"]);
    assert_replays(&world, &client, &session, &client.view(&session)).await;
}

async fn r8_16_a_changed_message_is_not_lost(pairing: Pairing) {
    let (world, client, session) = begun(pairing).await;
    let updates = [
        whole("m", json!([text("first")])),
        whole("m", json!([text("second")])),
        whole("m", json!([text("third")])),
        chunk("m", " more"),
        whole("n", json!([text("wrong")])),
        whole("n", json!([])),
        chunk("n", "right"),
        json!({"sessionUpdate": "agent_message", "messageId": "o", "_meta": {"k": 1}}),
    ];
    client.prompt(&session, &script(&updates)).await;
    let live = client.view(&session).agent();
    match pairing.client {
        Version::V1 => {
            assert_eq!(live, ["first", "second", "third more", "wrong", "(message withdrawn)", "right", ""]);
        }
        Version::V2 => assert_eq!(live, ["third more", "right", ""]),
    }
    let next = replayed(&world, &client, &session).await;
    assert_eq!(next.view(&session).agent(), ["third more", "right", ""]);
}

pairings!(
    r8_03_every_update_of_the_schema_arrives,
    r8_03_unknown_updates_are_kept_to_the_byte,
    r8_04_the_same_chunk_twice_is_said_twice,
    r8_04_a_replay_shows_what_was_live,
    r8_05_tool_calls_are_patched,
    r8_05_a_restarted_agent_does_not_overwrite_what_was,
    r8_05_diffs_are_shown_in_the_words_of_the_client,
    r8_17_terminals_of_the_client_are_not_those_of_the_agent,
    r8_08_a_plan_replaces_the_one_before,
    r8_09_an_answer_has_all_options,
    r8_09_a_wrong_choice_changes_nothing,
    r8_09_lists_of_options_and_commands_are_replaced,
    r8_09_boolean_options_are_for_those_who_take_them,
    r8_10_modes_models_and_options_are_one_state,
    r8_11_session_info_is_patched,
    r8_11_the_title_of_the_user_stays,
    r8_12_notices_are_of_the_moment,
    r8_13_a_compaction_stays_where_it_began,
    r8_13_compactions_are_told_in_words_to_others,
    r8_14_plans_and_children_only_for_those_who_take_them,
    r8_15_a_child_is_announced_before_it_speaks,
    r8_15_a_child_is_announced_again_without_a_replay,
    r8_15_a_child_asks_in_its_own_name,
);
pairings!(agent V1: r8_03_messages_without_an_id_get_one);
pairings!(
    agent V2:
    r8_01_messages_are_upserts,
    r8_02_an_id_names_one_message_of_each_kind,
    r8_05_content_of_tool_calls_is_appended_and_cleared,
    r8_05_a_cancelled_call_is_a_failed_one_in_version_1,
    r8_05_a_diff_that_cannot_be_rebuilt_is_told_in_words,
    r8_06_terminal_output_is_replaced_by_a_snapshot,
    r8_06_a_terminal_may_be_told_before_its_call,
    r8_06_terminals_of_a_restarted_agent_are_others,
    r8_07_an_exit_is_told_and_ends_the_terminal,
    r8_16_a_whole_message_is_shown_once,
    r8_16_a_changed_message_is_not_lost,
);

pairings!(wire:
    // With the library a child has an id and a voice that are not of the script.
    r8_15_all_that_a_child_does_is_in_the_words_of_the_client,
);
