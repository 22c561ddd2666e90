//! Estimates the tokens of a request, to notice when a conversation becomes too long for the context window. Only the
//! provider counts exactly; its error is `ModelError::ContextTooLong`.

use super::request::{Message, Part, Request, ToolResult, UserPart};

/// The tokens of a message beside its text.
const MESSAGE: u64 = 4;
/// The tokens of an image of a common size.
const IMAGE: u64 = 1_600;
/// The percentage of the window that an estimate may fill, since estimates are inexact.
const SAFE: u64 = 90;

impl Request {
    /// The estimated number of input tokens.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let tools = self.tools.iter().map(|tool| {
            MESSAGE + words(&tool.name) + words(&tool.description) + words(&tool.schema.to_string())
        });
        let system = self.system.as_deref().map_or(0, words);
        system + tools.sum::<u64>() + self.messages.iter().map(Message::estimate).sum::<u64>()
    }

    /// The estimated number of tokens by which request and answer exceed the window; 0 if they fit.
    #[must_use]
    pub fn excess(&self, window: u64) -> u64 {
        let answer = u64::from(self.max_output.unwrap_or(0)).min(window / 2);
        self.estimate().saturating_sub((window - answer) / 100 * SAFE)
    }
}

impl Message {
    /// The estimated number of tokens.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let parts: u64 = match self {
            Self::User(parts) => parts.iter().map(user_part).sum(),
            Self::Assistant(reply) => reply.parts.iter().map(part).sum(),
            Self::Tools(results) => results.iter().map(ToolResult::estimate).sum(),
        };
        MESSAGE + parts
    }
}

impl ToolResult {
    /// The estimated number of tokens.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        MESSAGE + words(&self.name) + words(&self.text) + IMAGE * self.images.len() as u64
    }
}

fn user_part(part: &UserPart) -> u64 {
    match part {
        UserPart::Text(text) => words(text),
        UserPart::Image { .. } => IMAGE,
        UserPart::Resource { uri, text } => MESSAGE + words(uri) + words(text),
    }
}

fn part(part: &Part) -> u64 {
    match part {
        Part::Text(text) => words(text),
        Part::Thought { text, signature } => words(text) + signature.as_deref().map_or(0, words),
        Part::Call(call) => {
            let arguments = match &call.arguments {
                Ok(value) => words(&value.to_string()),
                Err(text) => words(text),
            };
            MESSAGE + words(&call.name) + arguments
        }
        Part::Opaque(value) => words(&value.to_string()),
    }
}

/// Counts four characters as a token, and each character of scripts with a sign for a syllable or a word as one.
fn words(text: &str) -> u64 {
    let plain = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    plain.div_ceil(4) + other
}

#[cfg(test)]
mod tests {
    use super::super::request::{Message, Request};

    #[test]
    fn the_estimate_depends_on_length_and_script() {
        let of =
            |text: &str| Request { messages: vec![Message::user(text)], ..Request::default() }.estimate();
        assert_eq!(of(""), 4);
        assert_eq!(of(&"word".repeat(100)), 104);
        assert_eq!(of("漢字"), 6);
    }

    #[test]
    fn a_request_fits_with_room_for_the_answer() {
        let request = Request { messages: vec![Message::user("word".repeat(800))], ..Request::default() };
        assert_eq!(request.excess(1_000), 0);
        assert_eq!(request.excess(850), 804 - 720);
        assert_eq!(Request { max_output: Some(400), ..request }.excess(1_000), 804 - 540);
    }
}
