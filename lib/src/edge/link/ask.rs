//! What is asked of an agent, in its own words, and what its answers to that tell.

use rethread_core::{Fields, Json, QuestionKind, Stop, Update, UpdateKind};
use serde_json::{Value, json};

use super::{Link, Offered};
use crate::edge::call::Setup;
use crate::edge::capabilities::Profile;
use crate::edge::v1::options::{Options, Source};
use crate::edge::{Version, v1};
use crate::wire::{RpcError, code};

/// The parameters that open a session at the agent: new, or its own session again.
pub fn open(profile: &Profile, setup: &Setup, native: Option<&str>) -> Json {
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

/// Adds what is kept of a session for an agent that keeps nothing itself: what was said, and what was chosen.
pub fn with_kept(params: &Json, history: Option<&[Json]>, options: Option<&Json>) -> Json {
    let mut params = params.fields();
    let mut meta = params.get("_meta").map(Json::fields).unwrap_or_default();
    let mut ours = meta.get("rethread").map(Json::fields).unwrap_or_default();
    if let Some(history) = history {
        ours.set("history", Json::of(history));
    }
    if let Some(options) = options {
        ours.set("choices", chosen(options));
    }
    meta.set("rethread", ours.json());
    params.set("_meta", meta.json());
    params.json()
}

/// The values of the options by their ids.
fn chosen(options: &Json) -> Json {
    let mut values = Fields::new();
    let list = options.fields().take("configOptions").and_then(|list| list.items()).unwrap_or_default();
    for option in list.iter().map(Json::fields) {
        if let (Some(id), Some(value)) = (option.text("configId"), option.get("currentValue")) {
            values.set(&id, value.clone());
        }
    }
    values.json()
}

/// Refuses servers whose transport the agent does not have.
pub fn check_servers(profile: &Profile, servers: &[Fields]) -> Result<(), RpcError> {
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

/// Refuses content that the agent does not take.
pub fn check_content(profile: &Profile, content: &Json) -> Result<(), RpcError> {
    for (at, block) in content.items().unwrap_or_default().iter().enumerate() {
        let kind = block.fields().text("type").unwrap_or_default();
        if !profile.takes(&kind) {
            let mut expected = vec!["text", "resource_link"];
            expected.extend(["image", "audio", "resource"].iter().filter(|kind| profile.takes(kind)));
            let field = format!("prompt[{at}].type");
            let expected = format!("one of {}", expected.join(", "));
            return Err(RpcError::field(&field, &Value::String(kind), &expected)
                .hint("the agent does not accept this kind of content"));
        }
    }
    Ok(())
}

/// A prompt that carries the transcript before it. As text: a resource may be put aside where the model does not look,
/// as copilot does. Only where the prompt is a command, which has to come first, it is embedded if the agent takes that.
pub fn primed(profile: &Profile, seed: &str, content: &Json) -> Json {
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

/// Refuses a system prompt that the agent does not take: it must not be left out in silence.
pub fn check_system_prompt(profile: &Profile, setup: &Setup) -> Result<(), RpcError> {
    let Some(prompt) = &setup.system_prompt else { return Ok(()) };
    if !profile.has("systemPrompt") {
        return Err(RpcError::field("systemPrompt", &prompt.value(), "nothing")
            .hint("the agent does not accept a system prompt"));
    }
    let fields = prompt.fields();
    let modes = profile.passed_on.get("systemPrompt").and_then(|known| known.fields().get("mode").cloned());
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

/// How an agent that takes one prompt at a time ended it: the stop, and what goes with the final state.
pub fn prompt_ended(outcome: Result<&Json, &RpcError>) -> (Stop, Option<Json>) {
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

impl Link {
    /// The parameters of a prompt.
    #[must_use]
    pub fn prompt(&self, native: &str, content: &Json, meta: Option<&Json>) -> Json {
        let mut params: Fields =
            [("sessionId", Json::of(native)), ("prompt", content.clone())].into_iter().collect();
        if let Some(meta) = meta {
            params.set("_meta", meta.clone());
        }
        params.json()
    }

    /// The request that changes an option.
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

    /// The options after a change that the agent accepted.
    pub fn option_set(&mut self, option: &str, value: &Json, result: &Json) -> Update {
        match result.fields().get("configOptions") {
            Some(list) if list.items().is_some() => self.take_config(Some(list)),
            Some(_) | None => self.options = self.options.with_value(option, value),
        }
        self.options_update()
    }

    /// What was known of the options before this agent process came.
    pub fn options_were(&mut self, update: Option<&Json>) {
        if let Some(list) = update.and_then(|body| body.fields().take("configOptions")) {
            self.options = Options::from_v2(&list);
        }
    }

    /// What the agent's answer to new, load or resume tells: options and commands.
    pub fn opened(&mut self, answer: &Json) -> Vec<Update> {
        self.keep_opening(answer);
        let fields = answer.fields();
        let mut updates = Vec::new();
        let some = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let views = [some("modes"), some("models"), some("configOptions")];
        let told = views.iter().any(Option::is_some);
        match self.version {
            Version::V1 if told => {
                let [modes, models, options] = views;
                (self.options, self.sources) = Options::from_v1(modes, models, options);
                self.offered = Offered::Told;
                updates.push(self.options_update());
            }
            // Some agents say nothing when they restore a session: what was known stays.
            Version::V1 => {}
            Version::V2 => {
                if let Some(options) = some("configOptions") {
                    self.take_config(Some(options));
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

    /// The answer to a question, as this agent reads it.
    #[must_use]
    pub fn answer(&self, kind: QuestionKind, answer: &Json) -> Json {
        match (self.version, kind) {
            (Version::V1, QuestionKind::Permission) => v1::permission::answer_to_v1(answer),
            (Version::V1, QuestionKind::Elicitation) | (Version::V2, _) => answer.clone(),
        }
    }

    /// A new list of options from the agent; what it says in other ways stays.
    pub(super) fn take_config(&mut self, list: Option<&Json>) {
        self.offered = Offered::Told;
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

/// The result that tells an agent that nobody will answer.
#[must_use]
pub fn nobody_answers(kind: QuestionKind) -> Json {
    match kind {
        QuestionKind::Permission => json!({"outcome": {"outcome": "cancelled"}}).into(),
        QuestionKind::Elicitation => json!({"action": "cancel"}).into(),
    }
}
