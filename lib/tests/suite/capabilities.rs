//! What is advertised is what the agent behind has, and what Rethread adds, and nothing else: the whole answers to
//! `initialize`, `session/new` and `session/load` for every combination of abilities and offers, held against what is
//! written down here by hand. Rule 1.3 has what follows from it.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, Login, Offer, Speaks};
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

/// What agents may have and clients may be told, with its place for a client of version 1 and of version 2.
const PASSED_ON: [(&str, &str, &str); 9] = [
    ("image", "/promptCapabilities/image", "/session/prompt/image"),
    ("audio", "/promptCapabilities/audio", "/session/prompt/audio"),
    ("embeddedContext", "/promptCapabilities/embeddedContext", "/session/prompt/embeddedContext"),
    ("stdio", "", "/session/mcp/stdio"),
    ("http", "/mcpCapabilities/http", "/session/mcp/http"),
    ("sse", "/mcpCapabilities/sse", ""),
    ("acp", "/mcpCapabilities/acp", "/session/mcp/acp"),
    ("additionalDirectories", "/sessionCapabilities/additionalDirectories", "/session/additionalDirectories"),
    ("systemPrompt", "/sessionCapabilities/systemPrompt", "/session/systemPrompt"),
];

/// What clients have from Rethread, whether the agent can do it or not.
const OUR_OWN: [&str; 6] = ["load", "resume", "list", "close", "delete", "fork"];

fn speaks(version: Version) -> Speaks {
    match version {
        Version::V1 => Speaks::One,
        Version::V2 => Speaks::Two,
    }
}

/// The capabilities over an agent that can do nothing.
fn added(client: Version) -> Value {
    match client {
        Version::V1 => json!({
            "loadSession": true,
            "promptCapabilities": {"image": false, "audio": false, "embeddedContext": false},
            "mcpCapabilities": {"http": false, "sse": false, "acp": false},
            "sessionCapabilities": {
                "list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {},
                "archive": {}, "status": {}, "title": {},
            },
        }),
        Version::V2 => json!({
            "session": {
                "prompt": {}, "mcp": {},
                "delete": {}, "fork": {}, "archive": {}, "status": {}, "title": {},
                "load": {}, "resume": {}, "close": {},
            },
        }),
    }
}

/// Says whether an agent of this version has it. Version 1 cannot leave stdio out, version 2 has no SSE.
fn has(agent: Version, can: &[&str], ability: &str) -> bool {
    match (agent, ability) {
        (Version::V1, "stdio") => true,
        (Version::V2, "sse") => false,
        (_, ability) => can.contains(&ability),
    }
}

fn expected_capabilities(pairing: Pairing, can: &[&str]) -> Value {
    let mut all = added(pairing.client);
    for (ability, in_v1, in_v2) in PASSED_ON {
        let place = if pairing.client == Version::V1 { in_v1 } else { in_v2 };
        if place.is_empty() || !has(pairing.agent, can, ability) {
            continue;
        }
        let (object, member) = place.rsplit_once('/').expect("a place is below the root");
        let object = all.pointer_mut(object).expect("the place is there");
        let is_flag = object[member].is_boolean();
        object[member] = if is_flag { json!(true) } else { json!({}) };
    }
    all
}

fn expected_answer(pairing: Pairing, capabilities: Value) -> Value {
    let info = json!({"name": "scripted", "version": pairing.agent.number().to_string()});
    let meta = json!({"rethread": {
        "version": env!("CARGO_PKG_VERSION"), "role": "full", "search": {}, "read": {}, "follow": {},
        "outline": {}, "export": {}, "usage": {}, "listSubscribe": {}, "clients": {},
    }});
    match pairing.client {
        Version::V1 => json!({
            "protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities,
            "authMethods": [], "_meta": meta,
        }),
        Version::V2 => json!({
            "protocolVersion": 2, "info": info, "capabilities": capabilities,
            "authMethods": [], "_meta": meta,
        }),
    }
}

/// The answer to `initialize` over an agent of this nature, which takes the place of the one before.
async fn introduced(world: &World, config: AgentConfig) -> Value {
    world.agent.configure(|before| *before = config);
    let client = world.connect();
    let answer = client.initialize().await;
    client.disconnect().await;
    answer
}

/// All subsets of a list.
fn subsets<T: Copy>(all: &[T]) -> impl Iterator<Item = Vec<T>> {
    let chosen = |bits: usize| move |(at, item): (usize, &T)| (bits >> at & 1 == 1).then_some(*item);
    (0..1_usize << all.len()).map(move |bits| all.iter().enumerate().filter_map(chosen(bits)).collect())
}

