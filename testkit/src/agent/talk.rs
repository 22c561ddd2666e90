//! The connection of one run of a scripted agent: outgoing messages, its own requests, and its running turns.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread::edge::Version;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};

use super::memory::{Booleans, Memory};
use super::quirk::Quirk;

/// An outgoing item.
pub(super) enum Out {
    Line(String),
    /// A part of a line.
    Piece(String),
    /// Closes the stream.
    End,
}

/// The answer to a request: a result or an error object.
pub(super) type AgentOutcome = Result<Value, Value>;

/// One run of the agent.
pub(super) struct Talk {
    pub(super) memory: Arc<Memory>,
    pub(super) start: usize,
    out: mpsc::Sender<Out>,
    asked: AtomicU64,
    counted: AtomicU64,
    inner: Mutex<TalkState>,
    pub(super) crashed: watch::Sender<bool>,
}

#[derive(Default)]
struct TalkState {
    version: Option<Version>,
    client: Value,
    pending: HashMap<u64, oneshot::Sender<AgentOutcome>>,
    turns: HashMap<String, Turns>,
    /// Unacknowledged prompts with their sessions.
    unacknowledged: Vec<(String, oneshot::Sender<()>)>,
}

/// The prompts of one session.
pub(super) struct Turns {
    pub(super) cancel: watch::Sender<bool>,
    pub(super) queue: VecDeque<Prompt>,
    /// Prompts that are being acknowledged and will be in the queue.
    coming: usize,
    /// Whether the running turn must end with an error.
    failing: bool,
}

/// An accepted prompt.
pub(super) struct Prompt {
    /// The id of the request, for an agent that answers at the end.
    pub(super) request: Value,
    /// The id of its message.
    pub(super) message: String,
    pub(super) content: Value,
}

impl Talk {
    pub(super) fn new(memory: Arc<Memory>, start: usize, out: mpsc::Sender<Out>) -> Self {
        Self {
            memory,
            start,
            out,
            asked: AtomicU64::new(1000),
            counted: AtomicU64::new(0),
            inner: Mutex::default(),
            crashed: watch::Sender::new(false),
        }
    }

    /// The version that was agreed on.
    pub(super) fn version(&self) -> Version {
        self.inner().version.unwrap_or(Version::V1)
    }

    pub(super) fn is_initialized(&self) -> bool {
        self.inner().version.is_some()
    }

    pub(super) fn agreed(&self, version: Version, client: Value) {
        let mut inner = self.inner();
        inner.version = Some(version);
        inner.client = client;
    }

    /// Returns whether a v1 client advertised this capability, as a JSON pointer.
    pub(super) fn client_takes(&self, pointer: &str) -> bool {
        let inner = self.inner();
        let value = inner.client.pointer(&format!("/clientCapabilities/{pointer}"));
        value.is_some_and(|value| value.is_object() || *value == json!(true))
    }

    pub(super) fn booleans(&self) -> Booleans {
        if self.client_takes("session/configOptions/boolean") { Booleans::Taken } else { Booleans::NotTaken }
    }

