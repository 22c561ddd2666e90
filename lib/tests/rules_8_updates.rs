//! Section 8 of the rules: what each update means, live and in a replay, on all pairings.

#[path = "rules_8_updates/samples.rs"]
mod samples;

use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use samples::{Kept, Sample};

/// The script that says these updates.
fn script<'a>(updates: impl IntoIterator<Item = &'a Value>) -> String {
    updates.into_iter().map(|update| format!("raw {update}\n")).collect()
}

/// A client that loads the session from the next process, after a fold of all of it.
async fn replayed(world: &World, client: &Client, session: &str) -> Client {
    client.hang_up().await;
    world.agent.wait_gone().await;
    world.fold(session);
    let next = world.again().ready().await;
    next.load(session).await;
    next
}

/// The updates of a session that have a word in them.
fn with_word(client: &Client, session: &str, word: &str) -> Vec<Value> {
    let updates = client.updates(session).into_iter();
    // The prompt has all words in it.
    let spoken = updates.filter(|update| !update.to_string().contains("raw {"));
    spoken.filter(|update| update.to_string().contains(word)).collect()
}

async fn r8_03_every_update_of_the_schema_arrives(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let samples = samples::all(pairing.agent);
    let all = script(samples.iter().map(|sample| &sample.update));
    client.prompt(&session, &format!("toolopen call_1\n{all}")).await;
    for sample in &samples {
        let Some(tag) = sample.tag(pairing.client) else { continue };
        let heard = with_word(&client, &session, sample.word);
        assert!(heard.iter().any(|update| update["sessionUpdate"] == tag), "{tag} of {}: {heard:#?}", sample.update);
        if pairing.client == pairing.agent && sample.update["sessionUpdate"] == tag {
            assert!(heard.contains(&sample.update), "unchanged: {}\n{heard:#?}", sample.update);
        }
    }
    let next = replayed(&world, &client, &session).await;
    for sample in &samples {
        if sample.tag(pairing.client).is_none() {
            continue;
        }
        let heard = next.heard().into_iter().filter(|message| !message.to_string().contains("raw {"));
        let heard = heard.filter(|message| message.to_string().contains(sample.word)).count();
        match sample.kept {
            Kept::Yes => assert!(heard > 0, "replay: {}", sample.update),
            Kept::No if sample.word.starts_with("w-") => assert_eq!(heard, 0, "replay: {}", sample.update),
            Kept::No => {}
        }
    }
}

pairings!(r8_03_every_update_of_the_schema_arrives);
