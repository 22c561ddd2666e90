//! What a user of the client implements: it receives the events of sessions, and the questions and requests of the agent.

use rethread_core::{Json, QuestionId, QuestionKind, SessionId};
use serde_json::json;

use super::SessionEvent;
use super::session_task::SessionLink;
use crate::agent::peer::AgentPeer;
use crate::edge::agent_translator::outgoing::cancelled_answer;
use crate::wire::{Id, RpcError};

/// Receives what an agent sends. The events of a session arrive in order; the next one follows when the call returns, so
/// a handler that waits slows the agent down. The future of a call of the client completes after the events before its
/// answer were handled, so a handler must not wait for one.
pub trait ClientHandler: Send + Sync + 'static {
    /// Something happened in a session.
    fn event(&self, session: &SessionId, event: &SessionEvent) -> impl Future<Output = ()> + Send;

    /// The agent asks the user. Keep the question, and answer it later; a dropped question is cancelled. The event
    /// [`SessionEvent::Asked`] came before.
    fn question(&self, question: AskedQuestion) -> impl Future<Output = ()> + Send;

    /// The agent requests something else, such as a file or a terminal. A dropped request is refused.
    fn request(&self, request: AgentRequest) -> impl Future<Output = ()> + Send {
        drop(request);
        std::future::ready(())
    }

    /// The agent sent a notification that is not about the conversation.
    fn notification(
        &self,
        session: Option<&SessionId>,
        method: &str,
        params: &Json,
    ) -> impl Future<Output = ()> + Send {
        let _ = (session, method, params);
        std::future::ready(())
    }

    /// The agent has ended, for this reason.
    fn ended(&self, reason: &str) -> impl Future<Output = ()> + Send {
        let _ = reason;
        std::future::ready(())
    }
}

/// A question of the agent that is not answered.
pub struct AskedQuestion {
    /// Its session.
    pub session: SessionId,
    /// Its id.
    pub id: QuestionId,
    /// A permission or an elicitation.
    pub kind: QuestionKind,
    /// The question in canonical form.
    pub body: Json,
    pub(super) link: Option<SessionLink>,
}

impl AskedQuestion {
    /// Selects an offered option of a permission question.
    pub async fn select(self, option: &str) {
        let answer = json!({"outcome": {"outcome": "selected", "optionId": option}});
        self.answer(&answer.into()).await;
    }

    /// Answers nothing: no permission is given, an elicitation is cancelled.
    pub async fn cancel(self) {
        let answer = cancelled_answer(self.kind);
        self.answer(&answer).await;
    }

    /// Answers in canonical form. Nothing happens if the question is no longer open.
    pub async fn answer(mut self, answer: &Json) {
        if let Some(link) = self.link.take() {
            link.answer(&self.id, self.kind, answer).await;
        }
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.answer_now(&self.id, self.kind, &cancelled_answer(self.kind));
        }
    }
}

/// A request of the agent that is not answered.
pub struct AgentRequest {
    /// Its session, if it is about one.
    pub session: Option<SessionId>,
    /// The method.
    pub method: String,
    /// The parameters.
    pub params: Json,
    pub(super) reply: Option<(AgentPeer, Id)>,
}

impl AgentRequest {
    /// Answers the request.
    pub fn answer(mut self, outcome: Result<&Json, &RpcError>) {
        if let Some((peer, id)) = self.reply.take() {
            // An agent that has ended needs no answer.
            let _ = peer.answer(&id, outcome);
        }
    }
}

impl Drop for AgentRequest {
    fn drop(&mut self) {
        if let Some((peer, id)) = self.reply.take() {
            let _ = peer.answer(&id, Err(&RpcError::unknown_method(&self.method)));
        }
    }
}
