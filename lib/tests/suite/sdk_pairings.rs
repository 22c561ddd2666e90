//! Rethread between peers that somebody else has written: agents and clients on the official SDK, versions 1
//! and 2 on either side. Every message must be read by the SDK's types, and nothing of it be lost on the way.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![expect(clippy::wildcard_enum_match_arm, reason = "whatever else the SDK's enums have is not expected")]

mod sdk;

use std::sync::Arc;

use rethread::edge::Version;
use rethread::store::memory::MemoryStore;
use sdk::strict::{self, Role};
use sdk::{Scene, client_v1, client_v2};

/// What everybody sees, whatever the versions.
const VIEW: &str = "\
user: work
thought: let me see
agent: Hello
tool: Write notes Edit Completed [written; /project/notes.txt -old +new]
plan: write Completed, check Pending
agent: You said yes
user: wait
agent: waiting
";

#[tokio::test]
async fn client_v1_with_agent_v1() {
    check(Version::V1, Version::V1).await;
}

#[tokio::test]
async fn client_v1_with_agent_v2() {
    check(Version::V1, Version::V2).await;
}

#[tokio::test]
async fn client_v2_with_agent_v1() {
    check(Version::V2, Version::V1).await;
}

#[tokio::test]
async fn client_v2_with_agent_v2() {
    check(Version::V2, Version::V2).await;
}

/// Works in a session, looks at it again in both versions on new connections, and checks every line.
async fn check(client: Version, agent: Version) {
    let scene = Scene::new(Arc::new(MemoryStore::new()), agent);
    let (transport, tap) = scene.connect();
    let (session, live, heard, asked) = match client {
        Version::V1 => {
            let (session, seen) = client_v1::converse(transport).await;
            (session, seen.view.to_string(), seen.updates, seen.asked)
        }
        Version::V2 => {
            let (session, seen) = client_v2::converse(transport).await;
            (session, seen.view.to_string(), seen.updates, seen.asked)
        }
    };
    assert_eq!(live, VIEW);
    assert_eq!(asked, 1);
    assert_eq!(strict::check(&tap, Role::Client, client), heard, "every update reaches the client");

    let (transport, tap) = scene.connect();
    let seen = client_v1::look_again(transport, &session).await;
    assert_eq!(seen.view.to_string(), live);
    let stands = (seen.usage, seen.title.as_deref(), &seen.commands[..]);
    assert_eq!(stands, (Some(10), Some("work"), &["plan".to_owned()][..]));
    assert_eq!(strict::check(&tap, Role::Client, Version::V1), seen.updates);

    let (transport, tap) = scene.connect();
    let seen = client_v2::look_again(transport, &session).await;
    assert_eq!(seen.view.to_string(), live);
    assert_eq!((seen.usage, seen.title.as_deref()), (Some(10), Some("work")));
    assert_eq!(strict::check(&tap, Role::Client, Version::V2), seen.updates);

    let (transport, tap) = scene.connect();
    let (seen, heard) = match client {
        Version::V1 => {
            let seen = client_v1::go_on(transport, &session).await;
            (seen.view.to_string(), seen.updates)
        }
        Version::V2 => {
            let seen = client_v2::go_on(transport, &session).await;
            (seen.view.to_string(), seen.updates)
        }
    };
    // A session has one plan here: it stands where it first stood.
    let again: String = VIEW.split_inclusive('\n').take(6).filter(|line| !line.starts_with("plan")).collect();
    assert_eq!(seen, format!("{VIEW}{again}"));
    assert_eq!(strict::check(&tap, Role::Client, client), heard);

    strict::check(&scene.agent.tap, Role::Agent, agent);
}
