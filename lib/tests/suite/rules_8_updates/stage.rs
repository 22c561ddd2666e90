//! What the tests of updates share: how a session is begun and replayed, what is said in it, what is seen of it.

use rethread_testkit::client::Client;
use rethread_testkit::view::{Item, Name, View};
use rethread_testkit::{Pairing, World};
use serde_json::{Value, json};

/// The script that says these updates.
pub(super) fn script<'a>(updates: impl IntoIterator<Item = &'a Value>) -> String {
    updates.into_iter().map(|update| format!("raw {update}\n")).collect()
}

/// A world with a client that takes nothing beyond what it must, and a session.
pub(super) async fn begun_bare(pairing: Pairing) -> (World, Client, String) {
    let world = World::of(pairing);
    let client = world.connect();
    client.initialize_bare().await;
    let session = client.new_session().await;
    (world, client, session)
}

/// Finds that clients of both versions are shown this by a replay, before a fold and after it.
pub(super) async fn assert_replays(world: &World, client: &Client, session: &str, expected: &View) {
    let again = world.restarted(client).await;
    for folded in ["as written", "folded"] {
        let version = client.version;
        let next = again.ready_as(version).await;
        next.load(session).await;
        let view = next.view(session);
        assert_eq!(view, *expected, "{folded}, v{}:\n{view}\nexpected:\n{expected}", version.number());
        next.disconnect().await;
        world.agent.wait_gone().await;
        again.fold(session).await;
    }
}

/// The updates of a session that have a word in them.
pub(super) fn with_word(client: &Client, session: &str, word: &str) -> Vec<Value> {
    let updates = client.updates(session).into_iter();
    // The prompt has all words in it.
    let spoken = updates.filter(|update| !update.to_string().contains("raw {"));
    spoken.filter(|update| update.to_string().contains(word)).collect()
}

pub(super) fn with_tag(client: &Client, session: &str, tag: &str) -> Vec<Value> {
    client.updates(session).into_iter().filter(|update| update["sessionUpdate"] == tag).collect()
}

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(super) fn chunk(id: &str, words: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": text(words)})
}

pub(super) fn item(words: &str) -> Value {
    json!({"type": "content", "content": text(words)})
}

/// What tool calls show, each as its lines.
pub(super) fn shown_of_tools(view: &View) -> Vec<Vec<String>> {
    let content = |item: &Item| match item {
        Item::Tool { content, .. } => Some(content.clone()),
        Item::Message { .. } | Item::Other(_) => None,
    };
    view.items.iter().filter_map(content).collect()
}

/// The messages of a view with their ids.
pub(super) fn named_messages(view: &View) -> Vec<(String, String)> {
    let message = |item: &Item| match item {
        Item::Message { id: Name(Some(id)), text, .. } => Some((id.clone(), text.clone())),
        Item::Message { .. } | Item::Tool { .. } | Item::Other(_) => None,
    };
    view.items.iter().filter_map(message).collect()
}
