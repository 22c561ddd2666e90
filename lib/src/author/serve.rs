//! An agent on its wire: hears what is asked, opens sessions, and passes the rest on to their desks.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::account::Account;
use super::desk::{self, Desk, Inbox, Message};
use super::line::Line;
use super::voice::Offer;
use super::{Agent, Opening, Voice};
use crate::ids;
use crate::lock::locked;
use crate::transport::Wire;
use crate::wire::{self, Id, LineReader, RpcError, code};

/// What a client says is bounded before it gets here; what it hands over of a history is not.
const LONGEST_LINE: usize = 1024 * 1024 * 1024;

/// One start of an agent.
struct Served<A> {
    agent: Arc<A>,
    account: Arc<Account>,
    line: Arc<Line>,
    /// The ways to the open sessions; none once the other side has hung up.
    desks: Mutex<Option<HashMap<String, Desk>>>,
    /// Requests that the agent itself works on, by their ids as JSON. The end of one says that it was taken back.
    asked: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

/// Serves until the other side hangs up. All sessions are closed when this returns.
pub(super) async fn serve<A: Agent>(agent: Arc<A>, account: Arc<Account>, wire: Wire) {
    let line = Arc::new(Line::start(wire.writer));
    let desks = Mutex::new(Some(HashMap::new()));
    let served = Arc::new(Served { agent, account, line, desks, asked: Mutex::default() });
    let mut reader = LineReader::new(wire.reader, LONGEST_LINE);
    let mut work = JoinSet::new();
    while let Ok(Some(lines)) = reader.batch().await {
        for line in lines {
            if let wire::Line::Text(text) = line {
                served.hear(&text, &mut work).await;
            }
        }
        while work.try_join_next().is_some() {}
    }
    // Nobody can reach the sessions any more, so they end, and those that are being opened are not.
    *locked(&served.desks) = None;
    locked(&served.asked).clear();
    while work.join_next().await.is_some() {}
    served.line.end();
}

impl<A: Agent> Served<A> {
    async fn hear(self: &Arc<Self>, text: &[u8], work: &mut JoinSet<()>) {
        match wire::parse(text) {
            Ok(wire::Message::Request { id, method, params }) => {
                let params = params.map_or(Value::Null, |raw| Json::of(raw).value());
                self.asked(id, &method, params, work).await;
            }
            Ok(wire::Message::Notification { method, params }) => {
                let params = params.map_or(Value::Null, |raw| Json::of(raw).value());
                self.told(&method, &params).await;
            }
            Err(_) => {}
            Ok(wire::Message::Response { id, outcome }) => self.line.hear(
                &id,
                match outcome {
                    Ok(result) => Ok(Json::of(result).value()),
                    Err(error) => Err(RpcError::read(&Json::of(error))),
                },
            ),
        }
    }

