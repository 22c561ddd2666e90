//! However the shipped program ends, and whatever its agent's processes do, none of them is left two seconds later.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::agent::quirk::ProcessQuirk;
use rethread_testkit::processes::{assert_gone_by, left_of, signal};
use rethread_testkit::program::{Home, Program};

/// What the promise says.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// For what must happen but is not measured.
const SOON: Duration = Duration::from_secs(10);

/// An agent with these quirks, and the names of its processes.
#[derive(Debug)]
struct Tree {
    quirks: &'static [ProcessQuirk],
    processes: &'static [&'static str],
}

const TREES: &[Tree] = &[
    Tree { quirks: &[ProcessQuirk::HasChild], processes: &["agent", "child"] },
    Tree { quirks: &[ProcessQuirk::Stays, ProcessQuirk::HasChild], processes: &["agent", "child"] },
    Tree { quirks: &[ProcessQuirk::EndsSlowly], processes: &["agent"] },
    #[cfg(target_os = "linux")]
    Tree { quirks: &[ProcessQuirk::Relaunches], processes: &["launcher", "agent"] },
    #[cfg(target_os = "linux")]
    Tree {
        quirks: &[ProcessQuirk::Relaunches, ProcessQuirk::Stays, ProcessQuirk::HasChild],
        processes: &["launcher", "agent", "child"],
    },
    #[cfg(target_os = "linux")]
    Tree { quirks: &[ProcessQuirk::LeavesDaemon], processes: &["agent", "daemon"] },
];

#[tokio::test]
async fn nothing_is_left_after_the_end_of_input() {
    for tree in TREES {
        let scene = Scene::start(tree).await;
        let start = Instant::now();
        scene.program.client.disconnect().await;
        scene.gone_by(start + GONE_AFTER, tree).await;
    }
}

#[tokio::test]
async fn nothing_is_left_after_sigterm() {
    for tree in TREES {
        let scene = Scene::start(tree).await;
        let start = Instant::now();
        signal(scene.program.pid(), libc::SIGTERM);
        scene.gone_by(start + GONE_AFTER, tree).await;
    }
}

#[tokio::test]
async fn nothing_is_left_after_kill_nine() {
    for tree in TREES {
        let scene = Scene::start(tree).await;
        let start = Instant::now();
        signal(scene.program.pid(), libc::SIGKILL);
        scene.gone_by(start + GONE_AFTER, tree).await;
    }
}

#[test]
fn every_quirk_has_its_tree() {
    for quirk in ProcessQuirk::ALL {
        let bound_to_linux = matches!(quirk, ProcessQuirk::Relaunches | ProcessQuirk::LeavesDaemon);
        let seen = TREES.iter().any(|tree| tree.quirks.contains(&quirk));
        assert!(seen || (bound_to_linux && !cfg!(target_os = "linux")), "{quirk:?}");
    }
}

/// The program with a prompt under way at its agent.
struct Scene {
    program: Program,
    pids: Vec<i32>,
    _home: Home,
}

impl Scene {
    async fn start(tree: &Tree) -> Scene {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let notes = home.beside().join("notes");
        fs::create_dir(&notes).expect("a folder can be made");
        let mut agent = home.scripted(Version::V1);
        agent.extend(tree.quirks.iter().map(|quirk| quirk.flag().into()));
        agent.extend(["--notes".into(), notes.clone().into()]);
        let program = home.start(Version::V1, &agent);
        program.client.initialize().await;
        let session = program.client.new_session().await;
        program.client.begin_prompt(&session, "say at work; hang").await;
        let works = |update: &serde_json::Value| update["content"]["text"] == "at work";
        program.client.wait_update(0, &session, "the agent at work", works).await;
        let mut pids = Vec::new();
        for name in tree.processes {
            pids.push(noted_pid(&notes.join(name)).await);
        }
        assert_eq!(left_of(&pids), pids, "{tree:?}");
        Scene { program, pids, _home: home }
    }

    /// The whole tree and the program itself.
    async fn gone_by(mut self, deadline: Instant, tree: &Tree) {
        let own = self.program.pid();
        assert_gone_by(deadline, &self.pids, tree).await;
        self.program.exited().await;
        assert_gone_by(deadline, &[own], tree).await;
    }
}

async fn noted_pid(path: &Path) -> i32 {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(pid) = fs::read_to_string(path).ok().and_then(|text| text.parse().ok()) {
            return pid;
        }
        assert!(Instant::now() < deadline, "{} is not noted", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
