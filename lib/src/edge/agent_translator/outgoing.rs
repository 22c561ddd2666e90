//! Encodes requests to an agent (open, prompt, set option, answers), checks them against its capabilities, and decodes
//! its answers to them.

use rethread_core::{Fields, Json, QuestionKind, RawMembers, Stop, Update, UpdateKind};
use serde_json::{Value, json};

use super::{AgentTranslator, OptionReport};
use crate::edge::capabilities::AgentProfile;
use crate::edge::client_request::Setup;
use crate::edge::v1::options::{Options, Source};
use crate::edge::{Version, v1};
use crate::wire::{RpcError, code};

/// The parameters of `session/new`, or of `session/load` and `session/resume` if `native` is given.
pub fn open_params(profile: &AgentProfile, setup: &Setup, native: Option<&str>) -> Json {
    let mut params = Fields::new();
    if let Some(native) = native {
        params.set("sessionId", Json::of(native));
    }
    params.set("cwd", Json::of(&setup.cwd));
    if profile.has("additionalDirectories") && !setup.roots.is_empty() {
        params.set("additionalDirectories", Json::of(&setup.roots));
    }
    let servers: Vec<_> = match profile.version {
        Version::V1 => setup.servers.iter().cloned().map(v1::servers::to_v1).collect(),
        Version::V2 => setup.servers.clone(),
    };
    params.set("mcpServers", Json::of(&servers));
    if let Some(system_prompt) = setup.system_prompt.as_ref().filter(|_| profile.has("systemPrompt")) {
        params.set("systemPrompt", system_prompt.clone());
    }
    if let Some(meta) = &setup.meta {
        params.set("_meta", meta.clone());
    }
    params.json()
}

/// Adds the stored history and the chosen options to the parameters, for an agent that stores nothing itself.
pub fn with_history(params: &Json, history: Option<&[Json]>, options: Option<&Json>) -> Json {
    let mut params = params.fields();
    let mut meta = params.get("_meta").map(Json::fields).unwrap_or_default();
    let mut ours = meta.get("rethread").map(Json::fields).unwrap_or_default();
    if let Some(history) = history {
        ours.set("history", Json::of(history));
    }
    if let Some(options) = options {
        ours.set("choices", chosen_values(options));
    }
    meta.set("rethread", ours.json());
    params.set("_meta", meta.json());
    params.json()
}

/// The current values of the options by option id.
fn chosen_values(options: &Json) -> Json {
    let mut values = Fields::new();
    let list = options.fields().take("configOptions").and_then(|list| list.items()).unwrap_or_default();
    for option in list.iter().map(Json::fields) {
        if let (Some(id), Some(value)) = (option.text("configId"), option.get("currentValue")) {
            values.set(&id, value.clone());
        }
    }
    values.json()
}

/// Refuses MCP servers whose transport the agent does not support.
pub fn check_servers(profile: &AgentProfile, servers: &[Fields]) -> Result<(), RpcError> {
    for (at, server) in servers.iter().enumerate() {
        let transport = v1::servers::transport_of(server);
        if !profile.transports.iter().any(|known| *known == transport) {
            let field = format!("mcpServers[{at}].type");
            let expected = format!("one of {}", profile.transports.join(", "));
            return Err(RpcError::field(&field, &Value::String(transport), &expected)
                .hint("the agent does not offer this MCP transport"));
        }
    }
    Ok(())
}

/// Refuses content that the agent does not accept.
pub fn check_content(profile: &AgentProfile, content: &Json) -> Result<(), RpcError> {
    for (at, block) in content.raw_items().unwrap_or_default().into_iter().enumerate() {
        let kind = RawMembers::of(block).text("type").unwrap_or_default();
        if !profile.takes(&kind) {
            let mut expected = vec!["text", "resource_link"];
            expected.extend(["image", "audio", "resource"].iter().filter(|kind| profile.takes(kind)));
            let field = format!("prompt[{at}].type");
            let expected = format!("one of {}", expected.join(", "));
            return Err(RpcError::field(&field, &Value::String(kind.into_owned()), &expected)
                .hint("the agent does not accept this kind of content"));
        }
    }
    Ok(())
}

