//! Clients by address when their server is killed and started again: they initialize and load by themselves, are shown only
//! what is new, and go on. The editor notices a pause, and its open prompt gets an error.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rethread::client::view::SessionView;
use rethread::client::{
    AcpClient, AskedQuestion, ClientConfig, ClientHandler, Introduction, SessionEvent, TransportSource,
};
use rethread::edge::Version;
use rethread::edge::client_request::Setup;
use rethread_core::SessionId;
use rethread_http::RemoteTarget;
use rethread_testkit::processes::signal;
use rethread_testkit::program::{Home, Program, ServerProgram};
use serde_json::Value;
use tokio::sync::Mutex;

use super::http::{configure, new_token, url};
use super::{home, run, stderr, stdout};

pub(super) const BOTH: [Version; 2] = [Version::V1, Version::V2];

/// A server by address that can be killed and started again.
pub(super) struct Restartable {
    pub(super) home: Home,
    pub(super) token: String,
    pub(super) url: String,
    server: Option<ServerProgram>,
}

impl Restartable {
    pub(super) async fn start(agent: Version) -> Self {
        let home = home();
        configure(&home, agent);
        let server = home.serve_http(&[]).await;
        let token = new_token(&home, "full").await;
        Self { token, url: url(&server), server: Some(server), home }
    }

    pub(super) fn cwd(&self) -> String {
        self.home.beside().display().to_string()
    }

    pub(super) async fn end(&mut self, by: i32) {
        if let Some(server) = self.server.take() {
            signal(server.pid(), by);
            server.exited().await;
        }
    }

    /// The process of the server, which runs.
    pub(super) fn pid(&self) -> i32 {
        self.server.as_ref().expect("it runs").pid()
    }

    pub(super) async fn start_again(&mut self) {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let serve = self.home.command(&["serve", "--listen", &address]);
        self.server = Some(ServerProgram::start(serve).await);
    }

    /// An editor whose pump speaks WebSocket.
    pub(super) async fn editor(&self, version: Version) -> Program {
        let mut acp = self.home.command(&["acp", "--connect", &self.url]);
        acp.env("RETHREAD_TOKEN", &self.token).stderr(Stdio::piped());
        let program = Program::start(acp, version);
        program.client.set_deadline(Duration::from_secs(60));
        program.client.initialize().await;
        program
    }
}

fn said(text: &'static str) -> impl Fn(&Value) -> bool {
    move |update| update["content"]["text"] == text
}

