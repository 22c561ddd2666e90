//! One session of the assistant: its tools, its MCP servers, and what it says when it is opened.

use std::sync::Arc;

use serde_json::{Value, json};

use super::command;
use super::tools::Toolbox;
use crate::author::{Opening, Voice};
use crate::mcp::{self, Place, Servers};
use crate::wire::RpcError;

/// What the assistant keeps of a session while it is open.
pub struct Session {
    pub(super) voice: Voice,
    pub(super) toolbox: Toolbox,
    pub(super) servers: Arc<Servers>,
    /// What the client wants said to the model.
    pub(super) system_prompt: Option<Value>,
}

impl Session {
    /// Connects its servers. One that is not there is told of, and the session goes on without it.
    pub(super) async fn open(
        opening: Opening,
        limits: mcp::Limits,
        keys: Vec<String>,
    ) -> Result<Self, RpcError> {
        let Opening { cwd, roots, servers, system_prompt, voice, .. } = opening;
        let roots: Vec<_> = std::iter::once(cwd).chain(roots).collect();
        // Neither a command nor a server is to read the keys of models.
        let toolbox = Toolbox::new(roots.clone()).without_variables(keys.clone());
        let (configs, wrong) = mcp::from_acp(&json!(servers).into());
        for error in wrong {
            voice.notice("warning", &error.to_string(), None).await;
        }
        let place = Place { cwd: roots[0].clone(), roots, hidden: keys };
        let (servers, failures) = Servers::connect(configs, place, limits).await;
        for failure in failures {
            voice.notice("warning", &failure.to_string(), Some(&failure.remedy)).await;
        }
        for note in servers.notes() {
            voice.notice("info", &format!("MCP server {}: {}", note.server, note.text), None).await;
        }
        let session = Self { voice, toolbox, servers: Arc::new(servers), system_prompt };
        session.tell_commands().await;
        session.follow_servers();
        Ok(session)
    }

    async fn tell_commands(&self) {
        self.voice.commands(&command::all(&self.servers)).await;
    }

    /// What the servers offer may change while the session is open.
    fn follow_servers(&self) {
        let (voice, servers) = (self.voice.clone(), Arc::downgrade(&self.servers));
        let mut changes = self.servers.changes();
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(servers) = servers.upgrade() else { return };
                voice.commands(&command::all(&servers)).await;
            }
        });
    }

    /// What the session cost so far, in US dollars.
    pub(super) fn cost(history: &[Value]) -> Option<f64> {
        let told = history.iter().rev().filter(|item| item["sessionUpdate"] == "usage_update");
        told.filter_map(|item| item["cost"]["amount"].as_f64()).next()
    }
}
