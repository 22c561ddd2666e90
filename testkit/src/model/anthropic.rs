//! Anthropic's messages: claude.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Request};
use super::plan::Reply;
use super::{Dialect, Heard, Tool, text_of};

pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn read(body: &Value) -> Heard {
        let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let prompts = |message: &&Value| {
            message["role"] == "user" && !has_tool_result(message) && !prompt_of(message).is_empty()
        };
        let last = messages.iter().rposition(|message| prompts(&message));
        let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        Heard {
            prompt: last.map(|at| prompt_of(&messages[at])).unwrap_or_default(),
            turn: messages.iter().filter(prompts).count(),
            tool_answered: last.is_some_and(|at| messages[at..].iter().any(has_tool_result)),
            tools: tools.iter().filter_map(|tool| Tool::new(&tool["name"], &tool["input_schema"])).collect(),
            model: body["model"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn whole(reply: &Reply, request: &Request) -> Value {
        let mut message = message(reply, request);
        message["content"] = json!([{"type": "text", "text": reply.text()}]);
        message["stop_reason"] = json!("end_turn");
        message
    }

    fn stream(reply: &Reply, request: &Request, events: &mut Events) -> io::Result<()> {
        events.tell_named(&json!({"type": "message_start", "message": message(reply, request)}))?;
        block(events, 0, json!({"type": "text", "text": ""}), |events| {
            for word in &reply.words {
                delta(events, 0, json!({"type": "text_delta", "text": word}))?;
                reply.pause();
            }
            Ok(())
        })?;
        if let Some(call) = &reply.call {
            let start = json!({"type": "tool_use", "id": format!("toolu_{}", reply.number), "name": call.name,
                "input": {}});
            block(events, 1, start, |events| {
                let arguments = call.arguments.to_string();
                delta(events, 1, json!({"type": "input_json_delta", "partial_json": arguments}))
            })?;
        }
        let stop = if reply.call.is_some() { "tool_use" } else { "end_turn" };
        events.tell_named(&json!({"type": "message_delta", "usage": {"output_tokens": reply.words.len()},
            "delta": {"stop_reason": stop, "stop_sequence": null}}))?;
        events.tell_named(&json!({"type": "message_stop"}))
    }
}

fn message(reply: &Reply, request: &Request) -> Value {
    json!({"id": format!("msg_{}", reply.number), "type": "message", "role": "assistant",
        "model": request.body["model"], "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 1,
            "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}})
}

fn block(
    events: &mut Events,
    index: usize,
    start: Value,
    inside: impl FnOnce(&mut Events) -> io::Result<()>,
) -> io::Result<()> {
    events.tell_named(&json!({"type": "content_block_start", "index": index, "content_block": start}))?;
    inside(events)?;
    events.tell_named(&json!({"type": "content_block_stop", "index": index}))
}

fn delta(events: &mut Events, index: usize, delta: Value) -> io::Result<()> {
    events.tell_named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn has_tool_result(message: &Value) -> bool {
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().any(|block| block["type"] == "tool_result")
}

/// What the user wrote; claude adds reminders of its own.
fn prompt_of(message: &Value) -> String {
    let mut text = text_of(&message["content"]);
    while let Some((before, rest)) = text.split_once("<system-reminder>") {
        let after = rest.split_once("</system-reminder>").map(|(_, after)| after).unwrap_or_default();
        text = format!("{before}{after}");
    }
    text.trim().to_owned()
}
