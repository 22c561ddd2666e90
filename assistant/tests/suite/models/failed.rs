//! What goes wrong is told as what it is, tried again where that may help, and never with the key in it.

use std::time::{Duration, Instant};

use futures::StreamExt;
use rethread_assistant::model::{
    FinishReason, ModelError, ModelEvent, Models, ProviderConfig, ProviderKind, ProviderLimits, Request,
    ToolDefinition,
};
use rethread_testkit::model::{Planned, error_body};
use serde_json::json;

use super::stage::{self, KEY, KINDS, Stage, hear, limits, request};

#[tokio::test]
async fn a_refused_key_names_its_variable_and_hides_the_key() {
    for kind in KINDS {
        let stage = Stage::with(kind, |config| config.key_env = Some("MY_KEY".to_owned()));
        stage.server.plan(Planned::status(401, error_body(&format!("wrong key: {KEY}"))));
        let heard = stage.ask(&request("hi")).await;
        let error = heard.error.clone().unwrap();
        assert!(
            matches!(&error, ModelError::Unauthorised { key_place, .. } if key_place == "MY_KEY"),
            "{error:?}"
        );
        assert!(
            error.hint().contains("MY_KEY") && error.to_string().contains("wrong key: [secret]"),
            "{error}"
        );
        let shown = format!("{error} {error:?} {:?} {heard:?}", stage.models);
        assert!(!shown.contains(KEY), "{shown}");
        assert_eq!(stage.server.asked().len(), 1, "{kind:?}: it is not tried again");
    }
}

#[tokio::test]
async fn without_a_key_a_provider_at_home_is_not_even_asked() {
    let provider = ProviderConfig::new("openai", ProviderKind::OpenAiResponses);
    assert!(provider.lacks_key());
    let models = Models::new(vec![provider]).unwrap();
    let asked = rethread_assistant::model::Request { model: "openai/gpt-6-sol".into(), ..request("hi") };
    let error = hear(&models, &asked).await.error.unwrap();
    assert!(
        matches!(&error, ModelError::Unauthorised { key_place, .. } if key_place == "OPENAI_API_KEY"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_when_it_wants() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::status(429, error_body("slow down")).header("retry-after", "1"));
        stage.server.plan(Planned::status(503, error_body("overloaded")));
        stage.server.plan(Planned::new().text("Here."));
        let began = Instant::now();
        let heard = stage.ask(&request("hi")).await;
        assert_eq!((heard.text().as_str(), heard.retries()), ("Here.", 2), "{kind:?}: {heard:?}");
        assert!(began.elapsed() >= Duration::from_secs(1), "{kind:?}");
        let ModelEvent::Retrying { attempt, wait, why } = &heard.events[0] else { panic!("{heard:?}") };
        assert_eq!((*attempt, *wait), (1, Duration::from_secs(1)), "{kind:?}");
        assert!(why.contains("slow down"), "{why}");
    }
}

#[tokio::test]
async fn a_provider_that_stays_busy_is_given_up() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        for _ in 0..3 {
            stage.server.plan(Planned::status(429, error_body("slow down")));
        }
        let heard = stage.ask(&request("hi")).await;
        let error = heard.error.clone().unwrap();
        assert!(matches!(error, ModelError::RateLimited { attempts: 3, .. }), "{kind:?}: {error:?}");
        assert_eq!((heard.retries(), stage.server.asked().len()), (2, 3), "{kind:?}");
    }
}

#[tokio::test]
async fn a_pause_that_is_too_long_is_not_waited_for() {
    let stage = Stage::new(ProviderKind::Anthropic);
    stage.server.plan(Planned::status(429, error_body("come back tomorrow")).header("retry-after", "86400"));
    let heard = stage.ask(&request("hi")).await;
    assert!(heard.error.unwrap().hint().contains("86400 seconds"));
    assert_eq!(heard.events, []);
}

#[tokio::test]
async fn a_failing_provider_is_given_up() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        for _ in 0..3 {
            stage.server.plan(Planned::status(500, error_body("no idea")));
        }
        let heard = stage.ask(&request("hi")).await;
        assert!(
            matches!(heard.error, Some(ModelError::Server { status: Some(500), .. })),
            "{kind:?}: {heard:?}"
        );
    }
}

