//! The line transport between the SDK and a memory pipe. It keeps a copy of every line.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use agent_client_protocol::Lines;
use futures::channel::mpsc;
use futures::{Sink, SinkExt, Stream, StreamExt};
use rethread::transport::Wire;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

type Outgoing = Pin<Box<dyn Sink<String, Error = std::io::Error> + Send>>;
type Incoming = Pin<Box<dyn Stream<Item = std::io::Result<String>> + Send>>;

/// What the SDK is connected to.
pub(crate) type Transport = Lines<Outgoing, Incoming>;

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    Rethread,
    Sdk,
}

/// All lines that went over one or more connections.
#[derive(Default)]
pub(crate) struct Tap(Mutex<Vec<(usize, Speaker, Value)>>, Mutex<usize>);

impl Tap {
    /// A transport for the SDK at this end of a pipe.
    pub(crate) fn lines(self: &Arc<Self>, wire: Wire) -> Transport {
        let connection = {
            let mut count = self.1.lock().unwrap();
            *count += 1;
            *count
        };
        let (out, mut said) = mpsc::unbounded::<String>();
        let (mut hear, heard) = mpsc::unbounded::<std::io::Result<String>>();
        let Wire { reader, mut writer } = wire;
        let tap = self.clone();
        tokio::spawn(async move {
            while let Some(line) = said.next().await {
                tap.note(connection, Speaker::Sdk, &line);
                if writer.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    return;
                }
                let _ = writer.flush().await;
            }
        });
        let tap = self.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                tap.note(connection, Speaker::Rethread, &line);
                if hear.send(Ok(line)).await.is_err() {
                    return;
                }
            }
        });
        Lines::new(Box::pin(out.sink_map_err(std::io::Error::other)), Box::pin(heard))
    }

    fn note(&self, connection: usize, speaker: Speaker, line: &str) {
        let value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{speaker:?} wrote {line}"));
        self.0.lock().unwrap().push((connection, speaker, value));
    }

    /// All lines so far: the number of the connection, who wrote it, what.
    pub(crate) fn all(&self) -> Vec<(usize, Speaker, Value)> {
        self.0.lock().unwrap().clone()
    }
}
