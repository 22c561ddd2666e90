//! The second reading of a thread: says what each record means, as updates, ends of turns, models and tokens. Messages
//! are told by the events that people saw; only where old versions have none by the items for the model. Calls of tools
//! are told by both, which add up.

use std::collections::HashSet;

use rethread_core::{Stop, Update};
use serde_json::Value;

use super::thread::CodexRecord;
use super::{calls, items, outputs, prompt};
use crate::importer::sink::UsedTokens;
use crate::importer::updates::{self, RecordedCall, ToolStatus};

/// The error code of a turn that failed.
const TURN_FAILED: i64 = -32603;

/// What a record says.
#[derive(Debug)]
pub(super) enum CodexEvent {
    Update(Update),
    Model(String),
    Tokens(UsedTokens),
    TurnBegun,
    TurnEnded(Stop),
}

/// Whose thread is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CodexSpeaker {
    Main,
    /// A sub-agent with this id.
    Child(String),
}

/// How far the turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodexTurn {
    Over,
    /// A record will say that it ended.
    Running,
    /// Nothing will say so: the user has asked something.
    Asked,
    /// The same, and the agent has said something.
    Answered,
}

/// Tells a thread.
pub(super) struct CodexTelling {
    items_until: u64,
    speaker: CodexSpeaker,
    prefix: String,
    turn: CodexTurn,
    told: Vec<CodexEvent>,
    /// The calls whose end an event has told.
    settled: HashSet<String>,
    /// The calls that are told as plans.
    plans: HashSet<String>,
    /// A search whose item has no id.
    search: Option<String>,
    /// The tokens of the thread so far.
    total: Option<u64>,
    failure: Option<String>,
    is_announced: bool,
}

impl CodexTelling {
    /// Tells a thread whose messages are in its items up to a record.
    pub(super) fn new(items_until: u64, speaker: CodexSpeaker) -> Self {
        let prefix = match &speaker {
            CodexSpeaker::Main => String::new(),
            CodexSpeaker::Child(id) => format!("{id}-"),
        };
        Self {
            items_until,
            speaker,
            prefix,
            turn: CodexTurn::Over,
            told: Vec::new(),
            settled: HashSet::new(),
            plans: HashSet::new(),
            search: None,
            total: None,
            failure: None,
            is_announced: false,
        }
    }

    /// Says whether the last turn has no end.
    pub(super) fn is_unfinished(&self) -> bool {
        matches!(self.turn, CodexTurn::Running | CodexTurn::Asked)
    }

    /// Says what a record means.
    pub(super) fn record(&mut self, record: CodexRecord) -> Vec<CodexEvent> {
        let (number, payload) = (record.number, &record.payload);
        match &*record.kind {
            "event_msg" => self.event(number, payload),
            "response_item" => self.item(number, payload),
            "turn_context" => self.model(&payload["model"]),
            "compacted" => {
                let summary = payload["message"].as_str().unwrap_or_default();
                let id = format!("{}compaction-{number}", self.prefix);
                self.update(updates::compaction(&id, summary));
            }
            "inter_agent_communication" => self.told_by_agent(number, payload["content"].as_str()),
            _ => {}
        }
        let told = std::mem::take(&mut self.told);
        self.announced(told)
    }

    /// A sub-agent begins with its first record.
    fn announced(&mut self, mut told: Vec<CodexEvent>) -> Vec<CodexEvent> {
        if !self.is_announced && !told.is_empty() {
            self.is_announced = true;
            if !matches!(told[0], CodexEvent::TurnBegun) {
                told.insert(0, CodexEvent::TurnBegun);
            }
        }
        told
    }

