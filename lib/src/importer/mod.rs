//! Imports the sessions that other tools keep on this machine. A reader (`reader`) finds and reads the sessions of one tool
//! and gives them to a sink (`sink`) as updates with times; a recorder makes a journal with turns of them, and the session is
//! stored as one from a file is. A new tool is one file with a reader, and a line in [`readers`]. See `docs/import.md`.

mod claude;
mod codex;
pub mod files;
mod gemini;
mod genai;
mod goose;
mod growth;
mod import;
pub mod lines;
mod opencode;
mod qwen;
mod reader;
mod recorder;
mod sink;
pub mod snapshot;
mod storing;
pub mod tables;
pub mod updates;
mod zed;

pub use import::{SourceImportError, SourceOutcome, SourceReport, ToolImport};
pub use reader::{Found, Places, ReadError, SessionReader, SessionSource, ToolInfo, Unreadable};
pub use recorder::ReadMark;
pub use sink::{DamagedPlace, ReadEvent, ReadNotes, SessionFacts, Sink, SinkClosed, UsedTokens};

/// The readers of all tools, in the order in which they are listed.
#[must_use]
pub fn readers() -> &'static [&'static dyn SessionReader] {
    &[
        &claude::ClaudeReader,
        &codex::CodexReader,
        &gemini::GeminiReader,
        &opencode::OpencodeReader,
        &qwen::QwenReader,
        &goose::GooseReader,
        &zed::ZedReader,
    ]
}
