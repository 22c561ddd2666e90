//! The Gemini API, used by gemini and the assistant.

use std::io;

use serde_json::{Value, json};

use super::http::{Events, Request};
use super::plan::{Ending, Goes, Reply, ReplyPart};
use super::{Dialect, ParsedRequest, Tool, text_of};

pub(super) struct Gemini;

impl Dialect for Gemini {
    fn read(body: &Value) -> ParsedRequest {
        let contents = body["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let prompts = |said: &&Value| {
            said["role"] == "user" && !has_result(said) && !text_of(&said["parts"]).is_empty()
        };
        let last = contents.iter().rposition(|said| prompts(&said));
        let groups = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tools = groups.iter().filter_map(|group| group["functionDeclarations"].as_array()).flatten();
        let tool = |tool: &Value| {
            let newer = &tool["parametersJsonSchema"];
            Tool::new(&tool["name"], if newer.is_null() { &tool["parameters"] } else { newer })
        };
        ParsedRequest {
            prompt: last.map(|at| text_of(&contents[at]["parts"])).unwrap_or_default(),
            turn: contents.iter().filter(prompts).count(),
            tool_answered: last.is_some_and(|at| contents[at..].iter().any(has_result)),
            tools: tools.filter_map(tool).collect(),
            model: String::new(),
        }
    }

    fn streams(request: &Request) -> bool {
        request.path.ends_with(":streamGenerateContent")
    }

    /// What it asks aside it wants as JSON of its own: which model to use, who speaks next.
    fn whole(reply: &Reply, request: &Request) -> Value {
        let config = &request.body["generationConfig"];
        let structured =
            config["responseMimeType"] == "application/json" || !config["responseJsonSchema"].is_null();
        let decided = json!({"reasoning": "a test", "next_speaker": "user", "model_choice": "flash",
            "complexity_reasoning": "a test", "complexity_score": 1});
        let text = if structured { decided.to_string() } else { reply.text() };
        said(reply, &json!({"text": text}), StreamPosition::Last)
    }

    fn stream(reply: &Reply, _: &Request, events: &mut Events) -> io::Result<()> {
        let thinks = reply.said.iter().any(|said| matches!(said, ReplyPart::Thought(_)));
        for (index, piece) in reply.said.iter().enumerate() {
            let mut part = match piece {
                ReplyPart::Text(text) => json!({"text": text}),
                ReplyPart::Thought(text) => json!({"text": text, "thought": true}),
                ReplyPart::Raw(event) => {
                    events.send(event)?;
                    continue;
                }
                ReplyPart::Call(call) => json!({"functionCall": {"name": call.name, "args": call.value()}}),
            };
            if thinks && matches!(piece, ReplyPart::Call(_)) {
                part["thoughtSignature"] = json!(format!("signature-{}-{index}", reply.number));
            }
            events.send(&said(reply, &part, StreamPosition::Inside))?;
            reply.pause();
        }
        if let Goes::NoFurther = reply.finish_as_planned(events)? {
            return Ok(());
        }
        events.send(&said(reply, &json!({"text": ""}), StreamPosition::Last))
    }
}

enum StreamPosition {
    Inside,
    Last,
}

fn said(reply: &Reply, part: &Value, place: StreamPosition) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
    match place {
        StreamPosition::Inside => json!({"candidates": [candidate]}),
        StreamPosition::Last => {
            let length = reply.ending == Ending::Length;
            candidate["finishReason"] = json!(if length { "MAX_TOKENS" } else { "STOP" });
            let used = reply.tokens;
            json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": used.input,
                "candidatesTokenCount": used.output, "cachedContentTokenCount": used.cached,
                "totalTokenCount": used.input + used.output}})
        }
    }
}

fn has_result(said: &Value) -> bool {
    let parts = said["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().any(|part| !part["functionResponse"].is_null())
}
