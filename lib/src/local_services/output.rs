//! The output of a terminal: keeps its end within a limit and tracks what was reported. Independent of processes.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rethread_core::{Fields, Json, Update, UpdateKind};
use serde_json::json;

use crate::command::CommandExit;

/// The limit if the agent sets none.
const DEFAULT_LIMIT: usize = 1024 * 1024;
/// The highest limit that an agent can set.
const MAX_LIMIT: usize = 8 * 1024 * 1024;
/// The least output that is kept for users, whatever the agent sets.
const MIN_SHOWN: usize = 64 * 1024;

/// Exit code and signal as both versions encode them.
pub(super) fn exit_json(exit: CommandExit) -> Json {
    json!({"exitCode": exit.code(), "signal": exit.signal()}).into()
}

/// The output of one terminal.
#[derive(Debug)]
pub(super) struct TerminalOutput {
    kept: VecDeque<u8>,
    /// How many bytes are kept.
    room: usize,
    /// How many of them the agent gets.
    limit: usize,
    /// The total number of bytes written.
    total: u64,
    /// How many of them were reported to users: chunk by chunk while everything is kept, otherwise as one last
    /// snapshot.
    reported: u64,
    warned: bool,
    exit: Option<CommandExit>,
    exit_reported: bool,
}

impl TerminalOutput {
    /// Makes an empty output with the agent's limit.
    pub(super) fn new(limit: Option<u64>) -> Self {
        let limit = limit.map_or(DEFAULT_LIMIT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let limit = limit.min(MAX_LIMIT);
        let room = limit.max(MIN_SHOWN);
        let kept = VecDeque::new();
        Self { kept, room, limit, total: 0, reported: 0, warned: false, exit: None, exit_reported: false }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(self.room)..];
        let over = (self.kept.len() + bytes.len()).saturating_sub(self.room);
        self.kept.drain(..over);
        self.kept.extend(bytes);
    }

    pub(super) fn exited(&mut self, exit: CommandExit) {
        self.exit = Some(exit);
    }

    pub(super) fn exit(&self) -> Option<CommandExit> {
        self.exit
    }

    /// Returns whether the exit was reported to users.
    pub(super) fn exit_reported(&self) -> bool {
        self.exit_reported
    }

    /// The answer to `terminal/output`.
    pub(super) fn answer(&self) -> Json {
        let (text, cut) = self.text();
        let truncated = cut || self.total > self.limit as u64;
        json!({"output": text, "truncated": truncated, "exitStatus": self.exit.map(|exit| exit_json(exit).value())})
            .into()
    }

    /// Returns unreported changes as updates of the terminal.
    pub(super) fn news(&mut self, terminal: &str) -> Vec<Update> {
        let mut news: Vec<_> = self.chunk(terminal).into_iter().collect();
        if let Some(exit) = self.exit.filter(|_| !self.exit_reported) {
            self.exit_reported = true;
            let mut body = heading("terminal_update", terminal);
            self.snapshot(&mut body);
            body.set("exitStatus", exit_json(exit));
            body.set("capabilities", Json::of(&()));
            news.push(update(UpdateKind::TerminalUpdate, terminal, &body));
        }
        news
    }

    /// Returns unreported changes when nothing more will follow.
    pub(super) fn last_news(&mut self, terminal: &str) -> Vec<Update> {
        let mut news = self.news(terminal);
        let mut body = heading("terminal_update", terminal);
        self.snapshot(&mut body);
        if !self.exit_reported {
            body.set("capabilities", Json::of(&()));
        }
        if body.iter().count() > 2 {
            news.push(update(UpdateKind::TerminalUpdate, terminal, &body));
        }
        news
    }

    /// New output while all of it is kept. Longer output is reported once at the end, with a note until then.
    fn chunk(&mut self, terminal: &str) -> Option<Update> {
        let data = if self.total <= self.room as u64 {
            let reported = usize::try_from(self.reported).unwrap_or(usize::MAX);
            self.reported = self.total;
            self.kept.iter().skip(reported).copied().collect()
        } else if self.warned || self.exit.is_some() {
            Vec::new()
        } else {
            self.warned = true;
            format!("\r\n[more than {} bytes: the rest is shown when the command ends]\r\n", self.room).into()
        };
        let mut body = heading("terminal_output_chunk", terminal);
        body.set("data", Json::of(&STANDARD.encode(&data)));
        (!data.is_empty()).then(|| update(UpdateKind::TerminalOutputChunk, terminal, &body))
    }

    /// Adds the kept end if not all of it was reported.
    fn snapshot(&mut self, body: &mut Fields) {
        if self.reported < self.total {
            self.reported = self.total;
            let data: Vec<u8> = self.kept.iter().copied().collect();
            body.set("output", json!({"data": STANDARD.encode(data)}).into());
        }
    }

