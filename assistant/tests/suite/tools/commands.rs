//! Tests of the tool `run`: output, limits, and ending all processes.

use std::time::{Duration, Instant};

use rethread_assistant::tools::{CallEnd, Exit, ToolOutcome};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{DEADLINE, Place, absolute};

/// Runs a command and collects its output.
async fn run(place: &Place, arguments: serde_json::Value) -> (ToolOutcome, Vec<u8>) {
    let prepared = place.prepare("run", arguments).await.unwrap();
    let (sink, mut output) = mpsc::channel(4);
    let listen = async {
        let mut all = Vec::new();
        while let Some(bytes) = output.recv().await {
            all.extend(bytes);
        }
        all
    };
    let both = async { tokio::join!(prepared.run(sink, std::future::pending()), listen) };
    let (outcome, all) = tokio::time::timeout(DEADLINE, both).await.expect("it ends in time");
    (outcome.unwrap(), all)
}

/// The text without the duration.
fn timeless(text: &str) -> String {
    let (before, time) = text.rsplit_once(", ").unwrap();
    assert!(time.ends_with(" s)"), "{text}");
    format!("{before})")
}

/// Waits until no process has this id.
async fn is_gone(process: &str) {
    let number: i32 = process.trim().parse().unwrap();
    let gone = async {
        // SAFETY: signal 0 only checks whether the process exists.
        while unsafe { libc::kill(number, 0) } == 0 && !is_zombie(number) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap_or_else(|_| panic!("{number} lives on"));
}

/// Whether a process is a zombie: in a container, orphans may never be reaped.
fn is_zombie(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn a_command_reports_its_output_and_exit() {
    let place = Place::new();
    let (outcome, output) = run(&place, json!({"command": "echo out; echo err >&2; pwd; exit 3"})).await;
    let cwd = place.path("in").display().to_string();
    assert_eq!(timeless(&outcome.text), format!("out\nerr\n{cwd}\n(exit code 3)"));
    assert_eq!(String::from_utf8(output).unwrap(), format!("out\nerr\n{cwd}\n"));
    assert_eq!(outcome.exit, Some(Exit { code: Some(3), signal: None }));
    assert_eq!(outcome.end, CallEnd::Done);

    let (outcome, _) = run(&place, json!({"command": "pwd", "cwd": "deep"})).await;
    assert!(outcome.text.starts_with(&format!("{cwd}/deep\n")));
    let (outcome, _) = run(&place, json!({"command": "pwd", "cwd": absolute(&place.path("too"))})).await;
    assert!(outcome.text.ends_with("s)") && outcome.text.contains("/too\n"));
    let (outcome, _) = run(&place, json!({"command": "no-such-program"})).await;
    assert_eq!(outcome.exit.unwrap().code, Some(127));
    let (outcome, _) = run(&place, json!({"command": "kill -SEGV $$"})).await;
    assert_eq!(timeless(&outcome.text), "(ended by SIGSEGV)");
    let (outcome, _) = run(&place, json!({"command": "cat; printf 'a\\000b\\377'"})).await;
    assert_eq!(timeless(&outcome.text), "a\u{2400}b\u{fffd}\n(exit code 0)");
}

#[tokio::test]
async fn commands_do_not_get_what_is_hidden() {
    let mut place = Place::new();
    let names =
        |text: &str| text.lines().map(|line| line.split('=').next().unwrap().to_owned()).collect::<Vec<_>>();
    let (outcome, _) = run(&place, json!({"command": "env"})).await;
    assert!(names(&outcome.text).contains(&"PATH".to_owned()));
    place.tools = place.tools.without_variables(["PATH"]);
    let (outcome, _) = run(&place, json!({"command": "/usr/bin/env"})).await;
    assert!(!names(&outcome.text).contains(&"PATH".to_owned()), "{}", outcome.text);
}

#[tokio::test]
async fn output_comes_while_the_command_runs() {
    let place = Place::new();
    let prepared =
        place.prepare("run", json!({"command": "echo first; read -r x < go; echo last"})).await.unwrap();
    assert_eq!(prepared.command().unwrap().line, "echo first; read -r x < go; echo last");
    assert_eq!(prepared.command().unwrap().cwd, place.path("in"));
    let fifo = std::ffi::CString::new(place.path("in/go").to_str().unwrap()).unwrap();
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let (sink, mut output) = mpsc::channel(4);
    let running = tokio::spawn(prepared.run(sink, std::future::pending()));
    let first = tokio::time::timeout(DEADLINE, output.recv()).await.unwrap().unwrap();
    assert_eq!(first, b"first\n");
    assert!(!running.is_finished());
    let go = place.path("in/go");
    tokio::task::spawn_blocking(move || std::fs::write(go, "go\n")).await.unwrap().unwrap();
    let outcome = tokio::time::timeout(DEADLINE, running).await.unwrap().unwrap().unwrap();
    assert!(outcome.text.starts_with("first\nlast\n"));
}

#[tokio::test]
async fn a_command_that_never_ends_is_ended() {
    let place = Place::new();
    let command = "echo $$ > pid; trap '' TERM; echo here; while :; do sleep 1; done";
    let begun = Instant::now();
    let (outcome, output) = run(&place, json!({"command": command, "timeout": 1})).await;
    assert_eq!(outcome.end, CallEnd::TimedOut);
    assert_eq!(timeless(&outcome.text), "here\n(stopped at its time limit of 1 s, ended by SIGKILL)");
    assert_eq!(output, b"here\n");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    is_gone(&place.text("in/pid")).await;
}

#[tokio::test]
async fn a_command_can_be_cancelled() {
    let place = Place::new();
    let command = "(trap '' TERM; sh -c 'echo $$ > inner; exec sleep 100') & echo $$ > pid; echo here; wait";
    let prepared = place.prepare("run", json!({"command": command})).await.unwrap();
    let (sink, mut output) = mpsc::channel(4);
    let (cancel, cancelled) = oneshot::channel::<()>();
    let running = tokio::spawn(prepared.run(sink, async { drop(cancelled.await) }));
    tokio::time::timeout(DEADLINE, output.recv()).await.unwrap().unwrap();
    while !place.path("in/inner").exists() || place.text("in/inner").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cancel.send(()).unwrap();
    let outcome = tokio::time::timeout(DEADLINE, running).await.unwrap().unwrap().unwrap();
    assert_eq!(outcome.end, CallEnd::Cancelled);
    assert_eq!(timeless(&outcome.text), "here\n(cancelled, ended by SIGTERM)");
    is_gone(&place.text("in/pid")).await;
    is_gone(&place.text("in/inner")).await;
}

#[tokio::test]
async fn a_dropped_command_is_ended() {
    let place = Place::new();
    let prepared =
        place.prepare("run", json!({"command": "echo $$ > pid; echo here; exec sleep 100"})).await.unwrap();
    let (sink, mut output) = mpsc::channel(4);
    let running = tokio::spawn(prepared.run(sink, std::future::pending()));
    tokio::time::timeout(DEADLINE, output.recv()).await.unwrap().unwrap();
    running.abort();
    is_gone(&place.text("in/pid")).await;
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    let place = Place::new();
    let (outcome, _) = run(&place, json!({"command": "sleep 100 & echo $! > pid; echo started"})).await;
    assert_eq!(outcome.exit, Some(Exit { code: Some(0), signal: None }));
    assert!(outcome.text.starts_with("started\n(exit code 0, "), "{}", outcome.text);
    assert!(outcome.text.ends_with(" s, background processes that it left were ended)"), "{}", outcome.text);
    is_gone(&place.text("in/pid")).await;
    let (outcome, _) = run(&place, json!({"command": "true"})).await;
    assert!(!outcome.text.contains("left running"), "{}", outcome.text);
}

#[tokio::test]
async fn head_and_tail_of_long_output_are_kept() {
    let place = Place::new();
    let command = "echo begin; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end";
    let (outcome, output) = run(&place, json!({"command": command})).await;
    assert!(outcome.text.starts_with("begin\nxxx") && outcome.text.contains("x\nend\n(exit code 0"));
    assert!(outcome.text.len() < 34_000, "{}", outcome.text.len());
    assert!(outcome.text.contains(&format!("[{} bytes are left out here]", 5_000_011 - 32 * 1024)));
    assert!(output.len() < 600_000, "{}", output.len());
    assert!(output.starts_with(b"begin\nxxx") && output.ends_with(b"x\nend\n"));
}

#[tokio::test]
async fn a_flood_without_end_and_without_a_listener_is_ended() {
    let place = Place::new();
    let prepared =
        place.prepare("run", json!({"command": "echo $$ > pid; exec yes", "timeout": 1})).await.unwrap();
    // The channel is full after the first message, and nothing reads it.
    let (sink, _kept) = mpsc::channel(1);
    let outcome =
        tokio::time::timeout(DEADLINE, prepared.run(sink, std::future::pending())).await.unwrap().unwrap();
    assert_eq!(outcome.end, CallEnd::TimedOut);
    is_gone(&place.text("in/pid")).await;
    let (outcome, output) = run(&place, json!({"command": "exec yes", "timeout": 1})).await;
    assert_eq!(outcome.end, CallEnd::TimedOut);
    assert!(outcome.text.len() < 34_000 && output.len() < 600_000);
}

#[tokio::test]
async fn a_command_runs_in_the_shell_that_the_description_names() {
    let place = Place::new();
    let specs = place.tools.describe(rethread_assistant::tools::Access::FULL);
    let description = specs.iter().find(|spec| spec.name == "run").unwrap().description;
    let (outcome, _) = run(&place, json!({"command": "echo \"$0\"; echo \"bash $BASH_VERSION\""})).await;
    let mut lines = outcome.text.lines();
    let (shell, version) = (lines.next().unwrap(), lines.next().unwrap());
    if std::path::Path::new("/bin/bash").exists() || std::path::Path::new("/usr/bin/bash").exists() {
        assert!(shell.ends_with("/bash") && version.len() > "bash ".len(), "{}", outcome.text);
        assert!(description.contains(" bash"), "{description}");
        let (outcome, _) = run(&place, json!({"command": "[[ abc == a* ]] && echo yes"})).await;
        assert!(outcome.text.starts_with("yes"), "{}", outcome.text);
    } else {
        assert_eq!(shell, "/bin/sh");
        assert!(description.contains("/bin/sh"), "{description}");
    }
}
