//! Sessions as files: one JSON line with what is known of a session, one for each of its entries, one at its end. A file
//! may have several sessions. A session that is exported and imported again is the same session, with its id, its times
//! and the ids that agents use for it. Permissions and other marks of trust are left out, whoever wrote the file.
//!
//! | version | old reader, new file | new reader, old file |
//! |---|---|---|
//! | 1 | - | - |
//!
//! A version is added when entries get a new kind or another meaning: a reader refuses a file of a newer version.

mod canonical;
pub mod copy;
mod export;
mod header;
mod import;
mod line_reader;
mod redaction;
mod sections;
mod untrusted;
pub(crate) mod writer;

pub(crate) use export::UnfinishedTurn;
pub use export::{ExportRedaction, SessionLines, export_session};
pub use header::{FORMAT, SessionFileHeader, VERSION};
pub use import::{ImportError, ImportMode, ImportOutcome, ImportedSession, import_section};
pub(crate) use line_reader::skip_line;
pub use sections::{BrokenLine, FileContent, FileSection, SessionFileError, read_sections};
