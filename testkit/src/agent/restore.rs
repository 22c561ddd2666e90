//! How a scripted agent restores or forks a session: what it replays, when, and with which ids.

use std::sync::Arc;

use rethread::edge::Version;
use serde_json::{Value, json};

use super::config::{AgentConfig, Forks, Restores};
use super::quirk::Quirk;
use super::serve::{A_MOMENT, choices};
use super::talk::{AgentOutcome, Talk};
use super::updates;

/// How much is replayed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    All,
    Nothing,
}

/// Restores a session that it has, as configured.
pub(super) async fn again(talk: &Arc<Talk>, params: &Value, replay: Replay) -> AgentOutcome {
    let id = params["sessionId"].as_str().unwrap_or_default();
    let config = talk.memory.config();
    let kept = talk.memory.inner().sessions.get(id).cloned();
    let kept = kept.filter(|_| config.restores == Restores::All);
    let Some(kept) = kept else { return Err(unknown(&config, id)) };
    talk.memory.reopened(id);
    if replay == Replay::All {
        replay_all(talk, id, kept.history).await;
    }
    if talk.version() == Version::V2 {
        talk.show(id, updates::state("idle", None)).await;
    }
    Ok(choices(talk, id))
}

/// Forks a session that it has.
pub(super) async fn fork(talk: &Arc<Talk>, params: &Value) -> AgentOutcome {
    let parent = params["sessionId"].as_str().unwrap_or_default();
    let config = talk.memory.config();
    let Some(id) = talk.memory.fork(parent) else { return Err(unknown(&config, parent)) };
    talk.memory.reopened(&id);
    if config.forks == Forks::Replayed {
        let kept = talk.memory.inner().sessions.get(&id).cloned().unwrap_or_default();
        replay_all(talk, &id, kept.history).await;
    }
    let mut answer = choices(talk, &id);
    answer["sessionId"] = json!(id);
    Ok(answer)
}

/// Replays now, after the answer or not at all, as configured.
async fn replay_all(talk: &Arc<Talk>, session: &str, history: Vec<Value>) {
    let config = talk.memory.config();
    if config.has(Quirk::ReplaysNothing) {
        return;
    }
    let history = history.into_iter().map(|update| as_replayed(&config, update)).collect();
    if !config.has(Quirk::ReplaysLate) {
        return tell_again(talk, session, history).await;
    }
    let (talk, session) = (talk.clone(), session.to_owned());
    tokio::spawn(async move {
        tokio::time::sleep(A_MOMENT).await;
        tell_again(&talk, &session, history).await;
    });
}

/// The error for a session that it does not have.
pub(super) fn unknown(config: &AgentConfig, session: &str) -> Value {
    if config.has(Quirk::InternalForUnknown) {
        return json!({"code": -32603, "message": "Internal error"});
    }
    json!({"code": -32002, "message": "no such session", "data": {"sessionId": session}})
}

async fn tell_again(talk: &Talk, session: &str, history: Vec<Value>) {
    for update in history {
        talk.show(session, update).await;
    }
}

/// An update with the ids of a replay.
fn as_replayed(config: &AgentConfig, mut update: Value) -> Value {
    if let (true, Some(members)) = (config.has(Quirk::NoIdsOnReplay), update.as_object_mut()) {
        members.remove("messageId");
    }
    if config.has(Quirk::OtherIdsOnReplay) {
        for name in ["messageId", "toolCallId"] {
            if let Some(id) = update.get(name).and_then(Value::as_str) {
                update[name] = json!(format!("again-{id}"));
            }
        }
    }
    update
}
