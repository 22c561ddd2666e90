//! A client and an agent of different versions: a whole conversation with a tool call, for which the agent asks.

use std::path::Path;

use rethread::edge::Version;
use rethread_testkit::program::Program;
use rethread_testkit::view::Item;

use super::agents::Agent;
use super::stage::Stage;

/// A version 1 client over an agent that speaks version 2, and the other way round.
pub(crate) async fn conversation(agent: Agent) -> String {
    let (client, options): (_, &[&str]) = match agent.speaks_version_2() {
        true => (Version::V1, &["--agent-protocol", "2"]),
        false => (Version::V2, &["--agent-protocol", "1"]),
    };
    let stage = Stage::new();
    let mut program = stage.start(client, agent, options).await;
    let session = program.client.new_session_in(&stage.cwd).await;
    if let Some(mode) = agent.asking_mode() {
        program.client.set_option(&session, "mode", mode).await;
    }
    assert_eq!(program.client.prompt(&session, "hello DELTAS=20").await.stop, "end_turn");
    let file = format!("{}/made", stage.cwd);
    let mark = program.client.mark();
    let tool = format!("TOOL BASH CMD=`echo made; touch {file}` ESCALATE DELTAS=5");
    assert_eq!(program.client.prompt(&session, &tool).await.stop, "end_turn");
    let asked = permissions(&program, mark);
    assert_eq!(asked, agent.asks_for_a_command(), "it asks\n{}", program.client.view(&session));
    assert!(Path::new(&file).exists(), "the command did not run\n{}", program.client.view(&session));

    let view = program.client.view_since(mark, &session);
    let settled = |item: &&Item| matches!(item, Item::Tool { status, .. } if status == "completed");
    assert!(view.items.iter().any(|item| settled(&item)), "no tool call was completed\n{view}");
    assert!(view.agent().last().is_some_and(|text| text.contains("w004")), "no answer after it\n{view}");

    let live = program.client.view(&session);
    program.client.disconnect().await;
    program.exited().await;
    let again = stage.start(client, agent, options).await;
    again.client.load_in(&stage.cwd, &session).await;
    let loaded = again.client.view(&session);
    assert_eq!(live.items, loaded.items, "live:\n{live}\nloaded:\n{loaded}");
    format!(", {client:?} client, {asked} permission asked")
}

fn permissions(program: &Program, mark: usize) -> usize {
    let heard = program.client.server_messages_since(mark);
    heard.iter().filter(|message| message["method"] == "session/request_permission").count()
}
