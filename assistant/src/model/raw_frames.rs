//! Listens to a stream as it came over the wire, for what the library between us and the provider leaves out: why an
//! answer was refused or failed, and events that it could not read.

use std::sync::Mutex;

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef, ToolCall};
use rethread::lock::locked;
use serde_json::Value;

use super::config::ProviderKind;

/// What was heard.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamObservations {
    /// The words with which the model refused.
    pub(super) refusal: String,
    /// Why nothing, or no more, is said.
    pub(super) blocked: Option<String>,
    /// The failure that the provider reported in place of an end.
    pub(super) failure: Option<Value>,
    /// Why a server says that its answer ends here, where it may not say that it has ended.
    pub(super) finished: Option<String>,
    /// Tool calls without the number that tells them apart, which the library passes over.
    pub(super) unnumbered: Vec<ToolCall>,
    /// Whether there was any event at all.
    pub(super) events: bool,
    /// Whether anything came, an event or not.
    pub(super) anything: bool,
    /// The beginning of an event that is no JSON.
    pub(super) unreadable: Option<String>,
    /// How the connection to the provider ended before its answer did.
    pub(super) broken: Option<ConnectionFailure>,
}

/// How a connection to a provider ends before the answer does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConnectionFailure {
    /// It was not reached, or it was lost, for this reason.
    Lost(String),
    /// It sent an event that is longer than any that is passed on.
    TooLong,
}

/// Listens to one stream.
#[derive(Debug)]
pub(super) struct RawFrames {
    kind: ProviderKind,
    observed: Mutex<StreamObservations>,
}

/// An event with any of these may tell something; the others are not looked into.
const MARKS: [&str; 4] = ["\"refusal\"", "\"blockReason\"", "\"response.incomplete\"", "\"response.failed\""];
/// How much of an unreadable event is kept.
const SHOWN: usize = 80;

impl RawFrames {
    pub(super) fn new(kind: ProviderKind) -> Self {
        Self { kind, observed: Mutex::default() }
    }

    /// Forgets what an earlier attempt said.
    pub(super) fn clear(&self) {
        *locked(&self.observed) = StreamObservations::default();
    }

    /// The connection has ended before the answer did.
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
            // What has no data is a comment, or no event at all.
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
        // The library passes over such events of this kind; of the others it makes errors.
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

/// Most events say that there is none yet, and are not looked into.
fn finish_reason(data: &str) -> Option<String> {
    let (_, rest) = data.split_once("\"finish_reason\"")?;
    if rest.trim_start().strip_prefix(':')?.trim_start().starts_with("null") {
        return None;
    }
    let event: Value = serde_json::from_str(data).ok()?;
    event["choices"][0]["finish_reason"].as_str().map(str::to_owned)
}

/// Takes the calls of an event that have no number. What has no name either goes on with the last one.
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
