//! Requests of the test client about sessions, in the form of its version.

use rethread::edge::Version;
use serde_json::{Value, json};

use super::{Client, Outcome};
use crate::view::View;

/// The working directory of test sessions.
pub const CWD: &str = "/work";

/// How a turn ended for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTurn {
    /// The stop reason, or `error N` with the code.
    pub stop: String,
    /// The message id of the prompt, if the client gets it.
    pub message: Option<String>,
}

impl Client {
    /// The default parameters of `initialize`: a client that supports everything.
    #[must_use]
    pub fn introduction(&self) -> Value {
        match self.version {
            Version::V1 => json!({
                "protocolVersion": 1,
                "clientInfo": {"name": "test", "version": "1"},
                "clientCapabilities": {
                    "fs": {"readTextFile": true, "writeTextFile": true},
                    "terminal": true,
                    "elicitation": {"form": {}},
                    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
                    "plan": {},
                    "subagents": {},
                },
            }),
            Version::V2 => json!({
                "protocolVersion": 2,
                "info": {"name": "test", "version": "2"},
                "capabilities": {"elicitation": {"form": {}}},
            }),
        }
    }

    /// Initializes, and returns the answer.
    pub async fn initialize(&self) -> Value {
        self.ask("initialize", self.introduction()).await
    }

    /// Initializes as a client without capabilities.
    pub async fn initialize_bare(&self) -> Value {
        let mut params = self.introduction();
        match self.version {
            Version::V1 => params["clientCapabilities"] = json!({}),
            Version::V2 => params["capabilities"] = json!({}),
        }
        self.ask("initialize", params).await
    }

    /// Creates a session in [`CWD`] and returns its id.
    pub async fn new_session(&self) -> String {
        self.new_session_in(CWD).await
    }

    /// Creates a session in this directory and returns its id.
    pub async fn new_session_in(&self, cwd: &str) -> String {
        let made = self.ask("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        made["sessionId"].as_str().expect("a new session has an id").to_owned()
    }

    /// The parameters that load a session with its whole replay: `session/load`, or `session/resume`.
    #[must_use]
    pub fn load_params(&self, session: &str) -> (&'static str, Value) {
        let mut params = json!({"sessionId": session, "cwd": CWD, "mcpServers": []});
        match self.version {
            Version::V1 => ("session/load", params),
            Version::V2 => {
                params["replayFrom"] = json!({"type": "start"});
                ("session/resume", params)
            }
        }
    }

    /// The request that sets an option, in the form of this client's version.
    #[must_use]
    pub fn option_request(&self, session: &str, option: &str, value: Value) -> (&'static str, Value) {
        let kind = match (self.version, &value) {
            (_, Value::Bool(_)) => Some("boolean"),
            (Version::V2, _) => Some("id"),
            (Version::V1, _) => None,
        };
        let mut params = json!({"sessionId": session, "configId": option, "value": value});
        if let Some(kind) = kind {
            params["type"] = json!(kind);
        }
        ("session/set_config_option", params)
    }

    /// Sets an option, and returns the answer.
    pub async fn set_option(&self, session: &str, option: &str, value: impl Into<Value>) -> Value {
        let (method, params) = self.option_request(session, option, value.into());
        self.ask(method, params).await
    }

    /// Loads a session with its whole replay, and returns the answer.
    pub async fn load(&self, session: &str) -> Value {
        let (method, params) = self.load_params(session);
        self.ask(method, params).await
    }

    /// The same for a session in this directory.
    pub async fn load_in(&self, cwd: &str, session: &str) -> Value {
        let (method, mut params) = self.load_params(session);
        params["cwd"] = json!(cwd);
        self.ask(method, params).await
    }

    /// Loads a session that cannot be loaded, and returns the error.
    pub async fn load_refused(&self, session: &str) -> Value {
        let (method, params) = self.load_params(session);
        self.refused(method, params).await
    }

    /// The same for a session in this directory.
    pub async fn load_in_refused(&self, cwd: &str, session: &str) -> Value {
        let (method, mut params) = self.load_params(session);
        params["cwd"] = json!(cwd);
        self.refused(method, params).await
    }

    /// Resumes a session without a replay, and returns the answer.
    pub async fn resume(&self, session: &str) -> Value {
        let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": []});
        self.ask("session/resume", params).await
    }

    /// Sends a prompt and returns the id of the request.
    pub async fn begin_prompt(&self, session: &str, text: &str) -> Value {
        let prompt = json!([{"type": "text", "text": text}]);
        self.begin("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Sends a prompt and waits for the end of its turn.
    pub async fn prompt(&self, session: &str, text: &str) -> ClientTurn {
        let id = self.begin_prompt(session, text).await;
        self.finish(session, &id).await
    }

    /// Waits for the end of the turn of a prompt.
    pub async fn finish(&self, session: &str, request: &Value) -> ClientTurn {
        match self.answer(request).await {
            Err(error) => ClientTurn { stop: format!("error {}", error["code"]), message: None },
            Ok(answer) => match self.version {
                Version::V1 => {
                    let stop = answer["stopReason"].as_str().unwrap_or("none").to_owned();
                    ClientTurn { stop, message: None }
                }
                Version::V2 => self.idle_after(session, &answer).await,
            },
        }
    }

    /// A v2 turn ends with the first idle state after the echo of its prompt.
    async fn idle_after(&self, session: &str, answer: &Value) -> ClientTurn {
        let message = answer["messageId"].as_str().expect("a prompt's answer has a messageId").to_owned();
        let of = |said: &Value, name: &str, value: &str| {
            said["params"]["sessionId"] == session && said["params"]["update"][name] == value
        };
        let (mut from, mut idle_from) = (0, None);
        let idle = |inbox: &super::Inbox| {
            if idle_from.is_none() {
                inbox.find(&mut from, |said| of(said, "messageId", &message))?;
                idle_from = Some(from);
            }
            inbox.find(idle_from.as_mut()?, |said| of(said, "state", "idle"))
        };
        let idle = self.inbox.wait("the end of the turn", idle).await;
        let idle = &idle["params"]["update"];
        ClientTurn { stop: idle["stopReason"].as_str().unwrap_or("none").to_owned(), message: Some(message) }
    }

    /// Cancels the work of a session.
    pub async fn cancel(&self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session})).await;
    }

