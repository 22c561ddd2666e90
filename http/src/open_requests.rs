//! Counts the requests of one connection that are being answered, and notices when there are none for long. The HTTP library
//! does not limit a connection that sends nothing at all, or one of HTTP/2 without requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use rethread::lock::locked;
use tokio::time::Instant;

use crate::replies::Body;

/// The requests of one connection. Clones are the same.
#[derive(Clone)]
pub(crate) struct OpenRequests(Arc<Mutex<RequestCount>>);

struct RequestCount {
    open: usize,
    /// When the last one ended, or the connection began.
    since: Instant,
}

impl Default for OpenRequests {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(RequestCount { open: 0, since: Instant::now() })))
    }
}

/// One request that is being answered.
pub(crate) struct OpenHttpRequest(OpenRequests);

impl OpenRequests {
    /// A request has arrived.
    pub(crate) fn begin(&self) -> OpenHttpRequest {
        locked(&self.0).open += 1;
        OpenHttpRequest(self.clone())
    }

    /// Ready when there was no request for this long.
    pub(crate) async fn none_for(&self, limit: Duration) {
        loop {
            let deadline = {
                let count = locked(&self.0);
                let begin = if count.open == 0 { count.since } else { Instant::now() };
                begin + limit
            };
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}

impl OpenHttpRequest {
    /// It is answered when this body was sent or given up.
    pub(crate) fn until_the_end_of(self, body: Body) -> Body {
        AnswerBody { body, _open: self }.boxed_unsync()
    }
}

/// A body whose request is open as long as it is there. Its length stays known.
struct AnswerBody {
    body: Body,
    _open: OpenHttpRequest,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for OpenHttpRequest {
    fn drop(&mut self) {
        let mut count = locked(&self.0.0);
        count.open -= 1;
        count.since = Instant::now();
    }
}
