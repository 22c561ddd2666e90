//! The messages of the MCP test server: tools, answers and misbehaviours. Does no I/O.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The maximum output of a tool on demand, in bytes.
const MOST_WORDS: usize = 64 * 1024 * 1024;

/// A misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Exits before it has sent anything.
    CrashesAtStart,
    /// Never answers anything.
    IsSilent,
    /// Mixes other lines with its messages.
    Babbles,
    /// Lists tools with schemas that are invalid, too big or infinitely nested.
    Lies,
    /// Lists pages without end.
    ListsWithoutEnd,
    /// Goes on after the end of its input and after SIGTERM.
    IsStubborn,
    /// Starts a child process and leaves it running.
    HasChild,
    /// The same, in its own session.
    HasDaemon,
    /// Lists two tools with the same name.
    Repeats,
    /// Reports changed tools all the time, with different ones each time.
    ChangesAllTheTime,
    /// Returns an endpoint on another host.
    PointsElsewhere,
    /// Answers with events where JSON would be possible.
    PrefersEvents,
    /// Opens its own stream over streamable HTTP, and floods it.
    FloodsItsStream,
    /// Omits required members from its initialization.
    BeginsBadly,
}

impl Habit {
    /// The command line words of all misbehaviours.
    pub const WORDS: [(&'static str, Habit); 14] = [
        ("--crashes-at-start", Habit::CrashesAtStart),
        ("--is-silent", Habit::IsSilent),
        ("--babbles", Habit::Babbles),
        ("--lies", Habit::Lies),
        ("--lists-without-end", Habit::ListsWithoutEnd),
        ("--is-stubborn", Habit::IsStubborn),
        ("--has-child", Habit::HasChild),
        ("--has-daemon", Habit::HasDaemon),
        ("--repeats", Habit::Repeats),
        ("--changes-all-the-time", Habit::ChangesAllTheTime),
        ("--points-elsewhere", Habit::PointsElsewhere),
        ("--prefers-events", Habit::PrefersEvents),
        ("--floods-its-stream", Habit::FloodsItsStream),
        ("--begins-badly", Habit::BeginsBadly),
    ];

    /// The command line word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, habit)| *habit == self).map_or("", |(word, _)| word)
    }
}

/// What the server does next.
pub(super) enum Act {
    /// Sends this.
    Say(Value),
    /// Sends this repeatedly, as fast as possible.
    SayForever(Value),
    /// Exits at once.
    Crash,
}

/// The server.
pub(super) struct Server {
    pub(super) habits: Vec<Habit>,
    /// The number of tools added since the start.
    grown: usize,
    /// The requests that were cancelled.
    cancelled: Vec<Value>,
    /// Calls that wait for an answer of the client, by the id of the server's request.
    waiting: BTreeMap<String, Value>,
}

impl Server {
    pub(super) fn new(habits: &[Habit]) -> Self {
        Self { habits: habits.to_vec(), grown: 0, cancelled: Vec::new(), waiting: BTreeMap::new() }
    }

    pub(super) fn has(&self, habit: Habit) -> bool {
        self.habits.contains(&habit)
    }

