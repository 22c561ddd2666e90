//! Prompts of MCP servers, which users call as slash commands: parses their arguments, and stores the server's messages as
//! a tool call. `memory` replaces the command by these messages.

use rethread::author::{ToolCall, ToolKind, Turn};
use rethread::wire::RpcError;
use serde_json::{Map, Value, json};

use crate::command;
use crate::mcp::{CallError, Prompt, PromptMessage};
use crate::mcp_tools;
use crate::session::Session;

/// The result of resolving a command as a prompt.
pub(crate) enum PromptCommand {
    /// The text is not a prompt.
    None,
    /// The text of the prompt.
    Prompt(String),
    /// The user cancelled.
    Cancelled,
}

/// Requests the prompt from its server, if the text names one.
pub(crate) async fn read(session: &Session, turn: &Turn, text: &str) -> Result<PromptCommand, RpcError> {
    let Some(line) = text.trim().strip_prefix('/') else { return Ok(PromptCommand::None) };
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let prompts = session.servers.prompts();
    let Some(prompt) = prompts.iter().find(|prompt| prompt.shown_name == name) else {
        return Ok(PromptCommand::None);
    };
    let arguments = arguments(prompt, rest);
    let call = ToolCall::new(&format!("Prompt {name}"), ToolKind::Fetch).input(json!(arguments));
    let tool = turn.tool(call.with("_meta", json!({"rethread": {"prompt": name}}))).await;
    tool.runs().await;
    match session.servers.get_prompt(&prompt.server, &prompt.name, arguments, turn.cancelled()).await {
        Ok(messages) => {
            let (words, kept): (Vec<_>, Vec<_>) = messages.iter().map(written).unzip();
            let words = words.join("\n\n");
            tool.text(&words).await;
            tool.done(json!({"messages": kept})).await;
            Ok(PromptCommand::Prompt(words))
        }
        Err(CallError::Cancelled { .. }) => {
            tool.stopped().await;
            Ok(PromptCommand::Cancelled)
        }
        Err(error) => {
            tool.failed(json!({"text": error.to_string()})).await;
            Err(RpcError::internal(error.to_string()))
        }
    }
}

/// A message as text and as stored JSON.
fn written(message: &PromptMessage) -> (String, Value) {
    let (words, block) = mcp_tools::shown(&message.content);
    (words, json!({"role": message.role, "content": block}))
}

/// Parses the arguments: `name=value` by name, other words for the remaining arguments in order; the last one takes the
/// rest of the line.
fn arguments(prompt: &Prompt, line: &str) -> Map<String, Value> {
    let is_named = |name: &str| prompt.arguments.iter().any(|argument| argument.name == name);
    let mut given = Map::new();
    let mut bare = Vec::new();
    for word in command::words(line) {
        match word.split_once('=').filter(|(name, _)| is_named(name)) {
            Some((name, value)) => drop(given.insert(name.to_owned(), value.into())),
            None => bare.push(word),
        }
    }
    let names = prompt.arguments.iter().map(|argument| &argument.name);
    let left: Vec<_> = names.filter(|name| !given.contains_key(*name)).cloned().collect();
    let last = left.len().saturating_sub(1);
    for (at, name) in left.into_iter().enumerate() {
        let words = if at == last { bare.split_off(0) } else { bare.drain(..bare.len().min(1)).collect() };
        if !words.is_empty() {
            given.insert(name, words.join(" ").into());
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Argument;

    fn read(line: &str) -> Value {
        let argument =
            |name: &str| Argument { name: name.to_owned(), description: String::new(), is_required: false };
        let prompt = Prompt {
            server: "s".to_owned(),
            name: "greet".to_owned(),
            shown_name: "s.greet".to_owned(),
            description: String::new(),
            arguments: vec![argument("who"), argument("how")],
        };
        json!(arguments(&prompt, line))
    }

    #[test]
    fn arguments_have_names_or_an_order() {
        assert_eq!(read(""), json!({}));
        assert_eq!(read("who=\"Ann and Bob\" how=loudly"), json!({"who": "Ann and Bob", "how": "loudly"}));
        assert_eq!(read("Ann very loudly"), json!({"who": "Ann", "how": "very loudly"}));
        assert_eq!(read("how=softly Ann Bob"), json!({"who": "Ann Bob", "how": "softly"}));
        assert_eq!(read("\"Ann Bob\" a=b"), json!({"who": "Ann Bob", "how": "a=b"}));
    }
}
