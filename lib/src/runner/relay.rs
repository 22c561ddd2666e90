//! What only a client can do for an agent, and what only an agent can do for a client: files, terminals and
//! extensions. Relayed with the session id translated, not journalled; but the output of a client's terminals
//! is fetched before it is gone, so that a replay need not refer to what no longer exists. Where the client has
//! no such methods, `hosted` takes the client's place.

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rethread_core::{Fields, Input, Json, Update, UpdateKind};
use serde_json::json;

use super::{Handle, Message, Runner, Seat, Waiting};
use crate::edge::Version;
use crate::outbox::{Origin, Outbound, Relayed, Reply};
use crate::wire::{Id, RpcError};

/// The client's terminals that the agent uses, and the requests about them under way.
#[derive(Default)]
pub(super) struct Terminals {
    /// Their commands by id.
    open: BTreeMap<String, String>,
    /// Requests that make one, with the command.
    creating: HashMap<Id, String>,
    /// Our own requests for output, each perhaps before the release that the agent asked for.
    fetching: HashMap<Id, Fetch>,
    next: u64,
}

struct Fetch {
    terminal: String,
    then_release: Option<(Id, Json)>,
}

impl Terminals {
    pub(super) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }
}

impl Runner {
    /// The agent has something for the client.
    pub(super) fn relay_to_client(&mut self, request: Option<Id>, method: &str, params: &Json) {
        let params = with_session(params, self.id.as_str());
        self.forget_gone_clients();
        let Some(request) = request else {
            self.notify_clients(method, &params);
            return;
        };
        if self.hosts(method, &params) {
            return self.host(request, method, &params);
        }
        match method {
            "terminal/create" => {
                let command = params.fields().text("command").unwrap_or_default();
                self.terminals.creating.insert(request.clone(), command);
            }
            "terminal/release" => {
                let terminal = params.fields().text("terminalId").unwrap_or_default();
                if self.terminals.open.contains_key(&terminal) {
                    self.fetch_output(terminal, Some((request, params)));
                    return;
                }
            }
            _ => {}
        }
        self.send_relay(request, method.to_owned(), params);
    }

    /// The client answered what was relayed to it.
    pub(super) async fn relayed(&mut self, request: Id, outcome: Result<Json, RpcError>) {
        if let Some(fetch) = self.terminals.fetching.remove(&request) {
            return self.output_fetched(fetch, outcome).await;
        }
        if let Some(command) = self.terminals.creating.remove(&request)
            && let Some(id) = outcome.as_ref().ok().and_then(|made| made.fields().text("terminalId"))
        {
            self.terminals.open.insert(id, command);
        }
        self.answer_request(&request, outcome.as_ref());
    }

    /// Fetches what the client's terminals show by now, for the journal.
    pub(super) fn fetch_outputs(&mut self) {
        for terminal in self.terminals.open.keys().cloned().collect::<Vec<_>>() {
            self.fetch_output(terminal, None);
        }
    }

    fn fetch_output(&mut self, terminal: String, then_release: Option<(Id, Json)>) {
        self.terminals.next += 1;
        let id = Id::own(&format!("output-{}", self.terminals.next));
        let params = json!({"sessionId": self.id, "terminalId": terminal});
        self.terminals.fetching.insert(id.clone(), Fetch { terminal, then_release });
        self.send_relay(id, "terminal/output".to_owned(), params.into());
    }

    async fn output_fetched(&mut self, fetch: Fetch, outcome: Result<Json, RpcError>) {
        if let Ok(output) = &outcome {
            let command = self.terminals.open.get(&fetch.terminal).cloned().unwrap_or_default();
            let terminal = match &self.seat {
                Seat::Bound(bound) => bound.link.public_id(&fetch.terminal),
                Seat::Empty | Seat::Starting | Seat::Opening(_) | Seat::Stopping(_) => fetch.terminal.clone(),
            };
            let update = screenful(&terminal, &command, &output.fields());
            self.step(vec![Input::Updated { update, known: true }]).await;
        }
        if let Some((request, params)) = fetch.then_release {
            self.terminals.open.remove(&fetch.terminal);
            self.send_relay(request, "terminal/release".to_owned(), params);
        }
    }

