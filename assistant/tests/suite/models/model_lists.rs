//! Tests of the lists of models: from the configuration, the provider or the catalog.

use std::time::Duration;

use rethread_assistant::model::{
    Effort, ModelError, Models, ProviderConfig, ProviderKind, ProviderLimits, Request, Secret,
};
use rethread_testkit::model::Planned;

use super::fixture::{Fixture, KINDS, config, receive, request};

fn ids(models: &Models) -> Vec<String> {
    models.list().into_iter().map(|model| model.id).collect()
}

#[tokio::test]
async fn configured_models_are_listed_with_their_properties() {
    let fixture = Fixture::new(ProviderKind::OpenAi);
    fixture.models.discover().await;
    let models = fixture.models.list();
    assert_eq!(ids(&fixture.models), ["here/loopback-1"]);
    assert_eq!((models[0].context_window, models[0].price.unwrap().input), (Some(8_000), 2.0));
    assert_eq!(models[0].efforts, [Effort::Low, Effort::High]);
}

#[tokio::test]
async fn a_server_with_its_own_url_lists_its_models() {
    for kind in KINDS {
        let fixture = Fixture::with(kind, |config| config.models.clear());
        assert_eq!(ids(&fixture.models), [""; 0], "{kind:?}");
        fixture.models.discover().await;
        assert_eq!(ids(&fixture.models), ["here/loopback-1", "here/loopback-small"], "{kind:?}");
    }
}

#[tokio::test]
async fn a_window_in_a_list_is_used() {
    for kind in KINDS {
        let fixture = Fixture::with(kind, |config| config.models.clear());
        fixture.server.list(&[("a", Some(5_000)), ("b", None)]);
        fixture.models.discover().await;
        let windows: Vec<_> = fixture.models.list().iter().map(|model| model.context_window).collect();
        // Ollama sets the window when it loads a model.
        let listed = (kind != ProviderKind::Ollama).then_some(5_000);
        assert_eq!(windows, [listed, None], "{kind:?}");
        assert_eq!(fixture.models.window("here/a").await, Some(5_000), "{kind:?}");
        assert_eq!(fixture.models.window("here/b").await, None, "{kind:?}");
    }
}

#[tokio::test]
async fn a_chosen_model_stays_while_its_provider_cannot_list_models() {
    let fixture = Fixture::with(ProviderKind::Ollama, |config| config.models.clear());
    fixture.server.list_nothing();
    fixture.models.discover().await;
    let offered = |chosen| {
        let models = fixture.models.offer(Some(chosen)).into_iter();
        models.map(|model| model.id).collect::<Vec<_>>()
    };
    assert_eq!(offered("here/mine"), ["here/mine"]);
    assert_eq!(offered("there/mine"), [""; 0]);
    assert!(fixture.models.failures()[0].contains("status 503"), "{:?}", fixture.models.failures());
    fixture.server.list(&[("other", None)]);
    fixture.models.discover().await;
    assert_eq!(offered("here/mine"), ["here/other"]);
    assert_eq!(fixture.models.failures(), [""; 0]);
    fixture.server.list_nothing();
    fixture.models.discover().await;
    assert_eq!(offered("here/mine"), ["here/other"], "an earlier list stays");
}

#[tokio::test]
async fn a_server_without_models_is_harmless() {
    // Accepts connections and never answers.
    let mute = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut silent = config(ProviderKind::OpenAi, &format!("http://{}", mute.local_addr().unwrap()));
    silent.models.clear();
    let mut gone = ProviderConfig::new("gone", ProviderKind::Ollama);
    gone.base_url = Some("http://127.0.0.1:1".to_owned());
    let listing = Duration::from_millis(200);
    let models = Models::new(vec![silent, gone])
        .unwrap()
        .with_limits(ProviderLimits { listing, ..ProviderLimits::default() });
    tokio::time::timeout(Duration::from_secs(5), models.discover()).await.expect("it is bounded");
    assert_eq!(ids(&models), [""; 0]);
}

#[test]
fn openai_itself_is_asked_for_responses_and_servers_like_it_for_chats() {
    let home = ProviderConfig::new("openai", ProviderKind::OpenAi);
    let own = config(ProviderKind::OpenAi, "http://127.0.0.1:1");
    let models = Models::new(vec![home, own]).unwrap();
    let kinds: Vec<_> = models.providers().map(|provider| provider.kind).collect();
    assert_eq!(kinds, [ProviderKind::OpenAiResponses, ProviderKind::OpenAi]);
    assert!(ids(&models).contains(&"openai/gpt-6-sol".to_owned()));
}

#[tokio::test]
async fn well_known_providers_have_well_known_models() {
    let mut anthropic = ProviderConfig::new("anthropic", ProviderKind::Anthropic);
    anthropic.key = Some(Secret::new("sk-test"));
    let models = Models::new(vec![anthropic, ProviderConfig::new("google", ProviderKind::Gemini)]).unwrap();
    let listed = models.list();
    assert!(listed.iter().any(|model| model.id == "anthropic/claude-opus-5-5" && !model.takes_temperature));
    assert!(listed.iter().any(|model| model.id == "google/gemini-3.1-pro-preview" && model.price.is_none()));
    assert_eq!(models.find("anthropic/claude-next").unwrap().context_window, None);
    assert_eq!(models.find("nobody/claude-next"), None);
    let without_key: Vec<_> = models.providers().filter(|provider| provider.lacks_key()).collect();
    assert_eq!(without_key.iter().map(|provider| provider.name.as_str()).collect::<Vec<_>>(), ["google"]);
}

#[tokio::test]
async fn several_providers_are_asked_by_their_names() {
    let (one, two) = (Fixture::new(ProviderKind::OpenAi), Fixture::new(ProviderKind::Anthropic));
    let at = |fixture: &Fixture, name: &str| ProviderConfig {
        name: name.to_owned(),
        ..config(fixture.kind, &format!("http://127.0.0.1:{}", fixture.server.port()))
    };
    let models = Models::new(vec![at(&one, "one"), at(&two, "two")]).unwrap();
    one.server.plan(Planned::new().text("One."));
    two.server.plan(Planned::new().text("Two."));
    for (id, text) in [("two/any/model", "Two."), ("one/loopback-1", "One.")] {
        let asked = Request { model: id.to_owned(), ..request("hi") };
        assert_eq!(receive(&models, &asked).await.text(), text);
    }
    assert_eq!(two.body()["model"], "any/model");
}

#[test]
fn providers_of_one_name_are_refused() {
    let provider = ProviderConfig::new("x", ProviderKind::Ollama);
    let error = Models::new(vec![provider.clone(), provider]).unwrap_err();
    assert_eq!(error, ModelError::Config { what: "two providers are called x".to_owned() });
}
