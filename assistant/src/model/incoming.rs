//! Decodes the end of a stream: tool calls with ids that are unique in the conversation, usage, the finish reason, and
//! the whole reply for the next request.

use std::collections::HashSet;

use genai::chat::{ContentPart, StopReason, StreamEnd, ToolCall as WireCall, Usage as WireUsage};
use rethread::ids;
use serde_json::{Map, Value};

use super::catalog::ModelFacts;
use super::config::ProviderKind;
use super::event::{FinishReason, ModelEvent, Usage};
use super::names::ToolNames;
use super::raw_frames::StreamObservations;
use super::request::{Message, Part, Reply, Request, ToolCall};

/// How `genai` marks a call without an id.
const STAND_IN: &str = "call#";

/// Whether the provider sent a finish reason. For some kinds `genai` ends a truncated answer like a complete one.
pub(super) fn is_whole(kind: ProviderKind, end: &StreamEnd) -> bool {
    match kind {
        ProviderKind::OpenAi | ProviderKind::Anthropic => true,
        ProviderKind::OpenAiResponses | ProviderKind::Gemini => end.captured_stop_reason.is_some(),
        ProviderKind::Ollama => end.captured_usage.is_some(),
    }
}

/// Decodes the ends of streams.
pub(super) struct ReplyReader {
    model: String,
    names: ToolNames,
    /// The ids of calls that are already in the conversation.
    used: HashSet<String>,
    facts: ModelFacts,
}

impl ReplyReader {
    pub(super) fn new(request: &Request, names: ToolNames, facts: ModelFacts) -> Self {
        let replies = request.messages.iter().filter_map(|message| match message {
            Message::Assistant(reply) => Some(reply),
            Message::User(_) | Message::Tools(_) => None,
        });
        let used = replies.flat_map(Reply::calls).map(|call| call.id.clone()).collect();
        Self { model: request.model.clone(), names, used, facts }
    }

    /// The events that follow from the end, in order.
    pub(super) fn read(&mut self, end: StreamEnd, observed: &StreamObservations) -> Vec<ModelEvent> {
        let cut = matches!(end.captured_stop_reason, Some(StopReason::MaxTokens(_)));
        let mut parts = self.parts(end.captured_content.map(|content| content.into_parts()), cut);
        parts.extend(observed.unnumbered.iter().map(|call| Part::Call(self.call(call.clone(), cut))));
        add_thought(&mut parts, end.captured_reasoning_content);
        if !observed.refusal.is_empty() {
            parts.push(Part::Text(observed.refusal.clone()));
        }
        let reply = Reply { model: self.model.clone(), parts };
        let reason = reason(end.captured_stop_reason, &reply, observed);
        let mut events = Vec::new();
        events.extend((!observed.refusal.is_empty()).then(|| ModelEvent::Text(observed.refusal.clone())));
        events.extend(reply.calls().cloned().map(ModelEvent::ToolCall));
        let usage = end.captured_usage.map(|usage| counted(&usage).priced(self.facts.price.as_ref()));
        events.extend(usage.map(ModelEvent::Usage));
        events.push(ModelEvent::Finished { reason, reply });
        events
    }

    fn parts(&mut self, parts: Option<Vec<ContentPart>>, cut: bool) -> Vec<Part> {
        let mut read = Vec::new();
        let mut open_signature = None;
        let mut calls = Vec::new();
        for part in parts.into_iter().flatten() {
            if !matches!(part, ContentPart::ReasoningContent(_)) {
                read.extend(open_signature.take().map(signed("")));
            }
            match part {
                ContentPart::Text(text) => read.push(Part::Text(text)),
                ContentPart::ThoughtSignature(signature) => open_signature = Some(signature),
                ContentPart::ReasoningContent(text) => {
                    read.push(Part::Thought { text, signature: open_signature.take() });
                }
                ContentPart::ToolCall(call) => calls.push(call),
                ContentPart::Custom(custom) => read.push(Part::Opaque(custom.data)),
                // No request asks for images.
                ContentPart::Binary(_) | ContentPart::ToolResponse(_) => {}
            }
        }
        read.extend(open_signature.take().map(signed("")));
        read.extend(without_doubles(calls).into_iter().map(|call| Part::Call(self.call(call, cut))));
        read
    }

