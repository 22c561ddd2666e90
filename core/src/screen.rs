//! The text of a terminal: its command, the end of its output (at most 64 KiB) and how it ended. For transcripts, and for
//! clients that cannot show a terminal.

use crate::{Json, Update, UpdateForm};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The command, output and exit status of one terminal.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    command: Option<String>,
    output: Vec<u8>,
    cut: bool,
    exit: Option<String>,
}

impl Screen {
    /// Applies an update of the terminal.
    pub fn update(&mut self, update: &Update) {
        let fields = update.body.fields();
        if update.kind.meaning().form == UpdateForm::Chunk {
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
            self.exit = Some(exit_text(status));
        }
    }

    /// Returns whether the command has exited.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        self.exit.is_some()
    }

    /// Renders the command line, the output and the exit status as text.
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

    /// The text for a terminal without any update.
    #[must_use]
    pub fn unsaved() -> String {
        "(the output of this terminal was not saved)".to_owned()
    }

    fn append(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        if self.output.len() > MAX_OUTPUT_BYTES {
            let over = self.output.len() - MAX_OUTPUT_BYTES;
            self.output.drain(..over);
            self.cut = true;
        }
    }
}

fn bytes(data: Option<&Json>) -> Vec<u8> {
    data.and_then(Json::as_string).and_then(|data| STANDARD.decode(data).ok()).unwrap_or_default()
}

fn exit_text(status: &Json) -> String {
    let fields = status.fields();
    match (fields.get("exitCode").and_then(|code| code.read::<i64>().ok()), fields.text("signal")) {
        (Some(code), _) => format!("[exit status {code}]"),
        (None, Some(signal)) => format!("[ended by {signal}]"),
        (None, None) => "[ended]".to_owned(),
    }
}
