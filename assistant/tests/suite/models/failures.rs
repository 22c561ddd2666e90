//! Tests of failed requests to models: errors, retries, unsupported features, and that no error contains the key.

use std::time::{Duration, Instant};

use futures::StreamExt;
use rethread_assistant::model::{
    FinishReason, ModelError, ModelEvent, Models, ProviderConfig, ProviderKind, ProviderLimits, Request,
    ToolDefinition,
};
use rethread_testkit::model::{Planned, error_body};
use serde_json::json;

use super::fixture::{self, Fixture, KEY, KINDS, limits, receive, request};

#[tokio::test]
async fn a_refused_key_names_its_variable_and_hides_the_key() {
    for kind in KINDS {
        let fixture = Fixture::with(kind, |config| config.key_env = Some("MY_KEY".to_owned()));
        fixture.server.plan(Planned::status(401, error_body(&format!("wrong key: {KEY}"))));
        let received = fixture.ask(&request("hi")).await;
        let error = received.error.clone().unwrap();
        assert!(
            matches!(&error, ModelError::Unauthorised { key_place, .. } if key_place == "MY_KEY"),
            "{error:?}"
        );
        assert!(
            error.hint().contains("MY_KEY") && error.to_string().contains("wrong key: [secret]"),
            "{error}"
        );
        let shown = format!("{error} {error:?} {:?} {received:?}", fixture.models);
        assert!(!shown.contains(KEY), "{shown}");
        assert_eq!(fixture.server.asked().len(), 1, "{kind:?}: it is not tried again");
    }
}

#[tokio::test]
async fn a_provider_at_its_default_url_gets_no_request_without_a_key() {
    let provider = ProviderConfig::new("openai", ProviderKind::OpenAiResponses);
    assert!(provider.lacks_key());
    let models = Models::new(vec![provider]).unwrap();
    let asked = rethread_assistant::model::Request { model: "openai/gpt-6-sol".into(), ..request("hi") };
    let error = receive(&models, &asked).await.error.unwrap();
    assert!(
        matches!(&error, ModelError::Unauthorised { key_place, .. } if key_place == "OPENAI_API_KEY"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_retry_waits_as_long_as_the_provider_asks() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::status(429, error_body("slow down")).header("retry-after", "1"));
        fixture.server.plan(Planned::status(503, error_body("overloaded")));
        fixture.server.plan(Planned::new().text("Here."));
        let began = Instant::now();
        let received = fixture.ask(&request("hi")).await;
        assert_eq!((received.text().as_str(), received.retries()), ("Here.", 2), "{kind:?}: {received:?}");
        assert!(began.elapsed() >= Duration::from_secs(1), "{kind:?}");
        let ModelEvent::Retrying { attempt, wait, why } = &received.events[0] else { panic!("{received:?}") };
        assert_eq!((*attempt, *wait), (1, Duration::from_secs(1)), "{kind:?}");
        assert!(why.contains("slow down"), "{why}");
    }
}

#[tokio::test]
async fn retries_end_for_a_provider_that_stays_busy() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        for _ in 0..3 {
            fixture.server.plan(Planned::status(429, error_body("slow down")));
        }
        let received = fixture.ask(&request("hi")).await;
        let error = received.error.clone().unwrap();
        assert!(matches!(error, ModelError::RateLimited { attempts: 3, .. }), "{kind:?}: {error:?}");
        assert_eq!((received.retries(), fixture.server.asked().len()), (2, 3), "{kind:?}");
    }
}

#[tokio::test]
async fn a_request_fails_if_the_pause_is_too_long() {
    let fixture = Fixture::new(ProviderKind::Anthropic);
    fixture
        .server
        .plan(Planned::status(429, error_body("come back tomorrow")).header("retry-after", "86400"));
    let received = fixture.ask(&request("hi")).await;
    assert!(received.error.unwrap().hint().contains("86400 seconds"));
    assert_eq!(received.events, []);
}

#[tokio::test]
async fn retries_end_for_a_failing_provider() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        for _ in 0..3 {
            fixture.server.plan(Planned::status(500, error_body("no idea")));
        }
        let received = fixture.ask(&request("hi")).await;
        assert!(
            matches!(received.error, Some(ModelError::Server { status: Some(500), .. })),
            "{kind:?}: {received:?}"
        );
    }
}

