//! The readable parts of content: of the blocks of a message and of the items of a tool call.

use std::borrow::Cow;

use crate::{Fields, Json};

/// A part of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPart {
    /// Plain text or Markdown.
    Text(String),
    /// The address of something that is not included.
    Link(String),
    /// A text file that is included.
    Resource {
        /// Its address.
        uri: String,
        /// Its text; empty if it has none.
        text: String,
    },
    /// Changes of files.
    Diff {
        /// The operation and the path of each change.
        changes: Vec<(String, String)>,
        /// The changes as a patch; empty if there is none.
        patch: String,
    },
    /// The terminal with this id, which has passages of its own.
    Terminal(String),
    /// Something that is no text, by its type: `image`, `audio`.
    Opaque(String),
}

impl TextPart {
    /// Reads a content block or an item of a tool call; nothing if it has no type.
    #[must_use]
    pub fn read(block: &Json) -> Option<Self> {
        part(block)
    }

    /// The part as plain text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Link(uri) => format!("[{uri}]").into(),
            Self::Resource { uri, text } => format!("[{uri}]\n{text}").into(),
            Self::Diff { changes, patch } if patch.is_empty() => {
                let lines = changes.iter().map(|(operation, path)| format!("{operation} {path}"));
                lines.collect::<Vec<_>>().join("\n").into()
            }
            Self::Diff { patch, .. } => patch.into(),
            Self::Terminal(_) => "[terminal]".into(),
            Self::Opaque(kind) => format!("[{kind}]").into(),
        }
    }
}

/// The parts of a list of content blocks or items.
pub(super) fn parts(list: &Json) -> Vec<TextPart> {
    list.items().unwrap_or_default().iter().filter_map(part).collect()
}

/// The part that a content block or item is.
pub(super) fn part(block: &Json) -> Option<TextPart> {
    let fields = block.fields();
    let text = |name: &str| fields.text(name).unwrap_or_default();
    match text("type").as_str() {
        "" => None,
        "text" => Some(TextPart::Text(text("text"))),
        "content" => fields.get("content").and_then(part),
        "resource_link" => Some(TextPart::Link(text("uri"))),
        "resource" => {
            let resource = fields.get("resource").map(Json::fields).unwrap_or_default();
            let member = |name: &str| resource.text(name).unwrap_or_default();
            Some(TextPart::Resource { uri: member("uri"), text: member("text") })
        }
        "diff" => Some(diff(&fields)),
        "terminal" => Some(TextPart::Terminal(text("terminalId"))),
        other => Some(TextPart::Opaque(other.to_owned())),
    }
}

fn diff(fields: &Fields) -> TextPart {
    let changes = fields.get("changes").and_then(Json::items).unwrap_or_default();
    let change = |change: &Json| {
        let change = change.fields();
        let operation = change.text("operation").unwrap_or_else(|| "change".to_owned());
        Some((operation, change.text("path")?))
    };
    let patch = fields.get("patch").and_then(|patch| patch.fields().text("text"));
    TextPart::Diff { changes: changes.iter().filter_map(change).collect(), patch: patch.unwrap_or_default() }
}
