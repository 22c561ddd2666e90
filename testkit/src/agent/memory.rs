//! The state of a scripted agent that outlives its processes: its sessions, and a record of all messages to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rethread::edge::Version;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::config::{AgentConfig, Choices, Offer};
use super::quirk::Quirk;
use super::talk::Out;
use super::updates;

/// One message that reached the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The run of the agent that received it, from 1.
    pub start: usize,
    /// The id of the request; `None` for a notification.
    pub id: Option<Value>,
    /// The method; `answer` for an answer to a request of the agent.
    pub method: String,
    /// The parameters, or the whole answer.
    pub params: Value,
}

/// Shared by all runs of one agent.
pub(super) struct Memory {
    inner: Mutex<MemoryState>,
    /// Notifies whenever a message was recorded or a gate was opened.
    pub(super) bell: Notify,
}

pub(super) struct MemoryState {
    pub(super) config: AgentConfig,
    pub(super) starts: usize,
    pub(super) broken_starts: usize,
    pub(super) received: Vec<Received>,
    pub(super) sessions: BTreeMap<String, Kept>,
    pub(super) made: usize,
    pub(super) logged_in: bool,
    pub(super) gates: BTreeSet<String>,
    pub(super) running: usize,
    /// The outgoing channel of the last run.
    pub(super) out: Option<mpsc::Sender<Out>>,
    /// The incoming channel of the last run, if the agent is the library's example.
    pub(super) inward: Option<mpsc::WeakSender<Out>>,
}

/// A session of the agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) cwd: String,
    /// The updates of a replay.
    pub(super) history: Vec<Value>,
    pub(super) chosen: BTreeMap<&'static str, Value>,
    /// The last commands that it sent.
    pub(super) commands: Option<Value>,
}

impl Memory {
    pub(super) fn new(config: AgentConfig) -> Self {
        let inner = MemoryState {
            config,
            starts: 0,
            broken_starts: 0,
            received: Vec::new(),
            sessions: BTreeMap::new(),
            made: 0,
            logged_in: false,
            gates: BTreeSet::new(),
            running: 0,
            out: None,
            inward: None,
        };
        Self { inner: Mutex::new(inner), bell: Notify::new() }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, MemoryState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn config(&self) -> AgentConfig {
        self.inner().config.clone()
    }

    /// Records the start of a run; returns its number.
    pub(super) fn begin(&self) -> usize {
        let mut inner = self.inner();
        inner.starts += 1;
        inner.running += 1;
        inner.starts
    }

    /// Records the end of a run.
    pub(super) fn end(&self) {
        self.inner().running -= 1;
        self.bell.notify_waiters();
    }

    /// Records a message to this run.
    pub(super) fn record(&self, start: usize, message: &Value) {
        let id = message.get("id").cloned();
        let (method, params) = match message["method"].as_str() {
            Some(method) => (method.to_owned(), message["params"].clone()),
            None => ("answer".to_owned(), message.clone()),
        };
        self.inner().received.push(Received { start, id, method, params });
        self.bell.notify_waiters();
    }

    /// Waits until the test opens this gate.
    pub(super) async fn gate(&self, gate: &str) {
        loop {
            let opened = self.bell.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            if self.inner().gates.contains(gate) {
                return;
            }
            opened.await;
        }
    }

    /// Returns whether this tool call or terminal was announced and has not ended.
    pub(super) fn is_open(&self, session: &str, field: &str, id: &Value) -> bool {
        let inner = self.inner();
        let history = inner.sessions.get(session).map(|kept| kept.history.as_slice()).unwrap_or_default();
        let last = history.iter().rfind(|update| update.get(field) == Some(id));
        last.is_some_and(|update| !updates::is_final(update))
    }

    /// Creates a session and returns its id.
    pub(super) fn make(&self, cwd: &str) -> String {
        let mut inner = self.inner();
        inner.made += 1;
        let id = format!("{}-{}", inner.config.id_prefix, inner.made);
        let kept = Kept { cwd: cwd.to_owned(), chosen: first_choices(), ..Kept::default() };
        inner.sessions.insert(id.clone(), kept);
        id
    }

    /// Forks a session and returns the id of the fork.
    pub(super) fn fork(&self, parent: &str) -> Option<String> {
        let mut inner = self.inner();
        inner.made += 1;
        let id = format!("{}-{}", inner.config.id_prefix, inner.made);
        let kept = inner.sessions.get(parent)?.clone();
        inner.sessions.insert(id.clone(), kept);
        Some(id)
    }

    /// Records that a session is open again: an agent may have lost its choices.
    pub(super) fn reopened(&self, session: &str) {
        let mut inner = self.inner();
        let forgotten = inner.config.choices == Choices::Forgotten;
        if let Some(kept) = inner.sessions.get_mut(session).filter(|_| forgotten) {
            kept.chosen = first_choices();
        }
    }

    pub(super) fn keep(&self, session: &str, update: &Value) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        if matches!(kind, "notice" | "state_update") {
            return;
        }
        if let Some(kept) = self.inner().sessions.get_mut(session) {
            if kind == "available_commands_update" {
                kept.commands = Some(update["availableCommands"].clone());
            }
            kept.history.push(update.clone());
        }
    }

