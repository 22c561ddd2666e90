//! What the assistant remembers of a session, all of it read from the session's history: the conversation as a model
//! is to see it, and what the user allowed or refused for good. So a session that is opened again is the same.

use serde_json::{Value, json};

use super::model::{Message, Part, Reply, ToolCall, ToolResult, UserPart};

/// What the user said for good to a kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Allow,
    Reject,
}

/// The rule for this work that was made last.
pub(super) fn rule(history: &[Value], work: &str) -> Option<Rule> {
    let made = history.iter().rev().map(|item| &item["_meta"]["rethread"]["rule"]);
    made.filter(|rule| rule["work"] == work).find_map(|rule| match rule["answer"].as_str() {
        Some("allow") => Some(Rule::Allow),
        Some("reject") => Some(Rule::Reject),
        Some(_) | None => None,
    })
}

/// A rule as it is kept with the tool call at which it was made.
pub(super) fn written_rule(work: &str, rule: Rule) -> Value {
    let answer = match rule {
        Rule::Allow => "allow",
        Rule::Reject => "reject",
    };
    json!({"work": work, "answer": answer})
}

/// What a tool call keeps so that a model can be shown it again: the tool's name, and which answer of the model it
/// was part of.
pub(super) fn written_call(call: &ToolCall, round: usize) -> Value {
    json!({"rethread": {"tool": call.name, "round": round}})
}

/// The conversation as a model is to see it, the newest compaction in the place of what was before it.
pub(super) fn messages(history: &[Value]) -> Vec<Message> {
    let mut reading = Reading::default();
    for item in history {
        reading.item(item);
    }
    reading.finish()
}

#[derive(Default)]
struct Reading {
    messages: Vec<Message>,
    parts: Vec<Part>,
    results: Vec<ToolResult>,
    round: Option<u64>,
}

impl Reading {
    fn item(&mut self, item: &Value) {
        match item["sessionUpdate"].as_str().unwrap_or_default() {
            "user_message" => {
                self.end_reply();
                self.messages.push(Message::User(user_parts(&item["content"])));
            }
            "agent_message" => {
                // What comes after a tool is another answer.
                if !self.results.is_empty() {
                    self.end_reply();
                }
                self.parts.push(Part::Text(text_of(&item["content"])));
            }
            "tool_call_update" => self.call(item),
            "compaction_update" => self.compacted(item),
            "state_update" => self.end_reply(),
            _ => {}
        }
    }

    fn call(&mut self, item: &Value) {
        let kept = &item["_meta"]["rethread"];
        // A call that some other agent made, or the user by a command, is told in words.
        let Some(name) = kept["tool"].as_str() else { return self.told_call(item) };
        let round = kept["round"].as_u64();
        if !self.results.is_empty() && round != self.round {
            self.end_reply();
        }
        self.round = round;
        let id = item["toolCallId"].as_str().unwrap_or_default().to_owned();
        let arguments = match &item["rawInput"] {
            Value::String(broken) => Err(broken.clone()),
            input
            @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Ok(input.clone())
            }
        };
        self.parts.push(Part::Call(ToolCall {
            id: id.clone(),
            name: name.to_owned(),
            arguments,
            signatures: Vec::new(),
        }));
        let failed = item["status"] != "completed";
        let text = item["rawOutput"]["text"].as_str().map(str::to_owned);
        let text = text.unwrap_or_else(|| "it did not come to an end".to_owned());
        self.results.push(ToolResult { id, name: name.to_owned(), text, failed });
    }

    fn told_call(&mut self, item: &Value) {
        let title = item["title"].as_str().unwrap_or("a tool call");
        let output =
            item["rawOutput"]["text"].as_str().map_or_else(|| text_of(&item["content"]), str::to_owned);
        if !self.results.is_empty() {
            self.end_reply();
        }
        self.parts.push(Part::Text(format!("[{title}]\n{output}")));
    }

    fn compacted(&mut self, item: &Value) {
        let summary = text_of(&item["summary"]);
        if item["status"] != "completed" || summary.is_empty() {
            return;
        }
        // The prompt that was being worked on is not part of what was summed up.
        self.end_reply();
        let from = item["_meta"]["rethread"]["kept"].as_u64().unwrap_or(0);
        let from = self.messages.len().saturating_sub(usize::try_from(from).unwrap_or(0));
        let kept = self.messages.split_off(from);
        self.messages = vec![summed_up(&summary)];
        self.messages.extend(kept);
    }

    fn end_reply(&mut self) {
        self.round = None;
        if !self.parts.is_empty() {
            let parts = std::mem::take(&mut self.parts);
            self.messages.push(Message::Assistant(Reply { model: String::new(), parts }));
        }
        if !self.results.is_empty() {
            self.messages.push(Message::Tools(std::mem::take(&mut self.results)));
        }
    }

    fn finish(mut self) -> Vec<Message> {
        self.end_reply();
        self.messages
    }
}

/// The message that stands for a conversation that was summed up.
pub(super) fn summed_up(summary: &str) -> Message {
    Message::user(format!("[The conversation before this was summed up:]\n{summary}"))
}

/// What a prompt says to a model.
pub(super) fn user_parts(content: &Value) -> Vec<UserPart> {
    content.as_array().into_iter().flatten().filter_map(user_part).collect()
}

fn user_part(block: &Value) -> Option<UserPart> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match block["type"].as_str()? {
        "text" => Some(UserPart::Text(text(&block["text"]))),
        "image" => Some(UserPart::Image { mime: text(&block["mimeType"]), data: text(&block["data"]) }),
        "resource" => {
            let resource = &block["resource"];
            let said = resource["text"].as_str().unwrap_or("[not text]").to_owned();
            Some(UserPart::Resource { uri: text(&resource["uri"]), text: said })
        }
        "resource_link" => {
            Some(UserPart::Text(format!("[{}]({})", text(&block["name"]), text(&block["uri"]))))
        }
        other => Some(UserPart::Text(format!("[{other}]"))),
    }
}

fn text_of(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    let text = |block: &Value| match block["type"].as_str() {
        Some("content") => block["content"]["text"].as_str().map(str::to_owned),
        _ => block["text"].as_str().map(str::to_owned),
    };
    blocks.filter_map(text).collect()
}
