//! One remote client: what it is sent waits in numbered streams, from which receivers take it. A receiver that comes back says
//! what it has got, and gets the rest. What was taken is kept for a while for that; what was not is bounded, and then the
//! session's cursor waits.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http::StatusCode;
use rethread::lock::locked;
use tokio::sync::{Notify, mpsc};

use crate::sent_id::EventId;

/// How many bytes wait for receivers before the connection waits.
const MOST_WAITING: usize = 8 * 1024 * 1024;
/// How many bytes of a stream are kept after they were taken.
const MOST_KEPT: usize = 8 * 1024 * 1024;
/// How many streams a client can have.
const MOST_STREAMS: usize = 1024;

/// A stream to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StreamName {
    /// Everything of a WebSocket, or what concerns no session.
    Connection,
    /// What concerns one session.
    Session(String),
    /// The answer to `initialize`, which is the answer to its own HTTP request.
    Initialize,
}

/// How messages are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All in one stream.
    Single,
    /// One stream for each session.
    PerSession,
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The client has ended it, or has not come back in time.
    Gone,
    /// Its token does not work any more.
    Token,
    /// The server stops.
    Stop,
}

/// A remote client.
pub(crate) struct RemoteConnection {
    /// Names the connection; unguessable.
    pub(crate) id: String,
    /// The id of its token.
    pub(crate) token: String,
    layout: Layout,
    incoming: Mutex<Option<mpsc::Sender<Bytes>>>,
    received: AtomicU64,
    out: Mutex<OutStreams>,
    changed: Notify,
}

struct OutStreams {
    /// Tells the lives of connections apart.
    epoch: String,
    by_name: HashMap<StreamName, OutStream>,
    waiting_bytes: usize,
    /// Where the answers to requests go, by the JSON text of their ids.
    answers: HashMap<String, StreamName>,
    /// The sessions of loads that are not answered, by the JSON text of their ids.
    loads: HashMap<String, String>,
    ended: Option<EndReason>,
    /// Whether the client said that it comes back after its transport has ended.
    comes_back: bool,
    last_used: Instant,
}

#[derive(Default)]
struct OutStream {
    messages: VecDeque<Bytes>,
    kept_bytes: usize,
    /// The number of the first message that is kept; numbers begin at 1.
    first: u64,
    /// The number of the first message that nobody has taken.
    next: u64,
    /// Tells the stream from the others of the connection, and from those of other connections.
    epoch: String,
    /// Which receiver is the current one; 0 if there is none.
    receiver: u64,
    receivers: u64,
}

/// Takes the messages of one stream. Another receiver can take over.
pub(crate) struct StreamReceiver {
    connection: Arc<RemoteConnection>,
    name: StreamName,
    number: u64,
}

impl RemoteConnection {
    /// A client with these ids, and what it sends.
    pub(crate) fn new(
        id: String,
        epoch: String,
        token: String,
        layout: Layout,
    ) -> (Arc<Self>, mpsc::Receiver<Bytes>) {
        let (incoming, received) = mpsc::channel(64);
        let out = OutStreams {
            epoch,
            by_name: HashMap::new(),
            waiting_bytes: 0,
            answers: HashMap::new(),
            loads: HashMap::new(),
            ended: None,
            comes_back: false,
            last_used: Instant::now(),
        };
        let connection = Self {
            id,
            token,
            layout,
            incoming: Mutex::new(Some(incoming)),
            received: AtomicU64::new(0),
            out: Mutex::new(out),
            changed: Notify::new(),
        };
        (Arc::new(connection), received)
    }

    /// The epoch of the stream of the connection.
    pub(crate) fn epoch(&self) -> String {
        locked(&self.out).stream(StreamName::Connection).epoch.clone()
    }

    /// Hands a message of the client on. `false` if the connection has ended.
    pub(crate) async fn receive(&self, message: Bytes) -> bool {
        let incoming = locked(&self.incoming).clone();
        locked(&self.out).last_used = Instant::now();
        let taken = match incoming {
            Some(incoming) => incoming.send(message).await.is_ok(),
            None => false,
        };
        self.received.fetch_add(u64::from(taken), Ordering::Relaxed);
        taken
    }

    /// How many messages of the client were taken, so that one that comes back sends only the rest.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Says where the answer to a request goes.
    pub(crate) fn expect_answer(&self, id: String, to: StreamName) {
        locked(&self.out).answers.insert(id, to);
    }

