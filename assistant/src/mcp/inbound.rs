//! Filters the messages of a server: drops notifications that have no handler, and detects servers that send too many.
//!
//! `rmcp` decodes a result by trying all result types that it knows. A slightly invalid result would match another type
//! and lose members, or be dropped. So every result except that of `initialize` passes through `rmcp` as text and is
//! decoded by the code that sent the request.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rethread_core::Json;
use rmcp::model::{
    ClientJsonRpcMessage, CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerNotification, ServerResult,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The notifications that are handled.
const HANDLED: [&str; 5] = [
    "notifications/cancelled",
    "notifications/progress",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];
/// The minimum time between two progress notifications; they only reset a timeout.
const PROGRESS_PAUSE: Duration = Duration::from_millis(5);
/// The length of the window in which messages are counted.
const WINDOW: Duration = Duration::from_secs(5);
/// The maximum number and size of unsolicited messages in a window.
const MOST_MESSAGES: u32 = 10_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// The maximum number of the server's requests without an answer.
const MOST_OPEN: usize = 64;

/// A decoded message.
enum Inbound {
    /// An answer to a request.
    Answer(ServerJsonRpcMessage),
    /// A request or notification of the server.
    Unasked(ServerJsonRpcMessage),
    /// A notification that is not handled, or an invalid message.
    Nothing,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Decodes one message.
fn read(text: &[u8]) -> Inbound {
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(text) else { return Inbound::Nothing };
    let id = envelope.id.and_then(|id| serde_json::from_str::<RequestId>(id.get()).ok());
    match (envelope.method, id, envelope.result, envelope.error) {
        (Some(method), None, _, _) if !HANDLED.contains(&method.as_ref()) => Inbound::Nothing,
        (Some(_), _, _, _) => serde_json::from_slice(text).map_or(Inbound::Nothing, Inbound::Unasked),
        (None, Some(id), Some(result), _) => Inbound::Answer(answer(text, result, id)),
        (None, id, None, Some(error)) => Inbound::Answer(JsonRpcMessage::error(refusal(error), id)),
        (None, _, _, _) => Inbound::Nothing,
    }
}

/// The JSON text of a result that passed through `rmcp`.
pub(super) fn result_text(result: ServerResult) -> Json {
    if let ServerResult::CustomResult(CustomResult(Value::String(text))) = &result {
        return Json::parse(text.clone()).unwrap_or_else(|_| Json::of(text));
    }
    Json::of(&result)
}

fn answer(text: &[u8], result: &RawValue, id: RequestId) -> ServerJsonRpcMessage {
    let greets = Json::from(result.to_owned()).fields().get("protocolVersion").is_some();
    if greets && let Ok(typed) = serde_json::from_slice(text) {
        return typed;
    }
    let kept = CustomResult::new(Value::String(result.get().to_owned()));
    JsonRpcMessage::response(ServerResult::CustomResult(kept), id)
}

fn refusal(error: &RawValue) -> ErrorData {
    serde_json::from_str(error.get())
        .unwrap_or_else(|_| ErrorData::new(ErrorCode::INTERNAL_ERROR, error.get().to_owned(), None))
}

/// The filter of one connection. It fails when there are too many messages.
pub(super) struct InboundFilter {
    meter: FloodMeter,
    open: OpenRequests,
    /// When the last progress notification was accepted.
    progress: Option<Instant>,
}

/// The number of the server's requests without an answer.
#[derive(Clone, Default)]
pub(super) struct OpenRequests(Arc<AtomicUsize>);

impl OpenRequests {
    /// Must be called for every message that is sent.
    pub(super) fn sent(&self, message: &ClientJsonRpcMessage) {
        if matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) {
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| open.checked_sub(1));
        }
    }
}

impl InboundFilter {
    /// A filter for a new connection.
    pub(super) fn new() -> Self {
        Self { meter: FloodMeter::new(), open: OpenRequests::default(), progress: None }
    }

