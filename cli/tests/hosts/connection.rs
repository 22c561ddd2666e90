//! A client's connection to a host, by WebSocket. Everything may fail, and what was said is kept.

use std::time::Duration;

use bytes::Bytes;
use rethread::edge::Version;
use rethread::transport::messages::MessageChannel;
use rethread_http::RemoteTarget;
use rethread_testkit::client::{From, RecordedMessage};
use rethread_testkit::kept;
use rethread_testkit::view::View;
use serde_json::{Value, json};
use tokio::time::timeout;

/// How long a host may take to accept a connection and to answer `initialize`.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// A connection.
pub(crate) struct HostConnection {
    channel: MessageChannel,
    version: Version,
    last: u64,
    said: Vec<RecordedMessage>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The connection is lost, or the host says nothing.
    Lost,
    /// It was refused with this error.
    Refused(Value),
}

impl HostConnection {
    /// Connects and initializes.
    pub(crate) async fn open(url: &str, token: &str, version: Version) -> Result<Self, NoAnswer> {
        let target = RemoteTarget {
            url: url.to_owned(),
            token: Some(token.to_owned()),
            ca: None,
            patience: Duration::ZERO,
        };
        let connected = timeout(CONNECT_LIMIT, rethread_http::connect(target)).await;
        let Ok(Ok(channel)) = connected else { return Err(NoAnswer::Lost) };
        let mut connection = Self { channel, version, last: 0, said: Vec::new() };
        let params = match version {
            Version::V1 => {
                json!({"protocolVersion": 1, "clientCapabilities": {"session": {"notices": {}}}})
            }
            Version::V2 => {
                json!({"protocolVersion": 2, "info": {"name": "test", "version": "2"}, "capabilities": {}})
            }
        };
        connection.ask("initialize", params, CONNECT_LIMIT).await?;
        Ok(connection)
    }

    /// Loads a session with its whole replay.
    pub(crate) async fn load(&mut self, session: &str, cwd: &str, limit: Duration) -> Result<(), NoAnswer> {
        let mut params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        let method = match self.version {
            Version::V1 => "session/load",
            Version::V2 => {
                params["replayFrom"] = json!({"type": "start"});
                "session/resume"
            }
        };
        self.ask(method, params, limit).await.map(|_| ())
    }

    /// Prompts, and waits for the end of the turn. Gives the reason of its end.
    pub(crate) async fn prompt(
        &mut self,
        session: &str,
        text: &str,
        limit: Duration,
    ) -> Result<String, NoAnswer> {
        let from = self.said.len();
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let answer = self.ask("session/prompt", params, limit).await?;
        if self.version == Version::V1 {
            return Ok(answer["stopReason"].as_str().unwrap_or_default().to_owned());
        }
        let message = answer["messageId"].clone();
        let waiting = async {
            let mut at = from;
            let mut inserted = false;
            loop {
                while let Some(said) = self.said.get(at) {
                    let update = &said.message["params"]["update"];
                    inserted |= update["messageId"] == message;
                    if inserted && update["state"] == "idle" {
                        return Ok(update["stopReason"].as_str().unwrap_or_default().to_owned());
                    }
                    at += 1;
                }
                self.receive().await?;
            }
        };
        timeout(limit, waiting).await.unwrap_or(Err(NoAnswer::Lost))
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, NoAnswer> {
        self.last += 1;
        let id = self.last;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let bytes = Bytes::from(message.to_string());
        self.said.push(RecordedMessage { from: From::Client, message });
        let asking = async {
            self.channel.outgoing.send(bytes).await.map_err(|_| NoAnswer::Lost)?;
            loop {
                let said = self.receive().await?;
                if said["id"] == id && said.get("method").is_none() {
                    return match said.get("error") {
                        Some(error) => Err(NoAnswer::Refused(error.clone())),
                        None => Ok(said["result"].clone()),
                    };
                }
            }
        };
        timeout(limit, asking).await.unwrap_or(Err(NoAnswer::Lost))
    }

    async fn receive(&mut self) -> Result<Value, NoAnswer> {
        let bytes = self.channel.incoming.recv().await.ok_or(NoAnswer::Lost)?;
        let message: Value = serde_json::from_slice(&bytes).expect("messages are JSON");
        self.said.push(RecordedMessage { from: From::Server, message: message.clone() });
        Ok(message)
    }

    /// What it was shown of a session, without notices: those about the store are not stored. Reads what has arrived.
    pub(crate) fn shown(&mut self, session: &str) -> View {
        while let Ok(bytes) = self.channel.incoming.try_recv() {
            let message = serde_json::from_slice(&bytes).expect("messages are JSON");
            self.said.push(RecordedMessage { from: From::Server, message });
        }
        self.said.retain(|said| said.message["params"]["update"]["sessionUpdate"] != "notice");
        kept::settled(View::of(self.version, session, &self.said), self.version)
    }
}