    /// Has the answer to a load wait until its replay was taken from the stream of the session.
    pub(crate) fn expect_replay(&self, id: String, session: String) {
        locked(&self.out).loads.insert(id, session);
    }

    /// Ends the connection, as if the client had hung up. Its sessions go on.
    pub(crate) fn close(&self, why: EndReason) {
        locked(&self.incoming).take();
        locked(&self.out).ended.get_or_insert(why);
        self.changed.notify_waiters();
    }

    /// Reads from `initialize` whether the client comes back after its transport has ended.
    pub(crate) fn introduced(&self, initialize: &[u8]) {
        let message: serde_json::Value = serde_json::from_slice(initialize).unwrap_or_default();
        let declared = !message["params"]["_meta"]["rethread"]["resume"].is_null();
        locked(&self.out).comes_back = declared;
    }

    /// Whether the client comes back after its transport has ended.
    pub(crate) fn comes_back(&self) -> bool {
        locked(&self.out).comes_back
    }

    /// How many bytes wait for receivers.
    pub(crate) fn waiting_bytes(&self) -> usize {
        locked(&self.out).waiting_bytes
    }

    /// Why it has ended, if it has.
    pub(crate) fn ended(&self) -> Option<EndReason> {
        locked(&self.out).ended
    }

    /// Since when nobody receives and nothing was sent; nothing if somebody receives.
    pub(crate) fn unused_since(&self) -> Option<Instant> {
        let out = locked(&self.out);
        let received = out.by_name.values().any(|stream| stream.receiver != 0);
        (!received).then_some(out.last_used)
    }

    /// Distributes what the client is sent, until the server has nothing more for it.
    pub(crate) async fn distribute(self: Arc<Self>, mut outgoing: mpsc::Receiver<Bytes>) {
        while let Some(message) = outgoing.recv().await {
            if !self.push(message).await {
                break;
            }
        }
        self.close(EndReason::Gone);
    }

    async fn push(&self, message: Bytes) -> bool {
        loop {
            let room = self.changed.notified();
            let mut room = std::pin::pin!(room);
            room.as_mut().enable();
            {
                let mut out = locked(&self.out);
                if out.ended.is_some() {
                    return false;
                }
                if out.waiting_bytes < MOST_WAITING && !self.overtakes(&mut out, &message) {
                    let name = self.stream_of(&mut out, &message);
                    out.waiting_bytes += message.len();
                    out.stream(name).messages.push_back(message);
                    break;
                }
            }
            room.await;
        }
        self.changed.notify_waiters();
        true
    }

    /// Whether this is the answer to a load whose replay is still being taken from another stream.
    fn overtakes(&self, out: &mut OutStreams, message: &[u8]) -> bool {
        if out.loads.is_empty() {
            return false;
        }
        let envelope: Envelope<'_> = serde_json::from_slice(message).unwrap_or_default();
        let (Some(id), None) = (envelope.id, &envelope.method) else { return false };
        let Some(session) = out.loads.get(id.get()).cloned() else { return false };
        let stream = out.stream(StreamName::Session(session));
        let waits = stream.receiver != 0 && stream.next < stream.first + stream.messages.len() as u64;
        if !waits {
            out.loads.remove(id.get());
        }
        waits
    }

    fn stream_of(&self, out: &mut OutStreams, message: &[u8]) -> StreamName {
        if self.layout == Layout::Single {
            return StreamName::Connection;
        }
        let envelope: Envelope<'_> = serde_json::from_slice(message).unwrap_or_default();
        if let (Some(id), None) = (envelope.id, &envelope.method) {
            // An answer.
            return out.answers.remove(id.get()).unwrap_or(StreamName::Connection);
        }
        envelope.session().map_or(StreamName::Connection, StreamName::Session)
    }

    /// Begins to take the messages of a stream: after this event, or those that nobody has taken. One that says what it has
    /// got takes over from a receiver whose end was not noticed yet.
    pub(crate) fn receiver(
        self: &Arc<Self>,
        name: StreamName,
        after: Option<&EventId>,
    ) -> Result<StreamReceiver, StatusCode> {
        let mut out = locked(&self.out);
        if out.ended.is_some() {
            return Err(StatusCode::NOT_FOUND);
        }
        if !out.by_name.contains_key(&name) && out.by_name.len() >= MOST_STREAMS {
            return Err(StatusCode::TOO_MANY_REQUESTS);
        }
        let epoch = out.epoch.clone();
        let stream = out.stream(name.clone());
        let mut again = 0;
        match after {
            None if stream.receiver != 0 => return Err(StatusCode::CONFLICT),
            None => {}
            Some(after) => again = stream.go_back(after, &epoch)?,
        }
        stream.receivers += 1;
        stream.receiver = stream.receivers;
        let number = stream.receiver;
        out.waiting_bytes += again;
        drop(out);
        self.changed.notify_waiters();
        Ok(StreamReceiver { connection: self.clone(), name, number })
    }
}

