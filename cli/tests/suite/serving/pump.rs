//! `rethread acp` with a server: the agent runs in the server, with the environment of its client, and goes on without it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use rethread::edge::Version;
use rethread_testkit::processes::signal;
use rethread_testkit::program::{Home, Program};
use serde_json::{Value, json};

use super::{home, run};

const BOTH: [Version; 2] = [Version::V1, Version::V2];

async fn sessions_of_server(home: &Home) -> Value {
    let status = run(home, &["serve", "--status", "--json"]).await;
    let status: Value = serde_json::from_slice(&status.stdout).expect("it is JSON");
    status["sessions"].clone()
}

#[tokio::test]
async fn a_turn_goes_on_without_its_editor_and_another_one_sees_it() {
    for version in BOTH {
        for agent in BOTH {
            let home = home();
            let _server = home.serve(&[]).await;
            let mut first = home.ready(version, agent).await;
            let session = first.client.new_session().await;
            assert_eq!(first.client.prompt(&session, "say one").await.stop, "end_turn");
            first.client.on("session/request_permission", |_| None);
            first.client.begin_prompt(&session, "say two; permit; say three").await;
            first.client.wait_method("session/request_permission").await;
            first.kill().await;
            assert_eq!(sessions_of_server(&home).await, json!({"open": 1, "running": 0, "waiting": 1}));

            let second = home.ready(version, agent).await;
            // This one allows what it is asked for.
            second.client.load(&session).await;
            let said = |update: &Value| update["content"]["text"] == "three";
            second.client.wait_update(0, &session, "three", said).await;
            let view = second.client.view(&session);
            assert_eq!(view.agent().first().map(String::as_str), Some("one"));
            assert_eq!(view.agent().last().map(String::as_str), Some("three"));
        }
    }
}

#[tokio::test]
async fn two_editors_follow_one_session() {
    let home = home();
    let _server = home.serve(&[]).await;
    let one = home.ready(Version::V1, Version::V1).await;
    let two = home.ready(Version::V2, Version::V1).await;
    let session = one.client.new_session().await;
    one.client.prompt(&session, "say one").await;
    two.client.load(&session).await;
    assert_eq!(two.client.prompt(&session, "say two").await.stop, "end_turn");
    let said = |update: &Value| update["content"]["text"] == "two";
    one.client.wait_update(0, &session, "two", said).await;
    assert_eq!(one.client.view(&session).agent(), two.client.view(&session).agent());
}

/// An agent that writes its environment and directory to a file before it is the scripted one.
fn reporting_agent(home: &Home, file: &std::path::Path) -> Vec<OsString> {
    let agent = home.scripted(Version::V1);
    let mut words: Vec<OsString> =
        vec!["sh".into(), "-c".into(), "{ pwd; env -0; } > \"$0\"; exec \"$@\"".into(), file.into()];
    words.extend(agent);
    words
}

