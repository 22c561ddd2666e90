//! What a server may ask of us, and what it tells: the session's roots are named, changes are noted, sampling
//! and questions to the user are declined.
// MCP means to drop roots one day; the servers that are there ask for them.
#![expect(deprecated, reason = "roots are still what servers ask for")]

use std::path::PathBuf;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorData, Implementation, ListRootsResult, ProtocolVersion, Root,
    RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::watch;

/// Listens to one server. What is not written here is declined by `rmcp`: sampling as a method that is not
/// there, a question to the user as one that the user declines.
pub(super) struct SessionClientHandler {
    pub(super) roots: Vec<PathBuf>,
    /// Counts what the server says has changed.
    pub(super) changed: watch::Sender<u64>,
}

impl SessionClientHandler {
    fn note(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

impl ClientHandler for SessionClientHandler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        let about = Implementation::new("rethread", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, about).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let root = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let root = Root::new(reqwest::Url::from_file_path(path).ok()?);
            Some(match name {
                Some(name) => root.with_name(name),
                None => root,
            })
        };
        Ok(ListRootsResult::new(self.roots.iter().filter_map(root).collect()))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note();
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note();
    }
}
