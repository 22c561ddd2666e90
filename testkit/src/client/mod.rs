//! A test client of either version on the memory transport. It records all messages, and every wait has a deadline.
//! Requests about sessions are in `sessions`.

mod inbox;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rethread::edge::Version;
use rethread::server::{ClientSettings, Server};
use rethread::transport::{Wire, memory as pipe};
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

pub use inbox::{From, RecordedMessage};
pub use sessions::{CWD, ClientTurn};

use crate::DEADLINE;
use inbox::Inbox;

/// The answer to a request: the result, or the whole error object.
pub type Outcome = Result<Value, Value>;

/// A client.
pub struct Client {
    /// The version that it speaks.
    pub version: Version,
    inbox: Arc<Inbox>,
    writer: Arc<Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>>,
    next: AtomicU64,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl Client {
    /// Connects without sending anything.
    #[must_use]
    pub fn connect(server: &Server, version: Version) -> Self {
        let (here, there) = pipe::pair();
        let server = server.clone();
        let serving = tokio::spawn(async move { server.serve(there).await });
        Self::over(here.into(), version, Some(serving))
    }

    /// Connects with settings of its own, without sending anything.
    #[must_use]
    pub fn connect_with(server: &Server, version: Version, settings: ClientSettings) -> Self {
        let (here, there) = pipe::pair();
        let server = server.clone();
        let serve = async move { server.serve_client(there, settings, std::future::pending()).await };
        Self::over(here.into(), version, Some(tokio::spawn(serve)))
    }

    /// Makes a client on any wire.
    #[must_use]
    pub fn over(wire: Wire, version: Version, serving: Option<JoinHandle<()>>) -> Self {
        let inbox = Arc::new(Inbox::new(version));
        let writer = Arc::new(Mutex::new(Some(wire.writer)));
        tokio::spawn(inbox::read(wire.reader, inbox.clone(), writer.clone()));
        Self { version, inbox, writer, next: AtomicU64::new(0), serving: Mutex::new(serving) }
    }

    /// Sets how requests of this method are answered; `None` leaves a request open.
    pub fn on(&self, method: &str, answer: impl FnMut(&Value) -> Option<Outcome> + Send + 'static) {
        self.inbox.on(method, Box::new(answer));
    }

    /// Sets the deadline of waits, for real agents.
    pub fn set_deadline(&self, patience: Duration) {
        self.inbox.set_deadline(patience);
    }

    /// Sends raw bytes.
    pub async fn send_bytes(&self, bytes: &[u8]) {
        let sending = async {
            if let Some(writer) = &mut *self.writer.lock().await {
                writer.write_all(bytes).await.expect("the server reads");
                writer.flush().await.expect("the server reads");
            }
        };
        tokio::time::timeout(4 * DEADLINE, sending).await.expect("the server takes what is sent");
    }

    /// Sends a raw line.
    pub async fn send_line(&self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes()).await;
    }

    /// Sends a message.
    pub async fn send(&self, message: Value) {
        self.inbox.sent(&message);
        self.send_line(&message.to_string()).await;
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request and returns its id.
    pub async fn begin(&self, method: &str, params: Value) -> Value {
        let id = json!(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Waits for the first answer to a request that was not taken yet.
    pub async fn answer(&self, id: &Value) -> Outcome {
        let message = self.inbox.wait(&format!("the answer to {id}"), |inbox| inbox.take_answer(id)).await;
        outcome(&message)
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&self, method: &str, params: Value) -> Outcome {
        let id = self.begin(method, params).await;
        self.answer(&id).await
    }

    /// Sends a request that must succeed.
    pub async fn ask(&self, method: &str, params: Value) -> Value {
        let outcome = self.request(method, params).await;
        outcome.unwrap_or_else(|error| panic!("{method} failed: {error:#}\n{}", self.inbox.text()))
    }

    /// Sends a request that must fail, and returns the error.
    pub async fn refused(&self, method: &str, params: Value) -> Value {
        match self.request(method, params).await {
            Ok(result) => panic!("{method} succeeded: {result:#}\n{}", self.inbox.text()),
            Err(error) => error,
        }
    }

    /// Answers a request of the server by hand.
    pub async fn reply(&self, id: &Value, outcome: Outcome) {
        self.send(match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        })
        .await;
    }

    /// All messages so far, in order.
    #[must_use]
    pub fn said(&self) -> Vec<RecordedMessage> {
        self.inbox.said()
    }

    /// The number of messages so far, as a mark to search from.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.inbox.said().len()
    }

    /// The messages of the server since a mark.
    #[must_use]
    pub fn server_messages_since(&self, mark: usize) -> Vec<Value> {
        let said = self.inbox.said();
        said.into_iter()
            .skip(mark)
            .filter(|said| said.from == From::Server)
            .map(|said| said.message)
            .collect()
    }

    /// All messages of the server.
    #[must_use]
    pub fn server_messages(&self) -> Vec<Value> {
        self.server_messages_since(0)
    }

    /// Waits for a message of the server at or after a mark.
    pub async fn wait_since(&self, mark: usize, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut from = mark;
        self.inbox.wait(what, |inbox| inbox.find(&mut from, &is)).await
    }

    /// Waits for a message of the server, past or future.
    pub async fn wait(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.wait_since(0, what, is).await
    }

    /// Waits for a request or notification of this method, past or future.
    pub async fn wait_method(&self, method: &str) -> Value {
        self.wait(method, |message| message["method"] == method).await
    }

    /// Closes the client's output, and waits until the server has finished.
    pub async fn disconnect(&self) {
        self.writer.lock().await.take();
        let serving = self.serving.lock().await.take();
        if let Some(serving) = serving {
            let ended = tokio::time::timeout(2 * DEADLINE, serving).await;
            ended.expect("the server lets go of a client that is gone").expect("the server does not panic");
        }
    }
}

fn outcome(message: &Value) -> Outcome {
    match message.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(message["result"].clone()),
    }
}
