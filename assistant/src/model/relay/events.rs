//! Splits a stream into whole events, server-sent events or one JSON object on each line, in linear time.

use bytes::{Bytes, BytesMut};
use memchr::memmem;

/// The bytes that were received but not passed on.
#[derive(Default)]
pub(super) struct EventSplitter {
    buffer: BytesMut,
    /// Whether each line is an event; otherwise the stream has server-sent events. Unknown before the first byte.
    by_line: Option<bool>,
}

/// The separators of server-sent events.
const BLANK_LINES: [&[u8]; 3] = [b"\n\n", b"\n\r\n", b"\r\r"];
/// How many bytes that were searched before may be the beginning of a separator.
const OVERLAP: usize = 2;

impl EventSplitter {
    /// Adds a piece and returns the events that are complete now.
    pub(super) fn push(&mut self, piece: &[u8]) -> Bytes {
        let looked = self.buffer.len().saturating_sub(OVERLAP);
        self.buffer.extend_from_slice(piece);
        if self.by_line.is_none() {
            let first = self.buffer.iter().find(|byte| !byte.is_ascii_whitespace());
            self.by_line = first.map(|first| *first == b'{');
        }
        let new = &self.buffer[looked..];
        let end = match self.by_line {
            Some(true) => memchr::memrchr(b'\n', new).map(|at| at + 1),
            Some(false) | None => {
                BLANK_LINES.iter().filter_map(|mark| Some(memmem::rfind(new, mark)? + mark.len())).max()
            }
        };
        end.map_or_else(Bytes::new, |end| self.buffer.split_to(looked + end).freeze())
    }

    /// The number of bytes of the incomplete event.
    pub(super) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the incomplete event at the end of the stream.
    pub(super) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.buffer).freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::EventSplitter;

    /// The output after each piece, and the rest.
    fn passed_on(pieces: &[&str]) -> (Vec<String>, String) {
        let mut events = EventSplitter::default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ready = pieces.iter().map(|piece| text(&events.push(piece.as_bytes()))).collect();
        (ready, text(&events.rest()))
    }

    #[test]
    fn only_whole_events_are_passed_on() {
        let (ready, rest) = passed_on(&["data: a", "\n", "\ndata: b\n\ndata: c\nda", "ta: d\r\n\r", "\n: x"]);
        assert_eq!(ready, ["", "", "data: a\n\ndata: b\n\n", "", "data: c\ndata: d\r\n\r\n"]);
        assert_eq!(rest, ": x");
        let (ready, rest) = passed_on(&["data: a\r", "\rdata"]);
        assert_eq!((ready.concat().as_str(), rest.as_str()), ("data: a\r\r", "data"));
    }

    #[test]
    fn an_event_on_each_line_ends_with_it() {
        let (ready, rest) = passed_on(&["{\"a\":1}\n{\"b\"", ":2}", "\n{"]);
        assert_eq!(ready, ["{\"a\":1}\n", "", "{\"b\":2}\n"]);
        assert_eq!(rest, "{");
    }
}
