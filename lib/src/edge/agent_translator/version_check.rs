//! Detects agents that answer `initialize` with version 2 but speak version 1. While a prompt is unacknowledged and the
//! version is unclear, the agent's lines are held back: each version reads them differently, and they belong after the
//! prompt that they answer.

use bytes::Bytes;
use rethread_core::{Fields, Json, Update};

use super::AgentTranslator;
use super::incoming::fields;
use crate::edge::Version;
use crate::wire::{RpcMessage, parse};

/// The limit for lines that are held back. After that they are read as version 2.
const MAX_HELD_BYTES: usize = 1024 * 1024;

/// The result of a version check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionFinding {
    /// Nothing new.
    None,
    /// The agent answered with version 2 but speaks version 1.
    Version1,
}

/// The state of the version check.
#[derive(Debug, Default)]
pub(super) struct VersionCheck {
    certainty: Certainty,
    /// The answer that opened the session, kept in case it must be decoded again as version 1.
    open_answer: Option<Json>,
    held: Vec<Bytes>,
    held_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Certainty {
    /// No message so far is specific to one version.
    #[default]
    Unknown,
    /// Still unknown, but lines are no longer held back.
    Assumed,
    /// The agent speaks the version it answered with.
    Confirmed,
}

impl AgentTranslator {
    /// Checks lines before they are decoded, and holds them back while the version is unclear. Switches to version 1 if
    /// they prove that the agent speaks it.
    pub fn check_version(&mut self, lines: &mut Vec<Bytes>) -> VersionFinding {
        if !self.is_version_unclear() {
            return VersionFinding::None;
        }
        let mut finding = VersionFinding::None;
        for line in std::mem::take(lines) {
            if self.is_version_unclear() {
                match evidence_in_line(&line) {
                    Evidence::Version1 => {
                        self.version = Version::V1;
                        finding = VersionFinding::Version1;
                    }
                    Evidence::Version2 => self.confirm_version_2(),
                    Evidence::Question => self.version_check.certainty = Certainty::Assumed,
                    Evidence::Nothing => self.version_check.note_held(line.len()),
                }
            }
            self.version_check.held.push(line);
        }
        *lines = self.take_held_lines();
        finding
    }

    /// Checks the answer to a prompt: a stop reason in it proves version 1.
    pub fn check_prompt_answer(&mut self, answer: &Json) -> VersionFinding {
        let unproven = self.version == Version::V2 && self.version_check.certainty != Certainty::Confirmed;
        let answer = answer.fields();
        if unproven && answer.text("stopReason").is_some() {
            self.version = Version::V1;
            return VersionFinding::Version1;
        }
        if answer.text("messageId").is_some() {
            self.confirm_version_2();
        }
        VersionFinding::None
    }

    /// Decodes the answer that opened the session again, as the version that the agent turned out to speak.
    pub fn reread_open_answer(&mut self) -> Vec<Update> {
        self.version_check
            .open_answer
            .take()
            .map(|answer| self.decode_open_answer(&answer))
            .unwrap_or_default()
    }

    /// Keeps the answer that opened the session while it may have to be decoded again.
    pub(super) fn keep_open_answer(&mut self, answer: &Json) {
        if self.version == Version::V2 && self.version_check.certainty != Certainty::Confirmed {
            self.version_check.open_answer = Some(answer.clone());
        }
    }

    /// Returns the held lines once the version is clear.
    pub fn take_held_lines(&mut self) -> Vec<Bytes> {
        if self.is_version_unclear() {
            return Vec::new();
        }
        self.version_check.held_bytes = 0;
        std::mem::take(&mut self.version_check.held)
    }

    /// Stops holding lines back, because the agent has exited.
    pub fn stop_waiting_for_version(&mut self) -> Vec<Bytes> {
        if self.is_version_unclear() {
            self.version_check.certainty = Certainty::Assumed;
        }
        self.take_held_lines()
    }

    pub(super) fn confirm_version_2(&mut self) {
        self.version_check.certainty = Certainty::Confirmed;
        self.version_check.open_answer = None;
    }

    fn is_version_unclear(&self) -> bool {
        self.version == Version::V2
            && self.version_check.certainty == Certainty::Unknown
            && self.unacknowledged > 0
    }
}

impl VersionCheck {
    fn note_held(&mut self, length: usize) {
        self.held_bytes += length;
        if self.held_bytes > MAX_HELD_BYTES {
            self.certainty = Certainty::Assumed;
        }
    }
}

/// What a line proves about the version.
enum Evidence {
    Version1,
    Version2,
    /// The agent waits for an answer that is the same in both versions.
    Question,
    Nothing,
}

fn evidence_in_line(line: &[u8]) -> Evidence {
    match parse(line) {
        Ok(RpcMessage::Request { method, params, .. }) => match &*method {
            "session/request_permission" if fields(params).get("toolCall").is_some() => Evidence::Version1,
            "session/request_permission" => Evidence::Version2,
            method if method.starts_with("fs/") || method.starts_with("terminal/") => Evidence::Version1,
            _ => Evidence::Question,
        },
        Ok(RpcMessage::Notification { method, params }) if &*method == "session/update" => {
            evidence_in_update(&fields(params).get("update").map(Json::fields).unwrap_or_default())
        }
        Ok(RpcMessage::Notification { .. } | RpcMessage::Response { .. }) | Err(_) => Evidence::Nothing,
    }
}

fn evidence_in_update(update: &Fields) -> Evidence {
    match update.text("sessionUpdate").as_deref() {
        Some("state_update" | "user_message" | "agent_message" | "agent_thought") => Evidence::Version2,
        Some("tool_call" | "plan" | "current_mode_update") => Evidence::Version1,
        // Version 2 requires an id for every message.
        Some("user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk")
            if update.text("messageId").is_none() =>
        {
            Evidence::Version1
        }
        Some(_) | None => Evidence::Nothing,
    }
}
