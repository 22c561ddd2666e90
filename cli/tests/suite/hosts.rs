//! Several `rethread serve` on one PostgreSQL: clients that reach another host than the owner of a session, hosts that are
//! killed, stop or hang, and hosts that are not trusted. Skipped, and says so, unless `RETHREAD_TEST_POSTGRES` is set.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::postgres_server::PostgresServer;
use rethread_testkit::processes::signal;
use rethread_testkit::program::{Home, Program, ServerProgram};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::process::Command;

const KEY: &str = "a key that the hosts of these tests share";
/// Longer than a lease.
const TAKEOVER: Duration = Duration::from_secs(60);

/// The hosts of one database, and the directory of their sessions.
struct Hosts {
    database: String,
    directory: TempDir,
}

/// One host.
struct Host {
    home: Home,
    server: ServerProgram,
    database: String,
}

impl Hosts {
    /// Nothing if there is no PostgreSQL.
    fn new() -> Option<Self> {
        let database = PostgresServer::shared()?.database_url();
        Some(Self { database, directory: tempfile::tempdir().expect("a folder can be made") })
    }

    fn cwd(&self) -> String {
        self.directory.path().canonicalize().expect("it exists").display().to_string()
    }

    async fn start(&self, key: &str, args: &[&str]) -> Host {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let words = home.scripted(Version::V2);
        let words: Vec<String> = words.iter().map(|word| format!("{:?}", word.to_string_lossy())).collect();
        let config = format!(
            "cluster_key = {key:?}\ndefault_agent = \"scripted\"\n[agents.scripted]\ncommand = [{}]\n[serve]\nroots = [{:?}]\n",
            words.join(", "),
            self.cwd()
        );
        fs::create_dir_all(home.path()).expect("a folder can be made");
        fs::write(home.path().join("config.toml"), config).expect("it can be written");
        let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(args).env("RETHREAD_STORE", &self.database);
        let server = ServerProgram::start(command).await;
        Host { home, server, database: self.database.clone() }
    }

    async fn host(&self) -> Host {
        self.start(KEY, &[]).await
    }
}

impl Host {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("RETHREAD_STORE", &self.database);
        command
    }

    fn url(&self) -> String {
        let http = self.server.addresses.iter().find(|address| address.starts_with("http://"));
        http.expect("it has HTTP").clone()
    }

    /// An editor on the machine of the host, by standard input and output.
    async fn editor(&self, version: Version) -> Program {
        let mut acp = self.command(&["acp", "scripted"]);
        acp.stderr(Stdio::null());
        ready(Program::start(acp, version)).await
    }

    /// A client by WebSocket.
    async fn remote(&self, version: Version, role: &str) -> Program {
        let made = self.command(&["token", "new", "test", "--role", role]).output().await.expect("it runs");
        let token = String::from_utf8_lossy(&made.stdout).trim_end().to_owned();
        let mut acp = self.command(&["acp", "--connect", &self.url()]);
        acp.env("RETHREAD_TOKEN", token).stderr(Stdio::null());
        ready(Program::start(acp, version)).await
    }

    async fn doctor(&self) -> String {
        let output = self.command(&["doctor"]).output().await.expect("it runs");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("state/logs/rethread.log")).unwrap_or_default()
    }
}

async fn ready(program: Program) -> Program {
    program.client.set_deadline(TAKEOVER);
    program.client.initialize().await;
    program
}

