//! One turn: the prompt, questions to the user, and cancellation. Updates are sent through its [`Emitter`].

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use rethread_core::Json;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::connection::RequestOutcome;
use super::emitter::Emitter;
use super::tool::Tool;
use crate::wire::{RpcError, code};

/// How long a cancel may arrive after the end of a question that it has ended.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

/// A running turn.
pub struct Turn {
    emitter: Emitter,
    content: Json,
    cancelled: watch::Receiver<bool>,
}

/// A permission question.
#[derive(Clone, Debug)]
pub struct Permission {
    /// The question in one line.
    pub title: String,
    /// A longer description.
    pub description: Option<String>,
    /// Members of the tool call to show with the question, such as `content` and `rawInput`.
    pub shown: Map<String, Value>,
    /// The possible answers: id, name and kind (`allow_once`, `allow_always`, `reject_once`, `reject_always`).
    pub options: Vec<(String, String, &'static str)>,
}

/// The answer to a permission question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The id of the chosen answer.
    Chosen(String),
    /// No answer: the turn was cancelled, the question could not be asked, or the answer was not among the offered
    /// ones.
    None,
}

/// Returns whether a question ended because the turn is cancelled.
fn is_cancelled_outcome(outcome: &RequestOutcome) -> bool {
    match outcome {
        Ok(answer) => answer["outcome"]["outcome"] == "cancelled",
        Err(error) => error.code == code::CANCELLED,
    }
}

impl Permission {
    /// A question with the answers `yes` and `no`, each for one time.
    #[must_use]
    pub fn yes_or_no(title: &str) -> Self {
        let answer = |id: &str, name: &str, kind| (id.to_owned(), name.to_owned(), kind);
        let options = vec![answer("yes", "Yes", "allow_once"), answer("no", "No", "reject_once")];
        Self { title: title.to_owned(), description: None, shown: Map::new(), options }
    }

    /// The id of the answer; `None` if it was not offered.
    fn answered(&self, outcome: &Value) -> Option<String> {
        let chosen = outcome["optionId"].as_str().filter(|_| outcome["outcome"] == "selected")?;
        self.options.iter().map(|(id, ..)| id).find(|id| *id == chosen).cloned()
    }
}

impl Turn {
    pub(super) fn new(emitter: Emitter, content: Json, cancelled: watch::Receiver<bool>) -> Self {
        Self { emitter, content, cancelled }
    }

    /// The content blocks of the prompt.
    #[must_use]
    pub fn content(&self) -> Vec<Value> {
        self.content.items().unwrap_or_default().iter().map(Json::value).collect()
    }

    /// The text of the prompt, one line for each block.
    #[must_use]
    pub fn text(&self) -> String {
        let blocks = self.content();
        let texts = blocks.iter().filter_map(|block| block["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The emitter of the session, for work that outlives the turn.
    #[must_use]
    pub fn emitter(&self) -> &Emitter {
        &self.emitter
    }

    /// Returns whether the turn was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Waits until the turn is cancelled.
    pub async fn cancelled(&self) {
        if self.cancelled.clone().wait_for(|cancelled| *cancelled).await.is_err() {
            // The session has ended, and this task is about to be dropped.
            std::future::pending::<()>().await;
        }
    }

    /// Asks whether a tool call may proceed.
    pub async fn permission(&self, tool: &Tool, question: &Permission) -> Decision {
        self.permission_until(tool, question, std::future::pending()).await
    }

    /// Asks whether a tool call may proceed, and withdraws the question when `pointless` resolves.
    pub async fn permission_until(
        &self,
        tool: &Tool,
        question: &Permission,
        pointless: impl Future<Output = ()>,
    ) -> Decision {
        let mut call = question.shown.clone();
        call.insert("toolCallId".to_owned(), json!(tool.id()));
        let option =
            |(id, name, kind): &(String, String, &str)| json!({"optionId": id, "name": name, "kind": kind});
        let options: Vec<_> = question.options.iter().map(option).collect();
        let mut params = json!({
            "title": question.title, "options": options,
            "subject": {"type": "tool_call", "toolCall": call},
        });
        if let Some(description) = &question.description {
            params["description"] = json!(description);
        }
        self.state("requires_action").await;
        let outcome = tokio::select! {
            biased;
            () = pointless => Ok(Value::Null),
            outcome = self.request("session/request_permission", params) => outcome,
        };
        if is_cancelled_outcome(&outcome) {
            // The cancel that caused this may arrive just after it.
            let _ = tokio::time::timeout(CANCEL_WAIT, self.cancelled()).await;
        }
        self.state("running").await;
        // An answer that arrives together with the cancel is ignored.
        let answer = outcome.ok().filter(|_| !self.is_cancelled());
        answer
            .and_then(|answer| question.answered(&answer["outcome"]))
            .map_or(Decision::None, Decision::Chosen)
    }

    /// Sends a request to the client in this session. Cancelling the turn or dropping the future cancels the request.
    pub async fn request(&self, method: &str, params: Value) -> RequestOutcome {
        self.request_without_session(method, self.emitter.with_session_id(params)).await
    }

    /// Sends a request to the client that belongs to no session. Cancelling the turn cancels it.
    pub async fn request_without_session(&self, method: &str, params: Value) -> RequestOutcome {
        let asked = self.emitter.client().ask(method, params).await;
        tokio::select! {
            outcome = asked.answered() => outcome,
            () = self.cancelled() => Err(RpcError::cancelled()),
        }
    }

    async fn state(&self, state: &str) {
        self.emitter.update(json!({"sessionUpdate": "state_update", "state": state})).await;
    }
}

/// As in the protocol: `selected yes`, or `cancelled`.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen(id) => write!(f, "selected {id}"),
            Self::None => f.write_str("cancelled"),
        }
    }
}

impl Deref for Turn {
    type Target = Emitter;

    fn deref(&self) -> &Emitter {
        &self.emitter
    }
}
