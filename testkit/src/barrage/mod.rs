//! A client that sends random requests without waiting for answers, and counts the answers. Everything it sends is
//! derived from a seed. The requests are in `mix`.

mod mix;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rethread::edge::Version;
use rethread::transport::Wire;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use mix::{Draw, Mix};

/// How many requests may be unanswered at a time.
const WINDOW: usize = 48;

/// How long a request may take before it is cancelled.
const IMPATIENCE: Duration = Duration::from_millis(200);

/// How long the last answers may take after the last request.
const PATIENCE: Duration = Duration::from_secs(60);

/// The plan of a client.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The protocol version.
    pub version: Version,
    /// The seed of everything that is sent.
    pub seed: u64,
    /// The working directory of its sessions.
    pub cwd: String,
    /// When it stops sending.
    pub until: Until,
}

/// When a client stops sending.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this many requests.
    Sent(usize),
    /// At this time.
    Time(Instant),
}

/// The result of a barrage.
#[derive(Debug, Default)]
pub struct Tally {
    /// The number of requests sent.
    pub sent: usize,
    /// The number of answers by method: results and errors.
    pub answered: BTreeMap<String, (usize, usize)>,
    /// Unexpected answers, and requests without an answer.
    pub faults: Vec<String>,
}

impl Tally {
    /// Asserts that each request was answered, and none twice.
    pub fn assert_exact(&self, of: impl std::fmt::Debug) {
        assert!(self.faults.is_empty(), "{of:?}: {:#?}\nanswered: {:#?}", self.faults, self.answered);
        let answered: usize = self.answered.values().map(|(results, errors)| results + errors).sum();
        assert_eq!(answered, self.sent, "{of:?}: {:#?}", self.answered);
    }
}

/// Sends random requests until the plan is fulfilled and every answer has arrived or timed out.
pub async fn run(wire: Wire, plan: Plan) -> Tally {
    let shared = Arc::new(BarrageState::default());
    let (lines, outgoing) = mpsc::channel(1024);
    let writing = tokio::spawn(write(wire.writer, outgoing));
    let reading = tokio::spawn(read(wire.reader, shared.clone(), lines.downgrade()));
    let mut sender = Sender { shared: shared.clone(), lines, last: 0 };
    let mut mix = Mix::new(&plan);
    sender.ask(mix.introduction()).await;
    shared.settled(0).await;
    while !plan.is_over(sender.last) && !shared.state().closed {
        sender.settle(WINDOW, IMPATIENCE).await;
        let burst = mix.burst(&mut shared.state());
        for draw in burst {
            match draw {
                Draw::Ask(method, params) => sender.ask((method, params)).await,
                Draw::Tell(method, params) => sender.tell(method, params).await,
            }
        }
    }
    sender.finish().await;
    drop(sender);
    // The writer has finished, which closes the server's input.
    if tokio::time::timeout(PATIENCE, reading).await.is_err() {
        shared.state().tally.faults.push("the server did not end with its input".to_owned());
    }
    writing.abort();
    shared.tally()
}

impl Plan {
    fn is_over(&self, sent: usize) -> bool {
        match self.until {
            Until::Sent(most) => sent >= most,
            Until::Time(end) => Instant::now() >= end,
        }
    }
}

#[derive(Default)]
struct BarrageState {
    state: Mutex<State>,
    bell: Notify,
}

/// The state of the client.
#[derive(Default)]
struct State {
    /// The unanswered requests by id.
    open: HashMap<u64, String>,
    /// The known sessions.
    sessions: Vec<String>,
    /// The sessions that are no longer used and must be closed.
    forgotten: Vec<String>,
    tally: Tally,
    closed: bool,
}

impl BarrageState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until at most this many requests are unanswered, up to a limit.
    async fn settled(&self, most: usize) {
        let settled = async {
            loop {
                let rung = self.bell.notified();
                tokio::pin!(rung);
                rung.as_mut().enable();
                if self.state().is_settled(most) {
                    return;
                }
                rung.await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, settled).await;
    }

    /// Records the requests that timed out.
    fn give_up(&self, most: usize) {
        let mut state = self.state();
        let late = format!("more than {most} without an answer after {PATIENCE:?}: {:?}", state.open);
        state.tally.faults.push(late);
    }

    fn tally(&self) -> Tally {
        let mut state = self.state();
        let mut tally = std::mem::take(&mut state.tally);
        let left = state.open.iter().map(|(id, method)| format!("{method} {id} was not answered"));
        tally.faults.extend(left);
        tally
    }
}

