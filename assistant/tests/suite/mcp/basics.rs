//! Tests that run on every transport: lists, calls, errors, prompts, resources, cancellation.

use rethread_assistant::mcp::{CallError, Content, PromptMessage, ServerConfig, Servers};
use rethread_testkit::mcp::{Habit, Kind, WebServer};
use serde_json::json;

use super::fixture::{call, connected, echo, said, stdio, web};

#[tokio::test]
async fn over_stdio() {
    everything(stdio("s", &[], &[])).await;
}

#[tokio::test]
async fn over_streamable_http() {
    let server = WebServer::start(Kind::Streamable, &[], None).await;
    everything(web("s", Kind::Streamable, &server, &[])).await;
}

#[tokio::test]
async fn over_streamable_http_with_events() {
    let server = WebServer::start(Kind::Streamable, &[Habit::PrefersEvents], None).await;
    everything(web("s", Kind::Streamable, &server, &[])).await;
}

#[tokio::test]
async fn over_sse() {
    let server = WebServer::start(Kind::Sse, &[], None).await;
    everything(web("s", Kind::Sse, &server, &[])).await;
}

async fn everything(config: ServerConfig) {
    let servers = connected(vec![config]).await;
    tools_are_listed(&servers);
    tools_are_called(&servers).await;
    errors_are_reported(&servers).await;
    prompts_and_resources(&servers).await;
    questions_are_answered(&servers).await;
    changes_are_followed(&servers).await;
    a_call_is_cancelled(&servers).await;
    assert_eq!(servers.notes(), []);
    servers.close().await;
    let closed = call(&servers, "s.echo", json!({})).await.expect_err("it must fail");
    assert_eq!(closed.to_string(), "MCP server s is no longer available: the session is closed");
}

fn tools_are_listed(servers: &Servers) {
    let tools = servers.tools();
    assert_eq!(tools.len(), 17, "both pages");
    let echo = &tools[0];
    assert_eq!((echo.shown_name.as_str(), echo.provider_name.as_str()), ("s.echo", "s__echo"));
    assert_eq!((echo.server.as_str(), echo.description.as_str()), ("s", "Does echo."));
    assert_eq!(echo.schema["properties"]["text"]["type"], "string");
    assert!(echo.claims_read_only && !tools[1].claims_read_only);
    assert_eq!(servers.instructions(), [("s".to_owned(), "Say please.".to_owned())]);
}

async fn tools_are_called(servers: &Servers) {
    assert_eq!(echo(servers, "s").await, "hello");
    assert_eq!(said(servers, "s__echo", json!({"text": "by the other name"})).await, "by the other name");
    assert_eq!(said(servers, "s.progress", json!(null)).await, "done");
    let image = call(servers, "s.image", json!({})).await.expect("it works");
    let picture = Content::Image { mime_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    assert_eq!((image.content, image.structured), (vec![picture], Some(json!({"width": 1}))));
    let failed = call(servers, "s.fail", json!({})).await.expect("it works");
    assert!(failed.is_error);
    assert_eq!(failed.content, [Content::Text("it failed".into())]);
}

async fn errors_are_reported(servers: &Servers) {
    let refused = call(servers, "s.refuse", json!({"text": "not so"})).await.expect_err("it must fail");
    assert_eq!(refused.to_string(), "MCP server s returned an error: not so (-32602)");
    let nonsense = call(servers, "s.nonsense", json!({})).await.expect_err("it must fail");
    assert_eq!(nonsense.to_string(), "MCP server s sent an invalid answer to tools/call: 7");
    let unknown = call(servers, "s.nothing", json!({})).await.expect_err("it must fail");
    assert_eq!(unknown.to_string(), "no MCP server has a tool s.nothing");
    let arguments = call(servers, "s.echo", json!([1])).await.expect_err("it must fail");
    assert_eq!(arguments.to_string(), "the arguments of s.echo must be a JSON object");
}

async fn prompts_and_resources(servers: &Servers) {
    let prompt = servers.prompts().remove(0);
    assert_eq!((prompt.shown_name.as_str(), prompt.description.as_str()), ("s.greet", "Greets."));
    assert!(prompt.arguments[0].is_required && prompt.arguments[0].name == "who");
    let who = json!({"who": "Ada"}).as_object().expect("it is one").clone();
    let messages = servers.get_prompt("s", "greet", who, std::future::pending()).await.expect("it works");
    assert_eq!(
        messages,
        [PromptMessage { role: "user".into(), content: Content::Text("Greet Ada.".into()) }]
    );
    let resource = servers.resources().remove(0);
    assert_eq!((resource.uri.as_str(), resource.title.as_str()), ("test://one", "one"));
    let contents = servers.read_resource("s", &resource.uri, std::future::pending()).await.expect("it works");
    let (uri, mime_type) = ("test://one".to_owned(), Some("text/plain".to_owned()));
    assert_eq!(contents, [Content::TextResource { uri, mime_type, text: "first".into() }]);
    let missing =
        servers.read_resource("s", "test://two", std::future::pending()).await.expect_err("it must fail");
    assert_eq!(missing.to_string(), "MCP server s returned an error: no such resource (-32002)");
}

async fn questions_are_answered(servers: &Servers) {
    let roots = said(servers, "s.roots", json!({})).await;
    assert!(roots.contains(r#""uri":"file:///with%20space""#), "{roots}");
    assert!(roots.contains(r#""name":"with space""#), "{roots}");
    let sampling = said(servers, "s.sample", json!({})).await;
    assert!(sampling.contains("-32601"), "{sampling}");
    let elicitation = said(servers, "s.elicit", json!({})).await;
    assert!(elicitation.contains(r#""action":"decline""#), "{elicitation}");
}

async fn changes_are_followed(servers: &Servers) {
    let mut changes = servers.changes();
    changes.borrow_and_update();
    assert_eq!(said(servers, "s.grow", json!({})).await, "grown");
    let changed = tokio::time::timeout(rethread_testkit::DEADLINE, changes.changed()).await;
    changed.expect("the change is reported in time").expect("the servers are there");
    assert!(servers.tools().iter().any(|tool| tool.shown_name == "s.grown_0"));
}

async fn a_call_is_cancelled(servers: &Servers) {
    let soon = tokio::time::sleep(std::time::Duration::from_millis(50));
    let cancelled = servers.call("s.hang", json!({}), soon).await.expect_err("it must fail");
    assert_eq!(cancelled, CallError::Cancelled { server: "s".into() });
    let messages = said(servers, "s.cancelled", json!({})).await;
    assert_eq!(
        messages.matches(|c: char| c.is_ascii_digit()).count().min(1),
        1,
        "the request is named: {messages}"
    );
}
