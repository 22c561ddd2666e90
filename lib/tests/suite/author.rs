//! Agents that are written with the library: what an author's code is given, and what clients of both versions see.

use std::sync::{Arc, Mutex};

use rethread::author::{
    About, Agent, Choices, ConfigOption, Decision, Emitter, InProcess, Login, OptionValue, Permission,
    SessionSetup, Stop, ToolCall, ToolKind, Turn,
};
use rethread::edge::Version;
use rethread::server::{Config, Server};
use rethread::store::memory::MemoryStore;
use rethread::wire::RpcError;
use rethread_testkit::client::Client;
use serde_json::{Value, json};

/// What the agent was given, for the test to look at.
type Seen = Arc<Mutex<Vec<Vec<Value>>>>;

struct Parrot {
    seen: Seen,
}

impl Agent for Parrot {
    type Session = Emitter;

    fn about(&self) -> About {
        About::new("parrot", "1")
    }

    fn options(&self, chosen: &Choices) -> Vec<ConfigOption> {
        let values = vec![OptionValue::new("soft", "Soft"), OptionValue::new("loud", "Loud")];
        let mut options = vec![ConfigOption::select("mode", "Mode", values).in_category("mode")];
        if chosen.get("mode") == Some("loud") {
            options.push(ConfigOption::boolean("twice", "Twice", false));
        }
        options
    }

    async fn open(&self, setup: SessionSetup) -> Result<Emitter, RpcError> {
        setup.emitter.commands(&[("sing".to_owned(), "Sings".to_owned(), None)]).await;
        Ok(setup.emitter)
    }

    async fn prompt(&self, _: &Emitter, turn: Turn) -> Result<Stop, RpcError> {
        self.seen.lock().expect("no test panics here").push(turn.history());
        match turn.text().as_str() {
            "ask" => {
                let tool = turn.tool(ToolCall::new("Sing", ToolKind::Other)).await;
                let options = vec![("yes".to_owned(), "Yes".to_owned(), "allow_once")];
                let question = Permission {
                    title: "Sing?".to_owned(),
                    description: None,
                    shown: serde_json::Map::new(),
                    options,
                };
                let decision = turn.permission(&tool, &question).await;
                tool.done(json!({"sung": decision == Decision::Chosen("yes".to_owned())})).await;
            }
            "break" => panic!("the parrot fell"),
            "wait" => turn.cancelled().await,
            "loud" => turn.choose("mode", "loud").await?,
            text => {
                let message = turn.message();
                for word in text.split_inclusive(' ') {
                    message.write(word).await;
                }
            }
        }
        Ok(Stop::EndTurn)
    }
}

fn world() -> (Server, Arc<MemoryStore>, Seen) {
    let (store, seen) = (Arc::new(MemoryStore::new()), Seen::default());
    (server(&store, &seen), store, seen)
}

fn server(store: &Arc<MemoryStore>, seen: &Seen) -> Server {
    let agent = InProcess::new(Parrot { seen: seen.clone() });
    Server::new(store.clone(), Arc::new(agent), Config::default())
}

async fn ready(server: &Server, version: Version) -> Client {
    let client = Client::connect(server, version);
    client.initialize().await;
    client
}

#[tokio::test]
async fn a_session_opened_again_has_its_history() {
    for version in [Version::V1, Version::V2] {
        let (first, store, seen) = world();
        let client = ready(&first, version).await;
        let session = client.new_session().await;
        client.prompt(&session, "one two").await;
        client.prompt(&session, "three").await;
        let live = seen.lock().unwrap()[1].clone();
        client.disconnect().await;
        let client = ready(&server(&store, &seen), version).await;
        client.load(&session).await;
        client.prompt(&session, "four").await;
        let restored = seen.lock().unwrap()[2].clone();
        assert_eq!(client.view(&session).agent(), ["one two", "three", "four"]);
        let plain = |items: &[Value]| -> Vec<Value> {
            items.iter().map(|item| json!([item["sessionUpdate"], item["content"]])).collect()
        };
        assert_eq!(plain(&restored)[..live.len()], plain(&live)[..], "the same history");
        assert_eq!(restored.len(), 7, "two turns of three items, and the prompt: {restored:?}");
    }
}

#[tokio::test]
async fn a_fork_has_the_history_of_its_parent() {
    let (server, _, seen) = world();
    let client = ready(&server, Version::V2).await;
    let session = client.new_session().await;
    client.prompt(&session, "one").await;
    let cwd = json!("/tmp");
    let fork = client.ask("session/fork", json!({"sessionId": session, "cwd": cwd, "mcpServers": []})).await;
    let fork = fork["sessionId"].as_str().unwrap().to_owned();
    client.prompt(&fork, "two").await;
    assert_eq!(seen.lock().unwrap()[1].len(), 4);
    assert_eq!(seen.lock().unwrap()[1][1]["content"][0]["text"], "one");
}

