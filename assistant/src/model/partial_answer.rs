//! The parts of an answer that have arrived. Some servers send a finish reason but no end event; `genai` then discards
//! the answer, so it is rebuilt from this copy.

use genai::chat::{ContentPart, MessageContent, StopReason, StreamEnd, ToolCall};

/// The parts that have arrived so far.
#[derive(Default)]
pub(super) struct PartialAnswer {
    text: String,
    thought: String,
    /// Tool calls, maybe incomplete.
    calls: Vec<ToolCall>,
}

impl PartialAnswer {
    pub(super) fn text(&mut self, more: &str) {
        self.text.push_str(more);
    }

    pub(super) fn thought(&mut self, more: &str) {
        self.thought.push_str(more);
    }

    /// Stores the current state of a call, and returns whether the call is new.
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

    /// Builds the end event with the server's finish reason.
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
