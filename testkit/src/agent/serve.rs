//! Handles the requests to a scripted agent. Turns are run in `turn`, sessions restored in `restore`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use rethread::edge::Version;
use rethread::transport::Wire;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::End;
use super::config::{AgentConfig, Echo, Login, Speaks};
use super::memory::Memory;
use super::quirk::{GREETING, Quirk, SHORT_LIST, UNKNOWN_REQUEST};
use super::restore::{Replay, again, fork, unknown};
use super::talk::{self, AgentOutcome, Prompt, Taken, Talk};
use super::{script, turn, updates};

/// How long a late replay comes after its answer, and a slow answer after its request.
pub(super) const A_MOMENT: Duration = Duration::from_millis(20);

/// Serves one connection until either side ends it.
pub(super) async fn serve(memory: Arc<Memory>, wire: Wire) -> End {
    let start = memory.begin();
    let (out, lines) = mpsc::channel(1024);
    let mut writing = tokio::spawn(talk::write(wire.writer, lines));
    let out_again = out.clone();
    let talk = Arc::new(Talk::new(memory.clone(), start, out));
    memory.inner().out = Some(out_again);
    let mut crashed = talk.crashed.subscribe();
    if memory.config().has(Quirk::Greets) {
        for line in GREETING {
            talk.print(line.to_owned()).await;
        }
    }
    let mut reader = BufReader::new(wire.reader).lines();
    // Dropped with this function, which ends all work.
    let mut work = JoinSet::new();
    let end = loop {
        let line = tokio::select! {
            biased;
            _ = crashed.changed() => break End::Crashed,
            line = reader.next_line() => line,
        };
        match line {
            Ok(Some(line)) => hear(&talk, &line, &mut work).await,
            Ok(None) | Err(_) => break End::Disconnected,
        }
    };
    drop(work);
    talk.end().await;
    drop(talk);
    let _ = tokio::time::timeout(crate::DEADLINE, &mut writing).await;
    memory.end();
    end
}

async fn hear(talk: &Arc<Talk>, line: &str, work: &mut JoinSet<()>) {
    let Ok(message) = serde_json::from_str::<Value>(line) else { return };
    let id = message.get("id").cloned();
    talk.memory.record(talk.start, &message);
    let Some(method) = message["method"].as_str() else {
        let outcome = match message.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(message["result"].clone()),
        };
        return talk.answered(&message["id"], outcome);
    };
    let params = message["params"].clone();
    let config = talk.memory.config();
    if config.has(Quirk::InitializeFirst) && method != "initialize" && !talk.is_initialized() {
        return talk.crash().await;
    }
    match (id, method) {
        (Some(_), "initialize") if config.has(Quirk::MuteOnInitialize) => {}
        (Some(id), _) if takes_its_time(&config, method) => {
            work.spawn(answer_slowly(talk.clone(), id, method.to_owned(), params));
        }
        (Some(id), "session/prompt") => prompt(talk, id, &params, work).await,
        // Left open until it is cancelled.
        (Some(_), "_agent/hang") => {}
        (Some(_), "session/set_mode" | "session/set_model" | "session/set_config_option")
            if config.has(Quirk::MuteOnOptions) => {}
        (None, "$/cancel_request") => take_back(talk, &params["requestId"]).await,
        (Some(id), _) => {
            let outcome = request(talk, method, &params).await;
            talk.answer(id, outcome).await;
        }
        (None, "session/cancel") => talk.cancel(params["sessionId"].as_str().unwrap_or_default()).await,
        (None, _) => {}
    }
}

/// Such a request is answered while others are read.
fn takes_its_time(config: &AgentConfig, method: &str) -> bool {
    let opens = matches!(method, "initialize" | "session/new" | "session/load" | "session/resume");
    (config.has(Quirk::AsksTheUnknown) && opens)
        || (config.has(Quirk::InitializeFirst) && method == "initialize")
}