#[tokio::test]
async fn an_agent_gets_exactly_the_environment_and_directory_of_its_client() {
    let home = home();
    let mut serve = home.command(&["serve", "--listen", "off"]);
    serve.env("ONLY_SERVER", "1").env("BOTH_HAVE", "server");
    let _server = rethread_testkit::program::ServerProgram::start(serve).await;
    let (file, folder) = (home.beside().join("report"), home.beside().join("project"));
    fs::create_dir(&folder).expect("a folder can be made");
    let mut acp = home.acp(&reporting_agent(&home, &file));
    acp.env_clear()
        .env("RETHREAD_HOME", home.path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    acp.env("BOTH_HAVE", "client").env("LINES_IN_IT", "a\nb").current_dir(&folder);
    let program = Program::start(acp, Version::V1);
    program.client.initialize().await;
    let report = String::from_utf8(fs::read(&file).expect("the agent wrote it")).expect("it is text");
    let (directory, environment) = report.split_once('\n').expect("two parts");
    assert_eq!(directory, folder.canonicalize().expect("it exists").display().to_string());
    let mut names: Vec<&str> =
        environment.split('\0').filter_map(|variable| Some(variable.split_once('=')?.0)).collect();
    // A shell sets these itself.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["BOTH_HAVE", "LINES_IN_IT", "PATH"], "{environment:?}");
    assert!(environment.contains("BOTH_HAVE=client\0") && environment.contains("LINES_IN_IT=a\nb\0"));
}

#[tokio::test]
async fn the_end_of_the_server_is_one_line_on_stderr() {
    for end in [libc::SIGKILL, libc::SIGTERM] {
        let home = home();
        let server = home.serve(&[]).await;
        let mut acp = home.acp(&home.scripted(Version::V1));
        acp.stderr(Stdio::piped());
        let mut program = Program::start(acp, Version::V1);
        program.client.initialize().await;
        let session = program.client.new_session().await;
        program.client.prompt(&session, "say one").await;
        signal(server.pid(), end);
        server.exited().await;
        assert_eq!(program.exited().await.code(), Some(1));
        assert_eq!(program.stderr().await, "error: the server has ended; the sessions are kept\n");
        let again = home.ready(Version::V1, Version::V1).await;
        again.client.load(&session).await;
        assert_eq!(again.client.view(&session).agent(), ["one"]);
    }
}

#[tokio::test]
async fn an_editor_that_ends_its_input_still_gets_its_answers() {
    let home = home();
    let _server = home.serve(&[]).await;
    let mut program = home.ready(Version::V1, Version::V1).await;
    program.client.disconnect().await;
    assert!(program.exited().await.success());
}

/// Whether `acp` works, what it says on stderr, and whether it used the server.
async fn alone(home: &Home, args: &[&str]) -> (String, Value) {
    let mut words = vec!["acp"];
    words.extend(args);
    words.push("--");
    let mut acp = home.command(&words);
    acp.args(home.scripted(Version::V1)).stderr(Stdio::piped());
    let mut program = Program::start(acp, Version::V1);
    program.client.initialize().await;
    let session = program.client.new_session().await;
    assert_eq!(program.client.prompt(&session, "say one").await.stop, "end_turn");
    let sessions = sessions_of_server(home).await;
    program.client.disconnect().await;
    program.exited().await;
    (program.stderr().await, sessions)
}

#[tokio::test]
async fn the_server_can_be_left_out() {
    let home = home();
    let _server = home.serve(&[]).await;
    let (said, sessions) = alone(&home, &["--server", "off"]).await;
    assert_eq!((said.as_str(), &sessions["open"]), ("", &json!(0)));
    let (said, sessions) = alone(&home, &[]).await;
    assert_eq!((said.as_str(), &sessions["open"]), ("", &json!(1)));
}

#[tokio::test]
async fn a_socket_that_others_could_have_made_gets_no_environment() {
    let home = home();
    let server = home.serve(&[]).await;
    let folder = server.socket().parent().expect("it has a folder").to_owned();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut acp = home.acp(&home.scripted(Version::V1));
    acp.stderr(Stdio::piped());
    let mut program = Program::start(acp, Version::V1);
    program.client.initialize().await;
    program.client.disconnect().await;
    program.exited().await;
    let said = program.stderr().await;
    assert!(said.starts_with("note: working without the server: ") && said.contains("not private"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[tokio::test]
async fn a_server_of_another_version_is_not_used() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let home = home();
    let server = home.serve(&[]).await;
    let socket = server.socket();
    let registered = fs::read(home.path().join("state/server.json")).expect("it is registered");
    signal(server.pid(), libc::SIGKILL);
    server.exited().await;
    fs::remove_file(&socket).expect("it was left");
    fs::write(home.path().join("state/server.json"), registered).expect("it can be written");
    let listener = tokio::net::UnixListener::bind(&socket).expect("it is free");
    let other = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client comes");
        let greeting = json!({"handshake": 99, "version": "9.9", "pid": 1, "state": "running"});
        stream.write_all(format!("{greeting}\n").as_bytes()).await.expect("it reads");
        let mut sent = Vec::new();
        let reading = stream.read_to_end(&mut sent);
        tokio::time::timeout(Duration::from_secs(20), reading)
            .await
            .expect("it hangs up")
            .expect("it can be read");
        sent
    });
    let mut acp = home.acp(&home.scripted(Version::V1));
    acp.stderr(Stdio::piped());
    let mut program = Program::start(acp, Version::V1);
    program.client.initialize().await;
    assert_eq!(other.await.expect("it does not panic"), b"", "nothing was sent");
    program.client.disconnect().await;
    program.exited().await;
    let said = program.stderr().await;
    assert!(said.contains("of another version (9.9)") && said.lines().count() == 1, "{said}");
}