#[tokio::test]
async fn an_address_where_nobody_is_is_named() {
    for kind in KINDS {
        let url = {
            let gone = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
            format!("http://me:word@127.0.0.1:{}", gone.local_addr().unwrap().port())
        };
        let models = Models::new(vec![stage::config(kind, &url)]).unwrap().with_limits(limits());
        let heard = hear(&models, &request("hi")).await;
        assert_eq!(heard.retries(), 2, "{kind:?}: {heard:?}");
        let Some(ModelError::Unreachable { url: shown, .. }) = &heard.error else {
            panic!("{kind:?}: {heard:?}")
        };
        assert!(shown.starts_with("http://127.0.0.1:"), "{shown}");
        assert!(!format!("{heard:?} {models:?}").contains("word"), "{heard:?} {models:?}");
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_as_that() {
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
        let stage = Stage::new(kind);
        stage.server.plan(Planned::status(400, error_body(words)));
        let error = stage.ask(&request("hi")).await.error.unwrap();
        assert!(matches!(error, ModelError::ContextTooLong { .. }), "{kind:?}: {error:?}");
    }
}

#[tokio::test]
async fn an_unknown_model_or_provider_is_told_as_that() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::status(404, error_body("no such model")));
        let error = stage.ask(&request("hi")).await.error.unwrap();
        assert!(matches!(error, ModelError::ModelUnknown { .. }), "{kind:?}: {error:?}");
        for id in ["nowhere/model", "model", "here/", ""] {
            let asked = rethread_assistant::model::Request { model: id.into(), ..request("hi") };
            let error = stage.ask(&asked).await.error.unwrap();
            assert!(matches!(error, ModelError::ModelUnknown { .. }), "{id}: {error:?}");
        }
        assert_eq!(stage.server.asked().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_told_as_far_as_it_came() {
    for kind in KINDS {
        for planned in [Planned::new().text("So far").breaks_off(), Planned::new().text("So far").cut_short()]
        {
            let stage = Stage::new(kind);
            stage.server.plan(planned);
            let heard = stage.ask(&request("hi")).await;
            assert_eq!((heard.text().as_str(), heard.retries()), ("So far", 0), "{kind:?}");
            assert!(matches!(heard.error, Some(ModelError::BrokenOff { .. })), "{kind:?}: {heard:?}");
            assert_eq!(stage.server.asked().len(), 1, "{kind:?}: what was told is not asked for again");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_told_as_that() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().text("So far").malformed());
        let heard = stage.ask(&request("hi")).await;
        assert_eq!(heard.text(), "So far", "{kind:?}");
        assert!(matches!(heard.error, Some(ModelError::Malformed { .. })), "{kind:?}: {heard:?}");
    }
}

/// A failure in the words in which each provider tells it in the middle of a stream.
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
async fn a_failure_inside_a_stream_is_tried_again_only_before_anything_was_said() {
    for (kind, failure) in told_failures() {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().event(failure.clone()));
        stage.server.plan(Planned::new().text("Here."));
        let heard = stage.ask(&request("hi")).await;
        assert_eq!((heard.text().as_str(), heard.retries()), ("Here.", 1), "{kind:?}: {heard:?}");
        assert_eq!(heard.end().0, FinishReason::Stop, "{kind:?}: what failed before is forgotten");
        stage.server.plan(Planned::new().text("So far").event(failure));
        let heard = stage.ask(&request("hi")).await;
        assert_eq!((heard.text().as_str(), heard.retries()), ("So far", 0), "{kind:?}: {heard:?}");
        let Some(ModelError::Server { said, .. }) = &heard.error else { panic!("{kind:?}: {heard:?}") };
        assert_eq!(said, "it broke", "{kind:?}");
    }
}

#[tokio::test]
async fn a_window_that_is_full_is_known_from_a_stream_too() {
    let stage = Stage::new(ProviderKind::OpenAiResponses);
    let error = json!({"code": "context_length_exceeded", "message": "Your input is too much."});
    let response = json!({"id": "resp_1", "status": "failed", "model": "m", "output": [], "error": error});
    stage.server.plan(Planned::new().event(json!({"type": "response.failed", "response": response})));
    let heard = stage.ask(&request("hi")).await;
    assert!(matches!(heard.error, Some(ModelError::ContextTooLong { .. })), "{heard:?}");
}

#[tokio::test]
async fn dropping_an_answer_hangs_up() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().text("And").stalls());
        let mut answer = stage.models.stream(&request("hi"));
        assert_eq!(answer.next().await, Some(Ok(ModelEvent::Text("And".to_owned()))), "{kind:?}");
        drop(answer);
        stage.server.wait_hang_up().await;
    }
}

#[tokio::test]
async fn a_silent_provider_is_not_waited_for_for_ever() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        let idle = Duration::from_millis(200);
        let models = stage.models.clone().with_limits(ProviderLimits { idle, ..limits() });
        stage.server.plan(Planned::new().text("And").stalls());
        let heard = hear(&models, &request("hi")).await;
        assert_eq!(heard.text(), "And", "{kind:?}");
        assert!(matches!(heard.error, Some(ModelError::Silent { .. })), "{kind:?}: {heard:?}");
        stage.server.wait_hang_up().await;
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_before_its_first_word_is_asked_for_again() {
    for kind in KINDS {
        for planned in [Planned::new().breaks_off(), Planned::new().cut_short(), Planned::empty()] {
            let stage = Stage::new(kind);
            stage.server.plan(planned);
            stage.server.plan(Planned::new().text("Here."));
            let heard = stage.ask(&request("hi")).await;
            assert_eq!((heard.text().as_str(), heard.retries()), ("Here.", 1), "{kind:?}: {heard:?}");
        }
    }
}