async fn answer_slowly(talk: Arc<Talk>, id: Value, method: String, params: Value) {
    tokio::time::sleep(A_MOMENT).await;
    let outcome = request(&talk, &method, &params).await;
    if talk.memory.config().has(Quirk::AsksTheUnknown) {
        let made = outcome.as_ref().ok().and_then(|made| made.get("sessionId"));
        let session = made.or_else(|| params.get("sessionId"));
        let of_session = session.map(|session| json!({"sessionId": session}));
        for params in std::iter::once(json!({})).chain(of_session) {
            let (_, answered) = talk.ask(UNKNOWN_REQUEST, params).await;
            let _ = answered.await;
        }
    }
    talk.answer(id, outcome).await;
}

/// Answers a request that was left open, or cancels a turn.
async fn take_back(talk: &Talk, id: &Value) {
    let taken = {
        let inner = talk.memory.inner();
        let mut here = inner.received.iter().filter(|received| received.start == talk.start);
        here.find(|received| received.id.as_ref() == Some(id)).cloned()
    };
    let Some(taken) = taken else { return };
    match taken.method.as_str() {
        "_agent/hang" => {
            let error = json!({"code": -32800, "message": "request cancelled"});
            talk.answer(id.clone(), Err(error)).await;
        }
        "session/prompt" => talk.cancel(taken.params["sessionId"].as_str().unwrap_or_default()).await,
        _ => {}
    }
}

async fn request(talk: &Arc<Talk>, method: &str, params: &Value) -> AgentOutcome {
    let outcome = carry_out(talk, method, params).await;
    let config = talk.memory.config();
    let told_anyway =
        matches!(method, "initialize" | "session/new" | "session/list" | "session/set_config_option");
    match outcome {
        Ok(_) if !told_anyway && (config.has(Quirk::AnswersNull) || config.has(Quirk::AnswersNothing)) => {
            Ok(Value::Null)
        }
        other => other,
    }
}

async fn carry_out(talk: &Arc<Talk>, method: &str, params: &Value) -> AgentOutcome {
    match method {
        "initialize" => initialize(talk, params),
        "session/new" => new(talk, params),
        "session/load" if can(talk, "load") => again(talk, params, Replay::All).await,
        "session/resume" if can(talk, "resume") => {
            let replay = if params["replayFrom"].is_object() { Replay::All } else { Replay::Nothing };
            again(talk, params, replay).await
        }
        "session/fork" if can(talk, "fork") => fork(talk, params).await,
        "session/list" if can(talk, "list") => Ok(list(talk)),
        "session/close" if can(talk, "close") => {
            talk.cancel(params["sessionId"].as_str().unwrap_or_default()).await;
            Ok(json!({}))
        }
        "session/delete" if can(talk, "delete") => {
            let id = params["sessionId"].as_str().unwrap_or_default();
            talk.memory.inner().sessions.remove(id);
            Ok(json!({}))
        }
        "session/set_mode" => choose(talk, params, "mode", "modeId").map(|()| json!({})),
        "session/set_model" => choose(talk, params, "model", "modelId").map(|()| json!({})),
        "session/set_config_option" => set_option(talk, params),
        "authenticate" | "auth/login" => {
            talk.memory.inner().logged_in = true;
            Ok(json!({}))
        }
        "logout" | "auth/logout" => {
            talk.memory.inner().logged_in = false;
            Ok(json!({}))
        }
        "tool_call/cancel" if can(talk, "cancelOne") => stop(talk, params, "toolCallId").await,
        "terminal/cancel" if can(talk, "cancelOne") => stop(talk, params, "terminalId").await,
        "auth/status" | "providers/list" | "providers/set" | "providers/disable" | "mcp/message" => {
            Ok(json!({"method": method, "params": params}))
        }
        "_agent/echo" => Ok(json!({"method": method, "params": params})),
        _ => Err(json!({"code": -32601, "message": "method not found", "data": {"method": method}})),
    }
}

fn can(talk: &Talk, ability: &str) -> bool {
    let always = talk.version() == Version::V2 && matches!(ability, "resume" | "list" | "close");
    always || talk.memory.inner().config.can(ability)
}

