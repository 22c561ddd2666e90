//! What of an answer has come, kept for servers that say why they stop but not that they have: the library throws away
//! what it has when an answer of theirs is over.

use genai::chat::{ContentPart, MessageContent, StopReason, StreamEnd, ToolCall};

/// What has come so far.
#[derive(Default)]
pub(super) struct PartialAnswer {
    text: String,
    thought: String,
    /// Each as far as it has come.
    calls: Vec<ToolCall>,
}

impl PartialAnswer {
    pub(super) fn text(&mut self, more: &str) {
        self.text.push_str(more);
    }

    pub(super) fn thought(&mut self, more: &str) {
        self.thought.push_str(more);
    }

    /// Takes in a call with all that has come of it. Says whether it is a new one.
    pub(super) fn call(&mut self, call: ToolCall) -> bool {
        match self.calls.iter_mut().find(|known| known.call_id == call.call_id) {
            Some(known) => {
                *known = call;
                false
            }
            None => {
                self.calls.push(call);
                true
            }
        }
    }

    /// The end, for the reason that the server gave.
    pub(super) fn end(self, reason: String) -> StreamEnd {
        let text = (!self.text.is_empty()).then_some(ContentPart::Text(self.text));
        let calls = self.calls.into_iter().map(ContentPart::ToolCall);
        StreamEnd {
            captured_stop_reason: Some(StopReason::from(reason)),
            captured_content: Some(MessageContent::from_parts(
                text.into_iter().chain(calls).collect::<Vec<_>>(),
            )),
            captured_reasoning_content: (!self.thought.is_empty()).then_some(self.thought),
            ..StreamEnd::default()
        }
    }
}