    /// Sets an option; returns whether it exists and offers this value.
    pub(super) fn choose(&self, session: &str, option: &str, value: &Value) -> bool {
        let values = match option {
            "mode" => json!(["a", "b"]),
            "model" => json!(["fast", "deep"]),
            "effort" => json!(["low", "high"]),
            "verbose" => json!([true, false]),
            _ => return false,
        };
        let fixed = self.inner().config.fixed.contains(&option);
        let fits = !fixed && values.as_array().is_some_and(|values| values.contains(value));
        if let Some(kept) = self.inner().sessions.get_mut(session).filter(|_| fits)
            && let Some((_, chosen)) = kept.chosen.iter_mut().find(|(name, _)| **name == option)
        {
            *chosen = value.clone();
            return true;
        }
        false
    }
}

impl MemoryState {
    /// The options in the answers to new, load and resume.
    pub(super) fn choices(&self, session: &str, version: Version, booleans: Booleans) -> Value {
        let has = |offer: Offer| self.config.offers.contains(&offer);
        let mut answer = json!({});
        match version {
            Version::V1 => {
                if has(Offer::Modes) {
                    answer["modes"] = self.modes(session);
                }
                if has(Offer::Models) {
                    answer["models"] = self.models(session);
                }
                if has(Offer::ModeOption) || has(Offer::Effort) || has(Offer::Verbose) {
                    answer["configOptions"] = self.options(session, version, booleans);
                }
            }
            Version::V2 => {
                answer["configOptions"] = self.options(session, version, booleans);
                let named = self.sessions.get(session).and_then(|kept| kept.commands.clone());
                let first =
                    || self.config.commands.iter().map(|name| updates::command(version, name)).collect();
                answer["availableCommands"] = named.unwrap_or_else(first);
            }
        }
        answer
    }

    /// All config options.
    pub(super) fn options(&self, session: &str, version: Version, booleans: Booleans) -> Value {
        let has = |offer: Offer| self.config.offers.contains(&offer);
        let (id, two) = match version {
            Version::V1 => ("id", false),
            Version::V2 => ("configId", true),
        };
        let chosen = |name: &str| self.chosen(session, name);
        let select = |name: &'static str, title: &str, category: Option<&str>, values: [&str; 2]| {
            let values: Vec<_> = values.iter().map(|value| json!({"value": value, "name": value})).collect();
            let mut option = json!({id: name, "name": title, "type": "select",
                "currentValue": chosen(name), "options": values});
            if let Some(category) = category {
                option["category"] = json!(category);
            }
            option
        };
        let mut list = Vec::new();
        if has(Offer::ModeOption) || (two && has(Offer::Modes)) {
            let mut mode = select("mode", "Mode", Some("mode"), ["a", "b"]);
            self.describe(&mut mode["options"][0]);
            list.push(mode);
        }
        if two && has(Offer::Models) {
            list.push(select("model", "Model", Some("model"), ["fast", "deep"]));
        }
        if has(Offer::Effort) {
            list.push(select("effort", "Effort", None, ["low", "high"]));
        }
        if has(Offer::Verbose) && (two || booleans == Booleans::Taken) {
            list.push(json!({id: "verbose", "name": "Verbose", "type": "boolean",
                "currentValue": chosen("verbose")}));
        }
        Value::Array(list)
    }

    fn chosen(&self, session: &str, name: &str) -> Value {
        self.sessions.get(session).and_then(|kept| kept.chosen.get(name)).cloned().unwrap_or_default()
    }

    fn modes(&self, session: &str) -> Value {
        let mut modes = json!({"currentModeId": self.chosen(session, "mode"),
            "availableModes": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]});
        self.describe(&mut modes["availableModes"][0]);
        modes
    }

    /// Some agents send very long descriptions of modes.
    fn describe(&self, mode: &mut Value) {
        if self.config.has(Quirk::LongAnswers) {
            mode["description"] = json!(updates::long_text());
        }
    }

    fn models(&self, session: &str) -> Value {
        json!({"currentModelId": self.chosen(session, "model"),
            "availableModels": [{"modelId": "fast", "name": "fast"}, {"modelId": "deep", "name": "deep"}]})
    }
}

/// The initial choices of a session.
fn first_choices() -> BTreeMap<&'static str, Value> {
    let chosen =
        [("mode", json!("a")), ("model", json!("fast")), ("effort", json!("low")), ("verbose", json!(false))];
    chosen.into_iter().collect()
}

/// Whether the client supports boolean options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Booleans {
    Taken,
    NotTaken,
}
