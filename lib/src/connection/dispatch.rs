//! Dispatches each message of a client to its session, the store or the agent.

use rethread_core::{Json, SessionId};
use serde_json::value::RawValue;

use super::answers;
use super::carrying::PassedOn;
use super::initialize::ProfileCache;
use super::list::list_query;
use super::sent_requests::SentRequest;
use super::{ClientContext, ClientRole, Connection, Phase, ReachedBy};
use crate::agent::peer::SessionlessMessage;
use crate::agent::sessionless::{LoginChange, LoginState, ProcessMessage};
use crate::edge::agent_translator::outgoing::check_content;
use crate::edge::air;
use crate::edge::client_request::{ClientRequest, SessionRequest, is_ours};
use crate::edge::params::Params;
use crate::ids;
use crate::live_session::{GivenAnswer, Handle, Message, SessionEnded};
use crate::outbox::{OpenRequest, Origin, Outbound, Relayed, Sender, Worker};
use crate::wire::{Id, RpcError, code, parse};

/// What the names of our extensions begin with.
const OURS: &str = "_rethread/";

impl Connection {
    pub(super) async fn request(&mut self, request: OpenRequest, method: &str, params: Option<&RawValue>) {
        if method == "initialize" {
            return self.initialize(request, params);
        }
        let context = match &mut self.phase {
            Phase::Ready(ready) => {
                ready.context.used = true;
                ready.context.clone()
            }
            Phase::Fresh | Phase::Initializing { .. } => {
                let error = RpcError::new(code::INVALID_REQUEST, "initialize has not been answered yet")
                    .with("method", method)
                    .hint("send initialize first, and wait for its answer");
                return request.answer(Err(error));
            }
        };
        if method.starts_with(OURS) {
            self.deps.directory.knows_us(self.client);
        }
        let checked =
            decode(&context, method, params).and_then(|call| context.access.check(&call).map(|()| call));
        match checked {
            Ok(call) => {
                if let Some(request) = self.pass_on(&context, request, &call, method, params).await {
                    self.call(context, request, call).await;
                }
            }
            Err(error) => request.answer(Err(error)),
        }
    }

    async fn call(&mut self, context: ClientContext, request: OpenRequest, call: ClientRequest) {
        if let ClientRequest::New(setup)
        | ClientRequest::Resume { setup, .. }
        | ClientRequest::Fork { setup, .. } = &call
        {
            self.deps.host_config.secrets.add_servers(&setup.servers);
        }
        if is_work(&call, context.access.role())
            && let Err(error) = self.deps.registry.check_open()
        {
            // The host that carries the client tries again: the session goes to another host soon.
            let error = match context.reached_by {
                ReachedBy::Client => error,
                ReachedBy::OtherHost => RpcError { code: code::NOT_HERE, ..error },
            };
            return request.answer(Err(error));
        }
        match call {
            ClientRequest::New(setup) => self.create(context, request, setup),
            ClientRequest::Resume { session, setup, replay }
                if context.access.role() == ClientRole::Observer =>
            {
                self.observe(context, request, SessionId(session), setup.updates, replay).await;
            }
            ClientRequest::Resume { session, setup, replay } => {
                self.resume(context, request, SessionId(session), setup, replay).await;
            }
            ClientRequest::Fork { session, setup, at } => {
                self.fork(context, request, SessionId(session), setup, at).await;
            }
            ClientRequest::List { cwd, cursor, archived, limit } => {
                self.list(context, request, list_query(cwd, cursor, archived, limit)).await;
            }
            ClientRequest::Search(params) => self.search(&context, request, params),
            ClientRequest::Subscribe(subscription) => self.subscribe(context, request, subscription).await,
            ClientRequest::Unsubscribe(id) => self.unsubscribe(context, request, id).await,
            ClientRequest::Clients(session) => self.clients(&context, request, session),
            ClientRequest::BatchGet(ids) => self.batch_get(context, request, ids).await,
            ClientRequest::Reading(reading) => self.reading(&context, request, reading).await,
            ClientRequest::Session { session, call } => {
                self.session_call(context, request, SessionId(session), call).await;
            }
            ClientRequest::Relay { method, params } => self.relay(context, request, method, params).await,
        }
    }

