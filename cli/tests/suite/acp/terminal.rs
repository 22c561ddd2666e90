//! `rethread acp -- AGENT ARGS` on a real terminal: the agent's own command runs there, and its signals and its exit
//! status are those of the whole.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::DEADLINE;
use rethread_testkit::processes::signal;
use rethread_testkit::program::Home;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{BOTH, home, shell, text};

/// The keys that a terminal turns into an interrupt and an end of input.
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// A command whose controlling terminal is ours, killed when this is dropped.
struct OnTerminal {
    child: Child,
    keyboard: File,
    said: String,
}

impl OnTerminal {
    fn start(command: Command) -> Self {
        let (ours, theirs) = terminal();
        let mut command = command.into_std();
        let end = || theirs.try_clone().expect("a descriptor is free");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: all calls are async-signal-safe and nothing is allocated.
        unsafe {
            command.pre_exec(|| {
                // Tests that run in the background may have inherited a signal that is ignored; a terminal has none.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("it starts");
        Self { child, keyboard: ours.into(), said: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes it");
    }

    /// Waits until this is on the screen.
    fn shows(&mut self, words: &str) {
        let until = Instant::now() + 4 * DEADLINE;
        while !self.said.contains(words) {
            assert!(self.reads_on(until), "no {words:?} on the screen: {}", self.said);
        }
    }

    /// Waits for the end, and gives all that was on the screen.
    fn ends(mut self) -> (ExitStatus, String) {
        let until = Instant::now() + 4 * DEADLINE;
        while self.reads_on(until) {}
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(Instant::now() < until, "it does not end: {}", self.said);
            std::thread::sleep(Duration::from_millis(5));
        };
        (status, std::mem::take(&mut self.said))
    }

    /// Reads what is there by then. Nothing more comes when everybody at the other end is gone.
    fn reads_on(&mut self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let mut ready = libc::pollfd { fd: self.keyboard.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let wait = libc::c_int::try_from(left.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one descriptor that is open, and the place for what is found.
        if unsafe { libc::poll(&raw mut ready, 1, wait) } <= 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        match self.keyboard.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.said.push_str(&String::from_utf8_lossy(&bytes[..read]));
                true
            }
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A terminal: our end and that of the programs on it.
fn terminal() -> (OwnedFd, OwnedFd) {
    // Not `openpty`: its descriptors would be inherited by the programs that other tests start at the same moment.
    let open = |path: &Path| {
        let file = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path);
        file.expect("a terminal can be opened")
    };
    let ours = open(Path::new("/dev/ptmx"));
    // SAFETY: plain calls on a descriptor that is open.
    let made = unsafe { libc::grantpt(ours.as_raw_fd()) == 0 && libc::unlockpt(ours.as_raw_fd()) == 0 };
    assert!(made, "{}", std::io::Error::last_os_error());
    let theirs = open(&other_end(&ours));
    (ours.into(), theirs.into())
}

/// The path of the end of a terminal that programs run on.
fn other_end(ours: &File) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().expect("nobody panics with it");
    // SAFETY: the text stays until the next call, which waits for the lock.
    let name = unsafe { libc::ptsname(ours.as_raw_fd()) };
    assert!(!name.is_null(), "{}", std::io::Error::last_os_error());
    // SAFETY: as above, and it ends with a zero byte.
    PathBuf::from(unsafe { CStr::from_ptr(name) }.to_str().expect("a path of plain letters"))
}

/// `acp` with these words behind it.
fn acp(home: &Home, words: &[&str]) -> Command {
    home.command(&[&["acp"], words].concat())
}

#[test]
fn on_a_terminal_the_agents_command_runs_with_its_arguments() {
    let home = home();
    let script =
        "tty > /dev/null && echo on a terminal; echo \"args: $*\"; read word; echo \"got $word\"; exit 7";
    let mut login = OnTerminal::start(acp(&home, &["--", "sh", "-c", script, "agent", "--acp", "login"]));
    login.shows("args: --acp login");
    login.types("a-code\n");
    let (status, said) = login.ends();
    assert_eq!(status.code(), Some(7), "{said}");
    assert!(said.contains("on a terminal") && said.contains("got a-code"), "{said}");
    assert!(!home.path().exists(), "it has nothing to keep");
}

#[test]
fn the_keys_of_a_terminal_are_the_agents() {
    let home = home();
    let ends = |script: &str, keys: &str| {
        let mut agent = OnTerminal::start(acp(&home, &["--", "sh", "-c", script]));
        agent.shows("ready");
        agent.types(keys);
        agent.ends().0
    };
    let trapped = ends("trap 'exit 42' INT; echo ready; while :; do sleep 1; done", CTRL_C);
    assert_eq!(trapped.code(), Some(42));
    let interrupted = ends("echo ready; exec sleep 60", CTRL_C);
    assert_eq!((interrupted.code(), interrupted.signal()), (None, Some(libc::SIGINT)));
    assert_eq!(ends("echo ready; read word || exit 5", CTRL_D).code(), Some(5), "no success by Ctrl-D");
}

#[test]
fn a_signal_to_rethread_is_the_agents() {
    let home = home();
    let mut agent = OnTerminal::start(acp(&home, &["--", "sh", "-c", "echo ready; exec sleep 60"]));
    agent.shows("ready");
    signal(i32::try_from(agent.child.id()).expect("a process id is small"), libc::SIGTERM);
    assert_eq!(agent.ends().0.signal(), Some(libc::SIGTERM));
}

#[test]
fn a_client_can_be_served_on_a_terminal() {
    let home = home();
    let agent: Vec<_> =
        home.scripted(Version::V1).iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<_> = ["--serve", "--"].into_iter().chain(agent.iter().map(String::as_str)).collect();
    let mut served = OnTerminal::start(acp(&home, &words));
    let initialize =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}});
    served.types(&format!("{initialize}\n"));
    served.shows("\"result\"");
    served.types(CTRL_D);
    assert!(served.ends().0.success());
}

#[tokio::test]
async fn the_agents_command_can_be_run_off_a_terminal() {
    let home = home();
    let run = async |words: &[&str]| {
        let output = acp(&home, words).output().await.expect("it runs");
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), texts)
    };
    let (code, [said, errors]) = run(&["--run-agent", "--", "sh", "-c", "echo here; exit 3"]).await;
    assert_eq!((code, said.as_str(), errors.as_str()), (Some(3), "here\n", ""));
    let (code, [_, errors]) = run(&["--run-agent", "--", "no-such-agent-anywhere"]).await;
    assert_eq!(code, Some(1));
    assert_eq!(
        errors,
        "error: agent program no-such-agent-anywhere was not found\nhint: check the command after --\n"
    );
    for wrong in [&["--run-agent"][..], &["--run-agent", "--serve", "--", "sh"]] {
        assert_eq!(run(wrong).await.0, Some(2), "{wrong:?}");
    }
}

