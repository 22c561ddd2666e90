//! Tests of answers of models: text, thoughts, tool calls, usage, finish reason.

use rethread_assistant::model::{FinishReason, ModelEvent, ProviderKind, Request};
use rethread_testkit::model::Planned;
use serde_json::{Value, json};

use super::fixture::{Fixture, KINDS, request, tools};

#[tokio::test]
async fn text_is_streamed_with_usage_and_cost() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().text("Hello ").text("wörld").usage(1_000, 400, 50));
        let received = fixture.ask(&request("hi")).await;
        assert_eq!(
            received.events[..2],
            [ModelEvent::Text("Hello ".into()), ModelEvent::Text("wörld".into())],
            "{kind:?}"
        );
        let (reason, reply) = received.end();
        assert_eq!((reason, reply.text()), (FinishReason::Stop, "Hello wörld".to_owned()), "{kind:?}");
        let ModelEvent::Usage(usage) = &received.events[2] else { panic!("{kind:?}: {received:#?}") };
        assert_eq!((usage.input, usage.cached, usage.output), (1_000, 400, 50), "{kind:?}");
        // 600 at 2, 400 at 1 and 50 at 10 dollars a million.
        assert!((usage.cost.unwrap() - 0.0021).abs() < 1e-9, "{kind:?}: {usage:?}");
    }
}

#[tokio::test]
async fn thoughts_are_separate_from_text() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().thought("Let me ").thought("see.").text("Done."));
        let received = fixture.ask(&request("hi")).await;
        assert_eq!(
            (received.thoughts().as_str(), received.text().as_str()),
            ("Let me see.", "Done."),
            "{kind:?}"
        );
        assert_eq!(received.end().0, FinishReason::Stop);
    }
}

#[tokio::test]
async fn parallel_tool_calls_have_their_real_names() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        let planned = Planned::new()
            .text("Two at once.")
            .call("files_read", &json!({"path": "a"}))
            .call("files_read", &json!({"path": "b"}));
        fixture.server.plan(planned);
        let received = fixture.ask(&Request { tools: tools(), ..request("read") }).await;
        let (reason, reply) = received.end();
        assert_eq!(reason, FinishReason::ToolUse, "{kind:?}");
        let calls: Vec<_> = reply.calls().collect();
        assert_eq!(calls.len(), 2, "{kind:?}: {reply:#?}");
        assert!(calls.iter().all(|call| call.name == "files.read"), "{kind:?}");
        assert_eq!(calls[0].arguments, Ok(json!({"path": "a"})), "{kind:?}");
        assert_eq!(calls[1].arguments, Ok(json!({"path": "b"})), "{kind:?}");
        assert_ne!(calls[0].id, calls[1].id, "{kind:?}");
        let count = received.events.iter().filter(|event| matches!(event, ModelEvent::ToolCall(_))).count();
        assert_eq!(count, 2, "{kind:?}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_kept_as_text() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().raw_call("stat", "{\"path\": \"a").raw_call("stat", "{}"));
        let received = fixture.ask(&Request { tools: tools(), ..request("stat") }).await;
        let (reason, reply) = received.end();
        let calls: Vec<_> = reply.calls().collect();
        assert_eq!(reason, FinishReason::ToolUse, "{kind:?}");
        assert_eq!(calls[0].arguments, Err("{\"path\": \"a".to_owned()), "{kind:?}");
        assert_eq!(calls[1].arguments, Ok(json!({})), "{kind:?}");
    }
}

#[tokio::test]
async fn an_answer_at_its_maximum_length_is_marked() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().text("And so").too_long());
        assert_eq!(fixture.ask(&request("hi")).await.end().0, FinishReason::Length, "{kind:?}");
    }
}

#[tokio::test]
async fn call_ids_are_unique_in_the_conversation() {
    for kind in [ProviderKind::Gemini, ProviderKind::Ollama] {
        let fixture = Fixture::new(kind);
        let mut asked = Request { tools: tools(), ..request("stat") };
        let mut ids = std::collections::HashSet::new();
        for _ in 0..2 {
            fixture.server.plan(Planned::new().call("stat", &json!({"path": "a"})));
            let (_, reply) = fixture.ask(&asked).await.end();
            assert!(reply.calls().all(|call| ids.insert(call.id.clone())), "{kind:?}: {reply:?}");
            asked.messages.push(rethread_assistant::model::Message::Assistant(reply));
        }
        assert_eq!(ids.len(), 2, "{kind:?}");
    }
}

