//! The older HTTP+SSE transport, which `rmcp` does not have: one stream of events from the server, whose first event has
//! the URL for POST requests. The end of the stream ends the connection.

use std::io;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Url};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::watch;

use super::close_reason::CloseReason;
use super::http_common;
use super::inbound::{InboundFilter, OpenRequests};
use super::sse_events::SseReader;

/// The stream of a server.
pub(super) struct EventStream {
    events: SseReader,
    filter: InboundFilter,
    post: Post,
    close_reason: CloseReason,
}

/// Sends messages as POST requests.
#[derive(Clone)]
struct Post {
    client: Client,
    url: Url,
    headers: HeaderMap,
    closed: watch::Sender<bool>,
    open: OpenRequests,
}

impl EventStream {
    /// Opens the stream and waits for the URL. The error is a message for users.
    pub(super) async fn open(
        url: &Url,
        client: Client,
        headers: HeaderMap,
        longest: usize,
        close_reason: CloseReason,
    ) -> Result<Self, String> {
        let asked = client.get(url.clone()).headers(headers.clone()).header(ACCEPT, "text/event-stream");
        let response = asked.send().await.map_err(|error| http_common::words(&error))?;
        if !response.status().is_success() {
            return Err(http_common::refusal(response).await);
        }
        let mut events = SseReader::new(response, longest);
        let url = endpoint(url, &mut events).await?;
        let filter = InboundFilter::new();
        let post =
            Post { client, url, headers, closed: watch::Sender::new(false), open: filter.open_requests() };
        Ok(Self { events, filter, post, close_reason })
    }

    async fn next(&mut self) -> Result<ServerJsonRpcMessage, String> {
        loop {
            let event = self.events.next().await?.ok_or("its stream of events ended")?;
            if !matches!(event.name.as_str(), "" | "message") {
                continue;
            }
            if let Some(message) = self.filter.admit(event.data.as_bytes())? {
                return Ok(message);
            }
        }
    }
}

/// Waits for the URL for messages. It must be on the same server, because the configured headers are sent there.
async fn endpoint(base: &Url, events: &mut SseReader) -> Result<Url, String> {
    loop {
        let event = events.next().await?.ok_or("its stream of events ended before it named an endpoint")?;
        if event.name != "endpoint" {
            continue;
        }
        let url = base.join(event.data.trim()).ok().filter(|url| url.origin() == base.origin());
        return url.ok_or_else(|| "it named an endpoint that is not on the same server".to_owned());
    }
}

impl Transport<RoleClient> for EventStream {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let post = self.post.clone();
        async move { post.send(&message).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        match self.next().await {
            Ok(message) => Some(message),
            Err(cause) => {
                self.close_reason.set(cause);
                None
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.post.closed.send_replace(true);
        Ok(())
    }
}

impl Post {
    async fn send(&self, message: &ClientJsonRpcMessage) -> io::Result<()> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(message)?);
        let mut closed = self.closed.subscribe();
        let sent = tokio::select! {
            sent = request.send() => sent.map_err(|error| io::Error::other(http_common::words(&error))),
            _ = closed.wait_for(|closed| *closed) => Err(io::ErrorKind::NotConnected.into()),
        };
        self.open.sent(message);
        let response = sent?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(io::Error::other(http_common::refusal(response).await)),
        }
    }
}
