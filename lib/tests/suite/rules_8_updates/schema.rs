//! Rule 8.3: every update of the schema and every unknown one arrives, as the client's version has it.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rethread::edge::Version;
use rethread::transport::{Wire, memory as pipe};
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::json;
use tokio::io::{AsyncRead, ReadBuf};

use super::samples;
use super::samples::Kept;
use super::stage::{script, with_word};

async fn r8_03_every_update_of_the_schema_arrives(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
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
    let next = world.replayed(&client, &session).await;
    for sample in samples.iter().filter(|sample| sample.tag(pairing.client).is_some()) {
        let heard =
            next.server_messages().into_iter().filter(|message| !message.to_string().contains("raw {"));
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
    let again = world.restarted(&client).await;
    again.fold(&session).await;
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
    let serving = tokio::spawn(async move { server.serve(there).await });
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

pairings!(r8_03_every_update_of_the_schema_arrives, r8_03_unknown_updates_are_kept_to_the_byte,);
