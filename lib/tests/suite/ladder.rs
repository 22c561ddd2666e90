//! How a session is brought back when its agent has lost it, and how it is branched off, taken in and shared:
//! resume, load, the transcript, another agent, forks, the agent's own sessions.

use std::time::Duration;

use rethread::agent::Restore;
use rethread::server::{Config, NativeSessions};
use rethread::store::relocate::relocate;
use rethread_core::{Entry, Seq, SessionId, readable};
use rethread_testkit::agent::{AgentConfig, AgentImpl, Forks, Quirk, Restores, ScriptedAgent};
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const CWD: &str = "/work";

/// An agent that has no way to restore a session.
fn forgetful(mut config: AgentConfig) -> AgentConfig {
    config.restores = Restores::Nothing;
    config
}

/// The blocks of the last prompt that the agent was given.
fn last_prompt(agent: &ScriptedAgent) -> Vec<Value> {
    let prompts = agent.received_params("session/prompt");
    prompts.last().and_then(|params| params["prompt"].as_array().cloned()).unwrap_or_default()
}

/// What the agent was given last of what it had not heard itself: the transcript with a prompt, or the history.
fn given(agent: &ScriptedAgent) -> String {
    let history = agent
        .received_params("session/resume")
        .pop()
        .map(|params| params["_meta"]["rethread"]["history"].to_string());
    transcript(&last_prompt(agent)).or(history).expect("it was given something")
}

/// The transcript that a prompt carries, if it carries one.
fn transcript(blocks: &[Value]) -> Option<String> {
    let first = blocks.first()?;
    let text = first["resource"]["text"].as_str().or_else(|| first["text"].as_str())?;
    text.starts_with("# The conversation so far").then(|| text.to_owned())
}

async fn fork(client: &Client, session: &str, meta: Value) -> Result<Value, Value> {
    let mut params = json!({"sessionId": session, "cwd": CWD, "mcpServers": []});
    if !meta.is_null() {
        params["_meta"] = meta;
    }
    client.request("session/fork", params).await
}

async fn a_lost_session_goes_on_from_the_transcript(pairing: Pairing) {
    let world = World::with_config(pairing, forgetful);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say the secret is blue").await;
    first.disconnect().await;
    let world = world.again();
    let client = world.ready().await;
    client.load(&session).await;
    client.prompt(&session, "say going on").await;
    let blocks = last_prompt(&world.agent);
    let seed = transcript(&blocks).expect("the prompt carries the transcript");
    assert!(seed.contains("the secret is blue"), "{seed}");
    assert_eq!(blocks.last().map(|block| block["text"].clone()), Some(json!("say going on")));
    // Once is enough, and the client sees its own prompt as it wrote it.
    client.prompt(&session, "say more").await;
    assert_eq!(transcript(&last_prompt(&world.agent)), None);
    let view = client.view(&session);
    assert_eq!(view.agent(), ["the secret is blue", "going on", "more"]);
    let noticed = client.updates(&session).iter().any(|update| update.to_string().contains("transcript"));
    assert!(noticed, "never a silent fresh session");
}

/// What was refused is no part of the conversation for whoever goes on with it.
async fn a_refused_turn_is_not_in_the_transcript(pairing: Pairing) {
    for fold in [false, true] {
        let world = World::with_config(pairing, forgetful);
        let first = world.ready().await;
        let session = first.new_session().await;
        first.prompt(&session, "say one").await;
        assert_eq!(
            first.prompt(&session, "say the forbidden; tool call_1; stop refusal").await.stop,
            "refusal"
        );
        first.prompt(&session, "say three").await;
        first.prompt(&session, "say the forbidden too; stop refusal").await;
        let world = world.restarted(&first).await;
        if fold {
            world.fold(&session).await;
        }
        let client = world.ready().await;
        client.load(&session).await;
        assert_eq!(client.view(&session).agent(), ["one", "the forbidden", "three", "the forbidden too"]);
        client.prompt(&session, "say going on").await;
        let seed = transcript(&last_prompt(&world.agent)).expect("the prompt carries the transcript");
        assert!(seed.contains("say one") && seed.contains("say three"), "{seed}");
        assert!(!seed.contains("forbidden") && !seed.contains("Tool"), "{seed}");
        assert!(seed.contains("of 2 turns"), "{seed}");
    }
}