    async fn session_call(
        &mut self,
        context: ClientContext,
        request: OpenRequest,
        session: SessionId,
        call: SessionRequest,
    ) {
        match call {
            SessionRequest::Close => self.close(context, request, session).await,
            SessionRequest::Delete => self.delete(context, request, session).await,
            SessionRequest::Archive => self.archive(context, request, session).await,
            SessionRequest::Unarchive => self.unarchive(context, request, session).await,
            SessionRequest::Status => self.status(context, request, session).await,
            SessionRequest::SetTitle(title) => self.set_title(context, request, session, title).await,
            SessionRequest::Prompt { .. }
            | SessionRequest::SetOption { .. }
            | SessionRequest::CancelToolCall(_)
            | SessionRequest::CancelTerminal(_) => self.live_call(context, request, session, call).await,
        }
    }

    /// Calls that only a session which this client follows can answer.
    async fn live_call(
        &mut self,
        context: ClientContext,
        request: OpenRequest,
        session: SessionId,
        call: SessionRequest,
    ) {
        let Some(handle) = self.following(&context, &session) else {
            return request.answer(Err(RpcError::not_attached(session.as_str())));
        };
        if let SessionRequest::Prompt { content, .. } = &call
            && let Err(error) = check_content(&context.profile(), content)
        {
            return request.answer(Err(error));
        }
        request.assign(Worker::Session(session.clone()));
        let message_id = ids::message_id();
        if let SessionRequest::Prompt { .. } = &call {
            let from = Outbound::PromptFrom(session.clone(), message_id.clone(), Sender::Own);
            request.hand_over(from);
        }
        let reply = context.reply(request, &session);
        let message = match call {
            SessionRequest::Prompt { content, meta } => {
                Message::Prompt { message: message_id, content, meta, reply }
            }
            SessionRequest::SetOption { option, value } => {
                Message::SetOption { option, value, booleans: context.client.booleans(), reply }
            }
            SessionRequest::CancelToolCall(id) => {
                Message::CancelThing { method: "tool_call/cancel", field: "toolCallId", id, reply }
            }
            SessionRequest::CancelTerminal(id) => {
                Message::CancelThing { method: "terminal/cancel", field: "terminalId", id, reply }
            }
            SessionRequest::SetTitle(_)
            | SessionRequest::Close
            | SessionRequest::Delete
            | SessionRequest::Archive
            | SessionRequest::Unarchive
            | SessionRequest::Status => return,
        };
        refuse_unsent(handle.send(message).await, &session);
    }

    pub(super) fn following(&self, context: &ClientContext, session: &SessionId) -> Option<Handle> {
        if self.attached.has(session) { context.registry.find(session) } else { None }
    }

