//! Decisions about an agent that takes prompts in another way than it said when it was bound: it was taken for one
//! that acknowledges prompts, and takes one at a time.

use super::turn::{begin_sent, dropped, ended, insert, started};
use crate::session::OpenPrompt;
use crate::{Dropped, Entry, Millis, PromptStyle, Session, Stop};

/// The agent takes prompts in another way than it said. What it was sent is not sent again: it works on the first
/// such prompt now, and the others follow when that is done.
pub(super) fn found(session: &Session, style: PromptStyle, at: Millis) -> Vec<Entry> {
    let Some(agent) = session.agent.as_ref().filter(|agent| agent.style != style) else { return Vec::new() };
    let named = session.natives.last().map(|native| native.agent.clone());
    let mut entries = vec![Entry::AgentBound {
        generation: agent.generation,
        agent: named.unwrap_or_default(),
        native: agent.native.clone(),
        binding: agent.binding,
        style,
        kind: agent.kind,
    }];
    if style == PromptStyle::OneAtATime && session.turn.is_none() {
        entries.extend(begin_sent(session, session.turns.next(), at));
    }
    entries
}

/// An agent is done with a prompt that it was sent while it worked on another: it was taken for one that can have
/// several. One that it refuses never was part of the conversation.
pub(super) fn finished_early(session: &Session, prompt: &OpenPrompt, stop: Stop, at: Millis) -> Vec<Entry> {
    match (&session.turn, stop.error) {
        (_, Some(error)) => {
            let why = if prompt.cancelled { Dropped::Cancelled } else { Dropped::Refused(error) };
            vec![dropped(prompt, why)]
        }
        (Some(turn), None) => vec![insert(prompt, turn.no, at)],
        (None, None) => {
            let turn = session.turns.next();
            let stop = Stop { reason: stop.reason, error: None };
            vec![started(turn, at), insert(prompt, turn, at), ended(turn, stop, None, at)]
        }
    }
}