struct Sender {
    shared: Arc<BarrageState>,
    lines: mpsc::Sender<String>,
    last: usize,
}

impl Sender {
    async fn ask(&mut self, (method, params): (&str, Value)) {
        self.last += 1;
        {
            let mut state = self.shared.state();
            state.open.insert(self.last as u64, method.to_owned());
            state.tally.sent += 1;
        }
        self.send(json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})).await;
    }

    async fn tell(&self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    async fn send(&self, message: Value) {
        // If the server has disconnected, the missing answers show it.
        let _ = self.lines.send(message.to_string()).await;
    }

    /// Waits until at most this many requests are unanswered. Requests that take longer are cancelled repeatedly: a
    /// prompt that waits for an agent runs only when the agent is there.
    async fn settle(&self, most: usize, moment: Duration) {
        let deadline = Instant::now() + PATIENCE;
        while tokio::time::timeout(moment, self.shared.settled(most)).await.is_err() {
            if Instant::now() >= deadline {
                return self.shared.give_up(most);
            }
            let (open, sessions) = {
                let state = self.shared.state();
                (state.open.keys().copied().collect::<Vec<_>>(), state.sessions.clone())
            };
            for id in open {
                self.tell("$/cancel_request", json!({"requestId": id})).await;
            }
            for session in sessions {
                self.tell("session/cancel", json!({"sessionId": session})).await;
            }
        }
    }

    /// Waits for the last answers.
    async fn finish(&mut self) {
        self.settle(0, IMPATIENCE).await;
        // By the time this is answered, any duplicate answers have arrived.
        self.ask(("session/list", json!({}))).await;
        self.shared.settled(0).await;
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut text) = lines.recv().await {
        text.push('\n');
        while let Ok(line) = lines.try_recv() {
            text.push_str(&line);
            text.push('\n');
        }
        if writer.write_all(text.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}

async fn read(reader: impl AsyncRead + Unpin, shared: Arc<BarrageState>, lines: mpsc::WeakSender<String>) {
    let mut reader = BufReader::new(reader).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            shared.state().tally.faults.push(format!("not JSON: {line}"));
            continue;
        };
        if let Some(answer) = shared.state().hear(&message)
            && let Some(lines) = lines.upgrade()
        {
            // In a separate task, because the reader must not wait for the writer.
            tokio::spawn(async move { lines.send(answer.to_string()).await });
        }
        shared.bell.notify_waiters();
    }
    shared.state().closed = true;
    shared.bell.notify_waiters();
}

impl State {
    fn is_settled(&self, most: usize) -> bool {
        self.open.len() <= most || self.closed
    }

    /// Handles a message. Returns the answer if it is a request.
    fn hear(&mut self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        if let Some(method) = message["method"].as_str() {
            return Some(mix::answer(id, method, &message["params"]));
        }
        let Some(method) = id.as_u64().and_then(|id| self.open.remove(&id)) else {
            self.tally.faults.push(format!("answered and not open: {message}"));
            return None;
        };
        self.learn(&message["result"]);
        let counted = self.tally.answered.entry(method).or_default();
        match message.get("error") {
            Some(_) => counted.1 += 1,
            None => counted.0 += 1,
        }
        None
    }

    /// Records the sessions in an answer.
    fn learn(&mut self, result: &Value) {
        let made = result["sessionId"].as_str();
        let listed = result["sessions"].as_array().into_iter().flatten();
        for id in made.into_iter().chain(listed.filter_map(|info| info["sessionId"].as_str()).take(3)) {
            if !self.sessions.iter().any(|known| known == id) {
                self.sessions.push(id.to_owned());
            }
        }
        let old = self.sessions.len().saturating_sub(mix::SESSIONS);
        self.forgotten.extend(self.sessions.drain(..old));
    }
}
