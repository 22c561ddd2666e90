//! The Ollama chat API, used by the assistant.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Framing, Request};
use super::plan::{Ending, Goes, Reply, ReplyPart};
use super::{Dialect, ParsedRequest, chat};

pub(super) struct Ollama;

impl Dialect for Ollama {
    const FRAMING: Framing = Framing::Lines;

    /// It asks as chat completions do.
    fn read(body: &Value) -> ParsedRequest {
        chat::Chat::read(body)
    }

    fn whole(reply: &Reply, request: &Request) -> Value {
        last(reply, request, &json!({"role": "assistant", "content": reply.text()}))
    }

    fn stream(reply: &Reply, request: &Request, events: &mut Events) -> io::Result<()> {
        for said in &reply.said {
            let mut message = json!({"role": "assistant", "content": ""});
            match said {
                ReplyPart::Text(text) => message["content"] = json!(text),
                ReplyPart::Raw(event) => {
                    events.send(event)?;
                    continue;
                }
                ReplyPart::Thought(text) => message["thinking"] = json!(text),
                ReplyPart::Call(call) => {
                    let function = json!({"name": call.name, "arguments": call.value()});
                    message["tool_calls"] = json!([{"function": function}]);
                }
            }
            events.send(&json!({"model": request.body["model"], "message": message, "done": false}))?;
            reply.pause();
        }
        if let Goes::NoFurther = reply.finish_as_planned(events)? {
            return Ok(());
        }
        events.send(&last(reply, request, &json!({"role": "assistant", "content": ""})))
    }
}

fn last(reply: &Reply, request: &Request, message: &Value) -> Value {
    let used = reply.tokens;
    let why = if reply.ending == Ending::Length { "length" } else { "stop" };
    json!({"model": request.body["model"], "message": message, "done": true, "done_reason": why,
        "prompt_eval_count": used.input, "prompt_eval_cached_count": used.cached, "eval_count": used.output})
}
