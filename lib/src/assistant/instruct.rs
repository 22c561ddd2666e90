//! What a model is told to be: by the mode, by the project's own instructions, by the client. Reads AGENTS.md files,
//! and nothing else.

use std::path::Path;

use serde_json::Value;

use super::choice::{Mode, Settings};
use super::session::Session;
use super::tools::Toolbox;

/// How much of one file of instructions is read, in bytes.
const LONGEST: u64 = 64 * 1024;

/// The system prompt of a session as it is now.
pub(super) async fn system(settings: &Settings, session: &Session) -> String {
    let client = session.system_prompt.as_ref();
    let said =
        client.map(|prompt| (prompt["mode"].as_str().unwrap_or("append"), text_of(&prompt["content"])));
    if let Some(("override", text)) = said {
        return text;
    }
    let mut parts = vec![own(settings.mode, &session.toolbox)];
    if settings.project_instructions {
        parts.extend(project(&session.toolbox).await);
    }
    let served = session.servers.instructions().into_iter();
    parts.extend(
        served.map(|(server, words)| format!("The MCP server {server} says about its tools:\n\n{words}")),
    );
    parts.extend(said.map(|(_, text)| text));
    parts.join("\n\n")
}

fn own(mode: Mode, toolbox: &Toolbox) -> String {
    let roots: Vec<_> = toolbox.roots().iter().map(|root| root.display().to_string()).collect();
    let task = match mode {
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
    };
    format!(
        "{task}\n\nYou work in {}. Relative paths begin there; nothing outside these directories can be reached: {}.",
        roots.first().map_or("", String::as_str),
        roots.join(", ")
    )
}

/// The instructions of each root that has some.
async fn project(toolbox: &Toolbox) -> Vec<String> {
    let mut all = Vec::new();
    for root in toolbox.roots() {
        let path = root.join("AGENTS.md");
        if let Ok(text) = toolbox.start_of(&path, LONGEST).await
            && !text.trim().is_empty()
        {
            all.push(headed(&path, &text));
        }
    }
    all
}

fn headed(path: &Path, text: &str) -> String {
    format!("Instructions of the project, from {}:\n\n{}", path.display(), text.trim_end())
}

fn text_of(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}
