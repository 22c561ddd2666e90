//! Capabilities exchanged in `initialize`. A client is sent the real capabilities of the agent plus what Rethread adds.

mod agent;
mod client;

use rethread_core::Fields;

pub use agent::{AgentProfile, as_version_echo};
pub use client::ClientProfile;

/// A capability is present if it is an object; null counts as absent.
fn has_object(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_some_and(|value| value.text().starts_with('{'))
}
