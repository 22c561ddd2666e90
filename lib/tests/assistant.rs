//! The built-in assistant as its users meet it: through clients of both versions, on a model server of each dialect
//! and on none.
#![cfg(feature = "assistant")]

#[path = "assistant/accounts.rs"]
mod accounts;
#[path = "assistant/bad_input.rs"]
mod bad_input;
#[path = "assistant/cancel.rs"]
mod cancel;
#[path = "assistant/compaction.rs"]
mod compaction;
#[path = "assistant/conversation.rs"]
mod conversation;
#[path = "assistant/offline.rs"]
mod offline;
#[path = "assistant/permission.rs"]
mod permission;
#[path = "assistant/remembered.rs"]
mod remembered;
#[path = "assistant/servers.rs"]
mod servers;
#[path = "assistant/settings.rs"]
mod settings;
#[path = "assistant/stage.rs"]
mod stage;
