//! The options of a request for `genai`: thought level, temperature, length, timeouts, and which events are captured.

use std::sync::Arc;

use genai::Headers;
use genai::chat::{ChatOptions, ReasoningEffort};
use serde_json::json;

use super::ProviderLimits;
use super::catalog::ModelFacts;
use super::config::{Effort, ProviderConfig, ProviderKind};
use super::raw_frames::RawFrames;
use super::request::Request;

/// The options of one request.
pub(super) fn options(
    request: &Request,
    provider: &ProviderConfig,
    facts: &ModelFacts,
    limits: &ProviderLimits,
    frames: Arc<RawFrames>,
) -> ChatOptions {
    let kind = provider.kind;
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_reasoning_content(shows_thoughts(request, kind, facts));
    options.raw_frame_sink = Some(frames);
    options.stream_header_timeout = Some(limits.idle);
    options.stream_read_timeout = Some(limits.idle);
    options.reasoning_effort = effort(request, kind, model_of(&request.model));
    options.temperature = temperature(request, kind, facts);
    options.max_tokens = max_tokens(request, kind, facts);
    if kind == ProviderKind::Anthropic && facts.adaptive && request.effort.is_none() {
        // The model thinks by default, and without this it hides its thoughts and the text between tool calls.
        options.extra_body = Some(json!({"thinking": {"type": "adaptive", "display": "summarized"}}));
    }
    if let (ProviderKind::Ollama, Some(key)) = (kind, provider.key()) {
        options.extra_headers =
            Some(Headers::from(("Authorization".to_owned(), format!("Bearer {}", key.reveal()))));
    }
    options
}

/// The model part of a full id.
pub(super) fn model_of(full: &str) -> &str {
    full.split_once('/').map_or(full, |(_, model)| model)
}

/// Whether the request asks for thoughts. Two kinds of providers reject that if the model has none.
fn shows_thoughts(request: &Request, kind: ProviderKind, facts: &ModelFacts) -> bool {
    match (kind, request.effort) {
        _ if !facts.shows_thoughts => false,
        (ProviderKind::OpenAi | ProviderKind::Anthropic | ProviderKind::Ollama, _) => true,
        (ProviderKind::OpenAiResponses | ProviderKind::Gemini, Some(effort)) => effort != Effort::Off,
        (ProviderKind::OpenAiResponses | ProviderKind::Gemini, None) => !facts.efforts.is_empty(),
    }
}

fn effort(request: &Request, kind: ProviderKind, model: &str) -> Option<ReasoningEffort> {
    match (request.effort, kind) {
        (None, _) => unsaid(kind, model),
        (Some(Effort::Off), ProviderKind::Gemini) => Some(ReasoningEffort::Budget(0)),
        (Some(Effort::Off), _) => Some(ReasoningEffort::Zero),
        (Some(Effort::Minimal), _) => Some(ReasoningEffort::Minimal),
        (Some(Effort::Low), _) => Some(ReasoningEffort::Low),
        (Some(Effort::Medium), _) => Some(ReasoningEffort::Medium),
        (Some(Effort::High), _) => Some(ReasoningEffort::High),
        (Some(Effort::XHigh), _) => Some(ReasoningEffort::XHigh),
        (Some(Effort::Max), _) => Some(ReasoningEffort::Max),
    }
}

/// A thought level that sends nothing. Without one, `genai` takes the end of a name like `qwen-max` for a thought level
/// and requests the model `qwen`.
fn unsaid(kind: ProviderKind, model: &str) -> Option<ReasoningEffort> {
    let misread =
        model.rsplit_once('-').is_some_and(|(_, last)| ReasoningEffort::from_keyword(last).is_some());
    match kind {
        _ if !misread => None,
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses => Some(ReasoningEffort::Budget(0)),
        ProviderKind::Anthropic | ProviderKind::Gemini => Some(ReasoningEffort::Zero),
        ProviderKind::Ollama => None,
    }
}

fn temperature(request: &Request, kind: ProviderKind, facts: &ModelFacts) -> Option<f64> {
    let thinks = request.effort.is_some_and(|effort| effort != Effort::Off);
    // Anthropic rejects a temperature together with thinking.
    let refused = !facts.takes_temperature || kind == ProviderKind::Anthropic && thinks;
    request.temperature.filter(|_| !refused)
}

/// The maximum length of the answer. Anthropic requires one; others get it only if it is configured.
fn max_tokens(request: &Request, kind: ProviderKind, facts: &ModelFacts) -> Option<u32> {
    let known = facts.most_output.filter(|_| kind == ProviderKind::Anthropic);
    request.max_output.or(facts.wanted_output).or(known)
}
