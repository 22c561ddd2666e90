//! The numbers of the server for Prometheus, at `/metrics`: what its sessions, clients and agents do, and what HTTP answers. No
//! number has a name of a session, a token or a person.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, LabelSetEncoder, NoLabelSet};
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rethread::lock::locked;
use rethread::server::{Activity, DurationTotals, Server};

use crate::connections::Connections;

/// The type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is counted of HTTP.
#[derive(Debug, Default)]
pub(crate) struct HttpCounts {
    /// Answers by status.
    answers: Mutex<BTreeMap<u16, u64>>,
    wrong_tokens: AtomicU64,
}

impl HttpCounts {
    /// A request was answered.
    pub(crate) fn answered(&self, status: StatusCode) {
        *locked(&self.answers).entry(status.as_u16()).or_default() += 1;
    }

    /// A token or code was wrong.
    pub(crate) fn wrong_token(&self) {
        self.wrong_tokens.fetch_add(1, Ordering::Relaxed);
    }
}

/// The text of all numbers as they are now.
pub(crate) fn text(server: &Server, connections: &Arc<Connections>, counts: &Arc<HttpCounts>) -> String {
    let mut registry = Registry::with_prefix("rethread");
    let numbers =
        Numbers { server: server.clone(), connections: connections.clone(), counts: counts.clone() };
    registry.register_collector(Box::new(numbers));
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => text,
        // Writing to a text does not fail.
        Err(fmt::Error) => String::new(),
    }
}

struct Numbers {
    server: Server,
    connections: Arc<Connections>,
    counts: Arc<HttpCounts>,
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

/// One label.
#[derive(Debug)]
struct Label(&'static str, String);

impl EncodeLabelSet for Label {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        (self.0, self.1.as_str()).encode(encoder.encode_label())
    }
}

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.sessions(&mut encoder)?;
        let gauge = |encoder: &mut DescriptorEncoder<'_>, name, help, value: usize| {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        gauge(&mut encoder, "clients", "Clients that are connected", self.server.client_count())?;
        gauge(&mut encoder, "http_clients", "Clients that are connected by HTTP", self.connections.count())?;
        let waiting = self.connections.waiting_bytes();
        gauge(&mut encoder, "http_waiting_bytes", "Bytes that clients of HTTP have not taken", waiting)?;
        gauge(&mut encoder, "agents", "Agents that clients and sessions use", self.server.agent_count())?;
        self.totals(&mut encoder)?;
        self.answers(&mut encoder)
    }
}

/// The state of a session as lists name it.
fn state_name(activity: &Activity) -> &'static str {
    match activity {
        Activity::Idle => "idle",
        Activity::Running => "running",
        Activity::Waiting | Activity::Unattended => "waiting",
    }
}

impl Numbers {
    fn sessions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let activities = self.server.activities();
        let mut family = encoder.encode_descriptor("sessions", "Open sessions", None, MetricType::Gauge)?;
        for state in ["idle", "running", "waiting"] {
            let count = activities.iter().filter(|activity| state_name(activity) == state).count();
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            gauge.encode(family.encode_family(&Label("state", state.to_owned()))?)?;
        }
        Ok(())
    }

    fn totals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.server.totals();
        let wrong_tokens = self.counts.wrong_tokens.load(Ordering::Relaxed);
        for (name, help, value) in [
            ("turns", "Turns that were started", totals.turns),
            ("turn_errors", "Turns that ended with an error", totals.failed_turns),
            ("questions", "Questions that agents asked", totals.questions),
            ("entries", "Entries that were written to journals", totals.entries),
            ("entry_bytes", "Bytes of text in these entries", totals.bytes),
            ("store_errors", "Writes that failed", totals.store_errors),
            ("agents_lost", "Agents that exited while a session used them", totals.agents_lost),
            ("http_wrong_tokens", "Wrong tokens and codes", wrong_tokens),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        durations(encoder, "append_seconds", "How long writes to journals took", &totals.appends)?;
        durations(encoder, "turn_seconds", "How long turns took", &totals.turn_times)
    }

    fn answers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let answers = locked(&self.counts.answers).clone();
        let help = "Answers by HTTP status";
        let mut family = encoder.encode_descriptor("http_answers", help, None, MetricType::Counter)?;
        for (status, count) in answers {
            let counter = ConstCounter::new(count);
            counter.encode(family.encode_family(&Label("status", status.to_string()))?)?;
        }
        Ok(())
    }
}

fn durations(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    totals: &DurationTotals,
) -> fmt::Result {
    let count = totals.buckets.iter().map(|(_, count)| count).sum();
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(totals.sum, count, &totals.buckets, None)
}