async fn every_combination_of_abilities_is_told_as_it_is(pairing: Pairing) {
    let world = World::of(pairing);
    let passed_on: Vec<_> = subsets(&PASSED_ON.map(|(ability, _, _)| ability)).collect();
    let our_own: Vec<_> = subsets(&OUR_OWN).collect();
    for (at, rest) in passed_on.into_iter().enumerate() {
        // An odd step through a power of two: each combination of these meets many of those.
        let own = &our_own[at * 37 % our_own.len()];
        let can = [own.as_slice(), &rest].concat();
        let expected = expected_answer(pairing, expected_capabilities(pairing, &can));
        let config = AgentConfig { can, ..AgentConfig::bare(speaks(pairing.agent)) };
        let told = introduced(&world, config.clone()).await;
        assert_eq!(told, expected, "{pairing}, {:?}", config.can);
    }
}

/// What is not an ability but a word of the agent's to its clients is passed on; what is unknown is not vouched for.
async fn the_rest_of_an_agents_words(pairing: Pairing) {
    let world = World::of(pairing);
    let auth = match pairing.agent {
        Version::V1 => json!({"logout": {}}),
        Version::V2 => json!({}),
    };
    let known = [("auth", auth), ("providers", json!({})), ("_meta", json!({"scripted": {"queues": true}}))];
    for words in subsets(&[0, 1, 2]) {
        let words: Vec<_> = words.into_iter().map(|at: usize| known[at].clone()).collect();
        // That an agent wants to be told what was said is between it and us.
        let ours = json!({"rethread": {"history": {}}});
        let of_sessions = json!({"futureThing": {}, "_meta": ours});
        let place = if pairing.agent == Version::V1 { "sessionCapabilities" } else { "session" };
        let mut extra = json!({"futureThing": {"on": true}, place: of_sessions});
        let mut capabilities = expected_capabilities(pairing, &["stdio"]);
        for (name, value) in words {
            extra[name] = value.clone();
            // Version 2 has no mark for logging out: whoever has `auth` can.
            let told = match (name, pairing.client) {
                ("auth", Version::V1) => json!({"logout": {}}),
                (_, Version::V1 | Version::V2) => value,
            };
            capabilities[name] = told;
        }
        let config = AgentConfig { extra, ..AgentConfig::bare(speaks(pairing.agent)) };
        let expected = expected_answer(pairing, capabilities);
        assert_eq!(introduced(&world, config).await, expected, "{pairing}");
    }
}

/// An agent of version 2 may know the old transport all the same; only version 1 has a word for it.
async fn the_old_transport_of_a_newer_agent(pairing: Pairing) {
    let mut capabilities = expected_capabilities(pairing, &["stdio"]);
    if pairing.client == Version::V1 {
        capabilities["mcpCapabilities"]["sse"] = json!(true);
    }
    let extra = json!({"session": {"mcp": {"sse": {}}}});
    let config = AgentConfig { extra, ..AgentConfig::bare(speaks(pairing.agent)) };
    let world = World::of(pairing);
    assert_eq!(introduced(&world, config).await, expected_answer(pairing, capabilities));
}

async fn ways_to_log_in_and_a_system_prompt_to_override(pairing: Pairing) {
    let world = World::of(pairing);
    let mut capabilities = expected_capabilities(pairing, &["stdio"]);
    let place = if pairing.client == Version::V1 { "sessionCapabilities" } else { "session" };
    capabilities[place]["systemPrompt"] = json!({"mode": {"override": {}}});
    if pairing.client == Version::V2 {
        capabilities["auth"] = json!({});
    }
    let mut expected = expected_answer(pairing, capabilities);
    expected["authMethods"] = match pairing.client {
        Version::V1 => json!([{"id": "key", "name": "A key"}]),
        Version::V2 => json!([{"methodId": "key", "name": "A key", "type": "agent"}]),
    };
    let config = AgentConfig { login: Login::Needed, ..AgentConfig::bare(speaks(pairing.agent)) };
    assert_eq!(introduced(&world, config.able_to(&["override"])).await, expected);
}

const OFFERS: [Offer; 5] = [Offer::Modes, Offer::Models, Offer::ModeOption, Offer::Effort, Offer::Verbose];

/// Whether a client says that it takes boolean options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Booleans {
    Taken,
    NotTaken,
}

/// A choice as a client of this version is told of it.
fn choice(client: Version, name: &str) -> Value {
    let id = if client == Version::V1 { "id" } else { "configId" };
    let values = |one: &str, two: &str| json!([{"value": one, "name": one}, {"value": two, "name": two}]);
    match name {
        "mode" => json!({id: "mode", "name": "Mode", "category": "mode", "type": "select",
            "currentValue": "a", "options": values("a", "b")}),
        "model" => json!({id: "model", "name": "Model", "category": "model", "type": "select",
            "currentValue": "fast", "options": values("fast", "deep")}),
        "effort" => json!({id: "effort", "name": "Effort", "type": "select",
            "currentValue": "low", "options": values("low", "high")}),
        _ => json!({id: "verbose", "name": "Verbose", "type": "boolean", "currentValue": false}),
    }
}