fn text(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |update| update["content"]["text"] == wanted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_on_another_host_does_everything_with_a_session() {
    let Some(hosts) = Hosts::new() else { return };
    let (owner, asked, cwd) = (hosts.host().await, hosts.host().await, hosts.cwd());
    for version in [Version::V1, Version::V2] {
        let near = owner.editor(Version::V2).await;
        let far = asked.remote(version, "full").await;
        let session = near.client.new_session_in(&cwd).await;
        near.client.prompt(&session, "say one").await;
        // The first question is left to the other client.
        near.client.on("session/request_permission", |_| None);
        far.client.load_in(&cwd, &session).await;
        far.client.wait_update(0, &session, "the replay", text("one")).await;

        assert_eq!(far.client.prompt(&session, "say two; permit").await.stop, "end_turn", "{version:?}");
        near.client.wait_method("$/cancel_request").await;
        near.client.wait_update(0, &session, "the turn of the other", text("two")).await;

        let mark = far.client.mark();
        let hanging = far.client.begin_prompt(&session, "say three; hang").await;
        far.client.wait_update(mark, &session, "the turn", text("three")).await;
        far.client.cancel(&session).await;
        assert_eq!(far.client.finish(&session, &hanging).await.stop, "cancelled");

        // A request that is taken back: its id means something to this client alone.
        let mark = far.client.mark();
        let taken_back = far.client.begin_prompt(&session, "say four; hang").await;
        far.client.wait_update(mark, &session, "the turn", text("four")).await;
        if version == Version::V1 {
            far.client.notify("$/cancel_request", json!({"requestId": taken_back})).await;
            assert_eq!(far.client.finish(&session, &taken_back).await.stop, "cancelled");
        } else {
            far.client.cancel(&session).await;
            far.client.finish(&session, &taken_back).await;
        }

        // The near client prompts, the far one is shown it.
        near.client.prompt(&session, "say five").await;
        far.client.wait_update(0, &session, "the turn of the other", text("five")).await;
        let title = json!({"sessionId": session, "title": "from afar"});
        far.client.ask("session/set_title", title).await;
        let clients = far.client.ask("_rethread/clients", json!({"sessionId": session})).await;
        assert_eq!(clients["clients"].as_array().map(Vec::len), Some(2), "{clients}");
        let status = far.client.ask("session/status", json!({"sessionId": session})).await;
        assert_eq!(status["status"], "open");

        // What a new client of either host is shown is what was shown live.
        let fresh = owner.editor(version).await;
        fresh.client.load_in(&cwd, &session).await;
        assert_eq!(far.client.view(&session).agent(), fresh.client.view(&session).agent());

        let made =
            far.client.ask("session/fork", json!({"sessionId": session, "cwd": cwd, "mcpServers": []})).await;
        let fork = made["sessionId"].as_str().expect("it has an id").to_owned();
        assert_eq!(far.client.prompt(&fork, "say six").await.stop, "end_turn");
        far.client.wait_update(0, &fork, "the fork", text("six")).await;
        far.client.close(&fork).await.expect("it is open");

        far.client.ask("session/delete", json!({"sessionId": session})).await;
        assert_eq!(near.client.load_in_refused(&cwd, &session).await["code"], -32002);
        assert_eq!(far.client.load_in_refused(&cwd, &session).await["code"], -32002);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_reading_are_answered_by_any_host_and_subscriptions_see_all_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    let (owner, asked, cwd) = (hosts.host().await, hosts.host().await, hosts.cwd());
    let (near, far) = (owner.editor(Version::V2).await, asked.remote(Version::V2, "observer").await);
    far.client.ask("_rethread/list/subscribe", json!({})).await;
    let session = near.client.new_session_in(&cwd).await;
    near.client.prompt(&session, "say wombat").await;
    let is_it = |message: &Value| {
        message["method"] == "_rethread/list/changes"
            && message["params"]["sessions"][0]["sessionId"] == session
    };
    far.client.wait("the change of the list", is_it).await;
    let listed = far.client.ask("session/list", json!({})).await;
    assert_eq!(listed["sessions"][0]["sessionId"], session);
    let found = far.client.ask("_rethread/search", json!({"query": "wombat"})).await;
    assert!(found.to_string().contains(&session), "{found}");
    let read = far.client.ask("_rethread/read", json!({"sessionId": session, "limit": 10})).await;
    assert!(read.to_string().contains("wombat"), "{read}");
    // The owner answers an observer of another host, which may only look there, too.
    let status = far.client.ask("session/status", json!({"sessionId": session})).await;
    assert_eq!(status["state"]["state"], "idle", "{status}");
    let refused = far.client.refused("session/delete", json!({"sessionId": session})).await;
    assert_eq!(refused["code"], -32011, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_takes_over_when_the_owner_is_killed() {
    let Some(hosts) = Hosts::new() else { return };
    let (owner, asked, cwd) = (hosts.host().await, hosts.host().await, hosts.cwd());
    let near = owner.editor(Version::V2).await;
    let session = near.client.new_session_in(&cwd).await;
    near.client.prompt(&session, "say before").await;
    let (one, two) = (asked.remote(Version::V1, "full").await, asked.editor(Version::V2).await);
    for far in [&one, &two] {
        far.client.load_in(&cwd, &session).await;
    }
    let cut = one.client.begin_prompt(&session, "say cut off; hang").await;
    for far in [&one, &two] {
        far.client.wait_update(0, &session, "the turn", text("cut off")).await;
    }
    let killed = Instant::now();
    signal(owner.server.pid(), libc::SIGKILL);
    assert_eq!(one.client.finish(&session, &cut).await.stop, "error -32603");
    // Nobody has to load it again.
    assert_eq!(one.client.prompt(&session, "say after").await.stop, "end_turn");
    println!("taken over {} ms after the kill", killed.elapsed().as_millis());
    two.client.wait_update(0, &session, "the turn after", text("after")).await;
    assert_eq!(two.client.prompt(&session, "say both").await.stop, "end_turn");
    one.client.wait_update(0, &session, "the turn of the other", text("both")).await;
    let third = hosts.host().await;
    let fresh = third.remote(Version::V2, "full").await;
    fresh.client.load_in(&cwd, &session).await;
    let shown = fresh.client.view(&session).agent();
    for words in ["before", "cut off", "after", "both"] {
        assert_eq!(format!("{shown:?}").matches(words).count(), 1, "{words}: {shown:?}");
    }
    assert_eq!(two.client.view(&session).agent(), shown);
    assert_eq!(one.client.view(&session).agent(), shown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_takes_over_when_the_lease_of_a_hanging_owner_is_over() {
    let Some(hosts) = Hosts::new() else { return };
    let (owner, asked, cwd) = (hosts.host().await, hosts.host().await, hosts.cwd());
    let near = owner.editor(Version::V2).await;
    let session = near.client.new_session_in(&cwd).await;
    near.client.prompt(&session, "say before").await;
    let far = asked.remote(Version::V2, "full").await;
    far.client.load_in(&cwd, &session).await;
    let stopped = Instant::now();
    signal(owner.server.pid(), libc::SIGSTOP);
    // One that loads it while the owner hangs waits for the lease as well.
    let later = asked.editor(Version::V1).await;
    later.client.load_in(&cwd, &session).await;
    println!("taken over {} ms after the owner stopped", stopped.elapsed().as_millis());
    assert_eq!(later.client.prompt(&session, "say after").await.stop, "end_turn");
    far.client.wait_update(0, &session, "the turn after", text("after")).await;
    signal(owner.server.pid(), libc::SIGCONT);
    assert_eq!(far.client.prompt(&session, "say last").await.stop, "end_turn");
    let fresh = asked.editor(Version::V2).await;
    fresh.client.load_in(&cwd, &session).await;
    assert_eq!(fresh.client.view(&session).agent(), far.client.view(&session).agent());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_move_on_when_their_host_stops() {
    let Some(hosts) = Hosts::new() else { return };
    let (owner, asked, cwd) = (hosts.host().await, hosts.host().await, hosts.cwd());
    let near = owner.editor(Version::V2).await;
    let session = near.client.new_session_in(&cwd).await;
    near.client.prompt(&session, "say before").await;
    let far = asked.remote(Version::V2, "full").await;
    far.client.load_in(&cwd, &session).await;
    let running = near.client.begin_prompt(&session, "say during; hang").await;
    far.client.wait_update(0, &session, "the turn", text("during")).await;
    signal(owner.server.pid(), libc::SIGTERM);
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The owner takes no new work: this waits for the next one.
    let waiting = far.client.begin_prompt(&session, "say waiting").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    near.client.cancel(&session).await;
    near.client.finish(&session, &running).await;
    assert_eq!(far.client.finish(&session, &waiting).await.stop, "end_turn");
    let (code, said) = owner.server.exited().await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(far.client.prompt(&session, "say after").await.stop, "end_turn");
    let shown = format!("{:?}", far.client.view(&session).agent());
    for words in ["before", "during", "waiting", "after"] {
        assert_eq!(shown.matches(words).count(), 1, "{words}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_with_another_key_is_not_used() {
    let Some(hosts) = Hosts::new() else { return };
    let cwd = hosts.cwd();
    let (owner, stranger) =
        (hosts.host().await, hosts.start("another key, which is long enough, too", &[]).await);
    let near = owner.editor(Version::V2).await;
    let session = near.client.new_session_in(&cwd).await;
    near.client.prompt(&session, "say mine").await;
    let far = stranger.editor(Version::V2).await;
    let refused = far.client.load_in_refused(&cwd, &session).await;
    assert_eq!(refused["code"], -32010, "{refused}");
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("another cluster_key")), "{refused}");
    // It can still read the session.
    let read = far.client.ask("_rethread/read", json!({"sessionId": session, "limit": 10})).await;
    assert!(read.to_string().contains("mine"), "{read}");
    let doctor = owner.doctor().await;
    assert!(doctor.contains("another cluster_key") && doctor.contains("answers at"), "{doctor}");
    assert!(stranger.log().contains("another cluster_key"), "{}", stranger.log());
    for said in [doctor, stranger.log(), owner.log(), refused.to_string()] {
        assert!(!said.contains(KEY) && !said.contains("long enough, too"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_false_address_learns_nothing_and_the_address_of_another_is_noticed() {
    let Some(hosts) = Hosts::new() else { return };
    let cwd = hosts.cwd();
    let asked = hosts.host().await;
    // Somebody who is no host.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let false_address = format!("http://{}", listener.local_addr().expect("it has an address"));
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        let mut heard = vec![0; 64 * 1024];
        let count = stream.read(&mut heard).await.unwrap_or(0);
        String::from_utf8_lossy(&heard[..count]).into_owned()
    });
    let lost = hosts.start(KEY, &["--advertise", &false_address]).await;
    let near = lost.editor(Version::V2).await;
    let session = near.client.new_session_in(&cwd).await;
    near.client.prompt(&session, "say secret words").await;
    let far = asked.remote(Version::V2, "full").await;
    let loading = far.client.load_in_refused(&cwd, &session);
    let refused = loading.await;
    assert_eq!(refused["code"], -32010, "{refused}");
    let heard = heard.await.expect("it does not panic");
    assert!(heard.starts_with("GET /cluster"), "{heard}");
    assert!(!heard.contains(KEY) && !heard.contains("secret words") && !heard.contains(&session), "{heard}");

    // A host that advertises the address of another one.
    let twin = hosts.start(KEY, &["--advertise", &asked.url()]).await;
    let near = twin.editor(Version::V2).await;
    let session = near.client.new_session_in(&cwd).await;
    near.client.prompt(&session, "say hello").await;
    let third = hosts.host().await;
    let far = third.remote(Version::V2, "full").await;
    let refused = far.client.load_in_refused(&cwd, &session).await;
    assert!(
        refused["message"].as_str().is_some_and(|why| why.contains("two hosts have one address")),
        "{refused}"
    );
    let doctor = third.doctor().await;
    assert!(doctor.contains("have one address"), "{doctor}");
}
