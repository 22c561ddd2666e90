//! Refuses requests whose length is said in two ways, or in a way that others may understand otherwise: a server in between and
//! this one must not disagree about where a request ends. The HTTP library reads a request with a length and chunks as chunks,
//! and hides that it had a length, so the lines of the heads are looked at before it gets them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http::header::{CONNECTION, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::replies::{Body, refused};

/// Whether a head with two lengths has arrived on a connection. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenHeads(Arc<AtomicBool>);

impl SeenHeads {
    /// The answer to a request of unclear length.
    pub(crate) fn refusal(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
        let first = encodings.next()?;
        let is_plain = first.as_bytes().eq_ignore_ascii_case(b"chunked") && encodings.next().is_none();
        if is_plain && !self.0.load(Ordering::Relaxed) {
            return None;
        }
        let mut response = refused(StatusCode::BAD_REQUEST, "the length of the request is not clear");
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Some(response)
    }
}

/// A stream of a client; the lines that arrive are looked at.
pub(crate) struct WatchedStream<S> {
    stream: S,
    lines: HeadLines,
    seen: SeenHeads,
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(stream: S, seen: SeenHeads) -> Self {
        Self { stream, lines: HeadLines::default(), seen }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let new = buffer.filled().get(before..).unwrap_or_default();
        if self.lines.push(new) == Lengths::Two {
            self.seen.0.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

const LENGTH: &[u8] = b"content-length";
const CHUNKS: &[u8] = b"transfer-encoding";

/// Whether a head has said its length in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    One,
    Two,
}

/// The lines of what arrives. Where a head begins and ends is not followed: no line of a JSON text begins with the name of a
/// header, so bodies need not be told from heads.
#[derive(Default)]
struct HeadLines {
    /// The beginning of the current line, in lower case, while it may be one of the names.
    name: [u8; CHUNKS.len()],
    name_len: usize,
    place: LinePlace,
    has_length: bool,
    has_chunks: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LinePlace {
    #[default]
    Name,
    Rest,
}

impl HeadLines {
    fn push(&mut self, bytes: &[u8]) -> Lengths {
        let mut lengths = Lengths::One;
        let mut rest = bytes.iter();
        while let Some(byte) = rest.next() {
            match (byte, self.place) {
                (b'\n', _) => {
                    if self.end_line() == Lengths::Two {
                        lengths = Lengths::Two;
                    }
                }
                (_, LinePlace::Rest) => {
                    // To the end of the line.
                    let left = rest.as_slice();
                    let skipped = left.iter().position(|byte| *byte == b'\n').unwrap_or(left.len());
                    rest = left[skipped..].iter();
                }
                (b':', LinePlace::Name) => self.end_name(),
                (byte, LinePlace::Name) => self.add(*byte),
            }
        }
        lengths
    }

    fn add(&mut self, byte: u8) {
        match self.name.get_mut(self.name_len) {
            Some(place) => {
                *place = byte.to_ascii_lowercase();
                self.name_len += 1;
            }
            None => self.place = LinePlace::Rest,
        }
    }

    fn end_name(&mut self) {
        let name = &self.name[..self.name_len];
        self.has_length |= name == LENGTH;
        self.has_chunks |= name == CHUNKS;
        self.place = LinePlace::Rest;
    }

    /// An empty line ends a head.
    fn end_line(&mut self) -> Lengths {
        let is_empty = self.place == LinePlace::Name && matches!(&self.name[..self.name_len], [] | [b'\r']);
        (self.name_len, self.place) = (0, LinePlace::Name);
        if !is_empty {
            return Lengths::One;
        }
        let both = std::mem::take(&mut self.has_length) & std::mem::take(&mut self.has_chunks);
        if both { Lengths::Two } else { Lengths::One }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<Lengths> {
        // However it is divided.
        let mut found = Vec::new();
        for size in [1, 2, 7, 1000] {
            let mut lines = HeadLines::default();
            let parts = text.as_bytes().chunks(size).map(|part| lines.push(part));
            found.push(parts.fold(Lengths::One, |all, one| if one == Lengths::Two { one } else { all }));
        }
        found
    }

    #[test]
    fn a_head_with_two_lengths_is_found_wherever_it_is() {
        for text in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTRANSFER-ENCODING:chunked\r\nHost: x\r\ncontent-length:5\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked\n\n",
            "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}POST / HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: x\r\n\r\n",
        ] {
            assert_eq!(lengths(text), [Lengths::Two; 4], "{text:?}");
        }
        for text in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nX-Transfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: content-length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 90\r\n\r\n{\"text\":\n\"transfer-encoding: chunked\"\n\n}\n\n",
        ] {
            assert_eq!(lengths(text), [Lengths::One; 4], "{text:?}");
        }
    }
}
