//! What a person said to Codex, without what Codex put into messages of the user on its own.

use serde_json::Value;

use crate::importer::updates::{image, link, text};

/// How messages begin that Codex writes in the user's name.
const INJECTED: [&str; 24] = [
    "# agents.md instructions",
    "<apps_instructions>",
    "<collaboration_mode>",
    "<current_time_reminder>",
    "<environment_context>",
    "<environments_instructions>",
    "<guardian_sync_review>",
    "<hook_prompt",
    "<image_resize_notice>",
    "<instructions>",
    "<model_switch>",
    "<multi_agent_role>",
    "<permissions instructions>",
    "<personality_spec>",
    "<plugins_instructions>",
    "<realtime_delegation>",
    "<recommended_plugins>",
    "<rollout_budget>",
    "<skill>",
    "<skills_instructions>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
];

/// What stands before the words of the user in a message of an editor that adds what is open in it.
const REQUEST: &str = "## My request for Codex:";

/// What a person typed of a text; nothing if Codex wrote it.
pub(super) fn typed(words: &str) -> Option<&str> {
    let start = words.trim_start();
    let begins = |mark: &str| start.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark));
    if start.is_empty() || INJECTED.iter().any(|mark| begins(mark)) {
        return None;
    }
    match words.split_once(REQUEST) {
        Some((_, request)) => Some(request.trim()),
        None => Some(words),
    }
}

/// Says whether an item is a command that the user ran in Codex itself.
pub(super) fn is_shell_command(content: &Value) -> bool {
    content[0]["text"].as_str().is_some_and(|words| words.trim_start().starts_with("<user_shell_command>"))
}

/// The command that the user ran in Codex itself, and what came out of it.
pub(super) fn shell_command(content: &Value) -> Option<(String, String)> {
    let words = content[0]["text"].as_str()?.trim_start().strip_prefix("<user_shell_command>")?;
    let inside = |name: &str| {
        let (_, rest) = words.split_once(&format!("<{name}>"))?;
        let (inner, _) = rest.rsplit_once(&format!("</{name}>"))?;
        Some(inner.trim_matches('\n').to_owned())
    };
    Some((inside("command")?, inside("result").unwrap_or_default()))
}

/// The working directory that Codex tells the model.
pub(super) fn directory(content: &Value) -> Option<String> {
    let words = content[0]["text"].as_str().filter(|words| words.starts_with("<environment_context>"))?;
    let element = words.split_once("<cwd>").and_then(|(_, rest)| Some(rest.split_once("</cwd>")?.0));
    let line = || words.lines().find_map(|line| line.trim().strip_prefix("Current working directory: "));
    element.or_else(line).map(|path| path.trim().to_owned())
}

/// The blocks of an item for the model that a person wrote.
pub(super) fn of_item(content: &Value) -> Vec<Value> {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(item_block).collect()
}

fn item_block(block: &Value) -> Option<Value> {
    let field = |name: &str| block[name].as_str().filter(|text| !text.is_empty());
    match field("type")? {
        "input_text" | "text" => Some(text(typed(field("text")?)?)),
        "input_image" => Some(picture(field("image_url")?)),
        "input_audio" => Some(link(field("audio_url")?, "audio")),
        _ => None,
    }
}

/// The blocks of a message of the user that is shown to people.
pub(super) fn of_event(event: &Value) -> Vec<Value> {
    if event["kind"].as_str().is_some_and(|kind| kind != "plain") {
        return Vec::new();
    }
    let mut blocks: Vec<_> = event["message"].as_str().and_then(typed).map(text).into_iter().collect();
    let list = |name: &str| event[name].as_array().cloned().unwrap_or_default();
    blocks.extend(list("images").iter().filter_map(Value::as_str).map(picture));
    blocks.extend(list("local_images").iter().filter_map(Value::as_str).map(file));
    blocks.extend(list("audio").iter().filter_map(Value::as_str).map(|url| link(url, "audio")));
    blocks.extend(list("local_audio").iter().filter_map(Value::as_str).map(file));
    blocks
}

/// The blocks of a user message as an item of a turn.
pub(super) fn of_turn_item(content: &Value) -> Vec<Value> {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(turn_block).collect()
}

fn turn_block(block: &Value) -> Option<Value> {
    let field = |name: &str| block[name].as_str().filter(|text| !text.is_empty());
    match field("type")? {
        "text" => Some(text(typed(field("text")?)?)),
        "image" => Some(picture(field("image_url")?)),
        "local_image" | "local_audio" => Some(file(field("path")?)),
        "audio" => Some(link(field("audio_url")?, "audio")),
        "skill" | "mention" => Some(link(field("path")?, field("name").unwrap_or_default())),
        _ => None,
    }
}

/// A picture by its URL, which may have it inside.
pub(super) fn picture(url: &str) -> Value {
    let inside = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    inside.map_or_else(|| link(url, "image"), |(mime, data)| image(mime, data))
}

/// A file that is not included.
fn file(path: &str) -> Value {
    let name = path.rsplit('/').next().unwrap_or(path);
    link(&format!("file://{path}"), name)
}
