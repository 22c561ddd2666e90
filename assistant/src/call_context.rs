//! The context of tool calls in a turn: session, turn and settings; announcing a call to the user; its result for the
//! model. Does not decide whether a call is allowed and runs none.

use rethread::author::{Tool, ToolCall, ToolKind, Turn};
use serde_json::{Value, json};

use crate::choice::Settings;
use crate::memory;
use crate::model::{self, Image};
use crate::session::Session;
use crate::tools::visible::label;

/// The maximum number of characters of a name in a title.
const LONGEST_NAME: usize = 60;

/// The context of the tool calls of one answer.
pub(crate) struct CallContext<'a> {
    pub(crate) session: &'a Session,
    pub(crate) turn: &'a Turn,
    /// The index of the answer in the turn that the calls are part of.
    pub(crate) round: usize,
    /// Calls that were announced before their arguments were complete.
    pub(crate) begun: Vec<Tool>,
}

/// The result of a call, for the model.
pub(crate) struct CallResult {
    pub(crate) text: String,
    pub(crate) images: Vec<Image>,
    pub(crate) failed: bool,
}

impl CallResult {
    /// A failed call with its reason.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), images: Vec::new(), failed: true }
    }
}

impl CallContext<'_> {
    /// The current settings; they may change during a turn.
    pub(crate) fn settings(&self) -> Settings {
        Settings::of(&self.turn.choices())
    }

    /// Announces a call to the user, with the metadata that `memory` needs to read it from the history.
    pub(crate) async fn announce(&self, call: &model::ToolCall, about: ToolCall, arguments: &Value) -> Tool {
        let about = about.with_id(&call.id).input(arguments.clone());
        self.turn.tool(about.with("_meta", memory::written_call(call, self.round))).await
    }

    /// Announces a call and its failure.
    pub(crate) async fn refused(&self, call: &model::ToolCall, arguments: &Value, why: &str) -> CallResult {
        let tool = self.announce(call, ToolCall::new(&short(&call.name), ToolKind::Other), arguments).await;
        failed(&tool, why).await
    }
}

/// A short label for a name that a model or a server chose.
pub(crate) fn short(name: &str) -> String {
    label(name, LONGEST_NAME)
}

/// The result of a call that was cancelled before it began.
pub(crate) fn cancelled() -> CallResult {
    CallResult::failed("the user cancelled the turn")
}

/// Shows a failure to the user and returns it as the result.
pub(crate) async fn failed(tool: &Tool, why: &str) -> CallResult {
    tool.text(why).await;
    tool.failed(json!({"text": why})).await;
    CallResult::failed(why)
}
