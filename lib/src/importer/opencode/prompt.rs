//! What a user message of opencode has: what a person wrote, or what opencode put there on its own.

use serde_json::Value;

use super::content::file_block;
use crate::importer::updates::text;

/// The text by which opencode records that the user ran a command.
const USER_COMMAND: &str = "The following tool was executed by the user";

/// What a user message has.
#[derive(Default)]
pub(super) struct UserParts {
    /// What a person wrote and attached.
    pub(super) blocks: Vec<Value>,
    /// The text of it.
    pub(super) words: String,
    /// The part that asks for a compaction.
    pub(super) compaction: Option<Value>,
    /// The user ran a command, which is in the next message.
    pub(super) is_command: bool,
}

impl UserParts {
    /// Takes in the next part.
    pub(super) fn add(&mut self, part: &Value) {
        let words = part["text"].as_str().unwrap_or_default();
        match part["type"].as_str().unwrap_or_default() {
            "text" if part["synthetic"] == true => self.is_command |= words == USER_COMMAND,
            "text" if part["ignored"] == true || words.is_empty() => {}
            "text" => {
                self.words.push_str(words);
                self.blocks.push(text(words));
            }
            "file" => self.blocks.extend(file_block(part)),
            "subtask" => {
                let words = part["prompt"].as_str().or_else(|| part["description"].as_str());
                self.blocks.extend(words.map(text));
            }
            "compaction" => self.compaction = Some(part.clone()),
            // An agent that is named is in the text too.
            _ => {}
        }
    }
}