impl OutStreams {
    fn stream(&mut self, name: StreamName) -> &mut OutStream {
        let epoch = format!("{}{:04x}", self.epoch, self.by_name.len());
        self.by_name.entry(name).or_insert_with(|| OutStream {
            first: 1,
            next: 1,
            epoch,
            ..OutStream::default()
        })
    }
}

impl OutStream {
    /// Has everything after an event taken again. Gives its bytes.
    fn go_back(&mut self, after: &EventId, connection: &str) -> Result<usize, StatusCode> {
        if !after.epoch.starts_with(connection) {
            return Err(StatusCode::GONE);
        }
        // Of another session, or from the future.
        if after.epoch != self.epoch || after.number >= self.next {
            return Err(StatusCode::BAD_REQUEST);
        }
        if after.number + 1 < self.first {
            return Err(StatusCode::GONE);
        }
        let (from, upto) = (after.number + 1 - self.first, self.next - self.first);
        let again = self.messages.range(from as usize..upto as usize).map(Bytes::len).sum();
        self.next = after.number + 1;
        self.kept_bytes -= again;
        Ok(again)
    }

    /// The next message that nobody has taken.
    fn take(&mut self) -> Option<(u64, Bytes)> {
        let number = self.next;
        let message = self.messages.get((number - self.first) as usize)?.clone();
        self.next += 1;
        self.kept_bytes += message.len();
        while self.kept_bytes > MOST_KEPT && self.first < self.next {
            self.drop_oldest();
        }
        Some((number, message))
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.messages.pop_front() {
            self.kept_bytes -= oldest.len();
            self.first += 1;
        }
    }

    /// Keeps nothing of what was taken.
    fn forget_taken(&mut self) {
        while self.first < self.next {
            self.drop_oldest();
        }
    }
}

impl StreamReceiver {
    /// The next message; nothing when the connection has ended, or another receiver has taken over.
    pub(crate) async fn next(&mut self) -> Option<(EventId, Bytes)> {
        loop {
            let news = self.connection.changed.notified();
            let mut news = std::pin::pin!(news);
            news.as_mut().enable();
            {
                let is_single = self.connection.layout == Layout::Single;
                let mut out = locked(&self.connection.out);
                let stream = out.stream(self.name.clone());
                if stream.receiver != self.number {
                    return None;
                }
                if let Some((number, message)) = stream.take() {
                    let epoch = stream.epoch.clone();
                    // A WebSocket client that does not come back asks for nothing again.
                    if is_single && !out.comes_back {
                        out.stream(self.name.clone()).forget_taken();
                    }
                    out.waiting_bytes = out.waiting_bytes.saturating_sub(message.len());
                    drop(out);
                    self.connection.changed.notify_waiters();
                    return Some((EventId { epoch, number }, message));
                }
                if out.ended.is_some() {
                    return None;
                }
            }
            news.await;
        }
    }
}

impl Drop for StreamReceiver {
    fn drop(&mut self) {
        let mut out = locked(&self.connection.out);
        out.last_used = Instant::now();
        let stream = out.stream(self.name.clone());
        if stream.receiver == self.number {
            stream.receiver = 0;
        }
    }
}

/// What is read of a message to find its stream.
#[derive(Default, serde::Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a serde_json::value::RawValue>,
    #[serde(default, borrow)]
    pub(crate) method: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a serde_json::value::RawValue>,
}

