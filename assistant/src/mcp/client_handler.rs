//! Handles requests and notifications of a server: answers `roots/list`, counts list changes, declines sampling and
//! elicitation.
// MCP deprecates roots, but current servers still request them.
#![expect(deprecated, reason = "servers still request roots")]

use std::path::PathBuf;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorData, Implementation, ListRootsResult, ProtocolVersion, Root,
    RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::watch;

/// The handler for one server. `rmcp` declines all other requests: sampling as an unknown method, elicitation as declined
/// by the user.
pub(super) struct SessionClientHandler {
    pub(super) roots: Vec<PathBuf>,
    /// Counts the server's list changes.
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
