//! Runs calls of tools of MCP servers: asks for permission, calls the tool, and converts its result.

use rethread::author::{Tool, ToolCall, ToolKind};
use serde_json::{Value, json};

use crate::call_context::{CallContext, CallResult, failed, short};
use crate::mcp::{self, CallError, Content, McpToolResult};
use crate::model;
use crate::permission::{AlwaysAllow, PermissionRequest, RuleScope, code, fenced, text_content};
use crate::tools::Effect;
use crate::tools::visible::visible_json;

/// Runs a call of a tool of an MCP server.
pub(crate) async fn call(
    context: &CallContext<'_>,
    call: &model::ToolCall,
    served: &mcp::McpTool,
    arguments: &Value,
) -> CallResult {
    let title = served
        .title
        .as_ref()
        .map_or_else(|| served.shown_name.clone(), |title| format!("{title} ({})", served.shown_name));
    let about = ToolCall::new(&short(&title), ToolKind::Other).cancellable();
    let tool = context.announce(call, about, arguments).await;
    if !served.claims_read_only {
        let ask = about_call(served, arguments);
        if let Err(refused) = context.permitted(call, arguments, &tool, ask).await {
            return refused;
        }
    }
    tool.runs().await;
    let stop = async {
        tokio::select! {
            () = context.turn.cancelled() => {}
            () = tool.cancelled() => {}
        }
    };
    match context.session.servers.call(&served.shown_name, arguments.clone(), stop).await {
        Ok(answer) => answered(&tool, &answer).await,
        Err(CallError::Cancelled { .. }) => {
            tool.stopped().await;
            CallResult::failed("the user cancelled this")
        }
        Err(error) => failed(&tool, &error_text(&error)).await,
    }
}

/// The permission request for a call. "Always" covers the tool with any arguments.
fn about_call(served: &mcp::McpTool, arguments: &Value) -> PermissionRequest {
    let name = short(&served.shown_name);
    let whole = fenced("json", &serde_json::to_string_pretty(&visible_json(arguments)).unwrap_or_default());
    PermissionRequest {
        title: format!("Call {name}?"),
        facts: format!("Calls the tool {} of an MCP server with these arguments.", code(&served.shown_name)),
        content: json!([text_content(&whole)]),
        whole,
        effect: Effect::Writes,
        scope: RuleScope {
            key: served.shown_name.clone(),
            allowed: format!("{name} with any arguments"),
            refused: name,
            sentence: "\"Always\" covers this tool with any arguments, in this session.".to_owned(),
            always: AlwaysAllow::Possible,
        },
    }
}

/// An error and its hint as text for the model.
pub(crate) fn error_text(error: &CallError) -> String {
    match error.hint() {
        Some(hint) => format!("error: {error}\nhint: {hint}"),
        None => format!("error: {error}"),
    }
}

async fn answered(tool: &Tool, answer: &McpToolResult) -> CallResult {
    let (mut text, mut images) = (String::new(), Vec::new());
    for content in &answer.content {
        if let Content::Image { mime_type, data } = content {
            images.push(model::Image { mime: mime_type.clone(), data: data.clone() });
        }
        let (words, block) = shown(content);
        text.push_str(&words);
        text.push('\n');
        tool.show(json!({"type": "content", "content": block})).await;
    }
    // MCP asks servers to repeat structured results as text; for those that do not, the JSON is added.
    let has_words = answer.content.iter().any(|content| matches!(content, Content::Text(_)));
    if let Some(structured) = answer.structured.as_ref().filter(|_| !has_words) {
        let words = structured.to_string();
        text.push_str(&words);
        tool.text(&words).await;
    }
    let text = text.trim_end().to_owned();
    let output = json!({"text": text});
    if answer.is_error {
        tool.failed(output).await
    } else {
        tool.done(output).await
    }
    CallResult { text, images, failed: answer.is_error }
}

/// Content as text for the model and as a block for the client.
pub(crate) fn shown(content: &Content) -> (String, Value) {
    match content {
        Content::Text(text) => (text.clone(), json!({"type": "text", "text": text})),
        Content::Image { mime_type, data } => (
            format!("[an image, {mime_type}]"),
            json!({"type": "image", "mimeType": mime_type, "data": data}),
        ),
        Content::Audio { mime_type, data } => {
            (format!("[audio, {mime_type}]"), json!({"type": "audio", "mimeType": mime_type, "data": data}))
        }
        Content::TextResource { uri, mime_type, text } => {
            let resource = json!({"uri": uri, "mimeType": mime_type, "text": text});
            (format!("[{uri}]\n{text}"), json!({"type": "resource", "resource": resource}))
        }
        Content::BlobResource { uri, mime_type, data } => {
            let resource = json!({"uri": uri, "mimeType": mime_type, "blob": data});
            (format!("[{uri}, not text]"), json!({"type": "resource", "resource": resource}))
        }
        Content::Link { uri, title } => {
            (format!("[{title}]({uri})"), json!({"type": "resource_link", "name": title, "uri": uri}))
        }
    }
}
