//! Time from the start of the process to the end of the load of a long session, with and without the program.

use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::program::Program;
use serde_json::json;

use super::agents::Agent;
use super::stage::Stage;

/// How long the session is.
const TURNS: usize = 100;
/// How much faster it has to be.
const TIMES: u32 = 10;
/// Each way is tried this often, and the best counts: others use the machine too.
const TRIES: usize = 3;

pub(crate) async fn load_is_fast(agent: Agent) -> String {
    let stage = Stage::new();
    let session = long_session(&stage, agent).await;
    let native = native_id(&stage, agent).await;
    let (mut with, mut without) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIES {
        let start = Instant::now();
        let program = stage.start(Version::V1, agent, &[]).await;
        with = with.min(loaded(&stage, program, &session, start).await);
        let start = Instant::now();
        let alone = stage.start_alone(Version::V1, agent).await;
        without = without.min(loaded(&stage, alone, &native, start).await);
    }
    let said = format!(", {} ms, {} ms without rethread", with.as_millis(), without.as_millis());
    // What is shipped is no debug build: `.ci/real-agents test` makes the one that is.
    if cfg!(debug_assertions) {
        return format!("{said}, not judged for a debug build");
    }
    assert!(with * TIMES <= without, "not {TIMES} times faster{said}");
    said
}

async fn long_session(stage: &Stage, agent: Agent) -> String {
    let mut program = stage.start(Version::V1, agent, &[]).await;
    let session = program.client.new_session_in(&stage.cwd).await;
    for turn in 1..=TURNS {
        let said = program.client.prompt(&session, &format!("turn {turn} DELTAS=20")).await;
        assert_eq!(said.stop, "end_turn");
    }
    end(&mut program).await;
    session
}

/// The agent's own name for its only session.
async fn native_id(stage: &Stage, agent: Agent) -> String {
    let mut alone = stage.start_alone(Version::V1, agent).await;
    let list = alone.client.ask("session/list", json!({"cwd": stage.cwd})).await;
    end(&mut alone).await;
    let sessions = list["sessions"].as_array().expect("there is a list");
    assert_eq!(sessions.len(), 1, "{list}");
    sessions[0]["sessionId"].as_str().expect("a session has an id").to_owned()
}

/// Loads, checks that all of it came, and says how long it took since the start.
async fn loaded(stage: &Stage, mut program: Program, session: &str, start: Instant) -> Duration {
    program.client.load_in(&stage.cwd, session).await;
    let took = start.elapsed();
    let user = program.client.view(session).user();
    let last = format!("turn {TURNS} DELTAS=20");
    assert!(user.iter().any(|text| text.contains(&last)), "not the whole session: {user:?}");
    end(&mut program).await;
    took
}

async fn end(program: &mut Program) {
    program.client.disconnect().await;
    program.exited().await;
}
