//! Which version an agent speaks that answered `initialize` with 2. Some agents answer with whatever they are offered
//! and speak version 1. While a prompt is not acknowledged and nothing shows which it is, what the agent says is held
//! back: it is read differently in each version, and stands behind the prompt that it answers.

use bytes::Bytes;
use rethread_core::{Fields, Json, Update};

use super::Link;
use super::hear::fields;
use crate::edge::Version;
use crate::wire::{Message, parse};

/// How many bytes are held back at most. What comes beyond that is read as version 2.
const MOST: usize = 1024 * 1024;

/// What the messages of an agent say of the version that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Nothing new.
    None,
    /// It answered with version 2 and speaks version 1.
    Version1,
}

/// What is known of the version that an agent speaks.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    proof: Proof,
    /// What opened the session, to be read anew.
    opened_with: Option<Json>,
    held: Vec<Bytes>,
    held_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Proof {
    /// It has said nothing that only one version has.
    #[default]
    Missing,
    /// The same, but nothing is held back any longer.
    Given,
    /// It speaks the version that it answered with.
    Shown,
}

impl Link {
    /// Looks at lines before they are heard, and holds them back while it is not known which version they are. If
    /// they show that the agent speaks version 1, the link does from here on.
    pub fn check_version(&mut self, lines: &mut Vec<Bytes>) -> Sign {
        if !self.is_in_doubt() {
            return Sign::None;
        }
        let mut sign = Sign::None;
        for line in std::mem::take(lines) {
            if self.is_in_doubt() {
                match version_of(&line) {
                    Shows::Version1 => {
                        self.version = Version::V1;
                        sign = Sign::Version1;
                    }
                    Shows::Version2 => self.shows_version_2(),
                    Shows::Question => self.spoken.proof = Proof::Given,
                    Shows::Nothing => self.spoken.note_held(line.len()),
                }
            }
            self.spoken.held.push(line);
        }
        *lines = self.take_held();
        sign
    }

    /// Looks at the answer to a prompt. A reason why the turn ended is what version 1 answers.
    pub fn check_prompt_answer(&mut self, answer: &Json) -> Sign {
        let unproven = self.version == Version::V2 && self.spoken.proof != Proof::Shown;
        let answer = answer.fields();
        if unproven && answer.text("stopReason").is_some() {
            self.version = Version::V1;
            return Sign::Version1;
        }
        if answer.text("messageId").is_some() {
            self.shows_version_2();
        }
        Sign::None
    }

    /// What the agent told when it opened the session, read as the version that it turned out to speak.
    pub fn opened_anew(&mut self) -> Vec<Update> {
        self.spoken.opened_with.take().map(|answer| self.opened(&answer)).unwrap_or_default()
    }

    /// Keeps what opened the session for as long as it may have to be read anew.
    pub(super) fn keep_opening(&mut self, answer: &Json) {
        if self.version == Version::V2 && self.spoken.proof != Proof::Shown {
            self.spoken.opened_with = Some(answer.clone());
        }
    }

    /// The lines that were held back, once they need not be.
    pub fn take_held(&mut self) -> Vec<Bytes> {
        if self.is_in_doubt() {
            return Vec::new();
        }
        self.spoken.held_bytes = 0;
        std::mem::take(&mut self.spoken.held)
    }

    /// Gives up waiting for a sign: the agent is gone.
    pub fn give_up_waiting(&mut self) -> Vec<Bytes> {
        if self.is_in_doubt() {
            self.spoken.proof = Proof::Given;
        }
        self.take_held()
    }

    pub(super) fn shows_version_2(&mut self) {
        self.spoken.proof = Proof::Shown;
        self.spoken.opened_with = None;
    }

    fn is_in_doubt(&self) -> bool {
        self.version == Version::V2 && self.spoken.proof == Proof::Missing && self.unacknowledged > 0
    }
}

impl Spoken {
    fn note_held(&mut self, length: usize) {
        self.held_bytes += length;
        if self.held_bytes > MOST {
            self.proof = Proof::Given;
        }
    }
}

/// What one line shows.
enum Shows {
    Version1,
    Version2,
    /// It waits for an answer that is the same in both versions.
    Question,
    Nothing,
}

fn version_of(line: &[u8]) -> Shows {
    match parse(line) {
        Ok(Message::Request { method, params, .. }) => match &*method {
            "session/request_permission" if fields(params).get("toolCall").is_some() => Shows::Version1,
            "session/request_permission" => Shows::Version2,
            method if method.starts_with("fs/") || method.starts_with("terminal/") => Shows::Version1,
            _ => Shows::Question,
        },
        Ok(Message::Notification { method, params }) if &*method == "session/update" => {
            update_shows(&fields(params).get("update").map(Json::fields).unwrap_or_default())
        }
        Ok(Message::Notification { .. } | Message::Response { .. }) | Err(_) => Shows::Nothing,
    }
}

fn update_shows(update: &Fields) -> Shows {
    match update.text("sessionUpdate").as_deref() {
        Some("state_update" | "user_message" | "agent_message" | "agent_thought") => Shows::Version2,
        Some("tool_call" | "plan" | "current_mode_update") => Shows::Version1,
        // Version 2 has an id for every message.
        Some("user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk")
            if update.text("messageId").is_none() =>
        {
            Shows::Version1
        }
        Some(_) | None => Shows::Nothing,
    }
}