#[tokio::test]
async fn an_unreachable_address_is_named() {
    for kind in KINDS {
        let url = {
            let gone = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
            format!("http://me:word@127.0.0.1:{}", gone.local_addr().unwrap().port())
        };
        let models = Models::new(vec![fixture::config(kind, &url)]).unwrap().with_limits(limits());
        let received = receive(&models, &request("hi")).await;
        assert_eq!(received.retries(), 2, "{kind:?}: {received:?}");
        let Some(ModelError::Unreachable { url: shown, .. }) = &received.error else {
            panic!("{kind:?}: {received:?}")
        };
        assert!(shown.starts_with("http://127.0.0.1:"), "{shown}");
        assert!(!format!("{received:?} {models:?}").contains("word"), "{received:?} {models:?}");
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_reported() {
    let words = [
        (ProviderKind::OpenAi, "This model's maximum context length is 8192 tokens."),
        (ProviderKind::OpenAiResponses, "Your input exceeds the context window of this model."),
        (ProviderKind::Anthropic, "prompt is too long: 9000 tokens > 8000 maximum"),
        (
            ProviderKind::Gemini,
            "The input token count (9000) exceeds the maximum number of tokens allowed (8000).",
        ),
        (ProviderKind::Ollama, "the input length exceeds the context length"),
    ];
    for (kind, words) in words {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::status(400, error_body(words)));
        let error = fixture.ask(&request("hi")).await.error.unwrap();
        assert!(matches!(error, ModelError::ContextTooLong { .. }), "{kind:?}: {error:?}");
    }
}

#[tokio::test]
async fn an_unknown_model_or_provider_is_reported() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::status(404, error_body("no such model")));
        let error = fixture.ask(&request("hi")).await.error.unwrap();
        assert!(matches!(error, ModelError::ModelUnknown { .. }), "{kind:?}: {error:?}");
        for id in ["nowhere/model", "model", "here/", ""] {
            let asked = rethread_assistant::model::Request { model: id.into(), ..request("hi") };
            let error = fixture.ask(&asked).await.error.unwrap();
            assert!(matches!(error, ModelError::ModelUnknown { .. }), "{id}: {error:?}");
        }
        assert_eq!(fixture.server.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_truncated_answer_is_passed_on_with_an_error() {
    for kind in KINDS {
        for planned in [Planned::new().text("So far").breaks_off(), Planned::new().text("So far").cut_short()]
        {
            let fixture = Fixture::new(kind);
            fixture.server.plan(planned);
            let received = fixture.ask(&request("hi")).await;
            assert_eq!((received.text().as_str(), received.retries()), ("So far", 0), "{kind:?}");
            assert!(matches!(received.error, Some(ModelError::Truncated { .. })), "{kind:?}: {received:?}");
            assert_eq!(
                fixture.server.asked().len(),
                1,
                "{kind:?}: a request is not repeated after part of its answer"
            );
        }
    }
}

#[tokio::test]
async fn an_unreadable_answer_is_reported() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().text("So far").malformed());
        let received = fixture.ask(&request("hi")).await;
        assert_eq!(received.text(), "So far", "{kind:?}");
        assert!(matches!(received.error, Some(ModelError::Malformed { .. })), "{kind:?}: {received:?}");
    }
}

/// An error inside a stream, in the format of each provider.
fn told_failures() -> [(ProviderKind, serde_json::Value); 5] {
    let error = json!({"type": "server_error", "code": "server_error", "message": "it broke"});
    let response = json!({"id": "resp_1", "status": "failed", "model": "m", "output": [], "error": error});
    [
        (ProviderKind::Ollama, json!({"error": "it broke"})),
        (ProviderKind::OpenAi, json!({"error": error})),
        (ProviderKind::OpenAiResponses, json!({"type": "response.failed", "response": response})),
        (
            ProviderKind::Anthropic,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "it broke"}}),
        ),
        (
            ProviderKind::Gemini,
            json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "it broke"}}),
        ),
    ]
}

#[tokio::test]
async fn a_failure_inside_a_stream_is_retried_only_before_the_answer_begins() {
    for (kind, failure) in told_failures() {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().event(failure.clone()));
        fixture.server.plan(Planned::new().text("Here."));
        let received = fixture.ask(&request("hi")).await;
        assert_eq!((received.text().as_str(), received.retries()), ("Here.", 1), "{kind:?}: {received:?}");
        assert_eq!(received.end().0, FinishReason::Stop, "{kind:?}: what failed before is forgotten");
        fixture.server.plan(Planned::new().text("So far").event(failure));
        let received = fixture.ask(&request("hi")).await;
        assert_eq!((received.text().as_str(), received.retries()), ("So far", 0), "{kind:?}: {received:?}");
        let Some(ModelError::Server { said, .. }) = &received.error else { panic!("{kind:?}: {received:?}") };
        assert_eq!(said, "it broke", "{kind:?}");
    }
}

#[tokio::test]
async fn a_full_window_is_recognised_inside_a_stream() {
    let fixture = Fixture::new(ProviderKind::OpenAiResponses);
    let error = json!({"code": "context_length_exceeded", "message": "Your input is too much."});
    let response = json!({"id": "resp_1", "status": "failed", "model": "m", "output": [], "error": error});
    fixture.server.plan(Planned::new().event(json!({"type": "response.failed", "response": response})));
    let received = fixture.ask(&request("hi")).await;
    assert!(matches!(received.error, Some(ModelError::ContextTooLong { .. })), "{received:?}");
}

#[tokio::test]
async fn dropping_an_answer_closes_the_connection() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().text("And").stalls());
        let mut answer = fixture.models.stream(&request("hi"));
        assert_eq!(answer.next().await, Some(Ok(ModelEvent::Text("And".to_owned()))), "{kind:?}");
        drop(answer);
        fixture.server.wait_hang_up().await;
    }
}

