//! The scripted agent that is implemented by the library example `lib/examples/scripted.rs`. Sits between the example
//! and its connection: records messages, sends messages on behalf of a test, opens gates and simulates crashes.

mod about;
mod steps;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use rethread::agent::host::{AgentSource, Started};
use rethread::author::InProcess;
use rethread::transport::Wire;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::End;
use super::memory::Memory;
use super::talk::{self, Out};
use example::Scripted;

pub use steps::{aside, extension};

#[path = "../../../../lib/examples/scripted.rs"]
#[allow(dead_code, reason = "its `main` is for those who run it by itself")]
mod example;

/// A request that is answered when the gate of this name is open.
const WAIT: &str = "_scripted/wait";
/// A notification that ends the agent at once.
const CRASH: &str = "_scripted/crash";
/// The id of requests that do not come from the server.
const OURS: &str = "ours";

/// One run of the agent.
struct Tap {
    memory: Arc<Memory>,
    start: usize,
    to_server: mpsc::Sender<Out>,
    to_agent: mpsc::Sender<Out>,
    /// Requests that open a session by id, with the session id if they contain one.
    opening: HashMap<String, Option<String>>,
    /// Requests of the agent that wait at a gate.
    waiting: HashSet<String>,
    /// Dropped with this, which ends all waits at gates.
    gates: JoinSet<()>,
}

/// Serves one connection until either side ends it.
pub(super) async fn serve(memory: Arc<Memory>, wire: Wire) -> End {
    let start = memory.begin();
    // An agent of the library stores nothing.
    memory.inner().sessions.clear();
    let agent = InProcess::new(Scripted(about::about(&memory.config())));
    let Ok(Started { wire: here, .. }) = agent.start().await else { return End::Crashed };
    let (to_server, lines) = mpsc::channel(1024);
    let mut writing = tokio::spawn(talk::write(wire.writer, lines));
    let (to_agent, lines) = mpsc::channel(1024);
    tokio::spawn(talk::write(here.writer, lines));
    memory.inner().out = Some(to_server.clone());
    memory.inner().inward = Some(to_agent.downgrade());
    let tap = Tap {
        memory: memory.clone(),
        start,
        to_server,
        to_agent,
        opening: HashMap::new(),
        waiting: HashSet::new(),
        gates: JoinSet::new(),
    };
    let end = tap.pass_on(wire.reader, here.reader).await;
    let _ = tokio::time::timeout(crate::DEADLINE, &mut writing).await;
    memory.end();
    end
}

/// The message that makes the agent drop a session without the server's knowledge.
pub(super) fn forget(session: &str) -> Out {
    let params = json!({"sessionId": session});
    Out::Line(json!({"jsonrpc": "2.0", "id": OURS, "method": "session/close", "params": params}).to_string())
}

impl Tap {
    async fn pass_on(
        mut self,
        server: impl AsyncRead + Unpin + Send,
        agent: impl AsyncRead + Unpin + Send,
    ) -> End {
        let (mut server, mut agent) = (BufReader::new(server).lines(), BufReader::new(agent).lines());
        let end = loop {
            tokio::select! {
                line = server.next_line() => match line {
                    Ok(Some(line)) => self.heard(line).await,
                    Ok(None) | Err(_) => break End::Disconnected,
                },
                line = agent.next_line() => match line {
                    Ok(Some(line)) => {
                        if let ControlFlow::Break(end) = self.said(line).await {
                            break end;
                        }
                    }
                    Ok(None) | Err(_) => break End::Disconnected,
                },
            }
        };
        let _ = self.to_server.send(Out::End).await;
        if end == End::Disconnected {
            // Dropping these ends the agent.
            drop((self.to_agent, self.gates));
            let ended = async { while let Ok(Some(_)) = agent.next_line().await {} };
            let _ = tokio::time::timeout(crate::DEADLINE, ended).await;
        }
        end
    }

    /// Handles a line from the server.
    async fn heard(&mut self, line: String) {
        if let Ok(message) = serde_json::from_str::<Value>(&line) {
            self.memory.record(self.start, &message);
            if matches!(message["method"].as_str(), Some("session/new" | "session/resume")) {
                let session = message["params"]["sessionId"].as_str().map(str::to_owned);
                self.opening.insert(message["id"].to_string(), session);
            }
        }
        let _ = self.to_agent.send(Out::Line(line)).await;
    }

    /// Handles a line from the agent.
    async fn said(&mut self, line: String) -> ControlFlow<End> {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        match message["method"].as_str() {
            Some(CRASH) => return ControlFlow::Break(End::Crashed),
            Some(WAIT) => self.wait(&message),
            Some("$/cancel_request") if self.waiting.remove(&message["params"]["requestId"].to_string()) => {}
            Some(_) => self.to_server(line).await,
            None if message["id"] == OURS => {}
            None => {
                self.answered(&message);
                self.to_server(line).await;
            }
        }
        ControlFlow::Continue(())
    }

    async fn to_server(&self, line: String) {
        let _ = self.to_server.send(Out::Line(line)).await;
    }

    fn wait(&mut self, request: &Value) {
        let gate = request["params"]["gate"].as_str().unwrap_or_default().to_owned();
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}).to_string();
        let (memory, agent) = (self.memory.clone(), self.to_agent.clone());
        self.waiting.insert(request["id"].to_string());
        self.gates.spawn(async move {
            memory.gate(&gate).await;
            let _ = agent.send(Out::Line(answer)).await;
        });
    }

    /// Records a session that the agent may have opened.
    fn answered(&mut self, answer: &Value) {
        let Some(named) = self.opening.remove(&answer["id"].to_string()) else { return };
        let made = answer["result"]["sessionId"].as_str().map(str::to_owned);
        if let Some(session) = made.or(named).filter(|_| answer.get("result").is_some()) {
            self.memory.inner().sessions.entry(session).or_default();
        }
    }
}