async fn an_agent_that_can_restore_is_not_given_the_transcript(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say one").await;
    first.disconnect().await;
    let world = world.again();
    let client = world.ready().await;
    client.load(&session).await;
    client.prompt(&session, "say two").await;
    assert_eq!(transcript(&last_prompt(&world.agent)), None);
    assert_eq!(world.agent.received_params("session/new").len(), 1, "no second session at the agent");
    assert_eq!(client.view(&session).agent(), ["one", "two"], "its replay is swallowed");
}

async fn the_policy_decides_how_far_it_goes(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say one").await;
    first.disconnect().await;
    let over = |restore| {
        let config = Config { restore, ..Config::default() };
        World::over(world.client, world.agent.clone(), world.store.clone(), config)
    };

    let read_only = over(Restore::ReadOnly);
    let client = read_only.ready().await;
    client.load(&session).await;
    assert_eq!(client.view(&session).agent(), ["one"]);
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "say no"}]});
    let error = client.request("session/prompt", params).await.expect_err("read-only");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("read-only")), "{error}");
    client.disconnect().await;

    let reseed = over(Restore::Reseed);
    let client = reseed.ready().await;
    client.load(&session).await;
    client.prompt(&session, "say two").await;
    assert!(transcript(&last_prompt(&world.agent)).is_some());
    client.disconnect().await;

    world.agent.configure(|config| *config = forgetful(AgentConfig::able(config.speaks)));
    let native = over(Restore::Native);
    let client = native.ready().await;
    client.load(&session).await;
    if pairing.agent_impl == AgentImpl::Library {
        // It is given what it needs, whatever it forgets.
        assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
        return;
    }
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "say no"}]});
    let error = client.request("session/prompt", params).await.expect_err("nothing native");
    assert!(error["data"]["hint"].as_str().is_some_and(|hint| hint.contains("--restore auto")), "{error}");
}

async fn another_agent_takes_the_session_over(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say from the first agent").await;
    first.disconnect().await;
    let other = ScriptedAgent::of(pairing);
    other.configure(|config| config.name = "another");
    let next = World::over(world.client, other, world.store.clone(), Config::default());
    let client = next.ready().await;
    client.load(&session).await;
    client.prompt(&session, "say from the second").await;
    assert!(given(&next.agent).contains("from the first agent"));
    if pairing.agent_impl == AgentImpl::Own {
        assert!(
            next.agent.received_params("session/load").is_empty()
                && next.agent.received_params("session/resume").is_empty()
        );
    }
}

async fn a_fork_is_live_and_leaves_its_parent_alone(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["fork"]));
    let client = world.ready().await;
    let parent = client.new_session().await;
    client.prompt(&parent, "say one").await;
    client.prompt(&parent, "say two").await;
    let made = fork(&client, &parent, Value::Null).await.expect("a fork");
    let child = made["sessionId"].as_str().expect("an id").to_owned();
    assert_ne!(child, parent);
    client.prompt(&child, "say three").await;
    assert!(given(&world.agent).contains("two"));
    client.prompt(&parent, "say four").await;
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&child).await;
    next.load(&parent).await;
    assert_eq!(next.view(&child).agent(), ["one", "two", "three"]);
    assert_eq!(next.view(&parent).agent(), ["one", "two", "four"]);
}

/// The severity and the title of each notice that the client was told of a session.
fn notices(client: &Client, session: &str) -> Vec<(String, String)> {
    let updates = client.updates(session).into_iter();
    let notices = updates.filter(|update| update["sessionUpdate"] == "notice");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    notices.map(|notice| (text(&notice["severity"]), text(&notice["title"]))).collect()
}

async fn a_fork_is_not_told_as_a_loss(pairing: Pairing) {
    for able in [true, false] {
        let world = World::with_config(pairing, |config| match (pairing.agent_impl, able) {
            (AgentImpl::Own, true) => config.able_to(&["fork"]),
            (AgentImpl::Own, false) => config.without(&["fork"]),
            (AgentImpl::Library, _) => config,
        });
        let client = world.ready().await;
        let parent = client.new_session().await;
        client.prompt(&parent, "say one").await;
        let made = fork(&client, &parent, Value::Null).await.expect("a fork");
        let child = made["sessionId"].as_str().expect("an id").to_owned();
        client.prompt(&child, "say two").await;
        let title = match (pairing.agent_impl, able) {
            (AgentImpl::Own, false) => "This fork starts from the transcript",
            (AgentImpl::Own, true) | (AgentImpl::Library, _) => "Session forked",
        };
        assert_eq!(notices(&client, &child), [("info".to_owned(), title.to_owned())]);
        // From here on it is a session like any other.
        let next = world.restarted(&client).await.ready().await;
        next.load(&child).await;
        next.prompt(&child, "say three").await;
        assert_eq!(notices(&next, &child), [("info".to_owned(), "Session restored".to_owned())]);
    }
}

