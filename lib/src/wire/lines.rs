//! Splits a byte stream into lines of limited length. Returns all complete lines of a read together.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The read size while the peer sends a lot.
const BUSY_READ: usize = 128 * 1024;
const IDLE_READ: usize = 8 * 1024;
/// The room for a read that is worth the call.
const LEAST_READ: usize = 2 * 1024;

/// A line without its newline.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// The bytes of the line.
    Text(Bytes),
    /// The line was longer than the limit and was skipped.
    TooLong,
}

/// Splits a byte stream into lines of bounded length.
pub struct LineReader<R> {
    stream: R,
    buffer: BytesMut,
    /// The length of the buffer's prefix that contains no newline.
    searched: usize,
    limit: usize,
    skipping: bool,
    want: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Makes a reader for lines of at most `limit` bytes.
    pub fn new(stream: R, limit: usize) -> Self {
        Self { stream, buffer: BytesMut::new(), searched: 0, limit, skipping: false, want: IDLE_READ }
    }

    /// Waits for at least one line and returns all that are available; `None` at the end of the stream.
    /// Cancellation-safe.
    pub async fn batch(&mut self) -> std::io::Result<Option<Vec<Line>>> {
        let mut lines = Vec::new();
        loop {
            // The rest of a buffer whose lines are still in use is used up first: a new one for each line costs more.
            let least = if self.want == BUSY_READ { BUSY_READ } else { LEAST_READ };
            if self.buffer.capacity() - self.buffer.len() < least {
                self.buffer.reserve(self.want);
            }
            let read = self.stream.read_buf(&mut self.buffer).await?;
            if read == 0 {
                return Ok(self.last_line());
            }
            // Small reads keep the memory of an idle connection small, large reads are cheaper on a busy one.
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
            // The rest of the line is discarded as it arrives; the line is reported at its end.
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
    async fn lines_are_split_and_limited() {
        assert_eq!(lines(b"a\n\n  \nbb\nccc", 10).await, ["a", "bb", "ccc"]);
        assert_eq!(lines(b"aaaaaaaaaaaa\nb\n", 10).await, ["TOO LONG", "b"]);
        let mut long = vec![b'x'; 3_000_000];
        long.extend_from_slice(b"\nnext\n");
        assert_eq!(lines(&long, 100_000).await, ["TOO LONG", "next"]);
        assert_eq!(lines(&[b'x'; 300_000], 1000).await, ["TOO LONG"]);
    }
}
