//! The JSON document of a transcript, written turn by turn so that a long one needs little memory.

use rethread::clock;
use rethread::store::Archived;
use rethread::transcript::{JournalDamage, SessionOutline, TranscriptTurn};
use serde_json::{Value, json};

use crate::output::json::json_document;

/// Writes the document piece by piece.
#[derive(Default)]
pub(crate) struct TranscriptDocument {
    turns: usize,
}

impl TranscriptDocument {
    /// The members before the turns, and the beginning of the list.
    pub(crate) fn head(&mut self, outline: &SessionOutline) -> String {
        let facts = json_document(&facts(outline));
        let open = facts.trim_end().strip_suffix('}').unwrap_or_default().trim_end();
        format!("{open},\n  \"turns\": [")
    }

    /// One turn.
    pub(crate) fn turn(&mut self, turn: &TranscriptTurn) -> String {
        let comma = if self.turns > 0 { "," } else { "" };
        self.turns += 1;
        let lines = json_document(turn).lines().map(|line| format!("\n    {line}")).collect::<String>();
        format!("{comma}{lines}")
    }

    /// The end of the list, and the members after it.
    pub(crate) fn foot(&self, damage: Option<&JournalDamage>) -> String {
        let damage = damage.map(|damage| json!({"at": damage.at, "message": damage.message}));
        let damage = json_document(&damage);
        let damage = damage.trim_end().replace('\n', "\n  ");
        let end = if self.turns > 0 { "\n  ]" } else { "]" };
        format!("{end},\n  \"damage\": {damage}\n}}\n")
    }
}

fn facts(outline: &SessionOutline) -> Value {
    let cost = outline.cost();
    json!({
        "id": outline.id,
        "title": outline.title,
        "cwd": outline.cwd,
        "agent": outline.agents.last().map_or(&outline.agent, |period| &period.agent),
        "createdAt": outline.created_at.map(clock::rfc3339),
        "updatedAt": clock::rfc3339(outline.updated_at),
        "archived": outline.archived == Archived::Yes,
        "parent": outline.parent,
        "agents": outline.agents,
        "turnCount": outline.turns.len(),
        "tokens": outline.tokens(),
        "cost": cost,
        "context": outline.context.map(|(used, size)| json!({"used": used, "size": size})),
    })
}
