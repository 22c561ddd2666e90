//! A minimal HTTP/1.1 server: one request with a JSON body per connection, and a whole answer or an event stream.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// The longest line of a head, and the most lines.
const LONGEST_LINE: u64 = 64 * 1024;
const MOST_LINES: usize = 200;
/// The longest body.
const LONGEST_BODY: u64 = 64 * 1024 * 1024;
/// How long a stalled answer waits for its peer to hang up.
const LONGEST_STALL: Duration = Duration::from_secs(30);

/// What is asked.
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    /// The names in small letters.
    pub(super) headers: Vec<(String, String)>,
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
    let headers = headers(&mut reader)?;
    let body = body(&mut reader, stream, &headers)?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    Ok(Some(Request { method: method.to_owned(), path, headers, body }))
}

/// Answers with JSON and is done.
pub(super) fn answer(stream: &TcpStream, status: u16, body: &Value) -> io::Result<()> {
    answer_with(stream, status, &[], body)
}

/// Answers with JSON and further headers and is done.
pub(super) fn answer_with(
    mut stream: &TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &Value,
) -> io::Result<()> {
    let body = body.to_string();
    let reason = if status == 200 { "OK" } else { "Not OK" };
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{more}connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())
}

/// How events are told from each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Framing {
    /// Server-sent events.
    Sse,
    /// A line of JSON each.
    Lines,
}

/// An answer that is told event by event.
pub(super) struct Events<'a> {
    stream: &'a TcpStream,
    framing: Framing,
}

impl<'a> Events<'a> {
    /// Writes the head.
    pub(super) fn begin(mut stream: &'a TcpStream, framing: Framing) -> io::Result<Self> {
        let kind = match framing {
            Framing::Sse => "text/event-stream",
            Framing::Lines => "application/x-ndjson",
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncache-control: no-cache\r\n\
            transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        Ok(Self { stream, framing })
    }

    /// Tells an event that has no name.
    pub(super) fn send(&mut self, data: &Value) -> io::Result<()> {
        self.send_raw(&data.to_string())
    }

    /// Tells an event by the name in its `type`, if it has one.
    pub(super) fn send_named(&mut self, data: &Value) -> io::Result<()> {
        let Some(name) = data["type"].as_str() else { return self.send(data) };
        self.chunk(&format!("event: {name}\ndata: {data}\n\n"))
    }

    /// Tells a word that is not JSON.
    pub(super) fn send_raw(&mut self, word: &str) -> io::Result<()> {
        match self.framing {
            Framing::Sse => self.chunk(&format!("data: {word}\n\n")),
            Framing::Lines => self.chunk(&format!("{word}\n")),
        }
    }

    /// Tells an event that is no JSON. The name is one that Anthropic's readers look into; the others have none.
    pub(super) fn send_invalid_json(&mut self) -> io::Result<()> {
        let garbage = "{\"this is no JSON";
        match self.framing {
            Framing::Sse => self.chunk(&format!("event: content_block_delta\ndata: {garbage}\n\n")),
            Framing::Lines => self.chunk(&format!("{garbage}\n")),
        }
    }

    /// Tells one line that does not end, until the peer hangs up, which is an error to the answer under way.
    pub(super) fn send_endless_line(&mut self) -> io::Result<()> {
        if self.framing == Framing::Sse {
            self.chunk("data: ")?;
        }
        let piece = "x".repeat(16 * 1024);
        loop {
            self.chunk(&piece)?;
        }
    }

    /// Says nothing until the peer hangs up, which is an error to the answer under way.
    pub(super) fn wait_for_hang_up(&mut self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(LONGEST_STALL))?;
        match self.stream.read(&mut [0; 64]) {
            Ok(0) => Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(_) => Err(io::Error::other("the peer spoke out of turn")),
            Err(error) => Err(error),
        }
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

/// Reads the rest of the head.
fn headers(reader: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    for _ in 0..MOST_LINES {
        let line = line(reader)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(headers)
}

/// Reads the body that the head announces.
fn body(
    reader: &mut impl BufRead,
    mut stream: &TcpStream,
    headers: &[(String, String)],
) -> io::Result<Vec<u8>> {
    let (mut length, mut chunked, mut asks_first) = (0, false, false);
    for (name, value) in headers {
        match name.as_str() {
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            "transfer-encoding" => chunked = value.to_ascii_lowercase().contains("chunked"),
            "expect" => asks_first = value.to_ascii_lowercase().contains("100-continue"),
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
