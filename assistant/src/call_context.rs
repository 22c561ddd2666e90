//! One tool call in a turn: what it is carried out with, how it is announced to the user, and its result for the model.
//! Does not decide whether a call is allowed and carries out none.

use rethread::author::{Tool, ToolCall, ToolKind, Turn};
use serde_json::{Value, json};

use crate::choice::Settings;
use crate::memory;
use crate::model::{self, Image};
use crate::session::Session;
use crate::tools::visible::label;

/// How many characters of a name the title of a question or of an answer has.
const LONGEST_NAME: usize = 60;

/// What a call is carried out with.
pub(crate) struct CallContext<'a> {
    pub(crate) session: &'a Session,
    pub(crate) turn: &'a Turn,
    /// Which answer of the model in this turn the calls are part of.
    pub(crate) round: usize,
    /// Calls that were announced before their arguments were complete.
    pub(crate) begun: Vec<Tool>,
}

/// What came of a call, for the model.
pub(crate) struct CallResult {
    pub(crate) text: String,
    pub(crate) images: Vec<Image>,
    pub(crate) failed: bool,
}

impl CallResult {
    /// The call failed, and this is why.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), images: Vec::new(), failed: true }
    }
}

impl CallContext<'_> {
    /// The settings as they are now: they may change at any time, and hold from then on.
    pub(crate) fn settings(&self) -> Settings {
        Settings::of(&self.turn.choices())
    }

    /// Announces a call with what a later reader needs to know it again.
    pub(crate) async fn announce(&self, call: &model::ToolCall, about: ToolCall, arguments: &Value) -> Tool {
        let about = about.with_id(&call.id).input(arguments.clone());
        self.turn.tool(about.with("_meta", memory::written_call(call, self.round))).await
    }

    /// Tells of a call that cannot be carried out.
    pub(crate) async fn refused(&self, call: &model::ToolCall, arguments: &Value, why: &str) -> CallResult {
        let tool = self.announce(call, ToolCall::new(&short(&call.name), ToolKind::Other), arguments).await;
        failed(&tool, why).await
    }
}

/// A name that a model or a server made up, as a short label.
pub(crate) fn short(name: &str) -> String {
    label(name, LONGEST_NAME)
}

/// The turn was cancelled before the call was carried out.
pub(crate) fn cancelled() -> CallResult {
    CallResult::failed("the user cancelled the turn")
}

/// The call failed for this reason.
pub(crate) async fn failed(tool: &Tool, why: &str) -> CallResult {
    tool.text(why).await;
    tool.failed(json!({"text": why})).await;
    CallResult::failed(why)
}
