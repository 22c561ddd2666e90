//! A terminal of the agent, as reported to clients: command, output, exit. Does not run anything itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::sync::watch;

use super::emitter::{self, Emitter};
use crate::ids;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by the signal of this name.
    Signal(String),
}

/// A terminal that was announced to clients.
pub struct Terminal {
    emitter: Emitter,
    id: String,
    cancelled: Option<watch::Receiver<bool>>,
}

impl Terminal {
    pub(super) async fn announce(emitter: Emitter, command: &str, cwd: &str) -> Self {
        let id = ids::terminal_id();
        let cancelled = emitter.cancellable(&id);
        let mut update =
            json!({"sessionUpdate": "terminal_update", "terminalId": id, "command": command, "cwd": cwd});
        if cancelled.is_some() {
            update["capabilities"] = json!({"cancel": {}});
        }
        emitter.update(update).await;
        Self { emitter, id, cancelled }
    }

    /// The id of the terminal.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Reports more output.
    pub async fn write(&self, bytes: &[u8]) {
        let data = STANDARD.encode(bytes);
        let update = json!({"sessionUpdate": "terminal_output_chunk", "terminalId": self.id, "data": data});
        self.emitter.update(update).await;
    }

    /// Reports the exit.
    pub async fn exited(&self, exit: &Exit) {
        let status = match exit {
            Exit::Code(code) => json!({"exitCode": code}),
            Exit::Signal(name) => json!({"signal": name}),
        };
        let update = json!({"sessionUpdate": "terminal_update", "terminalId": self.id, "exitStatus": status});
        self.emitter.update(update).await;
    }

    /// Waits until this terminal is cancelled; forever if the agent does not support that.
    pub async fn cancelled(&self) {
        emitter::cancelled(self.cancelled.as_ref()).await;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.emitter.not_cancellable(&self.id);
    }
}