    async fn told(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Some(desk) = self.desk(params) {
                    let _ = desk.send(Message::Cancel).await;
                }
            }
            "$/cancel_request" => self.take_back(&params["requestId"].to_string()).await,
            _ => {}
        }
    }

    /// A request is taken back that the agent works on, or else a prompt that waits in one of the sessions.
    async fn take_back(&self, id: &str) {
        if locked(&self.asked).remove(id).is_some() {
            return;
        }
        let desks: Vec<_> = locked(&self.desks).iter().flat_map(HashMap::values).cloned().collect();
        for desk in desks {
            let _ = desk.send(Message::TakeBack(id.to_owned())).await;
        }
    }

    async fn asked(self: &Arc<Self>, id: Id, method: &str, params: Value, work: &mut JoinSet<()>) {
        match method {
            "initialize" => self.line.answer(&id, self.initialize(&params)).await,
            "session/new" => {
                let session = ids::session_id().0;
                let taken_back = self.begin(&id);
                work.spawn(self.clone().open(id, session, params, taken_back));
            }
            "session/resume" => match params["sessionId"].as_str().map(str::to_owned) {
                Some(session) if params["_meta"]["rethread"]["history"].is_array() => {
                    let taken_back = self.begin(&id);
                    work.spawn(self.clone().open(id, session, params, taken_back));
                }
                session => {
                    let unknown = RpcError::unknown_session(&session.unwrap_or_default());
                    self.line.answer(&id, Err(unknown)).await;
                }
            },
            "session/list" => self.line.answer(&id, Ok(json!({"sessions": []}).into())).await,
            "session/prompt" => {
                let content = Json::from(params["prompt"].clone());
                self.pass_on(id, &params, |id| Message::Prompt(id, content)).await;
            }
            "session/set_config_option" => {
                let option = params["configId"].as_str().unwrap_or_default().to_owned();
                let value = params["value"].clone();
                self.pass_on(id, &params, |id| Message::Choose(id, option, value)).await;
            }
            "tool_call/cancel" | "terminal/cancel" => {
                let name = if method == "tool_call/cancel" { "toolCallId" } else { "terminalId" };
                let thing = params[name].as_str().unwrap_or_default().to_owned();
                self.pass_on(id, &params, |id| Message::CancelOne(id, thing)).await;
            }
            "session/close" => {
                self.pass_on(id, &params, Message::Close).await;
                let session = params["sessionId"].as_str().unwrap_or_default();
                locked(&self.desks).as_mut().and_then(|desks| desks.remove(session));
            }
            _ => {
                let taken_back = self.begin(&id);
                work.spawn(self.clone().other(id, method.to_owned(), params, taken_back));
            }
        }
    }

    /// The agent begins to work on a request. What this gives ends when that is taken back.
    fn begin(&self, id: &Id) -> oneshot::Receiver<()> {
        let (open, taken_back) = oneshot::channel();
        locked(&self.asked).insert(id.text().to_owned(), open);
        taken_back
    }

    fn initialize(&self, params: &Value) -> Result<Json, RpcError> {
        match params["protocolVersion"].as_u64() {
            Some(2..) => Ok(self.agent.about().answer().into()),
            _ => Err(RpcError::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
                .with("requested", params["protocolVersion"].clone())
                .with("supported", json!([2]))),
        }
    }

    /// What is taken back is dropped, and answered all the same.
    async fn other(
        self: Arc<Self>,
        id: Id,
        method: String,
        params: Value,
        taken_back: oneshot::Receiver<()>,
    ) {
        let outcome = tokio::select! {
            outcome = self.outcome(&method, params) => outcome,
            _ = taken_back => Err(RpcError::cancelled()),
        };
        locked(&self.asked).remove(id.text());
        self.line.answer(&id, outcome.map(Json::from)).await;
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

    fn desk(&self, params: &Value) -> Option<Desk> {
        let session = params["sessionId"].as_str()?;
        locked(&self.desks).as_ref()?.get(session).cloned()
    }

    async fn pass_on(&self, id: Id, params: &Value, message: impl FnOnce(Id) -> Message) {
        let unknown = RpcError::unknown_session(params["sessionId"].as_str().unwrap_or_default());
        match self.desk(params) {
            Some(desk) => {
                let answer_to = id.clone();
                if desk.send(message(id)).await.is_err() {
                    self.line.answer(&answer_to, Err(unknown)).await;
                }
            }
            None => self.line.answer(&id, Err(unknown)).await,
        }
    }

    /// Opens a session and serves it.
    async fn open(
        self: Arc<Self>,
        id: Id,
        session: String,
        params: Value,
        taken_back: oneshot::Receiver<()>,
    ) {
        let opened = tokio::select! {
            opened = self.opened(&session, params) => opened,
            _ = taken_back => Err(RpcError::cancelled()),
        };
        let (own, voice) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                locked(&self.asked).remove(id.text());
                return self.line.answer(&id, Err(error)).await;
            }
        };
        let (desk, inbox) = desk::desk();
        // Where there are none any more, the session ends as soon as it is served.
        if let Some(desks) = locked(&self.desks).as_mut() {
            desks.insert(session.clone(), desk);
        }
        // Not before it can be closed: who takes this back too late closes it.
        locked(&self.asked).remove(id.text());
        let mut answer = json!({"sessionId": session, "configOptions": voice.written_options()});
        if let Some(commands) = voice.early_commands() {
            answer["availableCommands"] = commands;
        }
        self.line.answer(&id, Ok(answer.into())).await;
        voice.open().await;
        self.serve(own, voice, inbox).await;
    }

    async fn serve(&self, own: A::Session, voice: Voice, inbox: Inbox) {
        desk::run(self.agent.clone(), own, voice, self.line.clone(), inbox).await;
    }

    async fn opened(&self, session: &str, params: Value) -> Result<(A::Session, Voice), RpcError> {
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
        let voice = Voice::new(session.to_owned(), self.line.clone(), &history, &about, options)
            .having(chosen.clone());
        if !about.commands.is_empty() {
            voice.commands(&about.commands).await;
        }
        let paths = |value: &Value| {
            let items = value.as_array().into_iter().flatten();
            items.filter_map(|path| path.as_str().map(PathBuf::from)).collect()
        };
        let opening = Opening {
            cwd: PathBuf::from(params["cwd"].as_str().unwrap_or_default()),
            roots: paths(&params["additionalDirectories"]),
            servers: params["mcpServers"].as_array().cloned().unwrap_or_default(),
            system_prompt: Some(params["systemPrompt"].clone()).filter(|prompt| !prompt.is_null()),
            chosen,
            voice: voice.clone(),
        };
        Ok((self.agent.open(opening).await?, voice))
    }
}
