//! The script steps that send a request to the client and report its answer.

use rethread::edge::Version;
use serde_json::{Value, json};

use super::talk::AgentOutcome;
use super::turn::{Flow, Turn};
use super::updates;

/// Sends a request. A v2 agent that is cancelled cancels the request and stops waiting; in version 1 the client has to
/// answer.
async fn ask(turn: &mut Turn, method: &str, params: Value) -> Option<AgentOutcome> {
    let (id, mut answered) = turn.talk.ask(method, params).await;
    if turn.version() == Version::V1 {
        return answered.await.ok();
    }
    let cancelled = tokio::select! {
        answer = &mut answered => return answer.ok(),
        _ = turn.cancelled.wait_for(|cancelled| *cancelled) => true,
    };
    if cancelled {
        turn.talk.notify("$/cancel_request", json!({"requestId": id})).await;
    }
    None
}

fn flow(turn: &Turn) -> Flow {
    if *turn.cancelled.borrow() { Flow::Over } else { Flow::On }
}

pub(super) async fn permit(turn: &mut Turn) -> Flow {
    let call = turn.talk.mint("permit");
    let mut announced = updates::tool_begins(turn.version(), &call);
    announced["title"] = json!("Run it");
    turn.update(announced).await;
    let session = turn.session.clone();
    let waits = turn.version() == Version::V2;
    if waits {
        turn.update(updates::state("requires_action", None)).await;
    }
    let params = updates::permission(turn.version(), &session, &call);
    let answer = ask(turn, "session/request_permission", params).await;
    if waits {
        turn.update(updates::state("running", None)).await;
    }
    let outcome = match answer {
        Some(Ok(result)) => match result["outcome"]["optionId"].as_str() {
            Some(option) => format!("selected {option}"),
            None => result["outcome"]["outcome"].as_str().unwrap_or("nothing").to_owned(),
        },
        Some(Err(error)) => format!("error {}", error["code"]),
        None => "withdrawn".to_owned(),
    };
    turn.update(updates::tool_over(&call)).await;
    turn.say("agent_message", &format!("permission: {outcome}")).await;
    flow(turn)
}

pub(super) async fn elicit(turn: &mut Turn) -> Flow {
    let params = updates::elicitation(&turn.session);
    let answer = ask(turn, "elicitation/create", params).await;
    say_answer(turn, "elicited", answer).await;
    flow(turn)
}

pub(super) async fn ext(turn: &mut Turn, method: &str) -> Flow {
    let params = json!({"sessionId": turn.session, "text": "hi", "nested": {"sessionId": "untouched"}});
    let answer = ask(turn, method, params).await;
    say_answer(turn, "echo", answer).await;
    flow(turn)
}

pub(super) async fn take_back(turn: &mut Turn, method: &str) -> Flow {
    let params = match method {
        "session/request_permission" => updates::permission(turn.version(), &turn.session, "call_back"),
        "elicitation/create" => updates::elicitation(&turn.session),
        _ => json!({"sessionId": turn.session}),
    };
    let (id, answered) = turn.talk.ask(method, params).await;
    turn.talk.notify("$/cancel_request", json!({"requestId": id})).await;
    say_answer(turn, "taken back", answered.await.ok()).await;
    flow(turn)
}

pub(super) async fn apart(turn: &mut Turn, method: &str) -> Flow {
    let params = json!({"serverId": "s", "requestId": "r", "method": "tools/list", "params": {}});
    let answer = ask(turn, method, params).await;
    say_answer(turn, "apart", answer).await;
    flow(turn)
}

pub(super) async fn fs(turn: &mut Turn, path: &str) -> Flow {
    if turn.version() == Version::V2 {
        turn.say("agent_message", "file: read by myself").await;
        return flow(turn);
    }
    if !turn.talk.client_takes("fs/readTextFile") {
        turn.say("agent_message", "file: not offered").await;
        return flow(turn);
    }
    let path = absolute(turn, path);
    let answer = ask(turn, "fs/read_text_file", json!({"sessionId": turn.session, "path": path})).await;
    match answer {
        Some(Ok(result)) => {
            let text = result["content"].as_str().unwrap_or_default().to_owned();
            turn.say("agent_message", &format!("file: {text}")).await;
        }
        other => say_answer(turn, "file", other).await,
    }
    flow(turn)
}

pub(super) async fn write(turn: &mut Turn, path: &str, text: &str) -> Flow {
    if turn.version() == Version::V2 {
        turn.say("agent_message", "file: written by myself").await;
        return flow(turn);
    }
    let path = absolute(turn, path);
    let params = json!({"sessionId": turn.session, "path": path, "content": text});
    let answer = ask(turn, "fs/write_text_file", params).await;
    say_answer(turn, "written", answer).await;
    flow(turn)
}

