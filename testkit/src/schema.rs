//! Checks messages of the server against the official schema of the client's version.

use agent_client_protocol_schema::{v1, v2};
use rethread::edge::Version;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns what is wrong with a message of the server. `answers` is the method of the request that it answers.
pub(crate) fn fault(version: Version, message: &Value, answers: Option<&str>) -> Option<String> {
    if message.get("error").is_some() {
        let error = &message["error"];
        let sound = error["code"].is_i64() && error["message"].is_string();
        return (!sound).then(|| "an error without code and message".to_owned());
    }
    match (message["method"].as_str(), answers) {
        (Some(method), _) => said(version, method, &message["params"]),
        (None, Some(method)) => answered(version, method, &message["result"]),
        (None, None) => None,
    }
}

fn said(version: Version, method: &str, params: &Value) -> Option<String> {
    match (version, method) {
        (Version::V1, "session/update") if is_known(&params["update"]) => {
            parses::<v1::SessionNotification>(params)
        }
        (Version::V2, "session/update") => {
            parses::<v2::UpdateSessionNotification>(params).or_else(|| stranger(&params["update"]))
        }
        (Version::V1, "session/request_permission") => parses::<v1::RequestPermissionRequest>(params),
        (Version::V2, "session/request_permission") => parses::<v2::RequestPermissionRequest>(params),
        (Version::V1, "elicitation/create") => parses::<v1::CreateElicitationRequest>(params),
        (Version::V2, "elicitation/create") => parses::<v2::CreateElicitationRequest>(params),
        (_, _) => None,
    }
}

/// The v1 types cannot represent unknown updates.
fn is_known(update: &Value) -> bool {
    let tag = update["sessionUpdate"].as_str().unwrap_or_default();
    !tag.starts_with('_') && !tag.starts_with("future")
}

/// The v2 types accept anything; an update without leading underscore must be a known one.
fn stranger(update: &Value) -> Option<String> {
    let parsed = serde_json::from_value::<v2::SessionUpdate>(update.clone());
    let other = is_known(update) && matches!(parsed, Ok(v2::SessionUpdate::Other(_)));
    other.then(|| "an update of no kind of version 2".to_owned())
}

fn answered(version: Version, method: &str, result: &Value) -> Option<String> {
    match (version, method) {
        // The answer itself says which version it uses.
        (_, "initialize") if result["protocolVersion"] == 1 => parses::<v1::InitializeResponse>(result),
        (_, "initialize") => parses::<v2::InitializeResponse>(result),
        (Version::V1, "session/new") => parses::<v1::NewSessionResponse>(result),
        (Version::V1, "session/load") => parses::<v1::LoadSessionResponse>(result),
        (Version::V1, "session/resume") => parses::<v1::ResumeSessionResponse>(result),
        (Version::V1, "session/list") => parses::<v1::ListSessionsResponse>(result),
        (Version::V1, "session/prompt") => parses::<v1::PromptResponse>(result),
        (Version::V1, "session/set_config_option") => parses::<v1::SetSessionConfigOptionResponse>(result),
        (Version::V2, "session/new") => parses::<v2::NewSessionResponse>(result),
        (Version::V2, "session/resume") => parses::<v2::ResumeSessionResponse>(result),
        (Version::V2, "session/list") => parses::<v2::ListSessionsResponse>(result),
        (Version::V2, "session/prompt") => parses::<v2::PromptResponse>(result),
        (Version::V2, "session/set_config_option") => parses::<v2::SetSessionConfigOptionResponse>(result),
        (_, _) => None,
    }
}

fn parses<T: DeserializeOwned>(value: &Value) -> Option<String> {
    serde_json::from_value::<T>(value.clone()).err().map(|error| error.to_string())
}
