//! Serves an in-process agent on its connection: decodes requests, opens sessions, and forwards the rest to their
//! tasks.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::account::Account;
use super::connection::ClientConnection;
use super::emitter::Offer;
use super::session_task::{self, Inbox, SessionCommand, SessionHandle};
use super::{Agent, Emitter, SessionSetup};
use crate::ids;
use crate::lock::locked;
use crate::transport::Wire;
use crate::wire::{self, Id, LineReader, RpcError, code};

/// More than a history and a message of a client, which are limited before they get here.
const MAX_LINE_BYTES: usize = 256 * 1024 * 1024;

/// One run of an agent.
struct ServedAgent<A> {
    agent: Arc<A>,
    account: Arc<Account>,
    client: Arc<ClientConnection>,
    /// The open sessions; `None` once the connection has ended.
    sessions: Mutex<Option<HashMap<String, SessionHandle>>>,
    /// Requests that the agent itself is handling, by their id as JSON. Dropping the sender cancels the request.
    open_requests: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

/// Serves until the connection ends. All sessions are closed when this returns.
pub(super) async fn serve<A: Agent>(agent: Arc<A>, account: Arc<Account>, wire: Wire) {
    let client = Arc::new(ClientConnection::start(wire.writer));
    let sessions = Mutex::new(Some(HashMap::new()));
    let served = Arc::new(ServedAgent { agent, account, client, sessions, open_requests: Mutex::default() });
    let mut reader = LineReader::new(wire.reader, MAX_LINE_BYTES);
    let mut work = JoinSet::new();
    while let Ok(Some(lines)) = reader.batch().await {
        for line in lines {
            if let wire::Line::Text(text) = line {
                served.handle_line(&text, &mut work).await;
            }
        }
        while work.try_join_next().is_some() {}
    }
    // Dropping the handles ends the sessions, and none can be opened any more.
    *locked(&served.sessions) = None;
    locked(&served.open_requests).clear();
    while work.join_next().await.is_some() {}
    served.client.end();
}

impl<A: Agent> ServedAgent<A> {
    async fn handle_line(self: &Arc<Self>, text: &[u8], work: &mut JoinSet<()>) {
        match wire::parse(text) {
            Ok(wire::RpcMessage::Request { id, method, params }) => {
                let params = params.map_or(Value::Null, |raw| Json::of(raw).value());
                self.handle_request(id, &method, params, work).await;
            }
            Ok(wire::RpcMessage::Notification { method, params }) => {
                let params = params.map_or(Value::Null, |raw| Json::of(raw).value());
                self.handle_notification(&method, &params).await;
            }
            Err(_) => {}
            Ok(wire::RpcMessage::Response { id, outcome }) => self.client.answered(
                &id,
                match outcome {
                    Ok(result) => Ok(Json::of(result).value()),
                    Err(error) => Err(RpcError::read(&Json::of(error))),
                },
            ),
        }
    }

