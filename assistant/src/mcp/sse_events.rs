//! Parses the server-sent events of an HTTP response, each with a maximum length. Does not interpret them.

use bytes::BytesMut;
use reqwest::Response;

use super::http_common;

/// One server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// The event name; empty if it has none.
    pub(super) name: String,
    pub(super) data: String,
    pub(super) id: Option<String>,
    pub(super) retry: Option<u64>,
}

/// Reads the events of a response.
pub(super) struct SseReader {
    response: Response,
    parser: SseParser,
}

impl SseReader {
    /// A reader for events of at most `longest` bytes.
    pub(super) fn new(response: Response, longest: usize) -> Self {
        Self { response, parser: SseParser::new(longest) }
    }

    /// The next event; none at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<SseEvent>, String> {
        loop {
            if let Some(event) = self.parser.next()? {
                return Ok(Some(event));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.parser.unread.extend_from_slice(&chunk),
                Ok(None) => return Ok(None),
                Err(error) => return Err(http_common::words(&error)),
            }
        }
    }
}

/// Parses bytes into events.
struct SseParser {
    unread: BytesMut,
    /// The event so far.
    event: SseEvent,
    has_data: bool,
    /// Whether the last line ended in a carriage return, so that a following line feed is part of the line ending.
    after_return: bool,
    longest: usize,
}

impl SseParser {
    fn new(longest: usize) -> Self {
        let (unread, event) = (BytesMut::new(), SseEvent::default());
        Self { unread, event, has_data: false, after_return: false, longest }
    }

    fn next(&mut self) -> Result<Option<SseEvent>, String> {
        while let Some(line) = self.line() {
            if !line.is_empty() {
                self.field(&String::from_utf8_lossy(&line));
            } else if self.has_data || self.event.id.is_some() || self.event.retry.is_some() {
                self.has_data = false;
                return Ok(Some(std::mem::take(&mut self.event)));
            } else {
                self.event = SseEvent::default();
            }
            self.check()?;
        }
        self.check()?;
        Ok(None)
    }

    fn check(&self) -> Result<(), String> {
        if self.unread.len() <= self.longest && self.event.data.len() <= self.longest {
            return Ok(());
        }
        Err(format!("it sent an event of more than {} KiB", self.longest / 1024))
    }

    fn line(&mut self) -> Option<BytesMut> {
        if self.after_return && self.unread.first() == Some(&b'\n') {
            let _ = self.unread.split_to(1);
        }
        if !self.unread.is_empty() {
            self.after_return = false;
        }
        let at = memchr::memchr2(b'\n', b'\r', &self.unread)?;
        let line = self.unread.split_to(at);
        self.after_return = self.unread.split_to(1).first() == Some(&b'\r');
        Some(line)
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name.trim_start_matches('\u{feff}') {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            "id" => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(parts: &[&str], longest: usize) -> Result<Vec<SseEvent>, String> {
        let mut parser = SseParser::new(longest);
        let mut events = Vec::new();
        for part in parts {
            parser.unread.extend_from_slice(part.as_bytes());
            while let Some(event) = parser.next()? {
                events.push(event);
            }
        }
        Ok(events)
    }

    #[test]
    fn events_are_parsed_from_pieces_of_any_size() {
        let text =
            ": hello\nevent: endpoint\ndata: /m?s=1\n\ndata: a\r\ndata:b\r\nid: 7\r\n\r\nretry: 50\r\rdata";
        let expected = [
            SseEvent { name: "endpoint".into(), data: "/m?s=1".into(), ..SseEvent::default() },
            SseEvent { data: "a\nb".into(), id: Some("7".into()), ..SseEvent::default() },
            SseEvent { retry: Some(50), ..SseEvent::default() },
        ];
        assert_eq!(parsed(&[text], 1000).unwrap(), expected);
        for at in 0..text.len() {
            assert_eq!(parsed(&[&text[..at], &text[at..]], 1000).unwrap(), expected, "cut at {at}");
        }
    }

    #[test]
    fn an_event_without_end_fails() {
        assert!(parsed(&["data: ", &"x".repeat(2000)], 1000).is_err());
        let lines: Vec<&str> = std::iter::repeat_n("data: xxxxxxxxx\n", 200).collect();
        assert_eq!(parsed(&lines, 1000).unwrap_err(), "it sent an event of more than 0 KiB");
    }
}