    pub(super) async fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        let Phase::Ready(ready) = &self.phase else { return };
        let context = ready.context.clone();
        let Ok(read) = Params::read(params) else { return };
        let session = read.optional_text("sessionId").ok().flatten().map(SessionId);
        match (method, session) {
            ("$/cancel_request", _) => self.withdraw(&context, &read).await,
            // Whoever only looks has nothing to say to an agent.
            _ if context.access.role() == ClientRole::Observer => {}
            (_, Some(session))
                if self.pass_notification(&session, method, &read.fields().json()) == PassedOn::Yes => {}
            ("session/cancel", Some(session)) => {
                if let Some(handle) = self.following(&context, &session) {
                    let _ = handle.send(Message::Cancel).await;
                }
            }
            // One that makes no sense here makes none to the agent.
            (method, _) if is_ours(method) => {}
            (_, Some(session)) => {
                if let Some(handle) = self.following(&context, &session) {
                    let (method, params) = (method.to_owned(), read.fields().json());
                    let _ = handle.send(Message::Relay { method, params, reply: None }).await;
                }
            }
            (method, None) => {
                let (method, params) = (method.to_owned(), read.fields().json());
                tokio::spawn(async move {
                    if let Ok(live) = context.host.live().await {
                        let _ = live.peer.notify(&method, &params);
                    }
                });
            }
        }
    }

    /// A client takes back a request. Its id means nothing to the agent: ours is used there.
    async fn withdraw(&self, context: &ClientContext, params: &Params) {
        let Some(id) = params.get("requestId").and_then(|id| Id::read(id.raw())) else { return };
        match self.in_flight.worker(&id) {
            Some(Worker::Session(session)) => {
                if let Some(handle) = context.registry.find(&session) {
                    let _ = handle.send(Message::Withdraw(self.client, id)).await;
                }
            }
            Some(Worker::Agent(number)) => {
                if let Ok(live) = context.host.live().await {
                    let _ = live.peer.cancel(number);
                }
            }
            Some(Worker::OtherHost { link, number }) => {
                if let Some(link) = self.carrier.link_by_id(link) {
                    link.cancel(number);
                }
            }
            Some(Worker::Connection) | None => {}
        }
    }

    pub(super) async fn response(&mut self, id: &Id, outcome: Result<Json, RpcError>) {
        let registry = &self.deps.registry;
        match self.asked.answered(id) {
            Some(SentRequest::Question(session, question)) => {
                let given = GivenAnswer { question, outcome, request: id.clone() };
                let too_late = given.outcome.is_ok().then(|| given.too_late());
                let taken = match registry.find(&session) {
                    Some(handle) => handle.send(Message::Answer(self.client, given)).await.is_ok(),
                    None => false,
                };
                if let (false, Some(too_late)) = (taken, too_late) {
                    let _ = self.outbox.offer(too_late);
                }
            }
            Some(SentRequest::Relayed(relayed) | SentRequest::TakenBack(relayed)) => match relayed.origin {
                Origin::Session(session) => {
                    if let Some(handle) = registry.find(&session) {
                        let answer = Message::Relayed(self.client, relayed.request, outcome);
                        let _ = handle.send(answer).await;
                    }
                }
                Origin::Agent(peer) => {
                    let _ = peer.answer(&relayed.request, outcome.as_ref());
                }
            },
            Some(SentRequest::Carried(link, id)) => link.respond(&id, &outcome),
            None => {}
        }
    }

    pub(super) fn process_message(&mut self, message: &ProcessMessage) {
        match message {
            ProcessMessage::FromAgent(message) => self.aside(message),
            ProcessMessage::LoginChanged(change) => self.login_changed(change),
        }
    }

    /// Another client has logged the agent in or out: this one gets the current ways to log in.
    fn login_changed(&self, change: &LoginChange) {
        let Phase::Ready(ready) = &self.phase else { return };
        let context = &ready.context;
        let methods = context.profile().login_methods(context.client.version);
        let method = answers::LOGIN_CHANGED.to_owned();
        let params = answers::login_changed(change, methods);
        if self.outbox.offer(Outbound::Notify { method, params }).is_err() {
            tracing::warn!("skipped a report of a login for a client that does not read");
        }
    }

    /// What the agent says apart from any session goes to the client as it is.
    fn aside(&mut self, aside: &SessionlessMessage) {
        if !matches!(self.phase, Phase::Ready(_)) {
            // A client that has not been answered yet cannot be asked, and the agent may wait for this.
            return aside.peer.refuse(&aside.line);
        }
        let json = |params: Option<&RawValue>| {
            params.map_or_else(|| Json::of(&rethread_core::Fields::new()), |raw| Json::from(raw.to_owned()))
        };
        match parse(&aside.line) {
            Ok(crate::wire::RpcMessage::Notification { method, params }) if method != "$/cancel_request" => {
                let message = Outbound::Notify { method: method.into_owned(), params: json(params) };
                if self.outbox.offer(message).is_err() {
                    tracing::warn!("skipped a notification for a client that does not read");
                }
            }
            Ok(crate::wire::RpcMessage::Request { id, method, params }) => {
                let (method, params) = (method.into_owned(), self.own_request(json(params)));
                let from = Relayed { request: id, origin: Origin::Agent(aside.peer.clone()) };
                if self.outbox.offer(Outbound::Relay { from, method, params }).is_err() {
                    aside.peer.refuse(&aside.line);
                }
            }
            Ok(crate::wire::RpcMessage::Notification { params, .. }) => {
                self.withdrawn_aside(aside, &json(params));
            }
            Ok(crate::wire::RpcMessage::Response { .. }) | Err(_) => {}
        }
    }

    /// The agent takes back a request of its own that was relayed.
    fn withdrawn_aside(&self, aside: &SessionlessMessage, params: &Json) {
        let Some(request) = params.fields().get("requestId").and_then(|id| Id::read(id.raw())) else {
            return;
        };
        let from = Relayed { request, origin: Origin::Agent(aside.peer.clone()) };
        let _ = self.outbox.offer(Outbound::CancelRelay(from));
    }

    /// What the agent asks about a request of ours is about the client's own request.
    fn own_request(&self, params: Json) -> Json {
        let mut fields = params.fields();
        let number = fields.get("requestId").and_then(|id| id.read::<u64>().ok());
        let Some(own) = number.and_then(|number| self.in_flight.of_agent(number)) else { return params };
        match Json::parse(own.text().to_owned()) {
            Ok(own) => {
                fields.set("requestId", own);
                fields.json()
            }
            Err(_) => params,
        }
    }

    async fn relay(&mut self, context: ClientContext, request: OpenRequest, method: String, params: Json) {
        if let Some(session) = params.fields().text("sessionId").map(SessionId) {
            let Some(handle) = self.following(&context, &session) else {
                return request.answer(Err(RpcError::not_attached(session.as_str())));
            };
            request.assign(Worker::Session(session.clone()));
            let reply = context.reply(request, &session);
            let message = Message::Relay { method, params, reply: Some(reply) };
            return refuse_unsent(handle.send(message).await, &session);
        }
        let memory = ProfileCache::new(&self.deps, &context.client);
        tokio::spawn(async move {
            let outcome = match context.host.live().await {
                Ok(live) => {
                    let own = live.profile.version.login_method(&method).to_owned();
                    let (number, answer) = live.peer.begin_call(&own, &params);
                    request.assign(Worker::Agent(number));
                    let _open = context.host.clients().call(number, context.tag.id);
                    answer.await
                }
                Err(error) => Err(error),
            };
            // After a login or a logout an agent may offer other ways to log in.
            if let (Ok(_), Some(login)) = (&outcome, login_of(&method)) {
                memory.forget().await;
                let change = LoginChange { by: context.tag.clone(), login };
                context.host.clients().report_login(&change);
                let notice = answers::login_notice(&change);
                context.registry.host_changed(&context.host, change.by.id, &notice).await;
            }
            request.answer(outcome);
        });
    }
}

