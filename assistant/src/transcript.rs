//! Converts a conversation to one text, for the request that asks a model for a summary.

use crate::model::{Message, Part, UserPart};

/// The text of the messages, each with its author.
pub(crate) fn of(messages: &[Message]) -> String {
    messages.iter().map(message).collect::<Vec<_>>().join("\n\n")
}

fn message(message: &Message) -> String {
    match message {
        Message::User(parts) => format!("User: {}", parts.iter().map(user).collect::<Vec<_>>().join("\n")),
        Message::Assistant(reply) => {
            let said: Vec<_> = reply.parts.iter().filter_map(part).collect();
            format!("You: {}", said.join("\n"))
        }
        Message::Tools(results) => {
            let line = |result: &crate::model::ToolResult| {
                let came = if result.failed { "failed" } else { "gave" };
                let images: String =
                    result.images.iter().map(|image| format!(" [an image, {}]", image.mime)).collect();
                format!("[{} {came}: {}{images}]", result.name, result.text)
            };
            results.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

fn user(part: &UserPart) -> String {
    match part {
        UserPart::Text(text) => text.clone(),
        UserPart::Image { mime, .. } => format!("[an image, {mime}]"),
        UserPart::Resource { uri, text } => format!("[{uri}]\n{text}"),
    }
}

fn part(part: &Part) -> Option<String> {
    match part {
        Part::Text(text) => Some(text.clone()),
        Part::Call(call) => {
            let arguments = match &call.arguments {
                Ok(arguments) => arguments.to_string(),
                Err(text) => text.clone(),
            };
            Some(format!("[you called {} with {arguments}]", call.name))
        }
        Part::Thought { .. } | Part::Opaque(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::of;
    use crate::model::{Message, Part, Reply, ToolCall, ToolResult};

    #[test]
    fn each_author_is_named() {
        let call = |id: &str, arguments| {
            let (id, name) = (id.to_owned(), "read".to_owned());
            Part::Call(ToolCall { id, name, arguments, signatures: Vec::new() })
        };
        let parts = vec![
            Part::Text("Let me look.".to_owned()),
            call("1", Ok(json!({"path": "a"}))),
            call("2", Err("{".to_owned())),
        ];
        let result = |text: &str, failed| ToolResult {
            id: "1".to_owned(),
            name: "read".to_owned(),
            text: text.to_owned(),
            images: Vec::new(),
            failed,
        };
        let messages = [
            Message::user("what is it?"),
            Message::Assistant(Reply { model: "m".to_owned(), parts }),
            Message::Tools(vec![result("plum", false), result("no JSON", true)]),
        ];
        let expected = "User: what is it?\n\nYou: Let me look.\n[you called read with {\"path\":\"a\"}]\n\
                        [you called read with {]\n\n[read gave: plum]\n[read failed: no JSON]";
        assert_eq!(of(&messages), expected);
    }
}
