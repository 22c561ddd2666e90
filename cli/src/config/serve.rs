//! The table `[serve]` of the file: the settings of the server. A server reads them again on SIGHUP.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

/// The settings of `rethread serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeConfig {
    /// How many seconds the turns that run get when the server is asked to end.
    #[serde(default)]
    pub(crate) stop_seconds: Option<u64>,
    /// The directories below which clients of HTTP may open sessions; the home folder if there are none.
    #[serde(default)]
    pub(crate) roots: Vec<PathBuf>,
    /// Whether clients of HTTP may have commands run as MCP servers.
    #[serde(default)]
    pub(crate) allow_client_mcp: bool,
    /// How many hours a token of the web page works.
    #[serde(default)]
    pub(crate) page_hours: Option<NonZeroU32>,
    /// Where other hosts of the same store reach this one, if not where it listens.
    #[serde(default)]
    pub(crate) advertise: Option<String>,
}

impl ServeConfig {
    /// The settings for people and programs; what is not set is null.
    pub(crate) fn shown(&self) -> Value {
        let allowed = Some(true).filter(|_| self.allow_client_mcp);
        json!({
            "stop_seconds": self.stop_seconds, "roots": self.roots, "allow_client_mcp": allowed,
            "page_hours": self.page_hours, "advertise": self.advertise,
        })
    }
}
