//! The table `[serve]` of the file: the settings of the server. A server reads them again on SIGHUP.

use serde::Deserialize;
use serde_json::{Value, json};

/// The settings of `rethread serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeConfig {
    /// How many seconds the turns that run get when the server is asked to end.
    #[serde(default)]
    pub(crate) stop_seconds: Option<u64>,
}

impl ServeConfig {
    /// The settings for people and programs; what is not set is null.
    pub(crate) fn shown(&self) -> Value {
        json!({"stop_seconds": self.stop_seconds})
    }
}