    async fn handle_notification(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Some(session) = self.session_handle(params) {
                    let _ = session.send(SessionCommand::Cancel).await;
                }
            }
            "$/cancel_request" => self.cancel_request(&params["requestId"].to_string()).await,
            _ => {}
        }
    }

    /// Cancels a request that the agent is handling, or else a queued prompt of any session.
    async fn cancel_request(&self, id: &str) {
        if locked(&self.open_requests).remove(id).is_some() {
            return;
        }
        let sessions: Vec<_> = locked(&self.sessions).iter().flat_map(HashMap::values).cloned().collect();
        for session in sessions {
            let _ = session.send(SessionCommand::CancelPrompt(id.to_owned())).await;
        }
    }

    async fn handle_request(self: &Arc<Self>, id: Id, method: &str, params: Value, work: &mut JoinSet<()>) {
        match method {
            "initialize" => self.client.answer(&id, self.initialize(&params)).await,
            "session/new" => {
                let session = ids::session_id().0;
                let cancelled = self.begin(&id);
                work.spawn(self.clone().open(id, session, params, cancelled));
            }
            "session/resume" => match params["sessionId"].as_str().map(str::to_owned) {
                Some(session) if params["_meta"]["rethread"]["history"].is_array() => {
                    let cancelled = self.begin(&id);
                    work.spawn(self.clone().open(id, session, params, cancelled));
                }
                session => {
                    let unknown = RpcError::unknown_session(&session.unwrap_or_default());
                    self.client.answer(&id, Err(unknown)).await;
                }
            },
            "session/list" => self.client.answer(&id, Ok(json!({"sessions": []}).into())).await,
            "session/prompt" => {
                let content = Json::from(params["prompt"].clone());
                self.pass_on(id, &params, |id| SessionCommand::Prompt(id, content)).await;
            }
            "session/set_config_option" => {
                let option = params["configId"].as_str().unwrap_or_default().to_owned();
                let value = params["value"].clone();
                self.pass_on(id, &params, |id| SessionCommand::Choose(id, option, value)).await;
            }
            "tool_call/cancel" | "terminal/cancel" => {
                let name = if method == "tool_call/cancel" { "toolCallId" } else { "terminalId" };
                let thing = params[name].as_str().unwrap_or_default().to_owned();
                self.pass_on(id, &params, |id| SessionCommand::CancelOne(id, thing)).await;
            }
            "session/close" => {
                self.pass_on(id, &params, SessionCommand::Close).await;
                let session = params["sessionId"].as_str().unwrap_or_default();
                locked(&self.sessions).as_mut().and_then(|sessions| sessions.remove(session));
            }
            _ => {
                let cancelled = self.begin(&id);
                work.spawn(self.clone().other(id, method.to_owned(), params, cancelled));
            }
        }
    }

    /// Records that the agent handles a request. The receiver resolves when the request is cancelled.
    fn begin(&self, id: &Id) -> oneshot::Receiver<()> {
        let (open, cancelled) = oneshot::channel();
        locked(&self.open_requests).insert(id.text().to_owned(), open);
        cancelled
    }

    fn initialize(&self, params: &Value) -> Result<Json, RpcError> {
        match params["protocolVersion"].as_u64() {
            Some(2..) => Ok(self.agent.about().answer().into()),
            _ => Err(RpcError::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
                .with("requested", params["protocolVersion"].clone())
                .with("supported", json!([2]))),
        }
    }

    /// Handles any other request. A cancelled one is dropped and still answered.
    async fn other(self: Arc<Self>, id: Id, method: String, params: Value, cancelled: oneshot::Receiver<()>) {
        let outcome = tokio::select! {
            outcome = self.outcome(&method, params) => outcome,
            _ = cancelled => Err(RpcError::cancelled()),
        };
        locked(&self.open_requests).remove(id.text());
        self.client.answer(&id, outcome.map(Json::from)).await;
    }

    async fn outcome(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let done = |outcome: Result<(), RpcError>| outcome.map(|()| json!({}));
        match method {
            "auth/login" => {
                let way = params["methodId"].as_str().unwrap_or_default();
                done(self.account.login(&*self.agent, way).await)
            }
            "auth/logout" => done(self.account.logout(&*self.agent).await),
            _ => self.agent.request(method, params).await,
        }
    }

    fn session_handle(&self, params: &Value) -> Option<SessionHandle> {
        let session = params["sessionId"].as_str()?;
        locked(&self.sessions).as_ref()?.get(session).cloned()
    }

    async fn pass_on(&self, id: Id, params: &Value, message: impl FnOnce(Id) -> SessionCommand) {
        let unknown = RpcError::unknown_session(params["sessionId"].as_str().unwrap_or_default());
        match self.session_handle(params) {
            Some(session) => {
                let answer_to = id.clone();
                if session.send(message(id)).await.is_err() {
                    self.client.answer(&answer_to, Err(unknown)).await;
                }
            }
            None => self.client.answer(&id, Err(unknown)).await,
        }
    }

    /// Opens a session and runs it.
    async fn open(self: Arc<Self>, id: Id, session: String, params: Value, cancelled: oneshot::Receiver<()>) {
        let opened = tokio::select! {
            opened = self.opened(&session, params) => opened,
            _ = cancelled => Err(RpcError::cancelled()),
        };
        let (agent_session, emitter) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                locked(&self.open_requests).remove(id.text());
                return self.client.answer(&id, Err(error)).await;
            }
        };
        let (handle, inbox) = session_task::session_channel();
        // If the connection has ended meanwhile, the session ends as soon as it runs.
        if let Some(sessions) = locked(&self.sessions).as_mut() {
            sessions.insert(session.clone(), handle);
        }
        // Only now, because a client that cancels too late can close the session.
        locked(&self.open_requests).remove(id.text());
        let mut answer = json!({"sessionId": session, "configOptions": emitter.written_options()});
        if let Some(commands) = emitter.early_commands() {
            answer["availableCommands"] = commands;
        }
        self.client.answer(&id, Ok(answer.into())).await;
        emitter.open().await;
        self.serve(agent_session, emitter, inbox).await;
    }

    async fn serve(&self, agent_session: A::Session, emitter: Emitter, inbox: Inbox) {
        session_task::run(self.agent.clone(), agent_session, emitter, self.client.clone(), inbox).await;
    }

    async fn opened(&self, session: &str, params: Value) -> Result<(A::Session, Emitter), RpcError> {
        let about = self.agent.about();
        self.account.check(&about)?;
        let history: Vec<_> = params["_meta"]["rethread"]["history"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| Json::from(item.clone()))
            .collect();
        let (agent, other) = (self.agent.clone(), self.agent.clone());
        let options = Offer {
            options: Box::new(move |chosen| agent.options(chosen)),
            accepts: Box::new(move |option, value| other.accepts(option, value)),
        };
        let chosen = super::Choices::read(&params["_meta"]["rethread"]["choices"]);
        let emitter = Emitter::new(session.to_owned(), self.client.clone(), &history, &about, options)
            .with_choices(chosen.clone());
        if !about.commands.is_empty() {
            emitter.commands(&about.commands).await;
        }
        let paths = |value: &Value| {
            let items = value.as_array().into_iter().flatten();
            items.filter_map(|path| path.as_str().map(PathBuf::from)).collect()
        };
        let opening = SessionSetup {
            cwd: PathBuf::from(params["cwd"].as_str().unwrap_or_default()),
            roots: paths(&params["additionalDirectories"]),
            servers: params["mcpServers"].as_array().cloned().unwrap_or_default(),
            system_prompt: Some(params["systemPrompt"].clone()).filter(|prompt| !prompt.is_null()),
            chosen,
            emitter: emitter.clone(),
        };
        Ok((self.agent.open(opening).await?, emitter))
    }
}
