//! Cuts a stream between its events, of server-sent ones or of one on each line, in time that grows with its length
//! and no faster.

use bytes::{Bytes, BytesMut};
use memchr::memmem;

/// What has come and was not passed on.
#[derive(Default)]
pub(super) struct EventSplitter {
    buffer: BytesMut,
    /// Whether an event ends with its line, as it does in all streams but those of server-sent events.
    by_line: Option<bool>,
}

/// What stands between server-sent events.
const BLANK_LINES: [&[u8]; 3] = [b"\n\n", b"\n\r\n", b"\r\r"];
/// How many bytes of what was looked through already may be part of such a mark.
const OVERLAP: usize = 2;

impl EventSplitter {
    /// Takes in a piece. Gives the whole events that there are now.
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

    /// How much waits for the end of its event.
    pub(super) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// What is left at the end of the stream.
    pub(super) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.buffer).freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::EventSplitter;

    /// What is passed on after each piece, and what is left.
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