/// Puts the transcript in front of a prompt. It is sent as text, because some agents (copilot) move resources to where
/// the model does not look. A slash command must come first in the prompt, so in that case the transcript is an
/// embedded resource if the agent accepts one.
pub fn with_transcript(profile: &AgentProfile, seed: &str, content: &Json) -> Json {
    let block = if is_command(content) && profile.takes("resource") {
        let uri = "rethread://transcript";
        json!({"type": "resource", "resource": {"uri": uri, "mimeType": "text/markdown", "text": seed}})
    } else {
        json!({"type": "text", "text": seed})
    };
    let blocks: Vec<Json> =
        std::iter::once(block.into()).chain(content.items().unwrap_or_default()).collect();
    Json::of(&blocks)
}

fn is_command(content: &Json) -> bool {
    let first = content.items().unwrap_or_default().into_iter().find_map(|block| block.fields().text("text"));
    first.is_some_and(|text| text.starts_with('/'))
}

/// Refuses a system prompt that the agent does not accept, so that it is not dropped silently.
pub fn check_system_prompt(profile: &AgentProfile, setup: &Setup) -> Result<(), RpcError> {
    let Some(prompt) = &setup.system_prompt else { return Ok(()) };
    if !profile.has("systemPrompt") {
        return Err(RpcError::field("systemPrompt", &prompt.value(), "nothing")
            .hint("the agent does not accept a system prompt"));
    }
    let fields = prompt.fields();
    let modes = profile.forwarded.get("systemPrompt").and_then(|known| known.fields().get("mode").cloned());
    let overrides =
        modes.is_some_and(|modes| modes.fields().get("override").is_some_and(|mode| !mode.is_null()));
    match fields.text("mode").as_deref() {
        Some("append") => {}
        Some("override") if overrides => {}
        Some(_) | None => {
            let got = fields.get("mode").map_or(Value::Null, Json::value);
            return Err(RpcError::field("systemPrompt.mode", &got, "a mode that the agent offers"));
        }
    }
    let content = fields.get("content");
    match content.and_then(Json::items) {
        Some(blocks) if !blocks.is_empty() && blocks.iter().all(is_text) => Ok(()),
        Some(_) | None => {
            let got = content.map_or(Value::Null, Json::value);
            Err(RpcError::field("systemPrompt.content", &got, "at least one text block, and no others"))
        }
    }
}

fn is_text(block: &Json) -> bool {
    block.fields().text("type").as_deref() == Some("text")
}

/// Decodes the answer to a v1 prompt: the stop reason, and other members that belong to the final state.
pub fn prompt_outcome(outcome: Result<&Json, &RpcError>) -> (Stop, Option<Json>) {
    match outcome {
        Ok(result) => {
            let mut fields = result.fields();
            let reason = fields.take("stopReason").and_then(|reason| reason.as_string());
            let stop = Stop::plain(reason.as_deref().unwrap_or("end_turn"));
            (stop, (!fields.is_empty()).then(|| fields.json()))
        }
        Err(error) if error.code == code::CANCELLED => (Stop::plain("cancelled"), None),
        Err(error) => (Stop { reason: "error".to_owned(), error: Some(error.json()) }, None),
    }
}

impl AgentTranslator {
    /// The parameters of `session/prompt`.
    #[must_use]
    pub fn prompt(&self, native: &str, content: &Json, meta: Option<&Json>) -> Json {
        let mut params: Fields =
            [("sessionId", Json::of(native)), ("prompt", content.clone())].into_iter().collect();
        if let Some(meta) = meta {
            params.set("_meta", meta.clone());
        }
        params.json()
    }

