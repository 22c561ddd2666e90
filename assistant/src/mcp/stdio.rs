//! The stdio transport: messages to and from a server on its pipes, one on each line. Does not own the process.

use std::collections::VecDeque;
use std::io;

use rethread::wire::{Line, LineReader};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, oneshot, watch};

use super::close_reason::CloseReason;
use super::inbound::{InboundFilter, OpenRequests};

/// The maximum number of lines that wait to be written.
const WAITING: usize = 16;
/// Close reasons when the process exits; its exit status has more detail.
pub(super) const CLOSED_OUTPUT: &str = "it closed its output";
pub(super) const CLOSED_INPUT: &str = "it closed its input";

/// The pipes of a server.
pub(super) struct Stdio {
    lines: LineReader<Receiver>,
    /// Lines of the last read that were not returned yet.
    waiting: VecDeque<Line>,
    longest: usize,
    filter: InboundFilter,
    output: Output,
    close_reason: CloseReason,
}

/// Sends lines to the task that writes to the server's stdin.
#[derive(Clone)]
struct Output {
    lines: mpsc::Sender<Outgoing>,
    /// Ends the task, also while it writes to a server that does not read.
    closed: watch::Sender<bool>,
    open: OpenRequests,
    close_reason: CloseReason,
}

/// A line, and the sender that reports that it was written.
struct Outgoing {
    line: Vec<u8>,
    done: oneshot::Sender<io::Result<()>>,
}

impl Stdio {
    /// A transport for lines of at most `longest` bytes.
    pub(super) fn new(stdin: Sender, stdout: Receiver, longest: usize, close_reason: CloseReason) -> Self {
        let filter = InboundFilter::new();
        let (lines, written) = mpsc::channel(WAITING);
        let closed = watch::Sender::new(false);
        tokio::spawn(write(stdin, written, closed.subscribe()));
        let output =
            Output { lines, closed, open: filter.open_requests(), close_reason: close_reason.clone() };
        let lines = LineReader::new(stdout, longest);
        Self { lines, waiting: VecDeque::new(), longest, filter, output, close_reason }
    }

    fn take_in(&mut self, line: Line) -> Result<Option<ServerJsonRpcMessage>, String> {
        match line {
            Line::Text(text) => self.filter.admit(&text),
            // The line may have been an answer, and its request must not wait until its time limit.
            Line::TooLong => Err(format!("it sent a line of more than {} KiB", self.longest / 1024)),
        }
    }

    async fn refill(&mut self) -> Result<(), String> {
        match self.lines.batch().await {
            Ok(Some(lines)) => self.waiting.extend(lines),
            Ok(None) => return Err(CLOSED_OUTPUT.to_owned()),
            Err(error) => return Err(format!("its output cannot be read: {error}")),
        }
        // Lets other tasks run if a server never stops writing.
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
                self.close_reason.set(cause);
                None
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.output.closed.send_replace(true);
        Ok(())
    }
}

impl Output {
    async fn send(&self, message: &ClientJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let (done, written) = oneshot::channel();
        // If the writing task has ended, the receiver of `done` reports it.
        let _ = self.lines.send(Outgoing { line, done }).await;
        let sent = written.await.unwrap_or_else(|_| Err(io::ErrorKind::NotConnected.into()));
        self.open.sent(message);
        sent.inspect_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                self.close_reason.set(CLOSED_INPUT);
            }
        })
    }
}

/// Writes lines until all senders are gone or `closed` is set, then closes the pipe.
async fn write(mut pipe: Sender, mut lines: mpsc::Receiver<Outgoing>, mut closed: watch::Receiver<bool>) {
    let writing = async {
        while let Some(Outgoing { line, done }) = lines.recv().await {
            let _ = done.send(pipe.write_all(&line).await);
        }
    };
    tokio::select! {
        () = writing => {}
        _ = closed.wait_for(|closed| *closed) => {}
    }
}
