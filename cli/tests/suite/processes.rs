//! Real agents as real processes: whatever they do, and however we go, nothing of their tree is left two
//! seconds later. The agents are small `sh` scripts that write down the ids of all they start.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rethread::agent::AgentEnd;
use rethread::agent::environment::Environment;
use rethread::agent::process::{AgentCommand, GuardianCommand, SpawnError, SpawnedAgent, spawn};
use rethread_testkit::processes::{assert_gone_by, left_of, signal};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the promise says.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// For what must happen but is not measured; generous, for a loaded machine.
const SOON: Duration = Duration::from_secs(20);
/// No process.
const NONE: [i32; 0] = [];
/// Names the folder of the scene to the copy of this program that [`spawner`] runs in.
const SPAWNER_DIR: &str = "RETHREAD_TEST_SPAWNER_DIR";

/// An agent that does what it should: its end of input is its end.
const OBEDIENT: Script = Script { text: "note agent; cat > /dev/null", writes: &["agent"] };
/// One that does not look at its input.
const DEAF: Script =
    Script { text: "sleep 60 & echo $! > \"$dir/child\"; note agent; wait", writes: &["agent", "child"] };
/// One that ignores SIGTERM too, as does its child.
const STUBBORN: Script = Script {
    text: "trap '' TERM HUP INT
           (trap '' TERM; noted child; while :; do sleep 1; done) &
           note agent; while :; do sleep 1; done",
    writes: &["agent", "child"],
};
/// One that leaves a stubborn daemon in a session of its own behind.
#[cfg(target_os = "linux")]
const DAEMONIC: Script = Script {
    text:
        "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > \"$1/daemon\"; while :; do sleep 1; done' sh \"$dir\" \
             < /dev/null > /dev/null 2>&1 &)
           note agent; cat > /dev/null",
    writes: &["agent", "daemon"],
};

#[cfg(target_os = "linux")]
const TREES: &[Script] = &[OBEDIENT, DEAF, STUBBORN, DAEMONIC];
#[cfg(not(target_os = "linux"))]
const TREES: &[Script] = &[OBEDIENT, DEAF, STUBBORN];

#[tokio::test]
async fn no_tree_outlives_its_end() {
    for script in TREES {
        let scene = Scene::new(script);
        let SpawnedAgent { stdin, stdout, process } = scene.spawn().await;
        let pids = scene.pids();
        assert_eq!(left_of(&pids), pids, "{script:?}");
        let start = Instant::now();
        drop(stdin);
        process.end().await;
        let took = start.elapsed();
        assert_eq!(left_of(&pids), NONE, "{script:?}");
        assert!(took < GONE_AFTER, "{script:?} took {took:?}");
        drop(stdout);
    }
}

#[tokio::test]
async fn no_tree_outlives_a_dropped_agent() {
    for script in TREES {
        let scene = Scene::new(script);
        let spawned = scene.spawn().await;
        let pids = scene.pids();
        drop(spawned);
        assert_gone(&pids, script).await;
    }
}

#[tokio::test]
async fn no_tree_outlives_a_killed_spawner() {
    for script in TREES {
        let scene = Scene::new(script);
        let mut spawner = scene.spawner();
        let pids = scene.pids();
        // The whole group, as editors do it.
        signal(-(spawner.id() as i32), libc::SIGKILL);
        spawner.wait().unwrap();
        assert_gone(&pids, script).await;
    }
}

/// Not a test by itself: the process that is killed by [`no_tree_outlives_a_killed_spawner`].
#[tokio::test]
async fn spawner() {
    let Some(dir) = std::env::var_os(SPAWNER_DIR) else { return };
    let _spawned = spawn(&command_in(Path::new(&dir))).await.unwrap();
    tokio::time::sleep(SOON).await;
}

#[tokio::test]
async fn an_obedient_agent_goes_at_once() {
    let scene = Scene::new(&OBEDIENT);
    let SpawnedAgent { stdin, stdout: _stdout, process } = scene.spawn().await;
    drop(stdin);
    let report = process.end().await;
    assert_eq!(report.end, AgentEnd::Exited(0));
    assert_eq!(report.stderr, "");
}

#[tokio::test]
async fn an_agent_may_clean_up_on_sigterm() {
    let scene = Scene::new(&Script {
        text: "trap 'echo cleaned > \"$dir/cleaned\"; exit 7' TERM; note agent; while :; do sleep 0.05; done",
        writes: &["agent"],
    });
    let SpawnedAgent { stdin, stdout: _stdout, process } = scene.spawn().await;
    scene.pids();
    drop(stdin);
    assert_eq!(process.end().await.end, AgentEnd::Exited(7));
    assert_eq!(fs::read_to_string(scene.path("cleaned")).unwrap(), "cleaned\n");
}

