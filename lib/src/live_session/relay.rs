//! Relays requests between the agent and clients with translated ids: files, terminals and extensions. Not journalled, except
//! that the output of client terminals is fetched and stored before it is gone. Where no client can serve a request,
//! `local` does.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rethread_core::{Fields, Input, Json, Update, UpdateKind};
use serde_json::json;

use super::relays::{Purpose, TerminalRoute};
use super::{AgentSlot, Client, LiveSession, Message, PendingAnswer};
use crate::client_id::ClientId;
use crate::edge::dialect::{CancelParts, ClientServices};
use crate::ids;
use crate::local_services;
use crate::outbox::{Origin, Outbound, Relayed, Reply};
use crate::wire::{Id, RpcError};

/// Who carries out a request of the agent's.
enum Route {
    /// This client; it has this id for the terminal, if the request is about one.
    Client(ClientId, Option<String>),
    /// This process.
    Local,
    /// Nobody needs to: this is the answer.
    Answered(Json),
    /// Nobody can.
    Nobody,
}

impl LiveSession {
    /// The agent has something for the clients.
    pub(super) fn relay_to_client(&mut self, request: Option<Id>, method: &str, params: &Json) {
        let params = with_text(params, "sessionId", self.id.as_str());
        let Some(request) = request else {
            return self.notify_clients(method, &params);
        };
        match self.route(method, &params) {
            Route::Local => self.serve_locally(request, method, &params),
            Route::Answered(answer) => self.answer_request(&request, Ok(&answer)),
            Route::Nobody => {
                let error = RpcError::internal("no client is connected that could answer");
                self.answer_request(&request, Err(&error));
            }
            Route::Client(client, None) => {
                let purpose = match method {
                    "terminal/create" => {
                        Purpose::Create { command: params.fields().text("command").unwrap_or_default() }
                    }
                    _ => Purpose::Plain,
                };
                self.send_relay(client, request, method, params, purpose);
            }
            Route::Client(client, Some(theirs)) => {
                self.relay_of_terminal(client, &theirs, request, method, &params)
            }
        }
    }

    /// Files and new terminals are the business of the client whose prompt runs, outside a turn of the newest one that
    /// offers them. A terminal stays with its client.
    fn route(&self, method: &str, params: &Json) -> Route {
        if !self.is_client_method(method) {
            let prompter = self
                .clients
                .requests
                .prompter()
                .filter(|client| self.clients.attached.get(*client).is_some());
            let newest = || self.clients.attached.newest(|_| true).map(|client| client.tag.id);
            return prompter.or_else(newest).map_or(Route::Nobody, |client| Route::Client(client, None));
        }
        if let Some(terminal) = params.fields().text("terminalId") {
            if self.services.local.has(&terminal) {
                return Route::Local;
            }
            match self.services.relays.route(&terminal, method) {
                Some(TerminalRoute::Client(client, theirs)) => return Route::Client(client, Some(theirs)),
                Some(TerminalRoute::Ended(answer)) => return Route::Answered(answer),
                None => {}
            }
        }
        let serves = |client: &Client| client.profile.serves(method);
        let chosen = match self.clients.requests.prompter() {
            Some(prompter) => self.clients.attached.get(prompter).filter(|client| serves(client)),
            None => self.clients.attached.newest(serves),
        };
        chosen.map_or(Route::Local, |client| Route::Client(client.tag.id, None))
    }

    /// Says whether a request is for files or terminals, which a version 1 agent expects of its client.
    fn is_client_method(&self, method: &str) -> bool {
        let agent = match &self.agent.slot {
            AgentSlot::Bound(bound) => bound.translator.dialect(),
            AgentSlot::Opening(opening) => opening.translator.dialect(),
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Stopping(_) => return false,
        };
        agent.client_services == ClientServices::Expected && local_services::METHODS.contains(&method)
    }

    fn relay_of_terminal(
        &mut self,
        client: ClientId,
        theirs: &str,
        request: Id,
        method: &str,
        params: &Json,
    ) {
        let terminal = params.fields().text("terminalId").unwrap_or_default();
        let params = with_text(params, "terminalId", theirs);
        if method == "terminal/release" {
            return self.fetch_output(client, theirs, terminal, Some((request, params)));
        }
        let purpose = Purpose::OfTerminal { terminal, method: method.to_owned() };
        self.send_relay(client, request, method, params, purpose);
    }

