//! Tests of the requests that providers receive: history with calls and results, images, options, key.

use rethread_assistant::model::{
    Effort, Message, ModelConfig, ProviderKind, Reply, Request, ToolResult, UserPart,
};
use rethread_testkit::model::Planned;
use serde_json::{Value, json};

use super::fixture::{Fixture, KEY, KINDS, request, tools};

/// A turn with a thought and two calls, and the request that follows it.
async fn follow_up(fixture: &Fixture) -> (Reply, Value) {
    let mut asked = Request { system: Some("Be brief.".to_owned()), tools: tools(), ..request("look") };
    let planned = Planned::new()
        .thought("Both.")
        .text("Looking.")
        .call("files_read", &json!({"path": "a"}))
        .call("stat", &json!({"path": "b"}));
    fixture.server.plan(planned);
    let (_, reply) = fixture.ask(&asked).await.end();
    let results = reply.calls().map(|call| ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        text: format!("of {}", call.name),
        images: Vec::new(),
        failed: call.name == "stat",
    });
    let results = results.collect();
    // Encoded and decoded, as from a store.
    let kept = serde_json::to_string(&[Message::Assistant(reply.clone()), Message::Tools(results)])
        .expect("messages are JSON");
    let kept: Vec<Message> = serde_json::from_str(&kept).expect("and come back from it");
    asked.messages.extend(kept);
    fixture.server.plan(Planned::new().text("Seen."));
    assert_eq!(fixture.ask(&asked).await.text(), "Seen.");
    (reply, fixture.body())
}

fn ids(reply: &Reply) -> Vec<String> {
    reply.calls().map(|call| call.id.clone()).collect()
}

#[tokio::test]
async fn chat_gets_the_whole_history() {
    let (reply, body) = follow_up(&Fixture::new(ProviderKind::OpenAi)).await;
    let ids = ids(&reply);
    let call = |id: &str, name: &str, arguments: Value| {
        json!({"type": "function", "id": id,
            "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let expected = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "Looking.", "tool_calls": [
            call(&ids[0], "files_read", json!({"path": "a"})), call(&ids[1], "stat", json!({"path": "b"}))],
            "reasoning_content": "Both."},
        {"role": "tool", "content": "of files.read", "tool_call_id": ids[0]},
        {"role": "tool", "content": "Error: of stat", "tool_call_id": ids[1]}]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["tools"][0]["function"]["name"], "files_read");
}

#[tokio::test]
async fn responses_get_the_whole_history() {
    let (reply, body) = follow_up(&Fixture::new(ProviderKind::OpenAiResponses)).await;
    let ids = ids(&reply);
    let call = |id: &str, name: &str, arguments: Value| json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string()});
    let expected = json!([
        {"role": "user", "content": "look"},
        {"type": "reasoning", "encrypted_content": "signature-1-0", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        call(&ids[0], "files_read", json!({"path": "a"})),
        call(&ids[1], "stat", json!({"path": "b"})),
        {"type": "function_call_output", "call_id": ids[0], "output": "of files.read"},
        {"type": "function_call_output", "call_id": ids[1], "output": "Error: of stat"}]);
    assert_eq!(body["input"], expected);
    assert_eq!(body["instructions"], "Be brief.");
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
}

#[tokio::test]
async fn anthropic_gets_the_whole_history() {
    let (reply, body) = follow_up(&Fixture::new(ProviderKind::Anthropic)).await;
    let ids = ids(&reply);
    let expected = json!([
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Both.", "signature": "signature-1-0"},
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": ids[0], "name": "files_read", "input": {"path": "a"}},
            {"type": "tool_use", "id": ids[1], "name": "stat", "input": {"path": "b"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "content": "of files.read", "tool_use_id": ids[0]},
            {"type": "tool_result", "content": "of stat", "tool_use_id": ids[1], "is_error": true,
                "cache_control": {"type": "ephemeral"}}]}]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["system"], "Be brief.");
}

