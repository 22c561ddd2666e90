//! The answers of the model server. Unless a test has planned one, the prompt decides:
//!
//! - `DELTAS=200` sends that many words one by one (three by default), and `DELAY=5` waits that many milliseconds
//!   after each;
//! - ``TOOL BASH CMD=`…` `` calls the agent's shell tool once, and sends the words after its result; with `ESCALATE`
//!   it asks codex to leave its sandbox, for which codex asks the user.
//!
//! The words are `t2w007`: turn 2, word 7. A request without tools is about a title or the like and gets a short
//! answer.

use std::io;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::http::Events;
use super::{ParsedRequest, Tool};

/// How many words are said if the prompt does not say.
const FEW: usize = 3;
/// The most words of an answer.
const MOST: usize = 100_000;
/// What shell tools are called.
const SHELLS: [&str; 7] =
    ["Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell", "execute"];

/// What is said.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// Tells this answer from the others.
    pub(super) number: usize,
    pub(super) said: Vec<ReplyPart>,
    pub(super) tokens: Tokens,
    pub(super) delay: Duration,
    pub(super) ending: Ending,
}

/// A piece of an answer.
#[derive(Clone, Debug)]
pub(super) enum ReplyPart {
    Text(String),
    Thought(String),
    Call(Call),
    /// An event of the dialect, as it is.
    Raw(Value),
}

/// A tool call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) group: Option<String>,
    /// JSON, if the test does not want otherwise.
    pub(super) arguments: String,
}

impl Call {
    /// The arguments for a dialect that has them as JSON.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_else(|_| json!(self.arguments))
    }
}

/// What an answer used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens {
    /// All that was read.
    pub(super) input: u64,
    pub(super) output: u64,
    /// What of it came from a cache.
    pub(super) cached: u64,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ending {
    Well,
    Length,
    BrokenOff,
    CutShort,
    /// There is nothing at all behind the head.
    Empty,
    /// One line that never ends.
    Endless,
    Stalled,
    Malformed,
}

/// Whether the answer goes on to its end.
pub(super) enum Goes {
    On,
    NoFurther,
}

/// Pieces of one kind that belong together.
pub(super) enum Block<'a> {
    Text(Vec<&'a str>),
    Thought(Vec<&'a str>),
    Call(&'a Call),
    Raw(&'a Value),
}

impl Reply {
    pub(super) fn new(number: usize, said: Vec<ReplyPart>, tokens: Tokens) -> Self {
        Self { number, said, tokens, delay: Duration::ZERO, ending: Ending::Well }
    }

    /// All words together.
    pub(super) fn text(&self) -> String {
        let texts = self.said.iter().filter_map(|said| match said {
            ReplyPart::Text(text) => Some(text.as_str()),
            ReplyPart::Thought(_) | ReplyPart::Call(_) | ReplyPart::Raw(_) => None,
        });
        texts.collect()
    }

    /// Whether it calls a tool.
    pub(super) fn has_calls(&self) -> bool {
        self.said.iter().any(|said| matches!(said, ReplyPart::Call(_)))
    }

    /// The pieces, those of one kind in a row together.
    pub(super) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        for said in &self.said {
            match (said, blocks.last_mut()) {
                (ReplyPart::Text(text), Some(Block::Text(texts))) => texts.push(text),
                (ReplyPart::Thought(text), Some(Block::Thought(texts))) => texts.push(text),
                (ReplyPart::Text(text), _) => blocks.push(Block::Text(vec![text])),
                (ReplyPart::Thought(text), _) => blocks.push(Block::Thought(vec![text])),
                (ReplyPart::Call(call), _) => blocks.push(Block::Call(call)),
                (ReplyPart::Raw(event), _) => blocks.push(Block::Raw(event)),
            }
        }
        blocks
    }

    /// Waits as long as the prompt says.
    pub(super) fn pause(&self) {
        std::thread::sleep(self.delay);
    }

    /// Does after the last piece what was planned.
    pub(super) fn finish_as_planned(&self, events: &mut Events) -> io::Result<Goes> {
        match self.ending {
            Ending::Well | Ending::Length => Ok(Goes::On),
            Ending::BrokenOff => Err(io::Error::other("broken off as planned")),
            Ending::CutShort | Ending::Empty => Ok(Goes::NoFurther),
            Ending::Endless => events.send_endless_line().map(|()| Goes::NoFurther),
            Ending::Stalled => events.wait_for_hang_up().map(|()| Goes::NoFurther),
            Ending::Malformed => events.send_invalid_json().map(|()| Goes::On),
        }
    }
}

/// Decides on the answer.
pub(super) fn reply(request: &ParsedRequest, number: usize) -> Reply {
    let aside =
        request.tools.is_empty() || request.model.contains("small") || request.model.contains("haiku");
    if aside {
        return words(number, vec![ReplyPart::Text("A title".to_owned())]);
    }
    let prompt = &request.prompt;
    let call = if request.tool_answered { None } else { call(prompt, &request.tools) };
    let count = match call {
        Some(_) => 1,
        None => number_behind(prompt, "DELTAS=").map_or(FEW, |count| count.min(MOST)),
    };
    let said = (0..count).map(|word| ReplyPart::Text(format!("t{}w{word:03} ", request.turn)));
    let mut reply = words(number, said.chain(call.map(ReplyPart::Call)).collect());
    reply.delay = Duration::from_millis(number_behind(prompt, "DELAY=").unwrap_or(0) as u64);
    reply
}

fn words(number: usize, said: Vec<ReplyPart>) -> Reply {
    let output = said.len() as u64;
    Reply::new(number, said, Tokens { input: 1000, output, cached: 0 })
}

fn call(prompt: &str, tools: &[Tool]) -> Option<Call> {
    let (_, command) = prompt.rsplit_once("TOOL BASH CMD=`")?;
    let (command, _) = command.split_once('`')?;
    let tool = tools.iter().find(|tool| SHELLS.contains(&tool.name.as_str()))?;
    let takes = |name: &str| tool.arguments.iter().any(|argument| argument == name);
    let mut arguments = Map::new();
    if takes("args") {
        arguments.insert("command".to_owned(), json!("sh"));
        arguments.insert("args".to_owned(), json!(["-c", command]));
    } else {
        arguments.insert(if takes("cmd") { "cmd" } else { "command" }.to_owned(), json!(command));
    }
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
    Some(Call {
        name: tool.name.clone(),
        group: tool.group.clone(),
        arguments: Value::Object(arguments).to_string(),
    })
}

/// The number behind the last of these marks.
fn number_behind(prompt: &str, mark: &str) -> Option<usize> {
    let (_, rest) = prompt.rsplit_once(mark)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}
