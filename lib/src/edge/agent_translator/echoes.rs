//! Detects text that an agent only repeats: a v1 agent may send the prompt back as a user message, and may use the
//! transcript that it was given as its session title.

use rethread_core::{Fields, Json, RawMembers};
use serde_json::value::RawValue;

use super::AgentTranslator;

/// The part of the last prompt that the agent has not repeated yet, without white space.
#[derive(Debug, Default)]
pub(super) struct UnrepeatedPrompt(String);

impl AgentTranslator {
    /// Returns whether a user message chunk only repeats the prompt or the next part of it.
    pub(super) fn is_prompt_echo(&mut self, update: &Fields) -> bool {
        let UnrepeatedPrompt(prompt) = &mut self.unrepeated_prompt;
        let said = update.get("content").map(|content| text_of(content.raw())).unwrap_or_default();
        if said.is_empty() || prompt.is_empty() {
            return false;
        }
        if let Some(rest) = prompt.strip_prefix(said.as_str()) {
            *prompt = rest.to_owned();
            return true;
        }
        // Some agents put embedded resources into the same message.
        said.contains(prompt.as_str())
    }

    /// Records that the agent was given this transcript, whose heading must not become the title.
    pub fn transcript_sent(&mut self, seed: &str) {
        self.transcript_heading = seed.lines().next().map(letters).filter(|heading| !heading.is_empty());
    }

    /// Removes a title that the agent derived from the transcript. Returns whether the update has any other member.
    pub(super) fn remove_transcript_title(&self, update: &mut Fields) -> bool {
        let title = update.text("title").map(|title| letters(&title)).unwrap_or_default();
        if self.transcript_heading.as_ref().is_some_and(|heading| title.contains(heading)) {
            update.take("title");
        }
        update.iter().any(|(name, _)| name != "sessionUpdate")
    }

    pub(super) fn expect_echo_of(&mut self, content: &Json) {
        let blocks = content.raw_items().unwrap_or_default();
        self.unrepeated_prompt = UnrepeatedPrompt(blocks.into_iter().map(text_of).collect());
    }
}

/// The text of a content block without white space, since agents join and trim blocks.
fn text_of(block: &RawValue) -> String {
    RawMembers::of(block).text("text").unwrap_or_default().split_whitespace().collect()
}

/// Keeps only letters and digits, since agents drop punctuation when they derive a title.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}
