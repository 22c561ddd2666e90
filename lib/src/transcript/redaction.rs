//! Replaces what looks like a secret in the turns and the outline of a session.

use super::content::ContentPart;
use super::event::TranscriptEvent;
use super::item::{TerminalItem, TranscriptItem};
use super::outline::SessionOutline;
use super::turn::TranscriptTurn;
use crate::secret::SecretFinder;

impl TranscriptTurn {
    /// Replaces what looks like a secret.
    pub fn redact(&mut self, finder: &mut SecretFinder) {
        items(&mut self.items, finder);
        if let Some(error) = self.end.as_mut().and_then(|end| end.error.as_mut()) {
            text(error, finder);
        }
    }
}

impl SessionOutline {
    /// Replaces what looks like a secret in the title and in the beginnings of prompts.
    pub fn redact(&mut self, finder: &mut SecretFinder) {
        let prompts = self.turns.iter_mut().map(|turn| &mut turn.prompt);
        self.title.iter_mut().chain(prompts).for_each(|words| text(words, finder));
    }
}

fn items(list: &mut [TranscriptItem], finder: &mut SecretFinder) {
    for item in list {
        match item {
            TranscriptItem::User { content, .. }
            | TranscriptItem::Agent { content, .. }
            | TranscriptItem::Thought { content, .. }
            | TranscriptItem::Compaction { content, .. } => parts(content, finder),
            TranscriptItem::Tool(tool) => {
                text(&mut tool.title, finder);
                parts(&mut tool.content, finder);
            }
            TranscriptItem::Terminal(shown) => terminal(shown, finder),
            TranscriptItem::Plan(plan) => {
                let steps = plan.steps.iter_mut().map(|step| &mut step.content);
                steps.chain(&mut plan.text).for_each(|words| text(words, finder));
            }
            TranscriptItem::Subagent(subagent) => {
                text(&mut subagent.title, finder);
                items(&mut subagent.items, finder);
            }
            TranscriptItem::Event(event) => redact_event(event, finder),
        }
    }
}

fn redact_event(event: &mut TranscriptEvent, finder: &mut SecretFinder) {
    match event {
        TranscriptEvent::AgentLost { reason } => text(reason, finder),
        TranscriptEvent::QuestionOpen { title } => text(title, finder),
        TranscriptEvent::AgentBound { .. }
        | TranscriptEvent::Forked
        | TranscriptEvent::PromptDropped
        | TranscriptEvent::CancelAsked => {}
    }
}

fn parts(content: &mut [ContentPart], finder: &mut SecretFinder) {
    for part in content {
        match part {
            ContentPart::Text { text: words } => text(words, finder),
            ContentPart::Link { uri } => text(uri, finder),
            ContentPart::Resource { uri, text: words } => {
                [uri, words].into_iter().for_each(|words| text(words, finder))
            }
            ContentPart::Diff { patch, .. } => text(patch, finder),
            ContentPart::Terminal(shown) => terminal(shown, finder),
            ContentPart::Image { .. } | ContentPart::Other { .. } => {}
        }
    }
}

fn terminal(terminal: &mut TerminalItem, finder: &mut SecretFinder) {
    terminal.command.iter_mut().chain([&mut terminal.output]).for_each(|words| text(words, finder));
}

fn text(words: &mut String, finder: &mut SecretFinder) {
    if let std::borrow::Cow::Owned(redacted) = finder.redact(words) {
        *words = redacted;
    }
}
