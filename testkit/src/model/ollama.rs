//! Ollama's own chat: the assistant.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Framing, Request};
use super::plan::{Ending, Goes, Reply, Said};
use super::{Dialect, Heard, chat};

pub(super) struct Ollama;

impl Dialect for Ollama {
    const FRAMING: Framing = Framing::Lines;

    /// It asks as chat completions do.
    fn read(body: &Value) -> Heard {
        chat::Chat::read(body)
    }

    fn whole(reply: &Reply, request: &Request) -> Value {
        last(reply, request, &json!({"role": "assistant", "content": reply.text()}))
    }

    fn stream(reply: &Reply, request: &Request, events: &mut Events) -> io::Result<()> {
        for said in &reply.said {
            let mut message = json!({"role": "assistant", "content": ""});
            match said {
                Said::Text(text) => message["content"] = json!(text),
                Said::Raw(event) => {
                    events.tell(event)?;
                    continue;
                }
                Said::Thought(text) => message["thinking"] = json!(text),
                Said::Call(call) => {
                    let function = json!({"name": call.name, "arguments": call.value()});
                    message["tool_calls"] = json!([{"function": function}]);
                }
            }
            events.tell(&json!({"model": request.body["model"], "message": message, "done": false}))?;
            reply.pause();
        }
        if let Goes::NoFurther = reply.turn_to_the_end(events)? {
            return Ok(());
        }
        events.tell(&last(reply, request, &json!({"role": "assistant", "content": ""})))
    }
}

fn last(reply: &Reply, request: &Request, message: &Value) -> Value {
    let used = reply.tokens;
    let why = if reply.ending == Ending::Length { "length" } else { "stop" };
    json!({"model": request.body["model"], "message": message, "done": true, "done_reason": why,
        "prompt_eval_count": used.input, "prompt_eval_cached_count": used.cached, "eval_count": used.output})
}
