//! Bodies and short answers.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An answer with a short text.
pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    with_body(status, "text/plain; charset=utf-8", Bytes::from(text.into()))
}

/// An answer with this content.
pub(crate) fn with_body(status: StatusCode, kind: &'static str, content: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(content).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", http::HeaderValue::from_static("nosniff"));
    response
}

/// An answer that says what is wrong in one line.
pub(crate) fn refused(status: StatusCode, why: &str) -> Response<Body> {
    text(status, format!("{why}\n"))
}
