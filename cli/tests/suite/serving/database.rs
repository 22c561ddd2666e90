//! A server whose database is away: at the start, and during a turn. Tokens that several hosts share. Skipped, and says so, unless
//! `RETHREAD_TEST_POSTGRES` is set.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::kept;
use rethread_testkit::postgres_server::PostgresServer;
use rethread_testkit::program::{Home, Program, ServerProgram};
use rethread_testkit::tcp_proxy::{ProxyMode, TcpProxy};
use serde_json::Value;

use super::http::{configure, new_token, request, request_at, url};
use super::{home, run};

/// Longer than appends wait for a database.
const LONG: Duration = Duration::from_secs(40);

/// The address of a database behind a proxy.
fn behind(proxy: &TcpProxy, direct: &str) -> String {
    let (before, after) = direct.rsplit_once(':').expect("it has a port");
    let (_, name) = after.split_once('/').expect("it has a name");
    format!("{before}:{}/{name}", proxy.port())
}

/// Waits until the server says with this status whether it is ready.
async fn readiness(address: &str, token: Option<&str>, wanted: u16) -> String {
    let give_up = Instant::now() + LONG;
    loop {
        let (status, said) = request_at(address, "GET", "/readyz", token, "").await;
        if status == wanted {
            return said;
        }
        assert!(Instant::now() < give_up, "{status}, not {wanted}: {said}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn editor(home: &Home, address: &str, token: &str) -> Program {
    let mut acp = home.command(&["acp", "--connect", &format!("http://{address}")]);
    acp.env("RETHREAD_TOKEN", token).stderr(Stdio::null());
    let program = Program::start(acp, Version::V2);
    program.client.set_deadline(2 * LONG);
    program.client.initialize().await;
    program
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_waits_for_its_database_and_goes_on_when_it_is_back() {
    let Some(server) = PostgresServer::shared() else { return };
    let (home, direct) = (home(), server.database_url());
    configure(&home, Version::V2);
    let proxy = TcpProxy::to(server.port());
    proxy.set(ProxyMode::Refusing);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = free.local_addr().expect("it is bound").to_string();
    drop(free);
    let mut serve = home.command(&["serve", "--listen", &address]);
    serve.env("RETHREAD_STORE", behind(&proxy, &direct)).stdout(Stdio::null()).stderr(Stdio::null());
    let _serving = serve.spawn().expect("it starts");
    let give_up = Instant::now() + LONG;
    while tokio::net::TcpStream::connect(&address).await.is_err() {
        assert!(Instant::now() < give_up, "it listens before its database is there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(request_at(&address, "GET", "/healthz", None, "").await.0, 200);
    let said = readiness(&address, None, 503).await;
    assert!(said.contains("waits for its store"), "{said}");
    proxy.set(ProxyMode::Open);
    let mut made = home.command(&["token", "new", "test"]);
    let made = made.env("RETHREAD_STORE", &direct).output().await.expect("it runs");
    let token = String::from_utf8_lossy(&made.stdout).trim_end().to_owned();
    readiness(&address, Some(&token), 200).await;

    let cwd = home.beside().display().to_string();
    let here = editor(&home, &address, &token).await;
    let session = here.client.new_session_in(&cwd).await;
    assert_eq!(here.client.prompt(&session, "say one").await.stop, "end_turn");
    let turn = here.client.begin_prompt(&session, "think hm; slow 4000; say never").await;
    here.client.wait_update(0, &session, "a thought", |update| update["content"]["text"] == "hm").await;
    proxy.set(ProxyMode::Silent);
    let began = Instant::now();
    readiness(&address, Some(&token), 503).await;
    // The end of the turn comes when it can be stored; why it ends is said at once.
    let is_notice = |update: &Value| update["sessionUpdate"] == "notice";
    let notice = here.client.wait_update(0, &session, "a notice", is_notice).await;
    assert!(notice["title"].as_str().is_some_and(|title| title.contains("appending failed")), "{notice}");
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    proxy.set(ProxyMode::Open);
    assert_ne!(here.client.finish(&session, &turn).await.stop, "end_turn");
    readiness(&address, Some(&token), 200).await;
    let give_up = Instant::now() + LONG;
    while here.client.prompt(&session, "say on").await.stop != "end_turn" {
        assert!(Instant::now() < give_up, "work goes on");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let fresh = editor(&home, &address, &token).await;
    fresh.client.load_in(&cwd, &session).await;
    let (shown, loaded) = (here.client.view(&session), fresh.client.view(&session));
    kept::check(&shown, &loaded).unwrap_or_else(|wrong| panic!("{wrong}\n{shown}\n{loaded}"));
    assert!(!loaded.agent().iter().any(|text| text == "never"), "{loaded}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_accept_the_same_tokens_and_a_revoked_one_is_over_everywhere() {
    if PostgresServer::shared().is_none() {
        return;
    }
    let first = home();
    let other = first.other_host();
    configure(&first, Version::V2);
    configure(&other, Version::V2);
    let hosts: Vec<ServerProgram> = vec![first.serve_http(&[]).await, other.serve_http(&[]).await];
    let token = new_token(&other, "full").await;
    let mut editors = Vec::new();
    for host in &hosts {
        assert_eq!(request(host, "GET", "/readyz", Some(&token), "").await.0, 200);
        editors.push(editor(&first, url(host).trim_start_matches("http://"), &token).await);
    }
    let listed = run(&first, &["token", "list", "--json"]).await;
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("it is JSON");
    let id = listed["tokens"][0]["id"].as_str().expect("it has an id").to_owned();
    let began = Instant::now();
    assert!(run(&first, &["token", "revoke", &id]).await.status.success());
    for mut editor in editors {
        editor.exited().await;
    }
    // Starting the command took a part of it.
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    for host in &hosts {
        assert_eq!(request(host, "GET", "/readyz", Some(&token), "").await.0, 401);
    }
}
