//! Builds the system prompt of a session: the task of its mode, the environment, the project's instructions, those of MCP
//! servers and of the client.

mod environment;
mod project;

use serde_json::Value;

use crate::choice::{Mode, Settings};
use crate::session::Session;

/// A system prompt and notes for the user.
pub(crate) struct SystemPrompt {
    pub(crate) text: String,
    /// Notes about project instructions that were left out.
    pub(crate) notes: Vec<String>,
}

/// Builds the current system prompt of a session.
pub(crate) async fn system(settings: &Settings, session: &Session) -> SystemPrompt {
    let client = session.system_prompt.as_ref();
    let said =
        client.map(|prompt| (prompt["mode"].as_str().unwrap_or("append"), text_of(&prompt["content"])));
    if let Some(("override", text)) = said {
        return SystemPrompt { text, notes: Vec::new() };
    }
    let roots = session.toolbox.roots();
    let mut parts = vec![task(settings.mode).to_owned(), environment::described(roots, settings).await];
    let mut notes = Vec::new();
    if settings.project_instructions {
        let project = project::read(roots).await;
        parts.extend(project.parts);
        notes = project.notes;
    }
    let served = session.servers.instructions().into_iter();
    parts.extend(
        served.map(|(server, words)| format!("The MCP server {server} says about its tools:\n\n{words}")),
    );
    parts.extend(said.map(|(_, text)| text));
    SystemPrompt { text: parts.join("\n\n"), notes }
}

fn task(mode: Mode) -> &'static str {
    match mode {
        Mode::Code => {
            "You are a coding assistant. Do what the user asks, with the tools you have: look at the code before you \
             change it, make the smallest change that does the work, and check it. Changes and commands may need the \
             user's permission; if one is refused, do not try to get around that."
        }
        Mode::Ask => {
            "You are an assistant that answers questions about a project. You can read but not change anything. Look \
             things up rather than guess, and say where you found them."
        }
        Mode::Architect => {
            "You are an architect. You can read but not change anything. Understand the code, weigh the ways to do what \
             the user wants, and write a plan with the plan tool: short steps that another engineer can carry out."
        }
    }
}

fn text_of(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}
