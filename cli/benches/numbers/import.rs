//! Imports 1 GB of session files of another tool: the speed, the peak memory, and a second import of the same, which has
//! nothing to do. A tool is a line in `TOOLS`: its name and what writes one of its files.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::disk;
use crate::figure::{Spread, number};
use crate::table::{Bound, Row};

/// The size of all files, and of each.
const BYTES: u64 = 1_000_000_000;
const FILE_BYTES: u64 = 10_000_000;
const ROUNDS: usize = 3;

/// Writes one file of about so many bytes into the folder of a tool.
type WriteFile = fn(folder: &Path, number: u64, bytes: u64) -> io::Result<()>;

/// The tools whose files can be made.
const TOOLS: [(&str, WriteFile); 1] = [("claude", write_claude)];

/// The speed, the memory and the second import for each tool.
pub(crate) fn measure() -> Vec<Row> {
    TOOLS.into_iter().flat_map(|(tool, write)| measure_tool(tool, write)).collect()
}

fn measure_tool(tool: &str, write: WriteFile) -> Vec<Row> {
    let files = disk::folder();
    for number in 0..BYTES / FILE_BYTES {
        write(files.path(), number, FILE_BYTES).expect("the files can be written");
    }
    let bytes = fs::read_dir(files.path()).expect("a folder");
    let bytes: u64 = bytes.map(|file| file.expect("a file").metadata().expect("a file").len()).sum();
    let (mut speeds, mut peaks, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let home = disk::folder();
        let first = import(tool, files.path(), home.path());
        let second = import(tool, files.path(), home.path());
        speeds.push(bytes as f64 / 1e6 / first.time.as_secs_f64());
        peaks.push(first.peak_kib as f64 / 1024.0);
        ratios.push(second.time.as_secs_f64() / first.time.as_secs_f64());
    }
    let what = format!("import of {} GB of {tool} files", number(bytes as f64 / 1e9));
    vec![
        Row::spread(format!("{what}: speed"), Spread::of(&speeds), Bound::AtLeast(40.0, "MB/s")),
        Row::spread(format!("{what}: peak memory"), Spread::of(&peaks), Bound::AtMost(200.0, "MiB")),
        Row::spread(
            format!("{what}: a second import against the first"),
            Spread::of(&ratios),
            Bound::AtMost(0.1, ""),
        ),
    ]
}

struct Imported {
    time: Duration,
    peak_kib: u64,
}

#[expect(clippy::zombie_processes, reason = "`wait` waits for it")]
fn import(tool: &str, folder: &Path, home: &Path) -> Imported {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rethread"));
    command.args(["import", tool]).arg(folder).env("RETHREAD_HOME", home);
    let began = Instant::now();
    let child = command.stdout(Stdio::null()).spawn().expect("the program runs");
    let (succeeded, peak_kib) = wait(&child);
    assert!(succeeded, "the import succeeds");
    Imported { time: began.elapsed(), peak_kib }
}

/// Waits for the end of a process. Returns whether it succeeded, and its peak memory.
fn wait(child: &Child) -> (bool, u64) {
    let pid = libc::pid_t::try_from(child.id()).expect("it is a process id");
    let mut status = 0;
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call, and nobody else waits for this child.
    let waited = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
    assert_eq!(waited, pid, "the child can be waited for");
    (status == 0, u64::try_from(usage.ru_maxrss).unwrap_or(0))
}

/// A session of Claude Code: prompts, tool calls with their results, answers.
fn write_claude(folder: &Path, number: u64, bytes: u64) -> io::Result<()> {
    let id = format!("44444444-0000-4000-8000-{number:012}");
    let mut file = BufWriter::new(fs::File::create(folder.join(format!("{id}.jsonl")))?);
    let (mut written, mut record, mut parent) = (0, 0_u64, String::new());
    while written < bytes {
        for part in 0..4 {
            let uuid = format!("{number:08x}-{record:08x}");
            let line = claude_record(&id, &uuid, &parent, record / 4, part);
            file.write_all(line.as_bytes())?;
            written += line.len() as u64;
            record += 1;
            parent = uuid;
        }
    }
    file.flush()
}

fn claude_record(id: &str, uuid: &str, parent: &str, turn: u64, part: u64) -> String {
    let call = format!("toolu_{turn}");
    let content = match part {
        0 => json!(words(turn, 30)),
        1 => json!([{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": words(turn, 10)}}]),
        2 => json!([{"type": "tool_result", "tool_use_id": call, "content": words(turn, 500)}]),
        _ => json!([{"type": "text", "text": words(turn, 150)}]),
    };
    let (kind, stop) = if part.is_multiple_of(2) {
        ("user", json!(null))
    } else {
        ("assistant", json!(if part == 1 { "tool_use" } else { "end_turn" }))
    };
    let parent = if parent.is_empty() { json!(null) } else { json!(parent) };
    let message = json!({"id": format!("msg_{turn}_{part}"), "role": kind, "model": "claude-opus-5", "content": content,
        "stop_reason": stop, "usage": {"input_tokens": 10, "output_tokens": 20}});
    let (minute, second) = (turn / 60 % 60, turn % 60);
    let record = json!({"parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/home/user/project",
        "sessionId": id, "version": "2.1.239", "gitBranch": "main", "type": kind, "uuid": uuid, "message": message,
        "timestamp": format!("2026-03-04T10:{minute:02}:{second:02}.000Z")});
    format!("{record}\n")
}

fn words(seed: u64, count: u64) -> String {
    let mut text = String::new();
    for word in 0..count {
        let _ = write!(text, "word{} ", (seed * 31 + word * 7) % 5000);
    }
    text
}