    /// The method and parameters that change an option.
    #[must_use]
    pub fn set_option(&self, native: &str, option: &str, value: &Json) -> (&'static str, Json) {
        let mut params: Fields = [("sessionId", Json::of(native))].into_iter().collect();
        match (self.version, self.sources.of(option)) {
            (Version::V1, Source::Mode) => {
                params.set("modeId", value.clone());
                return ("session/set_mode", params.json());
            }
            (Version::V1, Source::Model) => {
                params.set("modelId", value.clone());
                return ("session/set_model", params.json());
            }
            (Version::V1, Source::Config) | (Version::V2, _) => {}
        }
        params.set("configId", Json::of(option));
        match (self.version, value.as_string()) {
            (Version::V1, Some(_)) => {}
            (Version::V2, Some(_)) => params.set("type", Json::of("id")),
            (_, None) => params.set("type", Json::of("boolean")),
        }
        params.set("value", value.clone());
        ("session/set_config_option", params.json())
    }

    /// Applies an option change that the agent accepted, and returns the new list of options.
    pub fn option_set(&mut self, option: &str, value: &Json, result: &Json) -> Update {
        match result.fields().get("configOptions") {
            Some(list) if list.items().is_some() => self.replace_config_options(Some(list)),
            Some(_) | None => self.options = self.options.with_value(option, value),
        }
        self.options_update()
    }

    /// Sets the options that were known before this agent process started.
    pub fn set_initial_options(&mut self, update: Option<&Json>) {
        if let Some(list) = update.and_then(|body| body.fields().take("configOptions")) {
            self.options = Options::from_v2(&list);
        }
    }

    /// Decodes the answer to new, load or resume: updates for its options and commands.
    pub fn decode_open_answer(&mut self, answer: &Json) -> Vec<Update> {
        self.keep_open_answer(answer);
        let fields = answer.fields();
        let mut updates = Vec::new();
        let some = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let views = [some("modes"), some("models"), some("configOptions")];
        let reported = views.iter().any(Option::is_some);
        match self.version {
            Version::V1 if reported => {
                let [modes, models, options] = views;
                (self.options, self.sources) = Options::from_v1(modes, models, options);
                self.option_report = OptionReport::Received;
                updates.push(self.options_update());
            }
            // Some agents report no options when they restore a session: the known ones stay.
            Version::V1 => {}
            Version::V2 => {
                if let Some(options) = some("configOptions") {
                    self.replace_config_options(Some(options));
                    updates.push(self.options_update());
                }
                if let Some(commands) = some("availableCommands") {
                    let tag = Json::of("available_commands_update");
                    let body: Fields = [("sessionUpdate", tag), ("availableCommands", commands.clone())]
                        .into_iter()
                        .collect();
                    let kind = UpdateKind::AvailableCommandsUpdate;
                    updates.push(Update { kind, id: String::new(), body: body.json() });
                }
            }
        }
        updates
    }

    /// Encodes the answer to a question.
    #[must_use]
    pub fn answer(&self, kind: QuestionKind, answer: &Json) -> Json {
        match (self.version, kind) {
            (Version::V1, QuestionKind::Permission) => v1::permission::answer_to_v1(answer),
            (Version::V1, QuestionKind::Elicitation) | (Version::V2, _) => answer.clone(),
        }
    }

    /// Replaces the config options; modes and models of a v1 agent stay.
    pub(super) fn replace_config_options(&mut self, list: Option<&Json>) {
        self.option_report = OptionReport::Received;
        match self.version {
            Version::V1 => {
                let list = list.cloned().unwrap_or_else(|| json!([]).into());
                self.options = self.options.with_config(&self.sources, &list);
            }
            Version::V2 => {
                self.options = Options::from_v2(list.unwrap_or(&json!([]).into()));
            }
        }
    }
}

/// The answer to a question that nobody will answer.
#[must_use]
pub fn cancelled_answer(kind: QuestionKind) -> Json {
    match kind {
        QuestionKind::Permission => json!({"outcome": {"outcome": "cancelled"}}).into(),
        QuestionKind::Elicitation => json!({"action": "cancel"}).into(),
    }
}
