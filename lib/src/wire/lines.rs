//! Reads lines from a byte stream, many at a time, each at most so long. Looks at nothing but newlines.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at once when the peer keeps us busy.
const BUSY_READ: usize = 256 * 1024;
const IDLE_READ: usize = 8 * 1024;

/// One line without its newline.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// The bytes of it.
    Text(Bytes),
    /// It was longer than allowed and has been skipped.
    TooLong,
}

/// Splits a byte stream into lines of bounded length.
pub struct LineReader<R> {
    stream: R,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no newline.
    searched: usize,
    limit: usize,
    skipping: bool,
    want: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `limit` bytes.
    pub fn new(stream: R, limit: usize) -> Self {
        Self { stream, buffer: BytesMut::new(), searched: 0, limit, skipping: false, want: IDLE_READ }
    }

    /// Waits for at least one line and gives all that are there; `None` at the end of the stream.
    /// Dropping the future loses nothing.
    pub async fn batch(&mut self) -> std::io::Result<Option<Vec<Line>>> {
        let mut lines = Vec::new();
        loop {
            self.buffer.reserve(self.want);
            let read = self.stream.read_buf(&mut self.buffer).await?;
            if read == 0 {
                return Ok(self.last_line());
            }
            // Small reads keep a quiet connection small, large ones a busy one cheap.
            self.want = if read >= self.want { BUSY_READ } else { IDLE_READ };
            self.split(&mut lines);
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
        }
    }

    fn split(&mut self, lines: &mut Vec<Line>) {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            let line = self.buffer.split_to(self.searched + at).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) || line.len() > self.limit {
                lines.push(Line::TooLong);
            } else if !line.trim_ascii().is_empty() {
                lines.push(Line::Text(line));
            }
        }
        self.searched = self.buffer.len();
        if self.searched > self.limit {
            // The rest of the line is thrown away as it comes; its end makes it known.
            self.buffer = BytesMut::new();
            self.searched = 0;
            self.skipping = true;
        }
    }

    fn last_line(&mut self) -> Option<Vec<Line>> {
        let rest = self.buffer.split().freeze();
        self.searched = 0;
        if std::mem::take(&mut self.skipping) {
            return Some(vec![Line::TooLong]);
        }
        (!rest.trim_ascii().is_empty()).then(|| vec![Line::Text(rest)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8], limit: usize) -> Vec<String> {
        let mut reader = LineReader::new(input, limit);
        let mut all = Vec::new();
        while let Some(batch) = reader.batch().await.unwrap() {
            all.extend(batch.into_iter().map(|line| match line {
                Line::Text(text) => String::from_utf8_lossy(&text).into_owned(),
                Line::TooLong => "TOO LONG".to_owned(),
            }));
        }
        all
    }

    #[tokio::test]
    async fn splits_and_bounds() {
        assert_eq!(lines(b"a\n\n  \nbb\nccc", 10).await, ["a", "bb", "ccc"]);
        assert_eq!(lines(b"aaaaaaaaaaaa\nb\n", 10).await, ["TOO LONG", "b"]);
        let mut long = vec![b'x'; 3_000_000];
        long.extend_from_slice(b"\nnext\n");
        assert_eq!(lines(&long, 100_000).await, ["TOO LONG", "next"]);
        assert_eq!(lines(&[b'x'; 300_000], 1000).await, ["TOO LONG"]);
    }
}
