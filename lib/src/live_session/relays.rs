//! The requests of the agent that clients work on, and the terminals that clients run for it. The agent gets our own
//! terminal ids, because two clients may use the same id. A terminal whose client has left counts as ended with its last
//! output.

use std::collections::{BTreeMap, HashMap};

use rethread_core::{Fields, Json};
use serde_json::json;

use crate::client_id::ClientId;
use crate::wire::{Id, RpcError};

/// The relayed requests and the clients' terminals.
#[derive(Default)]
pub(super) struct Relays {
    open: HashMap<Id, OpenRelay>,
    terminals: BTreeMap<String, ClientTerminal>,
    /// Counts our own requests for output.
    fetches: u64,
}

/// A request that a client works on.
struct OpenRelay {
    client: ClientId,
    purpose: Purpose,
}

/// What a relayed request is for.
pub(super) enum Purpose {
    /// Its answer goes to the agent as it is.
    Plain,
    /// It makes a terminal that runs this command.
    Create {
        /// The command.
        command: String,
    },
    /// It is about a terminal, by our id.
    OfTerminal {
        /// Our id.
        terminal: String,
        /// The method.
        method: String,
    },
    /// It is ours: the output of a terminal for the journal, perhaps before the release that the agent asked for.
    Fetch {
        /// Our id.
        terminal: String,
        /// The agent's request to release it, and its parameters.
        then_release: Option<(Id, Json)>,
    },
}

/// A terminal that a client runs.
struct ClientTerminal {
    client: ClientId,
    /// The client's id for it.
    theirs: String,
    command: String,
    /// The last answer to `terminal/output`.
    last: Option<Json>,
    life: Life,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    /// Its client has left.
    Ended,
}

/// Where a request about a terminal goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TerminalRoute {
    /// To its client, which has this id for it.
    Client(ClientId, String),
    /// Nowhere: its client has left, and this is the answer.
    Ended(Json),
}

/// What is left to do when a client has left.
#[derive(Default)]
pub(super) struct LeftBehind {
    /// Answers for the agent.
    pub(super) answers: Vec<(Id, Result<Json, RpcError>)>,
    /// The terminals that ended, with their commands and their last output.
    pub(super) ended: Vec<(String, String, Fields)>,
}

impl Relays {
    /// A request was given to a client.
    pub(super) fn add(&mut self, request: Id, client: ClientId, purpose: Purpose) {
        self.open.insert(request, OpenRelay { client, purpose });
    }

    /// The client that works on a request.
    pub(super) fn client_of(&self, request: &Id) -> Option<ClientId> {
        self.open.get(request).map(|relay| relay.client)
    }

    /// A client answered. Gives what the request was for, unless it was given to another client or is not open.
    pub(super) fn answered(&mut self, client: ClientId, request: &Id) -> Option<Purpose> {
        if self.client_of(request)? != client {
            return None;
        }
        self.open.remove(request).map(|relay| relay.purpose)
    }

    /// A request that was not taken.
    pub(super) fn remove(&mut self, request: &Id) -> Option<Purpose> {
        self.open.remove(request).map(|relay| relay.purpose)
    }

    /// A client has made a terminal. `ours` is a new id.
    pub(super) fn terminal_made(&mut self, client: ClientId, ours: String, theirs: String, command: String) {
        let terminal = ClientTerminal { client, theirs, command, last: None, life: Life::Running };
        self.terminals.insert(ours, terminal);
    }

    /// Where a request about a terminal goes; nothing if no client made such a terminal.
    pub(super) fn route(&self, terminal: &str, method: &str) -> Option<TerminalRoute> {
        let known = self.terminals.get(terminal)?;
        Some(match known.life {
            Life::Running => TerminalRoute::Client(known.client, known.theirs.clone()),
            Life::Ended => TerminalRoute::Ended(ended_answer(method, known.last.as_ref())),
        })
    }

    /// The terminals that run, with their clients and the clients' ids.
    pub(super) fn running(&self) -> Vec<(String, ClientId, String)> {
        let runs = self.terminals.iter().filter(|(_, terminal)| terminal.life == Life::Running);
        runs.map(|(ours, terminal)| (ours.clone(), terminal.client, terminal.theirs.clone())).collect()
    }

    /// An id for a request of our own.
    pub(super) fn next_fetch(&mut self) -> Id {
        self.fetches += 1;
        Id::own(&format!("output-{}", self.fetches))
    }

    /// The output of a terminal was fetched. Gives its command.
    pub(super) fn fetched(&mut self, terminal: &str, output: &Json) -> Option<String> {
        let known = self.terminals.get_mut(terminal)?;
        known.last = Some(output.clone());
        Some(known.command.clone())
    }

