//! A client with one session: it prompts, leaves, and comes back at any host. It keeps what it was shown and what it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::moments::Moments;
use rethread_testkit::view::View;
use serde_json::json;

use super::cluster::{Cluster, HOSTS};
use super::connection::{HostConnection, NoAnswer};
use super::faults::CurrentFault;

/// Longer than a host takes that waits for its database.
const LOAD_LIMIT: Duration = Duration::from_secs(15);
const PROMPT_LIMIT: Duration = Duration::from_secs(45);

/// What all clients share.
pub(crate) struct Journey {
    pub(crate) cluster: Cluster,
    pub(crate) over: AtomicBool,
    pub(crate) fault: CurrentFault,
}

/// What happened to a client.
#[derive(Default)]
pub(crate) struct Diary {
    pub(crate) session: String,
    /// What it was shown by each connection.
    pub(crate) views: Vec<View>,
    /// The prompts whose turns it saw end as they should.
    pub(crate) finished: Vec<String>,
    /// The prompts that it has sent.
    pub(crate) sent: usize,
    /// How often it reached a host that did not own the session.
    pub(crate) refused: usize,
    /// Turns that ended otherwise, by what was said.
    pub(crate) failed: Vec<String>,
    /// How long it had no host after it had lost one, and during which fault.
    pub(crate) gaps: Vec<(String, Duration)>,
}

/// A client.
pub(crate) struct Traveller {
    journey: Arc<Journey>,
    number: usize,
    version: Version,
    moments: Moments,
    diary: Diary,
    /// Since when it has no host, and what went on then.
    lost: Option<(Instant, String)>,
}

impl Traveller {
    /// A client that has nothing yet.
    pub(crate) fn new(journey: Arc<Journey>, number: usize) -> Self {
        let version = if number.is_multiple_of(2) { Version::V1 } else { Version::V2 };
        let moments = Moments::new(1000 + number as u64);
        Self { journey, number, version, moments, diary: Diary::default(), lost: None }
    }

    /// Works until it is over.
    pub(crate) async fn travel(mut self) -> (Version, Diary) {
        while self.diary.session.is_empty() {
            self.begin().await;
        }
        while !self.is_over() {
            self.visit().await;
        }
        (self.version, self.diary)
    }

    fn is_over(&self) -> bool {
        self.journey.over.load(Ordering::Relaxed)
    }

    async fn pause(&mut self, longest: u64) {
        let pause = self.moments.up_to(Duration::from_millis(longest));
        tokio::time::sleep(pause).await;
    }

    async fn connect(&mut self) -> Option<HostConnection> {
        let cluster = &self.journey.cluster;
        let host = self.moments.below(HOSTS);
        match HostConnection::open(&cluster.url(host), &cluster.token, self.version).await {
            Ok(connection) => Some(connection),
            Err(NoAnswer::Lost | NoAnswer::Refused(_)) => {
                self.pause(300).await;
                None
            }
        }
    }

    /// Makes its session.
    async fn begin(&mut self) {
        let Some(mut connection) = self.connect().await else { return };
        let params = json!({"cwd": self.journey.cluster.cwd(), "mcpServers": []});
        if let Ok(made) = connection.ask("session/new", params, LOAD_LIMIT).await {
            self.diary.session = made["sessionId"].as_str().expect("a new session has an id").to_owned();
            self.stay(connection).await;
        }
    }

    /// Goes to any host, and works there for a while.
    async fn visit(&mut self) {
        let Some(mut connection) = self.connect().await else { return };
        let cwd = self.journey.cluster.cwd().display().to_string();
        match connection.load(&self.diary.session, &cwd, LOAD_LIMIT).await {
            Ok(()) => self.stay(connection).await,
            Err(NoAnswer::Lost) => self.pause(300).await,
            Err(NoAnswer::Refused(_)) => {
                self.diary.refused += 1;
                self.pause(300).await;
            }
        }
    }

    async fn stay(&mut self, mut connection: HostConnection) {
        if let Some((since, fault)) = self.lost.take() {
            self.diary.gaps.push((fault, since.elapsed()));
        }
        let session = self.diary.session.clone();
        let mut ended = true;
        for _ in 0..=self.moments.below(4) {
            if self.is_over() {
                break;
            }
            ended = self.prompt(&mut connection, &session).await;
            if !ended {
                break;
            }
            self.pause(1500).await;
        }
        if ended && self.moments.below(3) > 0 {
            // Another host may take the session at once.
            let closed = connection.ask("session/close", json!({"sessionId": session}), LOAD_LIMIT).await;
            ended = !matches!(closed, Err(NoAnswer::Lost));
        }
        if !ended {
            self.lost = Some((Instant::now(), self.journey.fault.name()));
        }
        self.diary.views.push(connection.shown(&session));
    }

    /// Returns whether the turn has ended as it should.
    async fn prompt(&mut self, connection: &mut HostConnection, session: &str) -> bool {
        self.diary.sent += 1;
        let (number, sent) = (self.number, self.diary.sent);
        let text = format!(
            "think <{number}.{sent}>; chunks 12; tool call_{sent}; slow 20; say done {number}.{sent}"
        );
        match connection.prompt(session, &text, PROMPT_LIMIT).await {
            Ok(stop) if stop == "end_turn" => {
                self.diary.finished.push(text);
                true
            }
            Ok(stop) => {
                self.diary.failed.push(stop);
                false
            }
            Err(NoAnswer::Refused(error)) => {
                self.diary.failed.push(error["message"].as_str().unwrap_or_default().to_owned());
                false
            }
            Err(NoAnswer::Lost) => false,
        }
    }
}
