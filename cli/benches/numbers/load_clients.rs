//! Many WebSocket clients in one thread, for the load of a server: they attach one after the other, and then all are read
//! from as soon as something arrives. Only what the bench needs of WebSocket is here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A server by address.
#[derive(Clone)]
pub(crate) struct Address {
    /// Host and port.
    pub(crate) host: String,
    pub(crate) token: Option<String>,
}

/// A WebSocket client.
pub(crate) struct LoadClient {
    stream: TcpStream,
    received: Vec<u8>,
    /// How much of it was used.
    used: usize,
    last: u64,
}

impl LoadClient {
    /// Connects, and initializes with this version.
    pub(crate) fn connect(address: &Address, version: u64) -> Self {
        let mut stream = TcpStream::connect(&address.host).expect("the server listens");
        stream.set_nodelay(true).expect("it is a socket");
        let token = address
            .token
            .as_ref()
            .map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "GET /acp HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{token}\r\n",
            address.host
        );
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut client = Self { stream, received: Vec::new(), used: 0, last: 0 };
        client.read_headers();
        let params = match version {
            1 => json!({"protocolVersion": 1, "clientCapabilities": {}}),
            _ => json!({"protocolVersion": 2, "info": {"name": "bench", "version": "1"}, "capabilities": {}}),
        };
        client.request("initialize", &params);
        client
    }

    fn read_headers(&mut self) {
        let end = loop {
            self.fill();
            if let Some(at) = self.received.windows(4).position(|part| part == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.received[..end]).into_owned();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        self.used = end;
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, method: &str, params: &Value) {
        self.last += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).to_string();
        self.frame(1, message.as_bytes());
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.send(method, params);
        let wanted = format!("\"id\":{}", self.last);
        loop {
            while let Some(message) = self.next_message() {
                if message.contains(&wanted) && !message.contains("\"method\":") {
                    let answer: Value = serde_json::from_str(&message).expect("an answer is JSON");
                    assert!(answer.get("error").is_none(), "{method}: {answer}");
                    return answer["result"].clone();
                }
            }
            self.fill();
        }
    }

    /// Writes a frame. It must be masked; a mask of zeros changes nothing.
    fn frame(&mut self, opcode: u8, content: &[u8]) {
        let mut frame = vec![0x80 | opcode];
        match u16::try_from(content.len()) {
            Ok(length) if length < 126 => frame.push(0x80 | length as u8),
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 127);
                frame.extend((content.len() as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(content);
        self.stream.write_all(&frame).expect("the server reads");
    }

    /// The next message that was received whole.
    pub(crate) fn next_message(&mut self) -> Option<String> {
        loop {
            let rest = &self.received[self.used..];
            let (&first, &second) = (rest.first()?, rest.get(1)?);
            let (head, length) = match second & 0x7f {
                126 => (4, u16::from_be_bytes(rest.get(2..4)?.try_into().ok()?) as usize),
                127 => (10, u64::from_be_bytes(rest.get(2..10)?.try_into().ok()?) as usize),
                short => (2, short as usize),
            };
            let content = rest.get(head..head + length)?.to_vec();
            self.used += head + length;
            match first & 0x0f {
                9 => self.frame(10, &content),
                8 => panic!("the server closed a connection: {}", String::from_utf8_lossy(&content)),
                _ => return Some(String::from_utf8(content).expect("messages are text")),
            }
        }
    }

    /// Reads what is there, or waits for it. Says whether anything came.
    fn fill(&mut self) -> bool {
        self.received.drain(..self.used);
        self.used = 0;
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => panic!("the server hung up"),
            Ok(count) => {
                self.received.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => false,
            Err(error) => panic!("a connection broke: {error}"),
        }
    }
}

/// Reads from all clients until `visit` says that it is enough; it gets each message as soon as it was read.
pub(crate) fn read_all(clients: &mut [LoadClient], mut visit: impl FnMut(&str) -> Enough) {
    let poll = Poll::of(clients);
    let limit = Instant::now() + Duration::from_secs(120);
    loop {
        assert!(Instant::now() < limit, "the server does not send everything");
        for at in poll.ready() {
            let client = &mut clients[at];
            while client.fill() {
                while let Some(message) = client.next_message() {
                    if visit(&message) == Enough::Yes {
                        return;
                    }
                }
            }
        }
    }
}

/// Whether to read on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enough {
    Yes,
    No,
}

/// Says which of many sockets can be read.
struct Poll(std::os::fd::OwnedFd);

impl Poll {
    fn of(clients: &[LoadClient]) -> Self {
        use std::os::fd::FromRawFd;
        // SAFETY: a plain call; the descriptor is owned by nobody else.
        let poll = unsafe { std::os::fd::OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
        for (at, client) in clients.iter().enumerate() {
            client.stream.set_nonblocking(true).expect("it is a socket");
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: at as u64 };
            // SAFETY: both descriptors are open, and the event is valid for the call.
            let added = unsafe {
                libc::epoll_ctl(
                    poll.as_raw_fd(),
                    libc::EPOLL_CTL_ADD,
                    client.stream.as_raw_fd(),
                    &raw mut event,
                )
            };
            assert_eq!(added, 0, "a socket can be watched");
        }
        Self(poll)
    }

    fn ready(&self) -> Vec<usize> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        // SAFETY: the array is valid for its length.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 256, 1000) };
        events[..usize::try_from(count).unwrap_or(0)].iter().map(|event| event.u64 as usize).collect()
    }
}

/// Allows this process, and those that it starts, to have as many open files as the system lets it.
pub(crate) fn allow_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for both calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(16_384);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}