#[tokio::test]
async fn an_editor_goes_on_after_its_server_was_killed_and_started_again() {
    for version in BOTH {
        for agent in BOTH {
            for by in [libc::SIGKILL, libc::SIGTERM] {
                let mut scene = Restartable::start(agent).await;
                let editor = scene.editor(version).await;
                let client = &editor.client;
                let session = client.new_session_in(&scene.cwd()).await;
                assert_eq!(client.prompt(&session, "say one; tool call_1").await.stop, "end_turn");
                let open = client.begin_prompt(&session, "think hm; say two; tool call_2; slow 2000").await;
                client.wait_update(0, &session, "a chunk", |update| update["toolCallId"] == "call_2").await;
                if by == libc::SIGTERM {
                    // The second one: the turn gets no more time.
                    signal(scene.pid(), by);
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                scene.end(by).await;
                scene.start_again().await;
                let turn = client.finish(&session, &open).await;
                assert!(
                    turn.stop.starts_with("error") || turn.stop == "cancelled",
                    "{version:?} {by}: {turn:?}"
                );
                assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");

                let fresh = scene.editor(version).await;
                fresh.client.load_in(&scene.cwd(), &session).await;
                let (went_on, loaded) = (client.view(&session), fresh.client.view(&session));
                assert_eq!(
                    went_on.items, loaded.items,
                    "{version:?} {agent:?}\n{went_on}\nloaded:\n{loaded}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_open_question_is_withdrawn_and_its_late_answer_goes_nowhere() {
    for version in BOTH {
        let mut scene = Restartable::start(Version::V1).await;
        let editor = scene.editor(version).await;
        let client = &editor.client;
        let session = client.new_session_in(&scene.cwd()).await;
        client.on("session/request_permission", |_| None);
        let open = client.begin_prompt(&session, "say one; permit; say two").await;
        let asked = client.wait_method("session/request_permission").await;
        scene.end(libc::SIGKILL).await;
        scene.start_again().await;
        let withdrawn = client.wait_method("$/cancel_request").await;
        assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
        let turn = client.finish(&session, &open).await;
        assert!(turn.stop.starts_with("error"), "{version:?}: {turn:?}");

        let mark = client.mark();
        let next = client.begin_prompt(&session, "permit; say three").await;
        let method = |message: &Value| message["method"] == "session/request_permission";
        let again = client.wait_since(mark, "the next question", method).await;
        assert_ne!(again["id"], asked["id"]);
        let option = again["params"]["options"][0]["optionId"].clone();
        let chosen =
            |option: Value| Ok(serde_json::json!({"outcome": {"outcome": "selected", "optionId": option}}));
        client.reply(&asked["id"], chosen(serde_json::json!("nothing that is offered"))).await;
        client.reply(&again["id"], chosen(option)).await;
        assert_eq!(client.finish(&session, &next).await.stop, "end_turn");
        client.wait_update(mark, &session, "three", said("three")).await;
    }
}

#[tokio::test]
async fn a_server_that_stays_away_ends_its_editor_with_one_line() {
    let mut scene = Restartable::start(Version::V1).await;
    let mut acp = scene.home.command(&["acp", "--reconnect-seconds", "1", "--connect", &scene.url]);
    acp.env("RETHREAD_TOKEN", &scene.token).stderr(Stdio::piped());
    let mut editor = Program::start(acp, Version::V1);
    editor.client.initialize().await;
    scene.end(libc::SIGKILL).await;
    assert_eq!(editor.exited().await.code(), Some(1));
    let said = editor.stderr().await;
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
}

#[tokio::test]
async fn an_editor_that_ends_is_not_waited_for() {
    let scene = Restartable::start(Version::V1).await;
    let mut editor = scene.editor(Version::V1).await;
    editor.client.new_session_in(&scene.cwd()).await;
    editor.client.disconnect().await;
    assert!(editor.exited().await.success());
    let status = || async {
        let output = run(&scene.home, &["serve", "--status", "--json"]).await;
        let status: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        status["clients"].clone()
    };
    let gone = async {
        while status().await != 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("it is not counted any more");
}

/// Folds what happens.
#[derive(Default)]
struct Folding(Arc<Mutex<SessionView>>);

impl ClientHandler for Folding {
    async fn event(&self, _: &SessionId, event: &SessionEvent) {
        self.0.lock().await.apply(event);
    }

    async fn question(&self, question: AskedQuestion) {
        question.cancel().await;
    }
}

#[tokio::test]
async fn a_client_of_the_library_goes_on_too() {
    let mut scene = Restartable::start(Version::V2).await;
    let target = RemoteTarget {
        url: scene.url.clone(),
        token: Some(scene.token.clone()),
        ca: None,
        patience: Duration::from_secs(60),
    };
    let wire = rethread_http::connect(target).await.expect("it connects").into_wire();
    let me = Introduction { name: "test".to_owned(), version: "1".to_owned(), ..Introduction::default() };
    let handler = Folding::default();
    let view = handler.0.clone();
    let source = Arc::new(TransportSource::new(wire));
    let client =
        AcpClient::connect(source, &me, ClientConfig::default(), handler).await.expect("it initializes");
    let setup = Setup { cwd: scene.cwd(), ..Setup::default() };
    let session = client.new_session(&setup).await.expect("a session");
    session.prompt_text("say one").await.expect("a turn");
    let prompt = session.prompt_text("say two; slow 2000");
    let restart = async {
        while view.lock().await.items().len() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        scene.end(libc::SIGKILL).await;
        scene.start_again().await;
    };
    let (cut_off, ()) = tokio::join!(prompt, restart);
    assert!(cut_off.is_err() || cut_off.is_ok_and(|stop| stop.reason == "error"));
    assert_eq!(session.prompt_text("say three").await.expect("a turn").reason, "end_turn");
    client.close().await;
}

#[tokio::test]
async fn a_chat_by_address_says_that_its_turn_was_cut_off_and_the_words_are_kept() {
    let mut scene = Restartable::start(Version::V1).await;
    let mut chat = scene.home.command(&["chat", "--yes", "--connect", &scene.url, "say one; slow 2000"]);
    chat.env("RETHREAD_TOKEN", &scene.token).current_dir(scene.home.beside());
    let chat = chat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let running = async {
        loop {
            let status = run(&scene.home, &["serve", "--status", "--json"]).await;
            let status: Value = serde_json::from_slice(&status.stdout).expect("it is JSON");
            if status["sessions"]["running"] == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), running).await.expect("the turn runs");
    tokio::time::sleep(Duration::from_millis(100)).await;
    scene.end(libc::SIGKILL).await;
    scene.start_again().await;
    let ended = tokio::time::timeout(Duration::from_secs(60), chat.wait_with_output()).await;
    let chat = ended.expect("it ends").expect("it runs");
    assert_eq!(chat.status.code(), Some(1), "{} {}", stdout(&chat), stderr(&chat));
    assert!(stdout(&chat).starts_with("one"), "{}", stdout(&chat));
}
