//! OpenAI's chat completions: opencode, qwen.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Request};
use super::plan::Reply;
use super::{Dialect, Heard, Tool, text_of};

pub(super) struct Chat;

impl Dialect for Chat {
    fn read(body: &Value) -> Heard {
        let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let prompts = |message: &&Value| message["role"] == "user";
        let last = messages.iter().rposition(|message| prompts(&message));
        let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tool = |tool: &Value| Tool::new(&tool["function"]["name"], &tool["function"]["parameters"]);
        Heard {
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
        let mut tell = |delta: Value, finish: Option<&str>| {
            let mut chunk = answer(reply, request, "chat.completion.chunk");
            chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
            events.tell(&chunk)
        };
        tell(json!({"role": "assistant", "content": ""}), None)?;
        for word in &reply.words {
            tell(json!({"content": word}), None)?;
            reply.pause();
        }
        if let Some(call) = &reply.call {
            let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
            let call = json!({"index": 0, "id": format!("call_{}", reply.number), "type": "function",
                "function": function});
            tell(json!({"tool_calls": [call]}), None)?;
        }
        tell(json!({}), Some(if reply.call.is_some() { "tool_calls" } else { "stop" }))?;
        let mut last = answer(reply, request, "chat.completion.chunk");
        last["usage"] = usage(reply);
        events.tell(&last)?;
        events.tell_word("[DONE]")
    }
}

fn answer(reply: &Reply, request: &Request, object: &str) -> Value {
    json!({"id": format!("chatcmpl-{}", reply.number), "object": object, "created": 1,
        "model": request.body["model"], "choices": []})
}

fn usage(reply: &Reply) -> Value {
    let said = reply.words.len();
    json!({"prompt_tokens": 1000, "completion_tokens": said, "total_tokens": 1000 + said})
}
