//! What was chosen in a session is chosen anew at an agent that is brought back: by its own resume or load, from
//! the transcript, as another agent, as a fork. Clients see no change if the agent takes it, and the agent's own
//! value if it does not.

use std::time::Duration;

use rethread::edge::Version;
use rethread::server::Config;
use rethread_testkit::agent::{
    AgentConfig, AgentImpl, Choices, Offer, Quirk, Restores, ScriptedAgent, Speaks,
};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const OFFERS: [Offer; 4] = [Offer::Modes, Offer::Models, Offer::Effort, Offer::Verbose];

/// An agent that offers everything and forgets what was chosen when it opens a session again.
fn forgetful(config: AgentConfig) -> AgentConfig {
    AgentConfig { choices: Choices::Forgotten, ..config.offering(&OFFERS) }
}

/// Chooses something of everything, and prompts once.
async fn choose_all(client: &Client) -> String {
    let session = client.new_session().await;
    for (option, value) in
        [("mode", json!("b")), ("model", json!("deep")), ("effort", json!("high")), ("verbose", json!(true))]
    {
        client.set_option(&session, option, value).await;
    }
    client.prompt(&session, "say one").await;
    session
}

/// What is chosen, as the client sees it.
fn chosen(client: &Client, session: &str) -> Vec<String> {
    client.view(session).options.into_iter().map(|(option, value)| format!("{option}={value}")).collect()
}

const ALL: [&str; 4] = ["effort=high", "mode=b", "model=deep", "verbose=true"];

/// What the agent was asked to change since it had been told so much, or was given with the session, and how many
/// prompts it was given before the last of that.
fn asked(agent: &ScriptedAgent, since: usize) -> (Vec<String>, usize) {
    let (mut changes, mut prompts, mut early) = (Vec::new(), 0, 0);
    for received in agent.received().iter().skip(since) {
        let params = &received.params;
        let given = params["_meta"]["rethread"]["choices"].as_object().into_iter().flatten();
        changes.extend(given.map(|(option, value)| format!("{option}={}", text(value))));
        let change = match received.method.as_str() {
            "session/set_mode" => format!("mode={}", text(&params["modeId"])),
            "session/set_model" => format!("model={}", text(&params["modelId"])),
            "session/set_config_option" => {
                format!("{}={}", text(&params["configId"]), text(&params["value"]))
            }
            "session/prompt" => {
                prompts += 1;
                continue;
            }
            _ => continue,
        };
        changes.push(change);
        early = prompts;
    }
    changes.sort();
    (changes, early)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What is chosen, as an update tells it.
fn values(update: &Value) -> Vec<String> {
    let options = update["configOptions"].as_array().cloned().unwrap_or_default();
    let id = |option: &Value| text(option.get("id").unwrap_or(&option["configId"]));
    let mut values: Vec<_> =
        options.iter().map(|option| format!("{}={}", id(option), text(&option["currentValue"]))).collect();
    values.sort();
    values
}

/// The updates since a mark that tell of options.
fn told_of_options(client: &Client, mark: usize, session: &str) -> Vec<Value> {
    let tags = ["config_option_update", "current_mode_update"];
    let updates = client.updates_since(mark, session).into_iter();
    updates.filter(|update| tags.iter().any(|tag| update["sessionUpdate"] == *tag)).collect()
}

/// Chooses, has the agent brought back by the next process, and prompts it there.
async fn brought_back(pairing: Pairing, nature: impl FnOnce(AgentConfig) -> AgentConfig) -> World {
    let world = World::with_config(pairing, |config| nature(forgetful(config)));
    let first = world.ready().await;
    let session = choose_all(&first).await;
    first.disconnect().await;
    let world = world.again();
    let told = goes_on_unchanged(&world, &session).await;
    assert_eq!(told, Vec::<Value>::new(), "the same agent has nothing new to tell");
    world
}

/// Loads and prompts: the agent has the choices before it has the prompt, and the client sees nothing of that.
async fn goes_on_unchanged(world: &World, session: &str) -> Vec<Value> {
    let since = world.agent.received().len();
    let client = world.ready().await;
    let mark = client.mark();
    client.load(session).await;
    assert_eq!(client.prompt(session, "say two").await.stop, "end_turn");
    let (changes, early) = asked(&world.agent, since);
    assert_eq!(changes, ALL);
    assert_eq!(early, 0, "the choices come before the prompt");
    assert_eq!(chosen(&client, session), ALL);
    let told = told_of_options(&client, mark, session);
    for update in &told {
        assert_eq!(values(update), ALL, "nothing flickers: {update}");
    }
    client.disconnect().await;
    told
}

async fn an_agent_that_resumes_is_told_the_choices(pairing: Pairing) {
    let world = brought_back(pairing, |config| config).await;
    assert_eq!(world.agent.received_params("session/resume").len(), 1);
}

async fn an_agent_that_loads_is_told_the_choices(pairing: Pairing) {
    let world = brought_back(pairing, |config| config.without(&["resume"])).await;
    assert_eq!(world.agent.received_params("session/load").len(), 1);
}

async fn an_agent_that_starts_afresh_is_told_the_choices(pairing: Pairing) {
    let world = brought_back(pairing, |config| AgentConfig { restores: Restores::Nothing, ..config }).await;
    assert_eq!(world.agent.received_params("session/new").len(), 2);
}

async fn an_agent_that_kept_the_choices_is_told_nothing(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&OFFERS));
    let first = world.ready().await;
    let session = choose_all(&first).await;
    first.disconnect().await;
    let world = world.again();
    let since = world.agent.received().len();
    let client = world.ready().await;
    client.load(&session).await;
    client.prompt(&session, "say two").await;
    assert_eq!(asked(&world.agent, since), (Vec::new(), 0));
}

