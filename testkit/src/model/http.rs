//! As much of HTTP/1.1 as the agents need: one request with a JSON body for each connection, and an answer that is
//! whole or a stream of events.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// The longest line of a head, and the most lines.
const LONGEST_LINE: u64 = 64 * 1024;
const MOST_LINES: usize = 200;
/// The longest body.
const LONGEST_BODY: u64 = 64 * 1024 * 1024;

/// What is asked.
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    /// Null if there is none.
    pub(super) body: Value,
}

/// Reads a request; none if the peer has only looked in.
pub(super) fn read(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let first = line(&mut reader)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let body = body(&mut reader, stream)?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    Ok(Some(Request { method: method.to_owned(), path, body }))
}

/// Answers with JSON and is done.
pub(super) fn answer(mut stream: &TcpStream, status: u16, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let reason = if status == 200 { "OK" } else { "Not Found" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())
}

/// An answer that is told event by event.
pub(super) struct Events<'a> {
    stream: &'a TcpStream,
}

impl<'a> Events<'a> {
    /// Writes the head.
    pub(super) fn begin(mut stream: &'a TcpStream) -> io::Result<Self> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
            transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes())?;
        Ok(Self { stream })
    }

    /// Tells an event that has no name.
    pub(super) fn tell(&mut self, data: &Value) -> io::Result<()> {
        self.chunk(&format!("data: {data}\n\n"))
    }

    /// Tells an event by the name in its `type`.
    pub(super) fn tell_named(&mut self, data: &Value) -> io::Result<()> {
        let name = data["type"].as_str().unwrap_or_default();
        self.chunk(&format!("event: {name}\ndata: {data}\n\n"))
    }

    /// Tells a word that is not JSON.
    pub(super) fn tell_word(&mut self, word: &str) -> io::Result<()> {
        self.chunk(&format!("data: {word}\n\n"))
    }

    /// Ends the answer.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.chunk("")
    }

    fn chunk(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LONGEST_LINE).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Reads the rest of the head and the body that it announces.
fn body(reader: &mut impl BufRead, mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let (mut length, mut chunked, mut asks_first) = (0, false, false);
    for _ in 0..MOST_LINES {
        let line = line(reader)?.to_ascii_lowercase();
        let Some((name, value)) = line.split_once(':') else { break };
        match (name, value.trim()) {
            ("content-length", value) => length = value.parse().map_err(io::Error::other)?,
            ("transfer-encoding", value) => chunked = value.contains("chunked"),
            ("expect", value) => asks_first = value.contains("100-continue"),
            _ => {}
        }
    }
    if asks_first {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if chunked { chunks(reader) } else { exactly(reader, length) }
}

fn chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(reader)?;
        let size = u64::from_str_radix(size.split(';').next().unwrap_or_default(), 16);
        let size = size.map_err(io::Error::other)?;
        let chunk = exactly(reader, size)?;
        line(reader)?;
        if chunk.is_empty() {
            return Ok(body);
        }
        body.extend(chunk);
        check(body.len() as u64)?;
    }
}

fn exactly(reader: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    check(length)?;
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    if body.len() as u64 == length { Ok(body) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn check(length: u64) -> io::Result<()> {
    if length <= LONGEST_BODY { Ok(()) } else { Err(io::Error::other("the body is too long")) }
}
