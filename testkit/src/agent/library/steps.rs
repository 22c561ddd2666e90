//! The script steps that the example does not implement itself, and its extension requests.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rethread::author::{Exit, Terminal, Tool, ToolCall, ToolKind, Turn};
use rethread::edge::Version;
use rethread::wire::RpcError;
use rethread_core::Json;
use serde_json::{Value, json};

use super::{CRASH, WAIT};
use crate::agent::script::Aside;
use crate::agent::updates;

/// Does a step that the example leaves to the test kit.
pub async fn aside(turn: &Turn, step: Aside) {
    match step {
        Aside::Chunks(count) => chunks(turn, count, Duration::ZERO).await,
        Aside::Slow(count) => chunks(turn, count, Duration::from_millis(5)).await,
        Aside::Paced(rate, count) => paced(turn, rate, count).await,
        Aside::Plan(entries) => plan(turn, entries).await,
        Aside::ToolOpen(id) => tool_open(turn, &id).await,
        Aside::Unannounced(id) => turn.update(updates::tool_ends(Version::V2, &id)).await,
        Aside::Long => turn.say(&updates::long_text()).await,
        Aside::Usage(used, size) => turn.usage(used, size, None).await,
        Aside::Commands(names) => commands(turn, &names).await,
        Aside::Title(title) => turn.title(&title).await,
        Aside::Notice(text) => turn.notice("warning", &text, None).await,
        Aside::Tell(method) => turn.notify(&method, json!({"text": "told"})).await,
        Aside::Subagent => turn.subagent("A helper").await.say("the child speaks").await,
        Aside::Whole(text) => whole(turn, &text).await,
        Aside::Meta(id) => tell(turn, updates::meta(Version::V2, &id)).await,
        Aside::Compact => compact(turn).await,
        Aside::Unknown(tag) => turn.update(updates::unknown(&tag)).await,
        Aside::Raw(text) => tell(turn, Json::parse(text).ok()).await,
        Aside::Term(_) => term(turn).await,
        Aside::TermOpen => term_open(turn).await,
        Aside::Elicit => elicit(turn).await,
        Aside::Ext(method) => ext(turn, &method).await,
        Aside::Apart(method) => apart(turn, &method).await,
        Aside::TakeBack(method) => take_back(turn, &method).await,
        Aside::Wait(gate) => drop(turn.request_without_session(WAIT, json!({"gate": gate})).await),
        Aside::Abort => turn.cancelled().await,
        Aside::Late(text) => late(turn, &text).await,
        Aside::Deaf => pending().await,
        Aside::Crash => {
            turn.notify(CRASH, json!({})).await;
            pending().await
        }
        Aside::Fs(_) => turn.say("file: read by myself").await,
        Aside::Write(..) => turn.say("file: written by myself").await,
        Aside::Spawn(_) => turn.say("terminal: left running by myself").await,
        Aside::RawOf(session, update) => raw_of(turn, &session, &update).await,
        // Messages always have ids, lines are always messages, and terminals of clients are none of its business.
        Aside::NoId | Aside::Kill | Aside::Print(_) | Aside::Torn => {}
    }
}

/// Answers a request that the protocol does not know.
///
/// # Errors
/// If the test kit does not know it either.
pub async fn extension(method: &str, params: Value) -> Result<Value, RpcError> {
    match method {
        "auth/status" | "providers/list" | "providers/set" | "providers/disable" | "mcp/message"
        | "_agent/echo" => Ok(json!({"method": method, "params": params})),
        // Left open until it is taken back.
        "_agent/hang" => pending().await,
        _ => Err(RpcError::unknown_method(method)),
    }
}

/// An id for what the library has no method of its own for.
fn mint(kind: &str) -> String {
    static COUNTED: AtomicU64 = AtomicU64::new(1);
    format!("{kind}_{}", COUNTED.fetch_add(1, Ordering::Relaxed))
}

async fn tell<U: Into<Json>>(turn: &Turn, updates: impl IntoIterator<Item = U>) {
    for update in updates {
        turn.update(update).await;
    }
}

async fn raw_of(turn: &Turn, session: &str, update: &str) {
    if let Ok(update) = serde_json::from_str::<Value>(update) {
        turn.notify("session/update", json!({"sessionId": session, "update": update})).await;
    }
}

async fn whole(turn: &Turn, text: &str) {
    let content = json!([{"type": "text", "text": text}]);
    turn.update(updates::whole("agent_message", &mint("msg"), content)).await;
}

