//! One open session at a client, and the calls about it. They are answered in order with the events of the session.

use std::sync::Arc;

use rethread_core::{Json, SessionId, Stop};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::error::ClientError;
use super::session_task::{SessionCall, SessionLink};
use crate::agent::peer::FromAgent;
use crate::edge::agent_translator::outgoing::check_content;
use crate::edge::capabilities::AgentProfile;
use crate::edge::dialect::CancelParts;
use crate::lock::locked;
use crate::wire::RpcError;

/// An open session. Clones are the same session. When the last one is dropped, its messages are no longer received; the
/// agent is not told, use [`ClientSession::close`] for that.
#[derive(Clone)]
pub struct ClientSession {
    id: SessionId,
    answer: Json,
    handle: Arc<SharedSession>,
}

/// What all clones of a session share.
pub(super) struct SharedSession {
    pub(super) link: SessionLink,
    pub(super) route: mpsc::Sender<FromAgent>,
    profile: Arc<AgentProfile>,
    pub(super) id: Option<SessionId>,
}

impl SharedSession {
    pub(super) fn new(
        link: SessionLink,
        route: mpsc::Sender<FromAgent>,
        profile: Arc<AgentProfile>,
        id: Option<SessionId>,
    ) -> Self {
        Self { link, route, profile, id }
    }
}

impl Drop for SharedSession {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.link.peer.remove_route(&id.0, &self.route);
        }
    }
}

impl ClientSession {
    pub(super) fn opened(handle: SharedSession, answer: Json) -> Result<Self, ClientError> {
        let Some(id) = handle.id.clone() else {
            let error = RpcError::internal("the agent gave its session no id");
            return Err(ClientError::Refused(error));
        };
        Ok(Self { id, answer, handle: Arc::new(handle) })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The answer that opened it, as the agent wrote it.
    #[must_use]
    pub fn open_answer(&self) -> &Json {
        &self.answer
    }

    /// Sends a text, and waits for the end of the turn.
    pub async fn prompt_text(&self, text: &str) -> Result<Stop, ClientError> {
        self.prompt(&json!([{"type": "text", "text": text}]).into()).await
    }

    /// Sends content blocks, and waits for the end of the turn. Refuses content that the agent does not accept.
    pub async fn prompt(&self, content: &Json) -> Result<Stop, ClientError> {
        check_content(&self.handle.profile, content)?;
        let link = &self.handle.link;
        let events = locked(&link.state).decoder.prompt_sent(content);
        for event in events {
            link.show(event).await;
        }
        let (turn, ended) = oneshot::channel();
        {
            let mut state = locked(&link.state);
            let params = state.decoder.translator().prompt(&self.id.0, content, None);
            let request = link.peer.request("session/prompt", &params, &self.handle.route)?;
            state.calls.insert(request, SessionCall::Prompt);
            state.turns.sent(request, turn);
        }
        ended.await.map_err(|_| ClientError::Ended("session/prompt".to_owned()))?
    }

    /// Cancels the turn. The prompt is still answered. Open questions are settled by whoever has to.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        let params = json!({"sessionId": self.id.0});
        self.handle.link.peer.notify("session/cancel", &params.into())?;
        self.handle.link.cancel_questions().await;
        Ok(())
    }

    /// Cancels one tool call of the running turn.
    pub async fn cancel_tool_call(&self, call: &str) -> Result<(), ClientError> {
        match self.handle.profile.version.agent_dialect().cancels_parts {
            CancelParts::Never => Err(ClientError::NotOffered("tool_call/cancel".to_owned())),
            CancelParts::ByRequest => {
                self.request("tool_call/cancel", json!({"toolCallId": call})).await.map(drop)
            }
        }
    }

    /// Sets an option to a string or a boolean.
    pub async fn set_option(&self, option: &str, value: &Json) -> Result<(), ClientError> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = locked(&self.handle.link.state);
            let translator = state.decoder.translator();
            if translator.options().current(option).is_none() {
                return Err(ClientError::NotOffered(format!("the option {option}")));
            }
            let (method, params) = translator.set_option(&self.id.0, option, value);
            let request = self.handle.link.peer.request(method, &params, &self.handle.route)?;
            let (option, value) = (option.to_owned(), value.clone());
            state.calls.insert(request, SessionCall::SetOption { option, value, answer });
        }
        answered.await.map_err(|_| ClientError::Ended("a change of an option".to_owned()))?.map(drop)
    }

    /// Sets the mode.
    pub async fn set_mode(&self, mode: &str) -> Result<(), ClientError> {
        self.set_by_category("mode", mode).await
    }

    /// Sets the model.
    pub async fn set_model(&self, model: &str) -> Result<(), ClientError> {
        self.set_by_category("model", model).await
    }

    /// Closes the session at the agent; its history stays. No more events of it are received.
    pub async fn close(&self) -> Result<(), ClientError> {
        if !self.handle.profile.has("close") {
            return Err(ClientError::NotOffered("session/close".to_owned()));
        }
        self.request("session/close", json!({})).await?;
        self.handle.link.peer.remove_route(&self.id.0, &self.handle.route);
        Ok(())
    }

    /// Sends any request about this session; `sessionId` is added to the parameters.
    pub async fn request(&self, method: &str, params: serde_json::Value) -> Result<Json, ClientError> {
        let mut params = Json::from(params).fields();
        params.set("sessionId", Json::of(&self.id.0));
        let (answer, answered) = oneshot::channel();
        {
            let mut state = locked(&self.handle.link.state);
            let request = self.handle.link.peer.request(method, &params.json(), &self.handle.route)?;
            state.calls.insert(request, SessionCall::Plain(answer));
        }
        answered.await.map_err(|_| ClientError::Ended(method.to_owned()))?
    }

    async fn set_by_category(&self, category: &str, value: &str) -> Result<(), ClientError> {
        let option = locked(&self.handle.link.state).decoder.translator().options().by_category(category);
        match option {
            Some(option) => self.set_option(&option, &Json::of(value)).await,
            None => Err(ClientError::NotOffered(format!("a choice of the {category}"))),
        }
    }
}
