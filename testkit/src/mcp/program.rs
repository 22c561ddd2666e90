//! The MCP test server as a program on stdin and stdout, and how a test finds it.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::server::{Act, Habit, Server};

/// The variable with the file to which the program and its child append their process ids.
pub const PIDS: &str = "RETHREAD_TEST_MCP_PIDS";
/// The variable whose value the program prints to stderr when it crashes.
pub const TELLS: &str = "RETHREAD_TEST_MCP_TELLS";
/// The exit status of a crash.
pub const CRASHED: i32 = 3;

/// Where the program is. It is built with the tests of the library.
#[must_use]
pub fn path() -> PathBuf {
    crate::program::example("mcp_server")
}

/// Runs the server with the misbehaviours named by the arguments. Returns the exit status.
pub fn run(words: &[String]) -> io::Result<i32> {
    let named = |word: &String| Habit::WORDS.iter().find(|(name, _)| name == word).map(|(_, habit)| *habit);
    let habits: Vec<Habit> = words.iter().filter_map(named).collect();
    note_pid(std::process::id())?;
    if habits.contains(&Habit::CrashesAtStart) {
        return Ok(crash());
    }
    if habits.contains(&Habit::IsStubborn) {
        // SAFETY: a plain call.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
    }
    if habits.contains(&Habit::HasChild) {
        let child = Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        note_pid(child.id())?;
    }
    if habits.contains(&Habit::HasDaemon) {
        note_pid(daemon()?)?;
    }
    let status = serve(&mut Server::new(&habits))?;
    if habits.contains(&Habit::IsStubborn) {
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
    Ok(status)
}

/// A process in its own session whose parent has exited.
fn daemon() -> io::Result<u32> {
    let script = "setsid sleep 60 > /dev/null < /dev/null & echo $!";
    let started = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output()?;
    let pid = String::from_utf8_lossy(&started.stdout).trim().parse();
    pid.map_err(|_| io::Error::other("the daemon has no number"))
}

fn serve(server: &mut Server) -> io::Result<i32> {
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        let mut output = io::stdout().lock();
        if server.has(Habit::Babbles) {
            writeln!(output, "starting… {{ not json\n\n[1, 2\n\"a string\"\n{{\"jsonrpc\":\"2.0\"}}")?;
        }
        for act in server.hear(&message) {
            match act {
                Act::Say(message) => writeln!(output, "{message}")?,
                Act::SayForever(message) => loop {
                    writeln!(output, "{message}")?;
                },
                Act::Crash => return Ok(crash()),
            }
        }
        output.flush()?;
    }
    Ok(0)
}

fn crash() -> i32 {
    let told = std::env::var(TELLS).ok().and_then(|name| std::env::var(name).ok()).unwrap_or_default();
    eprintln!("the test server crashes, as it was told to {told}");
    CRASHED
}

fn note_pid(pid: u32) -> io::Result<()> {
    let Some(path) = std::env::var_os(PIDS) else { return Ok(()) };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    // In one write, because other processes write there too.
    file.write_all(format!("{pid}\n").as_bytes())
}
