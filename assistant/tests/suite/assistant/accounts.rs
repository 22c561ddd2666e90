//! Tests of logins, logouts and changed model lists while sessions are open.

use rethread::edge::Version;
use rethread_assistant::model::{ModelConfig, ProviderConfig, ProviderKind};
use rethread_testkit::client::Client;
use rethread_testkit::model::Planned;
use serde_json::{Value, json};

use super::fixture::Fixture;

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

async fn log_in(client: &Client, provider: &str) {
    let method = if client.version == Version::V1 { "authenticate" } else { "auth/login" };
    client.ask(method, json!({"methodId": provider})).await;
}

async fn log_out(client: &Client) {
    let method = if client.version == Version::V1 { "logout" } else { "auth/logout" };
    client.ask(method, json!({})).await;
}

/// The error of a prompt.
async fn error(client: &Client, session: &str) -> Value {
    let mark = client.mark();
    let prompt = client.begin_prompt(session, "hello").await;
    match client.answer(&prompt).await {
        Err(error) => error,
        Ok(_) => {
            let idle = |update: &Value| update["state"] == "idle";
            client.wait_update(mark, session, "the end of the turn", idle).await["error"].clone()
        }
    }
}

#[tokio::test]
async fn an_open_session_asks_for_the_key_after_a_logout_and_goes_on_after_a_login() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "hello").await;
        log_out(&client).await;
        let refused = error(&client, &session).await;
        assert_eq!(refused["code"], -32000, "{refused}");
        assert!(refused.to_string().contains("`key` of provider mine"), "{refused}");
        let cwd = fixture.work().display().to_string();
        let new = client.refused("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        assert_eq!(new["code"], -32000, "{new}");
        assert_eq!(fixture.model.asked().len(), 1, "nothing is sent without a key");
        log_in(&client, "mine").await;
        fixture.model.plan(Planned::new().text("again"));
        assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn open_sessions_get_the_models_of_a_login() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        let mut other = fixture.provider("other", ProviderKind::Anthropic);
        other.models = vec![ModelConfig::new("newcomer")];
        fixture.providers.lock().unwrap().push(other);
        let mark = client.mark();
        log_in(&client, "other").await;
        client
            .wait_update(mark, &session, "the options", |update| {
                update["sessionUpdate"] == "config_option_update"
                    && update.to_string().contains("other/newcomer")
            })
            .await;
        client.set_option(&session, "model", "other/newcomer").await;
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "hello").await;
        assert_eq!(fixture.model.asked()[0].body["model"], "newcomer");
    }
}

#[tokio::test]
async fn a_model_that_is_gone_is_replaced_with_a_notice() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let second = ModelConfig::new("loopback-2");
        fixture.providers.lock().unwrap()[0].models.push(second);
        let (client, session) = fixture.session(version).await;
        client.set_option(&session, "model", "mine/loopback-2").await;
        fixture.providers.lock().unwrap()[0].models.pop();
        let mark = client.mark();
        log_in(&client, "mine").await;
        client
            .wait_since(mark, "the notice", |message| {
                message.to_string().contains("mine/loopback-2 is no longer available")
            })
            .await;
        fixture.model.plan(Planned::new().text("hi"));
        assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
        assert_eq!(fixture.model.asked()[0].body["model"], "loopback-1");
    }
}

#[tokio::test]
async fn a_session_can_be_read_without_the_key_and_goes_on_with_it() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "hello").await;
        client.disconnect().await;
        let complete = fixture.providers.lock().unwrap().clone();
        {
            let mut providers = fixture.providers.lock().unwrap();
            providers[0].key = None;
            providers[0].base_url = None;
        }
        let client = fixture.client(version).await;
        let cwd = fixture.work().display().to_string();
        client.load_in(&cwd, &session).await;
        assert_eq!(client.view(&session).agent(), ["hi"]);
        let refused = error(&client, &session).await;
        assert_eq!(refused["code"], -32000, "{refused}");
        assert!(refused.to_string().contains("OPENAI_API_KEY"), "{refused}");
        *fixture.providers.lock().unwrap() = complete;
        log_in(&client, "mine").await;
        fixture.model.plan(Planned::new().text("back"));
        assert_eq!(client.prompt(&session, "again").await.stop, "end_turn");
        assert!(fixture.model.asked()[1].body.to_string().contains("\"hi\""));
    }
}

