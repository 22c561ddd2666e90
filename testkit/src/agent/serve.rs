//! What a scripted agent does with each request. Turns are played in `turn`.

use std::sync::Arc;
use std::time::Duration;

use rethread::edge::Version;
use rethread::transport::Wire;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::End;
use super::config::{Echo, Forks, Login, ReplayIds, Replays, Restores, Speaks};
use super::memory::Memory;
use super::talk::{self, Outcome, Prompt, Taken, Talk};
use super::turn;

/// How long after its answer an agent begins that replays late.
const A_MOMENT: Duration = Duration::from_millis(20);

/// Serves one connection until either side ends it.
pub(super) async fn serve(memory: Arc<Memory>, wire: Wire) -> End {
    let start = memory.begin();
    let (out, lines) = mpsc::channel(1024);
    let mut writing = tokio::spawn(talk::write(wire.writer, lines));
    let out_again = out.clone();
    let talk = Arc::new(Talk::new(memory.clone(), start, out));
    memory.inner().out = Some(out_again);
    let mut crashed = talk.crashed.subscribe();
    let mut reader = BufReader::new(wire.reader).lines();
    // Dropped with this function, and what runs in it with it.
    let mut work = JoinSet::new();
    let end = loop {
        let line = tokio::select! {
            biased;
            _ = crashed.changed() => break End::Crashed,
            line = reader.next_line() => line,
        };
        match line {
            Ok(Some(line)) => hear(&talk, &line, &mut work).await,
            Ok(None) | Err(_) => break End::HungUp,
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
    match (id, method) {
        (Some(id), "session/prompt") => prompt(talk, id, &params, work).await,
        // Left open until it is taken back.
        (Some(_), "_agent/hang") => {}
        (None, "$/cancel_request") => take_back(talk, &params["requestId"]).await,
        (Some(id), _) => {
            let outcome = request(talk, method, &params).await;
            talk.answer(id, outcome).await;
        }
        (None, "session/cancel") => talk.cancel(params["sessionId"].as_str().unwrap_or_default()),
        (None, _) => {}
    }
}

/// A request that was left open is answered, a turn is cancelled.
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
        "session/prompt" => talk.cancel(taken.params["sessionId"].as_str().unwrap_or_default()),
        _ => {}
    }
}

async fn request(talk: &Arc<Talk>, method: &str, params: &Value) -> Outcome {
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
            talk.cancel(params["sessionId"].as_str().unwrap_or_default());
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

fn initialize(talk: &Talk, params: &Value) -> Outcome {
    let config = talk.memory.config();
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
    if let Some(meta) = config.meta {
        answer["_meta"] = meta;
    }
    Ok(answer)
}

fn unsupported(requested: u64, supported: u64) -> Value {
    json!({"code": -32022, "message": "unsupported protocol version",
        "data": {"requested": requested, "supported": [supported]}})
}

fn new(talk: &Talk, params: &Value) -> Outcome {
    let config = talk.memory.config();
    if config.login == Login::Needed && !talk.memory.inner().logged_in {
        return Err(json!({"code": -32000, "message": "log in first"}));
    }
    let id = talk.memory.make(params["cwd"].as_str().unwrap_or_default());
    let mut answer = choices(talk, &id);
    answer["sessionId"] = json!(id);
    Ok(answer)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Replay {
    All,
    Nothing,
}

async fn again(talk: &Arc<Talk>, params: &Value, replay: Replay) -> Outcome {
    let id = params["sessionId"].as_str().unwrap_or_default();
    let config = talk.memory.config();
    let kept = talk.memory.inner().sessions.get(id).cloned();
    let kept = kept.filter(|_| config.restores == Restores::All);
    let Some(kept) = kept else {
        return Err(json!({"code": -32002, "message": "no such session", "data": {"sessionId": id}}));
    };
    talk.memory.reopened(id);
    if replay == Replay::All {
        replay_all(talk, id, kept.history).await;
    }
    if talk.version() == Version::V2 {
        talk.show(id, super::words::state("idle", None)).await;
    }
    Ok(choices(talk, id))
}

async fn fork(talk: &Arc<Talk>, params: &Value) -> Outcome {
    let parent = params["sessionId"].as_str().unwrap_or_default();
    let Some(id) = talk.memory.fork(parent) else {
        return Err(json!({"code": -32002, "message": "no such session", "data": {"sessionId": parent}}));
    };
    talk.memory.reopened(&id);
    if talk.memory.config().forks == Forks::Replayed {
        let kept = talk.memory.inner().sessions.get(&id).cloned().unwrap_or_default();
        replay_all(talk, &id, kept.history).await;
    }
    let mut answer = choices(talk, &id);
    answer["sessionId"] = json!(id);
    Ok(answer)
}

/// Replays now or after the answer, as it is this agent's nature.
async fn replay_all(talk: &Arc<Talk>, session: &str, history: Vec<Value>) {
    let config = talk.memory.config();
    match config.replays {
        Replays::BeforeAnswer => tell_again(talk, session, history, config.replay_ids).await,
        Replays::AfterAnswer => {
            let (talk, session) = (talk.clone(), session.to_owned());
            tokio::spawn(async move {
                tokio::time::sleep(A_MOMENT).await;
                tell_again(&talk, &session, history, config.replay_ids).await;
            });
        }
    }
}

async fn tell_again(talk: &Talk, session: &str, history: Vec<Value>, ids: ReplayIds) {
    for mut update in history {
        if ids == ReplayIds::New {
            rename(&mut update);
        }
        talk.show(session, update).await;
    }
}

fn rename(update: &mut Value) {
    for name in ["messageId", "toolCallId"] {
        if let Some(id) = update.get(name).and_then(Value::as_str) {
            update[name] = json!(format!("again-{id}"));
        }
    }
}

fn choices(talk: &Talk, session: &str) -> Value {
    talk.memory.inner().choices(session, talk.version(), talk.booleans())
}

fn list(talk: &Talk) -> Value {
    let inner = talk.memory.inner();
    let sessions = inner.sessions.iter().map(|(id, kept)| json!({"sessionId": id, "cwd": kept.cwd}));
    json!({"sessions": sessions.collect::<Vec<_>>()})
}

fn choose(talk: &Talk, params: &Value, option: &str, field: &str) -> Result<(), Value> {
    let session = params["sessionId"].as_str().unwrap_or_default();
    if talk.memory.choose(session, option, &params[field]) {
        return Ok(());
    }
    Err(json!({"code": -32602, "message": "no such choice", "data": {"field": field}}))
}

fn set_option(talk: &Talk, params: &Value) -> Outcome {
    choose(talk, params, params["configId"].as_str().unwrap_or_default(), "value")?;
    let session = params["sessionId"].as_str().unwrap_or_default();
    let options = talk.memory.inner().options(session, talk.version(), talk.booleans());
    Ok(json!({"configOptions": options}))
}

/// Cancels one tool call or terminal, if it runs.
async fn stop(talk: &Talk, params: &Value, field: &str) -> Outcome {
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
        let error = json!({"code": -32002, "message": "no such session", "data": {"sessionId": session}});
        return talk.answer(id, Err(error)).await;
    }
    if talk.version() == Version::V1 && talk.busy(&session) {
        let error = json!({"code": -32600, "message": "this agent takes one prompt at a time"});
        return talk.answer(id, Err(error)).await;
    }
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
