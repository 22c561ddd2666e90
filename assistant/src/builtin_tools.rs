//! Runs calls of the built-in tools: prepares them, asks for permission, shows changes and command output to the user.

use base64::Engine;
use rethread::author::{Exit, Terminal, Tool, ToolCall, ToolKind};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::call_context::{CallContext, CallResult, failed, short};
use crate::model;
use crate::permission::{AlwaysAllow, PermissionRequest, RuleScope, code, fenced, text_content};
use crate::tools::visible::{visible, visible_line};
use crate::tools::{self, CallEnd, Effect, Kind, PreparedCall, ToolError, ToolOutcome};

/// The maximum number of pieces of output that wait to be sent.
const WAITING: usize = 16;

/// Runs a call of a built-in tool.
pub(crate) async fn call(context: &CallContext<'_>, call: &model::ToolCall, arguments: &Value) -> CallResult {
    let access = context.settings().access;
    let preparing = context.session.toolbox.prepare(&call.name, arguments, access);
    let prepared = tokio::select! {
        prepared = preparing => prepared,
        // A file system may hang. Nothing was changed yet, so the task can be abandoned.
        () = context.turn.cancelled() => return cancelled(context, call, arguments).await,
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return context.refused(call, arguments, &error.text_for_model()).await,
    };
    let tool = context.announce(call, about(&prepared), arguments).await;
    if let Some(change) = prepared.change() {
        tool.diff(&change.path.display().to_string(), change.old.as_deref(), &change.new).await;
    }
    let ask = match (prepared.command(), prepared.change()) {
        (Some(command), _) => Some(about_command(&prepared, command)),
        (None, Some(change)) => Some(about_change(&prepared, change, &call.name)),
        (None, None) => None,
    };
    if let Some(ask) = ask
        && let Err(refused) = context.permitted(call, arguments, &tool, ask).await
    {
        return refused;
    }
    tool.runs().await;
    match prepared.command().cloned() {
        Some(command) => run(context, &tool, prepared, &command).await,
        None => {
            let (sink, _) = mpsc::channel(1);
            let outcome = prepared.run(sink, stopped(context, &tool)).await;
            finish(&tool, outcome, None).await
        }
    }
}

/// Shows a call that was cancelled while it was prepared.
async fn cancelled(context: &CallContext<'_>, call: &model::ToolCall, arguments: &Value) -> CallResult {
    let tool = context.announce(call, ToolCall::new(&short(&call.name), ToolKind::Other), arguments).await;
    tool.stopped().await;
    CallResult::failed("the user cancelled this")
}

fn about(prepared: &PreparedCall) -> ToolCall {
    let kind = match prepared.kind() {
        Kind::Read => ToolKind::Read,
        Kind::Search => ToolKind::Search,
        Kind::Edit => ToolKind::Edit,
        Kind::Execute => ToolKind::Execute,
    };
    let about = ToolCall::new(prepared.title(), kind).cancellable();
    let places = prepared.locations().iter();
    places.fold(about, |about, place| about.at(&place.path.display().to_string(), place.line))
}

/// The permission request for a command. "Always" covers only this command in this directory.
fn about_command(prepared: &PreparedCall, command: &tools::CommandLine) -> PermissionRequest {
    let whole = fenced("sh", &command.line);
    PermissionRequest {
        title: format!("{}?", prepared.title()),
        facts: format!(
            "Runs this command with {} in {}.",
            tools::shell().name(),
            code(&command.cwd.display().to_string())
        ),
        content: json!([text_content(&whole)]),
        whole,
        effect: Effect::Executes,
        scope: RuleScope {
            key: json!({"command": command.line, "cwd": command.cwd.display().to_string()}).to_string(),
            allowed: "exactly this command".to_owned(),
            refused: "exactly this command".to_owned(),
            sentence: "\"Always\" covers exactly this command in this directory, in this session.".to_owned(),
            always: AlwaysAllow::Possible,
        },
    }
}

