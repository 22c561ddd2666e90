//! `rethread doctor`: on a healthy store, on damaged ones, and with agents.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use expect_test::expect;
use rethread::edge::Version;
use rethread_testkit::program::example;
use serde_json::Value;

use super::stored::{Made, turns};
use super::{Said, Shell};

/// A user without rights.
const NOBODY: u32 = 65534;

fn with_sessions() -> Shell {
    let shell = Shell::new();
    let store = shell.store();
    for id in ["s-1", "s-2"] {
        store.add(&Made { id, cwd: "/w", agent: "codex", ago: 0, updates: turns("Hello", 2) });
    }
    drop(store);
    shell
}

/// Runs it without any agent or key of this machine.
fn doctor(shell: &Shell, args: &[&str]) -> Said {
    let output = shell.command(&[&["doctor"], args].concat()).into_std().env("PATH", "/nowhere").output();
    let output = output.expect("it runs");
    let text = |bytes: Vec<u8>| shell.normalized(&String::from_utf8(bytes).expect("UTF-8"));
    Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Replaces sizes, limits and the version, which differ from machine to machine.
fn plain(text: &str) -> String {
    let line = |line: &str| match line {
        line if line.contains("open files allowed") => "  ok       N open files allowed".to_owned(),
        line if line.contains("free for the store") => "  ok       N free for the store".to_owned(),
        line if line.ends_with(&format!("rethread {}", env!("CARGO_PKG_VERSION"))) => {
            "  ok       rethread VERSION".to_owned()
        }
        line => match (line.split_once(".db, "), line.split_once(", version ")) {
            (Some((path, _)), Some((_, version))) => format!("{path}.db, SIZE, version {version}"),
            (Some((path, _)), None) => format!("{path}.db, SIZE"),
            (None, _) => line.to_owned(),
        },
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

fn json(shell: &Shell, args: &[&str]) -> Value {
    serde_json::from_str(&doctor(shell, &[&["--json"], args].concat()).stdout).expect("JSON")
}

/// The messages of a level.
fn messages(document: &Value, level: &str) -> Vec<String> {
    let findings = document["findings"].as_array().expect("findings");
    let of_level = findings.iter().filter(|finding| finding["level"] == level);
    of_level.map(|finding| finding["message"].as_str().expect("a text").to_owned()).collect()
}

/// All files below a folder with their contents.
pub(super) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), std::fs::read(&path).expect("a file"));
            }
        }
    }
    files
}

