//! One request to a server: its time, its cancellation, its answer as text. What the answer means is elsewhere.

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

/// How long a server that does not read may keep us from telling it something.
const SEND_LIMIT: Duration = Duration::from_secs(1);

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub(super) struct RequestTimeout {
    /// Without any word of progress.
    pub(super) idle: Duration,
    /// In all.
    pub(super) total: Duration,
}

impl RequestTimeout {
    /// For a call.
    pub(super) fn of_call(limits: &Limits) -> Self {
        Self { idle: limits.call, total: limits.call_total.max(limits.call) }
    }

    /// So long in all.
    pub(super) fn at_most(total: Duration) -> Self {
        Self { idle: total, total }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum RequestError {
    Cancelled,
    TimedOut(Duration),
    Refused { code: i32, message: String },
    Lost(String),
}

/// Asks, and waits for the answer, for the caller's change of mind, or for the end of the connection.
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
        // Beyond the time that is kept below: a server that does not read cannot even be told.
        () = tokio::time::sleep(timeout.total + SEND_LIMIT) => Err(RequestError::TimedOut(timeout.total)),
    }
}

/// Tells the server that nobody waits any more.
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
    // What the transport saw says more than that a message could not be sent.
    RequestError::Lost(close_reason.cause().unwrap_or(cause))
}

/// The innermost cause: what is around it are names of types.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    let text = innermost.to_string();
    text.strip_prefix("unexpected server response: ").map_or(text.clone(), str::to_owned)
}
