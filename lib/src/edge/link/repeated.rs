//! What an agent only repeats of what it was sent: a prompt that a version 1 agent tells as a message of the user while
//! it works on it, and a transcript that it made its title of.

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

    /// The agent was given this transcript with its prompts.
    pub fn primed(&mut self, seed: &str) {
        self.heading = seed.lines().next().map(letters).filter(|heading| !heading.is_empty());
    }

    /// Takes a title out of an update if the agent made it of the transcript, which is no part of the conversation.
    /// Says whether anything is left.
    pub(super) fn without_heading(&self, update: &mut Fields) -> bool {
        let title = update.text("title").map(|title| letters(&title)).unwrap_or_default();
        if self.heading.as_ref().is_some_and(|heading| title.contains(heading)) {
            update.take("title");
        }
        update.iter().any(|(name, _)| name != "sessionUpdate")
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

/// What agents leave of a text when they make a title of it.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}
