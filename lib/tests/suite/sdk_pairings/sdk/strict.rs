//! Reads what Rethread wrote with the types of the protocol, and looks for anything that they do not know: a
//! member that is lost on the way through a type was ignored by whoever uses that type.

use std::collections::HashMap;

use agent_client_protocol::{v1::schema as v1, v2::schema as v2};
use rethread::edge::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::tap::{Speaker, Tap};

/// Who an SDK peer is to Rethread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Agent,
}

/// Checks every line of a tap. Says how many `session/update` Rethread wrote.
pub(crate) fn check(tap: &Tap, role: Role, version: Version) -> usize {
    let mut asked: HashMap<(usize, String), String> = HashMap::new();
    let mut updates = 0;
    for (connection, speaker, line) in tap.all() {
        let method = line["method"].as_str();
        match (speaker, method) {
            (Speaker::Rethread, Some(method)) => {
                updates += usize::from(method == "session/update");
                said(role, version, method, &line["params"]);
            }
            (Speaker::Sdk, Some(method)) => {
                asked.insert((connection, line["id"].to_string()), method.to_owned());
            }
            (Speaker::Rethread, None) => {
                let method = &asked[&(connection, line["id"].to_string())];
                assert!(line.get("error").is_none(), "{method}: {line}");
                answered(version, method, &line["result"]);
            }
            // The one refusal that is meant: an agent that has lost the session.
            (Speaker::Sdk, None) => {
                let lost = line["error"]["code"] == -32002;
                let version = line["error"]["code"] == -32602 || line["error"]["code"] == -32022;
                assert!(
                    line.get("error").is_none() || (role == Role::Agent && (lost || version)),
                    "the SDK refused: {line}"
                );
            }
        }
    }
    updates
}

fn said(role: Role, version: Version, method: &str, params: &Value) {
    match (role, version, method) {
        (Role::Client, Version::V1, "session/update") => whole::<v1::SessionNotification>(method, params),
        (Role::Client, Version::V2, "session/update") => {
            whole::<v2::UpdateSessionNotification>(method, params)
        }
        (Role::Client, Version::V1, "session/request_permission") => {
            whole::<v1::RequestPermissionRequest>(method, params);
        }
        (Role::Client, Version::V2, "session/request_permission") => {
            whole::<v2::RequestPermissionRequest>(method, params);
        }
        (Role::Agent, Version::V1, "initialize") if params["protocolVersion"] == 1 => {
            whole::<v1::InitializeRequest>(method, params);
        }
        (Role::Agent, Version::V2, "initialize") if params["protocolVersion"] == 2 => {
            // The members of the older version are for an agent that only knows them.
            let mut own = params.clone();
            own.as_object_mut().unwrap().retain(|name, _| !name.starts_with("client"));
            whole::<v2::InitializeRequest>(method, &own);
        }
        // An offer of the other version, which the agent may read as it likes.
        (Role::Agent, _, "initialize") => {}
        (Role::Agent, Version::V1, "session/new") => whole::<v1::NewSessionRequest>(method, params),
        (Role::Agent, Version::V2, "session/new") => whole::<v2::NewSessionRequest>(method, params),
        (Role::Agent, Version::V2, "session/resume") => whole::<v2::ResumeSessionRequest>(method, params),
        (Role::Agent, Version::V2, "session/close") => whole::<v2::CloseSessionRequest>(method, params),
        (Role::Agent, Version::V1, "session/prompt") => whole::<v1::PromptRequest>(method, params),
        (Role::Agent, Version::V2, "session/prompt") => whole::<v2::PromptRequest>(method, params),
        (Role::Agent, Version::V1, "session/cancel") => whole::<v1::CancelNotification>(method, params),
        (Role::Agent, Version::V2, "session/cancel") => {
            whole::<v2::CancelSessionNotification>(method, params)
        }
        (Role::Agent, Version::V1, "session/set_mode") => whole::<v1::SetSessionModeRequest>(method, params),
        (Role::Agent, Version::V1, "session/set_config_option") => {
            whole::<v1::SetSessionConfigOptionRequest>(method, params);
        }
        (Role::Agent, Version::V2, "session/set_config_option") => {
            whole::<v2::SetSessionConfigOptionRequest>(method, params);
        }
        // A session that is closed while the agent still opens it is taken back.
        (Role::Agent, Version::V1, "$/cancel_request") => {
            whole::<v1::CancelRequestNotification>(method, params);
        }
        (Role::Agent, Version::V2, "$/cancel_request") => {
            whole::<v2::CancelRequestNotification>(method, params);
        }
        (Role::Agent, Version::V2, "session/list") => whole::<v2::ListSessionsRequest>(method, params),
        (role, version, method) => panic!("{version:?} {role:?} is not known to hear {method}: {params}"),
    }
}