/// A path of the session's working directory, unless it is absolute.
fn absolute(turn: &Turn, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let cwd = turn.talk.memory.inner().sessions.get(&turn.session).map(|kept| kept.cwd.clone());
    format!("{}/{path}", cwd.unwrap_or_default().trim_end_matches('/'))
}

pub(super) async fn term(turn: &mut Turn, line: Option<&str>) -> Flow {
    if turn.version() == Version::V1 && !turn.talk.client_takes("terminal") {
        turn.say("agent_message", "terminal: not offered").await;
        return flow(turn);
    }
    let call = turn.talk.mint("run");
    turn.update(updates::tool_begins(turn.version(), &call)).await;
    match turn.version() {
        Version::V1 => clients_terminal(turn, &call, line).await,
        Version::V2 => own_terminal(turn, &call).await,
    }
    turn.update(updates::tool_over(&call)).await;
    flow(turn)
}

pub(super) async fn term_open(turn: &mut Turn) -> Flow {
    let call = turn.talk.mint("run");
    turn.update(updates::tool_begins(turn.version(), &call)).await;
    match turn.version() {
        Version::V1 => {
            create(turn, &call, None).await;
        }
        Version::V2 => {
            let terminal = turn.talk.mint("term");
            let update = json!({"sessionUpdate": "terminal_update", "terminalId": terminal,
                "command": "sleep 9", "capabilities": {"cancel": {}}});
            turn.update(update).await;
            turn.update(updates::tool_shows(&call, &terminal)).await;
        }
    }
    flow(turn)
}

/// Creates a terminal at the client, and shows it in a tool call.
async fn create(turn: &mut Turn, call: &str, line: Option<&str>) -> Option<String> {
    let (command, args) = match line {
        Some(line) => ("sh", json!(["-c", line])),
        None => ("echo", json!(["hi"])),
    };
    let params = json!({"sessionId": turn.session, "command": command, "args": args, "env": []});
    match ask(turn, "terminal/create", params).await {
        Some(Ok(result)) => {
            let terminal = result["terminalId"].as_str().unwrap_or_default().to_owned();
            turn.update(updates::tool_shows(call, &terminal)).await;
            Some(terminal)
        }
        other => {
            say_answer(turn, "terminal", other).await;
            None
        }
    }
}

pub(super) async fn spawn(turn: &mut Turn, line: &str) -> Flow {
    if turn.version() == Version::V2 {
        turn.say("agent_message", "terminal: left running by myself").await;
        return flow(turn);
    }
    let call = turn.talk.mint("run");
    turn.update(updates::tool_begins(turn.version(), &call)).await;
    turn.left_running = create(turn, &call, Some(line)).await;
    flow(turn)
}

pub(super) async fn kill(turn: &mut Turn) -> Flow {
    let terminal = turn.left_running.clone().unwrap_or_default();
    let named = json!({"sessionId": turn.session, "terminalId": terminal});
    ask(turn, "terminal/kill", named.clone()).await;
    let answer = ask(turn, "terminal/wait_for_exit", named).await;
    say_answer(turn, "killed", answer).await;
    flow(turn)
}

async fn clients_terminal(turn: &mut Turn, call: &str, line: Option<&str>) {
    let session = turn.session.clone();
    let Some(terminal) = create(turn, call, line).await else { return };
    let named = json!({"sessionId": session, "terminalId": terminal});
    let status = ask(turn, "terminal/wait_for_exit", named.clone()).await;
    let output = ask(turn, "terminal/output", named.clone()).await;
    ask(turn, "terminal/release", named).await;
    let code = status.and_then(Result::ok).map(|status| status["exitCode"].clone()).unwrap_or_default();
    let text = output.and_then(Result::ok).and_then(|output| output["output"].as_str().map(str::to_owned));
    let said = format!("terminal: {code} {}", text.unwrap_or_default().trim_end());
    turn.say("agent_message", &said).await;
}

async fn own_terminal(turn: &mut Turn, call: &str) {
    let terminal = turn.talk.mint("term");
    turn.update(json!({"sessionUpdate": "terminal_update", "terminalId": terminal, "command": "echo hi"}))
        .await;
    turn.update(updates::tool_shows(call, &terminal)).await;
    // "hi\n" in two chunks, each encoded separately.
    for data in ["aA==", "aQo="] {
        let chunk = json!({"sessionUpdate": "terminal_output_chunk", "terminalId": terminal, "data": data});
        turn.update(chunk).await;
    }
    let exit = json!({"sessionUpdate": "terminal_update", "terminalId": terminal,
        "exitStatus": {"exitCode": 0}});
    turn.update(exit).await;
    turn.say("agent_message", "terminal: 0 hi").await;
}

async fn say_answer(turn: &Turn, what: &str, answer: Option<AgentOutcome>) {
    let text = match answer {
        Some(Ok(result)) => result.to_string(),
        Some(Err(error)) => format!("error {}", error["code"]),
        None => "withdrawn".to_owned(),
    };
    turn.say("agent_message", &format!("{what}: {text}")).await;
}
