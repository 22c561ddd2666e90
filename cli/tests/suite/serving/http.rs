//! `rethread serve` with HTTP, `rethread token`, and clients that connect by address.

use std::fs;
use std::process::Stdio;

use rethread::edge::Version;
use rethread_testkit::program::{Home, Program, ServerProgram};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{home, run, stderr, stdout};

/// Configures the scripted agent as `scripted`, for sessions in the folder beside the home.
pub(super) fn configure(home: &Home, agent: Version) {
    let words: Vec<String> =
        home.scripted(agent).iter().map(|word| format!("{:?}", word.to_string_lossy())).collect();
    let roots = home.beside().canonicalize().expect("it exists").display().to_string();
    let text = format!(
        "default_agent = \"scripted\"\n[agents.scripted]\ncommand = [{}]\n[serve]\nroots = [{roots:?}]\n",
        words.join(", ")
    );
    fs::create_dir_all(home.path()).expect("a folder can be made");
    fs::write(home.path().join("config.toml"), text).expect("it can be written");
}

pub(super) fn url(server: &ServerProgram) -> String {
    server.addresses.iter().find(|address| address.starts_with("http://")).expect("it has HTTP").clone()
}

pub(super) async fn new_token(home: &Home, role: &str) -> String {
    let made = run(home, &["token", "new", "test", "--role", role]).await;
    assert!(made.status.success(), "{}", stderr(&made));
    stdout(&made).trim_end().to_owned()
}