async fn what_an_agent_replays_of_its_fork_is_swallowed(pairing: Pairing) {
    for quirks in [&[Quirk::OtherIdsOnReplay][..], &[Quirk::OtherIdsOnReplay, Quirk::ReplaysLate]] {
        let world = World::with_config(pairing, |config| {
            let config = config.able_to(&["fork"]).with(quirks);
            AgentConfig { forks: Forks::Replayed, ..config }
        });
        let client = world.ready().await;
        let parent = client.new_session().await;
        client.prompt(&parent, "say one").await;
        let made = fork(&client, &parent, Value::Null).await.expect("a fork");
        let child = made["sessionId"].as_str().expect("an id").to_owned();
        // Long enough for a late replay to come in the midst of it.
        client.prompt(&child, "slow 10; say two").await;
        let slow = (1..=10).map(|at| format!("c{at}")).collect::<Vec<_>>().join(" ");
        assert_eq!(client.view(&child).agent(), [slow.as_str(), "two"], "{quirks:?}");
        assert_eq!(world.agent.received_params("session/fork").len(), 1);
        assert_eq!(transcript(&last_prompt(&world.agent)), None, "the agent has it all");
        let mark = client.mark();
        client.load(&child).await;
        assert_eq!(client.view_since(mark, &child).agent(), ["one", slow.as_str(), "two"], "{quirks:?}");
    }
}

async fn a_fork_at_a_message_has_nothing_after_it(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["fork"]));
    let client = world.ready().await;
    let parent = client.new_session().await;
    client.prompt(&parent, "say one").await;
    client.prompt(&parent, "say two").await;
    client.disconnect().await;
    let client = world.again().ready().await;
    client.load(&parent).await;
    let said = client.updates(&parent);
    let one = said.iter().find(|update| update.to_string().contains("\"one\"")).expect("it was replayed");
    let at = json!({"rethread": {"atMessage": one["messageId"]}});
    let made = fork(&client, &parent, at).await.expect("a fork");
    let child = made["sessionId"].as_str().expect("an id").to_owned();
    client.load(&child).await;
    assert_eq!(client.view(&child).agent(), ["one"]);
    let error =
        fork(&client, &parent, json!({"rethread": {"atMessage": "nobody"}})).await.expect_err("unknown");
    assert_eq!(error["code"], -32602);
    assert_eq!(error["data"]["field"], "_meta.rethread.atMessage");
    let error = fork(&client, "no-such-session", Value::Null).await.expect_err("unknown");
    assert_eq!(error["code"], -32002);
}

async fn a_session_that_only_the_agent_has_is_taken_in(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say known to the agent").await;
    let native = world.agent.sessions().first().cloned().expect("the agent has it");
    first.disconnect().await;
    // Another store, the same agent: what the agent keeps is all there is.
    let elsewhere = World::with(world.client, world.agent.clone());
    let client = elsewhere.ready().await;
    client.load(&native).await;
    assert_eq!(client.view(&native).agent(), ["known to the agent"]);
    client.prompt(&native, "say and here").await;
    client.disconnect().await;
    let client = elsewhere.again().ready().await;
    client.load(&native).await;
    assert_eq!(client.view(&native).agent(), ["known to the agent", "and here"]);
    let error = client.load_refused("nobody-knows-this").await;
    assert_eq!(error["code"], -32002);
    assert_eq!(error["data"]["sessionId"], "nobody-knows-this");
}

