//! Decodes the results of a server: tool results, prompt messages and resource contents. Content above a length limit is
//! replaced by a note.

use rethread_core::{Fields, Json};
use serde_json::Value;

use super::limits::Limits;
use super::scrub::Scrub;

/// The maximum length of a media type.
const LONGEST_WORD: usize = 200;

/// One content block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// The media type.
        mime_type: String,
        /// The bytes in base64.
        data: String,
    },
    /// Audio.
    Audio {
        /// The media type.
        mime_type: String,
        /// The bytes in base64.
        data: String,
    },
    /// A resource with its text.
    TextResource {
        /// The URI.
        uri: String,
        /// The media type, if known.
        mime_type: Option<String>,
        /// The text.
        text: String,
    },
    /// A resource with its bytes.
    BlobResource {
        /// The URI.
        uri: String,
        /// The media type, if known.
        mime_type: Option<String>,
        /// The bytes in base64.
        data: String,
    },
    /// A link to a resource.
    Link {
        /// The URI.
        uri: String,
        /// The title.
        title: String,
    },
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct McpToolResult {
    /// The content blocks, in order.
    pub content: Vec<Content>,
    /// The structured result, if there is one.
    pub structured: Option<Value>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// The content.
    pub content: Content,
}

/// Decodes one answer of a server, within the length limits.
pub(super) struct ResultReader<'a> {
    text_left: usize,
    data_left: usize,
    scrub: &'a Scrub,
}

impl<'a> ResultReader<'a> {
    /// A reader for one answer.
    pub(super) fn new(limits: &Limits, scrub: &'a Scrub) -> Self {
        Self { text_left: limits.answer_text, data_left: limits.answer_data, scrub }
    }

    /// The answer to `tools/call`; `None` if it is invalid.
    pub(super) fn answer(mut self, answer: &Json) -> Option<McpToolResult> {
        let fields = answer.fields();
        let (content, structured) = (fields.get("content"), fields.get("structuredContent"));
        let is_error = fields.get("isError").is_some_and(|is_error| is_error.text() == "true");
        if content.is_none() && structured.is_none() && fields.get("isError").is_none() {
            return None;
        }
        let items = content.map(|content| content.items().unwrap_or_else(|| vec![content.clone()]));
        let mut content: Vec<Content> =
            items.unwrap_or_default().iter().map(|item| self.content(item)).collect();
        let structured = structured.filter(|value| !value.is_null()).and_then(|value| {
            let text = self.scrub.result(value.text());
            let fits = text.len() <= self.text_left;
            if !fits {
                content.push(Content::Text(left_out("the result as data", text.len())));
            }
            fits.then(|| serde_json::from_str(&text).ok()).flatten()
        });
        Some(McpToolResult { content, structured, is_error })
    }

    /// The messages of `prompts/get`; `None` if the answer is invalid.
    pub(super) fn messages(mut self, answer: &Json) -> Option<Vec<PromptMessage>> {
        let items = answer.fields().get("messages")?.items()?;
        let message = |item: &Json| {
            let fields = item.fields();
            let role = fields.text("role").filter(|role| role == "assistant").unwrap_or("user".to_owned());
            let content = self.content(fields.get("content").unwrap_or(item));
            PromptMessage { role, content }
        };
        Some(items.iter().map(message).collect())
    }

    /// The contents of `resources/read`; `None` if the answer is invalid.
    pub(super) fn contents(mut self, answer: &Json) -> Option<Vec<Content>> {
        let items = answer.fields().get("contents")?.items()?;
        Some(items.iter().map(|item| self.resource(&item.fields())).collect())
    }

    fn content(&mut self, item: &Json) -> Content {
        let fields = item.fields();
        match fields.text("type").as_deref() {
            Some("text") => Content::Text(self.text(&fields.text("text").unwrap_or_default())),
            Some("image") => self.data(&fields, "data", |mime_type, data| Content::Image { mime_type, data }),
            Some("audio") => self.data(&fields, "data", |mime_type, data| Content::Audio { mime_type, data }),
            Some("resource") => self.resource(&fields.get("resource").map(Json::fields).unwrap_or_default()),
            Some("resource_link") => self.link(&fields),
            // An unknown or missing type: shows the JSON text.
            Some(_) | None => Content::Text(self.text(item.text())),
        }
    }

    fn link(&mut self, fields: &Fields) -> Content {
        let uri = self.text(&fields.text("uri").unwrap_or_default());
        let title = fields.text("title").or_else(|| fields.text("name"));
        Content::Link { title: self.text(&title.unwrap_or_else(|| uri.clone())), uri }
    }

