//! A model server on loopback that answers as planned by a test, or as the prompt says. It supports five provider APIs
//! and records all requests. The prompt's language is in `plan`, that of tests in `script`.

mod anthropic;
mod chat;
mod gemini;
mod http;
mod ollama;
mod plan;
mod responses;
mod script;

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use http::{Events, Framing, Request};
use plan::Reply;

pub use script::{Planned, error_body};

use crate::DEADLINE;

/// The most connections at a time; one more is turned away.
const MOST_CONNECTIONS: usize = 64;
/// The longest that a peer may neither read nor write.
const PATIENCE: Duration = Duration::from_secs(60);
/// What it lists.
const MODELS: [&str; 2] = ["loopback-1", "loopback-small"];

/// A request for an answer, as it came.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The path, without the query.
    pub path: String,
    /// The headers, their names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
}

impl ModelRequest {
    /// The conversation in it, in whichever dialect, without the mark up to where the provider may cache: that moves
    /// along.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        let lists =
            ["messages", "input", "contents"].into_iter().filter_map(|name| self.body[name].as_array());
        lists.flatten().cloned().map(unmarked).collect()
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

fn unmarked(mut message: Value) -> Value {
    let blocks = message.get_mut("content").and_then(Value::as_array_mut);
    let Some(blocks) = blocks.filter(|blocks| blocks.iter().any(|block| !block["cache_control"].is_null()))
    else {
        return message;
    };
    for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
        block.remove("cache_control");
    }
    // A text without the mark is no list.
    if let [block] = blocks.as_slice()
        && block["type"] == "text"
    {
        message["content"] = block["text"].clone();
    }
    message
}

/// The server, gone when this is dropped. Answers that are under way end by themselves.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ModelState>,
}

/// A model of the list: its name, and how much it reads at a time if the server says so.
type ListedModel = (String, Option<u64>);

#[derive(Default)]
struct ModelState {
    asked: Mutex<Vec<ModelRequest>>,
    planned: Mutex<VecDeque<Planned>>,
    /// The models that it lists; nothing if it refuses to.
    models: Mutex<Option<Vec<ListedModel>>>,
    hang_ups: AtomicUsize,
    connections: AtomicUsize,
    stopped: AtomicBool,
}

impl ModelServer {
    /// Starts on a free port of 127.0.0.1.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let models = MODELS.map(|name| (name.to_owned(), None)).to_vec();
        let shared = Arc::new(ModelState { models: Mutex::new(Some(models)), ..ModelState::default() });
        let server = Self { address, shared: shared.clone() };
        thread::spawn(move || accept(&listener, &shared));
        server
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it was asked to answer so far, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<ModelRequest> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what is done with the next request that is not planned for.
    pub fn plan(&self, planned: Planned) {
        self.shared.planned.lock().unwrap_or_else(PoisonError::into_inner).push_back(planned);
    }

    /// Lists these models from now on, each with how much it reads at a time.
    pub fn list(&self, models: &[(&str, Option<u64>)]) {
        let models = models.iter().map(|(name, window)| ((*name).to_owned(), *window)).collect();
        *self.shared.models.lock().unwrap_or_else(PoisonError::into_inner) = Some(models);
    }