async fn a_session_that_is_taken_in_has_its_turns(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say one; toolopen").await;
    first.prompt(&session, "say two").await;
    let native = world.agent.sessions().first().cloned().expect("the agent has it");
    first.disconnect().await;
    let elsewhere = World::with(world.client, world.agent.clone());
    let client = elsewhere.ready().await;
    client.load(&native).await;
    let shown = client.view(&native);
    assert_eq!((shown.user().len(), shown.agent()), (2, vec!["one".to_owned(), "two".to_owned()]));
    assert!(shown.to_string().contains("(failed)"), "no call runs on: {shown}");
    let page =
        elsewhere.store.read(&SessionId(native.clone()), Seq(0), usize::MAX).await.expect("it can be read");
    let turns: Vec<_> =
        page.decode().expect("it can be decoded").iter().filter_map(|item| turn_line(&item.entry)).collect();
    assert_eq!(turns, ["1: say one; toolopen", "1 ended", "2: say two", "2 ended"]);

    let said = client.updates(&native);
    let one = said.iter().find(|update| update.to_string().contains("\"one\"")).expect("it was replayed");
    let at = json!({"rethread": {"atMessage": one["messageId"]}});
    let made = fork(&client, &native, at).await.expect("a fork");
    let child = made["sessionId"].as_str().expect("an id").to_owned();
    client.load(&child).await;
    assert_eq!(client.view(&child).agent(), ["one"]);

    client.prompt(&native, "say three").await;
    client.disconnect().await;
    let other = ScriptedAgent::of(pairing);
    other.configure(|config| config.name = "another");
    let next = World::over(elsewhere.client, other, elsewhere.store.clone(), Config::default());
    let client = next.ready().await;
    client.load(&native).await;
    assert_eq!(client.view(&native).agent(), ["one", "two", "three"], "folded or not");
    client.prompt(&native, "say four").await;
    assert!(given(&next.agent).contains("This conversation of 3 turns"), "{}", given(&next.agent));
}

/// A prompt or the end of a turn.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other entries say nothing of turns")]
fn turn_line(entry: &Entry) -> Option<String> {
    match entry {
        Entry::PromptInserted { turn, .. } => Some(format!("{turn}: {}", readable(entry)?.text())),
        Entry::TurnEnded { turn, .. } => Some(format!("{turn} ended")),
        _ => None,
    }
}

