//! Imports 1 GB of session files of another tool: the speed, the peak memory, also for one file, and a second import of the
//! same, which has nothing to do. A tool is a line in `TOOLS`: its name and what writes one of its files.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

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
const TOOLS: [(&str, WriteFile); 2] = [("claude", write_claude), ("codex", write_codex)];

/// The speed, the memory and the second import for each tool, and the memory for one file of all bytes.
pub(crate) fn measure() -> Vec<Row> {
    let each = |(tool, write)| measure_tool(tool, write).into_iter().chain([measure_one_file(tool, write)]);
    TOOLS.into_iter().flat_map(each).collect()
}

fn measure_one_file(tool: &str, write: WriteFile) -> Row {
    let (files, home) = (disk::folder(), disk::folder());
    write(files.path(), 0, BYTES).expect("the file can be written");
    let peak = import(tool, files.path(), home.path()).peak_kib as f64 / 1024.0;
    let what = format!("import of one {tool} file of {} GB: peak memory", number(BYTES as f64 / 1e9));
    Row::spread(what, Spread::of(&[peak]), Bound::AtMost(200.0, "MiB"))
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
    let mut command = Command::new(crate::program::path());
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

/// A thread of Codex: prompts, commands with their output, answers, each as an item and as an event where Codex writes both.
fn write_codex(folder: &Path, number: u64, bytes: u64) -> io::Result<()> {
    let id = format!("019f0000-0000-7000-8000-{number:012}");
    let path = folder.join(format!("rollout-2026-03-04T10-00-00-{id}.jsonl"));
    let mut file = BufWriter::new(fs::File::create(path)?);
    let meta = json!({"session_id": id, "id": id, "timestamp": "2026-03-04T10:00:00.000Z", "cwd": "/home/user/project",
        "originator": "codex_cli_rs", "cli_version": "0.166.0", "source": "cli", "model_provider": "openai"});
    let mut written = codex_line(&mut file, 0, 0, "session_meta", &meta)?;
    let (mut turn, mut ordinal) = (0, 1);
    while written < bytes {
        for (kind, payload) in codex_turn(&id, turn) {
            written += codex_line(&mut file, turn, ordinal, kind, &payload)?;
            ordinal += 1;
        }
        turn += 1;
    }
    file.flush()
}

fn codex_line(
    file: &mut impl Write,
    turn: u64,
    ordinal: u64,
    kind: &str,
    payload: &Value,
) -> io::Result<u64> {
    let (minute, second) = (turn / 60 % 60, turn % 60);
    let record = json!({"timestamp": format!("2026-03-04T10:{minute:02}:{second:02}.000Z"), "ordinal": ordinal,
        "type": kind, "payload": payload});
    let line = format!("{record}\n");
    file.write_all(line.as_bytes())?;
    Ok(line.len() as u64)
}

fn codex_turn(thread: &str, turn: u64) -> Vec<(&'static str, Value)> {
    let (name, call) = (format!("t{turn}"), format!("call_{turn}"));
    let (prompt, answer) = (words(turn, 30), words(turn, 150));
    let message = |id: &str, role: &str, kind: &str, text: &str| json!({"type": "message", "id": format!("{id}{turn}"), "role": role, "content": [{"type": kind, "text": text}]});
    let completed = |kind: &str, id: &str, content: Value| {
        json!({"type": "item_completed", "thread_id": thread, "turn_id": name, "started_at_ms": 0, "completed_at_ms": 0,
            "item": {"type": kind, "id": format!("{id}{turn}"), "content": content}})
    };
    let arguments = json!({"cmd": words(turn, 10)}).to_string();
    vec![
        (
            "event_msg",
            json!({"type": "task_started", "turn_id": name, "started_at": 0, "model_context_window": 258_400}),
        ),
        ("turn_context", json!({"turn_id": name, "cwd": "/home/user/project", "model": "gpt-5.6"})),
        ("response_item", message("msg_u", "user", "input_text", &prompt)),
        (
            "event_msg",
            completed("UserMessage", "u", json!([{"type": "text", "text": prompt, "text_elements": []}])),
        ),
        (
            "response_item",
            json!({"type": "function_call", "id": format!("fc_{turn}"), "name": "exec_command", "arguments": arguments, "call_id": call}),
        ),
        (
            "response_item",
            json!({"type": "function_call_output", "id": format!("fco_{turn}"), "call_id": call, "output": format!("Output:\n{}", words(turn, 500))}),
        ),
        ("event_msg", completed("AgentMessage", "m", json!([{"type": "Text", "text": answer}]))),
        ("response_item", message("m", "assistant", "output_text", &answer)),
        ("event_msg", json!({"type": "task_complete", "turn_id": name, "last_agent_message": null})),
    ]
}

fn words(seed: u64, count: u64) -> String {
    let mut text = String::new();
    for word in 0..count {
        let _ = write!(text, "word{} ", (seed * 31 + word * 7) % 5000);
    }
    text
}
