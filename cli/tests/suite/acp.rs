//! The command line of the shipped program: what it says when it cannot work, where it keeps things, and what
//! it never tells.

mod terminal;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use rethread::edge::Version;
use rethread_testkit::client::CWD;
use rethread_testkit::program::{Home, Program};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

const BOTH: [Version; 2] = [Version::V1, Version::V2];
/// A user without rights.
const NOBODY: u32 = 65534;

#[tokio::test]
async fn the_version_is_told() {
    let output = home().command(&["--version"]).output().await.expect("it runs");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.trim(), format!("rethread {}", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn a_missing_agent_is_named_with_a_hint() {
    for version in BOTH {
        let home = home();
        let program = home.start(version, &["no-such-agent-anywhere".into()]);
        let error = program.client.refused("initialize", program.client.introduction()).await;
        assert_eq!(error["code"], -32603, "{error}");
        assert!(text(&error["message"]).contains("no-such-agent-anywhere"), "{error}");
        assert!(!text(&error["data"]["hint"]).is_empty(), "{error}");
    }
}

#[tokio::test]
async fn the_last_words_of_an_agent_that_exits_are_told() {
    for version in BOTH {
        let home = home();
        let agent = shell("echo 'no API key was found' >&2; exit 3");
        let program = home.start(version, &agent);
        let error = program.client.refused("initialize", program.client.introduction()).await;
        assert!(text(&error["message"]).contains("no API key was found"), "{error}");
        assert!(text(&error["message"]).contains("exit status 3"), "{error}");
        // It may be mended and tried again on the same connection.
        let again = program.client.refused("initialize", program.client.introduction()).await;
        assert_eq!(again, error);
    }
}

#[tokio::test]
async fn an_agents_own_error_at_initialize_is_told_in_its_words() {
    let refuses = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"license expired","data":{"since":"May"}}}"#;
    let answers = |line: &str| shell(&format!("read request; echo '{line}'"));
    for version in BOTH {
        let home = home();
        let program = home.start(version, &answers(refuses));
        let error = program.client.refused("initialize", program.client.introduction()).await;
        assert_eq!(error["code"], -32603, "{error}");
        assert_eq!(error["message"], "the agent refused to initialize: license expired");
        assert_eq!(error["data"]["since"], "May", "{error}");

        let program =
            home.start(version, &answers(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":7}}"#));
        let error = program.client.refused("initialize", program.client.introduction()).await;
        assert!(text(&error["message"]).contains("the agent speaks protocol version 7"), "{error}");

        // It could not read the request, so its answer names none.
        let unread = refuses.replace("\"id\":1", "\"id\":null");
        let program = home.start(version, &answers(&unread));
        let error = program.client.refused("initialize", program.client.introduction()).await;
        assert!(text(&error["message"]).contains("license expired"), "{error}");
    }
}

#[tokio::test]
async fn what_a_failing_agent_prints_is_told_cleaned_and_bounded() {
    let flood = "for i in $(seq 5000); do echo line $i; done";
    let script = format!(r"{flood}; printf '\033[31mno license\033[0m\a \342\200\256found'; exit 2");
    for version in BOTH {
        let home = home();
        let program = home.start(version, &shell(&script));
        let error = program.client.refused("initialize", program.client.introduction()).await;
        let told = text(&error["message"]);
        assert!(told.contains("exit status 2") && told.ends_with("line 5000\nno license found"), "{told}");
        assert!(told.len() < 8 * 1024, "{} bytes", told.len());
        assert!(!told.chars().any(|c| c.is_control() && c != '\n'), "{told:?}");
    }
}

#[tokio::test]
async fn an_agent_that_never_answers_initialize_is_given_up() {
    for version in BOTH {
        let home = home();
        let mut command = home.command(&["acp", "--start-seconds", "1", "--"]);
        command.args(shell("echo 'waiting for a login' >&2; exec sleep 120"));
        let program = Program::start(command, version);
        let error = program.client.refused("initialize", program.client.introduction()).await;
        let told = text(&error["message"]);
        assert!(told.starts_with("the agent did not answer initialize within 1 s"), "{error}");
        assert!(told.contains("waiting for a login"), "{error}");
        assert!(text(&error["data"]["hint"]).contains("--start-seconds"), "{error}");
    }
}

#[tokio::test]
async fn the_last_words_of_an_agent_that_dies_in_a_turn_are_told() {
    let home = home();
    let program = home.ready(Version::V1, Version::V1).await;
    let session = program.client.new_session().await;
    let request = program.client.begin_prompt(&session, "say one; crash").await;
    let error = program.client.answer(&request).await.expect_err("the agent is gone");
    assert!(text(&error["message"]).contains("crashes, as it was told to"), "{error}");
    assert_eq!(program.client.view(&session).agent(), ["one"]);
    assert_eq!(program.client.prompt(&session, "say two").await.stop, "end_turn");
}

#[tokio::test]
async fn sessions_of_an_agent_that_was_broken_or_uninstalled_can_be_read() {
    for version in BOTH {
        let home = home();
        let file = home.beside().join("agent");
        let install = |script: &str| {
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a program");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("our own file");
        };
        let scripted: Vec<_> =
            home.scripted(Version::V1).into_iter().map(|word| word.into_string().unwrap()).collect();
        let works = format!("exec {}", scripted.join(" "));
        install(&works);
        let agent = [file.clone().into_os_string()];
        let mut program = home.start(version, &agent);
        program.client.initialize().await;
        let session = program.client.new_session().await;
        assert_eq!(program.client.prompt(&session, "say kept").await.stop, "end_turn");
        program.client.disconnect().await;
        program.exited().await;

        for (broken, told) in [(Some("echo 'no license' >&2; exit 3"), "no license"), (None, "was not found")]
        {
            match broken {
                Some(script) => install(script),
                None => fs::remove_file(&file).expect("it is there"),
            }
            let mut program = home.start(version, &agent);
            program.client.initialize().await;
            let listed = program.client.ask("session/list", json!({})).await;
            assert_eq!(text(&listed["sessions"][0]["sessionId"]), session, "{listed}");
            program.client.load(&session).await;
            assert_eq!(program.client.view(&session).agent(), ["kept"]);
            let prompt = program.client.begin_prompt(&session, "say more").await;
            let error = program.client.answer(&prompt).await.expect_err("there is no agent");
            assert!(error.to_string().contains(told), "{error}");
            program.client.disconnect().await;
            program.exited().await;
        }
        install(&works);
        let program = home.start(version, &agent);
        program.client.initialize().await;
        program.client.load(&session).await;
        assert_eq!(program.client.prompt(&session, "say again").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn a_home_that_cannot_be_used_is_told_in_two_lines() {
    let home = home();
    fs::write(home.path(), "not a folder").expect("a file in the way");
    assert_fails(home.acp(&shell("cat")), 5, "home").await;
}

#[tokio::test]
async fn a_read_only_home_is_told_in_two_lines() {
    let home = home();
    let closed = home.beside().join("closed");
    fs::create_dir(&closed).expect("a folder");
    for (path, mode) in [(&closed, 0o555), (&home.beside().to_owned(), 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own folder");
    }
    let mut command = home.acp(&shell("cat"));
    command.env("RETHREAD_HOME", &closed);
    // SAFETY: a plain call that only asks.
    if unsafe { libc::geteuid() } == 0 {
        // Nothing is closed to root; to nobody it is.
        let mut probe = home.command(&["--version"]);
        if probe.uid(NOBODY).gid(NOBODY).output().await.is_err() {
            return eprintln!("SKIPPED: this is root, and nobody else may run the binary");
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    assert_fails(command, 5, "closed").await;
}

#[tokio::test]
async fn a_newer_database_is_told_in_two_lines_and_left_alone() {
    let home = home();
    used(&home).await.kill().await;
    let database = home.path().join("rethread.db");
    let open = || rusqlite::Connection::open(&database).expect("a database");
    open().pragma_update(None, "user_version", 999).expect("it is ours");
    let errors = assert_fails(home.acp(&shell("cat")), 5, "999").await;
    assert!(errors.contains("newer"), "{errors}");
    let version: i64 = open().query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a version");
    assert_eq!(version, 999);
}

#[tokio::test]
async fn nothing_but_the_protocol_is_on_stdout() {
    for version in BOTH {
        let home = home();
        // An agent that chats on its own stdout before it serves.
        let scripted = home.scripted(Version::V1);
        let words: Vec<_> = scripted.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
        let agent = shell(&format!("echo 'Welcome!'; echo; exec {}", words.join(" ")));
        let mut command = home.acp(&agent);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("it was piped");
        let mut lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        let introduction = match version {
            Version::V1 => json!({"protocolVersion": 1}),
            Version::V2 => json!({"protocolVersion": 2, "info": {"name": "test", "version": "1"}}),
        };
        let mut session = String::new();
        let calls = [
            ("initialize", introduction),
            ("session/new", json!({"cwd": CWD, "mcpServers": []})),
            ("session/prompt", json!({"prompt": [{"type": "text", "text": "say hello; tool; plan"}]})),
            ("no/such/method", json!({})),
            ("session/list", json!({})),
        ];
        for (id, (method, mut params)) in calls.into_iter().enumerate() {
            if method == "session/prompt" {
                params["sessionId"] = json!(session);
            }
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            stdin.write_all(format!("{request}\nthis is no JSON\n").as_bytes()).await.expect("it reads");
            loop {
                let line = lines.next_line().await.expect("it is text").expect("it goes on");
                let message: Value =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                assert_eq!(message["jsonrpc"], "2.0", "{line}");
                if message["id"] == id {
                    session = message["result"]["sessionId"].as_str().map_or(session, str::to_owned);
                    break;
                }
            }
        }
        drop(stdin);
        while let Some(line) = lines.next_line().await.expect("it is text") {
            serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        }
        let output = child.wait_with_output().await.expect("it ends");
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[tokio::test]
async fn files_are_for_the_owner_only() {
    let home = home();
    let mut program = used(&home).await;
    // While it runs there are logs and locks; some stay after a kill.
    let while_it_runs = everything_below(&home.path());
    program.kill().await;
    let mut found = Vec::new();
    for path in while_it_runs.iter().chain(&everything_below(&home.path())) {
        let Ok(meta) = fs::metadata(path) else { continue };
        let (expected, kind) = if meta.is_dir() { (0o700, "folder") } else { (0o600, "file") };
        assert_eq!(meta.permissions().mode() & 0o777, expected, "{kind} {}", path.display());
        found.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    for name in ["home", "rethread.db", "state", "logs", "agent.log", "locks"] {
        assert!(found.iter().any(|found| found == name), "no {name} among {found:?}");
    }
}

#[tokio::test]
async fn secrets_are_in_no_file() {
    for version in BOTH {
        for agent in BOTH {
            let home = home();
            let mut program = home.ready(version, agent).await;
            let made = program.client.ask("session/new", setup(version)).await;
            let session = text(&made["sessionId"]).to_owned();
            assert_eq!(program.client.prompt(&session, "say hello; tool").await.stop, "end_turn");
            program.client.begin_prompt(&session, "say more; hang").await;
            let said = |update: &Value| update["content"]["text"] == "more";
            program.client.wait_update(0, &session, "more", said).await;
            assert_no_secret(&home.path());
            program.kill().await;

            let mut next = home.ready(version, agent).await;
            let (method, mut params) = next.client.load_params(&session);
            params["mcpServers"] = setup(version)["mcpServers"].clone();
            next.client.ask(method, params).await;
            assert_eq!(next.client.prompt(&session, "say again").await.stop, "end_turn");
            assert_no_secret(&home.path());
            // A request that is refused is not noted with what it held.
            let mut wrong = setup(version);
            wrong["cwd"] = json!("not/absolute");
            let error = next.client.refused("session/new", wrong).await;
            assert!(!error.to_string().contains(SECRET), "{error}");
            next.kill().await;
            assert_no_secret(&home.path());
        }
    }
}

/// An agent that repeats what it is given: on stderr, in the error of the first prompt, and when it ends at the second.
const REPEATS: &str = r#"
    prompts=0
    while read -r line; do
        id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
        say() { printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
        case $line in
        *'"initialize"'*) say '"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}' ;;
        *'"session/new"'*) printf '%s\n' "$line" >&2; setup=$line; say '"result":{"sessionId":"n"}' ;;
        *'"session/prompt"'*)
            prompts=$((prompts + 1))
            secret=$(printf %s "$setup" | grep -o 'tok-5ecret-8f31-[a-z]*' | tr '\n' ' ')
            if [ $prompts = 2 ]; then printf '%s' "dying of $secret" >&2; exit 3; fi
            say "\"error\":{\"code\":-32603,\"message\":\"cannot use $secret\",\"data\":{\"why\":\"$secret\"}}" ;;
        esac
    done
"#;

#[tokio::test]
async fn secrets_that_an_agent_repeats_are_in_no_file_and_in_no_error() {
    for version in BOTH {
        let home = home();
        let mut program = home.start(version, &shell(REPEATS));
        program.client.initialize().await;
        let made = program.client.ask("session/new", setup(version)).await;
        let session = text(&made["sessionId"]).to_owned();
        for told in ["cannot use [secret] [secret]", "dying of [secret] [secret]"] {
            program.client.begin_prompt(&session, "go").await;
            program.client.wait(told, |message| message.to_string().contains(told)).await;
        }
        program.client.disconnect().await;
        program.exited().await;
        let log = fs::read_to_string(home.path().join("state/logs/agent.log")).expect("it has been written");
        assert!(log.contains("[secret]") && log.contains("/bin/true"), "{log}");
        assert_no_secret(&home.path());
        let heard = Value::from(program.client.server_messages()).to_string();
        assert!(!heard.contains(SECRET), "{heard}");
    }
}

/// In every value that must not be kept.
const SECRET: &str = "tok-5ecret-8f31";

fn setup(version: Version) -> Value {
    let env = json!([{"name": "KEY", "value": format!("{SECRET}-env")}]);
    let headers = json!([{"name": "Authorization", "value": format!("Bearer {SECRET}-header")}]);
    let mut stdio = json!({"name": "files", "command": "/bin/true", "args": [], "env": env});
    let http = json!({"type": "http", "name": "web", "url": "https://example.com/mcp", "headers": headers});
    if version == Version::V2 {
        stdio["type"] = json!("stdio");
    }
    json!({"cwd": CWD, "mcpServers": [stdio, http]})
}

fn assert_no_secret(home: &Path) {
    for path in everything_below(home) {
        let Ok(bytes) = fs::read(&path) else { continue };
        let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!found, "a secret is in {}", path.display());
    }
}

/// A program that has done some work.
async fn used(home: &Home) -> Program {
    let program = home.ready(Version::V1, Version::V1).await;
    let session = program.client.new_session().await;
    assert_eq!(program.client.prompt(&session, "say hello").await.stop, "end_turn");
    program
}

/// Says that a command fails at once with one line for the error, one for the hint, and nothing else.
async fn assert_fails(mut command: Command, code: i32, names: &str) -> String {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = tokio::time::timeout(rethread_testkit::DEADLINE, command.output());
    let Output { status, stdout, stderr } = running.await.expect("it ends at once").expect("it runs");
    let errors = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(code), "{errors}");
    assert_eq!(String::from_utf8_lossy(&stdout), "");
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(lines[0].starts_with("error: ") && lines[0].contains(names), "{errors}");
    assert!(lines[1].starts_with("hint: "), "{errors}");
    errors
}

fn everything_below(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let mut at = 0;
    while at < found.len() {
        let below = fs::read_dir(&found[at]).into_iter().flatten().flatten().map(|entry| entry.path());
        found.extend(below.collect::<Vec<_>>());
        at += 1;
    }
    found
}

fn shell(script: &str) -> Vec<OsString> {
    vec!["sh".into(), "-c".into(), script.into()]
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_rethread"))
}
