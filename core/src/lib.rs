//! The session model of Rethread: what can happen to a session, what is written of it, and how its state
//! follows from what was written. No I/O, no clock, no wire types: all of those meet this crate as plain data.
//!
//! Read [`session`] first: [`Session`] is the fold of its journal, [`decide`] turns an [`Input`] into entries.

mod builder;
mod child;
mod decide;
mod entry;
mod fold;
mod id;
mod input;
mod json;
mod kind;
mod known;
pub mod lease;
mod merge;
mod readable;
mod screen;
pub mod search;
pub mod session;
pub mod stored;
mod title;
mod update;

pub use builder::{JournalBuilder, Origin};
pub use child::Child;
pub use decide::{decide, decides};
pub use entry::{
    Activity, AgentKind, Binding, Dropped, Entry, Millis, PromptStyle, QuestionKind, ServerNote, Stop,
    TitleSource,
};
pub use fold::{Folded, Gathered, fold};
pub use id::{AskId, MessageId, QuestionId, Seq, SessionId, TurnNo};
pub use input::{HeldPrompts, Input, Refusal};
pub use json::{Fields, Json, JsonError, RawMembers};
pub use kind::{
    ContentPlace, ContentStyle, ConversationRole, HistoryRule, IdPlace, Meaning, ReplayRule, Subject,
    UpdateForm, UpdateKind,
};
pub use known::KnownThings;
pub use readable::{Passage, Speaker, TextPart, readable, readable_update};
pub use screen::Screen;
pub use session::Session;
pub use title::{LONGEST_TITLE, clean_title, prompt_title};
pub use update::Update;