    /// The end as text within the limit, and whether anything was left out.
    fn text(&self) -> (String, bool) {
        let from = self.kept.len().saturating_sub(self.limit);
        let mut bytes: Vec<u8> = self.kept.iter().skip(from).copied().collect();
        if self.exit.is_none() {
            // The rest of this character has not arrived yet.
            bytes.truncate(bytes.len() - unfinished(&bytes));
        }
        let begun = from > 0 || self.total > self.kept.len() as u64;
        let inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
        let halves = if begun { bytes.iter().take(3).take_while(inside).count() } else { 0 };
        let text = String::from_utf8_lossy(&bytes[halves..]);
        // Replacement characters for invalid UTF-8 take more bytes.
        let mut start = text.len().saturating_sub(self.limit);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        (text[start..].to_owned(), start > 0)
    }
}

/// The first update of a terminal.
pub(super) fn announcement(terminal: &str, command: &str, cwd: &str) -> Update {
    let mut body = heading("terminal_update", terminal);
    body.set("command", Json::of(command));
    body.set("cwd", Json::of(cwd));
    body.set("capabilities", json!({"cancel": {}}).into());
    update(UpdateKind::TerminalUpdate, terminal, &body)
}

fn heading(tag: &str, terminal: &str) -> Fields {
    [("sessionUpdate", Json::of(tag)), ("terminalId", Json::of(terminal))].into_iter().collect()
}

fn update(kind: UpdateKind, terminal: &str, body: &Fields) -> Update {
    Update { kind, id: terminal.to_owned(), body: body.json() }
}

/// The number of bytes at the end that are an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(3);
    for (at, byte) in last.enumerate() {
        let whole = match byte {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue,
            _ => return 0,
        };
        return if at + 1 < whole { at + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::{TerminalOutput, unfinished};
    use crate::command::CommandExit;

    fn reported(output: &mut TerminalOutput) -> Vec<String> {
        let decoded = |data: Option<String>| {
            String::from_utf8_lossy(&STANDARD.decode(data.unwrap_or_default()).unwrap()).into_owned()
        };
        let words = output.news("t").into_iter().map(|update| {
            let fields = update.body.fields();
            match fields.get("output") {
                Some(whole) => format!("whole {}", decoded(whole.fields().text("data")).len()),
                None => decoded(fields.text("data")),
            }
        });
        words.collect()
    }

    #[test]
    fn the_end_is_kept_at_a_character_boundary() {
        for (limit, expected) in [(4, "aéb"), (3, "éb"), (2, "b"), (1, "b"), (0, "")] {
            let mut output = TerminalOutput::new(Some(limit));
            output.append("aaéb".as_bytes());
            let answer = output.answer().value();
            assert_eq!(
                (answer["output"].as_str(), answer["truncated"].as_bool()),
                (Some(expected), Some(true))
            );
        }
        let mut output = TerminalOutput::new(Some(5));
        output.append("aaéb".as_bytes());
        assert_eq!(output.answer().value()["output"], "aaéb");
        assert_eq!(output.answer().value()["truncated"], false);
    }

    #[test]
    fn half_a_character_waits_for_its_rest() {
        let mut output = TerminalOutput::new(None);
        output.append(&"aé".as_bytes()[..2]);
        assert_eq!(output.answer().value()["output"], "a");
        output.append(&"aé".as_bytes()[2..]);
        assert_eq!(output.answer().value()["output"], "aé");
        assert_eq!([&b"a"[..], b"\xe2\x82", b"\xf0", b"\x80", b"\xc3\xa9"].map(unfinished), [0, 2, 1, 0, 0]);
    }

    #[test]
    fn binary_output_stays_within_the_limit() {
        let mut output = TerminalOutput::new(Some(10));
        output.append(&[0xff; 10]);
        let answer = output.answer().value();
        assert_eq!(answer["output"].as_str().map(str::len), Some(9));
        assert_eq!(answer["truncated"], true);
    }

    #[test]
    fn users_get_chunks_and_only_the_end_of_a_flood() {
        let mut output = TerminalOutput::new(Some(10));
        output.append(b"one");
        assert_eq!(reported(&mut output), ["one"]);
        assert_eq!(reported(&mut output), [""; 0]);
        output.append(b" two");
        assert_eq!(reported(&mut output), [" two"]);
        for _ in 0..100 {
            output.append(&[b'x'; 1024]);
        }
        let words = output.news("t");
        assert_eq!(words.len(), 1, "a word about it");
        output.append(&[b'x'; 1024]);
        assert_eq!(output.news("t").len(), 0);
        output.exited(CommandExit::of(ExitStatus::from_raw(0)));
        assert_eq!(reported(&mut output), ["whole 65536"]);
        assert_eq!(output.last_news("t").len(), 0);
        assert_eq!(output.kept.len(), 65536);
    }
}
