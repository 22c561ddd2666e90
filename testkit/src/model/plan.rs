//! What the model says. The prompt decides:
//!
//! - `DELTAS=200` says that many words, one by one (three if nothing is said), and `DELAY=5` waits that many
//!   milliseconds after each;
//! - ``TOOL BASH CMD=`…` `` calls the agent's shell tool once, and says the words when it has answered; with
//!   `ESCALATE` it asks codex to leave its sandbox, for which codex asks the user.
//!
//! The words are `t2w007`: turn 2, word 7. A request without tools is about a title or the like and gets a short answer.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Heard, Tool};

/// How many words are said if the prompt does not say.
const FEW: usize = 3;
/// The most words of an answer.
const MOST: usize = 100_000;
/// What shell tools are called.
const SHELLS: [&str; 6] = ["Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell"];

/// What is said.
#[derive(Debug)]
pub(super) struct Reply {
    /// Tells this answer from the others.
    pub(super) number: usize,
    pub(super) words: Vec<String>,
    delay: Duration,
    pub(super) call: Option<Call>,
}

/// A tool call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) group: Option<String>,
    pub(super) arguments: Value,
}

impl Reply {
    /// All words together.
    pub(super) fn text(&self) -> String {
        self.words.concat()
    }

    /// Waits as long as the prompt says.
    pub(super) fn pause(&self) {
        std::thread::sleep(self.delay);
    }
}

/// Decides on the answer.
pub(super) fn reply(heard: &Heard, number: usize) -> Reply {
    let aside = heard.tools.is_empty() || heard.model.contains("small") || heard.model.contains("haiku");
    if aside {
        return Reply { number, words: vec!["A title".to_owned()], delay: Duration::ZERO, call: None };
    }
    let prompt = &heard.prompt;
    let call = if heard.tool_answered { None } else { call(prompt, &heard.tools) };
    let count = match call {
        Some(_) => 1,
        None => number_behind(prompt, "DELTAS=").map_or(FEW, |count| count.min(MOST)),
    };
    let words = (0..count).map(|word| format!("t{}w{word:03} ", heard.turn)).collect();
    let delay = Duration::from_millis(number_behind(prompt, "DELAY=").unwrap_or(0) as u64);
    Reply { number, words, delay, call }
}

fn call(prompt: &str, tools: &[Tool]) -> Option<Call> {
    let (_, command) = prompt.rsplit_once("TOOL BASH CMD=`")?;
    let (command, _) = command.split_once('`')?;
    let tool = tools.iter().find(|tool| SHELLS.contains(&tool.name.as_str()))?;
    let takes = |name: &str| tool.arguments.iter().any(|argument| argument == name);
    let mut arguments = Map::new();
    arguments.insert(if takes("cmd") { "cmd" } else { "command" }.to_owned(), json!(command));
    if takes("description") {
        arguments.insert("description".to_owned(), json!("a test"));
    }
    if takes("is_background") {
        arguments.insert("is_background".to_owned(), json!(false));
    }
    if takes("sandbox_permissions") && prompt.contains("ESCALATE") {
        arguments.insert("sandbox_permissions".to_owned(), json!("require_escalated"));
        arguments.insert("justification".to_owned(), json!("a test"));
    }
    Some(Call { name: tool.name.clone(), group: tool.group.clone(), arguments: Value::Object(arguments) })
}

/// The number behind the last of these marks.
fn number_behind(prompt: &str, mark: &str) -> Option<usize> {
    let (_, rest) = prompt.rsplit_once(mark)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}
