//! OpenAI's responses: codex.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Request};
use super::plan::Reply;
use super::{Dialect, Heard, Tool, text_of};

pub(super) struct Responses;

impl Dialect for Responses {
    fn read(body: &Value) -> Heard {
        let items = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
        let last = items.iter().rposition(is_prompt);
        let output = |item: &Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
        Heard {
            prompt: last.map(|at| text_of(&items[at]["content"])).unwrap_or_default(),
            turn: items.iter().filter(|item| is_prompt(item)).count(),
            tool_answered: last.is_some_and(|at| items[at..].iter().any(output)),
            tools: tools(&body["tools"]),
            model: body["model"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn whole(reply: &Reply, request: &Request) -> Value {
        response(reply, request, "completed")
    }

    fn stream(reply: &Reply, request: &Request, events: &mut Events) -> io::Result<()> {
        let mut number = 0;
        let mut tell = |kind: &str, mut event: Value| {
            event["type"] = json!(kind);
            event["sequence_number"] = json!(number);
            number += 1;
            events.tell_named(&event)
        };
        let (message, call) = (message(reply), call(reply));
        let of = |event: Value| {
            let mut event = event;
            event["item_id"] = message["id"].clone();
            event["output_index"] = json!(0);
            event["content_index"] = json!(0);
            event
        };
        let mut begun = message.clone();
        (begun["status"], begun["content"]) = (json!("in_progress"), json!([]));
        tell("response.created", json!({"response": response(reply, request, "in_progress")}))?;
        tell("response.output_item.added", json!({"output_index": 0, "item": begun}))?;
        let part = json!({"type": "output_text", "text": "", "annotations": []});
        tell("response.content_part.added", of(json!({"part": part})))?;
        for word in &reply.words {
            tell("response.output_text.delta", of(json!({"delta": word})))?;
            reply.pause();
        }
        tell("response.output_text.done", of(json!({"text": reply.text()})))?;
        tell("response.output_item.done", json!({"output_index": 0, "item": message}))?;
        if let Some(call) = call {
            let mut begun = call.clone();
            (begun["status"], begun["arguments"]) = (json!("in_progress"), json!(""));
            tell("response.output_item.added", json!({"output_index": 1, "item": begun}))?;
            tell("response.output_item.done", json!({"output_index": 1, "item": call}))?;
        }
        tell("response.completed", json!({"response": response(reply, request, "completed")}))
    }
}

/// A message that the user wrote; codex writes others in the user's name, each inside a tag.
fn is_prompt(item: &Value) -> bool {
    let text = text_of(&item["content"]);
    let by_codex =
        text.starts_with('<') || text.lines().next().is_some_and(|line| line.contains("AGENTS.md"));
    item["role"] == "user" && !text.is_empty() && !by_codex
}

fn tools(tools: &Value) -> Vec<Tool> {
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    let in_group = |group: &Value| {
        let inside = group["tools"].as_array().cloned().unwrap_or_default();
        let named = |tool: &Value| {
            let tool = Tool::new(&tool["name"], &tool["parameters"])?;
            Some(Tool { group: group["name"].as_str().map(str::to_owned), ..tool })
        };
        inside.iter().filter_map(named).collect::<Vec<_>>()
    };
    let each = |tool: &Value| match tool["type"].as_str() {
        Some("namespace") => in_group(tool),
        _ => Tool::new(&tool["name"], &tool["parameters"]).into_iter().collect(),
    };
    tools.iter().flat_map(each).collect()
}

fn message(reply: &Reply) -> Value {
    json!({"id": format!("msg_{}", reply.number), "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": reply.text(), "annotations": []}]})
}

fn call(reply: &Reply) -> Option<Value> {
    let call = reply.call.as_ref()?;
    let mut item = json!({"id": format!("fc_{}", reply.number), "type": "function_call", "status": "completed",
        "call_id": format!("call_{}", reply.number), "name": call.name, "arguments": call.arguments.to_string()});
    if let Some(group) = &call.group {
        item["namespace"] = json!(group);
    }
    Some(item)
}

fn response(reply: &Reply, request: &Request, status: &str) -> Value {
    let said = reply.words.len();
    let output: Vec<Value> = match status {
        "completed" => [Some(message(reply)), call(reply)].into_iter().flatten().collect(),
        _ => Vec::new(),
    };
    json!({"id": format!("resp_{}", reply.number), "object": "response", "status": status,
        "model": request.body["model"], "output": output,
        "usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 1000 + said}})
}
