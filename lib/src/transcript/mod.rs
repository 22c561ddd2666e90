//! A stored session as people read it: an outline with agents, times, usage and turns, and the turns with their items, read
//! from the store without claiming the session. Writes them as Markdown and as a web page. Works turn by turn, so that a
//! long session needs little memory.

mod content;
mod event;
pub mod html;
mod item;
pub mod markdown;
mod outline;
mod redaction;
mod scan;
mod terminal_text;
mod text_format;
mod times;
mod turn;
mod usage;
mod usage_sums;

pub use content::{ChangedFile, ContentPart};
pub use event::TranscriptEvent;
pub use item::{PlanItem, SubagentItem, TerminalItem, ToolItem, TranscriptItem};
pub use outline::{AgentPeriod, SessionOutline, TurnOutline};
pub use scan::{JournalDamage, JournalScan, ScanStep};
pub use text_format::TextFormat;
pub use times::day_and_minute;
pub use turn::{TranscriptTurn, TurnEnding, TurnFold, TurnReader, each_turn, one_turn};
pub use usage::{CostSum, TurnTokens};
pub use usage_sums::{UsageFilter, UsageKey, UsageSum, UsageSums};
