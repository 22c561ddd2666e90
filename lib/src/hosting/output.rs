//! What a terminal has written: its end, kept within bounds, and what of it is still to be told. Knows no
//! process.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rethread_core::{Fields, Json, Update, UpdateKind};
use serde_json::json;

/// How much the agent is kept if it does not say.
const STANDARD_LIMIT: usize = 1024 * 1024;
/// How much it is kept at most, whatever it says.
const HIGHEST_LIMIT: usize = 8 * 1024 * 1024;
/// How much users are kept at least, whatever the agent says.
const LEAST_SHOWN: usize = 64 * 1024;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(ExitStatus);

impl Exit {
    pub(super) fn of(status: ExitStatus) -> Self {
        Self(status)
    }

    /// The end in words.
    #[cfg(feature = "assistant")]
    pub(crate) fn words(self) -> String {
        match (self.0.code(), self.0.signal()) {
            (Some(code), _) => format!("it ended with exit status {code}"),
            (None, Some(signal)) => format!("it was killed by {}", signal_name(signal)),
            (None, None) => "it ended".to_owned(),
        }
    }

    /// Exit code and signal, as both versions write them.
    pub(crate) fn json(self) -> Json {
        json!({"exitCode": self.0.code(), "signal": self.0.signal().map(signal_name)}).into()
    }
}

/// The output of a terminal.
#[derive(Debug)]
pub(super) struct Output {
    kept: VecDeque<u8>,
    /// How much is kept.
    room: usize,
    /// How much of it is for the agent.
    limit: usize,
    /// How much there was.
    total: u64,
    /// How much of that users were told: chunk by chunk while everything is kept, else as one last snapshot.
    told: u64,
    warned: bool,
    exit: Option<Exit>,
    exit_told: bool,
}

impl Output {
    /// No output, of which this much is for the agent.
    pub(super) fn new(limit: Option<u64>) -> Self {
        let limit = limit.map_or(STANDARD_LIMIT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let limit = limit.min(HIGHEST_LIMIT);
        let room = limit.max(LEAST_SHOWN);
        let kept = VecDeque::new();
        Self { kept, room, limit, total: 0, told: 0, warned: false, exit: None, exit_told: false }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(self.room)..];
        let over = (self.kept.len() + bytes.len()).saturating_sub(self.room);
        self.kept.drain(..over);
        self.kept.extend(bytes);
    }

