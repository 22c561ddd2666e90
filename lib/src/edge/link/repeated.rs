//! Prompts that a version 1 agent repeats as messages of the user while it works on them. The session has them already.

use rethread_core::{Fields, Json};

use super::Link;

/// The text of the last prompt, without white space, as far as the agent has not repeated it.
#[derive(Debug, Default)]
pub(super) struct Repeatable(String);

impl Link {
    /// Says whether a chunk of a user message only repeats the prompt, or a part of it that comes next.
    pub(super) fn repeats_prompt(&mut self, update: &Fields) -> bool {
        let Repeatable(prompt) = &mut self.repeatable;
        let said = update.get("content").map(text_of).unwrap_or_default();
        if said.is_empty() || prompt.is_empty() {
            return false;
        }
        if let Some(rest) = prompt.strip_prefix(said.as_str()) {
            *prompt = rest.to_owned();
            return true;
        }
        // Some put what goes with the prompt into the same message.
        said.contains(prompt.as_str())
    }

    pub(super) fn may_repeat(&mut self, content: &Json) {
        let blocks = content.items().unwrap_or_default();
        self.repeatable = Repeatable(blocks.iter().map(text_of).collect());
    }
}

/// The text of a content block without white space: an agent may join blocks and trim them.
fn text_of(block: &Json) -> String {
    block.fields().text("text").unwrap_or_default().split_whitespace().collect()
}