    fn event(&mut self, number: u64, event: &Value) {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let is_seen = number >= self.items_until;
        match text("type") {
            "task_started" | "turn_started" => {
                self.turn = CodexTurn::Running;
                self.failure = None;
                self.told.push(CodexEvent::TurnBegun);
            }
            "task_complete" | "turn_complete" => self.completed(event),
            "turn_aborted" => self.aborted(text("reason")),
            "error" => self.failure = Some(text("message").to_owned()),
            "user_message" => self.says(&self.id(number), &prompt::of_event(event)),
            "agent_message" if is_seen => self.answers(&self.id(number), text("message")),
            "agent_reasoning" | "agent_reasoning_raw_content" if is_seen => {
                self.thinks(&self.id(number), text("text"));
            }
            "token_count" => self.tokens(&event["info"]),
            "item_completed" => self.turn_item(number, &event["item"]),
            "entered_review_mode" => self.reviews(&self.id(number), text("user_facing_hint")),
            "exited_review_mode" => self.answers(&self.id(number), &items::review(&event["review_output"])),
            "web_search_end" => {
                // The item of the same search may have had no id.
                let id = self.search.take().unwrap_or_else(|| text("call_id").to_owned());
                self.call(&id, items::web_search(&id, event));
            }
            kind => {
                if let Some((id, call)) = items::of_event(kind, event) {
                    self.call(&id, call);
                }
            }
        }
    }

    /// What was completed in a turn, for people to see.
    fn turn_item(&mut self, number: u64, item: &Value) {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        let own = self.id(number);
        let id = item["id"].as_str().filter(|id| !id.is_empty()).unwrap_or(&own);
        let is_seen = number >= self.items_until;
        match text("type") {
            "UserMessage" => self.says(id, &prompt::of_turn_item(&item["content"])),
            "AgentMessage" if is_seen => {
                let parts = item["content"].as_array().into_iter().flatten();
                let words: String = parts.filter_map(|part| part["text"].as_str()).collect();
                self.answers(id, &words);
            }
            "Reasoning" if is_seen => {
                let parts =
                    ["summary_text", "raw_content"].into_iter().flat_map(|name| item[name].as_array());
                let words: Vec<&str> = parts.flatten().filter_map(Value::as_str).collect();
                self.thinks(id, &words.join("\n\n"));
            }
            "Plan" => self.answers(id, text("text")),
            "EnteredReviewMode" => self.reviews(id, text("user_facing_hint")),
            "ExitedReviewMode" => self.answers(id, &items::review(&item["review_output"])),
            kind => {
                if let Some(call) = items::of_turn(kind, id, item) {
                    self.call(id, call);
                }
            }
        }
    }

    /// What the model was given or gave.
    fn item(&mut self, number: u64, item: &Value) {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        let own = self.id(number);
        let id = item["id"].as_str().filter(|id| !id.is_empty()).unwrap_or(&own);
        let call_id = item["call_id"].as_str().filter(|id| !id.is_empty()).unwrap_or(id);
        let is_seen_elsewhere = number >= self.items_until;
        match text("type") {
            "message" if text("role") == "user" && prompt::is_shell_command(&item["content"]) => {
                self.shell_command(id, &item["content"]);
            }
            "message" if text("role") == "user" && !is_seen_elsewhere => {
                self.says(id, &prompt::of_item(&item["content"]));
            }
            "message" if text("role") == "assistant" && !is_seen_elsewhere => {
                self.answers(id, &joined(&item["content"]));
            }
            "reasoning" if !is_seen_elsewhere => {
                let words = [joined(&item["summary"]), joined(&item["content"])];
                self.thinks(id, words.join("\n\n").trim());
            }
            "function_call" => self.asks(call_id, text("name"), calls::arguments(&item["arguments"])),
            "custom_tool_call" => self.asks(call_id, text("name"), item["input"].clone()),
            "local_shell_call" => self.asks(call_id, "local_shell", item["action"].clone()),
            "tool_search_call" => self.asks(call_id, "tool_search", item["arguments"].clone()),
            "function_call_output" | "custom_tool_call_output" => self.output(call_id, &item["output"]),
            "tool_search_output" => self.output(call_id, &Value::Null),
            "web_search_call" => {
                if item["id"].as_str().is_none_or(str::is_empty) {
                    self.search = Some(id.to_owned());
                }
                self.call(id, items::web_search(id, item));
            }
            "image_generation_call" => self.call(id, items::image_generation(id, item)),
            "agent_message" => self.told_by_agent(number, Some(&joined(&item["content"]))),
            _ => {}
        }
    }

    /// A command that the user ran in Codex.
    fn shell_command(&mut self, id: &str, content: &Value) {
        let Some((command, result)) = prompt::shell_command(content) else { return };
        let (code, output) = outputs::without_header(&result);
        let call = RecordedCall::new(id).kind("execute").status(outputs::status(code));
        let call = calls::titled(call, &command, "shell").content(&outputs::shown_text(output));
        self.update(call.update());
    }