/// An agent with a login of its own on a terminal.
const LOGIN: &str = r#"#!/bin/sh
if [ "$2" = login ]; then echo "$1: logged in by $LOGIN_KIND"; exit 0; fi
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[
        {"type":"terminal","id":"tty","name":"Log in","args":["login"],"env":{"LOGIN_KIND":"code"}}]}}' "$id" |
        tr -d '\n'
    echo
done
"#;

#[tokio::test]
async fn a_login_that_the_agent_offers_for_a_terminal_works_with_our_command() {
    for version in BOTH {
        let home = home();
        let agent = home.beside().join("agent");
        fs::write(&agent, LOGIN).expect("a script");
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("our own file");
        let invocation = [agent.into_os_string(), "--acp".into()];
        let program = home.start(version, &invocation);
        let mut introduction = program.client.introduction();
        match version {
            Version::V1 => introduction["clientCapabilities"]["auth"] = json!({"terminal": true}),
            Version::V2 => introduction["capabilities"]["auth"] = json!({"terminal": {}}),
        }
        let answer = program.client.ask("initialize", introduction).await;
        let method = &answer["authMethods"][0];
        assert_eq!(method["type"], "terminal", "{answer}");
        // As the protocol has it: the command that was configured, with these arguments and variables added.
        let mut command = home.acp(&invocation);
        command.args(method["args"].as_array().into_iter().flatten().map(text));
        command.envs(variables(version, &method["env"]));
        let (status, said) = OnTerminal::start(command).ends();
        assert!(status.success(), "{said}");
        assert!(said.contains("--acp: logged in by code"), "{said}");
    }
}

fn variables(version: Version, env: &Value) -> Vec<(String, String)> {
    let pair = |name: &str, value: &Value| (name.to_owned(), text(value).to_owned());
    match version {
        Version::V1 => env.as_object().into_iter().flatten().map(|(name, value)| pair(name, value)).collect(),
        Version::V2 => {
            let list = env.as_array().into_iter().flatten();
            list.map(|variable| pair(text(&variable["name"]), &variable["value"])).collect()
        }
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_on_a_terminal_too() {
    let home = home();
    let (status, said) = OnTerminal::start(home.acp(&["no-such-agent-anywhere".into()])).ends();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("no-such-agent-anywhere was not found"), "{said}");
    // Off a terminal nothing has changed: a client is served.
    let output = home.acp(&shell("cat")).output().await.expect("it runs");
    assert!(output.status.success());
}
