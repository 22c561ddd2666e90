//! A minimal benchmark client: sends requests, reads answers, and collects the text in between.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::agent;

/// A client and the process it talks to.
pub(crate) struct Client {
    pub(crate) process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last: u64,
}

impl Client {
    /// Connects to the agent directly.
    pub(crate) fn direct() -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
        command.arg(agent::FLAG);
        Self::start(&mut command)
    }

    /// Connects to the agent through rethread.
    pub(crate) fn through_rethread(home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rethread"));
        command.env("RETHREAD_HOME", home).args(["acp", "--"]);
        command.arg(std::env::current_exe().expect("a program has a path")).arg(agent::FLAG);
        Self::start(&mut command)
    }

    /// Connects to the agent through the official conductor without proxies.
    pub(crate) fn through_conductor(conductor: &Path) -> Self {
        let agent = std::env::current_exe().expect("a program has a path");
        let mut command = Command::new(conductor);
        command.arg("agent").arg(format!("{} {}", agent.display(), agent::FLAG));
        Self::start(&mut command)
    }

    /// Connects to the built-in assistant without a model.
    pub(crate) fn assistant(home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rethread"));
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
        Self { process, stdin, stdout: BufReader::with_capacity(256 * 1024, stdout), last: 0 }
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
        let mut line = String::new();
        let wanted = format!("\"id\":{}", self.last);
        loop {
            line.clear();
            let read = self.stdout.read_line(&mut line).expect("lines are text");
            assert!(read > 0, "the program hung up");
            // Only the answer has the id and no method; chunks are parsed by hand for speed.
            if let Some(at) = line.find("\"text\":\"") {
                let rest = &line[at + 8..];
                text.push_str(&rest[..rest.find('"').expect("a string ends")]);
            } else if line.contains(&wanted) {
                return (serde_json::from_str(&line).expect("an answer is JSON"), text);
            }
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

    /// Ends the process.
    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        self.process.wait().expect("it ends");
    }
}

/// Returns whether a line contains this near its beginning, where an answer has its id.
fn begins_with(line: &[u8], wanted: &[u8]) -> bool {
    line.get(..64).unwrap_or(line).windows(wanted.len()).any(|part| part == wanted)
}

/// The parameters of a prompt.
pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
