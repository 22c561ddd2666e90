//! Runs slash commands, which need no model, and answers prompts when no model is configured.

use std::time::Duration;

use rethread::author::{Stop, Turn};
use rethread::ids;
use rethread::wire::RpcError;
use serde_json::Value;

use crate::call_context::CallContext;
use crate::choice::{Mode, Settings};
use crate::command::{self, SlashCommand};
use crate::model::ToolCall;
use crate::session::Session;
use crate::tool_calls;

/// Runs a command.
pub(crate) async fn carry_out(
    session: &Session,
    turn: &Turn,
    command: SlashCommand,
) -> Result<Stop, RpcError> {
    match command {
        SlashCommand::Help => turn.say(&command::help(&session.servers)).await,
        SlashCommand::Tools => turn.say(&tools(session, turn)).await,
        SlashCommand::Call(name, arguments) => call(session, turn, &name, arguments).await,
        SlashCommand::Plan(steps) => {
            let steps: Vec<_> = steps.into_iter().map(|step| (step, "pending")).collect();
            turn.plan(&steps).await;
        }
        SlashCommand::Think(text) => turn.think(&text).await,
        SlashCommand::Stream { words, pause } => stream(turn, words, pause).await,
        SlashCommand::Mode(id) => mode(turn, &id).await,
        SlashCommand::Model(id) => model(turn, &id).await,
        SlashCommand::Resource { server, uri } => resource(session, turn, &server, &uri).await,
        SlashCommand::Wrong(why) => turn.say(&why).await,
    }
    Ok(if turn.is_cancelled() { Stop::Cancelled } else { Stop::EndTurn })
}

/// Why no model is available.
pub(crate) struct NoModelReason {
    /// One line for each provider that lists no models, with the reason.
    pub(crate) failures: Vec<String>,
    /// The name of the configuration file.
    pub(crate) config_file: String,
}

/// Answers a prompt when no model is available.
pub(crate) async fn no_model(
    session: &Session,
    turn: &Turn,
    reason: &NoModelReason,
) -> Result<Stop, RpcError> {
    let file = &reason.config_file;
    let why = if reason.failures.is_empty() {
        format!(
            "No model is configured, so I cannot answer that. Set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or \
             OLLAMA_HOST, or add a provider to {file}, and start me again."
        )
    } else {
        let failures: Vec<_> = reason.failures.iter().map(|line| format!("- {line}")).collect();
        format!(
            "I have no model to answer that: the configured providers list no models.\n\n{}\n\nCheck that they run, \
             or name their models in {file}, and ask again.",
            failures.join("\n")
        )
    };
    let help = command::help(&session.servers);
    turn.say(&format!("{why} Until then I can run commands:\n\n{help}")).await;
    Ok(Stop::EndTurn)
}

fn tools(session: &Session, turn: &Turn) -> String {
    let settings = Settings::of(&turn.choices());
    let line = |tool: crate::model::ToolDefinition| {
        let first = tool.description.lines().next().unwrap_or_default().to_owned();
        format!("- `{}`: {first}", tool.name)
    };
    let tools: Vec<_> =
        tool_calls::offered(session, &settings, usize::MAX).tools.into_iter().map(line).collect();
    tools.join("\n")
}

async fn call(session: &Session, turn: &Turn, name: &str, arguments: Value) {
    let work = CallContext { session, turn, round: 0, begun: Vec::new() };
    let id = format!("call-{}", ids::unique());
    let call = ToolCall { id, name: name.to_owned(), arguments: Ok(arguments), signatures: Vec::new() };
    work.one(&call).await;
}

async fn stream(turn: &Turn, words: usize, pause: Duration) {
    let message = turn.message();
    for at in 1..=words {
        if turn.is_cancelled() {
            return;
        }
        let word = if at == 1 { "word 1".to_owned() } else { format!(" word {at}") };
        message.write(&word).await;
        if !pause.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = turn.cancelled() => return,
            }
        }
    }
}

async fn mode(turn: &Turn, id: &str) {
    let said = match Mode::named(id) {
        Some(mode) => match turn.choose("mode", mode.id()).await {
            Ok(()) => format!("The mode is {id} now."),
            Err(error) => error.message,
        },
        None => format!("There is no mode {id:?}; there are code, ask and architect."),
    };
    turn.say(&said).await;
}

async fn model(turn: &Turn, id: &str) {
    let said = match turn.choose("model", id).await {
        Ok(()) => format!("The model is {id} now."),
        Err(_) => format!("There is no provider for the model {id:?}. Write it as `/model PROVIDER/MODEL`."),
    };
    turn.say(&said).await;
}

async fn resource(session: &Session, turn: &Turn, server: &str, uri: &str) {
    match session.servers.read_resource(server, uri, turn.cancelled()).await {
        Ok(contents) => {
            let message = turn.message();
            for content in &contents {
                message.block(crate::mcp_tools::shown(content).1).await;
            }
        }
        Err(error) => turn.say(&format!("{error}")).await,
    }
}
