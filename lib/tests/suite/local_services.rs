//! A version 2 client has no files and no terminals for its agent; an agent of version 1 that asks for them is
//! served all the same, and users see what runs.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use agent_client_protocol_schema::v2;
use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::view::Item;
use rethread_testkit::{DEADLINE, Pairing, World};
use serde_json::{Value, json};
use tempfile::TempDir;

const HOSTED: Pairing = Pairing::of(Version::V2, Version::V1);

/// A session of a version 2 client over a version 1 agent, in a folder of its own.
struct Scene {
    world: World,
    client: Client,
    session: String,
    folder: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let folder = TempDir::new().expect("there is room");
        fs::create_dir(folder.path().join("cwd")).expect("there is room");
        let world = World::of(HOSTED);
        let client = world.ready().await;
        let session = client.new_session_in(&cwd(&folder)).await;
        Self { world, client, session, folder }
    }

    async fn prompt(&self, script: &str) -> Vec<String> {
        assert_eq!(self.client.prompt(&self.session, script).await.stop, "end_turn");
        self.client.view(&self.session).agent()
    }

    /// Starts a command that writes its process id to a file and runs on, and gives the id.
    async fn spawn(&self, then: &str) -> i32 {
        let script = format!("spawn echo $$ > pid.new && mv pid.new pid && exec sleep 100;{then}");
        self.client.begin_prompt(&self.session, &script).await;
        let file = self.folder.path().join("cwd/pid");
        let pid = soon("the command runs", || fs::read_to_string(&file).ok()).await;
        pid.trim().parse().expect("a number")
    }

    /// The updates of the session that are about terminals, each checked against the protocol's own types.
    fn terminals(&self) -> Vec<Value> {
        let updates = self.client.updates(&self.session).into_iter();
        let about = updates.filter(|update| update["terminalId"].is_string());
        let checked = about.inspect(|update| {
            serde_json::from_value::<v2::SessionUpdate>(update.clone()).expect("an update of version 2");
        });
        checked.collect()
    }
}

fn cwd(folder: &TempDir) -> String {
    let path = fs::canonicalize(folder.path()).expect("it is there").join("cwd");
    path.to_string_lossy().into_owned()
}

async fn soon<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let given_up = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < given_up, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn runs(pid: i32) -> bool {
    // SAFETY: it only asks.
    unsafe { libc::kill(pid, 0) == 0 }
}

async fn ends(pid: i32) {
    soon("the command is ended", || (!runs(pid)).then_some(())).await;
}

#[tokio::test]
async fn the_agent_is_offered_files_and_terminals() {
    let scene = Scene::new().await;
    let offered = &scene.world.agent.received_params("initialize")[0]["clientCapabilities"];
    assert_eq!(offered["fs"], json!({"readTextFile": true, "writeTextFile": true}));
    assert_eq!(offered["terminal"], true);
}

#[tokio::test]
async fn files_are_read_and_written_inside_the_roots() {
    let scene = Scene::new().await;
    let outside = scene.folder.path().join("secret.txt");
    fs::write(&outside, "secret").unwrap();
    let inside = scene.folder.path().join("cwd");
    fs::write(inside.join("a.txt"), "inside").unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("link.txt")).unwrap();
    let script = format!(
        "fs a.txt; write new/b.txt some text; fs new/b.txt; fs none.txt; fs ../secret.txt; fs link.txt; \
         fs {0}; write {0} changed; write link.txt changed",
        outside.display()
    );
    let said = scene.prompt(&script).await;
    let expected = [
        "file: inside",
        "written: {}",
        "file: some text",
        "file: error -32002",
        "file: error -32602",
        "file: error -32602",
        "file: error -32602",
        "written: error -32602",
        "written: error -32602",
    ];
    assert_eq!(said, expected);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
    let asked = scene
        .client
        .server_messages()
        .into_iter()
        .filter(|message| message["method"].as_str().is_some_and(|method| method.starts_with("fs/")));
    assert_eq!(asked.count(), 0, "the client is not asked");
    let told = scene.world.agent.received();
    let error = told.iter().find(|told| told.params["error"]["code"] == -32002).expect("a missing file");
    let missing = inside.canonicalize().unwrap().join("none.txt");
    assert_eq!(Path::new(error.params["error"]["data"]["uri"].as_str().unwrap()), missing);
}

