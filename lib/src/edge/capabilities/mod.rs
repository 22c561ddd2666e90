//! What agents and clients say of themselves in `initialize`, and what is passed on of it: the truth about the
//! agent, plus what Rethread adds, and nothing else. Each side has its file.

mod agent;
mod client;

use rethread_core::Fields;

pub use agent::{Profile, as_echo};
pub use client::ClientProfile;

/// A capability is there where it is an object; null and nothing are the same.
fn has_object(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_some_and(|value| value.text().starts_with('{'))
}
