//! However the shipped program ends, no process of its agent's tree is left two seconds later. The agents are
//! `sh` scripts that answer what they must and write down the ids of all they start.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::processes::{assert_gone_by, left_of, signal};
use rethread_testkit::program::{Home, Program};

/// What the promise says.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// For what must happen but is not measured.
const SOON: Duration = Duration::from_secs(10);

/// Answers `initialize` and `session/new`, takes prompts and says nothing to them.
const SERVE: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
serve() {
    while IFS= read -r line; do
        id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
        case "$line" in
            *'"method":"initialize"'*) answer "$id" '{"protocolVersion":1,"agentCapabilities":{}}' ;;
            *'"method":"session/new"'*) answer "$id" '{"sessionId":"s1"}' ;;
        esac
    done
}
"#;

/// An agent's script, and the files that it leaves the ids of its processes in.
#[derive(Debug)]
struct Script {
    text: &'static str,
    writes: &'static [&'static str],
}

/// One that ends with its input, and has a child that would not.
const OBEDIENT: Script =
    Script { text: "sleep 60 & echo $! > \"$dir/child\"; note agent; serve", writes: &["agent", "child"] };
/// One that does not end with its input, and ignores SIGTERM, as does its child.
const STUBBORN: Script = Script {
    text: "trap '' TERM HUP INT
           (trap '' TERM HUP INT; noted child; while :; do sleep 1; done) < /dev/null &
           note agent; serve; while :; do sleep 1; done",
    writes: &["agent", "child"],
};
/// One that leaves a stubborn daemon in a session of its own behind.
#[cfg(target_os = "linux")]
const DAEMONIC: Script = Script {
    text:
        "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > \"$1/daemon\"; while :; do sleep 1; done' sh \"$dir\" \
             < /dev/null > /dev/null 2>&1 &)
           note agent; serve",
    writes: &["agent", "daemon"],
};

#[cfg(target_os = "linux")]
const TREES: &[Script] = &[OBEDIENT, STUBBORN, DAEMONIC];
#[cfg(not(target_os = "linux"))]
const TREES: &[Script] = &[OBEDIENT, STUBBORN];

#[tokio::test]
async fn nothing_is_left_after_the_end_of_input() {
    for script in TREES {
        let scene = Scene::start(script).await;
        let start = Instant::now();
        scene.program.client.hang_up().await;
        scene.gone_by(start + GONE_AFTER, script).await;
    }
}

#[tokio::test]
async fn nothing_is_left_after_sigterm() {
    for script in TREES {
        let scene = Scene::start(script).await;
        let start = Instant::now();
        signal(scene.program.pid(), libc::SIGTERM);
        scene.gone_by(start + GONE_AFTER, script).await;
    }
}

#[tokio::test]
async fn nothing_is_left_after_kill_nine() {
    for script in TREES {
        let scene = Scene::start(script).await;
        let start = Instant::now();
        signal(scene.program.pid(), libc::SIGKILL);
        scene.gone_by(start + GONE_AFTER, script).await;
    }
}

/// The program with a prompt under way at its agent.
struct Scene {
    program: Program,
    pids: Vec<i32>,
    _home: Home,
}

impl Scene {
    async fn start(script: &Script) -> Scene {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let dir = home.beside();
        // `noted` is for a subshell, whose own id `$$` does not give.
        let prelude = "dir=$1
            note() { echo $$ > \"$dir/$1\"; }
            noted() { sh -c 'echo $PPID' > \"$dir/$1\"; }";
        let path = dir.join("agent.sh");
        fs::write(&path, format!("{prelude}\n{SERVE}\n{}\n", script.text)).expect("the script is written");
        let agent: [OsString; 3] = ["sh".into(), path.into(), dir.into()];
        let program = home.start(Version::V1, &agent);
        program.client.initialize().await;
        let session = program.client.new_session().await;
        program.client.begin_prompt(&session, "work").await;
        let mut pids = Vec::new();
        for name in script.writes {
            pids.push(written_pid(&dir.join(name)).await);
        }
        assert_eq!(left_of(&pids), pids, "{script:?}");
        Scene { program, pids, _home: home }
    }

    /// The whole tree and the program itself.
    async fn gone_by(mut self, deadline: Instant, script: &Script) {
        let own = self.program.pid();
        assert_gone_by(deadline, &self.pids, script).await;
        self.program.exited().await;
        assert_gone_by(deadline, &[own], script).await;
    }
}

async fn written_pid(path: &Path) -> i32 {
    let deadline = Instant::now() + SOON;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('\n').and_then(|line| line.parse().ok()) {
            return pid;
        }
        assert!(Instant::now() < deadline, "{} is not written", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