#[tokio::test]
async fn without_a_plan_the_server_says_what_the_prompt_wants() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        let mut asked = Request { tools: tools(), ..request("DELTAS=3") };
        asked.tools[1].name = "bash".to_owned();
        assert_eq!(fixture.ask(&asked).await.text(), "t1w000 t1w001 t1w002 ", "{kind:?}");
    }
}

#[tokio::test]
async fn a_refusal_has_the_text_of_the_model() {
    let delta = json!({"choices": [{"index": 0, "delta": {"refusal": "I will not."}}]});
    let part = json!({"type": "refusal", "refusal": "I will not."});
    let done = json!({"type": "response.content_part.done", "part": part});
    for (kind, event) in [(ProviderKind::OpenAi, delta), (ProviderKind::OpenAiResponses, done)] {
        let fixture = Fixture::new(kind);
        fixture.server.plan(Planned::new().event(event));
        let received = fixture.ask(&request("hi")).await;
        assert_eq!(received.text(), "I will not.", "{kind:?}: {received:?}");
        assert_eq!(received.end().0, FinishReason::Refusal, "{kind:?}");
    }
    let fixture = Fixture::new(ProviderKind::Gemini);
    fixture.server.plan(Planned::new().event(json!({"promptFeedback": {"blockReason": "SAFETY"}})));
    assert_eq!(fixture.ask(&request("hi")).await.end().0, FinishReason::Refusal);
}

#[tokio::test]
async fn a_finish_reason_without_an_end_event_is_enough() {
    let finish = |reason: &str| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let fixture = Fixture::new(ProviderKind::OpenAi);
    let asked = Planned::new().thought("hm").text("Let me ").text("look.");
    let asked = asked.call("read", &json!({"path": "a"})).call("list", &json!({"path": "b"}));
    fixture.server.plan(asked.event(finish("tool_calls")).cut_short());
    let received = fixture.ask(&request("hi")).await;
    assert_eq!((received.text().as_str(), received.error.as_ref()), ("Let me look.", None), "{received:?}");
    let Some(ModelEvent::Finished { reason, reply }) = received.events.last() else { panic!("{received:?}") };
    assert_eq!(*reason, FinishReason::ToolUse);
    let calls: Vec<_> = reply.calls().map(|call| (call.name.clone(), call.arguments.clone())).collect();
    let expected = [("read", json!({"path": "a"})), ("list", json!({"path": "b"}))];
    assert_eq!(calls, expected.map(|(name, arguments)| (name.to_owned(), Ok(arguments))));
    fixture.server.plan(Planned::new().text("cut").event(finish("length")).cut_short());
    let received = fixture.ask(&request("hi")).await;
    assert!(matches!(
        received.events.last(),
        Some(ModelEvent::Finished { reason: FinishReason::Length, .. })
    ));
}

#[tokio::test]
async fn calls_without_an_index_are_received() {
    let delta = |calls: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]});
    let call = |name: &str, arguments: &str| json!({"id": "", "type": "function", "function": {"name": name, "arguments": arguments}});
    let fixture = Fixture::new(ProviderKind::OpenAi);
    let both = delta(json!([call("read", "{\"path\": \"a\"}"), call("list", "{\"pa")]));
    let rest = delta(json!([{"function": {"arguments": "th\": \"b\"}"}}]));
    fixture.server.plan(Planned::new().event(both).event(rest));
    let received = fixture.ask(&request("hi")).await;
    let Some(ModelEvent::Finished { reason, reply }) = received.events.last() else { panic!("{received:?}") };
    assert_eq!(*reason, FinishReason::ToolUse);
    let calls: Vec<_> = reply.calls().map(|call| (call.name.clone(), call.arguments.clone())).collect();
    let expected = [("read", json!({"path": "a"})), ("list", json!({"path": "b"}))];
    assert_eq!(calls, expected.map(|(name, arguments)| (name.to_owned(), Ok(arguments))));
    let ids: std::collections::HashSet<_> = reply.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 2, "each has an id of its own");
}