/// The other version of the protocol: the same options, set in other ways.
async fn another_agent_is_told_the_choices(pairing: Pairing) {
    let world = World::with_config(pairing, forgetful);
    let first = world.ready().await;
    let session = choose_all(&first).await;
    first.disconnect().await;
    let speaks = match pairing.agent {
        Version::V1 => Speaks::Two,
        Version::V2 => Speaks::One,
    };
    let other = AgentConfig { name: "another", ..AgentConfig::able(speaks).offering(&OFFERS) };
    let next = World::over(world.client, ScriptedAgent::new(other), world.store.clone(), Config::default());
    goes_on_unchanged(&next, &session).await;
}

async fn a_fork_has_the_choices_of_its_parent(pairing: Pairing) {
    let world = World::with_config(pairing, |config| forgetful(config).able_to(&["fork"]));
    let client = world.ready().await;
    let parent = choose_all(&client).await;
    let since = world.agent.received().len();
    let made = client.ask("session/fork", json!({"sessionId": parent, "cwd": CWD, "mcpServers": []})).await;
    let fork = made["sessionId"].as_str().expect("an id").to_owned();
    client.prompt(&fork, "say two").await;
    assert_eq!(world.agent.received_params("session/fork").len(), 1);
    assert_eq!(asked(&world.agent, since), (ALL.map(str::to_owned).to_vec(), 0));
    assert_eq!(client.load(&fork).await["configOptions"], client.load(&parent).await["configOptions"]);
}

/// What the parent of a fork is doing.
#[derive(Clone, Copy, Debug)]
enum Parent {
    Idle,
    InATurn,
    Closed,
    OpenElsewhere,
    Earlier,
}