/// Decodes a request, as the client means it.
fn decode(
    context: &ClientContext,
    method: &str,
    params: Option<&RawValue>,
) -> Result<ClientRequest, RpcError> {
    if let Some(call) = air::decode(&context.client, method, params)? {
        return Ok(call);
    }
    let version = context.client.version;
    let mut call = match context.access.role() {
        ClientRole::Full => ClientRequest::decode(version, method, params)?,
        ClientRole::Observer => ClientRequest::decode_observed(version, method, params)?,
    };
    if context.reached_by == ReachedBy::OtherHost {
        call.replay_after(params);
    }
    Ok(air::adapt(&context.client, call))
}

/// Says whether a request begins something that a server which stops could not finish.
fn is_work(call: &ClientRequest, role: ClientRole) -> bool {
    match call {
        ClientRequest::New(_) | ClientRequest::Fork { .. } => true,
        ClientRequest::Session { call, .. } => matches!(call, SessionRequest::Prompt { .. }),
        // It takes the session, which another host may want.
        ClientRequest::Resume { .. } => role == ClientRole::Full,
        ClientRequest::List { .. }
        | ClientRequest::Search(_)
        | ClientRequest::Subscribe(_)
        | ClientRequest::Unsubscribe(_)
        | ClientRequest::Clients(_)
        | ClientRequest::BatchGet(_)
        | ClientRequest::Reading(_)
        | ClientRequest::Relay { .. } => false,
    }
}

/// What a request does to the login, in either version.
fn login_of(method: &str) -> Option<LoginState> {
    match method {
        "authenticate" | "auth/login" => Some(LoginState::In),
        "logout" | "auth/logout" => Some(LoginState::Out),
        _ => None,
    }
}

/// What was meant for a session that has ended meanwhile is refused.
fn refuse_unsent(sent: Result<(), SessionEnded>, session: &SessionId) {
    if let Err(SessionEnded(Some(reply))) = sent {
        reply.refuse(RpcError::not_attached(session.as_str()));
    }
}