    fn resource(&mut self, fields: &Fields) -> Content {
        let uri = self.text(&fields.text("uri").unwrap_or_default());
        let mime_type = fields.text("mimeType").map(|kind| word(&kind));
        match fields.text("text") {
            Some(text) => Content::TextResource { uri, mime_type, text: self.text(&text) },
            None => self.data(fields, "blob", |_, data| Content::BlobResource { uri, mime_type, data }),
        }
    }

    fn data(&mut self, fields: &Fields, name: &str, of: impl FnOnce(String, String) -> Content) -> Content {
        let kind = word(&fields.text("mimeType").unwrap_or("application/octet-stream".to_owned()));
        match fields.text(name) {
            None => Content::Text(format!("[{kind} without data]")),
            Some(data) if data.len() > self.data_left => Content::Text(left_out(&kind, data.len())),
            Some(data) => {
                self.data_left -= data.len();
                of(kind, data)
            }
        }
    }

    fn text(&mut self, text: &str) -> String {
        let text = self.scrub.result(text);
        if text.len() <= self.text_left {
            self.text_left -= text.len();
            return text;
        }
        let kept = cut(&text, std::mem::take(&mut self.text_left));
        format!("{kept}\n{}", left_out("the rest", text.len() - kept.len()))
    }
}

fn left_out(what: &str, bytes: usize) -> String {
    format!("[{what} was left out: {} KiB]", bytes.div_ceil(1024))
}

fn word(text: &str) -> String {
    cut(text, LONGEST_WORD).to_owned()
}

/// The beginning of a text, at most this many bytes.
pub(super) fn cut(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Secret;

    const LIMITS: fn() -> Limits = || Limits { answer_text: 20, answer_data: 10, ..Limits::default() };

    fn answer(text: &str) -> Option<McpToolResult> {
        let mut scrub = Scrub::default();
        scrub.add("API_KEY", &Secret::new("hunter2"));
        ResultReader::new(&LIMITS(), &scrub).answer(&Json::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn every_kind_of_content_is_read() {
        let read = answer(
            r#"{"content":[{"type":"text","text":"hi"},{"type":"image","mimeType":"image/png","data":"AA=="},
                {"type":"audio","mimeType":"audio/wav","data":"AA"},
                {"type":"resource","resource":{"uri":"a:b","text":"t"}},
                {"type":"resource","resource":{"uri":"a:c","blob":"AA"}},
                {"type":"resource_link","uri":"a:d","name":"d"}],"isError":true}"#,
        );
        let read = read.unwrap();
        assert!(read.is_error);
        let (image, audio) = ("image/png".to_owned(), "audio/wav".to_owned());
        assert_eq!(
            read.content,
            [
                Content::Text("hi".into()),
                Content::Image { mime_type: image, data: "AA==".into() },
                Content::Audio { mime_type: audio, data: "AA".into() },
                Content::TextResource { uri: "a:b".into(), mime_type: None, text: "t".into() },
                Content::BlobResource { uri: "a:c".into(), mime_type: None, data: "AA".into() },
                Content::Link { uri: "a:d".into(), title: "d".into() },
            ]
        );
    }

    #[test]
    fn long_content_is_replaced_by_a_note() {
        let long = "ä".repeat(30);
        let read = answer(&format!(
            r#"{{"content":[{{"type":"text","text":"{long}"}},{{"type":"image","mimeType":"image/png","data":"{}"}}]}}"#,
            "A".repeat(11)
        ));
        let rest = format!("{}\n[the rest was left out: 1 KiB]", "ä".repeat(10));
        let image = "[image/png was left out: 1 KiB]".to_owned();
        assert_eq!(read.unwrap().content, [Content::Text(rest), Content::Text(image)]);
        let data = answer(&format!(r#"{{"content":[],"structuredContent":{{"a":"{long}"}}}}"#)).unwrap();
        assert_eq!(data.structured, None);
        assert_eq!(data.content, [Content::Text("[the result as data was left out: 1 KiB]".into())]);
    }

    #[test]
    fn secrets_are_removed_and_invalid_members_tolerated() {
        let read = answer(r#"{"content":"hunter2"}"#).unwrap();
        assert_eq!(read.content, [Content::Text("\"[secret]\"".into())]);
        let read = answer(r#"{"structuredContent":{"k":"hunter2"}}"#).unwrap();
        assert_eq!(read.structured.unwrap()["k"], "[secret]");
        assert_eq!(answer("{}"), None);
        assert_eq!(answer("7"), None);
        assert!(answer(r#"{"content":null,"isError":7}"#).is_some());
    }
}
