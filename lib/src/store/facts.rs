//! The changes that entries make to the session's row in the store: title, directory, roots, agent ids, listing.

use std::sync::Arc;

use rethread_core::Entry;

use super::{Listed, NativeId, RowFacts};

/// What entries change in the session's row.
#[must_use]
pub fn facts<'a>(entries: impl Iterator<Item = &'a Entry>) -> RowFacts {
    let mut facts = RowFacts::default();
    for entry in entries {
        match entry {
            Entry::TitleSet { title, by } => facts.title = Some((title.clone(), *by)),
            Entry::Opened { cwd, roots, .. } => {
                facts.cwd = Some(cwd.clone());
                facts.roots = Some(roots.clone());
            }
            Entry::RootsSet { roots, .. } => facts.roots = Some(roots.clone()),
            Entry::AgentBound { agent, native, .. } => {
                facts.native = Some(NativeId { agent: agent.clone(), id: native.clone() });
            }
            Entry::PromptInserted { .. } => facts.listed = Some(Listed),
            Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::TurnStarted { .. }
            | Entry::StateChanged { .. }
            | Entry::TurnEnded { .. }
            | Entry::Updated { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. } => {}
        }
    }
    facts
}

/// Opening a session to look at it does not make it the newest.
#[must_use]
pub fn touched(entries: &[Arc<Entry>]) -> bool {
    entries.iter().any(|entry| {
        matches!(**entry, Entry::PromptInserted { .. } | Entry::TurnEnded { .. } | Entry::TitleSet { .. })
    })
}
