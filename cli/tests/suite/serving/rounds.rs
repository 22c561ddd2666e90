//! Three real clients on one session of a server: an editor through the pump, a chat, and an editor by WebSocket, in mixed
//! versions. They see the same, the first answer to a question counts, and whatever is killed at random moments, nothing
//! that was shown is lost or there twice. `RETHREAD_ROUNDS` sets how many clients are killed; half as many servers are.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::DEADLINE;
use rethread_testkit::client::{From, RecordedMessage};
use rethread_testkit::kept::{self, nothing_is_doubled};
use rethread_testkit::moments::Moments;
use rethread_testkit::processes::{assert_gone_by, descendants_of};
use rethread_testkit::program::Program;
use rethread_testkit::view::{Item, View};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Child;

use super::restart::Restartable;

/// Sets the number of rounds in which a client is killed.
const ROUNDS: &str = "RETHREAD_ROUNDS";
const DEFAULT_ROUNDS: usize = 6;
/// A session is replaced after so many rounds, so that a load stays short.
const ROUNDS_PER_SESSION: usize = 10;

fn rounds() -> usize {
    std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(DEFAULT_ROUNDS)
}

/// Versions of the pumped editor, the editor by WebSocket and the agent.
const MIXES: [[Version; 3]; 2] =
    [[Version::V1, Version::V2, Version::V1], [Version::V2, Version::V1, Version::V2]];

/// What an agent does in a turn; each number is used once.
fn script(number: usize) -> String {
    format!("think <{number}>; chunks 20; tool call_{number}; permit; slow 12; say done {number}")
}

/// The clients of one session.
struct Trio {
    scene: Restartable,
    versions: [Version; 3],
    session: String,
    editor: Program,
    remote: Program,
    number: usize,
    /// The prompts whose server was killed before it had answered them: they may not have been stored.
    cut_off: Vec<String>,
}

/// A chat without a terminal, which prints what it is shown.
struct ChatProcess(Child);

impl ChatProcess {
    /// What it has printed, when it has ended or is killed. Items before the prompt of this chat are not there.
    async fn shown(mut self, session: &str, end: ChatEnd) -> View {
        if end == ChatEnd::Killed {
            let _ = self.0.start_kill();
        }
        let mut text = String::new();
        let mut output = self.0.stdout.take().expect("it was piped");
        let reading = output.read_to_string(&mut text);
        tokio::time::timeout(4 * DEADLINE, reading).await.expect("the chat ends").expect("it prints text");
        let status = self.0.wait().await.expect("it can be waited for");
        assert!(end != ChatEnd::Finished || status.success(), "{status} {text}");
        // A line that was cut off was not shown.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("it prints JSON lines"));
        let updates = lines.filter(|line| line["type"] == "update").map(|mut line| {
            let params = json!({"sessionId": session, "update": line["update"].take()});
            let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
            RecordedMessage { from: From::Server, message }
        });
        View::of(Version::V2, session, &updates.collect::<Vec<_>>())
    }
}

/// How a chat ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChatEnd {
    /// Its turn has ended.
    Finished,
    /// It is killed.
    Killed,
    /// Its server was killed.
    WithServer,
}

impl Trio {
    async fn start(versions: [Version; 3]) -> Self {
        let scene = Restartable::start(versions[2]).await;
        let editor = ready(&scene, versions[0], versions[2]).await;
        let remote = scene.editor(versions[1]).await;
        let session = editor.client.new_session_in(&scene.cwd()).await;
        remote.client.load_in(&scene.cwd(), &session).await;
        Self { scene, versions, session, editor, remote, number: 0, cut_off: Vec::new() }
    }

    /// The next session, with both editors.
    async fn next_session(&mut self) {
        // The agent counts its sessions from 1 in each process, so no two of them may be open.
        for client in [&self.editor.client, &self.remote.client] {
            client.close(&self.session).await.expect("it is open");
        }
        self.session = self.editor.client.new_session_in(&self.scene.cwd()).await;
        self.remote.client.load_in(&self.scene.cwd(), &self.session).await;
    }

