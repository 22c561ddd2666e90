//! Detaches a client from a live session when its connection ends or when it closes the session for itself, and ends a
//! session without clients unless it is kept.

use rethread_core::session::Phase;
use rethread_core::{Input, Json};
use serde_json::json;
use tokio::sync::oneshot;

use super::{LiveSession, PendingAnswer, WhenUnattended};
use crate::agent::pool::SharedHost;
use crate::client_id::{ClientId, ClientTag};
use crate::outbox::{Ephemeral, Outbound, Reply};
use crate::wire::RpcError;

impl LiveSession {
    /// The connection of a client has ended. Its prompts go on; nobody waits for them any more.
    pub(super) async fn detach(&mut self, client: ClientId, done: oneshot::Sender<()>) {
        self.clients.attached.detach(client);
        self.end_if_unattended().await;
        if !self.condition.ended {
            drop(self.clients.requests.take_client(client));
            drop(self.take_relayed_requests(client));
            drop(self.clients.postponed.take_client(client));
            self.client_gone(client).await;
        }
        let _ = done.send(());
    }

    /// A session that nobody follows ends, unless it is kept.
    pub(super) async fn end_if_unattended(&mut self) {
        let ends = self.clients.attached.is_empty() && self.deps.when_unattended == WhenUnattended::End;
        if ends && !self.clients.requests.is_closing() {
            self.end_session("the client disconnected".to_owned()).await;
        }
    }

    /// One of several clients closes the session: it leaves, and the others go on. What it waits for is answered.
    pub(super) async fn leave(&mut self, reply: Reply) {
        let client = reply.client;
        self.clients.attached.detach(client);
        self.withdraw_held(client).await;
        let (prompts, others) = self.clients.requests.take_client(client);
        let head = self.lease.head;
        for prompt in prompts {
            let outcome = if prompt.waits_for_end() { Ok(detached()) } else { Err(RpcError::cancelled()) };
            prompt.send(head, outcome);
        }
        let relayed = self.take_relayed_requests(client);
        for open in others.into_iter().chain(relayed).chain(self.clients.postponed.take_client(client)) {
            open.send(head, Err(RpcError::cancelled()));
        }
        self.client_gone(client).await;
        reply.leave(self.lease.head);
        reply.send(self.lease.head, Ok(json!({}).into()));
    }

    async fn withdraw_held(&mut self, client: ClientId) {
        let held =
            |message: &_| self.session.prompt(message).is_some_and(|prompt| prompt.phase == Phase::Held);
        let messages = self.clients.requests.prompts_of(client).into_iter().filter(held);
        let inputs: Vec<_> = messages.map(|message| Input::Withdraw { message }).collect();
        self.step(inputs).await;
    }

    /// Takes the requests of a client that the agent works on and that are no prompts.
    fn take_relayed_requests(&mut self, client: ClientId) -> Vec<Reply> {
        let is = |_: &u64, waiting: &mut PendingAnswer| match waiting {
            PendingAnswer::Relay(reply) | PendingAnswer::CancelThing(reply) => reply.client == client,
            PendingAnswer::Open | PendingAnswer::Prompt(_) | PendingAnswer::Option { .. } => false,
        };
        let taken: Vec<_> = self.agent.waiting.extract_if(is).map(|(_, waiting)| waiting).collect();
        let reply = |waiting| match waiting {
            PendingAnswer::Relay(reply) | PendingAnswer::CancelThing(reply) => Some(reply),
            PendingAnswer::Open | PendingAnswer::Prompt(_) | PendingAnswer::Option { .. } => None,
        };
        taken.into_iter().filter_map(reply).collect()
    }

    /// What a client did for the agent, and the questions that it was asked, are left to the others.
    async fn client_gone(&mut self, client: ClientId) {
        self.relays_of_gone_client(client).await;
        self.settle_declined().await;
        self.close_if_asked().await;
    }

    /// Sends the other clients a notice that says who ended the session.
    pub(super) fn announce_end(&self, reason: &str, by: Option<&ClientTag>) {
        let Some(by) = by else { return };
        let notice: Json = json!({
            "sessionUpdate": "notice", "severity": "warning", "title": format!("Session ended: {reason}"),
            "description": format!("{} ended it for all clients.", by.display_name()),
            "_meta": {"rethread": {"client": by.json().value()}},
        })
        .into();
        self.notify_others(by.id, &notice);
    }

    /// Another process asks for the session. It gets it if nothing is under way and nobody is waited for.
    pub(super) async fn release_asked(&mut self) {
        let busy = !self.session.is_idle() || !self.session.questions.is_empty();
        if busy || self.condition.ended || self.condition.broken.is_some() {
            if let Err(error) = self.deps.store.decline_release(&self.id).await {
                tracing::warn!(session = %self.id, "{}", crate::wire::with_causes(&error));
            }
            return;
        }
        let notice: Json = json!({
            "sessionUpdate": "notice", "severity": "warning", "title": "Session released",
            "description": "Another process asked for this session. Load it again to continue it here.",
        })
        .into();
        let message = || Outbound::Ephemeral(self.id.clone(), Ephemeral::Notice(notice.clone()));
        self.clients.attached.offer_others(None, message);
        self.end_session("the session was released for another process".to_owned()).await;
    }

    /// A client has changed an agent process. Its other clients are shown the notice, if the session uses that process.
    pub(super) fn host_changed(&self, host: &SharedHost, by: ClientId, notice: &Json) {
        if self.agent.host.is_same(host) {
            self.notify_others(by, notice);
        }
    }

    fn notify_others(&self, by: ClientId, notice: &Json) {
        let message = || Outbound::Ephemeral(self.id.clone(), Ephemeral::Notice(notice.clone()));
        self.clients.attached.offer_others(Some(by), message);
    }
}

/// The answer to a version 1 prompt whose client leaves while its turn goes on.
fn detached() -> Json {
    json!({"stopReason": "cancelled", "_meta": {"rethread": {"detached": true}}}).into()
}
