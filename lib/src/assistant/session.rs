//! One session of the assistant: its tools, its MCP servers, and what it says when it is opened.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::command;
use super::tools::Toolbox;
use crate::author::{Opening, Voice};
use crate::command::GuardianCommand;
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

/// What a session is opened with.
pub(super) struct Means {
    /// How long servers may take, and how much they may say.
    pub(super) limits: mcp::Limits,
    /// The variables that hold keys.
    pub(super) keys: Vec<String>,
    /// Files that hold keys.
    pub(super) private: Vec<PathBuf>,
    /// What keeps commands and servers together.
    pub(super) guardian: Option<GuardianCommand>,
}

impl Session {
    /// Connects its servers. One that is not there is told of, and the session goes on without it.
    pub(super) async fn open(opening: Opening, means: Means) -> Result<Self, RpcError> {
        let Means { limits, keys, private, guardian } = means;
        let Opening { cwd, roots, servers, system_prompt, voice, .. } = opening;
        let roots: Vec<_> = std::iter::once(cwd).chain(roots).collect();
        // Neither a command nor a server is to read the keys of models.
        let toolbox = Toolbox::new(roots.clone()).without_variables(keys.clone()).without_files(private);
        let toolbox = toolbox.guarded(guardian.clone());
        let (configs, wrong) = mcp::from_acp(&json!(servers).into());
        for error in wrong {
            voice.notice("warning", &error.to_string(), None).await;
        }
        let place = Place { cwd: roots[0].clone(), roots, hidden: keys, guardian };
        let (servers, failures) = Servers::connect(configs, place, limits).await;
        for failure in failures {
            voice.notice("warning", &failure.to_string(), Some(&failure.remedy)).await;
        }
        for note in servers.notes() {
            voice.notice("info", &format!("MCP server {}: {}", note.server, note.text), None).await;
        }
        let session = Self { voice, toolbox, servers: Arc::new(servers), system_prompt };
        let mut changes = session.servers.changes();
        changes.mark_unchanged();
        let told = command::all(&session.servers);
        session.voice.commands(&told).await;
        session.follow_servers(changes, told);
        Ok(session)
    }

    /// What the servers offer may change while the session is open. Users are told of commands only, and only of
    /// others than they know.
    fn follow_servers(&self, mut changes: watch::Receiver<u64>, mut told: Vec<command::Described>) {
        let (voice, servers) = (self.voice.clone(), Arc::downgrade(&self.servers));
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(servers) = servers.upgrade() else { return };
                let now = command::all(&servers);
                if now != told {
                    voice.commands(&now).await;
                    told = now;
                }
            }
        });
    }

    /// What the session cost so far, in US dollars.
    pub(super) fn cost(history: &[Value]) -> Option<f64> {
        let told = history.iter().rev().filter(|item| item["sessionUpdate"] == "usage_update");
        told.filter_map(|item| item["cost"]["amount"].as_f64()).next()
    }
}
