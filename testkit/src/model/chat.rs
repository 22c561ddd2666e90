//! The OpenAI chat completions API, used by most agents and the assistant.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Request};
use super::plan::{Ending, Goes, Reply, ReplyPart};
use super::{Dialect, ParsedRequest, Tool, is_reminder, text_of};

pub(super) struct Chat;

impl Dialect for Chat {
    fn read(body: &Value) -> ParsedRequest {
        let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let prompts = |message: &&Value| message["role"] == "user" && !is_reminder(&message["content"]);
        let last = messages.iter().rposition(|message| prompts(&message));
        let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tool = |tool: &Value| Tool::new(&tool["function"]["name"], &tool["function"]["parameters"]);
        ParsedRequest {
            prompt: last.map(|at| text_of(&messages[at]["content"])).unwrap_or_default(),
            turn: messages.iter().filter(prompts).count(),
            tool_answered: last.is_some_and(|at| messages[at..].iter().any(|said| said["role"] == "tool")),
            tools: tools.iter().filter_map(tool).collect(),
            model: body["model"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn whole(reply: &Reply, request: &Request) -> Value {
        let message = json!({"role": "assistant", "content": reply.text()});
        let mut answer = answer(reply, request, "chat.completion");
        answer["choices"] = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
        answer["usage"] = usage(reply);
        answer
    }

    fn stream(reply: &Reply, request: &Request, events: &mut Events) -> io::Result<()> {
        tell_chunk(reply, request, events, &json!({"role": "assistant", "content": ""}), None)?;
        let mut calls = 0;
        for said in &reply.said {
            let mut tell = |delta: Value| tell_chunk(reply, request, events, &delta, None);
            match said {
                ReplyPart::Raw(event) => events.send(event)?,
                ReplyPart::Text(text) => tell(json!({"content": text}))?,
                ReplyPart::Thought(text) => tell(json!({"reasoning_content": text}))?,
                ReplyPart::Call(call) => {
                    let begun = json!({"index": calls, "id": format!("call_{}_{calls}", reply.number),
                        "type": "function", "function": {"name": call.name, "arguments": ""}});
                    tell(json!({"tool_calls": [begun]}))?;
                    let arguments = json!({"index": calls, "function": {"arguments": call.arguments}});
                    tell(json!({"tool_calls": [arguments]}))?;
                    calls += 1;
                }
            }
            reply.pause();
        }
        if let Goes::NoFurther = reply.finish_as_planned(events)? {
            return Ok(());
        }
        let finish = match calls {
            _ if reply.ending == Ending::Length => "length",
            0 => "stop",
            _ => "tool_calls",
        };
        tell_chunk(reply, request, events, &json!({}), Some(finish))?;
        let mut last = answer(reply, request, "chat.completion.chunk");
        last["usage"] = usage(reply);
        events.send(&last)?;
        events.send_raw("[DONE]")
    }
}

fn tell_chunk(
    reply: &Reply,
    request: &Request,
    events: &mut Events,
    delta: &Value,
    finish: Option<&str>,
) -> io::Result<()> {
    let mut chunk = answer(reply, request, "chat.completion.chunk");
    chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    events.send(&chunk)
}

fn answer(reply: &Reply, request: &Request, object: &str) -> Value {
    json!({"id": format!("chatcmpl-{}", reply.number), "object": object, "created": 1,
        "model": request.body["model"], "choices": []})
}

fn usage(reply: &Reply) -> Value {
    let used = reply.tokens;
    json!({"prompt_tokens": used.input, "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached}})
}