fn answered(version: Version, method: &str, result: &Value) {
    match (version, method) {
        (Version::V1, "initialize") => whole::<v1::InitializeResponse>(method, result),
        (Version::V2, "initialize") => {
            // These three are for clients of an earlier draft, written by hand.
            let mut own = result.clone();
            let session = own["capabilities"]["session"].as_object_mut().expect("session");
            session.retain(|name, _| !["load", "resume", "close"].contains(&name.as_str()));
            whole::<v2::InitializeResponse>(method, &own);
        }
        (Version::V1, "session/new") => whole::<v1::NewSessionResponse>(method, result),
        (Version::V2, "session/new") => whole::<v2::NewSessionResponse>(method, result),
        (Version::V1, "session/load") => whole::<v1::LoadSessionResponse>(method, result),
        (Version::V1, "session/resume") => whole::<v1::ResumeSessionResponse>(method, result),
        (Version::V2, "session/resume") => whole::<v2::ResumeSessionResponse>(method, result),
        (Version::V1, "session/prompt") => whole::<v1::PromptResponse>(method, result),
        (Version::V2, "session/prompt") => whole::<v2::PromptResponse>(method, result),
        (Version::V1, "session/list") => whole::<v1::ListSessionsResponse>(method, result),
        (Version::V2, "session/list") => whole::<v2::ListSessionsResponse>(method, result),
        (Version::V1, "session/set_mode") => whole::<v1::SetSessionModeResponse>(method, result),
        (Version::V1, "session/set_config_option") => {
            whole::<v1::SetSessionConfigOptionResponse>(method, result);
        }
        (Version::V2, "session/set_config_option") => {
            whole::<v2::SetSessionConfigOptionResponse>(method, result);
        }
        (Version::V1, "session/close") => whole::<v1::CloseSessionResponse>(method, result),
        (Version::V2, "session/close") => whole::<v2::CloseSessionResponse>(method, result),
        // Rethread's own questions are answered by the agent's peer, whose answer is not ours to check.
        (_, "session/request_permission") => {}
        (version, method) => panic!("{version:?}: no type for the answer to {method}: {result}"),
    }
}

/// Says that a type takes all of a value.
fn whole<T: DeserializeOwned + Serialize>(what: &str, value: &Value) {
    let read: T =
        serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{what}: {error}: {value}"));
    let again = serde_json::to_value(read).expect("what was read can be written");
    if let Some(lost) = lost(value, &again, String::new()) {
        panic!("{what}: the type does not take {lost} of {value}");
    }
}

/// Where the first value has something that the second has not.
fn lost(value: &Value, again: &Value, at: String) -> Option<String> {
    match (value, again) {
        (Value::Object(fields), Value::Object(others)) => fields.iter().find_map(|(name, value)| {
            let at = format!("{at}/{name}");
            match others.get(name) {
                Some(other) => lost(value, other, at),
                // What is left out says what the default says.
                None if is_default(value) || (name == "status" && value == "pending") => None,
                None => Some(at),
            }
        }),
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let pairs = items.iter().zip(others).enumerate();
            pairs.into_iter().find_map(|(index, (item, other))| lost(item, other, format!("{at}/{index}")))
        }
        (one, other) if one == other => None,
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        _ => Some(format!("{at} ({value} became {again})")),
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(_) | Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}
