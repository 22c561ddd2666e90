//! All messages of a test client in order, and how it answers requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rethread::edge::Version;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Notify;

use super::Outcome;
use crate::{DEADLINE, schema};

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The test client.
    Client,
    /// The server.
    Server,
}

/// A message and its sender.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedMessage {
    /// The sender.
    pub from: From,
    /// The message.
    pub message: Value,
}

/// Answers a request.
pub(super) type Answering = Box<dyn FnMut(&Value) -> Option<Outcome> + Send>;

/// All messages of the connection.
pub(super) struct Inbox {
    inner: Mutex<InboxState>,
    bell: Notify,
}

struct InboxState {
    version: Version,
    said: Vec<RecordedMessage>,
    /// The indexes of the answers that a test has waited for.
    taken: Vec<usize>,
    answering: HashMap<String, Answering>,
    closed: bool,
    /// The first message that violates the schema.
    fault: Option<String>,
    /// The deadline of waits.
    patience: Duration,
}

impl Inbox {
    pub(super) fn new(version: Version) -> Self {
        let inner = InboxState {
            version,
            said: Vec::new(),
            taken: Vec::new(),
            answering: HashMap::new(),
            closed: false,
            fault: None,
            patience: DEADLINE,
        };
        Self { inner: Mutex::new(inner), bell: Notify::new() }
    }

    pub(super) fn on(&self, method: &str, answer: Answering) {
        self.inner().answering.insert(method.to_owned(), answer);
    }

    pub(super) fn set_deadline(&self, patience: Duration) {
        self.inner().patience = patience;
    }

    pub(super) fn sent(&self, message: &Value) {
        self.inner().said.push(RecordedMessage { from: From::Client, message: message.clone() });
    }

    pub(super) fn said(&self) -> Vec<RecordedMessage> {
        self.inner().said.clone()
    }

    /// Finds the first matching message of the server from an index on; the index moves to it, or after all messages.
    pub(super) fn find(&self, from: &mut usize, is: impl Fn(&Value) -> bool) -> Option<Value> {
        let inner = self.inner();
        let fits = |said: &&RecordedMessage| said.from == From::Server && is(&said.message);
        match inner.said.iter().skip(*from).position(|said| fits(&said)) {
            Some(at) => {
                *from += at;
                Some(inner.said[*from].message.clone())
            }
            None => {
                *from = inner.said.len();
                None
            }
        }
    }

    /// Takes the first answer to this id that was not taken yet.
    pub(super) fn take_answer(&self, id: &Value) -> Option<Value> {
        let mut inner = self.inner();
        let at = inner.said.iter().enumerate().position(|(at, said)| {
            let answer = said.from == From::Server && said.message.get("method").is_none();
            answer && said.message["id"] == *id && !inner.taken.contains(&at)
        })?;
        inner.taken.push(at);
        Some(inner.said[at].message.clone())
    }

    pub(super) async fn wait<T>(&self, what: &str, mut found: impl FnMut(&Self) -> Option<T>) -> T {
        let waiting = async {
            loop {
                let rung = self.bell.notified();
                tokio::pin!(rung);
                rung.as_mut().enable();
                let found = found(self);
                if let Some(fault) = &self.inner().fault {
                    panic!("the server said what the schema does not know: {fault}");
                }
                if let Some(found) = found {
                    return found;
                }
                if self.inner().closed {
                    panic!("the server hung up before {what} came\n{}", self.text());
                }
                rung.await;
            }
        };
        let patience = self.inner().patience;
        match tokio::time::timeout(patience, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not come\n{}", self.text()),
        }
    }

    /// The conversation as text, for failure messages.
    pub(super) fn text(&self) -> String {
        let said = self.said();
        let lines = said.iter().map(|said| {
            let arrow = if said.from == From::Client { '>' } else { '<' };
            let line = said.message.to_string();
            let short: String = line.chars().take(600).collect();
            format!("{arrow} {short}\n")
        });
        lines.collect()
    }

    fn heard(&self, message: Value) -> Option<Value> {
        let mut inner = self.inner();
        let fault = schema::fault(inner.version, &message, inner.method_of(&message).as_deref());
        inner.fault = inner.fault.take().or_else(|| fault.map(|fault| format!("{fault}: {message}")));
        inner.said.push(RecordedMessage { from: From::Server, message: message.clone() });
        let (id, method) = (message.get("id")?.clone(), message.get("method")?.as_str()?.to_owned());
        let answer = match inner.answering.get_mut(&method) {
            Some(answering) => answering(&message["params"])?,
            None => standard(inner.version, &method, &message["params"])?,
        };
        let answer = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        inner.said.push(RecordedMessage { from: From::Client, message: answer.clone() });
        Some(answer)
    }

    fn inner(&self) -> MutexGuard<'_, InboxState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InboxState {
    /// The method of the client's request that this message answers.
    fn method_of(&self, message: &Value) -> Option<String> {
        let id = message.get("id").filter(|id| !id.is_null() && message.get("method").is_none())?;
        let asked = |said: &&RecordedMessage| said.from == From::Client && said.message.get("id") == Some(id);
        let request = self.said.iter().rev().filter(asked).find_map(|said| said.message.get("method"))?;
        request.as_str().map(str::to_owned)
    }
}

/// The default answer to a request.
fn standard(version: Version, method: &str, params: &Value) -> Option<Outcome> {
    let of_version_1 = method.starts_with("fs/") || method.starts_with("terminal/");
    let result = match method {
        _ if of_version_1 && version == Version::V2 => return Some(Err(not_found(method))),
        "session/request_permission" => {
            let option = params["options"][0]["optionId"].clone();
            json!({"outcome": {"outcome": "selected", "optionId": option}})
        }
        "elicitation/create" => json!({"action": "accept", "content": {"name": "Ada"}}),
        "fs/read_text_file" => json!({"content": "from the client"}),
        "fs/write_text_file" | "terminal/release" | "terminal/kill" => json!({}),
        "terminal/create" => json!({"terminalId": "client-term-1"}),
        "terminal/wait_for_exit" => json!({"exitCode": 0, "signal": null}),
        "terminal/output" => {
            json!({"output": "hi\n", "truncated": false, "exitStatus": {"exitCode": 0, "signal": null}})
        }
        "_test/echo" => json!({"echoed": params}),
        _ => return Some(Err(not_found(method))),
    };
    Some(Ok(result))
}

fn not_found(method: &str) -> Value {
    json!({"code": -32601, "message": "method not found", "data": {"method": method}})
}

type Writer = Arc<tokio::sync::Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>>;

/// Reads until the server closes the connection, and answers its requests.
pub(super) async fn read(reader: impl AsyncRead + Unpin, inbox: Arc<Inbox>, writer: Writer) {
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message = serde_json::from_str(&line)
            .unwrap_or_else(|error| json!({"not json": line, "error": error.to_string()}));
        let answer = inbox.heard(message);
        inbox.bell.notify_waiters();
        if let Some(answer) = answer {
            // In a separate task, because the reader must not wait for the writer.
            let writer = writer.clone();
            tokio::spawn(async move {
                if let Some(writer) = &mut *writer.lock().await {
                    let _ = writer.write_all(format!("{answer}\n").as_bytes()).await;
                    let _ = writer.flush().await;
                }
            });
        }
    }
    inbox.inner().closed = true;
    inbox.bell.notify_waiters();
}