fn initialize(talk: &Talk, params: &Value) -> AgentOutcome {
    let config = talk.memory.config();
    if config.has(Quirk::RefusesInitialize) {
        return Err(json!({"code": -32603, "message": "license expired", "data": {"since": "May"}}));
    }
    let offered = params["protocolVersion"].as_u64().unwrap_or(0);
    let version = match (config.speaks, offered) {
        (Speaks::One, _) | (Speaks::OneStrictly | Speaks::Both, 1) => Version::V1,
        (Speaks::Two | Speaks::Both, 2..) => Version::V2,
        (Speaks::OneStrictly, _) => return Err(unsupported(offered, 1)),
        (Speaks::Two | Speaks::Both, _) => return Err(unsupported(offered, 2)),
    };
    talk.agreed(version, params.clone());
    let mut answer = match version {
        Version::V1 => config.answer_v1(),
        Version::V2 => config.answer_v2(),
    };
    if config.has(Quirk::EchoesVersion) || config.has(Quirk::EchoesVersionWithInfo) {
        answer["protocolVersion"] = json!(offered);
    }
    if config.has(Quirk::EchoesVersionWithInfo) {
        answer["info"] = answer["agentInfo"].clone();
    }
    if let Some(meta) = config.meta {
        answer["_meta"] = meta;
    }
    let takes_terminal_login = params["clientCapabilities"]["auth"]["terminal"] == true
        || params["capabilities"]["auth"]["terminal"].is_object();
    if let (false, Some(methods)) = (takes_terminal_login, answer["authMethods"].as_array_mut()) {
        methods.retain(|method| method["type"] != "terminal");
    }
    Ok(answer)
}

fn unsupported(requested: u64, supported: u64) -> Value {
    json!({"code": -32022, "message": "unsupported protocol version",
        "data": {"requested": requested, "supported": [supported]}})
}

fn new(talk: &Arc<Talk>, params: &Value) -> AgentOutcome {
    let config = talk.memory.config();
    if matches!(config.login, Login::Needed | Login::OnTerminal) && !talk.memory.inner().logged_in {
        return Err(log_in_first());
    }
    let first = talk.memory.inner().sessions.keys().next().cloned();
    let id = match first.filter(|_| config.has(Quirk::OneSessionId)) {
        Some(first) => first,
        None => talk.memory.make(params["cwd"].as_str().unwrap_or_default()),
    };
    if config.has(Quirk::AsksWhenOpened) {
        tokio::spawn(ask_outside(talk.clone(), id.clone()));
    }
    let mut answer = choices(talk, &id);
    answer["sessionId"] = json!(id);
    Ok(answer)
}

/// Asks for a permission outside of any turn, and says what was answered.
async fn ask_outside(talk: Arc<Talk>, session: String) {
    tokio::time::sleep(10 * A_MOMENT).await;
    let params = updates::permission(talk.version(), &session, "trust");
    let (_, answered) = talk.ask("session/request_permission", params).await;
    let chosen = match answered.await {
        Ok(Ok(result)) => result["outcome"]["optionId"].as_str().unwrap_or("nothing").to_owned(),
        Ok(Err(_)) | Err(_) => "an error".to_owned(),
    };
    let id = talk.mint("msg");
    let content = json!({"type": "text", "text": format!("trust: {chosen}")});
    let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": content});
    talk.update(&session, update).await;
}

fn log_in_first() -> Value {
    json!({"code": -32000, "message": "log in first"})
}

pub(super) fn choices(talk: &Talk, session: &str) -> Value {
    talk.memory.inner().choices(session, talk.version(), talk.booleans())
}

fn list(talk: &Talk) -> Value {
    let inner = talk.memory.inner();
    let most = if inner.config.has(Quirk::ShortList) { SHORT_LIST } else { usize::MAX };
    let sessions = inner.sessions.iter().take(most);
    let sessions = sessions.map(|(id, kept)| json!({"sessionId": id, "cwd": kept.cwd}));
    json!({"sessions": sessions.collect::<Vec<_>>()})
}

fn choose(talk: &Talk, params: &Value, option: &str, field: &str) -> Result<(), Value> {
    let session = params["sessionId"].as_str().unwrap_or_default();
    if talk.memory.choose(session, option, &params[field]) {
        return Ok(());
    }
    Err(json!({"code": -32602, "message": "no such choice", "data": {"field": field}}))
}