#[tokio::test]
async fn additional_roots_are_inside_too() {
    let folder = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("cwd")).unwrap();
    fs::write(other.path().join("c.txt"), "over there").unwrap();
    let other = fs::canonicalize(other.path()).unwrap();
    let world = World::of(HOSTED);
    let client = world.ready().await;
    let params = json!({"cwd": cwd(&folder), "mcpServers": [], "additionalDirectories": [other]});
    let made = client.ask("session/new", params).await;
    let session = made["sessionId"].as_str().unwrap();
    client.prompt(session, &format!("fs {}/c.txt", other.display())).await;
    assert_eq!(client.view(session).agent(), ["file: over there"]);
}

#[tokio::test]
async fn a_terminal_is_shown_live_on_replay_and_as_text() {
    let scene = Scene::new().await;
    let script = "term echo one && echo two >&2 && pwd -P && exit 3";
    let cwd = cwd(&scene.folder);
    assert_eq!(scene.prompt(script).await, [format!("terminal: 3 one\ntwo\n{cwd}")]);
    let terminals = scene.terminals();
    assert_eq!(terminals[0]["command"], "sh -c 'echo one && echo two >&2 && pwd -P && exit 3'");
    assert_eq!(terminals[0]["cwd"], cwd);
    assert_eq!(terminals[0]["capabilities"], json!({"cancel": {}}));
    let last = terminals.last().unwrap();
    assert_eq!(last["exitStatus"], json!({"exitCode": 3, "signal": null}));
    let live = scene.client.view(&scene.session);
    let shown = |item: &Item| match item {
        Item::Tool { content, .. } => Some(content.clone()),
        Item::Message { .. } | Item::Other(_) => None,
    };
    let content = |items: &[Item]| items.iter().find_map(shown).expect("a tool call");
    assert_eq!(content(&live.items), [format!("terminal: one\ntwo\n{cwd}")]);

    scene.client.disconnect().await;
    let next = scene.world.again().ready().await;
    next.load_in(&cwd, &scene.session).await;
    assert_eq!(next.view(&scene.session), live);
    next.disconnect().await;

    let older = scene.world.again().ready_as(Version::V1).await;
    older.load_in(&cwd, &scene.session).await;
    let text = content(&older.view(&scene.session).items).concat();
    for part in ["$ sh -c", &format!("one\ntwo\n{cwd}\n"), "[exit status 3]"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let refers = |update: &&Value| update.to_string().contains(r#""type":"terminal""#);
    assert_eq!(older.updates(&scene.session).iter().find(refers), None, "it is gone");
}

#[tokio::test]
async fn output_is_seen_while_the_command_runs_and_it_can_be_killed() {
    let scene = Scene::new().await;
    let script = "spawn echo live && exec sleep 100; wait seen; kill";
    let request = scene.client.begin_prompt(&scene.session, script).await;
    let is_chunk = |update: &Value| update["sessionUpdate"] == "terminal_output_chunk";
    let chunk = scene.client.wait_update(0, &scene.session, "the output", is_chunk).await;
    assert_eq!(chunk["data"], "bGl2ZQo=");
    assert_eq!(scene.terminals()[0]["terminalId"], chunk["terminalId"]);
    scene.world.agent.open_gate("seen");
    assert_eq!(scene.client.finish(&scene.session, &request).await.stop, "end_turn");
    let said = scene.client.view(&scene.session).agent();
    assert_eq!(said, [r#"killed: {"exitCode":null,"signal":"SIGTERM"}"#]);
    assert_eq!(scene.terminals().last().unwrap()["exitStatus"]["signal"], "SIGTERM");
}

#[tokio::test]
async fn a_user_can_cancel_a_terminal() {
    let scene = Scene::new().await;
    let pid = scene.spawn("wait never").await;
    let announced = |update: &Value| update["capabilities"]["cancel"].is_object();
    let terminal = scene.client.wait_update(0, &scene.session, "the terminal", announced).await;
    let params = json!({"sessionId": scene.session, "terminalId": terminal["terminalId"]});
    assert_eq!(scene.client.ask("terminal/cancel", params.clone()).await, json!({}));
    let ended = |update: &Value| update["exitStatus"]["signal"] == "SIGTERM";
    let exit = scene.client.wait_update(0, &scene.session, "the exit", ended).await;
    assert_eq!(exit["capabilities"], Value::Null);
    let refused = scene.client.refused("terminal/cancel", params).await;
    assert_eq!(refused["code"], -32602);
    // It is collected when it is released, or when the session ends.
    scene.client.close(&scene.session).await.unwrap();
    ends(pid).await;
}

#[tokio::test]
async fn a_flood_is_told_as_its_end() {
    let scene = Scene::new().await;
    let said = scene.prompt("term yes 'all work and no play' | head -c 5000000").await;
    assert!(said[0].len() <= 1024 * 1024 + 100, "the agent gets the end of it");
    let terminals = scene.terminals();
    let chunks = terminals.iter().filter(|update| update["sessionUpdate"] == "terminal_output_chunk");
    let told: usize = chunks.map(|chunk| chunk["data"].as_str().unwrap().len()).sum();
    assert!(told <= 1024 * 1024 * 4 / 3 + 1000, "{told} bytes of chunks");
    let snapshots: Vec<_> = terminals.iter().filter(|update| update["output"].is_object()).collect();
    assert_eq!(snapshots.len(), 1);
    let length = snapshots[0]["output"]["data"].as_str().unwrap().len();
    assert_eq!(length, (1024_usize * 1024).div_ceil(3) * 4);
    let told = scene.world.agent.received();
    assert!(told.iter().any(|told| told.params["result"]["truncated"] == true));
}

#[tokio::test]
async fn nothing_runs_on_when_the_agent_crashes() {
    let scene = Scene::new().await;
    let pid = scene.spawn("wait now;crash").await;
    assert!(runs(pid));
    scene.world.agent.open_gate("now");
    ends(pid).await;
    let exit = |update: &Value| update["exitStatus"].is_object();
    scene.client.wait_update(0, &scene.session, "the terminal is settled", exit).await;
    // The next agent knows nothing of it and runs its own.
    assert!(scene.prompt("term echo again").await.contains(&"terminal: 0 again".to_owned()));
    let terminals = scene.terminals();
    assert_ne!(terminals[0]["terminalId"], terminals.last().unwrap()["terminalId"]);
}

#[tokio::test]
async fn nothing_runs_on_when_the_session_or_the_client_ends() {
    let scene = Scene::new().await;
    let pid = scene.spawn("hang").await;
    scene.client.close(&scene.session).await.unwrap();
    ends(pid).await;

    let scene = Scene::new().await;
    let pid = scene.spawn("hang").await;
    scene.client.disconnect().await;
    ends(pid).await;
}

#[tokio::test]
async fn commands_run_inside_the_roots_only() {
    let scene = Scene::new().await;
    let world = &scene.world;
    scene.prompt("say ready").await;
    // A directory that is not there any more cannot be worked in.
    fs::remove_dir(scene.folder.path().join("cwd")).unwrap();
    assert!(scene.prompt("term").await.contains(&"terminal: error -32602".to_owned()));
    let told = world.agent.received();
    let error = told.iter().find(|told| told.params["error"].is_object()).expect("an error");
    assert_eq!(error.params["error"]["data"]["field"], "cwd");
}

#[tokio::test]
async fn a_version_1_client_keeps_its_own_files_and_terminals() {
    let world = World::of(Pairing::of(Version::V1, Version::V1));
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("cwd")).unwrap();
    let client = world.ready().await;
    let session = client.new_session_in(&cwd(&folder)).await;
    client.prompt(&session, "fs a.txt; write b.txt text; term echo really run > ran.txt").await;
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"] {
        let asked = client.wait_method(method).await;
        assert_eq!(asked["params"]["sessionId"], session);
    }
    assert_eq!(client.view(&session).agent(), ["file: from the client", "written: {}", "terminal: 0 hi"]);
    assert_eq!(fs::read_dir(folder.path().join("cwd")).unwrap().count(), 0, "nothing was done here");
}
