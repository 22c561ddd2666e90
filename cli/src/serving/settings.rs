//! The settings of a running server that the configuration decides and that a reload replaces.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use rethread::server::{RemoteRules, StdioServers};

use crate::config::{self, Mistake, NotifyConfig};
use crate::paths::Paths;

/// How long the turns that run get when the server is asked to end.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How many hours a token of the web page works.
const PAGE_HOURS: u32 = 12;

/// What a reload can change.
#[derive(Clone, Debug)]
pub(crate) struct ServeSettings {
    /// How long the turns that run get when the server is asked to end.
    pub(crate) stop_limit: Duration,
    /// After how many days without a change sessions are deleted.
    pub(crate) keep_days: Option<NonZeroU32>,
    /// How long a token of the web page works.
    pub(crate) page_life: Duration,
    /// What is run when a session needs its user.
    pub(crate) notify: NotifyConfig,
    /// What clients of HTTP may name.
    pub(crate) rules: RemoteRules,
}

impl ServeSettings {
    /// Reads the configuration. What the command line says wins.
    pub(crate) fn read(file: &Path, stop_seconds: Option<u64>) -> Result<Self, Mistake> {
        let config = config::read(file)?;
        let seconds = stop_seconds.or(config.serve.stop_seconds);
        let stop_limit = seconds.map_or(STOP_LIMIT, Duration::from_secs);
        let stdio_servers =
            if config.serve.allow_client_mcp { StdioServers::Allowed } else { StdioServers::Refused };
        let mut roots = config.serve.roots;
        if roots.is_empty() {
            roots.extend(Paths::user_home());
        }
        let rules = RemoteRules { roots, stdio_servers };
        let hours = config.serve.page_hours.map_or(PAGE_HOURS, NonZeroU32::get);
        let page_life = Duration::from_secs(u64::from(hours) * 3600);
        Ok(Self { stop_limit, page_life, notify: config.notify, keep_days: config.keep_days, rules })
    }
}
