//! A small client of `rethread acp`, which runs as a process of its own so that it can be killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::failure::Failure;

/// A client with its `rethread acp`.
pub(super) struct DemoClient {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last: u64,
}

/// A message of the server.
enum FromServer {
    Words(String),
    Answer(Value),
    Other,
}

impl DemoClient {
    /// Starts `rethread acp` with the agent of the demonstration, and initializes.
    pub(super) fn start(home: &Path) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(&program);
        command.env("RETHREAD_HOME", home).args(["acp", "--"]).arg(&program).arg("__demo-agent");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::plain("no pipes to rethread acp"));
        };
        let mut client = Self { process, stdin, stdout: BufReader::new(stdout), last: 0 };
        // Notices are not text then.
        let capabilities = json!({"session": {"notices": {}}});
        client.request("initialize", &json!({"protocolVersion": 1, "clientCapabilities": capabilities}))?;
        Ok(client)
    }

    /// Creates a session and returns its id.
    pub(super) fn new_session(&mut self) -> Result<String, Failure> {
        let answer = self.request("session/new", &json!({"cwd": "/", "mcpServers": []}))?;
        Ok(answer["sessionId"].as_str().unwrap_or_default().to_owned())
    }

    /// Loads a session and returns all text of the agent in it.
    pub(super) fn load(&mut self, session: &str) -> Result<String, Failure> {
        self.send("session/load", &json!({"sessionId": session, "cwd": "/", "mcpServers": []}))?;
        let mut text = String::new();
        self.until_answer(|words| {
            text.push_str(words);
            Ok(())
        })?;
        Ok(text)
    }

    /// Sends a prompt without waiting for its answer.
    pub(super) fn prompt(&mut self, session: &str, text: &str) -> Result<(), Failure> {
        let content = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", &json!({"sessionId": session, "prompt": content}))
    }

    /// Waits for the next words of the agent.
    pub(super) fn words(&mut self) -> Result<String, Failure> {
        loop {
            if let FromServer::Words(words) = self.message()? {
                return Ok(words);
            }
        }
    }

    /// Passes on all words until the last request is answered.
    pub(super) fn until_answer(
        &mut self,
        mut each: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Value, Failure> {
        loop {
            match self.message()? {
                FromServer::Words(words) => each(&words)?,
                FromServer::Answer(answer) => return Ok(answer),
                FromServer::Other => {}
            }
        }
    }

    /// Kills `rethread acp` with SIGKILL.
    pub(super) fn kill(mut self) -> Result<(), Failure> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Disconnects, and waits until `rethread acp` has ended.
    pub(super) fn leave(mut self) -> Result<(), Failure> {
        drop(self.stdin);
        self.process.wait()?;
        Ok(())
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<(), Failure> {
        self.last += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        writeln!(self.stdin, "{request}")?;
        Ok(())
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        self.send(method, params)?;
        self.until_answer(|_| Ok(()))
    }

    fn message(&mut self) -> Result<FromServer, Failure> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            return Err(Failure::plain("rethread acp ended unexpectedly"));
        }
        let message: Value = serde_json::from_str(&line).map_err(std::io::Error::from)?;
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            return Ok(FromServer::Words(update["content"]["text"].as_str().unwrap_or_default().to_owned()));
        }
        if message["id"] == self.last {
            return match message.get("error") {
                Some(error) => Err(Failure::plain(&format!("rethread acp answered {error}"))),
                None => Ok(FromServer::Answer(message["result"].clone())),
            };
        }
        Ok(FromServer::Other)
    }
}
