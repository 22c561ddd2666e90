//! `rethread demo`: kills a real `rethread acp` in the middle of an answer and loads the session in another one. Only
//! the agent's text is scripted.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;

/// The text of the agent.
const STORY: &str = "Most agents send their answer to the editor word by word. If the editor or the agent crashes, the \
     rest of the answer is lost, and often the whole conversation. Rethread writes every word to a journal before it \
     is shown. After a crash, the session is loaded from the journal up to the last word that was shown, and the agent \
     continues from there";
const WORDS_BEFORE_KILL: usize = 38;

/// Runs the demonstration in a temporary folder.
pub(crate) fn run() -> Result<(), Failure> {
    let home = std::env::temp_dir().join(format!("rethread-demo-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let outcome = show(&home);
    std::fs::remove_dir_all(&home)?;
    outcome
}

fn show(home: &Path) -> Result<(), Failure> {
    print("\n-- An agent answers through `rethread acp`:\n\n   ")?;
    let mut first = Client::start(home)?;
    let session = first.request("session/new", &json!({"cwd": "/", "mcpServers": []}))?;
    let session = session["sessionId"].as_str().unwrap_or_default().to_owned();
    first.send("session/prompt", &prompt(&session, "Tell me a story."))?;
    let mut before = String::new();
    while before.split_whitespace().count() < WORDS_BEFORE_KILL {
        let words = first.words()?;
        print(&words)?;
        before.push_str(&words);
    }
    first.process.kill()?;
    first.process.wait()?;
    print("\n\n-- kill -9, in the middle of a sentence. Another `rethread acp` loads the session:\n\n   ")?;
    let mut second = Client::start(home)?;
    second.send("session/load", &json!({"sessionId": session, "cwd": "/", "mcpServers": []}))?;
    let after = second.until_answer()?.1;
    print(&after)?;
    let kept = after.starts_with(&before);
    let verdict = if kept { "nothing is missing" } else { "SOMETHING IS MISSING" };
    print(&format!(
        "\n\n-- {} words were shown, {verdict}. And it continues:\n\n   ",
        before.split_whitespace().count()
    ))?;
    second.send("session/prompt", &prompt(&session, "Go on."))?;
    loop {
        match second.message()? {
            FromServer::Words(words) => print(&words)?,
            FromServer::Answer(_) => break,
            FromServer::Other => {}
        }
    }
    print("\n\n-- Put `rethread acp --` in front of your own agent to keep its sessions.\n\n")?;
    drop(second.stdin);
    second.process.wait()?;
    if kept { Ok(()) } else { Err(Failure::plain("the demonstration failed")) }
}

/// The agent of the demonstration: sends the text word by word, from where it last stopped.
pub(crate) fn run_agent() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line?) else { continue };
        let result = match request["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}),
            Some("session/new") => json!({"sessionId": "story"}),
            Some("session/load") => Value::Null,
            Some("session/prompt") => {
                let goes_on = request["params"]["prompt"][0]["text"] == "Go on.";
                for word in STORY.split_inclusive(' ').skip(if goes_on { WORDS_BEFORE_KILL } else { 0 }) {
                    let content = json!({"type": "text", "text": word});
                    let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
                    let params = json!({"sessionId": "story", "update": update});
                    writeln!(
                        out,
                        "{}",
                        json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
                    )?;
                    out.flush()?;
                    std::thread::sleep(Duration::from_millis(60));
                }
                json!({"stopReason": "end_turn"})
            }
            Some(_) | None => continue,
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))?;
        out.flush()?;
    }
    Ok(())
}

/// A client of `rethread acp`.
struct Client {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last: u64,
}

enum FromServer {
    Words(String),
    Answer(Value),
    Other,
}

impl Client {
    fn start(home: &Path) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(&program);
        command.env("RETHREAD_HOME", home).args(["acp", "--"]).arg(&program).arg("__demo-agent");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::plain("no pipes to rethread acp"));
        };
        let mut client = Self { process, stdin, stdout: BufReader::new(stdout), last: 0 };
        client.request("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
        Ok(client)
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<(), Failure> {
        self.last += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        writeln!(self.stdin, "{request}")?;
        Ok(())
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        self.send(method, params)?;
        Ok(self.until_answer()?.0)
    }

    fn until_answer(&mut self) -> Result<(Value, String), Failure> {
        let mut words = String::new();
        loop {
            match self.message()? {
                FromServer::Words(more) => words.push_str(&more),
                FromServer::Answer(answer) => return Ok((answer, words)),
                FromServer::Other => {}
            }
        }
    }

    fn words(&mut self) -> Result<String, Failure> {
        loop {
            if let FromServer::Words(words) = self.message()? {
                return Ok(words);
            }
        }
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

fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