    fn says(&mut self, id: &str, blocks: &[Value]) {
        if blocks.is_empty() {
            return;
        }
        if self.turn != CodexTurn::Running {
            self.turn = CodexTurn::Asked;
        }
        self.update(updates::user_message(id, blocks));
    }

    /// A review of changes, which the user asks for with a command.
    fn reviews(&mut self, id: &str, hint: &str) {
        self.says(id, &[updates::text(format!("/review {hint}").trim())]);
    }

    fn answers(&mut self, id: &str, words: &str) {
        if words.is_empty() {
            return;
        }
        if self.turn == CodexTurn::Asked {
            self.turn = CodexTurn::Answered;
        }
        self.update(updates::agent_message(id, &[updates::text(words)]));
    }

    fn thinks(&mut self, id: &str, words: &str) {
        if !words.is_empty() {
            self.update(updates::thought(id, words));
        }
    }

    /// A message of another agent: what a sub-agent is told to do.
    fn told_by_agent(&mut self, number: u64, words: Option<&str>) {
        if let (CodexSpeaker::Child(_), Some(words)) =
            (&self.speaker, words.filter(|words| !words.is_empty()))
        {
            self.update(updates::user_message(&self.id(number), &[updates::text(words)]));
        }
    }

    /// A call that the model makes.
    fn asks(&mut self, id: &str, name: &str, input: Value) {
        if let Some(entries) = calls::plan_of(name, &input) {
            self.plans.insert(id.to_owned());
            return self.update(updates::plan(&format!("{}plan", self.prefix), &entries));
        }
        if self.turn == CodexTurn::Answered {
            self.turn = CodexTurn::Asked;
        }
        self.update(calls::begun(id, name, &input).status(ToolStatus::InProgress).update());
    }

    /// A call whose end is known.
    fn call(&mut self, id: &str, call: RecordedCall) {
        self.settled.insert(id.to_owned());
        self.update(call.update());
    }

    /// What the model was told of a call. Where an event has told it for people, that counts.
    fn output(&mut self, id: &str, output: &Value) {
        if self.plans.remove(id) {
            return;
        }
        let call = RecordedCall::new(id).output(output.clone().into());
        if self.settled.remove(id) {
            return self.update(call.update());
        }
        let read = outputs::read(output);
        let call = call.status(read.status);
        let call = if read.content.is_empty() { call } else { call.content(&read.content) };
        self.update(call.update());
    }

    fn completed(&mut self, event: &Value) {
        let error = event["error"]["message"].as_str().map(str::to_owned).or_else(|| self.failure.take());
        self.turn = CodexTurn::Over;
        let stop = error.map_or_else(|| Stop::plain("end_turn"), |error| Stop::failed(TURN_FAILED, &error));
        self.told.push(CodexEvent::TurnEnded(stop));
    }

    fn aborted(&mut self, reason: &str) {
        self.turn = CodexTurn::Over;
        let stop = match reason {
            "review_ended" => "end_turn",
            "budget_limited" => "max_tokens",
            _ => "cancelled",
        };
        self.told.push(CodexEvent::TurnEnded(Stop::plain(stop)));
    }

    fn model(&mut self, name: &Value) {
        if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
            self.told.push(CodexEvent::Model(name.to_owned()));
        }
    }

    /// The tokens of the last request. The same record is written again when only limits have changed.
    fn tokens(&mut self, info: &Value) {
        let total = info["total_token_usage"]["total_tokens"].as_u64();
        if total.is_none() || total == self.total {
            return;
        }
        self.total = total;
        let count = |name: &str| info["last_token_usage"][name].as_u64().unwrap_or(0);
        let (cached_read, cached_write) = (count("cached_input_tokens"), count("cache_write_input_tokens"));
        let input = count("input_tokens").saturating_sub(cached_read).saturating_sub(cached_write);
        let output = count("output_tokens");
        self.told.push(CodexEvent::Tokens(UsedTokens { input, output, cached_read, cached_write }));
    }

    fn update(&mut self, update: Update) {
        self.told.push(CodexEvent::Update(update));
    }

    /// An id for what has none.
    fn id(&self, number: u64) -> String {
        format!("{}{number}", self.prefix)
    }
}

/// The texts of a list of blocks.
fn joined(blocks: &Value) -> String {
    let blocks = blocks.as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n\n")
}
