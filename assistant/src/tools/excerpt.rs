//! Text that fits: the beginning of a text, the part of a line around a match, the two ends of a flood, a path on one
//! line.

use std::collections::VecDeque;
use std::path::Path;

use super::visible::visible_line;

/// How much text a list of paths may have.
pub(super) const MOST_LISTED: usize = 64 * 1024;

/// The beginning of a text within this many bytes, with a mark if that is not all.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most { text.to_owned() } else { format!("{}…", &text[..floor(text, most)]) }
}

/// The part of a line of at most so many bytes that has the byte `at`, with marks where something is left out.
pub(super) fn around(line: &str, at: usize, most: usize) -> String {
    if line.len() <= most {
        return line.to_owned();
    }
    // Some of what is before it, too.
    let start = floor(line, at.saturating_sub(most / 4).min(line.len() - most));
    let end = floor(line, start + most);
    let (before, behind) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{}{behind}", &line[start..end])
}

/// A path on one line: a line feed in a name would look like the end of it.
pub(super) fn name(path: &Path) -> String {
    visible_line(&path.display().to_string())
}

/// A number of things in words: `1 line`, `2 lines`.
pub(super) fn counted(number: usize, one: &str, several: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {several}") }
}

/// Bytes as text. What is none becomes a mark, and so does the zero byte, which many a store does not take.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{2400}")
}

/// Bytes that may end amid a character, without what there is of it.
pub(super) fn whole(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Ok(_) | Err(_) => {
            // What is no text earlier on does not change where the last character begins.
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

/// The largest character boundary that is not behind `at`.
fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The beginning and the end of something long.
#[derive(Debug)]
pub(super) struct HeadAndTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most_head: usize,
    most_tail: usize,
    total: u64,
}

impl HeadAndTail {
    /// Nothing yet; this much of the beginning and of the end will be kept.
    pub(super) fn new(most_head: usize, most_tail: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), most_head, most_tail, total: 0 }
    }

    /// Takes more, and gives the part of it that belongs to the beginning.
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

    /// Says whether there is more than the beginning.
    pub(super) fn is_over(&self) -> bool {
        self.total > self.head.len() as u64
    }

    /// How many bytes between the beginning and the end are not kept.
    pub(super) fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// The end, as far as it is not the beginning, from its first whole character on.
    pub(super) fn tail(&self) -> Vec<u8> {
        let inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
        let halves = self.tail.iter().take(3).take_while(inside).count();
        self.tail.iter().skip(halves).copied().collect()
    }

    /// Both as text, with a word about what is left out.
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
    fn the_end_begins_with_a_whole_character() {
        let mut kept = HeadAndTail::new(0, 3);
        kept.push("éé".as_bytes());
        assert_eq!(kept.tail(), "é".as_bytes());
    }

    #[test]
    fn of_a_flood_both_ends_are_kept() {
        let mut kept = HeadAndTail::new(4, 4);
        assert_eq!(kept.push(b"abc"), b"abc");
        assert_eq!(kept.push(b"defgh"), b"d");
        assert_eq!((kept.left_out(), kept.text().as_str()), (0, "abcdefgh"));
        assert_eq!(kept.push(b"ijk"), b"");
        assert_eq!((kept.left_out(), kept.text().as_str()), (3, "abcd\n[3 bytes are left out here]\nhijk"));
    }
}
