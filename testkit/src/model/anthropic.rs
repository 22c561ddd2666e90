//! The Anthropic messages API, used by claude and the assistant.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Request};
use super::plan::{Block, Ending, Goes, Reply};
use super::{Dialect, ParsedRequest, Tool, text_of};

pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn read(body: &Value) -> ParsedRequest {
        let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let prompts = |message: &&Value| {
            message["role"] == "user" && !has_tool_result(message) && !prompt_of(message).is_empty()
        };
        let last = messages.iter().rposition(|message| prompts(&message));
        let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        ParsedRequest {
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
        events.send_named(&json!({"type": "message_start", "message": message(reply, request)}))?;
        for (index, said) in reply.blocks().iter().enumerate() {
            tell_block(reply, events, index, said)?;
        }
        if let Goes::NoFurther = reply.finish_as_planned(events)? {
            return Ok(());
        }
        let stop = match reply.has_calls() {
            _ if reply.ending == Ending::Length => "max_tokens",
            true => "tool_use",
            false => "end_turn",
        };
        events
            .send_named(&json!({"type": "message_delta", "usage": {"output_tokens": reply.tokens.output},
            "delta": {"stop_reason": stop, "stop_sequence": null}}))?;
        events.send_named(&json!({"type": "message_stop"}))
    }
}

fn message(reply: &Reply, request: &Request) -> Value {
    let used = reply.tokens;
    json!({"id": format!("msg_{}", reply.number), "type": "message", "role": "assistant",
        "model": request.body["model"], "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": used.input - used.cached, "output_tokens": 1,
            "cache_read_input_tokens": used.cached, "cache_creation_input_tokens": 0}})
}

fn tell_block(reply: &Reply, events: &mut Events, index: usize, said: &Block<'_>) -> io::Result<()> {
    match said {
        Block::Raw(event) => events.send_named(event),
        Block::Text(texts) => block(events, index, json!({"type": "text", "text": ""}), |events| {
            for text in texts {
                delta(events, index, json!({"type": "text_delta", "text": text}))?;
                reply.pause();
            }
            Ok(())
        }),
        Block::Thought(texts) => {
            let start = json!({"type": "thinking", "thinking": "", "signature": ""});
            block(events, index, start, |events| {
                for text in texts {
                    delta(events, index, json!({"type": "thinking_delta", "thinking": text}))?;
                    reply.pause();
                }
                let signature = format!("signature-{}-{index}", reply.number);
                delta(events, index, json!({"type": "signature_delta", "signature": signature}))
            })
        }
        Block::Call(call) => {
            let id = format!("toolu_{}_{index}", reply.number);
            let start = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
            block(events, index, start, |events| {
                delta(events, index, json!({"type": "input_json_delta", "partial_json": call.arguments}))
            })
        }
    }
}

fn block(
    events: &mut Events,
    index: usize,
    start: Value,
    inside: impl FnOnce(&mut Events) -> io::Result<()>,
) -> io::Result<()> {
    events.send_named(&json!({"type": "content_block_start", "index": index, "content_block": start}))?;
    inside(events)?;
    events.send_named(&json!({"type": "content_block_stop", "index": index}))
}

fn delta(events: &mut Events, index: usize, delta: Value) -> io::Result<()> {
    events.send_named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
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
