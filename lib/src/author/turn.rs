//! One prompt and the work on it: what was asked, questions to the user, and whether it was cancelled. What is
//! said in it goes through the voice.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use rethread_core::Json;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::line::Outcome;
use super::tool::Tool;
use super::voice::Voice;
use crate::wire::{RpcError, code};

/// How long a cancel may come behind the end of a question that it has ended.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

/// A turn that runs.
pub struct Turn {
    voice: Voice,
    content: Json,
    cancelled: watch::Receiver<bool>,
}

/// A question whether something may be done.
#[derive(Clone, Debug)]
pub struct Permission {
    /// The question in a line.
    pub title: String,
    /// More about it.
    pub description: Option<String>,
    /// Members of the tool call that are shown with the question, such as `content` and `rawInput`.
    pub shown: Map<String, Value>,
    /// Id, name and kind (`allow_once`, `allow_always`, `reject_once`, `reject_always`) of each answer.
    pub options: Vec<(String, String, &'static str)>,
}

/// What the user said to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The id of the answer.
    Chosen(String),
    /// There is no answer: the turn was cancelled, the question could not be asked, or what came was not on offer.
    None,
}

/// Says whether a question was not answered, for the turn is cancelled.
fn is_taken_back(outcome: &Outcome) -> bool {
    match outcome {
        Ok(answer) => answer["outcome"]["outcome"] == "cancelled",
        Err(error) => error.code == code::CANCELLED,
    }
}

impl Permission {
    /// A question with the answers `yes` and `no`, each for this once.
    #[must_use]
    pub fn yes_or_no(title: &str) -> Self {
        let answer = |id: &str, name: &str, kind| (id.to_owned(), name.to_owned(), kind);
        let options = vec![answer("yes", "Yes", "allow_once"), answer("no", "No", "reject_once")];
        Self { title: title.to_owned(), description: None, shown: Map::new(), options }
    }

    /// The id of the answer; nothing if it is none of those that were offered.
    fn answered(&self, outcome: &Value) -> Option<String> {
        let chosen = outcome["optionId"].as_str().filter(|_| outcome["outcome"] == "selected")?;
        self.options.iter().map(|(id, ..)| id).find(|id| *id == chosen).cloned()
    }
}

impl Turn {
    pub(super) fn new(voice: Voice, content: Json, cancelled: watch::Receiver<bool>) -> Self {
        Self { voice, content, cancelled }
    }

    /// The content blocks of the prompt.
    #[must_use]
    pub fn content(&self) -> Vec<Value> {
        self.content.items().unwrap_or_default().iter().map(Json::value).collect()
    }

    /// The text of the prompt, one block on each line.
    #[must_use]
    pub fn text(&self) -> String {
        let blocks = self.content();
        let texts = blocks.iter().filter_map(|block| block["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The agent's voice, for work that outlives the turn.
    #[must_use]
    pub fn voice(&self) -> &Voice {
        &self.voice
    }

    /// Says whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        if self.cancelled.clone().wait_for(|cancelled| *cancelled).await.is_err() {
            // The session is gone, and this task is about to be.
            std::future::pending::<()>().await;
        }
    }

    /// Asks whether a tool call may go on.
    pub async fn permission(&self, tool: &Tool, question: &Permission) -> Decision {
        self.permission_until(tool, question, std::future::pending()).await
    }

    /// Asks whether a tool call may go on, and takes the question back as soon as it has become pointless.
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
        if is_taken_back(&outcome) {
            // The cancel that this came of may be right behind it.
            let _ = tokio::time::timeout(CANCEL_WAIT, self.cancelled()).await;
        }
        self.state("running").await;
        // An answer that comes with the cancel comes too late.
        let answer = outcome.ok().filter(|_| !self.is_cancelled());
        answer
            .and_then(|answer| question.answered(&answer["outcome"]))
            .map_or(Decision::None, Decision::Chosen)
    }

    /// Asks the client something in this session. A cancel takes the question back, and so does who waits no longer
    /// and drops the future.
    pub async fn request(&self, method: &str, params: Value) -> Outcome {
        self.request_apart(method, self.voice.of_session(params)).await
    }

    /// Asks the client something that belongs to no session. A cancel takes the question back.
    pub async fn request_apart(&self, method: &str, params: Value) -> Outcome {
        let asked = self.voice.line().ask(method, params).await;
        tokio::select! {
            outcome = asked.answered() => outcome,
            () = self.cancelled() => Err(RpcError::cancelled()),
        }
    }

    async fn state(&self, state: &str) {
        self.voice.update(json!({"sessionUpdate": "state_update", "state": state})).await;
    }
}

/// As the protocol says it: `selected yes`, or `cancelled`.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen(id) => write!(f, "selected {id}"),
            Self::None => f.write_str("cancelled"),
        }
    }
}

impl Deref for Turn {
    type Target = Voice;

    fn deref(&self) -> &Voice {
        &self.voice
    }
}
