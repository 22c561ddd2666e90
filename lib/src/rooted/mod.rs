//! Files inside the roots of a session, for whoever opens them in somebody else's name. Nothing outside is ever
//! opened, whatever is swapped between a look and a use. Knows no requests and makes no words for anybody.

pub(crate) mod at;
mod beneath;
mod file;
mod listing;

pub(crate) use self::beneath::{Links, Missing, PathError, Place, Roots, Spot, Whereabouts};
pub(crate) use self::file::{Before, FileError, open_regular, open_regular_in, write};
pub(crate) use self::listing::{Entry, EntryKind, entries};