#[tokio::test]
async fn gemini_gets_the_whole_history() {
    let (reply, body) = follow_up(&Fixture::new(ProviderKind::Gemini)).await;
    let ids = ids(&reply);
    let call = |at: usize, name: &str, args: Value, signature: &str| json!({"functionCall": {"id": ids[at], "name": name, "args": args}, "thoughtSignature": signature});
    let result = |at: usize, name: &str, text: &str| {
        json!({"functionResponse": {"id": ids[at], "name": name,
            "response": {"name": name, "content": text}}})
    };
    let expected = json!([
        {"role": "user", "parts": [{"text": "look"}]},
        {"role": "model", "parts": [
            {"text": "Looking."},
            call(0, "files_read", json!({"path": "a"}), "signature-1-2"),
            call(1, "stat", json!({"path": "b"}), "signature-1-3")]},
        {"role": "user", "parts": [
            result(0, "files_read", "of files.read"), result(1, "stat", "Error: of stat")]}]);
    assert_eq!(body["contents"], expected);
    assert_eq!(body["systemInstruction"]["parts"][0]["text"], "Be brief.");
}

#[tokio::test]
async fn ollama_gets_the_whole_history() {
    let (_, body) = follow_up(&Fixture::new(ProviderKind::Ollama)).await;
    let call = |name: &str, arguments: Value| json!({"function": {"name": name, "arguments": arguments}});
    let expected = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "Looking.", "tool_calls": [
            call("files_read", json!({"path": "a"})), call("stat", json!({"path": "b"}))]},
        {"role": "tool", "content": "of files.read"},
        {"role": "tool", "content": "Error: of stat"}]);
    assert_eq!(body["messages"], expected);
}

#[tokio::test]
async fn another_models_thoughts_stay_out_and_calls_without_results_get_one() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        let (mut reply, _) = follow_up(&fixture).await;
        reply.model = "other/model".to_owned();
        let mut asked = Request { tools: tools(), ..request("look") };
        asked.messages.extend([Message::Assistant(reply), Message::user("and?")]);
        fixture.server.plan(Planned::new().text("Well."));
        assert_eq!(fixture.ask(&asked).await.text(), "Well.", "{kind:?}");
        let body = fixture.body().to_string();
        assert!(!body.contains("signature-1") && !body.contains("Both."), "{kind:?}: {body}");
        assert_eq!(body.matches("This call was not carried out.").count(), 2, "{kind:?}: {body}");
    }
}

#[tokio::test]
async fn temperature_and_limits_are_sent() {
    for (kind, temperature, limit) in [
        (ProviderKind::OpenAi, "/temperature", "/max_tokens"),
        (ProviderKind::OpenAiResponses, "/temperature", "/max_output_tokens"),
        (ProviderKind::Anthropic, "/temperature", "/max_tokens"),
        (ProviderKind::Gemini, "/generationConfig/temperature", "/generationConfig/maxOutputTokens"),
        (ProviderKind::Ollama, "/options/temperature", "/options/num_predict"),
    ] {
        let fixture = Fixture::new(kind);
        let asked = Request { temperature: Some(0.25), max_output: Some(700), ..request("hi") };
        fixture.ask(&asked).await.end();
        let body = fixture.body();
        assert_eq!(body.pointer(temperature), Some(&json!(0.25)), "{kind:?}: {body}");
        assert_eq!(body.pointer(limit), Some(&json!(700)), "{kind:?}: {body}");
        let firm = Fixture::with(kind, |config| config.models[0].takes_temperature = Some(false));
        firm.ask(&asked).await.end();
        assert_eq!(firm.body().pointer(temperature), None, "{kind:?}");
    }
}

