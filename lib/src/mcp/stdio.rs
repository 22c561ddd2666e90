//! Messages to and from a server on its pipes, one on each line. Owns no process.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{Mutex, watch};

use super::ending::Ending;
use super::inbound::{Gate, OpenRequests};
use crate::wire::{Line, LineReader};

/// Why a connection ends when the process does; how that ended says more.
pub(super) const CLOSED_OUTPUT: &str = "it closed its output";
pub(super) const CLOSED_INPUT: &str = "it closed its input";

/// The pipes of a server.
pub(super) struct Stdio {
    lines: LineReader<Receiver>,
    /// Came with the same read as the last one given out.
    waiting: VecDeque<Line>,
    longest: usize,
    gate: Gate,
    output: Output,
    ending: Ending,
}

/// The pipe to a server. Whole lines only: who writes holds it to the end of the line.
#[derive(Clone)]
struct Output {
    pipe: Arc<Mutex<Option<Sender>>>,
    /// Frees those who write to a server that does not read.
    closed: watch::Sender<bool>,
    open: OpenRequests,
    ending: Ending,
}

impl Stdio {
    /// Lines of at most `longest` bytes.
    pub(super) fn new(stdin: Sender, stdout: Receiver, longest: usize, ending: Ending) -> Self {
        let gate = Gate::new();
        let output = Output {
            pipe: Arc::new(Mutex::new(Some(stdin))),
            closed: watch::Sender::new(false),
            open: gate.open_requests(),
            ending: ending.clone(),
        };
        let lines = LineReader::new(stdout, longest);
        Self { lines, waiting: VecDeque::new(), longest, gate, output, ending }
    }

    fn take_in(&mut self, line: Line) -> Result<Option<ServerJsonRpcMessage>, String> {
        match line {
            Line::Text(text) => self.gate.admit(&text),
            // It may have been an answer: nobody shall wait for it until the time is over.
            Line::TooLong => Err(format!("it sent a line of more than {} KiB", self.longest / 1024)),
        }
    }

    async fn refill(&mut self) -> Result<(), String> {
        match self.lines.batch().await {
            Ok(Some(lines)) => self.waiting.extend(lines),
            Ok(None) => return Err(CLOSED_OUTPUT.to_owned()),
            Err(error) => return Err(format!("its output cannot be read: {error}")),
        }
        // A server that never stops talking must leave others their turn.
        tokio::task::consume_budget().await;
        Ok(())
    }

    async fn next(&mut self) -> Result<ServerJsonRpcMessage, String> {
        loop {
            while let Some(line) = self.waiting.pop_front() {
                if let Some(message) = self.take_in(line)? {
                    return Ok(message);
                }
            }
            self.refill().await?;
        }
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let output = self.output.clone();
        async move { output.send(&message).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        match self.next().await {
            Ok(message) => Some(message),
            Err(cause) => {
                self.ending.set(cause);
                None
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.output.closed.send_replace(true);
        drop(self.output.pipe.lock().await.take());
        Ok(())
    }
}

impl Output {
    async fn send(&self, message: &ClientJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut closed = self.closed.subscribe();
        let sent = tokio::select! {
            sent = self.write(&line) => sent,
            _ = closed.wait_for(|closed| *closed) => Err(io::ErrorKind::NotConnected.into()),
        };
        self.open.sent(message);
        sent.inspect_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                self.ending.set(CLOSED_INPUT);
            }
        })
    }

    async fn write(&self, line: &[u8]) -> io::Result<()> {
        match self.pipe.lock().await.as_mut() {
            Some(pipe) => pipe.write_all(line).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