#[tokio::test]
async fn a_provider_without_its_key_does_not_block_the_others() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        // At the default base URL, without a key.
        let mut lacking = ProviderConfig::new("lacking", ProviderKind::OpenAi);
        lacking.models = vec![ModelConfig::new("nobody")];
        fixture.providers.lock().unwrap().insert(0, lacking);
        let (client, session) = fixture.session(version).await;
        fixture.model.plan(Planned::new().text("hi"));
        assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
        assert_eq!(
            fixture.model.asked()[0].body["model"],
            "loopback-1",
            "the standard is a model that can be asked"
        );
        client.set_option(&session, "model", "lacking/nobody").await;
        let refused = error(&client, &session).await;
        assert_eq!(refused["code"], -32000, "{refused}");
        assert!(refused.to_string().contains("provider lacking has no API key"), "{refused}");
        assert!(refused.to_string().contains(super::fixture::CONFIG_FILE), "{refused}");
        client.set_option(&session, "model", "mine/loopback-1").await;
        fixture.model.plan(Planned::new().text("hi"));
        assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
        fixture.providers.lock().unwrap().pop();
        let client = fixture.client(version).await;
        let cwd = fixture.work().display().to_string();
        let refused = client.refused("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        assert_eq!(refused["code"], -32000, "nothing usable is left: {refused}");
    }
}

#[tokio::test]
async fn an_unlisted_model_can_be_chosen() {
    for version in VERSIONS {
        for fixture in [Fixture::with(ProviderKind::OpenAi), listing()] {
            let (client, session) = fixture.session(version).await;
            let mark = client.mark();
            client.prompt(&session, "/model mine/vendor/unlisted").await;
            told_of(&client, mark, &session, "mine/vendor/unlisted").await;
            fixture.model.plan(Planned::new().text("hi"));
            assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
            assert_eq!(fixture.model.asked()[0].body["model"], "vendor/unlisted");
            // A later list does not remove it.
            log_in(&client, "mine").await;
            fixture.model.plan(Planned::new().text("hi"));
            client.prompt(&session, "hello").await;
            assert_eq!(fixture.model.asked()[1].body["model"], "vendor/unlisted");
            for wrong in ["nobody/model", "mine/", "model"] {
                let mark = client.mark();
                client.prompt(&session, &format!("/model {wrong}")).await;
                let said = client.view_since(mark, &session).agent().concat();
                assert!(said.contains("There is no provider for the model"), "{wrong}: {said}");
            }
        }
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        client.prompt(&session, "/model mine/unlisted").await;
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "hello").await;
        client.disconnect().await;
        let client = fixture.client(version).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "again").await;
        assert_eq!(fixture.model.asked()[1].body["model"], "unlisted", "it is kept over a restart");
    }
}

/// A fixture whose provider has no configured models, only its list.
fn listing() -> Fixture {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    fixture.providers.lock().expect("no test panics here")[0].models.clear();
    fixture
}

/// Waits for an options update that contains this text.
async fn told_of(client: &Client, mark: usize, session: &str, word: &str) {
    let speaks = |update: &Value| {
        update["sessionUpdate"] == "config_option_update" && update.to_string().contains(word)
    };
    client.wait_update(mark, session, "the options", speaks).await;
}

#[tokio::test]
async fn open_sessions_get_models_that_are_listed_later() {
    for version in VERSIONS {
        let fixture = listing();
        let (client, session) = fixture.session(version).await;
        fixture.model.list(&[("loopback-1", None), ("newcomer", None)]);
        let mark = client.mark();
        let other = client.new_session_in(&fixture.work().display().to_string()).await;
        told_of(&client, mark, &session, "mine/newcomer").await;
        client.set_option(&session, "model", "mine/newcomer").await;
        client.set_option(&other, "model", "mine/newcomer").await;
        let mark = client.mark();
        fixture.model.list(&[("third", None)]);
        log_in(&client, "mine").await;
        for session in [&session, &other] {
            told_of(&client, mark, session, "mine/third").await;
        }
    }
}