    /// The ids on the first page of a list.
    pub async fn listed(&self) -> Vec<String> {
        let page = self.ask("session/list", json!({"cwd": CWD})).await;
        let sessions = page["sessions"].as_array().expect("a list of sessions");
        sessions.iter().map(|session| session["sessionId"].as_str().expect("an id").to_owned()).collect()
    }

    /// Closes a session.
    pub async fn close(&self, session: &str) -> Outcome {
        self.request("session/close", json!({"sessionId": session})).await
    }

    /// The updates of a session since a mark, in order.
    #[must_use]
    pub fn updates_since(&self, mark: usize, session: &str) -> Vec<Value> {
        let heard = self.server_messages_since(mark).into_iter();
        let of = heard.filter(|message| {
            message["method"] == "session/update" && message["params"]["sessionId"] == session
        });
        of.map(|message| message["params"]["update"].clone()).collect()
    }

    /// All updates of a session, in order.
    #[must_use]
    pub fn updates(&self, session: &str) -> Vec<Value> {
        self.updates_since(0, session)
    }

    /// Waits for an update of a session at or after a mark.
    pub async fn wait_update(
        &self,
        mark: usize,
        session: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = self
            .wait_since(mark, what, |message| {
                message["method"] == "session/update"
                    && message["params"]["sessionId"] == session
                    && is(&message["params"]["update"])
            })
            .await;
        found["params"]["update"].clone()
    }

    /// What a user of this client sees of a session, from all messages since a mark. A v1 client shows its own prompts
    /// itself.
    #[must_use]
    pub fn view_since(&self, mark: usize, session: &str) -> View {
        View::of(self.version, session, &self.said()[mark..])
    }

    /// What a user of this client sees of a session.
    #[must_use]
    pub fn view(&self, session: &str) -> View {
        self.view_since(0, session)
    }
}
