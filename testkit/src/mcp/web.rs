//! The MCP test server on loopback, over streamable HTTP or SSE, with a minimal HTTP server: one request per
//! connection.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::server::{Act, Habit, Server};

/// How often a stream checks for new messages.
const LOOK: Duration = Duration::from_millis(5);
/// The longest body.
const LONGEST_BODY: usize = 64 * 1024 * 1024;

/// The transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Streamable HTTP.
    Streamable,
    /// An event stream, and messages sent by POST.
    Sse,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct McpRequest {
    /// `GET`, `POST` or `DELETE`.
    pub method: String,
    /// The headers with lowercase names.
    pub headers: Vec<(String, String)>,
    /// Null if there is none.
    pub body: Value,
}

impl McpRequest {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The server, stopped on drop.
pub struct WebServer {
    address: SocketAddr,
    kind: Kind,
    shared: Arc<McpState>,
    accepting: JoinHandle<()>,
}

struct McpState {
    kind: Kind,
    server: Mutex<Server>,
    /// A header that every request must have.
    key: Option<(String, String)>,
    asked: Mutex<Vec<McpRequest>>,
    /// Messages that no stream has sent yet.
    outbox: Mutex<Vec<Value>>,
    /// Counts the event streams: only the newest one sends, as if older ones were known to be gone.
    streams: AtomicUsize,
    /// Stops everything.
    stopped: watch::Sender<bool>,
}

impl WebServer {
    /// Starts on a free port of 127.0.0.1; `key` is a header that every request must have.
    pub async fn start(kind: Kind, habits: &[Habit], key: Option<(&str, &str)>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(McpState {
            kind,
            server: Mutex::new(Server::new(habits)),
            key: key.map(|(name, value)| (name.to_owned(), value.to_owned())),
            asked: Mutex::default(),
            outbox: Mutex::default(),
            streams: AtomicUsize::new(0),
            stopped: watch::Sender::new(false),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, kind, shared, accepting }
    }

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        let path = match self.kind {
            Kind::Streamable => "mcp",
            Kind::Sse => "sse",
        };
        format!("http://{}/{path}", self.address)
    }

    /// All requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<McpRequest> {
        locked(&self.shared.asked).clone()
    }

    /// Closes every connection and accepts no more.
    pub fn stop(&self) {
        self.shared.stopped.send_replace(true);
        self.accepting.abort();
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, shared: Arc<McpState>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut stopped = shared.stopped.subscribe();
            tokio::select! {
                // A peer may disconnect at any time.
                _ = shared.serve(stream) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        });
    }
}

impl McpState {
    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let asked = read(&mut stream).await?;
        locked(&self.asked).push(asked.clone());
        let mut stream = stream.into_inner();
        let may = self.key.as_ref().is_none_or(|(name, value)| asked.header(name) == Some(value));
        match (self.kind, asked.method.as_str()) {
            _ if !may => answer(&mut stream, "401 Unauthorized", &json!({"error": "who are you?"})).await,
            (Kind::Streamable, "POST") => self.streamable(&mut stream, &asked.body).await,
            (Kind::Streamable, "GET") if locked(&self.server).has(Habit::FloodsItsStream) => {
                flood(&mut stream).await
            }
            (Kind::Streamable, "DELETE") => answer(&mut stream, "200 OK", &json!({})).await,
            (Kind::Sse, "GET") => self.events(&mut stream).await,
            (Kind::Sse, "POST") => {
                self.hear(&asked.body);
                answer(&mut stream, "202 Accepted", &Value::Null).await
            }
            _ => answer(&mut stream, "405 Method Not Allowed", &Value::Null).await,
        }
    }

    /// Handles a message; the answer waits for a stream.
    fn hear(&self, message: &Value) {
        for act in locked(&self.server).hear(message) {
            match act {
                Act::Say(message) => locked(&self.outbox).push(message),
                Act::SayForever(message) => {
                    locked(&self.outbox).extend(std::iter::repeat_n(message, 100_000));
                }
                Act::Crash => drop(self.stopped.send_replace(true)),
            }
        }
    }

    async fn streamable(&self, stream: &mut TcpStream, message: &Value) -> io::Result<()> {
        self.hear(message);
        if message["method"].is_null() || message["id"].is_null() {
            return answer(stream, "202 Accepted", &Value::Null).await;
        }
        let is_answer = |said: &Value| said["id"] == message["id"] && said["method"].is_null();
        let plain = {
            let mut outbox = locked(&self.outbox);
            let only = outbox.len() == 1 && is_answer(&outbox[0]);
            let events = locked(&self.server).has(Habit::PrefersEvents);
            if only && !events { outbox.pop() } else { None }
        };
        if let Some(said) = plain {
            return answer(stream, "200 OK", &said).await;
        }
        begin_events(stream).await?;
        loop {
            for said in self.unsaid() {
                event(stream, "message", &said.to_string()).await?;
                if is_answer(&said) {
                    return Ok(());
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn events(&self, stream: &mut TcpStream) -> io::Result<()> {
        let number = self.streams.fetch_add(1, Ordering::SeqCst) + 1;
        begin_events(stream).await?;
        let elsewhere = locked(&self.server).has(Habit::PointsElsewhere);
        let endpoint = if elsewhere { "http://127.0.0.2:9/message" } else { "/message?session=1" };
        event(stream, "endpoint", endpoint).await?;
        while self.streams.load(Ordering::SeqCst) == number {
            for said in self.unsaid() {
                event(stream, "message", &said.to_string()).await?;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    fn unsaid(&self) -> Vec<Value> {
        std::mem::take(&mut *locked(&self.outbox))
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<McpRequest> {
    let first = line(stream).await?;
    let method = first.split(' ').next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    while let Some((name, value)) = line(stream).await?.split_once(':') {
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut asked = McpRequest { method, headers, body: Value::Null };
    let length = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; usize::min(length, LONGEST_BODY)];
    stream.read_exact(&mut body).await?;
    asked.body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(asked)
}

async fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    Ok(line.trim_end().to_owned())
}

async fn answer(stream: &mut TcpStream, status: &str, body: &Value) -> io::Result<()> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nmcp-session-id: s1\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}

async fn begin_events(stream: &mut TcpStream) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nmcp-session-id: s1\r\n\
        connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await
}

async fn flood(stream: &mut TcpStream) -> io::Result<()> {
    begin_events(stream).await?;
    loop {
        event(stream, "message", r#"{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}"#)
            .await?;
    }
}

async fn event(stream: &mut TcpStream, name: &str, data: &str) -> io::Result<()> {
    stream.write_all(format!("event: {name}\ndata: {data}\n\n").as_bytes()).await
}
