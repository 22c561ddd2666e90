//! Shared by both HTTP transports: the client, the configured headers, bodies with a maximum length, and error messages.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use rethread::secret::Secret;

/// The time limit for connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// The maximum number of bytes of an error body.
const REFUSAL: usize = 2 * 1024;
/// Headers of the protocol, which a configuration cannot change.
const RESERVED: [&str; 7] =
    ["accept", "content-type", "content-length", "host", "mcp-session-id", "last-event-id", "connection"];

/// An HTTP client for this server.
pub(super) fn client(url: &Url) -> Result<Client, String> {
    // No idle connections: one that the server has just closed would fail the next request.
    crate::web::client(url, CONNECT_LIMIT).pool_max_idle_per_host(0).build().map_err(|error| words(&error))
}

/// The configured headers, marked as sensitive.
pub(super) fn headers(pairs: &[(String, Secret)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let wrong = || format!("its header {name} cannot be sent");
        let parsed = HeaderName::try_from(name).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.reveal()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        if !RESERVED.contains(&parsed.as_str()) {
            headers.append(parsed, value);
        }
    }
    Ok(headers)
}

/// The whole body; fails if it is too long.
pub(super) async fn body(mut response: Response, longest: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| words(&error))? {
        if body.len() + chunk.len() > longest {
            return Err(format!("it sent an answer of more than {} KiB", longest / 1024));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The message for an error status: the status and the beginning of the body.
pub(super) async fn refusal(mut response: Response) -> String {
    let status = response.status();
    if status.is_redirection() {
        return format!(
            "HTTP {status}: it redirects to another server, and its headers are not sent there; configure its current address"
        );
    }
    let mut said = Vec::new();
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout(Duration::from_secs(2), response.chunk()).await {
        said.extend_from_slice(&chunk);
        if said.len() > REFUSAL {
            said.truncate(REFUSAL);
            break;
        }
    }
    match String::from_utf8_lossy(&said).trim() {
        "" => format!("HTTP {status}"),
        said => format!("HTTP {status}: {said}"),
    }
}

/// The message for a failed request, without the URL, which may contain keys.
pub(super) fn words(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    match causes.last() {
        Some(last) if error.is_connect() => format!("it cannot be reached: {last}"),
        Some(last) => format!("the connection failed: {last}"),
        None if error.is_timeout() => "the connection took too long".to_owned(),
        None => "the connection failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_marked_and_those_of_the_protocol_left_out() {
        let pairs =
            [("X-Key", "hunter2"), ("Accept", "text/html")].map(|(n, v)| (n.to_owned(), Secret::new(v)));
        let headers = headers(&pairs).unwrap();
        assert_eq!(headers["x-key"], "hunter2");
        assert_eq!(headers.len(), 1);
        assert!(!format!("{headers:?}").contains("hunter2"));
        let wrong = super::headers(&[("K".to_owned(), Secret::new("hunter2\n"))]).unwrap_err();
        assert_eq!(wrong, "its header K cannot be sent");
    }
}