#[tokio::test]
async fn a_provider_that_comes_up_later_is_asked_with_the_next_prompt() {
    for version in VERSIONS {
        let fixture = listing();
        fixture.model.list_nothing();
        let (client, session) = fixture.session(version).await;
        assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
        let said = client.view(&session).agent().concat();
        assert!(said.contains("- mine at http://127.0.0.1") && said.contains("status 503"), "{said}");
        assert!(!said.contains("No model is configured"), "{said}");
        fixture.model.list(&[("late", None)]);
        fixture.model.plan(Planned::new().text("here I am"));
        let mark = client.mark();
        assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
        assert_eq!(fixture.model.asked()[0].body["model"], "late");
        told_of(&client, mark, &session, "mine/late").await;
    }
}

#[tokio::test]
async fn no_other_provider_is_asked_while_the_one_of_the_chosen_model_is_down() {
    for version in VERSIONS {
        let fixture = listing();
        let mut cloud = fixture.provider("cloud", ProviderKind::Anthropic);
        cloud.models = vec![ModelConfig::new("somebody-else")];
        fixture.providers.lock().unwrap().insert(0, cloud);
        let (client, session) = fixture.session(version).await;
        let unprompted = client.new_session_in(&fixture.work().display().to_string()).await;
        for session in [&session, &unprompted] {
            client.set_option(session, "model", "mine/loopback-1").await;
        }
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "hello").await;
        client.disconnect().await;
        fixture.model.list_nothing();
        let client = fixture.client(version).await;
        for session in [&session, &unprompted] {
            client.load_in(&fixture.work().display().to_string(), session).await;
            fixture.model.plan(Planned::new().text("still me"));
            assert_eq!(client.prompt(session, "a secret").await.stop, "end_turn");
            assert_eq!(fixture.model.asked().last().unwrap().body["model"], "loopback-1", "{version:?}");
        }
    }
}

#[tokio::test]
async fn a_loaded_session_reports_that_its_model_is_gone() {
    for version in VERSIONS {
        let fixture = listing();
        let (client, session) = fixture.session(version).await;
        client.set_option(&session, "model", "mine/loopback-small").await;
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "hello").await;
        client.disconnect().await;
        fixture.model.list(&[("loopback-1", None)]);
        let client = fixture.client(version).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "hello").await;
        client
            .wait_since(0, "the notice", |message| {
                message.to_string().contains("mine/loopback-small is no longer available")
            })
            .await;
        assert_eq!(fixture.model.asked()[1].body["model"], "loopback-1");
    }
}

#[tokio::test]
async fn a_model_that_comes_back_is_used_again_with_a_notice() {
    for version in VERSIONS {
        let fixture = listing();
        let (client, session) = fixture.session(version).await;
        client.set_option(&session, "model", "mine/loopback-small").await;
        fixture.model.list(&[("loopback-1", None)]);
        log_in(&client, "mine").await;
        let shown = |words: &'static str| move |message: &Value| message.to_string().contains(words);
        client.wait_since(0, "the notice", shown("mine/loopback-small is no longer available")).await;
        let mark = client.mark();
        fixture.model.list(&[("loopback-1", None), ("loopback-small", None)]);
        log_in(&client, "mine").await;
        client.wait_since(mark, "the notice", shown("mine/loopback-small is available again")).await;
        assert!(!Value::from(client.server_messages()).to_string().contains("mine/loopback-1 is not there"));
        fixture.model.plan(Planned::new().text("hi"));
        client.prompt(&session, "hello").await;
        assert_eq!(fixture.model.asked()[0].body["model"], "loopback-small");
    }
}

#[tokio::test]
async fn a_logout_removes_keys_but_no_models() {
    for version in VERSIONS {
        let fixture = listing();
        let (client, session) = fixture.session(version).await;
        let mark = client.mark();
        log_out(&client).await;
        told_of(&client, mark, &session, "mine/loopback-1").await;
        let refused = error(&client, &session).await;
        assert_eq!(refused["code"], -32000, "{refused}");
        assert!(!Value::from(client.server_messages()).to_string().contains("is not there any more"));
    }
}

#[tokio::test]
async fn a_provider_that_is_off_is_waited_for_once() {
    let fixture = listing();
    // Accepts connections and never answers.
    let mute = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut off = fixture.provider("off", ProviderKind::Ollama);
    off.base_url = Some(format!("http://{}", mute.local_addr().unwrap()));
    fixture.providers.lock().unwrap().push(off);
    let (client, _session) = fixture.session(Version::V2).await;
    let began = std::time::Instant::now();
    client.new_session_in(&fixture.work().display().to_string()).await;
    assert!(began.elapsed() < std::time::Duration::from_millis(1500), "{:?}", began.elapsed());
}
