//! Reads sessions for clients without claiming them: pages of whole items, what comes after an entry, and how things stand.
//! Works from the store, so that it makes no difference who owns a session, or whether anybody does. Encodes the answers;
//! requests and connections are elsewhere.

mod cut;
mod event;
mod export;
mod follower;
mod item;
mod outline;
mod page;
mod position;
mod standing;
mod stretch;
mod usage;

pub(crate) use crate::session_file::UnfinishedTurn;
pub(crate) use export::{ExportForm, SessionExport};
pub(crate) use follower::{FollowedEntries, FollowedParams, JournalFollower};
pub(crate) use outline::outline;
pub(crate) use page::{ItemSize, PageOrder, PagePlace, ReadFailure, read_page};
pub(crate) use standing::standing;
pub(crate) use usage::usage;