/// The permission request for a change. "Always" covers the tool for all files outside `.git`.
fn about_change(prepared: &PreparedCall, change: &tools::Change, tool: &str) -> PermissionRequest {
    let path = change.path.display().to_string();
    let (old, new) = (change.old.as_deref().map(visible), visible(&change.new));
    let is_git = prepared.is_in_git_directory();
    PermissionRequest {
        title: format!("{}?", prepared.title()),
        facts: format!("{} {}.", if old.is_some() { "Changes" } else { "Creates" }, code(&path)),
        whole: fenced("diff", &change.unified()),
        content: json!([Tool::diff_of(&visible_line(&path), old.as_deref(), &new)]),
        effect: Effect::Writes,
        scope: RuleScope {
            key: tool.to_owned(),
            allowed: format!("{tool} for any file outside .git"),
            refused: tool.to_owned(),
            sentence: if is_git {
                "Files in .git directories are asked about each time.".to_owned()
            } else {
                format!(
                    "\"Always\" covers {tool} for every file in the session's directories, except in .git \
                     directories, in this session."
                )
            },
            always: if is_git { AlwaysAllow::NotPossible } else { AlwaysAllow::Possible },
        },
    }
}

async fn stopped(context: &CallContext<'_>, tool: &Tool) {
    tokio::select! {
        () = context.turn.cancelled() => {}
        () = tool.cancelled() => {}
    }
}

/// Runs a command in a terminal that the client shows.
async fn run(
    context: &CallContext<'_>,
    tool: &Tool,
    prepared: PreparedCall,
    command: &tools::CommandLine,
) -> CallResult {
    let terminal = context.turn.terminal(&visible(&command.line), &command.cwd.display().to_string()).await;
    tool.terminal(&terminal).await;
    let (sink, mut output) = mpsc::channel::<Vec<u8>>(WAITING);
    let stop = async {
        tokio::select! {
            () = stopped(context, tool) => {}
            () = terminal.cancelled() => {}
        }
    };
    let telling = async {
        while let Some(mut bytes) = output.recv().await {
            while let Ok(more) = output.try_recv() {
                bytes.extend(more);
            }
            terminal.write(&bytes).await;
        }
    };
    let (outcome, ()) = tokio::join!(prepared.run(sink, stop), telling);
    finish(tool, outcome, Some(&terminal)).await
}

async fn finish(
    tool: &Tool,
    outcome: Result<ToolOutcome, ToolError>,
    terminal: Option<&Terminal>,
) -> CallResult {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return failed(tool, &error.text_for_model()).await,
    };
    if let Some(terminal) = terminal {
        terminal.exited(&exit(outcome.exit.as_ref())).await;
    } else if outcome.changes.is_empty() {
        tool.text(&outcome.text).await;
    }
    let image = outcome.image.map(|image| model::Image {
        mime: image.mime.to_owned(),
        data: base64::engine::general_purpose::STANDARD.encode(&image.bytes),
    });
    if let Some(model::Image { mime, data }) = &image {
        let block = json!({"type": "image", "mimeType": mime, "data": data});
        tool.show(json!({"type": "content", "content": block})).await;
    }
    let output = json!({"text": outcome.text});
    let succeeded = outcome.exit.as_ref().is_none_or(|exit| exit.code == Some(0));
    match outcome.end {
        CallEnd::Cancelled => tool.stopped_with(output).await,
        CallEnd::Done if succeeded => tool.done(output).await,
        CallEnd::Done | CallEnd::TimedOut => tool.failed(output).await,
    }
    let failed = outcome.end != CallEnd::Done || !succeeded;
    CallResult { text: outcome.text, images: image.into_iter().collect(), failed }
}

fn exit(exit: Option<&tools::Exit>) -> Exit {
    match exit {
        Some(tools::Exit { code: Some(code), .. }) => Exit::Code(*code),
        Some(tools::Exit { signal: Some(signal), .. }) => Exit::Signal(signal.clone()),
        Some(_) | None => Exit::Signal("SIGKILL".to_owned()),
    }
}
