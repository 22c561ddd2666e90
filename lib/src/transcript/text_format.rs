//! The formats in which a session is written for people, as one choice.

use super::markdown::ToolDetail;
use super::outline::SessionOutline;
use super::scan::JournalDamage;
use super::turn::TranscriptTurn;
use super::{html, markdown};

/// A format for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Markdown with all details.
    Markdown,
    /// A web page.
    Html,
}

impl TextFormat {
    /// What comes before the turns.
    #[must_use]
    pub fn head(self, outline: &SessionOutline) -> String {
        match self {
            Self::Markdown => markdown::head(outline),
            Self::Html => html::head(outline),
        }
    }

    /// One turn.
    #[must_use]
    pub fn turn(self, turn: &TranscriptTurn) -> String {
        match self {
            Self::Markdown => markdown::turn(turn, ToolDetail::Full),
            Self::Html => html::turn(turn),
        }
    }

    /// What comes after the turns.
    #[must_use]
    pub fn foot(self, damage: Option<&JournalDamage>) -> String {
        match self {
            Self::Markdown => markdown::foot(damage),
            Self::Html => html::foot(damage),
        }
    }
}
