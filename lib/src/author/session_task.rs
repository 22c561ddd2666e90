//! The task of one open session of an in-process agent: runs its turns one after the other and handles its other
//! requests.

use std::collections::VecDeque;
use std::sync::Arc;

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::connection::ClientConnection;
use super::{Agent, Emitter, Stop, Turn};
use crate::ids;
use crate::wire::{Id, RpcError};

/// How many commands may be queued for a session.
const QUEUE_LENGTH: usize = 64;

/// A command to a session.
pub(super) enum SessionCommand {
    Prompt(Id, Json),
    Choose(Id, String, Value),
    CancelOne(Id, String),
    Cancel,
    /// The JSON-RPC id of the prompt, as JSON.
    CancelPrompt(String),
    Close(Id),
}

/// The sender of commands to an open session.
pub(super) type SessionHandle = mpsc::Sender<SessionCommand>;

/// The receiver of commands.
pub(super) type Inbox = mpsc::Receiver<SessionCommand>;

/// Makes the channel of a session.
pub(super) fn session_channel() -> (SessionHandle, Inbox) {
    mpsc::channel(QUEUE_LENGTH)
}

struct SessionTask<A: Agent> {
    agent: Arc<A>,
    agent_session: Arc<A::Session>,
    emitter: Emitter,
    client: Arc<ClientConnection>,
    /// Prompts that wait for the running turn. They are not part of the conversation yet.
    queue: VecDeque<(Id, Json)>,
    cancel: watch::Sender<bool>,
    /// The running turn, if any; dropping it stops the turn.
    running: JoinSet<Result<Stop, RpcError>>,
}

/// Runs until the session is closed or all handles are dropped.
pub(super) async fn run<A: Agent>(
    agent: Arc<A>,
    agent_session: A::Session,
    emitter: Emitter,
    client: Arc<ClientConnection>,
    mut inbox: Inbox,
) {
    let cancel = watch::Sender::new(false);
    let agent_session = Arc::new(agent_session);
    let mut session = SessionTask {
        agent,
        agent_session,
        emitter,
        client,
        queue: VecDeque::new(),
        cancel,
        running: JoinSet::new(),
    };
    let close_request = loop {
        tokio::select! {
            message = inbox.recv() => match message {
                Some(SessionCommand::Close(id)) => break Some(id),
                Some(message) => session.handle(message).await,
                None => break None,
            },
            Some(done) = session.running.join_next() => {
                session.turn_finished(done.unwrap_or_else(|error| Err(turn_panicked(&error)))).await;
            }
        }
    };
    session.close().await;
    if let Some(id) = close_request {
        session.client.answer(&id, Ok(json!({}).into())).await;
    }
}

/// A panic in a turn is reported as an error of that turn.
fn turn_panicked(error: &tokio::task::JoinError) -> RpcError {
    RpcError::internal(format!("the agent failed during the turn: {error}"))
}

impl<A: Agent> SessionTask<A> {
    async fn handle(&mut self, message: SessionCommand) {
        match message {
            SessionCommand::Prompt(id, content) => self.prompt_received(id, content).await,
            SessionCommand::Choose(id, option, value) => self.choose(&id, &option, &value).await,
            SessionCommand::CancelOne(id, thing) => self.cancel_one(&id, &thing).await,
            SessionCommand::Cancel => self.cancel().await,
            SessionCommand::CancelPrompt(id) => self.cancel_request(&id).await,
            SessionCommand::Close(_) => {}
        }
    }

    async fn prompt_received(&mut self, id: Id, content: Json) {
        if self.running.is_empty() {
            self.start(&id, content).await;
        } else {
            self.queue.push_back((id, content));
        }
    }

    /// Adds a prompt to the conversation and starts its turn.
    async fn start(&mut self, id: &Id, content: Json) {
        let message = ids::message_id();
        self.client.answer(id, Ok(json!({"messageId": message.as_str()}).into())).await;
        let echo = json!({"sessionUpdate": "user_message", "messageId": message.as_str(),
            "content": content.value()});
        self.client.update(self.emitter.session(), &echo.into()).await;
        self.emitter.record_prompt(message.as_str(), &content);
        self.emitter.update(json!({"sessionUpdate": "state_update", "state": "running"})).await;
        self.cancel.send_replace(false);
        let turn = Turn::new(self.emitter.clone(), content, self.cancel.subscribe());
        let (agent, agent_session) = (self.agent.clone(), self.agent_session.clone());
        self.running.spawn(async move { agent.prompt(&agent_session, turn).await });
    }

    async fn turn_finished(&mut self, outcome: Result<Stop, RpcError>) {
        let cancelled = *self.cancel.borrow();
        self.idle(outcome, cancelled).await;
        if let Some((id, content)) = self.queue.pop_front() {
            self.start(&id, content).await;
        }
    }

    async fn idle(&self, outcome: Result<Stop, RpcError>, cancelled: bool) {
        let mut state = json!({"sessionUpdate": "state_update", "state": "idle"});
        if let Some(usage) = self.emitter.take_spent().written() {
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
        self.emitter.update(state).await;
    }

    async fn choose(&self, id: &Id, option: &str, value: &Value) {
        let outcome = self.emitter.chosen(option, value);
        let answer = outcome.map(|()| json!({"configOptions": self.emitter.written_options()}).into());
        self.client.answer(id, answer).await;
    }

    async fn cancel_one(&self, id: &Id, thing: &str) {
        let outcome = match self.emitter.cancel_one(thing) {
            true => Ok(json!({}).into()),
            false => Err(RpcError::field("id", &json!(thing), "something that runs and can be cancelled")),
        };
        self.client.answer(id, outcome).await;
    }

    /// Cancels the running turn and all queued prompts; later prompts are not affected.
    async fn cancel(&mut self) {
        for (id, _) in std::mem::take(&mut self.queue) {
            self.client.answer(&id, Err(RpcError::cancelled())).await;
        }
        if !self.running.is_empty() {
            self.cancel.send_replace(true);
        }
    }

    /// Cancels a queued prompt. A prompt that is part of the conversation stays.
    async fn cancel_request(&mut self, id: &str) {
        let at = self.queue.iter().position(|(waiting, _)| waiting.text() == id);
        if let Some((id, _)) = at.and_then(|at| self.queue.remove(at)) {
            self.client.answer(&id, Err(RpcError::cancelled())).await;
        }
    }

    async fn close(&mut self) {
        self.cancel().await;
        self.running.shutdown().await;
        self.agent.close(&self.agent_session).await;
    }
}