    /// The event for a call that the model has begun; none if the call will get another id.
    pub(super) fn begun(&self, call: &WireCall) -> Option<ModelEvent> {
        let known = self.keeps_id(&call.call_id) && !call.fn_name.is_empty();
        known.then(|| ModelEvent::ToolCallStarted {
            id: call.call_id.clone(),
            name: self.names.real(&call.fn_name),
        })
    }

    fn keeps_id(&self, id: &str) -> bool {
        !id.is_empty() && !id.starts_with(STAND_IN) && !self.used.contains(id)
    }

    fn call(&mut self, call: WireCall, cut: bool) -> ToolCall {
        let mut id = call.call_id;
        if !self.keeps_id(&id) {
            id = format!("call_{}", ids::unique().simple());
        }
        self.used.insert(id.clone());
        ToolCall {
            id,
            name: self.names.real(&call.fn_name),
            arguments: arguments(call.fn_arguments, cut),
            signatures: call.thought_signatures.unwrap_or_default(),
        }
    }
}

fn signed(text: &'static str) -> impl Fn(String) -> Part {
    move |signature| Part::Thought { text: text.to_owned(), signature: Some(signature) }
}

/// Inserts the thought at the front, if it is not among the parts.
fn add_thought(parts: &mut Vec<Part>, thought: Option<String>) {
    let has_thought = parts.iter().any(|part| matches!(part, Part::Thought { text, .. } if !text.is_empty()));
    if let Some(text) = thought.filter(|text| !text.is_empty() && !has_thought) {
        parts.insert(0, Part::Thought { text, signature: None });
    }
}

/// Removes duplicates: `genai` reports the first call twice if a server numbers its calls from 1; the later one is complete.
fn without_doubles(calls: Vec<WireCall>) -> Vec<WireCall> {
    let mut kept: Vec<WireCall> = Vec::new();
    for call in calls {
        let earlier = kept.iter().position(|earlier| {
            !call.call_id.starts_with(STAND_IN)
                && earlier.call_id == call.call_id
                && earlier.fn_name == call.fn_name
        });
        match earlier {
            Some(at) if text_len(&kept[at]) <= text_len(&call) => kept[at] = call,
            Some(_) => {}
            None => kept.push(call),
        }
    }
    kept
}

fn text_len(call: &WireCall) -> usize {
    call.fn_arguments.to_string().len()
}

/// The arguments as an object, or as text if they are not an object.
fn arguments(value: Value, cut: bool) -> Result<Value, String> {
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(Map::new())),
        Value::String(text) if text.trim().is_empty() && !cut => Ok(Value::Object(Map::new())),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(members)) => Ok(Value::Object(members)),
            Ok(_) | Err(_) => Err(text),
        },
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => Err(other.to_string()),
    }
}

fn reason(stop: Option<StopReason>, reply: &Reply, observed: &StreamObservations) -> FinishReason {
    if !observed.refusal.is_empty() || observed.blocked.is_some() {
        return FinishReason::Refusal;
    }
    let calls = reply.calls().next().is_some();
    match stop {
        Some(StopReason::MaxTokens(_)) => FinishReason::Length,
        Some(StopReason::ContentFilter(_)) => FinishReason::Refusal,
        // Many servers send only `stop` here.
        _ if calls => FinishReason::ToolUse,
        Some(StopReason::Other(other)) => FinishReason::Other(other),
        Some(StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_)) | None => {
            FinishReason::Stop
        }
    }
}

fn counted(usage: &WireUsage) -> Usage {
    let count = |number: Option<i32>| u64::try_from(number.unwrap_or(0)).unwrap_or(0);
    let input = usage.prompt_tokens_details.as_ref();
    let thoughts = usage.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
    Usage {
        input: count(usage.prompt_tokens),
        cached: count(input.and_then(|details| details.cached_tokens)),
        cache_written: count(input.and_then(|details| details.cache_creation_tokens)),
        output: count(usage.completion_tokens.or(thoughts)),
        cost: None,
    }
}
