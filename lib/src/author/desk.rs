//! The task of one open session: takes its prompts in, one turn after the other, and what else is asked of it.
//! Alone knows which turn runs.

use std::collections::VecDeque;
use std::sync::Arc;

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::line::Line;
use super::{Agent, Stop, Turn, Voice};
use crate::ids;
use crate::wire::{Id, RpcError};

/// How much may wait for a session.
const WAITING: usize = 64;

/// What a session is asked.
pub(super) enum Message {
    Prompt(Id, Json),
    Choose(Id, String, Value),
    CancelOne(Id, String),
    Cancel,
    /// The id of a prompt as JSON.
    TakeBack(String),
    Close(Id),
}

/// The way to an open session.
pub(super) type Desk = mpsc::Sender<Message>;

/// The other end of it.
pub(super) type Inbox = mpsc::Receiver<Message>;

/// A way to a session that is not open yet.
pub(super) fn desk() -> (Desk, Inbox) {
    mpsc::channel(WAITING)
}

struct Session<A: Agent> {
    agent: Arc<A>,
    own: Arc<A::Session>,
    voice: Voice,
    line: Arc<Line>,
    /// Prompts that wait for the turn before. They are not part of the conversation yet.
    queue: VecDeque<(Id, Json)>,
    cancel: watch::Sender<bool>,
    /// The turn that runs, alone; dropped with this, and then it stops.
    running: JoinSet<Result<Stop, RpcError>>,
}

/// Serves a session until it is closed or nobody can reach it.
pub(super) async fn run<A: Agent>(
    agent: Arc<A>,
    own: A::Session,
    voice: Voice,
    line: Arc<Line>,
    mut inbox: Inbox,
) {
    let cancel = watch::Sender::new(false);
    let own = Arc::new(own);
    let mut session =
        Session { agent, own, voice, line, queue: VecDeque::new(), cancel, running: JoinSet::new() };
    let asked = loop {
        tokio::select! {
            message = inbox.recv() => match message {
                Some(Message::Close(id)) => break Some(id),
                Some(message) => session.hear(message).await,
                None => break None,
            },
            Some(done) = session.running.join_next() => {
                session.turn_over(done.unwrap_or_else(|error| Err(broken(&error)))).await;
            }
        }
    };
    session.close().await;
    if let Some(id) = asked {
        session.line.answer(&id, Ok(json!({}).into())).await;
    }
}

/// A turn that panicked is an error of the agent's, not the end of it.
fn broken(error: &tokio::task::JoinError) -> RpcError {
    RpcError::internal(format!("the agent failed during the turn: {error}"))
}

impl<A: Agent> Session<A> {
    async fn hear(&mut self, message: Message) {
        match message {
            Message::Prompt(id, content) => self.prompted(id, content).await,
            Message::Choose(id, option, value) => self.choose(&id, &option, &value).await,
            Message::CancelOne(id, thing) => self.cancel_one(&id, &thing).await,
            Message::Cancel => self.cancel().await,
            Message::TakeBack(id) => self.take_back(&id).await,
            Message::Close(_) => {}
        }
    }

    async fn prompted(&mut self, id: Id, content: Json) {
        if self.running.is_empty() {
            self.start(&id, content).await;
        } else {
            self.queue.push_back((id, content));
        }
    }

    /// Takes a prompt into the conversation and works on it.
    async fn start(&mut self, id: &Id, content: Json) {
        let message = ids::message_id();
        self.line.answer(id, Ok(json!({"messageId": message.as_str()}).into())).await;
        let echo = json!({"sessionUpdate": "user_message", "messageId": message.as_str(),
            "content": content.value()});
        self.line.update(self.voice.session(), &echo.into()).await;
        self.voice.prompted(message.as_str(), &content);
        self.voice.update(json!({"sessionUpdate": "state_update", "state": "running"})).await;
        self.cancel.send_replace(false);
        let turn = Turn::new(self.voice.clone(), content, self.cancel.subscribe());
        let (agent, own) = (self.agent.clone(), self.own.clone());
        self.running.spawn(async move { agent.prompt(&own, turn).await });
    }

    async fn turn_over(&mut self, outcome: Result<Stop, RpcError>) {
        let cancelled = *self.cancel.borrow();
        self.idle(outcome, cancelled).await;
        if let Some((id, content)) = self.queue.pop_front() {
            self.start(&id, content).await;
        }
    }

    async fn idle(&self, outcome: Result<Stop, RpcError>, cancelled: bool) {
        let mut state = json!({"sessionUpdate": "state_update", "state": "idle"});
        if let Some(usage) = self.voice.take_spent().written() {
            state["usage"] = usage;
        }
        match outcome {
            _ if cancelled => state["stopReason"] = json!(Stop::Cancelled.word()),
            Ok(stop) => state["stopReason"] = json!(stop.word()),
            Err(error) => {
                state["stopReason"] = json!("error");
                state["error"] = error.json().value();
            }
        }
        self.voice.update(state).await;
    }

    async fn choose(&self, id: &Id, option: &str, value: &Value) {
        let outcome = self.voice.chosen(option, value);
        let answer = outcome.map(|()| json!({"configOptions": self.voice.written_options()}).into());
        self.line.answer(id, answer).await;
    }

    async fn cancel_one(&self, id: &Id, thing: &str) {
        let outcome = match self.voice.cancel_one(thing) {
            true => Ok(json!({}).into()),
            false => Err(RpcError::field("id", &json!(thing), "something that runs and can be cancelled")),
        };
        self.line.answer(id, outcome).await;
    }

    /// Takes along what waits; what comes after it is not meant.
    async fn cancel(&mut self) {
        for (id, _) in std::mem::take(&mut self.queue) {
            self.line.answer(&id, Err(RpcError::cancelled())).await;
        }
        if !self.running.is_empty() {
            self.cancel.send_replace(true);
        }
    }

    /// A prompt that waits can be taken back; one that is part of the conversation cannot.
    async fn take_back(&mut self, id: &str) {
        let at = self.queue.iter().position(|(waiting, _)| waiting.text() == id);
        if let Some((id, _)) = at.and_then(|at| self.queue.remove(at)) {
            self.line.answer(&id, Err(RpcError::cancelled())).await;
        }
    }

    async fn close(&mut self) {
        self.cancel().await;
        self.running.shutdown().await;
        self.agent.close(&self.own).await;
    }
}
