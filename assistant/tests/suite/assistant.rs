//! The built-in assistant as its users meet it: through clients of both versions, on a model server of each dialect
//! and on none.

mod accounts;
mod bad_input;
mod cancel;
mod compaction;
mod conversation;
mod offline;
mod permission;
mod remembered;
mod servers;
mod settings;
mod stage;
