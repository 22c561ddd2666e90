//! Reads sessions for clients without claiming them: pages of whole items, what comes after an entry, and how things stand.
//! Works from the store, so that it makes no difference who owns a session, or whether anybody does. Encodes the answers;
//! requests and connections are elsewhere.

mod cut;
mod event;
mod follower;
mod item;
mod page;
mod position;
mod standing;
mod stretch;

pub(crate) use follower::{FollowedEntries, FollowedParams, JournalFollower};
pub(crate) use page::{ItemSize, PageOrder, PagePlace, ReadFailure, read_page};
pub(crate) use standing::standing;
