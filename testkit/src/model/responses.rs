//! The OpenAI responses API, used by codex and the assistant.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Request};
use super::plan::{Block, Ending, Goes, Reply};
use super::{Dialect, ParsedRequest, Tool, text_of};

pub(super) struct Responses;

impl Dialect for Responses {
    fn read(body: &Value) -> ParsedRequest {
        let items = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
        let last = items.iter().rposition(is_prompt);
        let output = |item: &Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
        ParsedRequest {
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
        let mut writer = EventWriter { reply, events, number: 0 };
        writer.send("response.created", json!({"response": response(reply, request, "in_progress")}))?;
        for (index, block) in reply.blocks().iter().enumerate() {
            match block {
                Block::Raw(event) => writer.events.send_named(event)?,
                Block::Text(_) | Block::Thought(_) | Block::Call(_) => writer.item(index, block)?,
            }
        }
        if let Goes::NoFurther = reply.finish_as_planned(writer.events)? {
            return Ok(());
        }
        let status = if reply.ending == Ending::Length { "incomplete" } else { "completed" };
        let event = json!({"response": response(reply, request, status)});
        writer.send(&format!("response.{status}"), event)
    }
}

/// Tells events with their numbers.
struct EventWriter<'a, 'b> {
    reply: &'a Reply,
    events: &'a mut Events<'b>,
    number: u64,
}

impl EventWriter<'_, '_> {
    fn send(&mut self, kind: &str, mut event: Value) -> io::Result<()> {
        event["type"] = json!(kind);
        event["sequence_number"] = json!(self.number);
        self.number += 1;
        self.events.send_named(&event)
    }

    fn item(&mut self, index: usize, block: &Block<'_>) -> io::Result<()> {
        let item = item(self.reply, index, block);
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        for (member, empty) in [
            ("content", json!([])),
            ("summary", json!([])),
            ("arguments", json!("")),
            ("encrypted_content", json!("")),
        ] {
            if begun[member] != Value::Null {
                begun[member] = empty;
            }
        }
        self.send("response.output_item.added", json!({"output_index": index, "item": begun}))?;
        self.inside(index, block, &item["id"])?;
        self.send("response.output_item.done", json!({"output_index": index, "item": item}))
    }

    fn inside(&mut self, index: usize, block: &Block<'_>, id: &Value) -> io::Result<()> {
        let of = |mut event: Value, inner: &str| {
            (event["item_id"], event["output_index"], event[inner]) = (id.clone(), json!(index), json!(0));
            event
        };
        match block {
            Block::Text(texts) => {
                let part = json!({"type": "output_text", "text": "", "annotations": []});
                self.send("response.content_part.added", of(json!({"part": part}), "content_index"))?;
                for text in texts {
                    self.send("response.output_text.delta", of(json!({"delta": text}), "content_index"))?;
                    self.reply.pause();
                }
                let text = json!({"text": texts.concat()});
                self.send("response.output_text.done", of(text, "content_index"))
            }
            Block::Thought(texts) => {
                for text in texts {
                    let event = of(json!({"delta": text}), "summary_index");
                    self.send("response.reasoning_summary_text.delta", event)?;
                    self.reply.pause();
                }
                Ok(())
            }
            Block::Raw(_) => Ok(()),
            Block::Call(call) => {
                let event = json!({"item_id": id, "output_index": index, "delta": call.arguments});
                self.send("response.function_call_arguments.delta", event)
            }
        }
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

/// A block as an item of the output.
fn item(reply: &Reply, index: usize, block: &Block<'_>) -> Value {
    let id = |kind: &str| format!("{kind}_{}_{index}", reply.number);
    match block {
        Block::Text(texts) => {
            json!({"id": id("msg"), "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": texts.concat(), "annotations": []}]})
        }
        Block::Thought(texts) => {
            json!({"id": id("rs"), "type": "reasoning", "status": "completed",
                "summary": [{"type": "summary_text", "text": texts.concat()}],
                "encrypted_content": format!("signature-{}-{index}", reply.number)})
        }
        Block::Raw(_) => Value::Null,
        Block::Call(call) => {
            let mut item = json!({"id": id("fc"), "type": "function_call", "status": "completed",
                "call_id": id("call"), "name": call.name, "arguments": call.arguments});
            if let Some(group) = &call.group {
                item["namespace"] = json!(group);
            }
            item
        }
    }
}

fn response(reply: &Reply, request: &Request, status: &str) -> Value {
    let used = reply.tokens;
    let output: Vec<Value> = match status {
        "in_progress" => Vec::new(),
        _ => reply
            .blocks()
            .iter()
            .enumerate()
            .map(|(index, block)| item(reply, index, block))
            .filter(|item| !item.is_null())
            .collect(),
    };
    let mut response = json!({"id": format!("resp_{}", reply.number), "object": "response", "status": status,
        "model": request.body["model"], "output": output,
        "usage": {"input_tokens": used.input, "input_tokens_details": {"cached_tokens": used.cached},
            "output_tokens": used.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used.input + used.output}});
    if status == "incomplete" {
        response["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    response
}
