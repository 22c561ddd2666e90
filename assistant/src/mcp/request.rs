//! Sends one request to a server and waits for its answer, with timeouts and cancellation. Does not decode the answer.

use std::time::Duration;

use rethread_core::Json;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, CustomRequest, RequestId,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::Value;

use super::close_reason::CloseReason;
use super::inbound::result_text;
use super::limits::Limits;

/// The time limit for sending a message to a server that does not read.
const SEND_LIMIT: Duration = Duration::from_secs(1);

/// The time limits of a request.
#[derive(Clone, Copy)]
pub(super) struct RequestTimeout {
    /// The time limit without a progress notification.
    pub(super) idle: Duration,
    /// The total time limit.
    pub(super) total: Duration,
}

impl RequestTimeout {
    /// The limits of a tool call.
    pub(super) fn of_call(limits: &Limits) -> Self {
        Self { idle: limits.call, total: limits.call_total.max(limits.call) }
    }

    /// Only a total time limit.
    pub(super) fn at_most(total: Duration) -> Self {
        Self { idle: total, total }
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum RequestError {
    Cancelled,
    TimedOut(Duration),
    Refused { code: i32, message: String },
    Lost(String),
}

/// Sends a request and waits for its answer, its cancellation or the end of the connection.
pub(super) async fn ask(
    (peer, close_reason): (&Peer<RoleClient>, &CloseReason),
    (method, params): (&'static str, Value),
    timeout: RequestTimeout,
    cancel: impl Future<Output = ()>,
) -> Result<Json, RequestError> {
    let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    let options = PeerRequestOptions::with_timeout(timeout.idle)
        .reset_timeout_on_progress()
        .with_max_total_timeout(timeout.total);
    let open = peer
        .send_request_with_option(request, options)
        .await
        .map_err(|error| request_error(error, close_reason))?;
    let id = open.id.clone();
    tokio::select! {
        biased;
        answer = open.await_response() => answer.map(result_text).map_err(|error| request_error(error, close_reason)),
        cause = close_reason.wait() => Err(RequestError::Lost(cause)),
        () = cancel => {
            withdraw(peer, id).await;
            Err(RequestError::Cancelled)
        }
        // `rmcp` keeps the total limit only once the request is sent, and a server may not read.
        () = tokio::time::sleep(timeout.total + SEND_LIMIT) => Err(RequestError::TimedOut(timeout.total)),
    }
}

/// Sends the server a cancellation.
async fn withdraw(peer: &Peer<RoleClient>, id: RequestId) {
    let params = CancelledNotificationParam::new(Some(id), Some("the user cancelled it".to_owned()));
    let sending = peer.send_notification(CancelledNotification::new(params).into());
    let _ = tokio::time::timeout(SEND_LIMIT, sending).await;
}

fn request_error(error: ServiceError, close_reason: &CloseReason) -> RequestError {
    if let ServiceError::McpError(error) = error {
        return RequestError::Refused { code: error.code.0, message: error.message.into_owned() };
    }
    if let ServiceError::Timeout { timeout } = error {
        return RequestError::TimedOut(timeout);
    }
    let cause = if let ServiceError::TransportSend(error) = &error {
        innermost(&*error.error)
    } else if let ServiceError::TransportClosed = error {
        "the connection ended without an answer".to_owned()
    } else {
        error.to_string()
    };
    // The transport's reason has more detail than a failed send.
    RequestError::Lost(close_reason.cause().unwrap_or(cause))
}

/// The text of the innermost cause; the outer ones are names of types.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    let text = innermost.to_string();
    text.strip_prefix("unexpected server response: ").map_or(text.clone(), str::to_owned)
}
