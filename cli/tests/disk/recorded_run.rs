//! Runs the real program under strace through turns, folds, a fork, a delete, a close and a kill, and records what it
//! wrote and what it answered.

use std::fs;
use std::path::{Path, PathBuf};

use rethread::edge::Version;
use rethread_testkit::client::CWD;
use rethread_testkit::processes::signal;
use rethread_testkit::program::{Home, Program};
use rethread_testkit::view::View;
use serde_json::{Value, json};
use tokio::process::Command;

use super::calls::{Call, Effect, TRACED, parse};

/// More turns than are kept unfolded.
const MANY_TURNS: usize = 34;
/// Half of the entries of a turn that has more than are kept unfolded.
const LONG_TURN_PAIRS: usize = 1050;

/// What the program did in all its runs.
pub(crate) struct RecordedRun {
    pub(crate) home: Home,
    pub(crate) calls: Vec<Call>,
    pub(crate) answers: Vec<Answer>,
    /// What the client was shown of the deleted session.
    pub(crate) of_deleted: View,
}

/// An answer that the client was sent.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The place in the record at which it was written.
    pub(crate) at: usize,
    pub(crate) session: String,
    pub(crate) what: Promise,
}

/// What an answer promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The session exists.
    Created,
    /// The turn of the prompt with this number has ended.
    TurnEnded(usize),
    /// The session is deleted.
    Deleted,
}

/// A run with a client.
struct Recorder {
    program: Program,
    pipe: String,
    record: PathBuf,
    /// What the answers to requests promise.
    requests: Vec<(Value, String, Promise)>,
}

impl RecordedRun {
    /// Runs the program four times on one folder.
    pub(crate) async fn record() -> Self {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        fs::create_dir(home.path()).expect("a folder can be made");
        let mut run = Self { home, calls: Vec::new(), answers: Vec::new(), of_deleted: View::default() };
        let mut recorder = Recorder::start(&run.home, 0).await;
        let sessions = first_run(&mut recorder).await;
        run.of_deleted = recorder.program.client.view(&sessions[3]);
        recorder.finish(&mut run, End::Disconnect).await;
        let mut recorder = Recorder::start(&run.home, 1).await;
        second_run(&mut recorder, &sessions).await;
        recorder.finish(&mut run, End::Kill).await;
        for number in 2..4 {
            let mut recorder = Recorder::start(&run.home, number).await;
            for session in &sessions[..2] {
                recorder.program.client.load(session).await;
                recorder.prompt(session, 1000 * number, "").await;
            }
            recorder.finish(&mut run, End::Disconnect).await;
        }
        run
    }

    /// The end of the record.
    pub(crate) fn end(&self) -> usize {
        self.calls.last().map_or(0, |call| call.ended + 1)
    }
}

/// Turns, folds, a fork, a delete, a close. Returns the sessions: the main one, its fork, a closed and a deleted one.
async fn first_run(recorder: &mut Recorder) -> Vec<String> {
    let main = recorder.create("session/new", json!({"cwd": CWD, "mcpServers": []})).await;
    let deleted = recorder.create("session/new", json!({"cwd": CWD, "mcpServers": []})).await;
    recorder.prompt(&deleted, 1, "").await;
    recorder.prompt(&main, 2, "").await;
    let closed = recorder.create("session/new", json!({"cwd": CWD, "mcpServers": []})).await;
    recorder.prompt(&closed, 3, "").await;
    recorder.prompt(&closed, 4, "").await;
    recorder.program.client.close(&closed).await.expect("it closes");
    let fork =
        recorder.create("session/fork", json!({"sessionId": main, "cwd": CWD, "mcpServers": []})).await;
    recorder.prompt(&fork, 5, "").await;
    for turn in 0..MANY_TURNS {
        recorder.prompt(&main, 10 + turn, "").await;
    }
    let request = recorder.program.client.begin("session/delete", json!({"sessionId": deleted})).await;
    recorder.requests.push((request.clone(), deleted.clone(), Promise::Deleted));
    recorder.program.client.answer(&request).await.expect("it is deleted");
    recorder.prompt(&main, 6, &"say a; think b; ".repeat(LONG_TURN_PAIRS)).await;
    recorder.prompt(&fork, 7, "").await;
    recorder.program.client.close(&main).await.expect("it closes");
    recorder.program.client.load(&main).await;
    recorder.prompt(&main, 8, "").await;
    vec![main, fork, closed, deleted]
}

/// A run that is killed in a turn.
async fn second_run(recorder: &mut Recorder, sessions: &[String]) {
    recorder.program.client.load(&sessions[0]).await;
    recorder.prompt(&sessions[0], 100, "").await;
    recorder.program.client.load(&sessions[2]).await;
    recorder.prompt(&sessions[2], 101, "").await;
    recorder.program.client.begin_prompt(&sessions[0], &script(102, "slow 40; hang; ")).await;
    let begun = |update: &Value| update["content"]["text"].as_str().is_some_and(|text| text.contains("c20"));
    recorder.program.client.wait_update(0, &sessions[0], "the middle of the turn", begun).await;
}

