//! Messages to and from a server on its pipes, one on each line. Owns no process.

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

/// How many lines may wait to be written.
const WAITING: usize = 16;
/// Why a connection ends when the process does; how that ended says more.
pub(super) const CLOSED_OUTPUT: &str = "it closed its output";
pub(super) const CLOSED_INPUT: &str = "it closed its input";

/// The pipes of a server.
pub(super) struct Stdio {
    lines: LineReader<Receiver>,
    /// Came with the same read as the last one given out.
    waiting: VecDeque<Line>,
    longest: usize,
    filter: InboundFilter,
    output: Output,
    close_reason: CloseReason,
}

/// The way to a server's input. A task of its own writes, line by line, and has the pipe alone.
#[derive(Clone)]
struct Output {
    lines: mpsc::Sender<Outgoing>,
    /// Ends the task, also in the middle of a line to a server that does not read.
    closed: watch::Sender<bool>,
    open: OpenRequests,
    close_reason: CloseReason,
}

/// A line, and who waits for it to be written.
struct Outgoing {
    line: Vec<u8>,
    done: oneshot::Sender<io::Result<()>>,
}

impl Stdio {
    /// Lines of at most `longest` bytes.
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
        // Without the task that writes there is nobody to take the line, or to say that it was written.
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

/// Writes until nobody has anything more to say, or until it is to end. The pipe ends with it.
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
