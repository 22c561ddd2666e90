//! The connection of an in-process agent to its client: sends messages, and sends requests and waits for their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use crate::lock::locked;
use crate::wire::{Id, Out, RpcError};

/// How many messages may be queued for writing.
const QUEUE_LENGTH: usize = 256;

/// The answer to a request.
pub(super) type RequestOutcome = Result<Value, RpcError>;

/// The connection to the client.
pub(super) struct ClientConnection {
    out: mpsc::Sender<Vec<u8>>,
    last_request: AtomicU64,
    open: Mutex<HashMap<u64, oneshot::Sender<RequestOutcome>>>,
    /// Dropped to end the writer.
    writing: Mutex<Option<oneshot::Sender<()>>>,
}

/// A request to the client that is not answered yet. Dropping it cancels the request.
pub(super) struct PendingRequest {
    client: Arc<ClientConnection>,
    id: u64,
    answer: oneshot::Receiver<RequestOutcome>,
}

impl PendingRequest {
    /// Waits for the answer.
    pub(super) async fn answered(mut self) -> RequestOutcome {
        let gone = || RpcError::internal("the client has disconnected");
        (&mut self.answer).await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if locked(&self.client.open).remove(&self.id).is_some() {
            self.client.cancel_request(self.id);
        }
    }
}

impl ClientConnection {
    /// Starts the writer. If the client does not read, senders wait.
    pub(super) fn start(writer: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (out, lines) = mpsc::channel(QUEUE_LENGTH);
        let (writing, ended) = oneshot::channel();
        tokio::spawn(write(writer, lines, ended));
        let writing = Mutex::new(Some(writing));
        Self { out, last_request: AtomicU64::new(1), open: Mutex::default(), writing }
    }

    /// Ends the connection after everything queued so far is written, even if a task of the agent still holds a handle.
    pub(super) fn end(&self) {
        locked(&self.writing).take();
    }

    pub(super) async fn answer(&self, id: &Id, outcome: Result<Json, RpcError>) {
        self.send(|out| match &outcome {
            Ok(result) => out.result(id, result),
            Err(error) => out.error(id, error),
        })
        .await;
    }

    pub(super) async fn update(&self, session: &str, update: &Json) {
        let session = Json::of(session);
        self.send(|out| out.update(session.text(), update)).await;
    }

    pub(super) async fn notify(&self, method: &str, params: Value) {
        self.send(|out| out.notification(method, &params.into())).await;
    }

    /// Sends a request.
    pub(super) async fn ask(self: &Arc<Self>, method: &str, params: Value) -> PendingRequest {
        let id = self.last_request.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        locked(&self.open).insert(id, sender);
        self.send(|out| out.request(&Id::number(id), method, &params.into())).await;
        PendingRequest { client: self.clone(), id, answer }
    }

    fn cancel_request(&self, id: u64) {
        let mut out = Out::default();
        out.notification("$/cancel_request", &json!({"requestId": id}).into());
        if let Err(mpsc::error::TrySendError::Full(bytes)) = self.out.try_send(out.take()) {
            // `drop` cannot wait for space in the queue.
            let out = self.out.clone();
            tokio::spawn(async move { out.send(bytes).await });
        }
    }

    /// Handles an answer of the client.
    pub(super) fn answered(&self, id: &Id, outcome: RequestOutcome) {
        let waiting = id.as_number().and_then(|id| locked(&self.open).remove(&id));
        if let Some(waiting) = waiting {
            // The caller may have stopped waiting.
            let _ = waiting.send(outcome);
        }
    }

    async fn send(&self, message: impl FnOnce(&mut Out)) {
        let mut out = Out::default();
        message(&mut out);
        // The writer only ends with the connection, and then the agent ends too.
        let _ = self.out.send(out.take()).await;
    }
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
    mut ended: oneshot::Receiver<()>,
) {
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = &mut ended, if !lines.is_closed() => {
                lines.close();
                continue;
            }
        };
        let Some(mut bytes) = line else { break };
        while let Ok(more) = lines.try_recv() {
            bytes.extend(more);
        }
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}