    /// The counter that must be called for every message that is sent.
    pub(super) fn open_requests(&self) -> OpenRequests {
        self.open.clone()
    }

    /// Accepts or drops a message. An error closes the connection.
    pub(super) fn admit(&mut self, text: &[u8]) -> Result<Option<ServerJsonRpcMessage>, String> {
        let message = match read(text) {
            Inbound::Answer(message) => return Ok(Some(message)),
            Inbound::Unasked(message) => Some(message),
            Inbound::Nothing => None,
        };
        self.meter.count(text.len())?;
        if matches!(message, Some(JsonRpcMessage::Request(_)))
            && self.open.0.fetch_add(1, Ordering::Relaxed) >= MOST_OPEN
        {
            return Err(format!(
                "it sends too much: more than {MOST_OPEN} requests without reading the answers"
            ));
        }
        Ok(message.filter(|message| !is_progress(message) || self.is_time_for_progress()))
    }

    fn is_time_for_progress(&mut self) -> bool {
        let is_time = self.progress.is_none_or(|last| last.elapsed() >= PROGRESS_PAUSE);
        if is_time {
            self.progress = Some(Instant::now());
        }
        is_time
    }
}

fn is_progress(message: &ServerJsonRpcMessage) -> bool {
    let JsonRpcMessage::Notification(notification) = message else { return false };
    matches!(notification.notification, ServerNotification::ProgressNotification(_))
}

/// Counts unsolicited messages.
struct FloodMeter {
    since: Instant,
    messages: u32,
    bytes: usize,
}

impl FloodMeter {
    /// A counter whose window begins now.
    fn new() -> Self {
        Self { since: Instant::now(), messages: 0, bytes: 0 }
    }

    /// Counts a message of this length; fails if it exceeds a maximum.
    fn count(&mut self, bytes: usize) -> Result<(), String> {
        if self.since.elapsed() > WINDOW {
            *self = Self::new();
        }
        self.messages += 1;
        self.bytes += bytes;
        if self.messages <= MOST_MESSAGES && self.bytes <= MOST_BYTES {
            return Ok(());
        }
        Err(format!(
            "it sends too much: {} unsolicited messages of {} KiB within {:.1} s",
            self.messages,
            self.bytes / 1024,
            self.since.elapsed().as_secs_f32()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> String {
        match read(text.as_bytes()) {
            Inbound::Answer(JsonRpcMessage::Response(response)) => result_text(response.result).to_string(),
            Inbound::Answer(JsonRpcMessage::Error(error)) => format!("error {}", error.error.message),
            Inbound::Answer(_) => "another answer".to_owned(),
            Inbound::Unasked(message) => {
                format!("unasked {}", serde_json::to_value(message).unwrap()["method"])
            }
            Inbound::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn results_keep_what_rmcp_does_not_know() {
        let lie = r#"{"tools":[{"name":7,"x":1}],"_meta":{}}"#;
        assert_eq!(kept(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{lie}}}"#)), lie);
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(kept(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#)), deep);
    }

    #[test]
    fn errors_of_any_shape_are_decoded() {
        assert_eq!(kept(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#), "error no");
        assert_eq!(kept(r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#), r#"error "no""#);
    }

    #[test]
    fn unhandled_notifications_are_dropped() {
        for text in
            ["", "hello", "[]", "{}", r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#]
        {
            assert_eq!(kept(text), "nothing", "{text}");
        }
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        assert_eq!(kept(changed), r#"unasked "notifications/tools/list_changed""#);
        assert_eq!(kept(r#"{"jsonrpc":"2.0","id":"a","method":"roots/list"}"#), r#"unasked "roots/list""#);
    }

    #[test]
    fn a_flood_is_detected() {
        let mut meter = FloodMeter::new();
        assert!((0..MOST_MESSAGES).all(|_| meter.count(10).is_ok()));
        assert!(meter.count(10).unwrap_err().starts_with("it sends too much"));
        assert!(FloodMeter::new().count(MOST_BYTES + 1).is_err());
    }
}
