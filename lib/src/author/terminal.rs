//! A terminal of the agent's own as it tells of it: what runs, its output, how it ended. Runs nothing itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::sync::watch;

use super::voice::{self, Voice};
use crate::ids;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal of this name.
    Signal(String),
}

/// A terminal that was announced.
pub struct Terminal {
    voice: Voice,
    id: String,
    cancelled: Option<watch::Receiver<bool>>,
}

impl Terminal {
    pub(super) async fn announce(voice: Voice, command: &str, cwd: &str) -> Self {
        let id = ids::terminal_id();
        let cancelled = voice.cancellable(&id);
        let mut update =
            json!({"sessionUpdate": "terminal_update", "terminalId": id, "command": command, "cwd": cwd});
        if cancelled.is_some() {
            update["capabilities"] = json!({"cancel": {}});
        }
        voice.update(update).await;
        Self { voice, id, cancelled }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// More output.
    pub async fn write(&self, bytes: &[u8]) {
        let data = STANDARD.encode(bytes);
        let update = json!({"sessionUpdate": "terminal_output_chunk", "terminalId": self.id, "data": data});
        self.voice.update(update).await;
    }

    /// The command ended.
    pub async fn exited(&self, exit: &Exit) {
        let status = match exit {
            Exit::Code(code) => json!({"exitCode": code}),
            Exit::Signal(name) => json!({"signal": name}),
        };
        let update = json!({"sessionUpdate": "terminal_update", "terminalId": self.id, "exitStatus": status});
        self.voice.update(update).await;
    }

    /// Waits until it alone is cancelled; for ever if the agent cannot do that.
    pub async fn cancelled(&self) {
        voice::cancelled(self.cancelled.as_ref()).await;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.voice.not_cancellable(&self.id);
    }
}
