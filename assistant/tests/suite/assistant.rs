//! Tests of the built-in assistant through clients of both protocol versions, with a model server of each kind and without
//! a model.

mod accounts;
mod bad_input;
mod cancel;
mod compaction;
mod conversation;
mod fixture;
mod history;
mod offline;
mod permission;
mod servers;
mod settings;