/// Chooses other values after the last turn, in this state of the parent, and forks it.
async fn forked_after_a_choice(pairing: Pairing, state: Parent) {
    let world = World::with_config(pairing, forgetful);
    let client = world.ready().await;
    let parent = choose_all(&client).await;
    if matches!(state, Parent::InATurn) {
        client.begin_prompt(&parent, "hang").await;
        world.agent.wait_received("session/prompt", 2).await;
    }
    client.set_option(&parent, "mode", "a").await;
    client.set_option(&parent, "effort", "low").await;
    client.ask("session/set_title", json!({"sessionId": parent, "title": "Of late"})).await;
    let mut params = json!({"sessionId": parent, "cwd": CWD, "mcpServers": []});
    let forking = match state {
        Parent::Idle | Parent::InATurn => client,
        Parent::Closed => {
            client.close(&parent).await.expect("it can be closed");
            client.ask("session/set_title", json!({"sessionId": parent, "title": "Of late"})).await;
            client
        }
        Parent::OpenElsewhere => world.again().ready().await,
        Parent::Earlier => {
            client.load(&parent).await;
            let said = client.updates(&parent);
            let one = said.iter().find(|update| update.to_string().contains("\"one\"")).expect("a replay");
            params["_meta"] = json!({"rethread": {"atMessage": one["messageId"]}});
            client
        }
    };
    let made = forking.ask("session/fork", params).await;
    let now = ["effort=low", "mode=a", "model=deep", "verbose=true"];
    assert_eq!(values(&made), now, "{state:?}: the answer");
    let fork = made["sessionId"].as_str().expect("an id").to_owned();
    assert_eq!(forking.prompt(&fork, "say two").await.stop, "end_turn");
    let mark = forking.mark();
    assert_eq!(values(&forking.load(&fork).await), now, "{state:?}: after a turn");
    let view = forking.view_since(mark, &fork);
    assert_eq!(view.title.as_deref(), Some("Of late"), "{state:?}");
    assert_eq!(view.agent(), ["one", "two"], "{state:?}");
}

async fn a_fork_has_what_was_chosen_since_the_last_turn(pairing: Pairing) {
    for state in [Parent::Idle, Parent::InATurn, Parent::Closed, Parent::OpenElsewhere, Parent::Earlier] {
        forked_after_a_choice(pairing, state).await;
    }
}

/// A session in which everything was chosen, and a client of the agent that has changed since; and how much the agent
/// had been told until then.
async fn changed_since(
    world: World,
    change: impl FnOnce(&mut AgentConfig),
) -> (World, Client, String, usize) {
    let first = world.ready().await;
    let session = choose_all(&first).await;
    first.disconnect().await;
    world.agent.configure(change);
    let world = world.again();
    let since = world.agent.received().len();
    let client = world.ready().await;
    (world, client, session, since)
}

async fn what_the_agent_refuses_gives_way_to_its_own_value(pairing: Pairing) {
    let change = |config: &mut AgentConfig| config.fixed = vec!["mode", "verbose"];
    let world = World::with_config(pairing, forgetful);
    let (world, client, session, since) = changed_since(world, change).await;
    let mark = client.mark();
    client.load(&session).await;
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
    let (changes, early) = asked(&world.agent, since);
    assert_eq!((changes.len(), early), (4, 0), "each is tried once: {changes:?}");
    let now = ["effort=high", "mode=a", "model=deep", "verbose=false"];
    assert_eq!(chosen(&client, &session), now);
    let told = told_of_options(&client, mark, &session);
    let options: Vec<_> = told.iter().filter(|told| told["configOptions"].is_array()).collect();
    assert_eq!(options.len(), 1, "told once, as it is in the end: {told:?}");
    client.load(&session).await;
    assert_eq!(chosen(&client, &session), now, "and that is kept");
}

/// The warnings that a client was told since a mark.
fn warnings(client: &Client, mark: usize, session: &str) -> Vec<Value> {
    let updates = client.updates_since(mark, session).into_iter();
    updates.filter(|update| update["severity"] == "warning").collect()
}

async fn a_choice_that_the_agent_does_not_take_is_told_once(pairing: Pairing) {
    let change = |config: &mut AgentConfig| {
        config.fixed = vec!["mode"];
        config.offers = vec![Offer::Modes, Offer::Models, Offer::Effort];
    };
    let world = World::with_config(pairing, forgetful);
    let (world, client, session, _) = changed_since(world, change).await;
    client.load(&session).await;
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
    let told = warnings(&client, 0, &session);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["title"], "The agent did not accept 2 restored settings");
    let about = told[0]["description"].as_str().unwrap_or_default();
    for sentence in ["Mode is now a, not b.", "Verbose is no longer offered."] {
        assert!(about.contains(sentence), "{about}");
    }
    let mark = client.mark();
    client.load(&session).await;
    client.prompt(&session, "say three").await;
    assert_eq!(warnings(&client, mark, &session), Vec::<Value>::new());
    let next = world.restarted(&client).await.ready().await;
    next.load(&session).await;
    next.prompt(&session, "say four").await;
    assert_eq!(warnings(&next, 0, &session), Vec::<Value>::new(), "nor by the next process");
}

