//! Encodes messages as lines into one buffer, so that a batch is written in one system call.

use rethread_core::Json;

use super::{Id, RpcError};

/// A buffer of lines to write.
#[derive(Default)]
pub struct Out {
    bytes: Vec<u8>,
}

impl Out {
    /// Reserves space for about this many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// The number of buffered bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the buffered bytes; give them back to [`Out::reuse`] after writing.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Takes back a written buffer for reuse, unless it is very large.
    pub fn reuse(&mut self, mut bytes: Vec<u8>) {
        if self.bytes.is_empty() && bytes.capacity() <= 1024 * 1024 {
            bytes.clear();
            self.bytes = bytes;
        }
    }

    /// Frees an empty buffer that has room for more than this many bytes.
    pub fn shrink(&mut self, most: usize) {
        if self.bytes.is_empty() && self.bytes.capacity() > most {
            self.bytes = Vec::new();
        }
    }

    /// Appends lines that were encoded separately, and returns an empty buffer for reuse.
    #[must_use]
    pub fn append(&mut self, mut lines: Self) -> Self {
        if self.bytes.is_empty() {
            return std::mem::replace(self, lines);
        }
        self.bytes.append(&mut lines.bytes);
        lines
    }

    /// Adds a message that is encoded already.
    pub fn line(&mut self, message: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.end_line(start);
    }

    /// Encodes a request.
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

    /// Encodes a notification.
    pub fn notification(&mut self, method: &str, params: &Json) {
        let method = Json::of(method);
        self.parts(&["{\"jsonrpc\":\"2.0\",\"method\":", method.text(), ",\"params\":", params.text(), "}"]);
    }

    /// Encodes a `session/update`; `session` is already JSON text.
    pub fn update(&mut self, session: &str, update: &Json) {
        self.parts(&[
            "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":",
            session,
            ",\"update\":",
            update.text(),
            "}}",
        ]);
    }

    /// Encodes a `session/update` whose update is given in parts; `session` is already JSON text.
    pub fn update_of(&mut self, session: &str, update: &[&str]) {
        let begin = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":";
        let start = self.bytes.len();
        for part in [begin, session, ",\"update\":"].iter().chain(update) {
            self.bytes.extend_from_slice(part.as_bytes());
        }
        self.bytes.extend_from_slice(b"}}");
        self.end_line(start);
    }

    /// Encodes a successful response.
    pub fn result(&mut self, id: &Id, result: &Json) {
        self.parts(&["{\"jsonrpc\":\"2.0\",\"id\":", id.text(), ",\"result\":", result.text(), "}"]);
    }

    /// Encodes an error response.
    pub fn error(&mut self, id: &Id, error: &RpcError) {
        let error = error.json();
        self.parts(&["{\"jsonrpc\":\"2.0\",\"id\":", id.text(), ",\"error\":", error.text(), "}"]);
    }

    fn parts(&mut self, parts: &[&str]) {
        let start = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part.as_bytes()));
        self.end_line(start);
    }

    /// Ends the line that begins at `start`.
    fn end_line(&mut self, start: usize) {
        // Text from a wire never contains newlines, but a stored value may have been pretty-printed by its author.
        if let Some(found) = memchr::memchr2(b'\n', b'\r', &self.bytes[start..]) {
            let rest = self.bytes.split_off(start + found);
            self.bytes.extend(rest.into_iter().filter(|byte| !matches!(byte, b'\n' | b'\r')));
        }
        self.bytes.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_inside_a_message_are_left_out() {
        let mut out = Out::default();
        out.update_of("\"s\"", &["{\n  \"a\":", "1,\r\n\"b\":\"c\"\n}"]);
        out.update("\"s\"", &Json::parse("{\"a\": 1}".to_owned()).expect("it is JSON"));
        let lines = String::from_utf8(out.take()).expect("it is text");
        let begin = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":"#;
        let [first, second] =
            [r#"{  "a":1,"b":"c"}}}"#, r#"{"a": 1}}}"#].map(|rest| format!("{begin}{rest}\n"));
        assert_eq!(lines, first + &second);
    }
}
