//! What a model says reaches us: text, thoughts, tool calls, usage, the reason.

use rethread_assistant::model::{FinishReason, ModelEvent, ProviderKind, Request};
use rethread_testkit::model::Planned;
use serde_json::{Value, json};

use super::stage::{KINDS, Stage, request, tools};

#[tokio::test]
async fn text_comes_bit_by_bit_with_usage_and_cost() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().text("Hello ").text("wörld").usage(1_000, 400, 50));
        let heard = stage.ask(&request("hi")).await;
        assert_eq!(
            heard.events[..2],
            [ModelEvent::Text("Hello ".into()), ModelEvent::Text("wörld".into())],
            "{kind:?}"
        );
        let (reason, reply) = heard.end();
        assert_eq!((reason, reply.text()), (FinishReason::Stop, "Hello wörld".to_owned()), "{kind:?}");
        let ModelEvent::Usage(usage) = &heard.events[2] else { panic!("{kind:?}: {heard:#?}") };
        assert_eq!((usage.input, usage.cached, usage.output), (1_000, 400, 50), "{kind:?}");
        // 600 at 2, 400 at 1 and 50 at 10 dollars a million.
        assert!((usage.cost.unwrap() - 0.0021).abs() < 1e-9, "{kind:?}: {usage:?}");
    }
}

#[tokio::test]
async fn thoughts_come_apart_from_text() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().thought("Let me ").thought("see.").text("Done."));
        let heard = stage.ask(&request("hi")).await;
        assert_eq!((heard.thoughts().as_str(), heard.text().as_str()), ("Let me see.", "Done."), "{kind:?}");
        assert_eq!(heard.end().0, FinishReason::Stop);
    }
}

#[tokio::test]
async fn tools_are_called_side_by_side_under_their_own_names() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        let planned = Planned::new()
            .text("Two at once.")
            .call("files_read", &json!({"path": "a"}))
            .call("files_read", &json!({"path": "b"}));
        stage.server.plan(planned);
        let heard = stage.ask(&Request { tools: tools(), ..request("read") }).await;
        let (reason, reply) = heard.end();
        assert_eq!(reason, FinishReason::ToolUse, "{kind:?}");
        let calls: Vec<_> = reply.calls().collect();
        assert_eq!(calls.len(), 2, "{kind:?}: {reply:#?}");
        assert!(calls.iter().all(|call| call.name == "files.read"), "{kind:?}");
        assert_eq!(calls[0].arguments, Ok(json!({"path": "a"})), "{kind:?}");
        assert_eq!(calls[1].arguments, Ok(json!({"path": "b"})), "{kind:?}");
        assert_ne!(calls[0].id, calls[1].id, "{kind:?}");
        let told = heard.events.iter().filter(|event| matches!(event, ModelEvent::ToolCall(_))).count();
        assert_eq!(told, 2, "{kind:?}");
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_come_as_the_text_they_are() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().raw_call("stat", "{\"path\": \"a").raw_call("stat", "{}"));
        let heard = stage.ask(&Request { tools: tools(), ..request("stat") }).await;
        let (reason, reply) = heard.end();
        let calls: Vec<_> = reply.calls().collect();
        assert_eq!(reason, FinishReason::ToolUse, "{kind:?}");
        assert_eq!(calls[0].arguments, Err("{\"path\": \"a".to_owned()), "{kind:?}");
        assert_eq!(calls[1].arguments, Ok(json!({})), "{kind:?}");
    }
}

#[tokio::test]
async fn an_answer_that_may_not_be_longer_says_so() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().text("And so").too_long());
        assert_eq!(stage.ask(&request("hi")).await.end().0, FinishReason::Length, "{kind:?}");
    }
}

#[tokio::test]
async fn ids_of_calls_are_new_in_the_conversation() {
    for kind in [ProviderKind::Gemini, ProviderKind::Ollama] {
        let stage = Stage::new(kind);
        let mut asked = Request { tools: tools(), ..request("stat") };
        let mut ids = std::collections::HashSet::new();
        for _ in 0..2 {
            stage.server.plan(Planned::new().call("stat", &json!({"path": "a"})));
            let (_, reply) = stage.ask(&asked).await.end();
            assert!(reply.calls().all(|call| ids.insert(call.id.clone())), "{kind:?}: {reply:?}");
            asked.messages.push(rethread_assistant::model::Message::Assistant(reply));
        }
        assert_eq!(ids.len(), 2, "{kind:?}");
    }
}

