//! Limits for MCP servers. Nothing here is about one server.

use std::time::Duration;

/// The bounds of every server of a session.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a server may take to be there, its first lists included.
    pub connect: Duration,
    /// How long the first prompt of a session waits for servers that are still being connected, counted from the
    /// opening of the session.
    pub first_prompt: Duration,
    /// How long a call may go without an answer or a word of progress.
    pub call: Duration,
    /// How long a call may take, whatever progress it tells.
    pub call_total: Duration,
    /// The longest message of a server, in bytes.
    pub message: usize,
    /// How much text of one answer is passed on, in bytes.
    pub answer_text: usize,
    /// How much of images, sounds and other data of one answer is passed on, in bytes.
    pub answer_data: usize,
    /// The most tools, prompts or resources of one server.
    pub items: usize,
    /// The longest schema of a tool, in bytes.
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