/// How a run ends.
#[derive(Clone, Copy)]
enum End {
    Disconnect,
    Kill,
}

impl Recorder {
    async fn start(home: &Home, number: usize) -> Self {
        let record = home.beside().join(format!("record-{number}"));
        let acp = home.acp(&home.scripted(Version::V2));
        let output = home.beside().join(format!("output-{number}"));
        let mut command = Command::new("sh");
        // The pipe must be known before strace and the program change their descriptors.
        command
            .args(["-c", "exec 3>&1; readlink /proc/$$/fd/3 > \"$0\"; exec 3>&-; exec strace \"$@\""])
            .arg(&output);
        command.args(["-f", "-y", "-xx", "-s", "10000000", "-e", &format!("trace={TRACED}"), "-o"]);
        command.arg(&record).arg(acp.as_std().get_program()).args(acp.as_std().get_args());
        command.env("RETHREAD_HOME", home.path()).kill_on_drop(true);
        // The answers to prompts are the ends of turns in version 1.
        let program = Program::start(command, Version::V1);
        program.client.set_deadline(std::time::Duration::from_secs(60));
        program.client.initialize().await;
        let pipe = fs::read_to_string(output).expect("it was written").trim().to_owned();
        Self { program, pipe, record, requests: Vec::new() }
    }

    async fn create(&mut self, method: &str, params: Value) -> String {
        let request = self.program.client.begin(method, params).await;
        let made = self.program.client.answer(&request).await.expect("it is created");
        let session = made["sessionId"].as_str().expect("a session has an id").to_owned();
        self.requests.push((request, session.clone(), Promise::Created));
        session
    }

    async fn prompt(&mut self, session: &str, number: usize, steps: &str) {
        let request = self.program.client.begin_prompt(session, &script(number, steps)).await;
        self.requests.push((request.clone(), session.to_owned(), Promise::TurnEnded(number)));
        assert_eq!(self.program.client.finish(session, &request).await.stop, "end_turn");
    }

    async fn finish(mut self, run: &mut RecordedRun, end: End) {
        match end {
            End::Disconnect => self.program.client.disconnect().await,
            End::Kill => signal(child_of(self.program.pid()), libc::SIGKILL),
        }
        self.program.exited().await;
        let base = run.end();
        let record = fs::read_to_string(&self.record).expect("strace has written a record");
        let mut calls = parse(&record, &run.home.path(), &self.pipe);
        for call in &mut calls {
            (call.began, call.ended) = (call.began + base, call.ended + base);
        }
        run.answers.extend(self.answers(&calls));
        // Locks and logs are not part of the store, and SQLite makes its index of the log again.
        let state = run.home.path().join("state");
        calls.retain(|call| is_of_store(&call.what, &state));
        run.calls.extend(calls);
    }

    /// Finds where the answers were written.
    fn answers(&self, calls: &[Call]) -> Vec<Answer> {
        let (mut answers, mut line) = (Vec::new(), Vec::new());
        for call in calls {
            let Effect::Answer(bytes) = &call.what else { continue };
            for byte in bytes {
                if *byte != b'\n' {
                    line.push(*byte);
                    continue;
                }
                let message: Value = serde_json::from_slice(&line).expect("a line is a message");
                line.clear();
                let asked = self.requests.iter().find(|(id, ..)| *id == message["id"]);
                if let Some((_, session, what)) = asked.filter(|_| message.get("result").is_some()) {
                    answers.push(Answer { at: call.began, session: session.clone(), what: what.clone() });
                }
            }
        }
        assert_eq!(answers.len(), self.requests.len(), "every answer is in the record");
        answers
    }
}

/// What the agent does in the turn with this number.
fn script(number: usize, steps: &str) -> String {
    format!("think <{number}>; chunks 5; {steps}say end {number}")
}

fn is_of_store(what: &Effect, state: &Path) -> bool {
    match what {
        Effect::Create(path)
        | Effect::MakeDir(path)
        | Effect::Sync(path)
        | Effect::Remove(path)
        | Effect::Write { file: path, .. }
        | Effect::Truncate { file: path, .. }
        | Effect::Rename { to: path, .. } => !path.starts_with(state) && !is_shared_memory(path),
        Effect::Answer(_) => false,
    }
}

/// SQLite makes this file anew after a power cut.
fn is_shared_memory(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-shm"))
}

fn child_of(pid: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it runs");
    children.split_whitespace().next().and_then(|child| child.parse().ok()).expect("strace has a child")
}