fn set_option(talk: &Talk, params: &Value) -> AgentOutcome {
    choose(talk, params, params["configId"].as_str().unwrap_or_default(), "value")?;
    let session = params["sessionId"].as_str().unwrap_or_default();
    let options = talk.memory.inner().options(session, talk.version(), talk.booleans());
    Ok(json!({"configOptions": options}))
}

/// Cancels one tool call or terminal, if it runs.
async fn stop(talk: &Talk, params: &Value, field: &str) -> AgentOutcome {
    let (session, id) = (params["sessionId"].as_str().unwrap_or_default(), &params[field]);
    if !talk.memory.is_open(session, field, id) {
        return Err(json!({"code": -32602, "message": "nothing to cancel", "data": {"field": field}}));
    }
    let update = match field {
        "toolCallId" => json!({"sessionUpdate": "tool_call_update", field: id, "status": "cancelled"}),
        _ => json!({"sessionUpdate": "terminal_update", field: id, "exitStatus": {"signal": "SIGTERM"}}),
    };
    talk.update(session, update).await;
    Ok(json!({}))
}

async fn prompt(talk: &Arc<Talk>, id: Value, params: &Value, work: &mut JoinSet<()>) {
    let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
    if !talk.memory.inner().sessions.contains_key(&session) {
        return talk.answer(id, Err(unknown(&talk.memory.config(), &session))).await;
    }
    let logs_in = talk.memory.config().login == Login::OnTerminalToPrompt;
    if logs_in && !talk.memory.inner().logged_in {
        return talk.answer(id, Err(log_in_first())).await;
    }
    if talk.version() == Version::V1 && talk.busy(&session) {
        disturb(talk, &session).await;
        let error = json!({"code": -32600, "message": "this agent takes one prompt at a time"});
        return talk.answer(id, Err(error)).await;
    }
    log_prompt(&talk.memory.config(), params);
    let message = talk.mint("user");
    let prompt = Prompt { request: id, message, content: params["prompt"].clone() };
    let echo = talk.memory.config().echo;
    if talk.version() == Version::V2 && matches!(echo, Echo::AtGate | Echo::AtGateDeaf) {
        work.spawn(prompt_at_gate(talk.clone(), session, prompt, echo));
        return;
    }
    talk.expect(&session);
    turn::acknowledge(talk, &session, &prompt).await;
    if let Taken::Starts(cancelled) = talk.take(&session, prompt) {
        work.spawn(turn::play(talk.clone(), session, cancelled));
    }
}

/// Adds a prompt to the file for that, if there is one: as one write, which other processes do not tear.
fn log_prompt(config: &AgentConfig, params: &Value) {
    let Some(path) = &config.prompt_log else { return };
    let content = params["prompt"].as_array().map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> = content
        .iter()
        .filter(|block| !script::is_transcript(block))
        .filter_map(|block| block["text"].as_str())
        .collect();
    let line = format!("{}\n", json!({"session": params["sessionId"], "text": texts.join("\n")}));
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("the file can be written");
    file.write_all(line.as_bytes()).expect("the file can be written");
}

/// What a second prompt does to the first.
async fn disturb(talk: &Talk, session: &str) {
    let config = talk.memory.config();
    if config.has(Quirk::SecondCancelsFirst) {
        talk.cancel(session).await;
    }
    if config.has(Quirk::SecondFailsFirst) {
        talk.fail(session);
    }
}

async fn prompt_at_gate(talk: Arc<Talk>, session: String, prompt: Prompt, echo: Echo) {
    let taken_back = talk.hold(&session);
    let opened = tokio::select! {
        () = talk.memory.gate("acknowledge") => true,
        _ = taken_back, if echo == Echo::AtGate => false,
    };
    if !opened {
        let error = json!({"code": -32800, "message": "request cancelled"});
        return talk.answer(prompt.request, Err(error)).await;
    }
    turn::acknowledge(&talk, &session, &prompt).await;
    if let Taken::Starts(cancelled) = talk.take(&session, prompt) {
        turn::play(talk, session, cancelled).await;
    }
}
