//! The agent's end of its wire: lines out, and requests to the client that wait for their answers. What they say
//! is the business of others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use crate::lock::locked;
use crate::wire::{Id, Out, RpcError};

/// How many lines may wait for the writer.
const WAITING: usize = 256;

/// The answer to a request.
pub(super) type Outcome = Result<Value, RpcError>;

/// The agent's end of its wire.
pub(super) struct Line {
    out: mpsc::Sender<Vec<u8>>,
    asked: AtomicU64,
    open: Mutex<HashMap<u64, oneshot::Sender<Outcome>>>,
    /// Dropped at the end.
    writing: Mutex<Option<oneshot::Sender<()>>>,
}

/// A request to the client that is not answered. Dropped, it is taken back: nobody waits for its answer any more.
pub(super) struct Asked {
    line: Arc<Line>,
    id: u64,
    answer: oneshot::Receiver<Outcome>,
}

impl Asked {
    /// Waits for the answer.
    pub(super) async fn answered(mut self) -> Outcome {
        let gone = || RpcError::internal("the client has disconnected");
        (&mut self.answer).await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if locked(&self.line.open).remove(&self.id).is_some() {
            self.line.take_back(self.id);
        }
    }
}

impl Line {
    /// Starts to write. Lines that nobody reads hold up whoever speaks.
    pub(super) fn start(writer: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (out, lines) = mpsc::channel(WAITING);
        let (writing, ended) = oneshot::channel();
        tokio::spawn(write(writer, lines, ended));
        let writing = Mutex::new(Some(writing));
        Self { out, asked: AtomicU64::new(1), open: Mutex::default(), writing }
    }

    /// What was said is written, and nothing else: a task that an author left behind does not hold the wire open.
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

    /// Asks the client.
    pub(super) async fn ask(self: &Arc<Self>, method: &str, params: Value) -> Asked {
        let id = self.asked.fetch_add(1, Ordering::Relaxed);
        let (told, answer) = oneshot::channel();
        locked(&self.open).insert(id, told);
        self.send(|out| out.request(&Id::number(id), method, &params.into())).await;
        Asked { line: self.clone(), id, answer }
    }

    fn take_back(&self, id: u64) {
        let mut out = Out::default();
        out.notification("$/cancel_request", &json!({"requestId": id}).into());
        if let Err(mpsc::error::TrySendError::Full(bytes)) = self.out.try_send(out.take()) {
            // Whoever is dropped cannot wait for room.
            let line = self.out.clone();
            tokio::spawn(async move { line.send(bytes).await });
        }
    }

    /// The client answered.
    pub(super) fn hear(&self, id: &Id, outcome: Outcome) {
        let waiting = id.as_number().and_then(|id| locked(&self.open).remove(&id));
        if let Some(waiting) = waiting {
            // Whoever asked may have gone on.
            let _ = waiting.send(outcome);
        }
    }

    async fn send(&self, message: impl FnOnce(&mut Out)) {
        let mut out = Out::default();
        message(&mut out);
        // The writer is gone only when the other side is, and then the agent ends too.
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