async fn the_agents_own_sessions_are_listed_once(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let ours = first.new_session().await;
    first.prompt(&ours, "say hello").await;
    first.disconnect().await;
    let native = world.agent.sessions().first().cloned().expect("the agent has it");
    let listed = |client: Client| async move {
        let page = client.ask("session/list", json!({})).await;
        let ids = page["sessions"].as_array().cloned().unwrap_or_default();
        ids.iter().map(|info| info["sessionId"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };

    let elsewhere = World::with(world.client, world.agent.clone());
    let client = elsewhere.ready().await;
    world.agent.wait_received("session/list", 2).await;
    let found = wait_for_list(&client, &native).await;
    assert!(found, "the agent's own session is listed");
    let error = fork(&client, &native, Value::Null).await.expect_err("there is nothing to fork yet");
    assert!(error["data"]["hint"].as_str().is_some_and(|hint| hint.contains("load it")), "{error}");
    client.ask("session/delete", json!({"sessionId": native})).await;
    assert!(!listed(client).await.contains(&native), "deleted ones stay away");

    // Where it is known under our own id, it is not listed again under the agent's.
    assert_eq!(listed(world.again().ready().await).await, [ours]);

    let config = Config { native_sessions: NativeSessions::Hidden, ..Config::default() };
    let hidden = World::over(world.client, world.agent.clone(), World::of(pairing).store, config);
    assert!(listed(hidden.ready().await).await.is_empty());
}

/// The agent's list is learnt behind the scenes: it is there soon, and nobody waits for it.
async fn wait_for_list(client: &Client, session: &str) -> bool {
    for _ in 0..200 {
        let page = client.ask("session/list", json!({})).await;
        if page.to_string().contains(session) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

async fn an_idle_session_lets_go_of_its_agent_and_comes_back(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.idle_limit = Duration::from_millis(50));
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say one").await;
    world.agent.wait_received("session/close", 1).await;
    client.prompt(&session, "say two").await;
    assert_eq!(client.view(&session).agent(), ["one", "two"]);
}

async fn an_agent_that_does_not_start_any_more_hides_no_session(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig { key: Some("first build"), ..config });
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say kept").await;
    let before = first.view(&session);
    first.disconnect().await;
    world.agent.wait_gone().await;

    // Another build under the same command, which never starts, or one that was taken away.
    for key in [Some("second build"), Some("no build at all")] {
        world.agent.configure(|config| config.key = key);
        world.agent.break_starts(usize::MAX);
        let client = world.again().ready().await;
        let listed = client.ask("session/list", json!({})).await;
        assert_eq!(listed["sessions"][0]["sessionId"], json!(session), "{listed}");
        client.load(&session).await;
        assert_eq!(client.view(&session).agent(), before.agent());
        let prompt = client.begin_prompt(&session, "say more").await;
        let error = client.answer(&prompt).await.expect_err("there is no agent");
        assert!(error.to_string().contains("it was told not to"), "{error}");
        client.disconnect().await;
    }
    world.agent.break_starts(0);
    let client = world.again().ready().await;
    client.load(&session).await;
    assert_eq!(client.prompt(&session, "say again").await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["kept", "again"]);
}

/// A session that was moved: whatever the agent could restore, it belongs to the old directory.
async fn a_moved_session_goes_on_from_the_transcript_in_its_new_directory(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say the secret is blue").await;
    let id = SessionId(session.clone());
    let live = relocate(world.store.as_ref(), &id, "/elsewhere").await;
    assert!(
        live.is_err_and(|error| error.to_string().contains("is open in process")),
        "not while it is live"
    );
    let world = world.restarted(&first).await;
    assert_eq!(relocate(world.store.as_ref(), &id, "/elsewhere").await.expect("nobody has it"), CWD);
    let row = world.store.find(&id).await.expect("the store works").expect("it is there");
    assert_eq!((row.cwd.as_str(), row.owner.is_none()), ("/elsewhere", true));

    let client = world.ready().await;
    let refused = client.load_refused(&session).await;
    assert!(refused.to_string().contains("belongs to /elsewhere"), "{refused}");
    client.load_in("/elsewhere", &session).await;
    client.prompt(&session, "say going on").await;
    assert_eq!(client.view(&session).agent(), ["the secret is blue", "going on"]);
    assert!(given(&world.agent).contains("the secret is blue"), "the agent was given the conversation");
    let opened =
        ["session/new", "session/resume", "session/load"].map(|method| world.agent.received_params(method));
    let last = opened.iter().flatten().filter(|params| params["cwd"] == "/elsewhere").count();
    assert_eq!(last, 1, "the agent works in the new directory: {opened:?}");
    let noticed = client.updates(&session).iter().any(|update| {
        let text = update.to_string();
        text.contains("moved and continues from its transcript")
            || text.contains("given the whole conversation")
    });
    assert!(noticed, "it is said");

    // From then on the agent restores it there by itself.
    let world = world.restarted(&client).await;
    let client = world.ready().await;
    client.load_in("/elsewhere", &session).await;
    client.prompt(&session, "say more").await;
    assert_eq!(client.view(&session).agent(), ["the secret is blue", "going on", "more"]);
    assert_eq!(transcript(&last_prompt(&world.agent)), None);
}

async fn a_move_to_where_it_is_and_one_of_a_broken_off_turn(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say one").await;
    let world = world.restarted(&first).await;
    let id = SessionId(session.clone());
    let head = || async { world.store.find(&id).await.expect("the store works").expect("it is there").head };
    let before = head().await;
    relocate(world.store.as_ref(), &id, CWD).await.expect("nobody has it");
    assert_eq!(head().await, before, "nothing is written");
    for directory in ["/a", "/b", CWD] {
        relocate(world.store.as_ref(), &id, directory).await.expect("nobody has it");
    }
    world.fold(&session).await;
    let client = world.ready().await;
    client.load(&session).await;
    client.prompt(&session, "say two").await;
    assert_eq!(client.view(&session).agent(), ["one", "two"]);
    assert!(relocate(world.store.as_ref(), &SessionId("nothing".to_owned()), "/a").await.is_err());
}

pairings!(
    an_agent_that_does_not_start_any_more_hides_no_session,
    a_moved_session_goes_on_from_the_transcript_in_its_new_directory,
    a_move_to_where_it_is_and_one_of_a_broken_off_turn,
);

pairings!(
    an_agent_that_can_restore_is_not_given_the_transcript,
    the_policy_decides_how_far_it_goes,
    another_agent_takes_the_session_over,
    a_fork_is_live_and_leaves_its_parent_alone,
    a_fork_is_not_told_as_a_loss,
    a_fork_at_a_message_has_nothing_after_it,
    an_idle_session_lets_go_of_its_agent_and_comes_back,
);

pairings!(wire:
    // An agent of the library is given the whole history: it loses nothing.
    a_lost_session_goes_on_from_the_transcript,
    // The same.
    a_refused_turn_is_not_in_the_transcript,
    // It forks and replays nothing itself.
    what_an_agent_replays_of_its_fork_is_swallowed,
    // It keeps no sessions.
    a_session_that_only_the_agent_has_is_taken_in,
    // The same.
    a_session_that_is_taken_in_has_its_turns,
    // It keeps no sessions.
    the_agents_own_sessions_are_listed_once,
);
