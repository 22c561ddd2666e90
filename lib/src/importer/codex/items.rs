//! Calls of tools as Codex shows them to people when they have ended: items of turns, and the events that older versions
//! have for the same.

use rethread_core::Json;
use serde_json::Value;

use super::calls::{command, edit_title, titled};
use super::outputs::{self, shown_text};
use super::patches;
use super::rollout::local;
use crate::importer::updates::{RecordedCall, ToolStatus, image, shown, text};

/// The call that an item of a turn is, if it is one.
pub(super) fn of_turn(kind: &str, id: &str, item: &Value) -> Option<RecordedCall> {
    match kind {
        "CommandExecution" => Some(execution(id, item)),
        "FileChange" => Some(file_change(id, item)),
        "McpToolCall" => {
            let name = (text_of(item, "server"), text_of(item, "tool"));
            Some(mcp(id, name, &item["arguments"], &item["result"], &item["error"]["message"]))
        }
        "DynamicToolCall" => Some(dynamic(id, item)),
        "CollabAgentToolCall" => Some(collaboration(id, item)),
        "WebSearch" => Some(web_search(id, item)),
        "ImageView" => Some(image_view(id, item)),
        "ImageGeneration" => Some(image_generation(id, item)),
        "Extension" => Some(extension(id, item)),
        _ => None,
    }
}

/// The call that an event of an older version is about, and its id.
pub(super) fn of_event(kind: &str, event: &Value) -> Option<(String, RecordedCall)> {
    let id = event["call_id"].as_str().or_else(|| event["callId"].as_str())?;
    let call = match kind {
        "exec_command_end" => execution(id, event),
        "patch_apply_end" => file_change(id, event),
        "mcp_tool_call_end" => {
            let made = &event["invocation"];
            let (result, name) = (&event["result"], (text_of(made, "server"), text_of(made, "tool")));
            mcp(id, name, &made["arguments"], &result["Ok"], &result["Err"])
        }
        "dynamic_tool_call_response" => dynamic(id, event),
        "view_image_tool_call" => image_view(id, event),
        "image_generation_end" => image_generation(id, event),
        "collab_agent_spawn_end" => collaboration(id, event),
        _ => return None,
    };
    Some((id.to_owned(), call))
}

fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The word for how a call ended.
fn status_of(item: &Value) -> ToolStatus {
    match text_of(item, "status") {
        "in_progress" | "inProgress" => ToolStatus::InProgress,
        "failed" | "declined" => ToolStatus::Failed,
        _ if item["success"] == false => ToolStatus::Failed,
        _ => ToolStatus::Completed,
    }
}

fn execution(id: &str, item: &Value) -> RecordedCall {
    let parsed = item["parsed_cmd"].as_array().map(Vec::as_slice).unwrap_or_default();
    let script = command(&item["command"]);
    let call = match parsed {
        [only] if only["type"] == "read" && only["path"].is_string() => {
            let call = RecordedCall::new(id).kind("read").paths(&[text_of(only, "path")]);
            titled(call, &format!("Read file '{}'", text_of(only, "path")), "read")
        }
        [only] if only["type"] == "search" || only["type"] == "list_files" => {
            titled(RecordedCall::new(id).kind("search"), &script, "shell")
        }
        _ => titled(RecordedCall::new(id).kind("execute"), &script, "shell"),
    };
    let printed = item["aggregated_output"].as_str().map(str::to_owned);
    let printed =
        printed.unwrap_or_else(|| format!("{}{}", text_of(item, "stdout"), text_of(item, "stderr")));
    let status = match (item["status"].as_str(), item["exit_code"].as_i64()) {
        (None, code) => outputs::status(code),
        (Some(_), _) => status_of(item),
    };
    let call = call.status(status);
    if printed.is_empty() { call } else { call.content(&shown_text(&printed)) }
}

fn file_change(id: &str, item: &Value) -> RecordedCall {
    let paths = patches::paths(&item["changes"]);
    let call = RecordedCall::new(id).kind("edit").status(status_of(item)).paths(&paths);
    let call = titled(call, &edit_title(&paths), "apply_patch");
    let mut content = patches::made(&item["changes"]);
    if status_of(item) == ToolStatus::Failed {
        content.extend(shown_text(text_of(item, "stderr")));
    }
    if content.is_empty() { call } else { call.content(&content) }
}

