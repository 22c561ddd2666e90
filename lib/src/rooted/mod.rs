//! Sandboxed files: opens, lists and writes files inside the roots of a session on behalf of an agent. Nothing outside the
//! roots is ever opened, even if another process swaps files for links at the same time.
//!
//! [`Roots`] resolves a path to a [`Place`]: an open directory and a name in it. [`open_regular`] and [`write()`] work on a
//! place, [`entries`] lists an open directory. [`at`] has the system calls that are relative to an open directory.

pub mod at;
mod beneath;
mod file;
mod listing;

pub use self::beneath::{Links, Missing, PathError, Place, Roots, Spot, Whereabouts};
pub use self::file::{Before, FileError, open_regular, open_regular_in, write};
pub use self::listing::{Entries, Entry, EntryKind, entries};