    /// An id that is unique in this run and used again by the next one.
    pub(super) fn mint(&self, kind: &str) -> String {
        format!("{kind}_{}", self.counted.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) async fn send(&self, message: Value) {
        let message = {
            let mut whole = json!({"jsonrpc": "2.0"});
            if let (Value::Object(whole), Value::Object(rest)) = (&mut whole, message) {
                whole.extend(rest);
            }
            whole
        };
        let _ = self.out.send(Out::Line(message.to_string())).await;
    }

    pub(super) async fn answer(&self, id: Value, outcome: AgentOutcome) {
        let config = self.memory.config();
        let nothing = config.has(Quirk::AnswersNothing);
        let id = if config.has(Quirk::AnswersWithTextIds) { json!(id.to_string()) } else { id };
        self.send(match outcome {
            Ok(Value::Null) if nothing => json!({"id": id}),
            Ok(result) => json!({"id": id, "result": result}),
            Err(error) => json!({"id": id, "error": error}),
        })
        .await;
    }

    pub(super) async fn notify(&self, method: &str, params: Value) {
        self.send(json!({"method": method, "params": params})).await;
    }

    /// Sends an update of a session, and keeps it for a replay.
    pub(super) async fn update(&self, session: &str, update: Value) {
        self.memory.keep(session, &update);
        self.show(session, update).await;
    }

    /// Sends an update of a session without keeping it.
    pub(super) async fn show(&self, session: &str, update: Value) {
        self.notify("session/update", json!({"sessionId": session, "update": update})).await;
    }

    /// Sends an update of a session byte for byte, and keeps it for a replay.
    pub(super) async fn raw(&self, session: &str, update: &str) {
        if let Ok(value) = serde_json::from_str(update) {
            self.memory.keep(session, &value);
        }
        let _ = self.out.send(Out::Line(raw_line(session, update))).await;
    }

    /// Sends a request to the client.
    pub(super) async fn ask(&self, method: &str, params: Value) -> (u64, oneshot::Receiver<AgentOutcome>) {
        let id = self.asked.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.inner().pending.insert(id, answer);
        self.send(json!({"id": id, "method": method, "params": params})).await;
        (id, answered)
    }

    pub(super) fn answered(&self, id: &Value, outcome: AgentOutcome) {
        let waiting = id.as_u64().and_then(|id| self.inner().pending.remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(outcome);
        }
    }

    /// Accepts a prompt. If nothing is running, returns what is needed to start a turn.
    pub(super) fn take(&self, session: &str, prompt: Prompt) -> Taken {
        let mut inner = self.inner();
        if let Some(turns) = inner.turns.get_mut(session) {
            turns.queue.push_back(prompt);
            turns.coming = turns.coming.saturating_sub(1);
            return Taken::Queued;
        }
        let (cancel, cancelled) = watch::channel(false);
        let queue = VecDeque::from([prompt]);
        inner.turns.insert(session.to_owned(), Turns { cancel, queue, coming: 0, failing: false });
        Taken::Starts(cancelled)
    }

    /// Keeps a prompt that is not acknowledged yet. The receiver resolves when it is cancelled.
    pub(super) fn hold(&self, session: &str) -> oneshot::Receiver<()> {
        let (back, taken_back) = oneshot::channel();
        self.inner().unacknowledged.push((session.to_owned(), back));
        taken_back
    }

    /// Records that a prompt is about to be acknowledged: running work continues with it.
    pub(super) fn expect(&self, session: &str) {
        if let Some(turns) = self.inner().turns.get_mut(session) {
            turns.coming += 1;
        }
    }

    /// Returns whether a prompt is being acknowledged that the running work continues with.
    pub(super) fn expects(&self, session: &str) -> bool {
        let inner = self.inner();
        inner.turns.get(session).is_some_and(|turns| turns.queue.is_empty() && turns.coming > 0)
    }

    pub(super) fn busy(&self, session: &str) -> bool {
        self.inner().turns.contains_key(session)
    }

    /// Takes the next prompt; `None` ends the work. A cancel removes the prompts that were queued.
    pub(super) fn next(&self, session: &str) -> Option<Prompt> {
        let mut inner = self.inner();
        let turns = inner.turns.get_mut(session)?;
        match turns.queue.pop_front() {
            Some(prompt) => {
                // It came after the cancel.
                turns.cancel.send_replace(false);
                Some(prompt)
            }
            None => {
                inner.turns.remove(session);
                None
            }
        }
    }

    pub(super) async fn cancel(&self, session: &str) {
        for prompt in self.stop(session) {
            // In version 1 a prompt is open until its turn is over, also if that never began.
            if self.version() == Version::V1 {
                self.answer(prompt.request, Ok(json!({"stopReason": "cancelled"}))).await;
            }
        }
    }

    /// Stops a turn. Returns the queued prompts.
    fn stop(&self, session: &str) -> VecDeque<Prompt> {
        let mut inner = self.inner();
        inner.unacknowledged.retain(|(of, _)| of != session);
        let Some(turns) = inner.turns.get_mut(session) else { return VecDeque::new() };
        turns.cancel.send_replace(true);
        std::mem::take(&mut turns.queue)
    }

    /// Makes the running turn end with an error.
    pub(super) fn fail(&self, session: &str) {
        if let Some(turns) = self.inner().turns.get_mut(session) {
            turns.failing = true;
            turns.cancel.send_replace(true);
        }
    }

    pub(super) fn is_failing(&self, session: &str) -> bool {
        self.inner().turns.get(session).is_some_and(|turns| turns.failing)
    }

    /// Writes a line that is not a message.
    pub(super) async fn print(&self, line: String) {
        let _ = self.out.send(Out::Line(line)).await;
    }

    /// Crashes in the middle of a line.
    pub(super) async fn tear(&self, session: &str) {
        let mut line = raw_line(session, r#"{"sessionUpdate":"agent_message_chunk"}"#);
        line.truncate(line.len() - 10);
        let _ = self.out.send(Out::Piece(line)).await;
        self.crash().await;
    }

    /// Ends the connection like a crash, after everything sent before.
    pub(super) async fn crash(&self) {
        let _ = self.out.send(Out::End).await;
        let _ = self.crashed.send(true);
    }

    pub(super) async fn end(&self) {
        let _ = self.out.send(Out::End).await;
    }

    fn inner(&self) -> MutexGuard<'_, TalkState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line of an update byte for byte.
pub(super) fn raw_line(session: &str, update: &str) -> String {
    let session = json!(session);
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{update}}}}}"#
    )
}

/// What happened to a prompt.
pub(super) enum Taken {
    Starts(watch::Receiver<bool>),
    Queued,
}

/// Writes lines until the end.
pub(super) async fn write(mut writer: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Out>) {
    while let Some(out) = lines.recv().await {
        let line = match out {
            Out::Line(line) => line + "\n",
            Out::Piece(piece) => piece,
            Out::End => break,
        };
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}