#[tokio::test]
async fn the_thought_level_is_sent_as_each_model_wants_it() {
    let cases = [
        (ProviderKind::OpenAi, "loopback-1", "/reasoning_effort", json!("high")),
        (ProviderKind::OpenAiResponses, "loopback-1", "/reasoning/effort", json!("high")),
        (ProviderKind::Anthropic, "loopback-1", "/thinking/budget_tokens", json!(24_000)),
        (ProviderKind::Anthropic, "claude-opus-5-5", "/output_config/effort", json!("high")),
        (
            ProviderKind::Gemini,
            "loopback-1",
            "/generationConfig/thinkingConfig/thinkingBudget",
            json!(24_000),
        ),
        (
            ProviderKind::Gemini,
            "gemini-3.1-pro-preview",
            "/generationConfig/thinkingConfig/thinkingLevel",
            json!("HIGH"),
        ),
        (ProviderKind::Ollama, "loopback-1", "/think", json!("high")),
    ];
    for (kind, model, at, value) in cases {
        let fixture = Fixture::new(kind);
        let asked = Request { model: format!("here/{model}"), effort: Some(Effort::High), ..request("hi") };
        fixture.ask(&asked).await.end();
        assert_eq!(fixture.body().pointer(at), Some(&value), "{kind:?} {model}: {}", fixture.body());
        fixture.ask(&Request { effort: None, ..asked.clone() }).await.end();
        assert_eq!(fixture.body().pointer(at), None, "{kind:?} {model}: {}", fixture.body());
        fixture.ask(&Request { effort: Some(Effort::Off), ..asked }).await.end();
        assert_ne!(fixture.body().pointer(at), Some(&value), "{kind:?} {model}: {}", fixture.body());
    }
}

#[tokio::test]
async fn a_name_that_looks_like_a_thought_level_is_left_alone() {
    for kind in KINDS {
        let fixture = Fixture::with(kind, |config| config.models = vec![ModelConfig::new("qwen-max")]);
        fixture.ask(&Request { model: "here/qwen-max".to_owned(), ..request("hi") }).await.end();
        let asked = fixture.server.asked().pop().unwrap();
        let named = asked.body["model"] == "qwen-max" || asked.path.contains("/qwen-max:");
        assert!(named, "{kind:?}: {} {}", asked.path, asked.body);
        let body = asked.body.to_string();
        assert!(!body.contains("effort") && !body.contains("thinking"), "{kind:?}: {body}");
    }
}

#[tokio::test]
async fn images_and_resources_are_sent() {
    for kind in KINDS {
        let fixture = Fixture::new(kind);
        let parts = vec![
            UserPart::Text("what is this?".to_owned()),
            UserPart::Image { mime: "image/png".to_owned(), data: "aGVsbG8=".to_owned() },
            UserPart::Resource { uri: "file:///a.txt".to_owned(), text: "its text".to_owned() },
        ];
        fixture.ask(&Request { messages: vec![Message::User(parts)], ..request("") }).await.end();
        let body = fixture.body().to_string();
        for piece in ["what is this?", "aGVsbG8=", "file:///a.txt", "its text"] {
            assert!(body.contains(piece), "{kind:?}: {body}");
        }
    }
}

#[tokio::test]
async fn the_key_is_sent_as_each_provider_wants_it_and_left_out_if_there_is_none() {
    let bearer = format!("Bearer {KEY}");
    for (kind, header, value) in [
        (ProviderKind::OpenAi, "authorization", bearer.as_str()),
        (ProviderKind::OpenAiResponses, "authorization", &bearer),
        (ProviderKind::Anthropic, "x-api-key", KEY),
        (ProviderKind::Gemini, "x-goog-api-key", KEY),
        (ProviderKind::Ollama, "authorization", &bearer),
    ] {
        let fixture = Fixture::new(kind);
        fixture.ask(&request("hi")).await.end();
        assert_eq!(fixture.server.asked()[0].header(header), Some(value), "{kind:?}");
        let open = Fixture::with(kind, |config| config.key = None);
        open.ask(&request("hi")).await.end();
        assert_eq!(open.server.asked()[0].header(header), None, "{kind:?}");
        assert_eq!(open.server.asked()[0].path, fixture.server.asked()[0].path, "{kind:?}");
    }
}