    fn next_script(&mut self) -> String {
        self.number += 1;
        script(self.number)
    }

    fn chat(&mut self) -> ChatProcess {
        let prompt = self.next_script();
        let mut chat =
            self.scene.home.command(&["chat", "--yes", "--json", "--resume", &self.session, &prompt]);
        chat.current_dir(self.scene.home.beside())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        ChatProcess(chat.spawn().expect("it starts"))
    }

    /// Starts the editor again, which loads the session.
    async fn editor_again(&mut self) {
        self.editor = ready(&self.scene, self.versions[0], self.versions[2]).await;
        self.editor.client.load_in(&self.scene.cwd(), &self.session).await;
    }

    async fn remote_again(&mut self) {
        self.remote = self.scene.editor(self.versions[1]).await;
        self.remote.client.load_in(&self.scene.cwd(), &self.session).await;
    }

    /// What a new client is shown. No turn may run.
    async fn loaded(&self) -> View {
        let fresh = self.scene.editor(Version::V2).await;
        fresh.client.load_in(&self.scene.cwd(), &self.session).await;
        fresh.client.view(&self.session)
    }

    /// A turn of each editor that nothing disturbs; after it, nothing runs.
    async fn quiet_turns(&mut self, label: &str) {
        for number in [self.number + 1, self.number + 2] {
            let client = if number % 2 == 0 { &self.editor.client } else { &self.remote.client };
            let said = format!("quiet {number}");
            let turn = client.prompt(&self.session, &format!("say {said}")).await;
            let last = client.said().len().saturating_sub(8);
            assert_eq!(turn.stop, "end_turn", "{label}: {:#?}", &client.said()[last..]);
            for client in [&self.editor.client, &self.remote.client] {
                let is = |update: &Value| {
                    update["content"]["text"] == said.as_str()
                        || update["content"][0]["text"] == said.as_str()
                };
                client.wait_update(0, &self.session, &said, is).await;
            }
        }
        self.number += 2;
    }

    /// All clients see what a new one is shown.
    async fn check_same(&mut self, label: &str) -> View {
        self.quiet_turns(label).await;
        let loaded = self.loaded().await;
        for program in [&self.editor, &self.remote] {
            let view = program.client.view(&self.session);
            let (mut shown, stored) = (seen(&view), seen(&loaded));
            // A client shows its own prompt by itself, also one that has failed.
            shown.1.retain(|prompt| stored.1.contains(prompt) || !self.cut_off.contains(prompt));
            assert_eq!(shown, stored, "{label}\n{view}\nloaded:\n{loaded}");
        }
        if let Err(doubled) = nothing_is_doubled(&loaded) {
            panic!("{label}: {doubled}\n{loaded}");
        }
        loaded
    }
}

async fn ready(scene: &Restartable, version: Version, agent: Version) -> Program {
    let program = scene.home.ready(version, agent).await;
    program.client.set_deadline(Duration::from_secs(60));
    program
}

/// What does not depend on when a client of version 1 has shown its own prompt.
fn seen(view: &View) -> (Vec<Item>, Vec<String>) {
    let is_user = |item: &Item| matches!(item, Item::Message { who: "user", .. });
    let items = view.items.iter().filter(|item| !is_user(item)).cloned().collect();
    let mut user = view.user();
    user.sort();
    (items, user)
}

/// Each item that was shown is in the session: of messages at least the text that was shown. The order may be another one, since
/// a client that attaches in the middle of a message sees its end after what came meanwhile.
fn check_kept(shown: &View, loaded: &View) -> Result<(), String> {
    for item in &shown.items {
        let is_same = |found: &Item| match (item, found) {
            (Item::Message { who, id, text }, Item::Message { who: whose, id: name, text: whole }) => {
                who == whose && id == name && whole.contains(text.as_str())
            }
            (Item::Tool { id, .. }, Item::Tool { id: name, .. }) => id == name,
            (item, found) => item == found,
        };
        if !matches!(item, Item::Other(_)) && !loaded.items.iter().any(is_same) {
            return Err(format!("{item:?} is lost"));
        }
    }
    Ok(())
}

