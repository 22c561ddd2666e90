//! Writes messages as lines into one buffer, so that a batch goes out in one write.

use rethread_core::Json;

use super::{Id, RpcError};

/// Lines that wait to be written.
#[derive(Default)]
pub struct Out {
    bytes: Vec<u8>,
}

impl Out {
    /// Makes room for about as many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// How many bytes wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Says whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes what waits, and leaves the buffer for reuse when it is given back to `reuse`.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Gives a written buffer back, unless it has grown out of proportion.
    pub fn reuse(&mut self, mut bytes: Vec<u8>) {
        if self.bytes.is_empty() && bytes.capacity() <= 1024 * 1024 {
            bytes.clear();
            self.bytes = bytes;
        }
    }

    /// Adds lines that were made apart, and gives the room of one of the two for the next.
    #[must_use]
    pub fn append(&mut self, mut lines: Self) -> Self {
        if self.bytes.is_empty() {
            return std::mem::replace(self, lines);
        }
        self.bytes.append(&mut lines.bytes);
        lines
    }

    /// A request of ours.
    pub fn request(&mut self, id: &Id, method: &str, params: &Json) {
        self.parts(&[
            "{\"jsonrpc\":\"2.0\",\"id\":",
            id.text(),
            ",\"method\":",
            Json::of(method).text(),
            ",\"params\":",
            params.text(),
            "}",
        ]);
    }

    /// A notification.
    pub fn notification(&mut self, method: &str, params: &Json) {
        let method = Json::of(method);
        self.parts(&["{\"jsonrpc\":\"2.0\",\"method\":", method.text(), ",\"params\":", params.text(), "}"]);
    }

    /// A `session/update` whose session id is JSON text already.
    pub fn update(&mut self, session: &str, update: &Json) {
        self.parts(&[
            "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":",
            session,
            ",\"update\":",
            update.text(),
            "}}",
        ]);
    }

    /// A `session/update` whose session id is JSON text already, and whose update is in parts.
    pub fn update_of(&mut self, session: &str, update: &[&str]) {
        let begin = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":";
        [begin, session, ",\"update\":"].iter().chain(update).for_each(|part| self.part(part));
        self.bytes.extend_from_slice(b"}}\n");
    }

    /// A result.
    pub fn result(&mut self, id: &Id, result: &Json) {
        self.parts(&["{\"jsonrpc\":\"2.0\",\"id\":", id.text(), ",\"result\":", result.text(), "}"]);
    }

    /// An error.
    pub fn error(&mut self, id: &Id, error: &RpcError) {
        let error = error.json();
        self.parts(&["{\"jsonrpc\":\"2.0\",\"id\":", id.text(), ",\"error\":", error.text(), "}"]);
    }

    fn parts(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.part(part));
        self.bytes.push(b'\n');
    }

    fn part(&mut self, part: &str) {
        // Raw text that came over a wire holds no newline, since lines end there; but what was built
        // here from a stored value may have been pretty-printed by whoever wrote it.
        if memchr::memchr2(b'\n', b'\r', part.as_bytes()).is_some() {
            self.bytes.extend(part.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
        } else {
            self.bytes.extend_from_slice(part.as_bytes());
        }
    }
}
