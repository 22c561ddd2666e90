//! The text of a terminal, for clients that cannot be shown the terminal itself. Bounded: the end counts most.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rethread_core::{Json, Update, UpdateKind};

/// How much output is kept.
const KEPT: usize = 64 * 1024;

/// A terminal as text.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    command: Option<String>,
    output: Vec<u8>,
    cut: bool,
    exit: Option<String>,
}

impl Screen {
    /// Takes in what the agent says of the terminal.
    pub fn update(&mut self, update: &Update) {
        let fields = update.body.fields();
        if update.kind == UpdateKind::TerminalOutputChunk {
            self.append(&bytes(fields.get("data")));
            return;
        }
        if let Some(command) = fields.text("command") {
            self.command = Some(command);
        }
        if let Some(output) = fields.get("output") {
            self.output.clear();
            self.cut = false;
            self.append(&bytes(output.fields().get("data")));
        }
        if let Some(status) = fields.get("exitStatus").filter(|status| !status.is_null()) {
            self.exit = Some(exit_words(status));
        }
    }

    /// Says whether its command has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.exit.is_some()
    }

    /// What a person would see.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(command) = &self.command {
            text.push_str(&format!("$ {command}\n"));
        }
        if self.cut {
            text.push_str("…\n");
        }
        text.push_str(&String::from_utf8_lossy(&self.output));
        if let Some(exit) = &self.exit {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(exit);
        }
        text
    }

    /// What is shown of a terminal that was never heard of.
    #[must_use]
    pub fn nothing() -> String {
        "(the output of this terminal was not saved)".to_owned()
    }

    fn append(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        if self.output.len() > KEPT {
            let over = self.output.len() - KEPT;
            self.output.drain(..over);
            self.cut = true;
        }
    }
}

fn bytes(data: Option<&Json>) -> Vec<u8> {
    data.and_then(Json::as_string).and_then(|data| STANDARD.decode(data).ok()).unwrap_or_default()
}

fn exit_words(status: &Json) -> String {
    let fields = status.fields();
    match (fields.get("exitCode").and_then(|code| code.read::<i64>().ok()), fields.text("signal")) {
        (Some(code), _) => format!("[exit status {code}]"),
        (None, Some(signal)) => format!("[ended by {signal}]"),
        (None, None) => "[ended]".to_owned(),
    }
}