impl Envelope<'_> {
    /// The session that the message is about.
    pub(crate) fn session(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct About {
            #[serde(rename = "sessionId")]
            session: String,
        }
        let about: About = serde_json::from_str(self.params?.get()).ok()?;
        Some(about.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Arc<RemoteConnection> {
        RemoteConnection::new("c".to_owned(), "ab".to_owned(), "t".to_owned(), Layout::PerSession).0
    }

    fn update(session: &str, n: usize) -> Bytes {
        format!(r#"{{"method":"session/update","params":{{"sessionId":"{session}","n":{n}}}}}"#).into()
    }

    async fn numbers(receiver: &mut StreamReceiver, count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        for _ in 0..count {
            numbers.push(receiver.next().await.unwrap().0.number);
        }
        numbers
    }

    fn id(number: u64) -> EventId {
        EventId { epoch: "ab0000".to_owned(), number }
    }

    #[tokio::test]
    async fn a_receiver_that_comes_back_gets_the_rest() {
        let connection = connection();
        for n in 0..5 {
            assert!(connection.push(update("s", n)).await);
        }
        let name = StreamName::Session("s".to_owned());
        let mut first = connection.receiver(name.clone(), None).unwrap();
        assert_eq!(numbers(&mut first, 3).await, [1, 2, 3]);
        assert_eq!(connection.receiver(name.clone(), None).err(), Some(StatusCode::CONFLICT));
        let mut second = connection.receiver(name.clone(), Some(&id(1))).unwrap();
        assert!(first.next().await.is_none(), "another one has taken over");
        drop(first);
        assert_eq!(numbers(&mut second, 4).await, [2, 3, 4, 5]);
        drop(second);
        let mut third = connection.receiver(name, Some(&id(5))).unwrap();
        connection.push(update("s", 5)).await;
        assert_eq!(numbers(&mut third, 1).await, [6]);
    }

    #[tokio::test]
    async fn ids_that_do_not_fit_are_refused() {
        let connection = connection();
        connection.push(update("s", 0)).await;
        let name = StreamName::Session("s".to_owned());
        let status = |after: &EventId| connection.receiver(name.clone(), Some(after)).err();
        assert_eq!(status(&id(1)), Some(StatusCode::BAD_REQUEST), "nobody has got it");
        assert_eq!(status(&EventId { epoch: "cd0000".to_owned(), number: 0 }), Some(StatusCode::GONE));
        let other = EventId { epoch: "ab0001".to_owned(), number: 0 };
        assert_eq!(status(&other), Some(StatusCode::BAD_REQUEST), "of another stream");
        let mut receiver = connection.receiver(name.clone(), None).unwrap();
        numbers(&mut receiver, 1).await;
        let big = Bytes::from(vec![b' '; MOST_KEPT / 2]);
        for _ in 0..4 {
            locked(&connection.out).stream(name.clone()).messages.push_back(big.clone());
            receiver.next().await.unwrap();
        }
        drop(receiver);
        assert_eq!(status(&id(1)), Some(StatusCode::GONE), "too old");
        assert_eq!(status(&id(4)), None);
    }

    #[tokio::test]
    async fn nothing_is_kept_for_a_websocket_client_that_does_not_come_back() {
        for (initialize, kept) in
            [("{}", 0), (r#"{"params":{"_meta":{"rethread":{"resume":{}}}}}"#, update("s", 0).len())]
        {
            let (single, _incoming) =
                RemoteConnection::new("c".to_owned(), "ab".to_owned(), "t".to_owned(), Layout::Single);
            single.introduced(initialize.as_bytes());
            single.push(update("s", 0)).await;
            let mut receiver = single.receiver(StreamName::Connection, None).unwrap();
            numbers(&mut receiver, 1).await;
            assert_eq!(locked(&single.out).stream(StreamName::Connection).kept_bytes, kept);
            single.push(update("s", 1)).await;
            assert_eq!(numbers(&mut receiver, 1).await, [2]);
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_makes_the_connection_wait() {
        let connection = connection();
        let big = Bytes::from(format!(r#"{{"method":"x","params":{{"t":"{}"}}}}"#, "x".repeat(MOST_WAITING)));
        assert!(connection.push(big.clone()).await);
        let pushed = tokio::time::timeout(std::time::Duration::from_millis(50), connection.push(big)).await;
        assert!(pushed.is_err(), "it waits");
    }

    #[tokio::test]
    async fn answers_go_where_they_are_expected() {
        let connection = connection();
        connection.expect_answer("7".to_owned(), StreamName::Session("s".to_owned()));
        connection.push(Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#)).await;
        connection.push(Bytes::from_static(br#"{"jsonrpc":"2.0","id":8,"result":{}}"#)).await;
        let mut session = connection.receiver(StreamName::Session("s".to_owned()), None).unwrap();
        let mut other = connection.receiver(StreamName::Connection, None).unwrap();
        assert!(session.next().await.unwrap().1.ends_with(br#""id":7,"result":{}}"#));
        assert!(other.next().await.unwrap().1.ends_with(br#""id":8,"result":{}}"#));
    }
}