async fn compact(turn: &Turn) {
    let id = mint("compaction");
    tell(turn, ["in_progress", "completed"].map(|status| updates::compaction(&id, status))).await;
}

async fn chunks(turn: &Turn, count: usize, pause: Duration) {
    let message = turn.message();
    for at in (1..=count).take_while(|_| !turn.is_cancelled()) {
        tokio::time::sleep(pause).await;
        message.write(&if at == 1 { "c1".to_owned() } else { format!(" c{at}") }).await;
    }
}

async fn paced(turn: &Turn, rate: u32, count: usize) {
    let message = turn.message();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    for at in (1..=count).take_while(|_| !turn.is_cancelled()) {
        ticks.tick().await;
        message.write(&updates::paced_text(at)).await;
    }
}

async fn plan(turn: &Turn, entries: Vec<String>) {
    let status = |at: usize| if at == 0 { "completed" } else { "pending" };
    let entries = entries.into_iter().enumerate().map(|(at, entry)| (entry, status(at)));
    turn.plan(&entries.collect::<Vec<_>>()).await;
}

async fn commands(turn: &Turn, names: &[String]) {
    let command = |name: &String| (name.clone(), format!("Does {name}"), Some("what".to_owned()));
    turn.commands(&names.iter().map(command).collect::<Vec<_>>()).await;
}

/// A tool call that ends only when it is cancelled, whatever becomes of the turn.
async fn tool_open(turn: &Turn, id: &str) {
    let call = ToolCall::new("Edit a file", ToolKind::Edit).with_id(id).cancellable();
    let tool = turn.tool(call).await;
    tokio::spawn(async move {
        tool.cancelled().await;
        tool.stopped().await;
    });
}

async fn shown(turn: &Turn, command: &str) -> (Tool, Terminal) {
    let tool = turn.tool(ToolCall::new("Run it", ToolKind::Execute)).await;
    let terminal = turn.terminal(command, "/work").await;
    tool.terminal(&terminal).await;
    (tool, terminal)
}

async fn term(turn: &Turn) {
    let (tool, terminal) = shown(turn, "echo hi").await;
    terminal.write(b"h").await;
    terminal.write(b"i\n").await;
    terminal.exited(&Exit::Code(0)).await;
    turn.say("terminal: 0 hi").await;
    tool.done(Value::Null).await;
}

/// A terminal that ends only when it is cancelled, whatever becomes of the turn.
async fn term_open(turn: &Turn) {
    let (tool, terminal) = shown(turn, "sleep 9").await;
    tokio::spawn(async move {
        terminal.cancelled().await;
        terminal.exited(&Exit::Signal("SIGTERM".to_owned())).await;
        drop(tool);
    });
}

async fn elicit(turn: &Turn) {
    let answer = turn.request("elicitation/create", updates::elicitation(turn.session())).await;
    say_answer(turn, "elicited", answer).await;
}

async fn ext(turn: &Turn, method: &str) {
    let answer = turn.request(method, json!({"text": "hi", "nested": {"sessionId": "untouched"}})).await;
    say_answer(turn, "echo", answer).await;
}

async fn apart(turn: &Turn, method: &str) {
    let params = json!({"serverId": "s", "requestId": "r", "method": "tools/list", "params": {}});
    let answer = turn.request_without_session(method, params).await;
    say_answer(turn, "apart", answer).await;
}

async fn take_back(turn: &Turn, method: &str) {
    let params = match method {
        "session/request_permission" => updates::permission(Version::V2, turn.session(), "call_back"),
        "elicitation/create" => updates::elicitation(turn.session()),
        _ => json!({}),
    };
    let asked = tokio::time::timeout(Duration::ZERO, turn.request(method, params)).await;
    say_answer(turn, "taken back", asked.unwrap_or_else(|_| Err(RpcError::cancelled()))).await;
}

async fn late(turn: &Turn, text: &str) {
    turn.cancelled().await;
    let tool = turn.tool(ToolCall::new("Edit a file", ToolKind::Edit).with_id("late_call")).await;
    tool.done(Value::Null).await;
    turn.say(text).await;
}

async fn say_answer(turn: &Turn, what: &str, answer: Result<Value, RpcError>) {
    let text = match answer {
        Ok(result) => result.to_string(),
        Err(error) => format!("error {}", error.code),
    };
    turn.say(&format!("{what}: {text}")).await;
}
