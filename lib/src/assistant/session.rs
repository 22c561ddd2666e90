//! One session of the assistant: its tools, its MCP servers, and what it says when it is opened.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::model::{Message, Part, Reply};
use super::tools::Toolbox;
use super::{command, memory, served};
use crate::author::{Opening, Turn, Voice};
use crate::mcp::{self, Place, Servers};
use crate::wire::RpcError;

/// What the assistant keeps of a session while it is open.
pub struct Session {
    pub(super) voice: Voice,
    pub(super) toolbox: Toolbox,
    pub(super) servers: Arc<Servers>,
    /// What the client wants said to the model.
    pub(super) system_prompt: Option<Value>,
}

impl Session {
    /// Connects its servers. One that is not there is told of, and the session goes on without it.
    pub(super) async fn open(
        opening: Opening,
        limits: mcp::Limits,
        keys: Vec<String>,
    ) -> Result<Self, RpcError> {
        let Opening { cwd, roots, servers, system_prompt, voice } = opening;
        let roots: Vec<_> = std::iter::once(cwd).chain(roots).collect();
        // A command is not to read the keys of models.
        let toolbox = Toolbox::new(roots.clone()).without_variables(keys);
        let (configs, wrong) = mcp::from_acp(&json!(servers).into());
        for error in wrong {
            voice.notice("warning", &error.to_string(), None).await;
        }
        let place = Place { cwd: roots[0].clone(), roots };
        let (servers, failures) = Servers::connect(configs, place, limits).await;
        for failure in failures {
            voice.notice("warning", &failure.to_string(), Some(&failure.remedy)).await;
        }
        for note in servers.notes() {
            voice.notice("info", &format!("MCP server {}: {}", note.server, note.text), None).await;
        }
        let session = Self { voice, toolbox, servers: Arc::new(servers), system_prompt };
        session.tell_commands().await;
        session.follow_servers();
        Ok(session)
    }

    async fn tell_commands(&self) {
        self.voice.commands(&command::all(&self.servers)).await;
    }

    /// What the servers offer may change while the session is open.
    fn follow_servers(&self) {
        let (voice, servers) = (self.voice.clone(), Arc::downgrade(&self.servers));
        let mut changes = self.servers.changes();
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(servers) = servers.upgrade() else { return };
                voice.commands(&command::all(&servers)).await;
            }
        });
    }

    /// What a model is to be told if the user's words name a prompt of a server.
    pub(super) async fn prompt_of_server(
        &self,
        turn: &Turn,
        text: &str,
    ) -> Result<Option<Vec<Message>>, RpcError> {
        let Some(line) = text.trim().strip_prefix('/') else { return Ok(None) };
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let prompts = self.servers.prompts();
        let Some(prompt) = prompts.iter().find(|prompt| prompt.shown_name == name) else { return Ok(None) };
        let arguments = arguments(rest);
        let got = self.servers.get_prompt(&prompt.server, &prompt.name, arguments, turn.cancelled()).await;
        let messages = got.map_err(|error| RpcError::internal(error.to_string()))?;
        Ok(Some(messages.iter().map(said).collect()))
    }

    /// What the session cost so far, in US dollars.
    pub(super) fn cost(history: &[Value]) -> Option<f64> {
        let told = history.iter().rev().filter(|item| item["sessionUpdate"] == "usage_update");
        told.filter_map(|item| item["cost"]["amount"].as_f64()).next()
    }
}

/// Words like `name=value` as the arguments of a prompt.
fn arguments(words: &str) -> Map<String, Value> {
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), Value::from(value)));
    words.split_whitespace().filter_map(pair).collect()
}

/// A message of a prompt as a model is to see it.
fn said(message: &mcp::Message) -> Message {
    let (words, block) = served::shown(&message.content);
    match message.role.as_str() {
        "assistant" => Message::Assistant(Reply { model: String::new(), parts: vec![Part::Text(words)] }),
        _ => Message::User(memory::user_parts(&json!([block]))),
    }
}