async fn an_agent_that_does_not_answer_has_refused(pairing: Pairing) {
    let world = World::with_config(pairing, forgetful)
        .set(|config| config.option_patience = Duration::from_millis(50));
    let change = |config: &mut AgentConfig| config.quirks = vec![Quirk::MuteOnOptions];
    let (world, client, session, since) = changed_since(world, change).await;
    client.load(&session).await;
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
    let (changes, early) = asked(&world.agent, since);
    assert_eq!((changes.len(), early), (4, 0), "each is tried once: {changes:?}");
    assert_eq!(chosen(&client, &session), ["effort=low", "mode=a", "model=fast", "verbose=false"]);
}

async fn what_is_no_longer_on_offer_is_not_asked_for(pairing: Pairing) {
    let change = |config: &mut AgentConfig| config.offers = vec![Offer::Modes];
    let world = World::with_config(pairing, forgetful);
    let (world, client, session, since) = changed_since(world, change).await;
    client.load(&session).await;
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
    let expected = match pairing.agent_impl {
        AgentImpl::Own => vec!["mode=b".to_owned()],
        // It is given all there is, for it may offer again what it does not offer now.
        AgentImpl::Library => ALL.map(str::to_owned).to_vec(),
    };
    assert_eq!(asked(&world.agent, since), (expected, 0));
    let mark = client.mark();
    let answer = client.load(&session).await;
    let names = answer["configOptions"].as_array().map(Vec::len);
    assert_eq!(names, Some(1), "only the mode is left: {answer}");
    assert_eq!(told_of_options(&client, mark, &session), Vec::<Value>::new());
}

async fn a_choice_made_while_the_agent_is_gone_comes_before_the_prompt(pairing: Pairing) {
    let world = World::with_config(pairing, forgetful);
    let client = world.ready().await;
    let session = choose_all(&client).await;
    client.prompt(&session, "crash").await;
    world.agent.wait_gone().await;
    let since = world.agent.received().len();
    let (method, params) = client.option_request(&session, "effort", json!("low"));
    let choice = client.begin(method, params).await;
    let prompt = client.begin_prompt(&session, "say two").await;
    client.answer(&choice).await.expect("the agent takes it");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    let (changes, early) = asked(&world.agent, since);
    assert_eq!(changes, ["effort=high", "effort=low", "mode=b", "model=deep", "verbose=true"]);
    assert_eq!(early, 0);
    assert_eq!(chosen(&client, &session), ["effort=low", "mode=b", "model=deep", "verbose=true"]);
}

pairings!(
    an_agent_that_resumes_is_told_the_choices,
    another_agent_is_told_the_choices,
    what_is_no_longer_on_offer_is_not_asked_for,
    a_choice_made_while_the_agent_is_gone_comes_before_the_prompt,
    a_fork_has_what_was_chosen_since_the_last_turn,
);

// Version 2 has no load.
pairings!(agent V1: an_agent_that_loads_is_told_the_choices);

pairings!(wire:
    // An agent of the library is given the whole history: it does not start afresh.
    an_agent_that_starts_afresh_is_told_the_choices,
    // It keeps no choices.
    an_agent_that_kept_the_choices_is_told_nothing,
    // It forks nothing itself.
    a_fork_has_the_choices_of_its_parent,
    // It takes what it offers.
    what_the_agent_refuses_gives_way_to_its_own_value,
    // The same.
    a_choice_that_the_agent_does_not_take_is_told_once,
    // It answers.
    an_agent_that_does_not_answer_has_refused,
);