#[tokio::test]
async fn an_event_without_end_is_given_up() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().text("So").endless());
        let heard = stage.ask(&request("hi")).await;
        assert_eq!(heard.text(), "So", "{kind:?}");
        let error = heard.error.clone().unwrap_or_else(|| panic!("{heard:?}"));
        assert!(error.to_string().contains("an event of more than 16 MB"), "{kind:?}: {error}");
        stage.server.wait_hang_up().await;
    }
}

#[tokio::test]
async fn what_is_no_stream_is_told_as_that() {
    let stage = Stage::new(ProviderKind::OpenAi);
    stage.server.plan(Planned::status(200, json!({"error": {"message": "log in first"}})));
    let heard = stage.ask(&request("hi")).await;
    let error = heard.error.clone().unwrap_or_else(|| panic!("{heard:?}"));
    assert!(matches!(error, ModelError::Malformed { .. }), "{error:?}");
    assert!(error.hint().contains("kind"), "{}", error.hint());
    assert_eq!(stage.server.asked().len(), 1);
}

#[tokio::test]
async fn what_a_model_does_not_take_is_left_out_and_not_sent_again() {
    let cases = [
        (400, "Unsupported value: 'temperature' does not support 0.7 with this model.", "temperature"),
        (400, "registry.ollama.ai/library/llama3:latest does not support tools", "tools"),
        (404, "No endpoints found that support tool use.", "tools"),
    ];
    for (status, said, what) in cases {
        let stage = Stage::new(ProviderKind::OpenAi);
        let tool = ToolDefinition {
            name: "read".to_owned(),
            description: "Reads".to_owned(),
            schema: json!({"type": "object", "properties": {}}),
        };
        let asked = Request { temperature: Some(0.7), tools: vec![tool], ..request("hi") };
        stage.server.plan(Planned::status(status, error_body(said)));
        stage.server.plan(Planned::new().text("Then so."));
        let heard = stage.ask(&asked).await;
        assert_eq!(heard.text(), "Then so.", "{said}: {heard:?}");
        let ModelEvent::LeftOut { what: left, why } = &heard.events[0] else { panic!("{heard:?}") };
        assert!(left == what && why.contains(said), "{left}: {why}");
        stage.server.plan(Planned::new().text("Again."));
        assert_eq!(stage.ask(&asked).await.events.len(), heard.events.len() - 1, "it is told once");
        let sent: Vec<_> = stage.server.asked().iter().map(|asked| !asked.body[what].is_null()).collect();
        assert_eq!(sent, [true, false, false], "{what}");
        assert_eq!(stage.models.list()[0].takes_temperature, what != "temperature");
        // Who refuses it all the same is believed.
        stage.server.plan(Planned::status(status, error_body(said)));
        assert!(stage.ask(&asked).await.error.is_some());
    }
}

#[tokio::test]
async fn an_organisation_that_is_not_verified_is_answered_without_thoughts() {
    let stage = Stage::new(ProviderKind::OpenAiResponses);
    let said = "Your organization must be verified to generate reasoning summaries.";
    stage.server.plan(Planned::status(400, error_body(said)));
    stage.server.plan(Planned::new().text("Then so."));
    let heard = stage.ask(&request("hi")).await;
    assert_eq!(heard.text(), "Then so.", "{heard:?}");
    let summaries: Vec<_> =
        stage.server.asked().iter().map(|asked| !asked.body["reasoning"]["summary"].is_null()).collect();
    assert_eq!(summaries, [true, false]);
}

#[tokio::test]
async fn a_key_does_not_follow_a_redirect_to_somebody_else() {
    for kind in KINDS {
        for status in [302, 307] {
            let (stage, other) = (Stage::new(kind), Stage::new(kind));
            let elsewhere = format!("http://127.0.0.1:{}/v1/", other.server.port());
            stage.server.plan(Planned::status(status, json!({})).header("location", &elsewhere));
            let error = stage.ask(&request("hi")).await.error.unwrap();
            assert!(matches!(error, ModelError::Rejected { .. }), "{kind:?}: {error:?}");
            assert!(error.hint().contains("base URL"), "{}", error.hint());
            assert_eq!(other.server.asked().len(), 0, "{kind:?}");
        }
    }
}