#[tokio::test]
async fn an_exit_is_told_with_its_status_and_last_words() {
    let scene = Scene::new(&Script { text: "echo first >&2; echo 'no api key' >&2; exit 3", writes: &[] });
    let mut spawned = scene.spawn().await;
    let report = within(spawned.process.exited()).await;
    assert_eq!(report.end.to_string(), "exit status 3");
    assert_eq!(report.stderr, "first\nno api key");
    assert_eq!(within(spawned.process.exited()).await, report);
    assert_eq!(spawned.process.end().await, report);

    let log = scene.path("stderr.log");
    assert_eq!(fs::read_to_string(&log).unwrap(), "first\nno api key\n");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_signal_is_told_as_one() {
    let scene = Scene::new(&Script { text: "kill -9 $$", writes: &[] });
    let mut spawned = scene.spawn().await;
    assert_eq!(within(spawned.process.exited()).await.end.to_string(), "killed by signal 9");
}

#[tokio::test]
async fn what_an_agent_leaves_behind_goes_when_it_exits() {
    let scene = Scene::new(&Script {
        text: "(trap '' TERM; noted child; while :; do sleep 1; done) &
               until [ -s \"$dir/child\" ]; do sleep 0.01; done; note agent; exit 0",
        writes: &["agent", "child"],
    });
    let mut spawned = scene.spawn().await;
    let report = within(spawned.process.exited()).await;
    assert_eq!(report.end, AgentEnd::Exited(0));
    assert_gone(&scene.pids(), "what is left behind").await;
    // Nothing holds the pipe any more.
    within(spawned.stdout.read_to_end(&mut Vec::new())).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_forks_and_exits_all_the_time_is_caught() {
    let scene = Scene::new(&Script {
        text: "trap '' TERM
               [ -e \"$dir/agent\" ] || { note agent; sh \"$0\" \"$dir\" & cat > /dev/null; exit; }
               [ -d \"$dir\" ] && note hop && sh \"$0\" \"$dir\" &
               exit",
        writes: &["agent", "hop"],
    });
    let SpawnedAgent { stdin, stdout: _stdout, process } = scene.spawn().await;
    scene.pids();
    drop(stdin);
    process.end().await;
    let last = fs::read(scene.path("hop")).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fs::read(scene.path("hop")).unwrap(), last);
}

#[tokio::test]
async fn bytes_go_through_and_the_end_of_output_is_seen() {
    let scene = Scene::new(&Script { text: "exec cat", writes: &[] });
    let SpawnedAgent { mut stdin, mut stdout, mut process } = scene.spawn().await;
    let sent = b"a line of text\n".repeat(100_000);
    let write = async {
        stdin.write_all(&sent).await.unwrap();
        drop(stdin);
    };
    let mut got = Vec::new();
    let (_, read) = within(async { tokio::join!(write, stdout.read_to_end(&mut got)) }).await;
    read.unwrap();
    assert!(got == sent);
    assert_eq!(within(process.exited()).await.end, AgentEnd::Exited(0));
}

#[tokio::test]
async fn agents_do_not_hold_each_other() {
    let (one, other) = (Scene::new(&DEAF), Scene::new(&DEAF));
    let first = one.spawn().await;
    let second = other.spawn().await;
    let (first_pids, second_pids) = (one.pids(), other.pids());
    drop(first);
    assert_gone(&first_pids, "the first of two").await;
    assert_eq!(left_of(&second_pids), second_pids);
    drop(second.stdin);
    second.process.end().await;
    assert_eq!(left_of(&second_pids), NONE);
}

#[tokio::test]
async fn a_guardian_ignores_all_but_its_tie() {
    let scene =
        Scene::new(&Script { text: "echo $PPID > \"$dir/guardian\"; exec cat", writes: &["guardian"] });
    let SpawnedAgent { mut stdin, mut stdout, process } = scene.spawn().await;
    let guardian = scene.pids()[0];
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPIPE, libc::SIGTSTP] {
        signal(guardian, number);
    }
    stdin.write_all(b"still here").await.unwrap();
    let mut got = [0; 10];
    within(stdout.read_exact(&mut got)).await.unwrap();
    drop(stdin);
    assert_eq!(process.end().await.end, AgentEnd::Exited(0));
    assert_eq!(left_of(&[guardian]), NONE);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_agent_dies_with_its_guardian() {
    let scene = Scene::new(&Script {
        text: "sleep 60 & echo $! > \"$dir/child\"; echo $PPID > \"$dir/guardian\"; note agent; wait",
        writes: &["agent", "child", "guardian"],
    });
    let mut spawned = scene.spawn().await;
    let pids = scene.pids();
    signal(pids[2], libc::SIGKILL);
    assert_eq!(within(spawned.process.exited()).await.end, AgentEnd::Unknown);
    assert_gone(&pids[..2], "a killed guardian").await;
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let scene = Scene::new(&OBEDIENT);
    let command = AgentCommand { program: "no-such-agent-anywhere".into(), ..command_in(scene.dir.path()) };
    let error = within(spawn(&command)).await.unwrap_err();
    assert!(matches!(error, SpawnError::NotFound(_)), "{error:?}");
    assert_eq!(error.to_string(), "agent program no-such-agent-anywhere was not found");
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn a_program_that_may_not_run_is_named_with_the_cause() {
    let scene = Scene::new(&OBEDIENT);
    let command = AgentCommand { program: scene.path("agent.sh").into(), ..command_in(scene.dir.path()) };
    let error = within(spawn(&command)).await.unwrap_err();
    let SpawnError::NotStarted { program, source } = error else { panic!("{error:?}") };
    assert_eq!(program, command.program);
    assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_guardian_that_is_none_is_not_waited_for() {
    let scene = Scene::new(&OBEDIENT);
    let guardian =
        GuardianCommand { program: binary(), args: vec!["--no-such-option".into()], deadline: None };
    let command = AgentCommand { guardian, ..command_in(scene.dir.path()) };
    let error = within(spawn(&command)).await.unwrap_err();
    assert!(error.to_string().contains("--no-such-option"), "{error}");
}

/// The host lives and its pipe is open, but it sends no sign of life, as one that is stopped: the agent ends in time.
#[tokio::test]
async fn an_agent_ends_when_no_sign_of_life_comes() {
    let scene = Scene::new(&OBEDIENT);
    let (control, mut our_control) = std::io::pipe().unwrap();
    let (mut our_status, status) = std::io::pipe().unwrap();
    let limit = rethread::clock::since_boot().after(1500);
    our_control.write_all(format!("h{}\n", limit.0).as_bytes()).unwrap();
    let [control_fd, status_fd] = [control.as_raw_fd(), status.as_raw_fd()];
    let mut command = Command::new(binary());
    command.args([
        "__guard",
        "--control",
        &control_fd.to_string(),
        "--status",
        &status_fd.to_string(),
        "--",
        "sleep",
        "60",
    ]);
    command.stdin(Stdio::null()).current_dir(scene.dir.path());
    // SAFETY: only async-signal-safe calls.
    unsafe {
        command.pre_exec(move || {
            for fd in [control_fd, status_fd] {
                libc::fcntl(fd, libc::F_SETFD, 0);
            }
            Ok(())
        });
    }
    let began = Instant::now();
    let mut guardian = command.spawn().unwrap();
    drop((control, status));
    // A second one moves the end; what is not a sign of life does not.
    let later = rethread::clock::since_boot().after(2500);
    our_control.write_all(format!("h{}\nx", later.0).as_bytes()).unwrap();
    let ended = tokio::task::spawn_blocking(move || guardian.wait().unwrap());
    within(ended).await.unwrap();
    let took = began.elapsed();
    assert!(took > Duration::from_millis(2300) && took < Duration::from_secs(15), "{took:?}");
    let mut said = String::new();
    our_status.read_to_string(&mut said).unwrap();
    assert!(said.lines().count() >= 2, "the start and the end are reported: {said}");
    drop(our_control);
}

/// An agent's script, and the files that it leaves the ids of its processes in.
#[derive(Debug)]
struct Script {
    text: &'static str,
    writes: &'static [&'static str],
}

/// A folder with an agent in it.
struct Scene {
    dir: TempDir,
    writes: &'static [&'static str],
}

impl Scene {
    fn new(script: &Script) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        // `noted` is for a subshell, whose own id `$$` does not give.
        let prelude = "dir=$1
            note() { echo $$ > \"$dir/$1\"; }
            noted() { sh -c 'echo $PPID' > \"$dir/$1\"; }";
        fs::write(dir.path().join("agent.sh"), format!("{prelude}\n{}\n", script.text)).unwrap();
        Scene { dir, writes: script.writes }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn spawn(&self) -> SpawnedAgent {
        within(spawn(&command_in(self.dir.path()))).await.unwrap()
    }

    /// Another process that spawns the agent, in a group of its own.
    fn spawner(&self) -> std::process::Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::spawner", "--nocapture"])
            .env(SPAWNER_DIR, self.dir.path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// The ids that the script has written, once it has written them all.
    fn pids(&self) -> Vec<i32> {
        let deadline = Instant::now() + SOON;
        self.writes.iter().map(|name| written_pid(&self.path(name), deadline)).collect()
    }
}

fn command_in(dir: &Path) -> AgentCommand {
    let script: OsString = dir.join("agent.sh").into();
    AgentCommand {
        program: "sh".into(),
        args: vec![script, dir.into()],
        environment: Environment::Inherited,
        env: Vec::new(),
        directory: None,
        guardian: GuardianCommand { program: binary(), args: vec!["__guard".into()], deadline: None },
        stderr_log: Some(dir.join("stderr.log")),
    }
}

fn binary() -> PathBuf {
    env!("CARGO_BIN_EXE_rethread").into()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("it takes too long")
}

fn written_pid(path: &Path, deadline: Instant) -> i32 {
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some(line) = text.strip_suffix('\n') {
            return line.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "{} is not written", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

async fn assert_gone(pids: &[i32], of: impl std::fmt::Debug) {
    assert_gone_by(Instant::now() + GONE_AFTER, pids, of).await;
}
