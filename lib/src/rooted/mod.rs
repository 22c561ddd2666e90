//! Files inside the roots of a session, for whoever opens them in somebody else's name. Nothing outside is ever
//! opened, whatever is swapped between a look and a use. Knows no requests and makes no words for anybody.

// The hosting of files needs less of this than the assistant's tools, which plan, walk and list.
pub(crate) mod at;
#[cfg_attr(not(feature = "assistant"), expect(dead_code, reason = "the assistant's tools need it"))]
mod beneath;
#[cfg_attr(not(feature = "assistant"), expect(dead_code, reason = "the assistant's tools need it"))]
mod file;
#[cfg(feature = "assistant")]
mod listing;

#[cfg(feature = "assistant")]
pub(crate) use self::beneath::{Links, Place, Spot, Whereabouts};
pub(crate) use self::beneath::{Missing, PathError, Roots};
#[cfg(feature = "assistant")]
pub(crate) use self::file::open_regular_in;
pub(crate) use self::file::{Before, FileError, open_regular, write};
#[cfg(feature = "assistant")]
pub(crate) use self::listing::{Entry, EntryKind, entries};