    /// Refuses to list its models from now on.
    pub fn list_nothing(&self) {
        *self.shared.models.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Waits until it was asked so often.
    ///
    /// # Panics
    ///
    /// If that does not come in time.
    pub async fn wait_asked(&self, count: usize) {
        let seen = async {
            while self.asked().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(DEADLINE, seen).await.expect("the model is asked");
    }

    /// Waits until a peer has hung up in the middle of an answer.
    ///
    /// # Panics
    ///
    /// If none does in time.
    pub async fn wait_hang_up(&self) {
        let seen = async {
            while self.shared.hang_ups.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(DEADLINE, seen).await.expect("a peer hangs up");
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Who waits for a connection gets one more.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ModelState>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let shared = shared.clone();
        thread::spawn(move || {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
            if let Err(error) = serve(&stream, &shared)
                && matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
            {
                shared.hang_ups.fetch_add(1, Ordering::SeqCst);
            }
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Answers the one request of a connection.
fn serve(stream: &TcpStream, shared: &ModelState) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let Some(request) = http::read(stream)? else { return Ok(()) };
    let path = request.path.as_str();
    match request.method.as_str() {
        "POST" if path.ends_with("/count_tokens") => {
            http::answer(stream, 200, &json!({"input_tokens": 1000}))
        }
        "POST" if path.ends_with(":countTokens") => http::answer(stream, 200, &json!({"totalTokens": 1000})),
        "POST" if path.ends_with("/messages") => talk::<anthropic::Anthropic>(stream, request, shared),
        "POST" if path.ends_with("/chat/completions") => talk::<chat::Chat>(stream, request, shared),
        "POST" if path.ends_with("/api/chat") => talk::<ollama::Ollama>(stream, request, shared),
        "POST" if path.ends_with("/responses") => talk::<responses::Responses>(stream, request, shared),
        "POST" if path.ends_with("enerateContent") => talk::<gemini::Gemini>(stream, request, shared),
        "GET" => listing(stream, path, shared),
        _ => http::answer(stream, 404, &json!({"error": {"type": "not_found_error", "message": path}})),
    }
}

/// Lists the models in the words of the dialect that is asked.
fn listing(stream: &TcpStream, path: &str, shared: &ModelState) -> io::Result<()> {
    let models = shared.models.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let path = path.split('?').next().unwrap_or_default();
    let Some(models) = models else {
        return http::answer(stream, 503, &json!({"error": {"message": "not now"}}));
    };
    let named = |before: &str, window: &str| -> Value {
        let of = |(name, size): &ListedModel| {
            let mut model = json!({"name": format!("{before}{name}")});
            size.filter(|_| !window.is_empty()).into_iter().for_each(|size| model[window] = json!(size));
            model
        };
        json!({"models": models.iter().map(of).collect::<Vec<_>>()})
    };
    let answer = match path {
        // What it has loaded tells its window; the list of all does not.
        path if path.ends_with("/api/tags") => named("", ""),
        path if path.ends_with("/api/ps") => named("", "context_length"),
        path if path.ends_with("/v1beta/models") => named("models/", "inputTokenLimit"),
        path if path.ends_with("/models") => with_ids(&models),
        path => {
            let error = json!({"error": {"type": "not_found_error", "message": path}});
            return http::answer(stream, 404, &error);
        }
    };
    http::answer(stream, 200, &answer)
}

/// The list in the members of the dialects that have ids.
fn with_ids(models: &[ListedModel]) -> Value {
    let model = |(name, window): &ListedModel| {
        let mut model = json!({"id": name, "object": "model", "type": "model", "display_name": name,
            "created": 1, "created_at": "2026-01-01T00:00:00Z", "owned_by": "loopback"});
        window.iter().for_each(|size| model["max_model_len"] = json!(size));
        model
    };
    let data: Vec<_> = models.iter().map(model).collect();
    json!({"object": "list", "data": data, "models": [], "has_more": false})
}

/// How one kind of agent asks, and how it is answered.
trait Dialect {
    /// Reads what is asked.
    fn read(body: &Value) -> ParsedRequest;
    /// Whether it wants the answer as it is made.
    fn streams(request: &Request) -> bool {
        request.body["stream"] == true
    }
    /// How it wants events told from each other.
    const FRAMING: Framing = Framing::Sse;
    /// Gives the whole answer.
    fn whole(reply: &Reply, request: &Request) -> Value;
    /// Gives the answer bit by bit.
    fn stream(reply: &Reply, request: &Request, events: &mut Events) -> io::Result<()>;
}

/// What of a request decides the answer.
#[derive(Debug, Default)]
struct ParsedRequest {
    /// The text of the newest message of the user's.
    prompt: String,
    /// How many messages of the user's there are.
    turn: usize,
    /// Whether a tool has answered since that message.
    tool_answered: bool,
    /// The tools that may be called.
    tools: Vec<Tool>,
    /// The name of the model.
    model: String,
}

/// A tool that may be called.
#[derive(Debug)]
struct Tool {
    name: String,
    /// What codex calls the group it is in.
    group: Option<String>,
    /// The names of its arguments.
    arguments: Vec<String>,
}

impl Tool {
    fn new(name: &Value, schema: &Value) -> Option<Self> {
        let arguments = schema["properties"].as_object();
        let arguments = arguments.map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
        Some(Self { name: name.as_str()?.to_owned(), group: None, arguments })
    }
}

fn talk<D: Dialect>(stream: &TcpStream, request: Request, shared: &ModelState) -> io::Result<()> {
    let number = {
        let mut asked = shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Request { path, headers, body, .. } = &request;
        asked.push(ModelRequest { path: path.clone(), headers: headers.clone(), body: body.clone() });
        asked.len()
    };
    let planned = shared.planned.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let reply = match planned.map(|planned| planned.into_parts(number)) {
        Some(Ok(reply)) => reply,
        Some(Err(refused)) => {
            return http::answer_with(stream, refused.status, &refused.headers, &refused.body);
        }
        None => plan::reply(&D::read(&request.body), number),
    };
    if !D::streams(&request) {
        return http::answer(stream, 200, &D::whole(&reply, &request));
    }
    let mut events = Events::begin(stream, D::FRAMING)?;
    if reply.ending == plan::Ending::Empty {
        return events.end();
    }
    D::stream(&reply, &request, &mut events)?;
    events.end()
}

/// The text of content in any dialect: a string, or parts of which some have a text.
fn text_of(content: &Value) -> String {
    let part = |part: &Value| part.as_str().or(part["text"].as_str()).map(str::to_owned);
    let Some(parts) = content.as_array() else { return part(content).unwrap_or_default() };
    let texts: Vec<String> = parts.iter().filter_map(part).collect();
    // What is quoted of an earlier conversation gives no orders; some agents put it and the prompt into one part.
    let (quoted, own): (Vec<String>, Vec<String>) = texts.into_iter().partition(|text| text.contains(QUOTED));
    if own.is_empty() { quoted.join("\n") } else { own.join("\n") }
}

/// Says whether a message in the name of the user is the agent's own.
fn is_reminder(content: &Value) -> bool {
    let text = text_of(content);
    // Others put a reminder before the prompt into the same message.
    text.trim_start().starts_with("<system-reminder>") && text.trim_end().ends_with("</system-reminder>")
}

/// The first words of a transcript that a fresh agent is given.
const QUOTED: &str = "# The conversation so far";

#[cfg(test)]
mod tests;
