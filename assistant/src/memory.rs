//! Reads the state of a session from its history: the conversation for the model, and the rules that the user made with
//! "always" and "never". So a session has the same state after it is opened again.

use serde_json::{Value, json};

use crate::model::{Image, Message, Part, Reply, ToolCall, ToolResult, UserPart};

/// A permanent permission or rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Allow,
    Reject,
}

/// The newest rule with this key.
pub(crate) fn rule(history: &[Value], work: &str) -> Option<Rule> {
    let made = history.iter().rev().map(|item| &item["_meta"]["rethread"]["rule"]);
    made.filter(|rule| rule["work"] == work).find_map(|rule| match rule["answer"].as_str() {
        Some("allow") => Some(Rule::Allow),
        Some("reject") => Some(Rule::Reject),
        Some(_) | None => None,
    })
}

/// A rule as it is stored with its tool call.
pub(crate) fn written_rule(work: &str, rule: Rule) -> Value {
    let answer = match rule {
        Rule::Allow => "allow",
        Rule::Reject => "reject",
    };
    json!({"work": work, "answer": answer})
}

/// The metadata of a tool call that restoring the conversation needs: the tool's name, and the index of the answer.
pub(crate) fn written_call(call: &ToolCall, round: usize) -> Value {
    json!({"rethread": {"tool": call.name, "round": round}})
}

/// The metadata of a call that the model has begun. The complete call replaces it.
pub(crate) fn written_begun(tool: &str) -> Value {
    json!({"rethread": {"begun": tool}})
}

/// The conversation for the model.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Conversation {
    /// The earlier turns; the newest summary replaces what was before it. As the protocol requires, refused turns are left
    /// out.
    pub(crate) past: Vec<Message>,
    /// The current turn.
    pub(crate) now: Vec<Message>,
}

/// Reads the conversation from a history.
pub(crate) fn conversation(history: &[Value]) -> Conversation {
    let mut reading = ConversationReader::default();
    for item in history {
        reading.item(item);
    }
    reading.finish()
}

#[derive(Default)]
struct ConversationReader {
    messages: Vec<Message>,
    parts: Vec<Part>,
    results: Vec<ToolResult>,
    round: Option<u64>,
    /// The index of the first message of the current turn, if there is one.
    turn: Option<usize>,
}

impl ConversationReader {
    fn item(&mut self, item: &Value) {
        match item["sessionUpdate"].as_str().unwrap_or_default() {
            "user_message" => {
                self.end_reply();
                self.turn.get_or_insert(self.messages.len());
                self.messages.push(Message::User(user_parts(&item["content"])));
            }
            "agent_message" => {
                // Text after a tool result begins a new answer.
                if !self.results.is_empty() {
                    self.end_reply();
                }
                self.parts.push(Part::Text(text_of(&item["content"])));
            }
            "tool_call_update" => self.call(item),
            "compaction_update" => self.compacted(item),
            "state_update" => self.end_turn(item),
            _ => {}
        }
    }

    fn call(&mut self, item: &Value) {
        let kept = &item["_meta"]["rethread"];
        // Calls that were begun but never completed are left out.
        if kept["begun"].is_string() {
            return;
        }
        if kept["prompt"].is_string() && item["status"] == "completed" {
            return self.prompt_of_server(&item["rawOutput"]["messages"]);
        }
        // A call of another agent, or of the user by a command, becomes text.
        let Some(name) = kept["tool"].as_str() else { return self.foreign_call(item) };
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
        let text = text.unwrap_or_else(|| "the call did not finish".to_owned());
        let images = images_of(&item["content"]);
        self.results.push(ToolResult { id, name: name.to_owned(), text, images, failed });
    }

    fn foreign_call(&mut self, item: &Value) {
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
        self.end_reply();
        // The current turn is not part of the summary.
        let now = self.turn.map(|begin| self.messages.split_off(begin));
        self.messages = vec![summed_up(&summary)];
        self.turn = now.is_some().then_some(1);
        self.messages.extend(now.into_iter().flatten());
    }

    /// Replaces the user's command by the messages of the server's prompt.
    fn prompt_of_server(&mut self, written: &Value) {
        self.end_reply();
        self.messages.truncate(self.turn.unwrap_or(self.messages.len()));
        self.messages.extend(written.as_array().into_iter().flatten().map(written_message));
    }