/// A call of a tool of another program. Its result has content, or there is an error.
fn mcp(id: &str, (server, tool): (&str, &str), input: &Value, result: &Value, error: &Value) -> RecordedCall {
    let is_failure = result["isError"] == true || error.is_string();
    let status = if is_failure { ToolStatus::Failed } else { ToolStatus::Completed };
    let name = format!("{server}.{tool}");
    let call = RecordedCall::new(id).kind("other").name(&name).status(status).input(input.clone().into());
    let content = match error.as_str() {
        Some(error) => shown_text(error),
        None => outputs::read(&result["content"]).content,
    };
    let call = titled(call, &name, "tool");
    if content.is_empty() { call } else { call.content(&content) }
}

fn dynamic(id: &str, item: &Value) -> RecordedCall {
    let tool = text_of(item, "tool");
    let call = RecordedCall::new(id).kind("other").name(tool).status(status_of(item));
    let call = titled(call, tool, "tool").input(item["arguments"].clone().into());
    let content = match item["error"].as_str() {
        Some(error) => shown_text(error),
        None => outputs::read(&item["content_items"]).content,
    };
    if content.is_empty() { call } else { call.content(&content) }
}

fn collaboration(id: &str, item: &Value) -> RecordedCall {
    let prompt = text_of(item, "prompt");
    let doing = match text_of(item, "tool") {
        "send_input" => "Tell a sub-agent",
        "resume_agent" => "Resume a sub-agent",
        "wait" => "Wait for sub-agents",
        "close_agent" => "End a sub-agent",
        _ => "Start a sub-agent",
    };
    let line = prompt.lines().next().filter(|line| !line.is_empty());
    let title = line.map_or_else(|| doing.to_owned(), |line| format!("{doing}: {line}"));
    titled(RecordedCall::new(id).kind("think").status(status_of(item)), &title, "agent")
}

/// A search of the web, or a page that was opened.
pub(super) fn web_search(id: &str, item: &Value) -> RecordedCall {
    let action = &item["action"];
    let list = action["queries"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let query = [action["query"].as_str(), item["query"].as_str()].into_iter().flatten();
    let query = query.map(str::to_owned).find(|query| !query.is_empty());
    let query = query.unwrap_or_else(|| list.collect::<Vec<_>>().join(", "));
    let title = match text_of(action, "type") {
        "open_page" | "openPage" => format!("Open {}", text_of(action, "url")),
        "find_in_page" | "findInPage" => format!("Find {} in a page", text_of(action, "pattern")),
        _ => format!("Search the web for {query}"),
    };
    let call = RecordedCall::new(id).kind("fetch").name("web_search").status(status_of(item));
    let call = titled(call, &title, "web_search");
    let results: Vec<Json> =
        item["results"].as_array().into_iter().flatten().filter_map(search_result).collect();
    if results.is_empty() { call } else { call.content(&results) }
}

fn search_result(result: &Value) -> Option<Json> {
    let parts = [result["title"].as_str(), result["url"].as_str(), result["snippet"].as_str()];
    let words = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
    (!words.is_empty()).then(|| shown(&text(&words)))
}

fn image_view(id: &str, item: &Value) -> RecordedCall {
    let path = local(text_of(item, "path"));
    let call = RecordedCall::new(id).kind("read").name("view_image").status(ToolStatus::Completed);
    titled(call, &format!("View {path}"), "view_image").paths(&[&path])
}

/// A picture that was made.
pub(super) fn image_generation(id: &str, item: &Value) -> RecordedCall {
    let call = RecordedCall::new(id).kind("other").name("image_generation").status(status_of(item));
    let call = titled(call, text_of(item, "revised_prompt"), "Make a picture");
    match text_of(item, "result") {
        "" => call,
        picture => call.content(&[shown(&image("image/png", picture))]),
    }
}

/// A call of a tool of an extension: searches of the web, pictures, pauses.
fn extension(id: &str, item: &Value) -> RecordedCall {
    if item["action"].is_object() || item["query"].is_string() {
        return web_search(id, item);
    }
    if item["result"].is_string() {
        return image_generation(id, item);
    }
    let kind = text_of(item, "kind");
    titled(RecordedCall::new(id).kind("other").name(kind).status(status_of(item)), kind, "extension")
}

/// What a review found, as a text.
pub(super) fn review(output: &Value) -> String {
    let finding = |finding: &Value| {
        let place = &finding["code_location"];
        let (path, line) = (text_of(place, "absolute_file_path"), &place["line_range"]["start"]);
        format!("- {} ({path}:{line})\n  {}", text_of(finding, "title"), text_of(finding, "body"))
    };
    let findings = output["findings"].as_array().into_iter().flatten().map(finding);
    let explanation = text_of(output, "overall_explanation").to_owned();
    let parts: Vec<String> = std::iter::once(explanation).chain(findings).collect();
    parts.join("\n").trim().to_owned()
}
