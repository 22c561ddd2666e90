//! The clients of one agent process. A message of the agent that belongs to no session goes to all of them if it is a
//! notification and to one of them if it is a request. A login or logout by one client is reported to the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::peer::{AgentPeer, SessionlessMessage};
use crate::client_id::{ClientId, ClientTag};
use crate::lock::locked;

/// The clients of one agent, the newest last.
#[derive(Clone, Default)]
pub struct ProcessClients {
    state: Arc<Mutex<ClientState>>,
}

#[derive(Default)]
struct ClientState {
    clients: Vec<(ClientId, mpsc::Sender<ProcessMessage>)>,
    /// The clients whose requests the agent is working on, by our request numbers.
    calls: HashMap<u64, ClientId>,
}

/// What a client is sent because it uses an agent process.
pub enum ProcessMessage {
    /// A message of the agent that belongs to no session.
    FromAgent(SessionlessMessage),
    /// Another client has logged the agent in or out.
    LoginChanged(LoginChange),
}

/// A login or logout, which affects all clients of the process.
#[derive(Clone, Debug)]
pub struct LoginChange {
    /// The client that did it.
    pub by: ClientTag,
    /// What it did.
    pub login: LoginState,
}

/// Whether an agent was logged in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginState {
    /// Logged in.
    In,
    /// Logged out.
    Out,
}

/// What a message without a session expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// No answer: every client gets it.
    Nothing,
    /// One answer. The number is that of the request of ours that it is about, if it names one.
    Answer(Option<u64>),
}

/// No client takes the message.
#[derive(Debug)]
pub struct NoTaker;

impl ProcessClients {
    /// Adds a client, which counts as the newest.
    pub fn add(&self, client: ClientId, messages: mpsc::Sender<ProcessMessage>) {
        let mut state = locked(&self.state);
        state.clients.retain(|(known, _)| *known != client);
        state.clients.push((client, messages));
    }

    /// Removes a client.
    pub fn remove(&self, client: ClientId) {
        locked(&self.state).clients.retain(|(known, _)| *known != client);
    }

    /// Notes that the agent works on a request of this client until the guard is dropped.
    #[must_use]
    pub fn call(&self, request: u64, client: ClientId) -> OpenCall {
        locked(&self.state).calls.insert(request, client);
        OpenCall { clients: self.clone(), request }
    }

    /// Hands a message to whoever should have it. Never waits.
    pub fn deliver(&self, line: &Bytes, peer: &AgentPeer, expects: Expects) -> Result<(), NoTaker> {
        let takers = locked(&self.state).takers(expects);
        let message =
            || ProcessMessage::FromAgent(SessionlessMessage { line: line.clone(), peer: peer.clone() });
        let taken = takers.iter().filter(|taker| taker.try_send(message()).is_ok()).count();
        if taken > 0 { Ok(()) } else { Err(NoTaker) }
    }

    /// Reports a login or logout to all clients but the one that did it. Never waits.
    pub fn report_login(&self, change: &LoginChange) {
        for (client, messages) in &locked(&self.state).clients {
            if *client != change.by.id
                && messages.try_send(ProcessMessage::LoginChanged(change.clone())).is_err()
            {
                tracing::warn!("skipped a report of a login for a client that does not read");
            }
        }
    }
}

impl ClientState {
    fn takers(&self, expects: Expects) -> Vec<mpsc::Sender<ProcessMessage>> {
        match expects {
            Expects::Nothing => self.clients.iter().map(|(_, messages)| messages.clone()).collect(),
            Expects::Answer(about) => self.answerer(about).into_iter().collect(),
        }
    }

    /// The client whose request the message is about, else the newest one that has a request open, else the newest.
    fn answerer(&self, about: Option<u64>) -> Option<mpsc::Sender<ProcessMessage>> {
        let named = about.and_then(|request| self.calls.get(&request));
        let has_call = |client: &ClientId| self.calls.values().any(|caller| caller == client);
        let newest_caller = self.clients.iter().rev().find(|(client, _)| has_call(client));
        let by_name = named.and_then(|named| self.clients.iter().find(|(client, _)| client == named));
        by_name.or(newest_caller).or(self.clients.last()).map(|(_, messages)| messages.clone())
    }
}

/// A client's request that the agent works on.
pub struct OpenCall {
    clients: ProcessClients,
    request: u64,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        locked(&self.clients.state).calls.remove(&self.request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds clients, each with room for one message, and says which of them a request reaches.
    fn reached(
        clients: &ProcessClients,
        lines: &mut [mpsc::Receiver<ProcessMessage>],
        expects: Expects,
    ) -> Vec<usize> {
        let (peer, _wire) = AgentPeer::for_tests();
        let _ = clients.deliver(&Bytes::from_static(b"{}"), &peer, expects);
        (0..lines.len()).filter(|at| lines[*at].try_recv().is_ok()).collect()
    }

    #[tokio::test]
    async fn a_request_goes_to_one_client_and_a_notification_to_all() {
        let clients = ProcessClients::default();
        let ids: Vec<_> = (0..3).map(|_| ClientId::next()).collect();
        let mut lines = Vec::new();
        for id in &ids {
            let (messages, line) = mpsc::channel(1);
            clients.add(*id, messages);
            lines.push(line);
        }
        assert_eq!(reached(&clients, &mut lines, Expects::Nothing), [0, 1, 2]);
        assert_eq!(reached(&clients, &mut lines, Expects::Answer(None)), [2], "the newest");
        let first = clients.call(7, ids[0]);
        let second = clients.call(8, ids[1]);
        assert_eq!(reached(&clients, &mut lines, Expects::Answer(Some(7))), [0], "whose request it is about");
        assert_eq!(
            reached(&clients, &mut lines, Expects::Answer(None)),
            [1],
            "the newest with a request open"
        );
        drop((first, second));
        clients.remove(ids[2]);
        assert_eq!(reached(&clients, &mut lines, Expects::Answer(Some(7))), [1], "the newest that is left");
        ids.iter().for_each(|id| clients.remove(*id));
        assert!(reached(&clients, &mut lines, Expects::Answer(None)).is_empty());
    }
}
