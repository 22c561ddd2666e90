//! Observes the raw events of a stream, for details that `genai` drops: refusals, failures, finish reasons, tool calls
//! without an index, and unreadable events.

use std::sync::Mutex;

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef, ToolCall};
use rethread::lock::locked;
use serde_json::Value;

use super::config::ProviderKind;

/// What the raw events of a stream contained.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamObservations {
    /// The text of the model's refusal.
    pub(super) refusal: String,
    /// Why the answer was blocked.
    pub(super) blocked: Option<String>,
    /// The error that the provider sent in place of an end event.
    pub(super) failure: Option<Value>,
    /// The finish reason, also of servers that send no end event.
    pub(super) finished: Option<String>,
    /// Tool calls without an index, which `genai` ignores.
    pub(super) unnumbered: Vec<ToolCall>,
    /// Whether any event was received.
    pub(super) events: bool,
    /// Whether any bytes were received.
    pub(super) anything: bool,
    /// The beginning of an event that is not JSON.
    pub(super) unreadable: Option<String>,
    /// Why the connection ended before the answer was complete.
    pub(super) broken: Option<ConnectionFailure>,
}

/// Why a connection to a provider ended before the answer was complete.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConnectionFailure {
    /// The connection failed, for this reason.
    Lost(String),
    /// The provider sent an event that is too long.
    TooLong,
}

/// Observes one stream.
#[derive(Debug)]
pub(super) struct RawFrames {
    kind: ProviderKind,
    observed: Mutex<StreamObservations>,
}

/// Only events with one of these are parsed.
const MARKS: [&str; 4] = ["\"refusal\"", "\"blockReason\"", "\"response.incomplete\"", "\"response.failed\""];
/// The maximum number of characters of an unreadable event that are kept.
const SHOWN: usize = 80;

impl RawFrames {
    pub(super) fn new(kind: ProviderKind) -> Self {
        Self { kind, observed: Mutex::default() }
    }

    /// Discards the observations of an earlier attempt.
    pub(super) fn clear(&self) {
        *locked(&self.observed) = StreamObservations::default();
    }

    /// Stores why the connection ended early.
    pub(super) fn breaks(&self, how: ConnectionFailure) {
        locked(&self.observed).broken = Some(how);
    }

    pub(super) fn observed(&self) -> StreamObservations {
        locked(&self.observed).clone()
    }
}

impl ChatFrameSink for RawFrames {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        {
            let mut observed = locked(&self.observed);
            observed.anything = true;
            // A frame without data is a comment or not an event.
            observed.events |= !frame.data.is_empty();
        }
        if self.kind == ProviderKind::OpenAi
            && let Some(reason) = finish_reason(frame.data)
        {
            locked(&self.observed).finished = Some(reason);
        }
        if self.kind == ProviderKind::OpenAi && frame.data.contains("\"tool_calls\"") {
            take_unnumbered(&mut locked(&self.observed).unnumbered, frame.data);
        }
        // For this kind `genai` ignores unreadable events; for the others it returns an error.
        if self.kind == ProviderKind::OpenAiResponses
            && !matches!(frame.data, "" | "[DONE]")
            && serde_json::from_str::<serde::de::IgnoredAny>(frame.data).is_err()
        {
            let beginning = frame.data.chars().take(SHOWN).collect();
            locked(&self.observed).unreadable.get_or_insert(beginning);
            return;
        }
        let ollama = self.kind == ProviderKind::Ollama && frame.data.contains("\"error\"");
        if (ollama || MARKS.iter().any(|mark| frame.data.contains(mark)))
            && let Ok(event) = serde_json::from_str::<Value>(frame.data)
        {
            let observed = &mut locked(&self.observed);
            if ollama && !event["error"].is_null() {
                observed.failure = Some(event);
            } else {
                take(observed, &event);
            }
        }
    }
}

/// The finish reason of an event. Most events have none and are not parsed.
fn finish_reason(data: &str) -> Option<String> {
    let (_, rest) = data.split_once("\"finish_reason\"")?;
    if rest.trim_start().strip_prefix(':')?.trim_start().starts_with("null") {
        return None;
    }
    let event: Value = serde_json::from_str(data).ok()?;
    event["choices"][0]["finish_reason"].as_str().map(str::to_owned)
}

/// Collects the calls of an event that have no index. A part without a name continues the last call.
fn take_unnumbered(calls: &mut Vec<ToolCall>, data: &str) {
    let event: Value = serde_json::from_str(data).unwrap_or_default();
    let delta = event["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten();
    for call in delta.filter(|call| !call["index"].is_u64()) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (fn_name, arguments) = (text(&call["function"]["name"]), text(&call["function"]["arguments"]));
        match calls.last_mut() {
            Some(last) if fn_name.is_empty() => {
                last.fn_arguments = Value::String(text(&last.fn_arguments) + &arguments);
            }
            _ => calls.push(ToolCall {
                call_id: text(&call["id"]),
                fn_name,
                fn_arguments: Value::String(arguments),
                thought_signatures: None,
            }),
        }
    }
}

fn take(observed: &mut StreamObservations, event: &Value) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(words) = event["choices"][0]["delta"]["refusal"].as_str() {
        observed.refusal.push_str(words);
    }
    let part = &event["part"];
    if event["type"] == "response.content_part.done"
        && let Some(words) = part["refusal"].as_str()
    {
        observed.refusal.push_str(words);
    }
    if let Some(why) = text(&event["promptFeedback"]["blockReason"]) {
        observed.blocked = Some(why);
    }
    let response = &event["response"];
    if event["type"] == "response.incomplete"
        && let Some(why) = text(&response["incomplete_details"]["reason"])
        && why != "max_output_tokens"
    {
        observed.blocked = Some(why);
    }
    if event["type"] == "response.failed" {
        observed.failure = Some(response["error"].clone());
    }
}