#[tokio::test]
async fn a_turn_that_breaks_is_an_error_and_the_session_goes_on() {
    for version in [Version::V1, Version::V2] {
        let (server, _, _) = world();
        let client = ready(&server, version).await;
        let session = client.new_session().await;
        let prompt = client.begin_prompt(&session, "break").await;
        match version {
            Version::V1 => assert_eq!(client.answer(&prompt).await.unwrap_err()["code"], -32603),
            Version::V2 => assert_eq!(client.finish(&session, &prompt).await.stop, "error"),
        }
        assert_eq!(client.prompt(&session, "go on").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn a_cancel_ends_what_waits() {
    for version in [Version::V1, Version::V2] {
        let (server, _, _) = world();
        let client = ready(&server, version).await;
        let session = client.new_session().await;
        let prompt = client.begin_prompt(&session, "wait").await;
        client.notify("session/cancel", json!({"sessionId": session})).await;
        assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    }
}

#[tokio::test]
async fn prompts_that_come_at_once_are_turns_in_a_row() {
    for version in [Version::V1, Version::V2] {
        let (server, _, seen) = world();
        let client = ready(&server, version).await;
        let session = client.new_session().await;
        let prompts =
            [client.begin_prompt(&session, "wait").await, client.begin_prompt(&session, "two").await];
        client.cancel(&session).await;
        assert_eq!(client.finish(&session, &prompts[0]).await.stop, "cancelled");
        match version {
            Version::V1 => assert_eq!(client.finish(&session, &prompts[1]).await.stop, "cancelled"),
            Version::V2 => assert_eq!(client.answer(&prompts[1]).await.unwrap_err()["code"], -32800),
        }
        let mut prompts = Vec::new();
        for text in ["a", "b", "c"] {
            prompts.push(client.begin_prompt(&session, text).await);
        }
        for prompt in &prompts {
            assert_eq!(client.finish(&session, prompt).await.stop, "end_turn");
        }
        assert_eq!(client.view(&session).agent(), ["a", "b", "c"]);
        let last = seen.lock().unwrap().last().unwrap().clone();
        let kinds: Vec<_> = last.iter().map(|item| item["sessionUpdate"].as_str().unwrap_or("")).collect();
        let turn = ["user_message", "agent_message", "state_update"];
        assert_eq!(kinds, [&["user_message", "state_update"], &turn[..], &turn[..], &turn[..1]].concat());
    }
}

#[tokio::test]
async fn an_answer_that_was_not_on_offer_allows_nothing() {
    for version in [Version::V1, Version::V2] {
        let (server, _, seen) = world();
        let client = ready(&server, version).await;
        let session = client.new_session().await;
        let answers = [
            json!({"outcome": "selected", "optionId": "anything"}),
            json!({"outcome": "cancelled", "optionId": "yes"}),
            json!({"outcome": "later", "optionId": "yes"}),
            json!({"outcome": "selected", "optionId": "yes"}),
        ];
        for outcome in answers {
            client.on("session/request_permission", move |_| Some(Ok(json!({"outcome": outcome}))));
            client.prompt(&session, "ask").await;
        }
        client.prompt(&session, "what was sung?").await;
        let history = seen.lock().unwrap().last().unwrap().clone();
        let sung: Vec<_> = history.iter().filter_map(|item| item["rawOutput"]["sung"].as_bool()).collect();
        assert_eq!(sung, [false, false, false, true], "{version:?}");
    }
}

/// An agent that is all words: it names what it has, and writes nothing for it.
struct Locked;

impl Agent for Locked {
    type Session = ();

    fn about(&self) -> About {
        let (id, name) = ("card".to_owned(), "A card".to_owned());
        let login = Login { id, name, description: "Show your card.".to_owned() };
        let options = vec![ConfigOption::boolean("twice", "Twice", true)];
        let commands = vec![("sing".to_owned(), "Sings".to_owned(), None)];
        About { logins: vec![login], login_first: true, options, commands, ..About::new("locked", "1") }
    }

    async fn open(&self, _: SessionSetup) -> Result<(), RpcError> {
        Ok(())
    }

    async fn prompt(&self, _: &(), turn: Turn) -> Result<Stop, RpcError> {
        turn.say(&format!("{:?}", turn.choices().is_on("twice"))).await;
        Ok(Stop::EndTurn)
    }
}

#[tokio::test]
async fn a_login_that_is_wanted_first_holds_until_the_logout() {
    for version in [Version::V1, Version::V2] {
        let agent = Arc::new(InProcess::new(Locked));
        let server = Server::new(Arc::new(MemoryStore::new()), agent, Config::default());
        let client = ready(&server, version).await;
        let (login, logout) = match version {
            Version::V1 => ("authenticate", "logout"),
            Version::V2 => ("auth/login", "auth/logout"),
        };
        let new = json!({"cwd": "/tmp", "mcpServers": []});
        let refused = client.refused("session/new", new.clone()).await;
        assert_eq!((&refused["code"], &refused["data"]["hint"]), (&json!(-32000), &json!("Show your card.")));
        let unknown = client.refused(login, json!({"methodId": "charm"})).await;
        assert!(unknown.to_string().contains("charm"), "{unknown}");
        client.refused("session/new", new.clone()).await;
        client.ask(login, json!({"methodId": "card"})).await;
        let session = client.new_session().await;
        client.prompt(&session, "hello").await;
        let view = client.view(&session);
        assert_eq!(view.agent(), ["Some(true)"], "{view}");
        // The agent is started anew for the next client; whoever logged in is logged in.
        client.disconnect().await;
        let client = ready(&server, version).await;
        client.new_session().await;
        client.ask(logout, json!({})).await;
        assert_eq!(client.refused("session/new", new).await["code"], -32000);
    }
}
