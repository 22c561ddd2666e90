//! A minimal benchmark client: sends requests, reads answers, and collects the text in between.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::agent::{self, Turn};
use crate::hop;

/// A client and the process it talks to.
pub(crate) struct Client {
    pub(crate) process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: String,
    last: u64,
}

/// A line of the program.
enum Line<'a> {
    /// The text of a chunk.
    Text(&'a str),
    Other(&'a str),
}

impl Client {
    /// Connects to the agent directly.
    pub(crate) fn direct() -> Self {
        let mut command = Command::new(this_program());
        command.arg(agent::FLAG);
        Self::start(&mut command)
    }

    /// Connects to the agent through rethread.
    pub(crate) fn through_rethread(home: &Path) -> Self {
        Self::start(&mut rethread(home))
    }

    /// Connects through rethread to an agent that lists this many sessions as its own.
    pub(crate) fn with_listed_sessions(home: &Path, listed: usize) -> Self {
        Self::start(rethread(home).arg(listed.to_string()))
    }

    /// Connects to the agent through the official conductor without proxies.
    pub(crate) fn through_conductor(conductor: &Path) -> Self {
        let mut command = Command::new(conductor);
        command.arg("agent").arg(format!("{} {}", this_program().display(), agent::FLAG));
        Self::start(&mut command)
    }

    /// Connects to the agent through the bare hop.
    pub(crate) fn through_hop(journal: &Path) -> Self {
        let mut command = Command::new(this_program());
        command.arg(hop::FLAG).arg(journal);
        Self::start(&mut command)
    }

    /// Connects to the built-in assistant without a model.
    pub(crate) fn assistant(home: &Path) -> Self {
        let mut command = Command::new(crate::program::path());
        command.env_clear().env("RETHREAD_HOME", home).arg("acp");
        Self::start(&mut command)
    }

    /// Reads a file through `cat`.
    pub(crate) fn of_cat(file: &Path) -> Self {
        Self::spawn(Command::new("cat").arg(file))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().expect("it is a pipe");
        Self {
            process,
            stdin,
            stdout: BufReader::with_capacity(256 * 1024, stdout),
            line: String::new(),
            last: 0,
        }
    }

    fn start(command: &mut Command) -> Self {
        let mut client = Self::spawn(command);
        client.request("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
        client
    }

    /// Creates a session and returns its id.
    pub(crate) fn new_session(&mut self) -> String {
        let made = self.request("session/new", &json!({"cwd": "/", "mcpServers": []}));
        made["result"]["sessionId"].as_str().expect("a session has an id").to_owned()
    }

    /// Sends a prompt and reads up to its answer; returns all text before it.
    pub(crate) fn turn(&mut self, session: &str, turn: &Turn) -> String {
        self.send_turn(session, turn);
        self.answer().1
    }

    /// Sends a prompt.
    pub(crate) fn send_turn(&mut self, session: &str, turn: &Turn) {
        let prompt = [json!({"type": "text", "text": turn.to_string()})];
        self.send("session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    }

    /// Sends a request and returns its answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.send(method, params);
        self.answer().0
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, method: &str, params: &Value) {
        self.last += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).to_string();
        let stdin = self.stdin.as_mut().expect("not closed yet");
        stdin.write_all((line + "\n").as_bytes()).expect("somebody reads");
    }

    /// Reads up to the answer to the last request; returns it and all text before it.
    pub(crate) fn answer(&mut self) -> (Value, String) {
        let mut text = String::new();
        let wanted = format!("\"id\":{}", self.last);
        loop {
            match self.line() {
                Line::Text(part) => text.push_str(part),
                // Only the answer has the id and no method.
                Line::Other(line) if line.contains(&wanted) => {
                    return (serde_json::from_str(line).expect("an answer is JSON"), text);
                }
                Line::Other(_) => {}
            }
        }
    }

    /// Reads up to the answers to this many prompts. `visit` is called with the text of each chunk as soon as it has been
    /// read.
    pub(crate) fn read_turns(&mut self, prompts: usize, mut visit: impl FnMut(&str)) {
        let mut answered = 0;
        while answered < prompts {
            match self.line() {
                Line::Text(text) => visit(text),
                Line::Other(line) if line.contains("\"stopReason\":") => answered += 1,
                Line::Other(_) => {}
            }
        }
    }

    /// Reads a line. Chunks are parsed by hand for speed.
    fn line(&mut self) -> Line<'_> {
        self.line.clear();
        let read = self.stdout.read_line(&mut self.line).expect("lines are text");
        assert!(read > 0, "the program hung up");
        match self.line.split_once("\"text\":\"") {
            Some((_, rest)) => Line::Text(&rest[..rest.find('"').expect("a string ends")]),
            None => Line::Other(&self.line),
        }
    }

    /// All bytes up to the answer to the last request.
    pub(crate) fn bytes_up_to_the_answer(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let wanted = format!("\"id\":{},\"result\"", self.last);
        loop {
            let from = bytes.len();
            let read = self.stdout.read_until(b'\n', &mut bytes).expect("the pipe can be read");
            assert!(read > 0, "the program hung up");
            if begins_with(&bytes[from..], wanted.as_bytes()) {
                return bytes;
            }
        }
    }

    /// Reads to the end line by line, and returns the number of bytes.
    pub(crate) fn all_bytes(&mut self) -> usize {
        let mut bytes = Vec::new();
        while self.stdout.read_until(b'\n', &mut bytes).expect("the pipe can be read") > 0 {}
        bytes.len()
    }

    /// Closes the program's input, which ends it.
    pub(crate) fn hang_up(&mut self) {
        drop(self.stdin.take());
    }

    /// Ends the process.
    pub(crate) fn end(mut self) {
        self.hang_up();
        self.process.wait().expect("it ends");
    }
}

/// Returns whether a line contains this near its beginning, where an answer has its id.
fn begins_with(line: &[u8], wanted: &[u8]) -> bool {
    line.get(..64).unwrap_or(line).windows(wanted.len()).any(|part| part == wanted)
}

/// The command for rethread with the agent; the agent's arguments can be added.
fn rethread(home: &Path) -> Command {
    let mut command = Command::new(crate::program::path());
    command.env("RETHREAD_HOME", home).args(["acp", "--"]).arg(this_program()).arg(agent::FLAG);
    command
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("a program has a path")
}
