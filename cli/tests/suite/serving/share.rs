//! `rethread share`: links to one session are made, listed, used and revoked.

use std::time::{Duration, Instant};

use rethread::edge::Version;
use serde_json::{Value, json};

use super::http::{configure, request, url};
use super::{home, run, stderr, stdout};

#[tokio::test]
async fn a_link_is_made_listed_and_revoked() {
    let home = home();
    configure(&home, Version::V1);
    let server = home.serve_http(&[]).await;
    let editor = home.ready(Version::V1, Version::V1).await;
    let session = editor.client.new_session_in(&home.beside().display().to_string()).await;
    editor.client.prompt(&session, "say one").await;
    let made = run(&home, &["share", &session, "--expires", "1d"]).await;
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(stderr(&made).contains("rethread share revoke"), "{}", stderr(&made));
    let link = stdout(&made);
    let token =
        link.trim_end().strip_prefix(&format!("{}/#share=", url(&server))).expect("it is in the fragment");
    assert_eq!(request(&server, "GET", "/readyz", Some(token), "").await.0, 200);

    let listed = run(&home, &["share", "list", "--json"]).await;
    assert!(!stdout(&listed).contains(token));
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("it is JSON");
    let share = &listed["shares"][0];
    assert_eq!(
        (&share["session"], &share["redact"], &share["valid"]),
        (&json!(session), &json!(true), &json!(true))
    );
    let id = share["id"].as_str().expect("an id");
    let other = run(&home, &["token", "new", "other"]).await;
    assert!(other.status.success());
    assert_eq!(run(&home, &["share", "revoke", "00000000"]).await.status.code(), Some(3));
    assert!(run(&home, &["share", "revoke", id]).await.status.success());
    let give_up = Instant::now() + Duration::from_secs(5);
    while request(&server, "GET", "/readyz", Some(token), "").await.0 != 401 {
        assert!(Instant::now() < give_up, "a revoked link is over within five seconds");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let named = run(&home, &["share", &session, "--url", "https://team.example:7373/", "--no-redact"]).await;
    assert!(stdout(&named).starts_with("https://team.example:7373/#share="), "{}", stderr(&named));
    for wrong in ["ftp://x", "https://x/#y", "https://me:pw@x"] {
        assert_eq!(run(&home, &["share", &session, "--url", wrong]).await.status.code(), Some(2), "{wrong}");
    }
    assert_eq!(run(&home, &["share", "no-such-session"]).await.status.code(), Some(3));
}
