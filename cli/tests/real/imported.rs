//! A conversation with an agent that runs without the program: a tool call, a cancelled turn, one more turn. Its files are
//! imported and shown equal to what the client saw; the agent goes on with it by itself, and another by its transcript.

use rethread::edge::Version;
use rethread_testkit::program::Program;
use rethread_testkit::view::{Item, View};
use serde_json::Value;

use super::agents::Agent;
use super::stage::Stage;

const CANCELLED: &str = "three DELTAS=200 DELAY=20";

/// Imports what an agent has written, and goes on with it and with another agent.
pub(crate) async fn imported(agent: Agent, other: Option<Agent>) -> String {
    let stage = Stage::new();
    let (session, seen) = conversation(&stage, agent).await;
    let report = stage.import(agent).await;
    assert_eq!(report["counts"]["imported"], 1, "{report:#}");
    assert_eq!(report["skippedLines"], 0, "{report:#}");
    // An agent may have made a file for a session that nobody used.
    let mut ids =
        report["sessions"].as_array().into_iter().flatten().filter_map(|session| session["id"].as_str());
    let id = ids.next_back().expect("it has an id").to_owned();
    let again = stage.import(agent).await;
    assert_eq!(again["counts"]["unchanged"], report["found"], "{again:#}");

    let mut program = stage.start(Version::V1, agent, &[]).await;
    program.client.load_in(&stage.cwd, &id).await;
    seen.assert_shown(agent, &program.client.view(&id));
    let before = stage.model.asked().len();
    assert_eq!(program.client.prompt(&id, "five DELTAS=4").await.stop, "end_turn");
    let how = restored(&program, &id);
    let is_native = matches!(how.as_str(), "resumed" | "loaded");
    assert!(is_native || agent.loses_what_it_loads(), "it was {how}");
    assert_told(&stage, before, agent, &seen.first_words);
    end(&mut program).await;
    // The agent has written more, which is here already.
    let after = stage.import(agent).await;
    assert_eq!(after["counts"]["diverged"], 1, "{after:#}");

    if let Some(other) = other {
        let mut program = stage.start(Version::V1, other, &["--restore", "auto"]).await;
        program.client.load_in(&stage.cwd, &id).await;
        let before = stage.model.asked().len();
        assert_eq!(program.client.prompt(&id, "six DELTAS=4").await.stop, "end_turn");
        assert_eq!(restored(&program, &id), "reseeded");
        assert_told(&stage, before, other, &seen.first_words);
        end(&mut program).await;
    }
    let drift = report["drift"].as_array().map_or(0, Vec::len);
    if drift > 0 {
        eprintln!("{} writes what its reader does not know: {:#}", agent.name(), report["drift"]);
    }
    let same = if id == session { "the same id" } else { "a new id" };
    format!(", {same}, {how}, {drift} unknown kinds")
}

/// What the client saw of the turns that were not cancelled.
struct Seen {
    first_words: String,
    views: Vec<View>,
}

impl Seen {
    fn assert_shown(&self, agent: Agent, shown: &View) {
        let users = shown.user();
        let mut prompts = vec!["one DELTAS=5", "TOOL BASH", CANCELLED, "four DELTAS=3"];
        prompts.retain(|prompt| *prompt != CANCELLED || agent.keeps_cancelled_prompts());
        assert_eq!(users.len(), prompts.len(), "{shown}");
        for (user, prompt) in users.iter().zip(prompts) {
            assert!(user.contains(prompt), "{user} is not {prompt}\n{shown}");
        }
        let said = |view: &View| view.agent().join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        let all = said(shown);
        for view in &self.views {
            assert!(all.contains(&said(view)), "the agent said\n{}\nand now it is\n{shown}", said(view));
        }
        let tools = |view: &View| {
            let tool = |item: &Item| match item {
                Item::Tool { status, .. } => Some(status.clone()),
                Item::Message { .. } | Item::Other(_) => None,
            };
            view.items.iter().filter_map(tool).collect::<Vec<_>>()
        };
        let seen: Vec<_> = self.views.iter().flat_map(tools).collect();
        assert_eq!(tools(shown), seen, "the tool calls differ\n{shown}");
    }
}

async fn conversation(stage: &Stage, agent: Agent) -> (String, Seen) {
    let mut program = stage.start_alone(Version::V1, agent).await;
    let client = &program.client;
    let session = client.new_session_in(&stage.cwd).await;
    if let Some(mode) = agent.asking_mode() {
        // What else judges a command is in no file.
        client.set_option(&session, "mode", mode).await;
    }
    let mut views = Vec::new();
    let file = format!("{}/made", stage.cwd);
    for prompt in
        ["one DELTAS=5".to_owned(), format!("TOOL BASH CMD=`echo made; touch {file}` ESCALATE DELTAS=5")]
    {
        let mark = client.mark();
        assert_eq!(client.prompt(&session, &prompt).await.stop, "end_turn");
        views.push(client.view_since(mark, &session));
    }
    let mark = client.mark();
    let cancelled = client.begin_prompt(&session, CANCELLED).await;
    let middle = |update: &Value| update["content"]["text"].to_string().contains("w020");
    client.wait_update(mark, &session, "the middle of the text", middle).await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &cancelled).await.stop, "cancelled");
    let mark = client.mark();
    assert_eq!(client.prompt(&session, "four DELTAS=3").await.stop, "end_turn");
    views.push(client.view_since(mark, &session));
    let first_words = views[0].agent().concat().trim().to_owned();
    end(&mut program).await;
    (session, Seen { first_words, views })
}

/// How the client was told that the agent came back to the session.
fn restored(program: &Program, session: &str) -> String {
    let updates = program.client.updates(session);
    let how = updates.iter().find_map(|update| update["_meta"]["rethread"]["restored"].as_str());
    how.expect("the client is told").to_owned()
}

/// The agent has told its model these words since then.
fn assert_told(stage: &Stage, since: usize, agent: Agent, words: &str) {
    let asked = stage.model.asked().split_off(since).into_iter();
    let bodies: Vec<_> = asked
        .filter(|asked| asked.path.ends_with(agent.asks_at()))
        .map(|asked| asked.body.to_string())
        .collect();
    let word = words.split_whitespace().next_back().unwrap_or_default();
    assert!(bodies.iter().any(|body| body.contains(word)), "the model was not told of {word}: {bodies:#?}");
}

async fn end(program: &mut Program) {
    program.client.disconnect().await;
    program.exited().await;
}
