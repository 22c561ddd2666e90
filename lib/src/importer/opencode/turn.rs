//! How turns of opencode end, by what its messages record.

use rethread_core::{Millis, Stop};
use serde_json::Value;

/// The error code of a turn that failed because of the model.
const MODEL_FAILED: i64 = -32603;

/// How far a turn is.
#[derive(Debug)]
pub(super) enum OpencodeTurn {
    /// None runs.
    Over,
    /// It runs: the prompt was given, or tools were called.
    Open,
    /// A message was begun and never completed.
    BrokenOff,
    /// The agent has said its last word for now, why and when.
    Answered(Stop, Option<Millis>),
}

impl OpencodeTurn {
    /// How far the turn is after a message of the agent.
    pub(super) fn after(message: &Value) -> Self {
        let completed = message["time"]["completed"].as_u64();
        if let Some(name) = message["error"]["name"].as_str() {
            return Self::Answered(failure(name, &message["error"]["data"]), completed);
        }
        match message["finish"].as_str() {
            _ if completed.is_none() => Self::BrokenOff,
            Some("tool-calls") => Self::Open,
            Some(reason) => Self::Answered(finish(reason), completed),
            // A command that the user ran has no reason.
            None => Self::Answered(Stop::plain("end_turn"), completed),
        }
    }
}

/// Why the model stopped.
pub(super) fn finish(reason: &str) -> Stop {
    match reason {
        "length" => Stop::plain("max_tokens"),
        "content-filter" => Stop::plain("refusal"),
        _ => Stop::plain("end_turn"),
    }
}

fn failure(name: &str, data: &Value) -> Stop {
    match name {
        "MessageAbortedError" => Stop::plain("cancelled"),
        "MessageOutputLengthError" => Stop::plain("max_tokens"),
        "ContentFilterError" => Stop::plain("refusal"),
        _ => {
            let words = data["message"].as_str().filter(|words| !words.is_empty()).unwrap_or(name);
            Stop::failed(MODEL_FAILED, words)
        }
    }
}
