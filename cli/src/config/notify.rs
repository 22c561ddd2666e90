//! The table `[notify]` of the file: the command that the server runs when a session needs its user. A server reads it again on
//! SIGHUP.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The settings of notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifyConfig {
    /// The program and its arguments; nothing if there are no notifications.
    #[serde(default, deserialize_with = "a_program")]
    pub(crate) command: Vec<String>,
    /// What it is run for; all if there are none.
    #[serde(default)]
    pub(crate) events: Vec<NotifyEvent>,
    /// How many seconds it may run.
    #[serde(default)]
    pub(crate) seconds: Option<NonZeroU64>,
}

/// What a notification is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NotifyEvent {
    /// A session waits for an answer.
    Waiting,
    /// A turn has ended.
    Ended,
    /// A turn has failed.
    Failed,
}

impl NotifyConfig {
    /// Whether the command is run for this.
    pub(crate) fn wants(&self, event: NotifyEvent) -> bool {
        !self.command.is_empty() && (self.events.is_empty() || self.events.contains(&event))
    }

    /// The settings for people and programs; what is not set is null. Arguments may be secret.
    pub(crate) fn shown(&self) -> Value {
        let program = self.command.first();
        let events = Some(&self.events).filter(|events| !events.is_empty());
        json!({"program": program, "events": events, "seconds": self.seconds})
    }
}

fn a_program<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    match words.first().is_none_or(|program| program.trim().is_empty()) {
        true => Err(serde::de::Error::custom("it names no program")),
        false => Ok(words),
    }
}
