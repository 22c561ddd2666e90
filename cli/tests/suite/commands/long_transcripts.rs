//! Long and damaged transcripts: bounded memory, and what can be read of a journal that is damaged.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use rethread_core::{Entry, Stop};
use serde_json::{Value, json};

use super::Shell;
use super::rich::{ended, opened, turn_began, update};

/// The highest amount of memory that a command may use, in KiB. To keep all of the transcript takes twice as much.
const MAX_KIB: u64 = 64 * 1024;

/// How many turns and how many chunks of 100 KB in each.
const TURNS: u64 = 10;
const CHUNKS: usize = 12;

fn chunk(turn: u64, no: usize, text: &str) -> Entry {
    update(json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("a{turn}"),
        "content": {"type": "text", "text": format!("{no} {text}")}}))
}

/// A session of 23 MB, one turn of which has 12 MB.
fn long_session() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    let mut lease = store.add_owned_entries("s-long", &here, "codex", None, vec![opened(&here, "codex")]);
    let text = "lorem ipsum dolor sit amet ".repeat(3_700);
    for turn in 1..=TURNS {
        let chunks = if turn == TURNS / 2 { 10 * CHUNKS } else { CHUNKS };
        let mut entries = turn_began(turn, turn * 1000, &format!("prompt {turn}"));
        entries.extend((0..chunks).map(|no| chunk(turn, no, &text)));
        entries.push(ended(turn, turn * 1000 + 900, Stop::plain("end_turn"), Value::Null));
        let count = entries.len() as u64;
        store.append(&lease, entries);
        lease.head.0 += count;
    }
    shell
}

/// Runs a command, counts the bytes that it prints, and returns them with the memory that it used at most, in KiB.
fn measured(shell: &Shell, args: &[&str]) -> (usize, u64) {
    let mut command = shell.command(args).into_std();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("it starts");
    let mut output = child.stdout.take().expect("a pipe");
    let (mut total, mut most, mut buffer) = (0, 0, vec![0; 1 << 20]);
    loop {
        most = most.max(highest_memory(child.id()));
        match output.read(&mut buffer).expect("it can be read") {
            0 => break,
            read => total += read,
        }
    }
    assert!(child.wait().expect("it ends").success(), "{args:?}");
    (total, most)
}

/// The highest amount of memory that a process has used so far, in KiB.
fn highest_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
#[cfg(target_os = "linux")]
fn a_long_transcript_needs_bounded_memory() {
    let shell = long_session();
    for args in [&["show", "s-long"][..], &["export", "s-long", "--format", "html", "--no-redact"]] {
        let (bytes, memory) = measured(&shell, args);
        assert!(bytes > 22_000_000, "{args:?} printed {bytes} bytes");
        assert!(memory < MAX_KIB, "{args:?} used {memory} KiB");
    }
}

#[test]
fn a_damaged_journal_is_read_up_to_the_damage() {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    let lease = store.add_owned_entries("s-hurt", &here, "codex", None, vec![opened(&here, "codex")]);
    let turn = |no: u64, prompt: &str| {
        let mut entries = turn_began(no, no * 1000, prompt);
        entries.push(ended(no, no * 1000 + 500, Stop::plain("end_turn"), Value::Null));
        entries
    };
    let entries = [turn(1, "a good turn"), turn(2, "a DAMAGED turn"), turn(3, "a later turn")].concat();
    store.append(&lease, entries);
    // The store stays open, so that nobody folds the journal.
    damage(&shell, b"DAMAGED");
    for args in [&["show", "s-hurt"][..], &["export", "s-hurt", "--format", "html"], &["export", "s-hurt"]] {
        let said = shell.run(args);
        assert_eq!(said.code, Some(5), "{args:?}: {}", said.stdout);
        assert!(
            said.stdout.contains("a good turn") && !said.stdout.contains("a later turn"),
            "{}",
            said.stdout
        );
        assert!(
            said.stderr.contains("the rest cannot be read") && said.stderr.contains("hint:"),
            "{}",
            said.stderr
        );
    }
    let said = shell.run(&["show", "s-hurt", "--json"]);
    let document: Value = serde_json::from_str(&said.stdout).expect("it is JSON");
    assert_eq!(document["turns"][1]["items"], json!([]), "its prompt is damaged: {document}");
    assert!(document["damage"]["message"].is_string() && said.code == Some(5), "{document}");
    let said = shell.run(&["stats", "--json"]);
    let sums: Value = serde_json::from_str(&said.stdout).expect("it is JSON");
    assert_eq!((&sums["total"]["turns"], &sums["damaged"]), (&json!(2), &json!(["s-hurt"])));
}

/// Changes a byte of the journal files where they have this text.
fn damage(shell: &Shell, text: &[u8]) {
    for file in fs::read_dir(shell.home.path().join("live")).expect("a folder") {
        let path = file.expect("a file").path();
        let mut bytes = fs::read(&path).expect("it can be read");
        if let Some(at) = bytes.windows(text.len()).position(|window| window == text) {
            bytes[at] ^= 1;
            fs::write(&path, bytes).expect("it can be written");
            return;
        }
    }
    panic!("the text is not in the files");
}
