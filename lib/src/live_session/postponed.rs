//! Keeps requests and notifications of clients, other than prompts, until the agent is ready. Bounded.

use super::{LiveSession, Message, client_requests};
use crate::client_id::ClientId;
use crate::outbox::Reply;
use crate::wire::RpcError;

/// How many messages may wait for the agent.
const MOST: usize = 256;
/// How many bytes of parameters may wait with them.
const BYTES: usize = 4 * 1024 * 1024;

/// Messages that wait for the agent.
#[derive(Default)]
pub(super) struct Postponed {
    messages: Vec<Message>,
    bytes: usize,
}

impl Postponed {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn take(&mut self) -> Vec<Message> {
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }

    /// Takes what a client waits for; its notifications stay.
    pub(super) fn take_client(&mut self, client: ClientId) -> Vec<Reply> {
        let is = |message: &mut Message| client_requests::waiting_client(message) == Some(client);
        let taken: Vec<_> = self.messages.extract_if(.., is).collect();
        self.bytes -= taken.iter().map(weight).sum::<usize>();
        taken.into_iter().filter_map(client_requests::reply_of).collect()
    }

    /// Keeps a message; gives it back if there is no room.
    fn keep(&mut self, message: Message) -> Option<Message> {
        let weight = weight(&message);
        if self.messages.len() >= MOST || self.bytes + weight > BYTES {
            return Some(message);
        }
        self.bytes += weight;
        self.messages.push(message);
        None
    }
}

/// How many bytes of parameters a message has.
fn weight(message: &Message) -> usize {
    match message {
        Message::Relay { params, .. } => params.text().len(),
        Message::SetOption { value, .. } => value.text().len(),
        Message::Attach { .. }
        | Message::Observe { .. }
        | Message::Detach { .. }
        | Message::NotFollowed
        | Message::Prompt { .. }
        | Message::Cancel
        | Message::Withdraw(..)
        | Message::SetTitle(..)
        | Message::Answer(..)
        | Message::CancelThing { .. }
        | Message::Relayed(..)
        | Message::Service(_)
        | Message::Close(_)
        | Message::Status(_)
        | Message::End { .. }
        | Message::HostChanged { .. }
        | Message::EpochSeen(_)
        | Message::ReleaseAsked
        | Message::ForkState(_)
        | Message::AgentHost(_)
        | Message::AgentUp(_)
        | Message::PastRead(..) => 0,
    }
}

impl LiveSession {
    /// Keeps a message until the agent is there. If too much waits, a request is refused and a notification skipped.
    pub(super) fn postpone(&mut self, message: Message) {
        let Some(message) = self.clients.postponed.keep(message) else { return };
        match client_requests::reply_of(message) {
            Some(reply) => reply.refuse(
                RpcError::internal("too much waits for the agent, which is not ready")
                    .hint("try again when the agent has answered"),
            ),
            None => tracing::warn!("skipped a notification: too many messages wait for the agent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::Json;

    use super::*;

    fn notification(bytes: usize) -> Message {
        let params = Json::of(&"x".repeat(bytes));
        Message::Relay { method: "_test/told".to_owned(), params, reply: None }
    }

    #[test]
    fn what_waits_for_the_agent_is_bounded() {
        let mut postponed = Postponed::default();
        let kept = (0..10 * MOST).filter(|_| postponed.keep(notification(1)).is_none()).count();
        assert_eq!(kept, MOST);
        assert_eq!(postponed.take().len(), MOST);
        assert!(postponed.keep(notification(BYTES / 2)).is_none());
        assert!(postponed.keep(notification(BYTES / 2)).is_some(), "too many bytes");
        assert!(postponed.keep(notification(1)).is_none());
        assert_eq!(postponed.take().len(), 2);
        assert!(postponed.is_empty());
    }
}