    /// Handles a message.
    pub(super) fn hear(&mut self, message: &Value) -> Vec<Act> {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            _ if self.has(Habit::IsSilent) => Vec::new(),
            None => self.hear_answer(message),
            Some("notifications/cancelled") => {
                self.cancelled.push(params["requestId"].clone());
                Vec::new()
            }
            Some(_) if id.is_null() => Vec::new(),
            Some("initialize") if self.has(Habit::BeginsBadly) => {
                vec![answer(id, &json!({"protocolVersion": "2025-06-18"}))]
            }
            Some("initialize") => vec![answer(id, &about(params))],
            Some("ping") => vec![answer(id, &json!({}))],
            Some("tools/list") if self.has(Habit::ChangesAllTheTime) => {
                self.grown += 1;
                vec![answer(id, &self.tools(params)), tell("notifications/tools/list_changed")]
            }
            Some("tools/list") => vec![answer(id, &self.tools(params))],
            Some("tools/call") => self.call(id, params),
            Some("prompts/list") => vec![answer(id, &prompts())],
            Some("prompts/get") => vec![answer(id, &prompt(params))],
            Some("resources/list") => vec![answer(id, &resources())],
            Some("resources/read") => vec![resource(id, params)],
            Some(other) => vec![refuse(id, -32601, &format!("no method {other}"))],
        }
    }

    /// Handles an answer of the client: the tool that asked shows it.
    fn hear_answer(&mut self, message: &Value) -> Vec<Act> {
        let Some(call) = message["id"].as_str().and_then(|id| self.waiting.remove(id)) else {
            return Vec::new();
        };
        let shown = message.get("result").or(message.get("error")).cloned().unwrap_or_default();
        vec![answer(&call, &text(&shown.to_string()))]
    }

    fn tools(&self, params: &Value) -> Value {
        if self.has(Habit::Lies) {
            return lies();
        }
        if self.has(Habit::ListsWithoutEnd) {
            let page: u64 = params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
            return json!({"tools": [tool(&format!("tool_{page}"))], "nextCursor": (page + 1).to_string()});
        }
        if self.has(Habit::Repeats) {
            return json!({"tools": [tool("echo"), tool("echo"), tool("echo-2")]});
        }
        let grown = (0..self.grown).map(|number| format!("grown_{number}"));
        let names = TOOLS.iter().map(|name| (*name).to_owned()).chain(grown);
        let tools: Vec<Value> = names.map(|name| tool(&name)).collect();
        let half = tools.len() / 2;
        match params["cursor"].as_str() {
            None => json!({"tools": tools[..half], "nextCursor": "second"}),
            Some(_) => json!({"tools": tools[half..]}),
        }
    }

    fn call(&mut self, id: &Value, params: &Value) -> Vec<Act> {
        let arguments = &params["arguments"];
        let words = arguments["text"].as_str().unwrap_or_default();
        match params["name"].as_str().unwrap_or_default() {
            "echo" => vec![answer(id, &text(words))],
            "echo-2" => vec![answer(id, &text(&format!("second {words}")))],
            "fail" => vec![answer(id, &json!({"content": text("it failed")["content"], "isError": true}))],
            "refuse" => vec![refuse(id, -32602, words)],
            "nonsense" => vec![answer(id, &json!(7))],
            "image" => vec![answer(id, &image())],
            "env" => vec![answer(id, &text(&std::env::var(words).unwrap_or_default()))],
            "long" => vec![answer(id, &text(&"x".repeat(length(arguments))))],
            "cancelled" => vec![answer(id, &text(&Value::from(self.cancelled.clone()).to_string()))],
            "progress" => progress(id, params),
            "roots" => vec![self.ask(id, "roots/list", &json!({}))],
            "sample" => {
                vec![self.ask(id, "sampling/createMessage", &json!({"messages": [], "maxTokens": 1}))]
            }
            "elicit" => vec![self.ask(id, "elicitation/create", &question())],
            "grow" => {
                self.grown += 1;
                vec![tell("notifications/tools/list_changed"), answer(id, &text("grown"))]
            }
            "crash" => vec![Act::Crash],
            "hang" => Vec::new(),
            "flood" => vec![Act::SayForever(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": 0, "progress": 1}}))],
            "pester" => vec![Act::SayForever(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))],
            other => vec![refuse(id, -32602, &format!("no tool {other}"))],
        }
    }

    fn ask(&mut self, call: &Value, method: &str, params: &Value) -> Act {
        let id = format!("question-{call}");
        self.waiting.insert(id.clone(), call.clone());
        Act::Say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }
}

/// The tools of a server that behaves well.
const TOOLS: [&str; 17] = [
    "echo",
    "fail",
    "refuse",
    "nonsense",
    "image",
    "env",
    "long",
    "cancelled",
    "progress",
    "roots",
    "sample",
    "elicit",
    "grow",
    "crash",
    "hang",
    "flood",
    "pester",
];

fn answer(id: &Value, result: &Value) -> Act {
    Act::Say(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn refuse(id: &Value, code: i32, message: &str) -> Act {
    Act::Say(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn tell(method: &str) -> Act {
    Act::Say(json!({"jsonrpc": "2.0", "method": method}))
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

fn about(params: &Value) -> Value {
    json!({
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {"listChanged": true}, "prompts": {}, "resources": {}},
        "serverInfo": {"name": "test", "version": "1"},
        "instructions": "Say please.",
    })
}

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("Does {name}."),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": name == "echo"},
    })
}

/// One valid tool among schemas of every invalid kind.
fn lies() -> Value {
    let with = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({"properties": {"a": deep}});
    }
    json!({"_meta": {}, "tools": [
        {"name": 7},
        "no tool",
        {"name": "none"},
        with("text", json!("{}")),
        with("string", json!({"type": "string"})),
        with("huge", json!({"type": "object", "description": "x".repeat(200_000)})),
        with("circle", json!({"type": "object", "properties": {"a": {"$ref": "#"}}})),
        with("deep", deep),
        tool("echo"),
    ]})
}

fn progress(id: &Value, params: &Value) -> Vec<Act> {
    let token = &params["_meta"]["progressToken"];
    let told = json!({"progressToken": token, "progress": 1});
    vec![
        Act::Say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})),
        answer(id, &text("done")),
    ]
}

fn image() -> Value {
    json!({
        "content": [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}],
        "structuredContent": {"width": 1},
    })
}

fn question() -> Value {
    json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}})
}

fn prompts() -> Value {
    json!({"prompts": [{"name": "greet", "description": "Greets.", "arguments": [
        {"name": "who", "description": "Whom to greet.", "required": true}]}]})
}

fn prompt(params: &Value) -> Value {
    let words = format!("Greet {}.", params["arguments"]["who"].as_str().unwrap_or("nobody"));
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": words}}]})
}

fn resources() -> Value {
    json!({"resources": [{"uri": "test://one", "name": "one", "mimeType": "text/plain"}]})
}

fn resource(id: &Value, params: &Value) -> Act {
    match params["uri"].as_str() {
        Some("test://one") => answer(
            id,
            &json!({"contents": [{"uri": "test://one", "mimeType": "text/plain", "text": "first"}]}),
        ),
        _ => refuse(id, -32002, "no such resource"),
    }
}

fn length(arguments: &Value) -> usize {
    let asked = arguments["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
    asked.unwrap_or(0).min(MOST_WORDS)
}