    pub(super) fn exited(&mut self, exit: Exit) {
        self.exit = Some(exit);
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Says whether users have been told of the exit.
    pub(super) fn exit_told(&self) -> bool {
        self.exit_told
    }

    /// The answer to `terminal/output`.
    pub(super) fn answer(&self) -> Json {
        let (text, cut) = self.text();
        let truncated = cut || self.total > self.limit as u64;
        json!({"output": text, "truncated": truncated, "exitStatus": self.exit.map(|exit| exit.json().value())})
            .into()
    }

    /// What users have not been told yet, as updates of the terminal.
    pub(super) fn news(&mut self, terminal: &str) -> Vec<Update> {
        let mut news: Vec<_> = self.chunk(terminal).into_iter().collect();
        if let Some(exit) = self.exit.filter(|_| !self.exit_told) {
            self.exit_told = true;
            let mut body = heading("terminal_update", terminal);
            self.snapshot(&mut body);
            body.set("exitStatus", exit.json());
            body.set("capabilities", Json::of(&()));
            news.push(update(UpdateKind::TerminalUpdate, terminal, &body));
        }
        news
    }

    /// The same when nothing more will be told.
    pub(super) fn last_news(&mut self, terminal: &str) -> Vec<Update> {
        let mut news = self.news(terminal);
        let mut body = heading("terminal_update", terminal);
        self.snapshot(&mut body);
        if !self.exit_told {
            body.set("capabilities", Json::of(&()));
        }
        if body.iter().count() > 2 {
            news.push(update(UpdateKind::TerminalUpdate, terminal, &body));
        }
        news
    }

    /// New output, as long as all of it is kept. More than that is told once, at the end; until then a word
    /// about it stands in its place.
    fn chunk(&mut self, terminal: &str) -> Option<Update> {
        let data = if self.total <= self.room as u64 {
            let told = usize::try_from(self.told).unwrap_or(usize::MAX);
            self.told = self.total;
            self.kept.iter().skip(told).copied().collect()
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

    /// The kept end, if users were not told all of it.
    fn snapshot(&mut self, body: &mut Fields) {
        if self.told < self.total {
            self.told = self.total;
            let data: Vec<u8> = self.kept.iter().copied().collect();
            body.set("output", json!({"data": STANDARD.encode(data)}).into());
        }
    }

    /// The end as text within the limit, and whether anything was left out for that.
    fn text(&self) -> (String, bool) {
        let from = self.kept.len().saturating_sub(self.limit);
        let mut bytes: Vec<u8> = self.kept.iter().skip(from).copied().collect();
        if self.exit.is_none() {
            // The rest of this character is under way.
            bytes.truncate(bytes.len() - unfinished(&bytes));
        }
        let begun = from > 0 || self.total > self.kept.len() as u64;
        let inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
        let halves = if begun { bytes.iter().take(3).take_while(inside).count() } else { 0 };
        let text = String::from_utf8_lossy(&bytes[halves..]);
        // What is no text is written with longer characters.
        let mut start = text.len().saturating_sub(self.limit);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        (text[start..].to_owned(), start > 0)
    }
}

/// The first word about a terminal.
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

/// How many bytes at the end are the beginning of a character.
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

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("SIG{other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::{Exit, Output, unfinished};

    fn told(output: &mut Output) -> Vec<String> {
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
            let mut output = Output::new(Some(limit));
            output.append("aaéb".as_bytes());
            let answer = output.answer().value();
            assert_eq!(
                (answer["output"].as_str(), answer["truncated"].as_bool()),
                (Some(expected), Some(true))
            );
        }
        let mut output = Output::new(Some(5));
        output.append("aaéb".as_bytes());
        assert_eq!(output.answer().value()["output"], "aaéb");
        assert_eq!(output.answer().value()["truncated"], false);
    }

    #[test]
    fn half_a_character_waits_for_its_rest() {
        let mut output = Output::new(None);
        output.append(&"aé".as_bytes()[..2]);
        assert_eq!(output.answer().value()["output"], "a");
        output.append(&"aé".as_bytes()[2..]);
        assert_eq!(output.answer().value()["output"], "aé");
        assert_eq!([&b"a"[..], b"\xe2\x82", b"\xf0", b"\x80", b"\xc3\xa9"].map(unfinished), [0, 2, 1, 0, 0]);
    }

    #[test]
    fn what_is_no_text_stays_within_the_limit() {
        let mut output = Output::new(Some(10));
        output.append(&[0xff; 10]);
        let answer = output.answer().value();
        assert_eq!(answer["output"].as_str().map(str::len), Some(9));
        assert_eq!(answer["truncated"], true);
    }

    #[test]
    fn users_are_told_chunks_and_of_a_flood_its_end() {
        let mut output = Output::new(Some(10));
        output.append(b"one");
        assert_eq!(told(&mut output), ["one"]);
        assert_eq!(told(&mut output), [""; 0]);
        output.append(b" two");
        assert_eq!(told(&mut output), [" two"]);
        for _ in 0..100 {
            output.append(&[b'x'; 1024]);
        }
        let words = output.news("t");
        assert_eq!(words.len(), 1, "a word about it");
        output.append(&[b'x'; 1024]);
        assert_eq!(output.news("t").len(), 0);
        output.exited(Exit(ExitStatus::from_raw(0)));
        assert_eq!(told(&mut output), ["whole 65536"]);
        assert_eq!(output.last_news("t").len(), 0);
        assert_eq!(output.kept.len(), 65536);
    }
}
