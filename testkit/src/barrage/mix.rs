//! The random requests of a barrage: every kind, valid and invalid, about existing and missing sessions.

use rethread::edge::Version;
use serde_json::{Value, json};

use super::{Plan, State};

/// How many sessions a client keeps using.
pub(super) const SESSIONS: usize = 10;

/// The maximum number of messages that are sent at once.
const BURST: u64 = 8;

/// A random message.
pub(super) enum Draw {
    /// A request.
    Ask(&'static str, Value),
    /// A notification.
    Tell(&'static str, Value),
}

/// Generates random messages.
pub(super) struct Mix {
    version: Version,
    cwd: String,
    random: u64,
}

impl Mix {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            version: plan.version,
            cwd: plan.cwd.clone(),
            random: plan.seed.wrapping_mul(2).wrapping_add(1),
        }
    }

    pub(super) fn introduction(&self) -> (&'static str, Value) {
        let params = match self.version {
            Version::V1 => json!({
                "protocolVersion": 1,
                "clientInfo": {"name": "barrage", "version": "1"},
                "clientCapabilities": {"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true},
            }),
            Version::V2 => {
                json!({"protocolVersion": 2, "info": {"name": "barrage", "version": "1"}, "capabilities": {}})
            }
        };
        ("initialize", params)
    }

    /// Generates messages that are sent together.
    pub(super) fn burst(&mut self, state: &mut State) -> Vec<Draw> {
        // Sessions that are no longer used are closed, since they would only take up memory.
        let close = |session| Draw::Ask("session/close", json!({"sessionId": session}));
        let mut draws: Vec<_> = state.forgotten.drain(..).map(close).collect();
        let many = 1 + self.below(BURST);
        draws.extend((0..many).map(|_| self.draw(state)));
        draws
    }

    fn draw(&mut self, state: &State) -> Draw {
        let session = self.session(state);
        let of = json!({"sessionId": session});
        match self.below(100) {
            0..12 => Draw::Ask("session/new", json!({"cwd": self.cwd, "mcpServers": []})),
            12..32 => self.prompt(&session),
            32..42 => self.open(&session, "session/load"),
            42..50 => self.open(&session, "session/resume"),
            50..53 => self.open(&session, "session/fork"),
            53..63 => Draw::Ask("session/close", of),
            63..68 => Draw::Ask("session/delete", of),
            68..70 => Draw::Ask("session/archive", of),
            70..72 => Draw::Ask("session/unarchive", of),
            72..77 => Draw::Ask("session/status", of),
            77..81 => Draw::Ask("session/list", json!({})),
            81..84 => Draw::Ask("session/set_title", json!({"sessionId": session, "title": "a title"})),
            84..86 => self.set_option(&session),
            86..88 => Draw::Ask("_agent/echo", of),
            88..89 => Draw::Ask("_nobody/knows", of),
            89..90 => Draw::Ask("tool_call/cancel", json!({"sessionId": session, "toolCallId": "call_1"})),
            90..91 => Draw::Ask("session/prompt", json!({"sessionId": session, "prompt": "no list"})),
            91..96 => Draw::Tell("session/cancel", of),
            _ => {
                let open = state.open.keys().min().copied().unwrap_or_default();
                Draw::Tell("$/cancel_request", json!({"requestId": open + self.below(4)}))
            }
        }
    }

    fn prompt(&mut self, session: &str) -> Draw {
        let script = match self.below(20) {
            0..6 => "say hello",
            6..9 => "chunks 20; say done",
            9..11 => "tool call_1; plan a,b",
            11..13 => "permit",
            13..15 => "slow 3",
            15..16 => "hang",
            16..17 => "fail",
            17..18 => "fs a.txt",
            18..19 => "ext; tell",
            _ => "think hm; title Named; usage 5/50",
        };
        let prompt = json!([{"type": "text", "text": script}]);
        Draw::Ask("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    fn open(&mut self, session: &str, method: &'static str) -> Draw {
        let mut params = json!({"sessionId": session, "cwd": self.cwd, "mcpServers": []});
        if self.version == Version::V2 && method == "session/resume" {
            params["replayFrom"] = match self.below(3) {
                0 => json!({"type": "start"}),
                1 => json!({"type": "_message", "messageId": "of nobody"}),
                _ => Value::Null,
            };
        }
        Draw::Ask(method, params)
    }

    fn set_option(&mut self, session: &str) -> Draw {
        match self.version {
            Version::V1 => Draw::Ask("session/set_mode", json!({"sessionId": session, "modeId": "b"})),
            Version::V2 => Draw::Ask(
                "session/set_config_option",
                json!({"sessionId": session, "configId": "mode", "type": "id", "value": "b"}),
            ),
        }
    }

    /// A known session, or one that does not exist.
    fn session(&mut self, state: &State) -> String {
        let at = self.below(state.sessions.len() as u64 + 1);
        let known = usize::try_from(at).ok().and_then(|at| state.sessions.get(at));
        known.cloned().unwrap_or_else(|| "of nobody".to_owned())
    }

    /// A random number below this one.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % bound
    }
}

/// The answer to a request of the server.
pub(super) fn answer(id: &Value, method: &str, params: &Value) -> Value {
    match method {
        "session/request_permission" => {
            let option = &params["options"][0]["optionId"];
            json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}})
        }
        "fs/read_text_file" => json!({"jsonrpc": "2.0", "id": id, "result": {"content": "from the client"}}),
        _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found"}}),
    }
}