    fn send_relay(&mut self, request: Id, method: String, params: Json) {
        let handle = Handle { id: self.id.clone(), live: self.live.clone(), inbox: self.own.clone() };
        let from = Relayed { request: request.clone(), origin: Origin::Session(handle) };
        let message = self.here(Outbound::Relay { from, method, params });
        self.forget_gone_clients();
        let sent = match self.clients.last() {
            Some(client) => client.outbox.offer(message).is_ok(),
            None => false,
        };
        if !sent {
            let error = RpcError::internal("no client is connected that could answer");
            self.answer_request(&request, Err(&error));
        }
    }

    fn notify_clients(&mut self, method: &str, params: &Json) {
        for client in &self.clients {
            let message = self.here(Outbound::Notify { method: method.to_owned(), params: params.clone() });
            if client.outbox.offer(message).is_err() {
                self.around.log.line("skipped a notification for a client that does not read");
            }
        }
    }

    fn forget_gone_clients(&mut self) {
        self.clients.retain(|client| !client.outbox.is_closed());
    }

    pub(super) fn unrelay(&mut self, request: &Id) {
        if self.unhost(request) {
            return;
        }
        if let Some(client) = self.clients.last() {
            let _ = client.outbox.offer(self.here(Outbound::Unrelay(request.clone())));
        }
    }

    /// Something for a client in its place behind all that is written by now.
    fn here(&self, message: Outbound) -> Outbound {
        message.behind(Some((self.id.clone(), self.lease.head)))
    }

    pub(super) fn answer_request(&self, request: &Id, outcome: Result<&Json, &RpcError>) {
        if let Seat::Bound(bound) = &self.seat {
            let _ = bound.agent.peer.answer(request, outcome);
        } else if let Seat::Opening(opening) = &self.seat {
            let _ = opening.agent.peer.answer(request, outcome);
        }
    }

    /// A client has something for the agent.
    pub(super) async fn relay_to_agent(&mut self, method: String, params: Json, reply: Option<Reply>) {
        let Seat::Bound(bound) = &self.seat else {
            self.postpone(Message::Relay { method, params, reply });
            return self.need_agent().await;
        };
        let params = with_session(&params, &bound.native);
        match reply {
            None => {
                let _ = bound.agent.peer.notify(&method, &params);
            }
            Some(reply) => self.ask_agent(&method, &params, reply, Waiting::Relay),
        }
    }

    fn ask_agent(&mut self, method: &str, params: &Json, reply: Reply, waiting: fn(Reply) -> Waiting) {
        let Seat::Bound(bound) = &self.seat else { return };
        match bound.agent.peer.request(method, params, &self.agent_route) {
            Ok(request) => {
                self.waiting.insert(request, waiting(reply));
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
        let Some(reply) = self.cancel_hosted(&id, reply) else { return };
        let refused = || {
            RpcError::field(field, &json!(id), "something that runs and can be cancelled")
                .hint("cancel the whole turn with session/cancel")
        };
        match &self.seat {
            Seat::Bound(bound) if bound.link.version() == Version::V2 => {
                let native = bound.link.native_id(&id);
                let params: Fields = [("sessionId", Json::of(&bound.native)), (field, Json::of(&native))]
                    .into_iter()
                    .collect();
                self.ask_agent(method, &params.json(), reply, Waiting::CancelThing);
            }
            Seat::Bound(_) | Seat::Empty | Seat::Starting | Seat::Opening(_) | Seat::Stopping(_) => {
                reply.refuse(refused());
            }
        }
    }
}

fn with_session(params: &Json, session: &str) -> Json {
    let mut fields = params.fields();
    fields.set("sessionId", Json::of(session));
    fields.json()
}

/// What a client's terminal shows, as the agent's terminals are told of.
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