#[tokio::test]
async fn without_a_plan_the_server_says_what_the_prompt_wants() {
    for kind in KINDS {
        let stage = Stage::new(kind);
        let mut asked = Request { tools: tools(), ..request("DELTAS=3") };
        asked.tools[1].name = "bash".to_owned();
        assert_eq!(stage.ask(&asked).await.text(), "t1w000 t1w001 t1w002 ", "{kind:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_with_the_words_that_the_model_has_for_it() {
    let delta = json!({"choices": [{"index": 0, "delta": {"refusal": "I will not."}}]});
    let part = json!({"type": "refusal", "refusal": "I will not."});
    let done = json!({"type": "response.content_part.done", "part": part});
    for (kind, event) in [(ProviderKind::OpenAi, delta), (ProviderKind::OpenAiResponses, done)] {
        let stage = Stage::new(kind);
        stage.server.plan(Planned::new().event(event));
        let heard = stage.ask(&request("hi")).await;
        assert_eq!(heard.text(), "I will not.", "{kind:?}: {heard:?}");
        assert_eq!(heard.end().0, FinishReason::Refusal, "{kind:?}");
    }
    let stage = Stage::new(ProviderKind::Gemini);
    stage.server.plan(Planned::new().event(json!({"promptFeedback": {"blockReason": "SAFETY"}})));
    assert_eq!(stage.ask(&request("hi")).await.end().0, FinishReason::Refusal);
}

#[tokio::test]
async fn a_server_that_says_why_it_stops_need_not_say_that_it_has() {
    let finish = |reason: &str| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let stage = Stage::new(ProviderKind::OpenAi);
    let asked = Planned::new().thought("hm").text("Let me ").text("look.");
    let asked = asked.call("read", &json!({"path": "a"})).call("list", &json!({"path": "b"}));
    stage.server.plan(asked.event(finish("tool_calls")).cut_short());
    let heard = stage.ask(&request("hi")).await;
    assert_eq!((heard.text().as_str(), heard.error.as_ref()), ("Let me look.", None), "{heard:?}");
    let Some(ModelEvent::Finished { reason, reply }) = heard.events.last() else { panic!("{heard:?}") };
    assert_eq!(*reason, FinishReason::ToolUse);
    let calls: Vec<_> = reply.calls().map(|call| (call.name.clone(), call.arguments.clone())).collect();
    let expected = [("read", json!({"path": "a"})), ("list", json!({"path": "b"}))];
    assert_eq!(calls, expected.map(|(name, arguments)| (name.to_owned(), Ok(arguments))));
    stage.server.plan(Planned::new().text("cut").event(finish("length")).cut_short());
    let heard = stage.ask(&request("hi")).await;
    assert!(matches!(heard.events.last(), Some(ModelEvent::Finished { reason: FinishReason::Length, .. })));
}

#[tokio::test]
async fn calls_that_a_server_does_not_number_are_heard() {
    let delta = |calls: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]});
    let call = |name: &str, arguments: &str| json!({"id": "", "type": "function", "function": {"name": name, "arguments": arguments}});
    let stage = Stage::new(ProviderKind::OpenAi);
    let both = delta(json!([call("read", "{\"path\": \"a\"}"), call("list", "{\"pa")]));
    let rest = delta(json!([{"function": {"arguments": "th\": \"b\"}"}}]));
    stage.server.plan(Planned::new().event(both).event(rest));
    let heard = stage.ask(&request("hi")).await;
    let Some(ModelEvent::Finished { reason, reply }) = heard.events.last() else { panic!("{heard:?}") };
    assert_eq!(*reason, FinishReason::ToolUse);
    let calls: Vec<_> = reply.calls().map(|call| (call.name.clone(), call.arguments.clone())).collect();
    let expected = [("read", json!({"path": "a"})), ("list", json!({"path": "b"}))];
    assert_eq!(calls, expected.map(|(name, arguments)| (name.to_owned(), Ok(arguments))));
    let ids: std::collections::HashSet<_> = reply.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 2, "each has an id of its own");
}