    fn end_turn(&mut self, item: &Value) {
        self.end_reply();
        if let Some(begin) = self.turn.take()
            && item["stopReason"] == "refusal"
        {
            self.messages.truncate(begin);
        }
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

    fn finish(mut self) -> Conversation {
        self.end_reply();
        let now = self.turn.map(|begin| self.messages.split_off(begin));
        Conversation { past: self.messages, now: now.unwrap_or_default() }
    }
}

/// The beginning of a summary message.
const SUMMED_UP: &str = "[In place of the conversation before this:]\n";

/// The message with the summary of a conversation.
pub(crate) fn summed_up(summary: &str) -> Message {
    Message::user(format!("{SUMMED_UP}{summary}"))
}

/// Whether there is nothing left to summarise.
pub(crate) fn is_summed_up(past: &[Message]) -> bool {
    match past {
        [] => true,
        [Message::User(parts)] => {
            matches!(parts.as_slice(), [UserPart::Text(text)] if text.starts_with(SUMMED_UP))
        }
        _ => false,
    }
}

/// The parts of a prompt for the model.
pub(crate) fn user_parts(content: &Value) -> Vec<UserPart> {
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

/// Decodes a stored message of a server's prompt.
fn written_message(written: &Value) -> Message {
    let content = json!([written["content"]]);
    match written["role"].as_str() {
        Some("assistant") => {
            Message::Assistant(Reply { model: String::new(), parts: vec![Part::Text(text_of(&content))] })
        }
        _ => Message::User(user_parts(&content)),
    }
}

/// The images in the content of a tool call.
pub(crate) fn images_of(content: &Value) -> Vec<Image> {
    let blocks = content.as_array().into_iter().flatten().map(|item| &item["content"]);
    let image = |block: &Value| {
        let (mime, data) = (block["mimeType"].as_str()?, block["data"].as_str()?);
        Some(Image { mime: mime.to_owned(), data: data.to_owned() })
    };
    blocks.filter(|block| block["type"] == "image").filter_map(image).collect()
}

/// Content as text.
pub(crate) fn text_of(content: &Value) -> String {
    content.as_array().into_iter().flatten().filter_map(words).collect()
}

fn words(block: &Value) -> Option<String> {
    match block["type"].as_str()? {
        "content" => words(&block["content"]),
        "text" => block["text"].as_str().map(str::to_owned),
        "resource" => {
            let resource = &block["resource"];
            let said = resource["text"].as_str().unwrap_or("[not text]");
            Some(format!("[{}]\n{said}\n", resource["uri"].as_str().unwrap_or_default()))
        }
        "resource_link" => {
            let word = |name: &str| block[name].as_str().unwrap_or_default();
            Some(format!("[{}]({})\n", word("name"), word("uri")))
        }
        "diff" => block["patch"]["text"].as_str().map(str::to_owned),
        kind @ ("image" | "audio") => Some(format!("[{kind}]\n")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Value {
        json!({"sessionUpdate": "user_message", "content": [{"type": "text", "text": text}]})
    }

    fn says(text: &str) -> Value {
        json!({"sessionUpdate": "agent_message", "content": [{"type": "text", "text": text}]})
    }

    fn idle(reason: &str) -> Value {
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": reason})
    }

    fn call(id: &str, meta: Value, output: Value) -> Value {
        json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "title": "Look", "status": "completed",
            "rawInput": {}, "rawOutput": output, "_meta": meta})
    }

    fn own(id: &str) -> Value {
        call(id, json!({"rethread": {"tool": "read", "round": 0}}), json!({"text": "found"}))
    }

    /// A short description of each message.
    fn described(messages: &[Message]) -> Vec<String> {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Call(call) => format!("<{}>", call.id),
            Part::Thought { .. } | Part::Opaque(_) => "?".to_owned(),
        };
        let user = |part: &UserPart| match part {
            UserPart::Text(text) | UserPart::Resource { text, .. } => text.clone(),
            UserPart::Image { mime, .. } => mime.clone(),
        };
        let message = |message: &Message| match message {
            Message::User(parts) => format!("user: {}", parts.iter().map(user).collect::<String>()),
            Message::Assistant(reply) => {
                format!("model: {}", reply.parts.iter().map(part).collect::<String>())
            }
            Message::Tools(results) => {
                let ids: Vec<_> = results.iter().map(|result| result.id.as_str()).collect();
                format!("tools: {}", ids.join(" "))
            }
        };
        messages.iter().map(message).collect()
    }

    #[test]
    fn the_current_turn_is_separate() {
        let read =
            conversation(&[user("one"), own("a"), own("b"), says("done"), idle("end_turn"), user("two")]);
        assert_eq!(described(&read.past), ["user: one", "model: <a><b>", "tools: a b", "model: done"]);
        assert_eq!(described(&read.now), ["user: two"]);
    }

    #[test]
    fn a_refused_turn_is_left_out() {
        let turns = [user("one"), says("yes"), idle("end_turn"), user("bad"), own("a"), says("no")];
        let read = conversation(&[&turns[..], &[idle("refusal"), user("two")]].concat());
        assert_eq!(described(&read.past), ["user: one", "model: yes"]);
        assert_eq!(described(&read.now), ["user: two"]);
    }

    #[test]
    fn a_summary_replaces_the_earlier_turns_but_not_its_own() {
        let summed = json!({"sessionUpdate": "compaction_update", "status": "completed",
            "summary": [{"type": "text", "text": "SUM"}]});
        let turns = [user("one"), says("yes"), idle("end_turn"), user("two"), own("a"), summed, own("b")];
        let read = conversation(&turns);
        assert_eq!(described(&read.past), ["user: [In place of the conversation before this:]\nSUM"]);
        assert_eq!(described(&read.now), ["user: two", "model: <a>", "tools: a", "model: <b>", "tools: b"]);
        let later = conversation(&[&turns[..], &[idle("refusal"), user("three")]].concat());
        assert_eq!(described(&later.past), described(&read.past), "the summary is not part of the turn");
    }

    #[test]
    fn foreign_calls_become_text() {
        let other = json!({"sessionUpdate": "tool_call_update", "toolCallId": "x", "title": "Edit a",
            "status": "completed", "content": [{"type": "diff", "changes": [], "patch": {"text": "-a\n+b\n"}}]});
        let read = conversation(&[user("one"), other, own("a"), idle("end_turn")]);
        assert_eq!(described(&read.past), ["user: one", "model: [Edit a]\n-a\n+b\n<a>", "tools: a"]);
    }

    #[test]
    fn a_prompt_of_a_server_replaces_its_command() {
        let message =
            |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        let messages =
            json!([message("user", "Greet."), message("assistant", "Hi."), message("user", "Now.")]);
        let meta = json!({"rethread": {"prompt": "s.greet"}});
        let read =
            conversation(&[user("/s.greet"), call("p", meta, json!({"messages": messages})), says("ok")]);
        assert_eq!(described(&read.now), ["user: Greet.", "model: Hi.", "user: Now.", "model: ok"]);
    }
}