    /// A client answered what was relayed to it.
    pub(super) async fn relayed(&mut self, client: ClientId, request: Id, outcome: Result<Json, RpcError>) {
        match self.services.relays.answered(client, &request) {
            Some(Purpose::Plain | Purpose::OfTerminal { .. }) => {
                self.answer_request(&request, outcome.as_ref());
            }
            Some(Purpose::Create { command }) => {
                let outcome = outcome.map(|made| self.terminal_made(client, &made, command));
                self.answer_request(&request, outcome.as_ref());
            }
            Some(Purpose::Fetch { terminal, then_release }) => {
                self.output_fetched(client, terminal, then_release, outcome).await;
            }
            None => {}
        }
    }

    /// A client has made a terminal. Gives the answer for the agent, with an id of ours.
    fn terminal_made(&mut self, client: ClientId, made: &Json, command: String) -> Json {
        let Some(theirs) = made.fields().text("terminalId") else { return made.clone() };
        let ours = ids::terminal_id();
        self.services.relays.terminal_made(client, ours.clone(), theirs.clone(), command);
        if let Some(client) = self.clients.attached.get(client) {
            let session = self.id.clone();
            // A client that does not take it is shown the terminal's output as text.
            let _ = client.outbox.offer(Outbound::OwnTerminal { session, ours: ours.clone(), theirs });
        }
        with_text(made, "terminalId", &ours)
    }

    /// Fetches what the clients' terminals show by now, for the journal.
    pub(super) fn fetch_outputs(&mut self) {
        for (ours, client, theirs) in self.services.relays.running() {
            self.fetch_output(client, &theirs, ours, None);
        }
    }

    fn fetch_output(
        &mut self,
        client: ClientId,
        theirs: &str,
        terminal: String,
        then_release: Option<(Id, Json)>,
    ) {
        let id = self.services.relays.next_fetch();
        let params = json!({"sessionId": self.id, "terminalId": theirs});
        let purpose = Purpose::Fetch { terminal, then_release };
        self.send_relay(client, id, "terminal/output", params.into(), purpose);
    }

    async fn output_fetched(
        &mut self,
        client: ClientId,
        terminal: String,
        then_release: Option<(Id, Json)>,
        outcome: Result<Json, RpcError>,
    ) {
        if let Ok(output) = &outcome
            && let Some(command) = self.services.relays.fetched(&terminal, output)
        {
            let update = screenful(&self.public_terminal(&terminal), &command, &output.fields());
            self.step(vec![Input::Updated { update, known: true }]).await;
        }
        if let Some((request, params)) = then_release {
            self.services.relays.released(&terminal);
            self.send_relay(client, request, "terminal/release", params, Purpose::Plain);
        }
    }

    /// The id by which the journal knows a terminal of the agent's.
    fn public_terminal(&self, terminal: &str) -> String {
        match &self.agent.slot {
            AgentSlot::Bound(bound) => bound.translator.public_id(terminal),
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Opening(_) | AgentSlot::Stopping(_) => {
                terminal.to_owned()
            }
        }
    }

    fn send_relay(&mut self, client: ClientId, request: Id, method: &str, params: Json, purpose: Purpose) {
        let from = Relayed { request: request.clone(), origin: Origin::Session(self.id.clone()) };
        let message = self.here(Outbound::Relay { from, method: method.to_owned(), params });
        self.services.relays.add(request.clone(), client, purpose);
        let sent =
            self.clients.attached.get(client).is_some_and(|client| client.outbox.offer(message).is_ok());
        if !sent {
            let error = RpcError::internal("the client does not read what it is sent");
            let agents = match self.services.relays.remove(&request) {
                Some(Purpose::Fetch { then_release, .. }) => then_release.map(|(release, _)| release),
                Some(Purpose::Plain | Purpose::Create { .. } | Purpose::OfTerminal { .. }) => Some(request),
                None => None,
            };
            agents.iter().for_each(|request| self.answer_request(request, Err(&error)));
        }
    }

    /// A client has left: the agent is answered in its place, and what its terminals showed last is kept.
    pub(super) async fn relays_of_gone_client(&mut self, client: ClientId) {
        let left = self.services.relays.client_left(client);
        let ended = |(terminal, command, mut last): (String, String, Fields)| {
            if last.get("exitStatus").is_none_or(Json::is_null) {
                last.set("exitStatus", json!({}).into());
            }
            let update = screenful(&self.public_terminal(&terminal), &command, &last);
            Input::Updated { update, known: true }
        };
        let inputs = left.ended.into_iter().map(ended).collect();
        self.step(inputs).await;
        for (request, answer) in left.answers {
            self.answer_request(&request, answer.as_ref());
        }
    }