    /// A terminal was released.
    pub(super) fn released(&mut self, terminal: &str) {
        self.terminals.remove(terminal);
    }

    /// The agent is gone: nobody needs any of this.
    pub(super) fn clear(&mut self) {
        *self = Self { fetches: self.fetches, ..Self::default() };
    }

    /// A client has left: its terminals count as ended, and what it was asked is answered in its place.
    pub(super) fn client_left(&mut self, client: ClientId) -> LeftBehind {
        let mut left = LeftBehind::default();
        for (ours, terminal) in &mut self.terminals {
            if terminal.client == client && terminal.life == Life::Running {
                terminal.life = Life::Ended;
                let last = terminal.last.as_ref().map(Json::fields).unwrap_or_default();
                left.ended.push((ours.clone(), terminal.command.clone(), last));
            }
        }
        let open: Vec<_> = self.open.extract_if(|_, relay| relay.client == client).collect();
        for (request, relay) in open {
            left.answers.extend(self.answer_for_left(request, relay.purpose));
        }
        left
    }

    fn answer_for_left(&mut self, request: Id, purpose: Purpose) -> Option<(Id, Result<Json, RpcError>)> {
        let gone = || RpcError::internal("the client disconnected before it answered");
        match purpose {
            Purpose::Plain | Purpose::Create { .. } => Some((request, Err(gone()))),
            Purpose::OfTerminal { terminal, method } => {
                let last = self.terminals.get(&terminal).and_then(|known| known.last.as_ref());
                Some((request, Ok(ended_answer(&method, last))))
            }
            Purpose::Fetch { terminal, then_release } => {
                let (release, _) = then_release?;
                self.terminals.remove(&terminal);
                Some((release, Ok(json!({}).into())))
            }
        }
    }
}

/// What an agent is answered about a terminal whose client has left.
fn ended_answer(method: &str, last: Option<&Json>) -> Json {
    let status = json!({"exitCode": null, "signal": null});
    match method {
        "terminal/output" => {
            let mut answer = last.map(Json::fields).unwrap_or_default();
            if answer.get("output").is_none() {
                answer.set("output", json!("").into());
                answer.set("truncated", json!(false).into());
            }
            if answer.get("exitStatus").is_none_or(Json::is_null) {
                answer.set("exitStatus", status.into());
            }
            answer.json()
        }
        "terminal/wait_for_exit" => {
            let known = last.and_then(|last| last.fields().take("exitStatus"));
            known.filter(|known| !known.is_null()).unwrap_or_else(|| status.into())
        }
        _ => json!({}).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_whose_client_left_counts_as_ended_with_its_last_output() {
        let (mut relays, client, other) = (Relays::default(), ClientId::next(), ClientId::next());
        relays.terminal_made(client, "ours".to_owned(), "t1".to_owned(), "make".to_owned());
        relays.terminal_made(other, "theirs".to_owned(), "t1".to_owned(), "ls".to_owned());
        let route = relays.route("ours", "terminal/output");
        assert_eq!(route, Some(TerminalRoute::Client(client, "t1".to_owned())));
        relays.fetched("ours", &json!({"output": "half", "truncated": false}).into());
        let of =
            |method: &str| Purpose::OfTerminal { terminal: "ours".to_owned(), method: method.to_owned() };
        relays.add(Id::number(1), client, of("terminal/wait_for_exit"));
        relays.add(Id::number(2), client, Purpose::Plain);
        relays.add(Id::number(3), other, Purpose::Plain);
        let left = relays.client_left(client);
        assert_eq!(left.ended.len(), 1);
        let mut answers: Vec<_> =
            left.answers.iter().map(|(id, answer)| (id.text(), answer.is_ok())).collect();
        answers.sort_unstable();
        assert_eq!(answers, [("1", true), ("2", false)]);
        let Some(TerminalRoute::Ended(answer)) = relays.route("ours", "terminal/output") else {
            panic!("it has ended")
        };
        assert_eq!(
            answer.text(),
            r#"{"output":"half","truncated":false,"exitStatus":{"exitCode":null,"signal":null}}"#
        );
        assert!(matches!(relays.route("theirs", "terminal/kill"), Some(TerminalRoute::Client(..))));
        assert!(relays.client_left(client).ended.is_empty(), "once");
    }

    #[test]
    fn only_the_client_that_was_asked_can_answer() {
        let (mut relays, client, other) = (Relays::default(), ClientId::next(), ClientId::next());
        relays.add(Id::number(1), client, Purpose::Plain);
        assert!(relays.answered(other, &Id::number(1)).is_none());
        assert!(relays.answered(client, &Id::number(1)).is_some());
        assert!(relays.answered(client, &Id::number(1)).is_none(), "once");
    }
}
