//! The handshake on the socket of a server, one JSON object per line: the server greets with its number, the other side asks
//! for something, and the server answers. After [`Ask::Serve`] the connection carries the protocol. Both sides are the same
//! user; the numbers differ if they are of different versions.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The number of this handshake. It changes when a line means something else, or when there is more to ask for.
pub(crate) const HANDSHAKE: u32 = 3;

/// The longest line: command lines and environments are smaller on all systems.
pub(crate) const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// The first line of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// The number of its handshake.
    pub(crate) handshake: u32,
    /// The version of the program.
    pub(crate) version: String,
    /// Its process.
    pub(crate) pid: u32,
    /// Whether it takes clients.
    pub(crate) state: ServerState,
}

/// Whether a server takes clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServerState {
    /// It does.
    Running,
    /// It finishes its work and ends.
    Stopping,
}

/// What a process of the user asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub(crate) enum Ask {
    /// To be a client.
    Serve(Box<Handover>),
    /// How the server is.
    Status,
    /// The address of the web page, with a one-time code.
    Page,
    /// To end. The connection ends when the process does.
    Stop,
    /// To let all sessions go when their turns have ended, and then to end. The connection ends when the process does.
    Drain {
        /// How long turns may take.
        seconds: u64,
    },
}

/// The answer of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub(crate) enum Answer {
    /// The connection carries the protocol from now on.
    Accepted,
    /// It does not.
    Refused {
        /// Why not.
        reason: String,
    },
    /// How the server is.
    Status(ServerStatus),
    /// The web page.
    Page(PageAddress),
    /// It ends.
    Stopping,
}

/// Where the web page is.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PageAddress {
    /// The address of its start.
    pub(crate) url: String,
    /// The code with which it gets a token.
    pub(crate) code: String,
}

impl PageAddress {
    /// The address with the code, where no server and no log gets it.
    pub(crate) fn with_code(&self) -> String {
        format!("{}#code={}", self.url, self.code)
    }
}

impl std::fmt::Debug for PageAddress {
    /// The code is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageAddress").field("url", &self.url).finish_non_exhaustive()
    }
}

/// How a server is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerStatus {
    /// When it was started, in milliseconds since 1970.
    pub(crate) since: u64,
    /// Its addresses.
    pub(crate) addresses: Vec<String>,
    /// How many clients are connected.
    pub(crate) clients: usize,
    /// How many sessions are open.
    pub(crate) sessions: usize,
    /// How many of them run a turn.
    pub(crate) running: usize,
    /// How many of them wait for an answer.
    pub(crate) waiting: usize,
    /// How many clients are attached to each open session. Earlier servers do not say it.
    #[serde(default)]
    pub(crate) attached: Vec<(String, usize)>,
}

/// A client's agent, and where it is to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Handover {
    /// The agent.
    pub(crate) agent: HandedAgent,
    /// The whole environment of the client.
    pub(crate) environment: Vec<(Encoded, Encoded)>,
    /// The working directory of the client.
    pub(crate) directory: Encoded,
    /// The protocol version that the agent is offered; nothing for both.
    pub(crate) agent_protocol: Option<u64>,
    /// The maximum length of a line.
    pub(crate) longest_line: usize,
    /// How many seconds the agent may take to start.
    pub(crate) start_seconds: u64,
    /// Whether only sessions that were created through rethread are listed.
    pub(crate) own_sessions_only: bool,
}

/// The agent of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum HandedAgent {
    /// The built-in assistant.
    Assistant,
    /// A program.
    Command {
        /// The name under which anybody can start it again.
        name: Option<String>,
        /// The program and its arguments.
        words: Vec<Encoded>,
        /// Environment variables of this agent alone.
        env: Vec<(String, String)>,
        /// Names the program file, its version and its arguments.
        key: Option<String>,
    },
}

/// A value of the operating system, which need not be text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Encoded(pub(crate) OsString);

impl std::fmt::Debug for Encoded {
    /// Values of the environment may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoded(..)")
    }
}

impl Serialize for Encoded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(self.0.as_bytes()))
    }
}

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD_NO_PAD.decode(text).map_err(|_| de::Error::custom("not base64"))?;
        Ok(Self(OsString::from_vec(bytes)))
    }
}

/// One line with this content.
pub(crate) fn line_of(content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(content)?;
    line.push(b'\n');
    Ok(line)
}

/// The content of a line that was read.
pub(crate) fn content_of<'de, T: Deserialize<'de>>(line: &'de [u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(line)?)
}

/// Collects the bytes of one line. Each side waits for the other, so nothing follows a line.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer(Vec<u8>);

impl LineBuffer {
    /// Adds what was read; gives the line when it is complete.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.0.extend_from_slice(bytes);
        match self.0.iter().position(|byte| *byte == b'\n') {
            Some(end) if end + 1 == self.0.len() => {
                self.0.pop();
                Ok(Some(std::mem::take(&mut self.0)))
            }
            Some(_) => wrong("there is more than one line"),
            None if self.0.len() > LONGEST_LINE => wrong("the line is too long"),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_text_survive() {
        let value = Encoded(OsString::from_vec(vec![0xff, b'a', b'\n', b'"']));
        let line = line_of(&value).unwrap();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(content_of::<Encoded>(&line[..line.len() - 1]).unwrap() == value);
        assert!(content_of::<Encoded>(b"\"%\"").is_err());
        assert_eq!(format!("{value:?}"), "Encoded(..)");
    }

    #[test]
    fn a_line_comes_in_pieces_and_alone() {
        let mut buffer = LineBuffer::default();
        assert_eq!(buffer.add(b"{\"a\"").unwrap(), None);
        assert_eq!(buffer.add(b":1}\n").unwrap(), Some(b"{\"a\":1}".to_vec()));
        assert!(buffer.add(b"one\ntwo").is_err());
        assert_eq!(LineBuffer::default().add(b"").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