/// The choices in their order. An agent of version 1 has its modes and models beside the options, unless they are
/// options too, and keeps booleans from clients that do not take them; one of version 2 has options only.
fn choices(pairing: Pairing, offers: &[Offer], booleans: Booleans) -> Vec<&'static str> {
    let has = |offer: Offer| offers.contains(&offer);
    let reaches_us =
        pairing.agent == Version::V2 || pairing.client == Version::V2 || booleans == Booleans::Taken;
    let verbose = has(Offer::Verbose) && reaches_us;
    let mode = has(Offer::Modes) || has(Offer::ModeOption);
    let mode_first = mode && (pairing.agent == Version::V2 || has(Offer::ModeOption));
    let model_second = has(Offer::Models) && pairing.agent == Version::V2;
    let in_order = [
        ("mode", mode_first),
        ("model", model_second),
        ("effort", has(Offer::Effort)),
        ("verbose", verbose),
        ("mode", mode && !mode_first),
        ("model", has(Offer::Models) && !model_second),
    ];
    in_order.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
}

fn expected_choices(pairing: Pairing, offers: &[Offer], booleans: Booleans) -> Value {
    let names = choices(pairing, offers, booleans);
    let told = |names: &[&str]| names.iter().map(|name| choice(pairing.client, name)).collect::<Value>();
    if pairing.client == Version::V2 {
        return json!({"configOptions": told(&names), "availableCommands": []});
    }
    if names.is_empty() {
        return json!({});
    }
    // One state in three views, as far as the client takes it; what it does not take is named.
    let (shown, withheld): (Vec<_>, Vec<_>) =
        names.iter().copied().partition(|name| *name != "verbose" || booleans == Booleans::Taken);
    let mut answer = json!({"configOptions": told(&shown)});
    if !withheld.is_empty() {
        answer["_meta"] = json!({"rethread": {"withheld": withheld}});
    }
    if names.contains(&"mode") {
        answer["modes"] = json!({"currentModeId": "a",
            "availableModes": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]});
    }
    if names.contains(&"model") {
        answer["models"] = json!({"currentModelId": "fast",
            "availableModels": [{"modelId": "fast", "name": "fast"}, {"modelId": "deep", "name": "deep"}]});
    }
    answer
}

async fn initialize(client: &Client, booleans: Booleans) {
    let mut params = client.introduction();
    if client.version == Version::V1 && booleans == Booleans::NotTaken {
        params["clientCapabilities"]["session"] = json!({"notices": {}});
    }
    client.ask("initialize", params).await;
}

async fn every_combination_of_choices_is_told_as_it_is(pairing: Pairing) {
    for offers in subsets(&OFFERS) {
        for booleans in [Booleans::Taken, Booleans::NotTaken] {
            let world = World::with_config(pairing, |config| config.offering(&offers));
            let client = world.connect();
            initialize(&client, booleans).await;
            let mut made = client.ask("session/new", json!({"cwd": "/work", "mcpServers": []})).await;
            let id = made["sessionId"].take();
            let expected = expected_choices(pairing, &offers, booleans);
            made.as_object_mut().expect("an object").remove("sessionId");
            assert_eq!(made, expected, "{pairing}, {offers:?}, {booleans:?}");
            client.disconnect().await;

            let client = world.again().connect();
            initialize(&client, booleans).await;
            let loaded = client.load(id.as_str().expect("an id")).await;
            assert_eq!(loaded, expected, "{pairing}, {offers:?}, {booleans:?}");
            client.disconnect().await;
        }
    }
}

async fn what_a_client_says_in_meta_of_its_capabilities_reaches_the_agent(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let mut hello = client.introduction();
    let (sent, read) = match (pairing.client, pairing.agent) {
        (Version::V1, Version::V1) => ("clientCapabilities", "clientCapabilities"),
        (Version::V1, Version::V2) => ("clientCapabilities", "capabilities"),
        (Version::V2, Version::V1) => ("capabilities", "clientCapabilities"),
        (Version::V2, Version::V2) => ("capabilities", "capabilities"),
    };
    hello[sent]["_meta"] = json!({"editor": {"panes": 2}});
    client.ask("initialize", hello).await;
    let told = world.agent.received_params("initialize").pop().expect("the agent was introduced");
    assert_eq!(told[read]["_meta"], json!({"editor": {"panes": 2}}), "{told}");
}

pairings!(what_a_client_says_in_meta_of_its_capabilities_reaches_the_agent,);

pairings!(every_combination_of_choices_is_told_as_it_is);

pairings!(wire:
    // An agent of the library cannot have all of them.
    every_combination_of_abilities_is_told_as_it_is,
    // Its words are the library's.
    the_rest_of_an_agents_words,
    // The same, and it describes its ways to log in.
    ways_to_log_in_and_a_system_prompt_to_override,
);

pairings!(wire agent V2:
    // It is a version 2 agent that may; the library has a word for it.
    the_old_transport_of_a_newer_agent,
);