/// The status and the body of the answer to one request.
pub(super) async fn request(
    server: &ServerProgram,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> (u16, String) {
    let address = url(server).trim_start_matches("http://").to_owned();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{token}Content-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let asking = async {
        let mut stream = TcpStream::connect(&address).await.expect("it listens");
        stream.write_all(head.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers with text");
        answer
    };
    let answer = tokio::time::timeout(rethread_testkit::DEADLINE, asking).await.expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it has a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("it has a status");
    (status, body.to_owned())
}

fn remote(home: &Home, url: &str, token: &str) -> Program {
    let mut acp = home.command(&["acp", "--connect", url]);
    acp.env("RETHREAD_TOKEN", token).stderr(Stdio::piped());
    Program::start(acp, Version::V1)
}

#[tokio::test]
async fn an_editor_uses_a_server_by_its_address_beside_a_local_one() {
    for agent in [Version::V1, Version::V2] {
        let home = home();
        configure(&home, agent);
        let server = home.serve_http(&[]).await;
        let token = new_token(&home, "full").await;
        let cwd = home.beside().display().to_string();
        let far = remote(&home, &url(&server), &token);
        far.client.initialize().await;
        let session = far.client.new_session_in(&cwd).await;
        assert_eq!(far.client.prompt(&session, "say one; permit").await.stop, "end_turn");

        let near = home.ready(Version::V2, agent).await;
        near.client.load_in(&cwd, &session).await;
        assert_eq!(near.client.prompt(&session, "say two").await.stop, "end_turn");
        let said = |update: &Value| update["content"]["text"] == "two";
        far.client.wait_update(0, &session, "two", said).await;
        assert_eq!(far.client.view(&session).agent(), near.client.view(&session).agent());
    }
}

#[tokio::test]
async fn a_chat_with_a_server_by_its_address() {
    let home = home();
    configure(&home, Version::V1);
    let server = home.serve_http(&[]).await;
    let file = home.beside().join("token");
    fs::write(&file, new_token(&home, "full").await + "\n").expect("it can be written");
    let mut chat = home.command(&["chat", "--yes", "--connect", &url(&server), "say hello"]);
    chat.arg("--token-file").arg(&file).current_dir(home.beside());
    let chat = chat.output().await.expect("it runs");
    assert_eq!(stdout(&chat), "hello\n", "{}", stderr(&chat));
}

#[tokio::test]
async fn the_end_of_a_remote_server_is_one_line_on_stderr() {
    let home = home();
    configure(&home, Version::V1);
    let server = home.serve_http(&[]).await;
    let token = new_token(&home, "full").await;
    let mut acp = home.command(&["acp", "--connect", &url(&server), "--reconnect-seconds", "0"]);
    acp.env("RETHREAD_TOKEN", &token).stderr(Stdio::piped());
    let mut far = Program::start(acp, Version::V1);
    far.client.initialize().await;
    assert!(run(&home, &["serve", "--stop"]).await.status.success());
    server.exited().await;
    assert_eq!(far.exited().await.code(), Some(1));
    let said = far.stderr().await;
    assert!(
        said.starts_with("error: the server has ended the connection") && said.lines().count() == 1,
        "{said}"
    );
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let home = home();
    configure(&home, Version::V1);
    let server = home.serve_http(&[]).await;
    let made = run(&home, &["token", "new", "my phone", "--role", "observer", "--expires", "30d"]).await;
    let token = stdout(&made);
    assert!(token.starts_with("rethread_") && token.ends_with('\n') && token.lines().count() == 1, "{token}");
    assert!(stderr(&made).contains("can read all sessions"), "{}", stderr(&made));
    let full = run(&home, &["token", "new", "laptop"]).await;
    assert!(stderr(&full).contains("worth a shell"), "{}", stderr(&full));

    let listed = run(&home, &["token", "list", "--json"]).await;
    assert!(!stdout(&listed).contains(token.trim_end()));
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("it is JSON");
    assert_eq!(
        (&listed["tokens"][0]["name"], &listed["tokens"][0]["role"]),
        (&json!("my phone"), &json!("observer"))
    );
    assert_eq!(listed["tokens"][0]["valid"], true);
    let id = listed["tokens"][1]["id"].as_str().expect("an id");
    let mut far = remote(&home, &url(&server), stdout(&full).trim_end());
    far.client.initialize().await;
    assert!(run(&home, &["token", "revoke", id]).await.status.success());
    assert_eq!(far.exited().await.code(), Some(1), "its connection is closed");
    assert_eq!(run(&home, &["token", "revoke", id]).await.status.code(), Some(3));
}

#[tokio::test]
async fn wrong_ways_to_connect_are_explained() {
    let home = home();
    configure(&home, Version::V1);
    let server = home.serve_http(&[]).await;
    let address = url(&server);
    let no_token = run(&home, &["acp", "--connect", &address]).await;
    assert_eq!(no_token.status.code(), Some(4));
    assert!(
        stderr(&no_token).contains("401") && stderr(&no_token).contains("RETHREAD_TOKEN"),
        "{}",
        stderr(&no_token)
    );
    let in_address = run(&home, &["acp", "--connect", &format!("{address}/?token=abc")]).await;
    assert_eq!(in_address.status.code(), Some(2));
    let command = run(&home, &["acp", "--connect", &address, "--", "sh"]).await;
    assert_eq!(command.status.code(), Some(2), "{}", stderr(&command));
    let nobody = run(&home, &["acp", "--connect", "http://127.0.0.1:1"]).await;
    assert_eq!(nobody.status.code(), Some(1), "{}", stderr(&nobody));
}

#[tokio::test]
async fn a_taken_port_and_an_open_one_without_tls_are_refused() {
    let home = home();
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = taken.local_addr().expect("it is bound").to_string();
    let refused = run(&home, &["serve", "--listen", &address]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("another program uses the port"), "{}", stderr(&refused));
    let open = run(&home, &["serve", "--listen", "0.0.0.0:0"]).await;
    assert_eq!(open.status.code(), Some(2));
    assert!(stderr(&open).contains("--tls-cert"), "{}", stderr(&open));
    let files = run(&home, &["serve", "--listen", "0.0.0.0:0", "--tls-cert", "no", "--tls-key", "no"]).await;
    assert_eq!(files.status.code(), Some(1));
}
