//! The content of messages and tool calls: texts, files, images, diffs and terminals.

use rethread_core::{Json, TextPart};
use serde::Serialize;
use serde_json::Value;

use super::item::TerminalItem;
use crate::session_view::ItemContent;

/// A part of the content of an item.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Plain text or Markdown.
    Text {
        /// The text.
        text: String,
    },
    /// The address of something that is not included.
    Link {
        /// The address.
        uri: String,
    },
    /// A text file that is included.
    Resource {
        /// Its address.
        uri: String,
        /// Its text; empty if it has none.
        text: String,
    },
    /// An image.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Its media type.
        mime_type: String,
        /// The image in base64.
        data: String,
    },
    /// Changes of files.
    Diff {
        /// The files.
        files: Vec<ChangedFile>,
        /// The changes as a patch; empty if there is none.
        patch: String,
    },
    /// A terminal.
    Terminal(TerminalItem),
    /// Something else, by its type: `audio`.
    Other {
        /// The type.
        kind: String,
    },
}

/// A file that a diff changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// `add`, `delete`, `modify`, …
    pub operation: String,
    /// The path.
    pub path: String,
}

impl ContentPart {
    /// Reads the content of an item. Adjacent texts become one.
    pub(super) fn list(content: &[ItemContent]) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for part in content.iter().filter_map(Self::read) {
            match (parts.last_mut(), part) {
                (Some(Self::Text { text }), Self::Text { text: more }) => text.push_str(&more),
                (_, part) => parts.push(part),
            }
        }
        parts
    }

    fn read(content: &ItemContent) -> Option<Self> {
        match content {
            ItemContent::Text(text) => Some(Self::Text { text: text.clone() }),
            ItemContent::Block(block) => Self::of_block(block),
            ItemContent::Chunk(body) => Self::of_block(&body["content"]),
            ItemContent::Bytes(_) => None,
        }
    }

    fn of_block(block: &Value) -> Option<Self> {
        let inner = if block["type"] == "content" { &block["content"] } else { block };
        if let ("image", Some(data)) = (inner["type"].as_str()?, inner["data"].as_str()) {
            let mime_type = inner["mimeType"].as_str().unwrap_or_default().to_owned();
            return Some(Self::Image { mime_type, data: data.to_owned() });
        }
        TextPart::read(&Json::from(inner.clone())).map(Self::of_part)
    }

    fn of_part(part: TextPart) -> Self {
        match part {
            TextPart::Text(text) => Self::Text { text },
            TextPart::Link(uri) => Self::Link { uri },
            TextPart::Resource { uri, text } => Self::Resource { uri, text },
            TextPart::Diff { changes, patch } => {
                let file = |(operation, path)| ChangedFile { operation, path };
                Self::Diff { files: changes.into_iter().map(file).collect(), patch }
            }
            TextPart::Terminal(id) => Self::Terminal(TerminalItem { id, ..TerminalItem::default() }),
            TextPart::Opaque(kind) => Self::Other { kind },
        }
    }
}
