//! Time and size limits for MCP servers.

use std::time::Duration;

/// The limits for each server of a session.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time limit for connecting a server and reading its lists.
    pub connect: Duration,
    /// How long the first prompt waits for servers that are still connecting, counted from the opening of the session.
    pub first_prompt: Duration,
    /// The time limit of a call without an answer or a progress notification.
    pub call: Duration,
    /// The total time limit of a call.
    pub call_total: Duration,
    /// The maximum length of a message, in bytes.
    pub message: usize,
    /// The maximum length of the text of an answer, in bytes.
    pub answer_text: usize,
    /// The maximum length of images, audio and other data of an answer, in bytes.
    pub answer_data: usize,
    /// The maximum number of tools, prompts or resources of a server.
    pub items: usize,
    /// The maximum length of a tool's schema, in bytes.
    pub schema: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            first_prompt: Duration::from_secs(5),
            call: Duration::from_secs(120),
            call_total: Duration::from_secs(30 * 60),
            message: 16 * 1024 * 1024,
            answer_text: 256 * 1024,
            answer_data: 8 * 1024 * 1024,
            items: 512,
            schema: 64 * 1024,
        }
    }
}