fn journal_files(shell: &Shell) -> Vec<PathBuf> {
    let files = std::fs::read_dir(shell.home.path().join("live")).expect("a folder");
    files.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn a_healthy_store_is_described_and_not_changed() {
    let shell = with_sessions();
    let before = contents(&shell.home.path());
    let said = doctor(&shell, &[]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{}", said.stdout);
    expect![[r#"
        Store
          ok       /tmp/home/rethread.db, SIZE, version 7
          ok       2 sessions, 0 journal files with 0 bytes
          ok       the database, 2 segments and the journal files of 0 sessions were read

        Configuration
          ok       /tmp/home/config.toml does not exist; the defaults are used

        Agents
          note     no agent is installed; the built-in assistant is there
                   hint: `rethread agents --all` shows how to install one

        Models
          note     no model provider is configured for the assistant
                   hint: docs/models.md says how to configure one

        System
          ok       rethread VERSION
          ok       logs in /tmp/home/state/logs, 0 bytes
          ok       N open files allowed
          ok       N free for the store

        Nothing is broken.
    "#]]
    .assert_eq(&plain(&said.stdout));
    let document = json(&shell, &["--full"]);
    assert_eq!(document["ok"], true);
    assert_eq!(document["store"]["sessions"]["listed"], 2);
    assert_eq!(document["store"]["checked"]["complete"], true, "{document}");
    assert!(document["store"]["checked"]["segments"].as_u64() >= Some(2), "{document}");
    assert_eq!((&document["agent"], &document["repaired"]), (&Value::Null, &serde_json::json!([])));
    let after = contents(&shell.home.path());
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after, "reading changes nothing");
}

#[test]
fn without_a_store_nothing_is_created() {
    let shell = Shell::new();
    let said = doctor(&shell, &[]);
    assert_eq!(said.code, Some(0));
    expect![[r#"
        Store
          note     /tmp/home/rethread.db does not exist yet

        Configuration
          ok       /tmp/home/config.toml does not exist; the defaults are used

        Agents
          note     no agent is installed; the built-in assistant is there
                   hint: `rethread agents --all` shows how to install one

        Models
          note     no model provider is configured for the assistant
                   hint: docs/models.md says how to configure one

        System
          ok       rethread VERSION
          ok       logs in /tmp/home/state/logs, 0 bytes
          ok       N open files allowed
          ok       N free for the store

        Nothing is broken.
    "#]]
    .assert_eq(&plain(&said.stdout));
    assert_eq!(doctor(&shell, &["--repair"]).code, Some(0));
    assert!(!shell.home.path().exists());
}

#[test]
fn a_flipped_bit_in_a_journal_file_is_found() {
    let shell = Shell::new();
    let store = shell.store();
    let made = Made { id: "s-1", cwd: "/w", agent: "codex", ago: 0, updates: turns("Hello", 1) };
    store.add_with_tail(&made, &turns("More", 2));
    drop(store);
    assert_eq!(doctor(&shell, &[]).code, Some(0));
    let file = journal_files(&shell).pop().expect("it has a file");
    let mut bytes = std::fs::read(&file).expect("a file");
    let at = bytes.windows(4).position(|window| window == b"More").expect("the text is in it");
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).expect("a file");
    let said = doctor(&shell, &[]);
    assert_eq!(said.code, Some(5), "{}", said.stdout);
    let document = json(&shell, &[]);
    let broken = messages(&document, "broken");
    assert_eq!((broken.len(), &document["ok"]), (1, &Value::Bool(false)), "{document}");
    assert!(broken[0].starts_with("session s-1 is damaged at entry "), "{broken:?}");
    assert!(broken[0].contains(".log at byte "), "it names the file and the place: {broken:?}");
}

#[test]
fn a_damaged_segment_and_a_missing_file_are_found() {
    let shell = with_sessions();
    let database = rusqlite::Connection::open(shell.home.path().join("rethread.db")).expect("a database");
    database
        .execute(
            "UPDATE segment SET items = zeroblob(length(items)) WHERE key = (SELECT max(key) FROM segment)",
            [],
        )
        .expect("it can be changed");
    database
        .execute("INSERT INTO journal_file SELECT key, 7, 7 FROM session WHERE uid = 's-1'", [])
        .expect("it can be changed");
    drop(database);
    let document = json(&shell, &[]);
    let broken = messages(&document, "broken");
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken[0].starts_with("session s-2 is damaged at entry 1: the checksum"), "{broken:?}");
    assert!(broken[1].starts_with("session s-1 lacks the file"), "{broken:?}");
    assert_eq!(doctor(&shell, &[]).code, Some(5));
}

#[test]
fn a_damaged_database_is_found() {
    let shell = with_sessions();
    let file = shell.home.path().join("rethread.db");
    let mut bytes = std::fs::read(&file).expect("a file");
    let page = 4096;
    bytes[page * 2..page * 3].fill(0xAB);
    std::fs::write(&file, bytes).expect("a file");
    let said = doctor(&shell, &[]);
    assert_eq!(said.code, Some(5), "{}", said.stdout);
    assert!(said.stdout.contains("the database is damaged"), "{}", said.stdout);
    std::fs::write(&file, "not a database ".repeat(1000)).expect("a file");
    let said = doctor(&shell, &["--repair"]);
    assert_eq!(said.code, Some(5), "{}", said.stdout);
    assert!(said.stdout.contains("the file is no database of rethread"), "{}", said.stdout);
}

#[test]
fn a_newer_database_is_told() {
    let shell = with_sessions();
    let database = rusqlite::Connection::open(shell.home.path().join("rethread.db")).expect("a database");
    database.pragma_update(None, "user_version", 999).expect("it can be changed");
    drop(database);
    let said = doctor(&shell, &[]);
    assert_eq!(said.code, Some(5));
    let store = said.stdout.split("Configuration").next().expect("a part");
    expect![[r#"
        Store
          ok       /tmp/home/rethread.db, SIZE, version 999
          broken   the database has version 999, but this program supports only versions up to 7
                   hint: use the newer rethread that wrote it

    "#]]
    .assert_eq(&plain(store));
}

#[tokio::test]
async fn what_a_killed_process_left_is_found_and_repaired() {
    let shell = Shell::new();
    let mut program = shell.home.ready(Version::V1, Version::V1).await;
    let session = program.client.new_session().await;
    program.client.prompt(&session, "say one").await;
    let running = json(&shell, &[]);
    assert_eq!(running["store"]["owners"][0]["alive"], true, "{running}");
    assert_eq!(running["store"]["owners"][0]["pid"], program.pid());
    assert_eq!((running["ok"].as_bool(), messages(&running, "warning").len()), (Some(true), 0), "{running}");
    let pid = program.pid();
    program.kill().await;
    let unused = shell.home.path().join(format!("live/{}.1.1.log", "ab".repeat(16)));
    std::fs::write(&unused, "left").expect("a file");
    let old = SystemTime::now() - Duration::from_secs(600);
    std::fs::File::open(&unused).and_then(|file| file.set_modified(old)).expect("our own file");

    let before = contents(&shell.home.path());
    let left = json(&shell, &[]);
    let after = contents(&shell.home.path());
    let durable = |files: BTreeMap<PathBuf, Vec<u8>>| {
        files.into_iter().filter(|(path, _)| !path.to_string_lossy().ends_with("-shm")).collect::<Vec<_>>()
    };
    assert!(durable(before) == durable(after), "reading changes nothing");
    let warnings = messages(&left, "warning");
    assert!(warnings[0].starts_with(&format!("process {pid} on ")), "{warnings:?}");
    assert!(warnings[0].ends_with("has ended and is registered with 1 session"), "{warnings:?}");
    assert_eq!(warnings[1], "1 file with 4 bytes not in use");
    let notes = messages(&left, "note");
    assert!(
        notes.contains(&"1 session left by processes that have ended can be folded".to_owned()),
        "{notes:?}"
    );
    assert!(notes.contains(&"1 lock file of processes that have ended".to_owned()), "{notes:?}");

    let repaired = json(&shell, &["--repair"]);
    assert_eq!(repaired["repaired"].as_array().map(Vec::len), Some(4), "{repaired}");
    assert!(messages(&repaired, "warning").is_empty(), "{repaired}");
    assert_eq!(repaired["store"]["owners"], serde_json::json!([]));
    assert!(!unused.exists());
    let next = shell.home.ready(Version::V1, Version::V1).await;
    next.client.load(&session).await;
    assert_eq!(next.client.view(&session).agent(), ["one"], "and nothing is lost");
}

#[test]
fn an_unreadable_folder_is_reported() {
    let shell = with_sessions();
    // SAFETY: a plain call.
    let is_root = unsafe { libc::geteuid() } == 0;
    let live = shell.home.path().join("live");
    for path in [shell.home.beside().to_owned(), shell.home.path()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("our own folder");
    }
    std::fs::set_permissions(&live, std::fs::Permissions::from_mode(0o000)).expect("our own folder");
    let mut command = shell.command(&["doctor", "--json"]).into_std();
    if is_root {
        command.uid(NOBODY);
    }
    let output = command.env("PATH", "/nowhere").output().expect("it runs");
    std::fs::set_permissions(&live, std::fs::Permissions::from_mode(0o700)).expect("our own folder");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(5), "{document}");
    let broken = messages(&document, "broken");
    assert!(broken.iter().any(|message| message.contains("cannot be read: Permission denied")), "{broken:?}");
}

#[test]
fn mistakes_of_the_configuration_and_missing_keys_are_told_without_secrets() {
    let shell = Shell::new();
    shell.configure(
        "[[provider]]\nname = \"c\"\nkind = \"anthropic\"\n[agents.x]\ncommand = [\"sk-123456\"]\n",
    );
    let document = json(&shell, &[]);
    let warnings = messages(&document, "warning");
    assert_eq!(warnings, ["agent x: program sk-123456 was not found", "c: its key is missing"]);
    shell.configure("[[provider]]\nname = \"c\"\nkind = \"openai\"\nkeyy = \"sk-123456\"\n");
    let said = doctor(&shell, &[]);
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.contains("line 4: unknown key `keyy`: did you mean `key`?"), "{}", said.stdout);
    assert!(!said.stdout.contains("123456"), "{}", said.stdout);
}

#[test]
fn an_agent_is_started_for_a_moment() {
    let shell = Shell::new();
    let agent = example("scripted_agent").display().to_string();
    let run = |args: &[&str]| {
        let output = shell.command(&[&["doctor"], args].concat()).into_std().output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let of_agent = text.split("This agent\n").nth(1).unwrap_or_default().to_owned();
        let without_time =
            of_agent.split("; it answered after ").map(|part| match part.split_once(" ms\n") {
                Some((_, rest)) => format!("; it answered\n{rest}"),
                None => part.to_owned(),
            });
        (output.status.code(), without_time.collect::<String>())
    };
    let (code, said) = run(&["--", &agent, "--protocol", "1"]);
    assert_eq!(code, Some(0), "{said}");
    expect![[r#"
          ok       scripted 1 speaks protocol version 1; it answered
          ok       its own: load, resume, list, close, delete, additionalDirectories
          ok       rethread adds: fork, archive, status, title
          ok       a lost session is restored by its own resume, else from the stored transcript
          ok       prompts may contain text, links, image, audio, embeddedContext
          ok       MCP servers: stdio, http, sse

        Nothing is broken.
    "#]]
    .assert_eq(&said);
    let (code, said) = run(&["--", "sh", "-c", "echo noise; echo 'no key \u{1b}[31m' >&2; exit 3"]);
    assert_eq!(code, Some(1));
    expect![[r#"
          broken   sh does not work: the agent ended before it answered initialize: exit status 3; it said: no key; it printed: noise
                   hint: run its command by hand to see what it says

        1 thing is broken.
    "#]].assert_eq(&said);
    let (code, said) = run(&["--start-seconds", "1", "--", "sleep", "60"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("did not answer"), "{said}");
    assert_eq!(shell.run(&["doctor", "no-such-agent-anywhere"]).code, Some(3));
    assert!(!shell.home.path().exists(), "no log and no session is left");
}
