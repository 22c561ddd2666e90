//! Shortens text: the beginning of a text, the part of a line around a match, the head and tail of long output. Also
//! paths on one line and counts with their nouns.

use std::collections::VecDeque;
use std::path::Path;

use super::visible::visible_line;

/// The maximum length of a list of paths, in bytes.
pub(super) const MOST_LISTED: usize = 64 * 1024;

/// The beginning of a text, at most this many bytes, with `…` if it is cut.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most { text.to_owned() } else { format!("{}…", &text[..floor(text, most)]) }
}

/// The part of a line around the byte `at`, at most this many bytes, with `…` where it is cut.
pub(super) fn around(line: &str, at: usize, most: usize) -> String {
    if line.len() <= most {
        return line.to_owned();
    }
    // A quarter of the part is before the match.
    let start = floor(line, at.saturating_sub(most / 4).min(line.len() - most));
    let end = floor(line, start + most);
    let (before, behind) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{}{behind}", &line[start..end])
}

/// A path on one line, with line feeds escaped.
pub(super) fn name(path: &Path) -> String {
    visible_line(&path.display().to_string())
}

/// A number with its noun: `1 line`, `2 lines`.
pub(super) fn counted(number: usize, one: &str, several: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {several}") }
}

/// Bytes as text. Invalid UTF-8 and zero bytes become replacement characters.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{2400}")
}

/// The bytes without an incomplete character at their end.
pub(super) fn whole(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Ok(_) | Err(_) => {
            // Earlier invalid bytes do not change where the last character begins.
            let tail = bytes.len().saturating_sub(3);
            let begins = |byte: &u8| *byte >= 0b1100_0000;
            match bytes[tail..].iter().rposition(begins) {
                Some(at)
                    if std::str::from_utf8(&bytes[tail + at..]).is_err_and(|e| e.error_len().is_none()) =>
                {
                    &bytes[..tail + at]
                }
                _ => bytes,
            }
        }
    }
}

/// The largest character boundary that is at most `at`.
fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Keeps the head and the tail of a long output.
#[derive(Debug)]
pub(super) struct HeadAndTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most_head: usize,
    most_tail: usize,
    total: u64,
}

impl HeadAndTail {
    /// Empty, with the maximum lengths of head and tail.
    pub(super) fn new(most_head: usize, most_tail: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), most_head, most_tail, total: 0 }
    }

    /// Adds bytes and returns those that belong to the head.
    pub(super) fn push<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.most_head - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.most_tail)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.most_tail);
        self.tail.drain(..over);
        self.tail.extend(rest);
        head
    }

    /// Whether there is more than the head.
    pub(super) fn is_over(&self) -> bool {
        self.total > self.head.len() as u64
    }

    /// The number of bytes between head and tail that were dropped.
    pub(super) fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// The tail, from its first whole character on, without bytes of the head.
    pub(super) fn tail(&self) -> Vec<u8> {
        let inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
        let halves = self.tail.iter().take(3).take_while(inside).count();
        self.tail.iter().skip(halves).copied().collect()
    }

    /// Head and tail as text, with a note about what was dropped.
    pub(super) fn text(&self) -> String {
        let left_out = self.left_out();
        if left_out == 0 {
            let all: Vec<u8> = self.head.iter().chain(&self.tail).copied().collect();
            return text(&all);
        }
        let (head, tail) = (text(whole(&self.head)), text(&self.tail()));
        format!("{head}\n[{left_out} bytes are left out here]\n{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::{HeadAndTail, around, shortened, whole};

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("aéb", 4), "aéb");
        assert_eq!(shortened("aéb", 2), "a…");
        assert_eq!([&b"a\xc3"[..], b"\xff\xc3", b"\xff\xc3\xa9", b"a\xff"].map(<[u8]>::len), [2, 2, 3, 2]);
        assert_eq!(
            [&b"a\xc3"[..], b"\xff\xc3", b"\xff\xc3\xa9", b"a\xff"].map(|b| whole(b).len()),
            [1, 1, 3, 2]
        );
    }

    #[test]
    fn a_long_line_is_shown_around_its_match() {
        let line = format!("{}needle{}", "x".repeat(1000), "é".repeat(1000));
        let shown = around(&line, 1000, 100);
        assert!(shown.contains("needle") && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert!(shown.len() <= 100 + 6);
        assert_eq!(around("short", 2, 100), "short");
        assert!(around(&line, 0, 100).starts_with("xxx"));
        assert!(around(&line, line.len() - 1, 100).ends_with('é'));
    }

    #[test]
    fn the_tail_begins_with_a_whole_character() {
        let mut kept = HeadAndTail::new(0, 3);
        kept.push("éé".as_bytes());
        assert_eq!(kept.tail(), "é".as_bytes());
    }

    #[test]
    fn head_and_tail_are_kept() {
        let mut kept = HeadAndTail::new(4, 4);
        assert_eq!(kept.push(b"abc"), b"abc");
        assert_eq!(kept.push(b"defgh"), b"d");
        assert_eq!((kept.left_out(), kept.text().as_str()), (0, "abcdefgh"));
        assert_eq!(kept.push(b"ijk"), b"");
        assert_eq!((kept.left_out(), kept.text().as_str()), (3, "abcd\n[3 bytes are left out here]\nhijk"));
    }
}