    fn notify_clients(&mut self, method: &str, params: &Json) {
        let message = || self.here(Outbound::Notify { method: method.to_owned(), params: params.clone() });
        if self.clients.attached.offer_others(None, message) > 0 {
            tracing::warn!("skipped a notification for a client that does not read");
        }
    }

    /// The agent takes back a request.
    pub(super) fn cancel_relay(&mut self, request: &Id) {
        if self.withdraw_local(request) {
            return;
        }
        let client =
            self.services.relays.client_of(request).and_then(|client| self.clients.attached.get(client));
        if let Some(client) = client {
            let from = Relayed { request: request.clone(), origin: Origin::Session(self.id.clone()) };
            let _ = client.outbox.offer(self.here(Outbound::CancelRelay(from)));
        }
    }

    /// Something for a client in its place behind all that is written by now.
    pub(super) fn here(&self, message: Outbound) -> Outbound {
        message.behind(Some((self.id.clone(), self.lease.head)))
    }

    pub(super) fn answer_request(&self, request: &Id, outcome: Result<&Json, &RpcError>) {
        if let AgentSlot::Bound(bound) = &self.agent.slot {
            let _ = bound.agent.peer.answer(request, outcome);
        } else if let AgentSlot::Opening(opening) = &self.agent.slot {
            let _ = opening.agent.peer.answer(request, outcome);
        }
    }

    /// A client has something for the agent.
    pub(super) async fn relay_to_agent(&mut self, method: String, params: Json, reply: Option<Reply>) {
        let AgentSlot::Bound(bound) = &self.agent.slot else {
            self.postpone(Message::Relay { method, params, reply });
            return self.need_agent().await;
        };
        let params = with_text(&params, "sessionId", &bound.native);
        match reply {
            None => {
                let _ = bound.agent.peer.notify(&method, &params);
            }
            Some(reply) => self.ask_agent(&method, &params, reply, PendingAnswer::Relay),
        }
    }

    fn ask_agent(&mut self, method: &str, params: &Json, reply: Reply, waiting: fn(Reply) -> PendingAnswer) {
        let AgentSlot::Bound(bound) = &self.agent.slot else { return };
        match bound.agent.peer.request(method, params, &self.agent.route) {
            Ok(request) => {
                self.agent.waiting.insert(request, waiting(reply));
            }
            Err(error) => reply.refuse(RpcError::internal(error.to_string())),
        }
    }

    /// Cancelling one tool call or terminal is for agents that offer it; version 1 has no such thing.
    pub(super) fn cancel_thing(
        &mut self,
        method: &'static str,
        field: &'static str,
        id: String,
        reply: Reply,
    ) {
        if self.services.local.cancel(&id) {
            return reply.send(self.lease.head, Ok(json!({}).into()));
        }
        let refused = || {
            RpcError::field(field, &json!(id), "something that runs and can be cancelled")
                .hint("cancel the whole turn with session/cancel")
        };
        match &self.agent.slot {
            AgentSlot::Bound(bound) if bound.translator.dialect().cancels_parts == CancelParts::ByRequest => {
                let native = bound.translator.native_id(&id);
                let params: Fields = [("sessionId", Json::of(&bound.native)), (field, Json::of(&native))]
                    .into_iter()
                    .collect();
                self.ask_agent(method, &params.json(), reply, PendingAnswer::CancelThing);
            }
            AgentSlot::Bound(_)
            | AgentSlot::Empty
            | AgentSlot::Starting
            | AgentSlot::Opening(_)
            | AgentSlot::Stopping(_) => {
                reply.refuse(refused());
            }
        }
    }
}

fn with_text(params: &Json, member: &str, text: &str) -> Json {
    let mut fields = params.fields();
    fields.set(member, Json::of(text));
    fields.json()
}

/// What a client's terminal shows, as an update about a terminal of the agent's.
fn screenful(terminal: &str, command: &str, output: &Fields) -> Update {
    let text = output.text("output").unwrap_or_default();
    let mut body: Fields = [
        ("sessionUpdate", Json::of("terminal_update")),
        ("terminalId", Json::of(terminal)),
        ("command", Json::of(command)),
        ("output", json!({"data": STANDARD.encode(text)}).into()),
    ]
    .into_iter()
    .collect();
    if let Some(status) = output.get("exitStatus").filter(|status| !status.is_null()) {
        body.set("exitStatus", status.clone());
    }
    Update { kind: UpdateKind::TerminalUpdate, id: terminal.to_owned(), body: body.json() }
}
