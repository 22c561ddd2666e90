//! File access inside the roots of a session, for agents and tools. Nothing outside the roots is opened, even if files
//! are swapped between a check and its use.

pub mod at;
mod file;
mod listing;
mod resolve;

pub use self::file::open_regular_in;
pub use self::file::{Expected, FileError, open_regular, write};
pub use self::listing::{DirEntry, EntryKind, entries};
pub use self::resolve::{LinkPolicy, PathTarget, ResolvedPath, SandboxPath};
pub use self::resolve::{MissingDirs, PathError, Roots};
