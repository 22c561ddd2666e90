//! The HTTP requests of the Streamable HTTP transport. `rmcp` handles sessions, streams and their resumption; this file
//! adds length limits, the inbound filter, and error messages for users.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use rethread::lock::locked;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::time::Instant;

use super::close_reason::CloseReason;
use super::http_common;
use super::inbound::InboundFilter;
use super::sse_events::{SseEvent, SseReader};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// A stream that was open for this long is reopened without a pause.
const LASTING: Duration = Duration::from_secs(5);
/// The first and the longest pause before other streams are reopened; pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The error type that `rmcp` requires.
type HttpError = StreamableHttpError<reqwest::Error>;

/// Sends the requests of one connection.
#[derive(Clone)]
pub(super) struct HttpTransport {
    client: Client,
    headers: HeaderMap,
    longest: usize,
    filter: Arc<Mutex<InboundFilter>>,
    /// Set when the server sends too much.
    close_reason: CloseReason,
    reopening: Arc<Mutex<Reopening>>,
}

/// Computes pauses, so that a stream that keeps breaking is not reopened all the time.
#[derive(Default)]
struct Reopening {
    last: Option<Instant>,
    pause: Duration,
}

impl Reopening {
    /// The pause before the next stream is opened.
    fn pause(&mut self, now: Instant) -> Duration {
        let is_early = self.last.is_some_and(|last| now - last < LASTING);
        self.pause = match (is_early, self.pause) {
            (false, _) => Duration::ZERO,
            (true, Duration::ZERO) => FIRST_PAUSE,
            (true, pause) => LONGEST_PAUSE.min(pause * 2),
        };
        self.last = Some(now + self.pause);
        self.pause
    }
}

/// The transport for a server at this URL.
pub(super) fn transport(
    url: &str,
    client: Client,
    headers: HeaderMap,
    longest: usize,
    close_reason: CloseReason,
) -> StreamableHttpClientTransport<HttpTransport> {
    let (filter, reopening) = (Arc::new(Mutex::new(InboundFilter::new())), Arc::default());
    let web = HttpTransport { client, headers, longest, filter, close_reason, reopening };
    let config = StreamableHttpClientTransportConfig::with_uri(url).max_sse_event_size(longest);
    StreamableHttpClientTransport::with_client(web, config)
}

impl HttpTransport {
    /// Adds the configured headers and those of `rmcp` to a request.
    fn with_headers(
        &self,
        request: RequestBuilder,
        session: Option<Arc<str>>,
        more: HashMap<HeaderName, HeaderValue>,
    ) -> RequestBuilder {
        let more: HeaderMap = more.into_iter().collect();
        let request = request.headers(self.headers.clone()).headers(more);
        match session {
            Some(session) => request.header(SESSION, session.as_ref()),
            None => request,
        }
    }

    fn stream(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let reading = (SseReader::new(response, self.longest), self.clone());
        futures::stream::unfold(Some(reading), |reading| async move {
            let (mut events, web) = reading?;
            match web.admitted(&mut events).await {
                Ok(Some(event)) => Some((Ok(event), Some((events, web)))),
                Ok(None) => None,
                Err(cause) => Some((Err(SseError::Body(cause.into())), None)),
            }
        })
        .boxed()
    }

    async fn answer(&self, response: Response) -> Result<StreamableHttpPostResponse, HttpError> {
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        match kind_of(&response).as_deref() {
            Some(kind) if kind.starts_with(EVENTS) => {
                Ok(StreamableHttpPostResponse::Sse(self.stream(response), session))
            }
            Some(kind) if kind.starts_with(JSON) => {
                let body = http_common::body(response, self.longest).await.map_err(unexpected)?;
                let message = self.admit(&body).map_err(unexpected)?;
                let message = message.ok_or_else(|| unexpected("it sent no message".to_owned()))?;
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            kind => Err(wrong_kind(kind)),
        }
    }
}

impl HttpTransport {
    /// The next event, with its message if the filter accepts it.
    async fn admitted(&self, events: &mut SseReader) -> Result<Option<Sse>, String> {
        let Some(SseEvent { name, data, id, retry }) = events.next().await? else { return Ok(None) };
        let message = if data.is_empty() { None } else { self.admit(data.as_bytes())? };
        // Kept also without a message, because the stream is resumed from its id.
        let data = message.and_then(|message| serde_json::to_string(&message).ok());
        Ok(Some(Sse { event: Some(name).filter(|name| !name.is_empty()), data, id, retry }))
    }

    fn admit(&self, text: &[u8]) -> Result<Option<ServerJsonRpcMessage>, String> {
        locked(&self.filter).admit(text).inspect_err(|flood| self.close_reason.set(flood.clone()))
    }
}

impl StreamableHttpClient for HttpTransport {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let had_session = session.is_some();
        locked(&self.filter).open_requests().sent(&message);
        let request = self
            .with_headers(self.client.post(uri.as_ref()), session, headers)
            .header(ACCEPT, format!("{EVENTS}, {JSON}"))
            .header(CONTENT_TYPE, JSON)
            .body(serde_json::to_vec(&message)?);
        let response = sent(request).await?;
        match response.status() {
            StatusCode::NOT_FOUND if had_session => Err(StreamableHttpError::SessionExpired),
            status if !status.is_success() => Err(unexpected(http_common::refusal(response).await)),
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(StreamableHttpPostResponse::Accepted),
            _ if !matches!(message, JsonRpcMessage::Request(_)) => Ok(StreamableHttpPostResponse::Accepted),
            _ => self.answer(response).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let request = self.with_headers(self.client.delete(uri.as_ref()), Some(session), headers);
        // A server may reject the deletion, which does not matter.
        sent(request).await.map(|_| ())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let pause = locked(&self.reopening).pause(Instant::now());
        tokio::time::sleep(pause).await;
        if let Some(cause) = self.close_reason.cause() {
            return Err(unexpected(cause));
        }
        let request = self
            .with_headers(self.client.get(uri.as_ref()), session, headers)
            .header(ACCEPT, format!("{EVENTS}, {JSON}"));
        let request = match last_event {
            Some(id) => request.header(LAST_EVENT, id),
            None => request,
        };
        let response = sent(request).await?;
        match (response.status(), kind_of(&response)) {
            (StatusCode::METHOD_NOT_ALLOWED, _) => Err(StreamableHttpError::ServerDoesNotSupportSse),
            (status, _) if !status.is_success() => Err(unexpected(http_common::refusal(response).await)),
            (_, Some(kind)) if kind.starts_with(EVENTS) => Ok(self.stream(response)),
            (_, kind) => Err(wrong_kind(kind.as_deref())),
        }
    }
}

async fn sent(request: RequestBuilder) -> Result<Response, HttpError> {
    // The error of `reqwest` itself prints the URL.
    request.send().await.map_err(|error| unexpected(http_common::words(&error)))
}

fn kind_of(response: &Response) -> Option<String> {
    let kind = response.headers().get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase())
}

fn wrong_kind(kind: Option<&str>) -> HttpError {
    let kind = kind.unwrap_or("something without a type");
    unexpected(format!("it answered with {kind}, where JSON or events were expected"))
}

fn unexpected(cause: String) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_for_streams_that_break_at_once() {
        let (mut reopening, mut now) = (Reopening::default(), Instant::now());
        let mut next = |passes: Duration| {
            now += passes;
            let pause = reopening.pause(now);
            now += pause;
            pause.as_millis()
        };
        let pauses: Vec<_> = (0..9).map(|_| next(Duration::ZERO)).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(next(LASTING), 0);
    }
}
