//! The program is killed while an agent speaks: nothing that was shown is lost, nothing of the tree is left, and the
//! conversation goes on, with this agent and with another.

use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::kept;
use rethread_testkit::processes::{assert_gone_by, descendants_of, left_of};
use rethread_testkit::program::Program;

use super::agents::Agent;
use super::stage::Stage;

/// How long a process of the tree may live on.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// How many words the model says.
const WORDS: usize = 200;

/// Only with the agent itself.
pub(crate) async fn killed(agent: Agent, client: Version) -> String {
    let stage = Stage::new();
    let (mut program, _, said) = killed_and_back(&stage, agent, client).await;
    end(&mut program).await;
    said
}

/// The same, and then another agent goes on from the transcript.
pub(crate) async fn killed_and_taken_over(agent: Agent, other: Agent, client: Version) -> String {
    let stage = Stage::new();
    let (mut program, session, said) = killed_and_back(&stage, agent, client).await;
    end(&mut program).await;
    let before = stage.model.asked().len();
    let mut program = stage.start(client, other, &["--restore", "auto"]).await;
    program.client.load_in(&stage.cwd, &session).await;
    answers(&program, &session).await;
    assert_eq!(restored(&program, &session), "reseeded");
    assert_told(&stage, before, other, &words(1, WORDS));
    assert_told(&stage, before, other, &["t2w049".to_owned()]);
    end(&mut program).await;
    said
}

async fn killed_and_back(stage: &Stage, agent: Agent, client: Version) -> (Program, String, String) {
    let mut program = stage.start(client, agent, &[]).await;
    let session = program.client.new_session_in(&stage.cwd).await;
    if let Some(greeting) = agent.greeting() {
        // It stands before the prompt, wherever that was shown.
        let greets = |update: &serde_json::Value| update["content"]["text"].to_string().contains(greeting);
        program.client.wait_update(0, &session, "the greeting", greets).await;
    }
    let turn = program.client.prompt(&session, &format!("one DELTAS={WORDS}")).await;
    assert_eq!(turn.stop, "end_turn");
    let text = program.client.view(&session).agent().concat();
    assert!(text.contains(&words(1, WORDS).concat()), "the agent said only: {text}");

    let mark = program.client.mark();
    program.client.begin_prompt(&session, &format!("two DELTAS={WORDS} DELAY=20")).await;
    let middle = |update: &serde_json::Value| update["content"]["text"].to_string().contains("t2w050");
    program.client.wait_update(mark, &session, "the middle of the text", middle).await;
    let tree = descendants_of(program.pid());
    assert!(tree.len() > 1, "there is a guardian and an agent: {tree:?}");
    let start = Instant::now();
    program.kill().await;
    assert_gone_by(start + GONE_AFTER, &tree, agent.name()).await;
    let gone = start.elapsed();

    let shown = kept::shown(&program.client, &session);
    let last = shown.agent().concat();
    assert!(last.contains("t2w050") && !last.contains("t2w199"), "not in mid-text: {last}");
    let back = stage.start(client, agent, &[]).await;
    back.client.load_in(&stage.cwd, &session).await;
    let loaded = back.client.view(&session);
    if let Err(lost) = kept::check(&shown, &loaded) {
        panic!("{lost}\nshown:\n{shown}\nloaded:\n{loaded}");
    }
    let before = stage.model.asked().len();
    answers(&back, &session).await;
    assert_told(stage, before, agent, &words(1, WORDS));
    let how = restored(&back, &session);
    (back, session, format!(", {} processes gone in {} ms, {how}", tree.len(), gone.as_millis()))
}

/// The agent has told its model all of this in one request since then.
fn assert_told(stage: &Stage, since: usize, agent: Agent, what: &[String]) {
    let asked = stage.model.asked().split_off(since).into_iter();
    let of_agent = asked.filter(|asked| asked.path.ends_with(agent.asks_at()));
    let bodies: Vec<String> = of_agent.map(|asked| asked.body.to_string()).collect();
    let whole = |body: &String| what.iter().all(|word| body.contains(word.trim()));
    assert!(
        bodies.iter().any(whole),
        "the model of {} was not told of {}: {bodies:#?}",
        agent.name(),
        what[0]
    );
}

/// How the client was told that the agent came back to the session.
fn restored(program: &Program, session: &str) -> String {
    let updates = program.client.updates(session);
    let how = updates.iter().find_map(|update| update["_meta"]["rethread"]["restored"].as_str());
    how.expect("the client is told").to_owned()
}

/// The next prompt is answered.
async fn answers(program: &Program, session: &str) {
    let mark = program.client.mark();
    let turn = program.client.prompt(session, "three DELTAS=4").await;
    assert_eq!(turn.stop, "end_turn");
    let view = program.client.view_since(mark, session);
    let text = view.agent().concat();
    assert!(text.contains("w003 ") && !text.contains("w004"), "not the answer to this prompt:\n{view}");
}

async fn end(program: &mut Program) {
    let mut tree = descendants_of(program.pid());
    tree.push(program.pid());
    let start = Instant::now();
    program.client.disconnect().await;
    program.exited().await;
    assert_gone_by(start + GONE_AFTER, &tree, "the end of input").await;
    assert!(left_of(&tree).is_empty());
}

fn words(turn: usize, count: usize) -> Vec<String> {
    (0..count).map(|word| format!("t{turn}w{word:03} ")).collect()
}