/// What an editor was shown, without its own prompts: it shows them itself, before they are stored.
fn shown_by(program: &Program, session: &str) -> View {
    let mut view = kept::shown(&program.client, session);
    view.items.retain(|item| !matches!(item, Item::Message { who: "user", id, .. } if id.0.is_none()));
    view
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_clients_lose_and_double_nothing() {
    for (mix, versions) in MIXES.into_iter().enumerate() {
        let mut moments = Moments::new(40 + mix as u64);
        let mut trio = Trio::start(versions).await;
        for round in 0..rounds().div_ceil(MIXES.len()) {
            let label = moments.label(round);
            let (one, two) = (trio.next_script(), trio.next_script());
            let session = trio.session.clone();
            let of_editor = trio.editor.client.begin_prompt(&session, &one).await;
            let of_remote = trio.remote.client.begin_prompt(&session, &two).await;
            let chat = trio.chat();
            tokio::time::sleep(moments.up_to(Duration::from_millis(450))).await;
            let chat_end = if round % 3 == 2 { ChatEnd::Killed } else { ChatEnd::Finished };
            let victim = match round % 3 {
                0 => {
                    trio.editor.kill().await;
                    Some(shown_by(&trio.editor, &session))
                }
                1 => {
                    trio.remote.kill().await;
                    Some(shown_by(&trio.remote, &session))
                }
                _ => None,
            };
            let of_chat = chat.shown(&session, chat_end).await;
            if round % 3 == 0 {
                trio.editor_again().await;
            } else {
                assert_eq!(trio.editor.client.finish(&session, &of_editor).await.stop, "end_turn", "{label}");
            }
            if round % 3 == 1 {
                trio.remote_again().await;
            } else {
                assert_eq!(trio.remote.client.finish(&session, &of_remote).await.stop, "end_turn", "{label}");
            }
            let loaded = trio.check_same(&label).await;
            for shown in victim.iter().chain([&of_chat]) {
                if let Err(lost) = check_kept(shown, &loaded) {
                    panic!("{label}: {lost}\nshown:\n{shown}\nloaded:\n{loaded}");
                }
            }
            if round % ROUNDS_PER_SESSION == ROUNDS_PER_SESSION - 1 {
                trio.next_session().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_the_server_lose_and_double_nothing() {
    let mut in_turns = 0;
    let all = rounds().div_ceil(2 * MIXES.len());
    for (mix, versions) in MIXES.into_iter().enumerate() {
        let mut moments = Moments::new(50 + mix as u64);
        let mut trio = Trio::start(versions).await;
        for round in 0..all {
            let label = moments.label(round);
            let (one, two) = (trio.next_script(), trio.next_script());
            let session = trio.session.clone();
            trio.editor.client.begin_prompt(&session, &one).await;
            let of_remote = trio.remote.client.begin_prompt(&session, &two).await;
            let chat = trio.chat();
            tokio::time::sleep(moments.up_to(Duration::from_millis(450))).await;
            trio.scene.end(libc::SIGKILL).await;
            assert_eq!(trio.editor.exited().await.code(), Some(1), "{label}: the pump ends");
            let of_editor = shown_by(&trio.editor, &session);
            let of_chat = chat.shown(&session, ChatEnd::WithServer).await;
            trio.scene.start_again().await;
            trio.editor_again().await;
            // The editor by address goes on by itself; its prompt has ended in one way or the other.
            if trio.remote.client.answer(&of_remote).await.is_err() {
                in_turns += 1;
                trio.cut_off.push(two);
            }
            let loaded = trio.check_same(&label).await;
            for shown in [of_editor, of_chat] {
                if let Err(lost) = check_kept(&shown, &loaded) {
                    panic!("{label}: {lost}\nshown:\n{shown}\nloaded:\n{loaded}");
                }
            }
            if round % ROUNDS_PER_SESSION == ROUNDS_PER_SESSION - 1 {
                trio.next_session().await;
            }
        }
    }
    assert!(all < 20 || in_turns > 0, "no prompt was open when the server was killed");
}

#[tokio::test]
async fn the_first_answer_of_three_clients_counts() {
    for versions in MIXES {
        let trio = Trio::start(versions).await;
        let session = &trio.session;
        for client in [&trio.editor.client, &trio.remote.client] {
            client.on("session/request_permission", |_| None);
        }
        let prompt = trio.editor.client.begin_prompt(session, "permit; say end").await;
        let asked = trio.editor.client.wait_method("session/request_permission").await;
        let asked_too = trio.remote.client.wait_method("session/request_permission").await;
        let choose = |asked: &Value, at: usize| {
            let option = asked["params"]["options"][at]["optionId"].clone();
            Ok(json!({"outcome": {"outcome": "selected", "optionId": option}}))
        };
        trio.remote.client.reply(&asked_too["id"], choose(&asked_too, 0)).await;
        let withdrawn = trio.editor.client.wait_method("$/cancel_request").await;
        assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
        // Too late.
        trio.editor.client.reply(&asked["id"], choose(&asked, 1)).await;
        assert_eq!(trio.editor.client.finish(session, &prompt).await.stop, "end_turn");
        let first = asked_too["params"]["options"][0]["optionId"].as_str().expect("an option").to_owned();
        let said = trio.loaded().await.agent().join(" ");
        assert!(said.contains(&first), "the agent got {first}: {said}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_with_twenty_turns_leaves_no_process_and_every_word() {
    let mut scene = Restartable::start(Version::V1).await;
    let mut editors = Vec::new();
    for number in 0..4 {
        let agent = if number % 2 == 0 { Version::V1 } else { Version::V2 };
        let mut acp = scene.home.acp(&scene.home.scripted(agent));
        // Another environment, so that there are several agent processes.
        acp.env("NUMBER", number.to_string()).stderr(Stdio::null());
        let editor = Program::start(acp, if number < 2 { Version::V1 } else { Version::V2 });
        editor.client.set_deadline(Duration::from_secs(60));
        editor.client.initialize().await;
        let mut sessions = Vec::new();
        for _ in 0..5 {
            let session = editor.client.new_session_in(&scene.cwd()).await;
            editor.client.begin_prompt(&session, "think hm; tool call_1; slow 4000").await;
            sessions.push(session);
        }
        editors.push((editor, sessions));
    }
    for (editor, sessions) in &editors {
        for session in sessions {
            let is =
                |update: &Value| update["content"]["text"].as_str().is_some_and(|text| text.contains("c10"));
            editor.client.wait_update(0, session, "text", is).await;
        }
    }
    let processes = descendants_of(scene.pid());
    assert!(processes.len() >= 8, "four agents and their guardians: {processes:?}");
    scene.end(libc::SIGKILL).await;
    assert_gone_by(Instant::now() + Duration::from_secs(10), &processes, "the agents").await;
    scene.start_again().await;
    for (editor, sessions) in &mut editors {
        assert_eq!(editor.exited().await.code(), Some(1));
        for session in sessions.iter() {
            let fresh = scene.editor(editor.client.version).await;
            fresh.client.load_in(&scene.cwd(), session).await;
            let (shown, loaded) = (shown_by(editor, session), fresh.client.view(session));
            check_kept(&shown, &loaded)
                .and_then(|()| nothing_is_doubled(&loaded))
                .unwrap_or_else(|lost| panic!("{lost}\nshown:\n{shown}\nloaded:\n{loaded}"));
        }
    }
}