#[tokio::test]
async fn a_silent_provider_times_out() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        let idle = Duration::from_millis(200);
        let models = fixture.models.clone().with_limits(ProviderLimits { idle, ..limits() });
        fixture.server.plan(Planned::new().text("And").stalls());
        let received = receive(&models, &request("hi")).await;
        assert_eq!(received.text(), "And", "{kind:?}");
        assert!(matches!(received.error, Some(ModelError::Silent { .. })), "{kind:?}: {received:?}");
        fixture.server.wait_hang_up().await;
    }
}

#[tokio::test]
async fn an_answer_that_ends_before_its_first_part_is_retried() {
    for kind in KINDS {
        for planned in [Planned::new().breaks_off(), Planned::new().cut_short(), Planned::empty()] {
            let fixture = Fixture::new(kind);
            fixture.server.plan(planned);
            fixture.server.plan(Planned::new().text("Here."));
            let received = fixture.ask(&request("hi")).await;
            assert_eq!(
                (received.text().as_str(), received.retries()),
                ("Here.", 1),
                "{kind:?}: {received:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_event_without_end_is_given_up() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().text("So").endless());
        let received = fixture.ask(&request("hi")).await;
        assert_eq!(received.text(), "So", "{kind:?}");
        let error = received.error.clone().unwrap_or_else(|| panic!("{received:?}"));
        assert!(error.to_string().contains("an event of more than 16 MB"), "{kind:?}: {error}");
        fixture.server.wait_hang_up().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_not_a_stream_is_reported() {
    let fixture = Fixture::new(ProviderKind::OpenAi);
    fixture.server.plan(Planned::status(200, json!({"error": {"message": "log in first"}})));
    let received = fixture.ask(&request("hi")).await;
    let error = received.error.clone().unwrap_or_else(|| panic!("{received:?}"));
    assert!(matches!(error, ModelError::Malformed { .. }), "{error:?}");
    assert!(error.hint().contains("kind"), "{}", error.hint());
    assert_eq!(fixture.server.asked().len(), 1);
}

#[tokio::test]
async fn unsupported_features_are_left_out_and_not_sent_again() {
    let cases = [
        (400, "Unsupported value: 'temperature' does not support 0.7 with this model.", "temperature"),
        (400, "registry.ollama.ai/library/llama3:latest does not support tools", "tools"),
        (404, "No endpoints found that support tool use.", "tools"),
    ];
    for (status, said, what) in cases {
        let fixture = Fixture::new(ProviderKind::OpenAi);
        let tool = ToolDefinition {
            name: "read".to_owned(),
            description: "Reads".to_owned(),
            schema: json!({"type": "object", "properties": {}}),
        };
        let asked = Request { temperature: Some(0.7), tools: vec![tool], ..request("hi") };
        fixture.server.plan(Planned::status(status, error_body(said)));
        fixture.server.plan(Planned::new().text("Then so."));
        let received = fixture.ask(&asked).await;
        assert_eq!(received.text(), "Then so.", "{said}: {received:?}");
        let ModelEvent::LeftOut { what: left, why } = &received.events[0] else { panic!("{received:?}") };
        assert!(left == what && why.contains(said), "{left}: {why}");
        fixture.server.plan(Planned::new().text("Again."));
        assert_eq!(fixture.ask(&asked).await.events.len(), received.events.len() - 1, "it is reported once");
        let sent: Vec<_> = fixture.server.asked().iter().map(|asked| !asked.body[what].is_null()).collect();
        assert_eq!(sent, [true, false, false], "{what}");
        assert_eq!(fixture.models.list()[0].takes_temperature, what != "temperature");
        // The same error for a request without the feature is not retried.
        fixture.server.plan(Planned::status(status, error_body(said)));
        assert!(fixture.ask(&asked).await.error.is_some());
    }
}

#[tokio::test]
async fn an_organisation_that_is_not_verified_is_answered_without_thoughts() {
    let fixture = Fixture::new(ProviderKind::OpenAiResponses);
    let said = "Your organization must be verified to generate reasoning summaries.";
    fixture.server.plan(Planned::status(400, error_body(said)));
    fixture.server.plan(Planned::new().text("Then so."));
    let received = fixture.ask(&request("hi")).await;
    assert_eq!(received.text(), "Then so.", "{received:?}");
    let summaries: Vec<_> =
        fixture.server.asked().iter().map(|asked| !asked.body["reasoning"]["summary"].is_null()).collect();
    assert_eq!(summaries, [true, false]);
}

#[tokio::test]
async fn a_key_is_not_sent_to_another_server_on_a_redirect() {
    for kind in KINDS {
        for status in [302, 307] {
            let (fixture, other) = (Fixture::new(kind), Fixture::new(kind));
            let elsewhere = format!("http://127.0.0.1:{}/v1/", other.server.port());
            fixture.server.plan(Planned::status(status, json!({})).header("location", &elsewhere));
            let error = fixture.ask(&request("hi")).await.error.unwrap();
            assert!(matches!(error, ModelError::Rejected { .. }), "{kind:?}: {error:?}");
            assert!(error.hint().contains("base URL"), "{}", error.hint());
            assert_eq!(other.server.asked().len(), 0, "{kind:?}");
        }
    }
}
