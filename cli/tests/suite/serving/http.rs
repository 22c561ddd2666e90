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
    request_at(url(server).trim_start_matches("http://"), method, path, token, body).await
}

/// The same for a server by host and port.
pub(super) async fn request_at(
    address: &str,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> (u16, String) {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{token}Content-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let asking = async {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
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
    let argument = run(&home, &["acp", "--connect", &address, "--token", "abc"]).await;
    assert_eq!(argument.status.code(), Some(2), "others could see it: {}", stderr(&argument));
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

#[tokio::test]
async fn a_server_with_tls_is_used_by_those_who_trust_its_certificate() {
    let home = home();
    configure(&home, Version::V1);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("it can be made");
    let (certificate, key) = (home.beside().join("certificate.pem"), home.beside().join("key.pem"));
    fs::write(&certificate, made.cert.pem()).expect("it can be written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("it can be written");
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let server = home.serve_http(&["--tls-cert", &certificate, "--tls-key", &key]).await;
    let address = server.addresses.iter().find_map(|address| address.strip_prefix("https://127.0.0.1"));
    let url = format!("https://localhost{}", address.expect("it has TLS"));
    let token = new_token(&home, "full").await;
    let mut acp = home.command(&["acp", "--connect", &url, "--ca", &certificate]);
    acp.env("RETHREAD_TOKEN", &token).stderr(Stdio::piped());
    let far = Program::start(acp, Version::V1);
    far.client.initialize().await;
    let session = far.client.new_session_in(&home.beside().display().to_string()).await;
    assert_eq!(far.client.prompt(&session, "say one").await.stop, "end_turn");
    let mut unknown = home.command(&["acp", "--connect", &url]);
    let unknown = unknown.env("RETHREAD_TOKEN", &token).output().await.expect("it runs");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("cannot be reached"), "{}", stderr(&unknown));
}

#[tokio::test]
async fn agents_are_configured_ones_and_get_no_variables_of_rethread_or_of_a_database() {
    let home = home();
    configure(&home, Version::V1);
    // An agent that writes its environment to a file, and is none.
    let seen = home.beside().join("environment");
    let script = format!("env > {}.part && mv {}.part {}", seen.display(), seen.display(), seen.display());
    let file = home.path().join("config.toml");
    let text = fs::read_to_string(&file).expect("it is there");
    fs::write(
        &file,
        format!("{text}[agents.shows]\ncommand = [\"sh\", \"-c\", {script:?}]\nenv = {{ KEPT = \"yes\" }}\n"),
    )
    .expect("it can be written");
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    for name in
        ["RETHREAD_TOKEN", "RETHREAD_DATABASE_URL", "PGPASSWORD", "PGHOST", "PGPASSFILE", "DATABASE_URL"]
    {
        command.env(name, "a secret of the server");
    }
    let server = ServerProgram::start(command).await;
    let token = new_token(&home, "full").await;
    let initialize =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}});
    for name in ["sh", "/bin/sh", "codex", "no", "scripted%20--help"] {
        let path = format!("/acp?agent={name}");
        let (status, said) = request(&server, "POST", &path, Some(&token), &initialize.to_string()).await;
        assert_eq!(status, 400, "{name}: {said}");
    }
    // It fails, since the agent says nothing; its environment was written before.
    request(&server, "POST", "/acp?agent=shows", Some(&token), &initialize.to_string()).await;
    let deadline = std::time::Instant::now() + rethread_testkit::DEADLINE;
    while !seen.exists() {
        assert!(std::time::Instant::now() < deadline, "the agent was started");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let environment = fs::read_to_string(&seen).expect("it is text");
    assert!(environment.contains("KEPT=yes") && environment.contains("PATH="), "{environment}");
    assert!(
        !environment.contains("a secret of the server") && !environment.contains("RETHREAD_"),
        "{environment}"
    );
}

#[tokio::test]
async fn no_token_is_in_logs_or_errors() {
    let home = home();
    configure(&home, Version::V1);
    let server = home.serve_http(&["--log-level", "debug"]).await;
    let token = new_token(&home, "full").await;
    let wrong = "rethread_wrong-secret";
    let mut answers = String::new();
    for (given, path) in [
        (token.as_str(), "/readyz"),
        (wrong, "/readyz"),
        (wrong, "/acp"),
        (&token, "/metrics"),
        (&token, "/nothing"),
    ] {
        answers += &request(&server, "GET", path, Some(given), "").await.1;
    }
    let far = remote(&home, &url(&server), &token);
    far.client.initialize().await;
    let mut refused = home.command(&["acp", "--connect", &url(&server)]);
    let refused = refused.env("RETHREAD_TOKEN", wrong).output().await.expect("it runs");
    assert_eq!(refused.status.code(), Some(4));
    let folder = home.path().join("state/logs");
    let files = fs::read_dir(folder).expect("there are logs").flatten();
    let logs: String = files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
    assert!(logs.contains("serving in process"), "{logs}");
    let said = format!("{answers}{logs}{}{}", stdout(&refused), stderr(&refused));
    assert!(!said.contains(&token) && !said.contains(wrong), "{said}");
}
