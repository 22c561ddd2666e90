//! Entries for a client that is not shown secrets. A secret may be split between chunks, so what an agent says is held back
//! until its turn has ended, folded into whole messages, and redacted then. Prompts and questions are whole already.

use std::collections::BTreeMap;

use rethread_core::{Entry, Folded, Gathered, Subject, Update, UpdateForm, UpdateKind};

use crate::secret::{SecretFinder, redacted_entry};

/// How many bytes are held back. A turn that says more is shown in pieces of this size.
const MOST: usize = 8 * 1024 * 1024;

/// The entries that are held back.
#[derive(Default)]
pub(crate) struct RedactedEntries {
    pending: Gathered,
    /// Those of sub-agents, by the id of the sub-agent, without the envelope.
    children: BTreeMap<String, Gathered>,
    bytes: usize,
    turn: TurnRuns,
    finder: SecretFinder,
}

/// Whether a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TurnRuns {
    #[default]
    No,
    Yes,
}

impl RedactedEntries {
    /// Takes the next item. Gives what can be shown now.
    pub(crate) fn push(&mut self, item: Folded) -> Vec<Folded> {
        match &item.entry {
            Entry::Updated { update, .. } if self.is_held(update) => {
                self.bytes += item.entry.text_len();
                self.hold(item);
                if self.bytes > MOST { self.take() } else { Vec::new() }
            }
            Entry::TurnStarted { .. } => self.border(TurnRuns::Yes, item),
            Entry::TurnEnded { .. } => self.border(TurnRuns::No, item),
            Entry::Updated { .. }
            | Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptInserted { .. }
            | Entry::PromptDropped { .. }
            | Entry::StateChanged { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => vec![self.redact(item)],
        }
    }

    /// Says whether an update may be a part of a text. Between turns only chunks are.
    fn is_held(&self, update: &Update) -> bool {
        let standing = match update.kind.subject() {
            Subject::Commands
            | Subject::Options
            | Subject::SessionInfo
            | Subject::Usage
            | Subject::Notice => true,
            Subject::UserMessage
            | Subject::AgentMessage
            | Subject::Thought
            | Subject::ToolCall
            | Subject::Terminal
            | Subject::Plan
            | Subject::Compaction
            | Subject::Other => false,
        };
        !standing && (self.turn == TurnRuns::Yes || update.kind.meaning().form == UpdateForm::Chunk)
    }

    fn border(&mut self, turn: TurnRuns, item: Folded) -> Vec<Folded> {
        self.turn = turn;
        let mut shown = self.take();
        shown.push(self.redact(item));
        shown
    }

    fn take(&mut self) -> Vec<Folded> {
        self.bytes = 0;
        let mut held = self.pending.take();
        for (child, mut gathered) in std::mem::take(&mut self.children) {
            held.extend(gathered.take().into_iter().map(|item| of_child(&child, item)));
        }
        held.sort_by_key(|item| item.first);
        held.into_iter().map(|item| self.redact(item)).collect()
    }

    fn hold(&mut self, mut item: Folded) {
        // A journal folds only what the agent itself says.
        if let Entry::Updated { update, .. } = &mut item.entry
            && update.kind == UpdateKind::Other
            && !update.id.is_empty()
        {
            let child = std::mem::take(&mut update.id);
            *update = Update::read(update.body.clone());
            return self.children.entry(child).or_default().push(item);
        }
        self.pending.push(item);
    }

    fn redact(&mut self, item: Folded) -> Folded {
        Folded { entry: redacted_entry(item.entry, &mut self.finder), ..item }
    }
}

/// An item of a sub-agent in its envelope again.
fn of_child(child: &str, mut item: Folded) -> Folded {
    if let Entry::Updated { update, .. } = &mut item.entry {
        update.kind = UpdateKind::Other;
        child.clone_into(&mut update.id);
    }
    item
}

#[cfg(test)]
mod tests {
    use rethread_core::{Json, Seq, Stop, TurnNo};
    use serde_json::{Value, json};

    use super::*;

    const SECRET: &str = "sk-abcdefghij0123456789abcdefghij";

    fn shown(entries: Vec<Entry>) -> Vec<Value> {
        let mut redacted = RedactedEntries::default();
        let mut shown = Vec::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let seq = Seq(at as u64 + 1);
            for item in redacted.push(Folded { first: seq, last: seq, entry }) {
                if let Entry::Updated { update, .. } = item.entry {
                    shown.push(update.body.value());
                }
            }
        }
        shown
    }

    fn started() -> Entry {
        Entry::TurnStarted { turn: TurnNo(1), at: 0, state: json!({"state": "running"}).into() }
    }

    fn ended() -> Entry {
        let state = json!({"state": "idle"}).into();
        Entry::TurnEnded { turn: TurnNo(1), stop: Stop::plain("end_turn"), at: 0, state }
    }

    fn chunk(text: &str) -> Json {
        let content = json!({"type": "text", "text": text});
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}).into()
    }

    fn said(body: Json) -> Entry {
        Entry::Updated { update: Update::read(body), known: false }
    }

    fn said_by_child(text: &str) -> Entry {
        let update = Update { kind: UpdateKind::Other, id: "child".to_owned(), body: chunk(text) };
        Entry::Updated { update, known: true }
    }

    #[test]
    fn a_secret_that_is_split_between_chunks_is_not_shown() {
        let (one, two) = SECRET.split_at(9);
        for said in [|text: &str| said(chunk(text)), said_by_child] {
            let other = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "look"});
            let entries =
                vec![started(), said(&format!("it is {one}")), self::said(other.into()), said(two), ended()];
            let shown = shown(entries);
            let text = shown.iter().map(Value::to_string).collect::<String>();
            assert!(text.contains("it is ") && text.contains("look"), "{text}");
            assert!(!text.contains(one) && !text.contains(two), "{text}");
        }
    }

    #[test]
    fn what_an_agent_says_is_held_back_until_its_turn_has_ended() {
        assert!(shown(vec![started(), said(chunk("hello "))]).is_empty());
        let all = shown(vec![started(), said(chunk("hello ")), said(chunk("world")), ended()]);
        assert_eq!(all.len(), 1, "whole messages: {all:#?}");
        assert_eq!(all[0]["content"][0]["text"], "hello world");
        let usage = json!({"sessionUpdate": "usage_update", "used": 1, "size": 2});
        assert_eq!(shown(vec![started(), said(usage.into())]).len(), 1, "it is no part of a text");
    }
}
