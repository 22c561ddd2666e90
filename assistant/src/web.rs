//! Builds HTTP clients for providers and MCP servers: redirects only to the same server, no proxy for this machine.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, StatusCode, Url};

/// The maximum number of redirects.
const MOST_REDIRECTS: usize = 5;

/// A builder for a client, with `ring` as the cryptography of TLS. A program that has chosen another one keeps it.
pub(crate) fn builder() -> ClientBuilder {
    // The error says that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
}

/// A builder for a client of the server at this URL, with a connection timeout.
pub(crate) fn client(url: &Url, connect: Duration) -> ClientBuilder {
    let builder = builder().connect_timeout(connect).redirect(Policy::custom(follow));
    // Requests to this machine bypass proxies.
    if is_here(url) { builder.no_proxy() } else { builder }
}

/// Follows a redirect only to the same server, because headers with keys are sent again, and only if the body is sent
/// again too.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_body =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let from = attempt.previous().first().map(Url::origin);
    let fits = keeps_body && from == Some(attempt.url().origin());
    if fits && attempt.previous().len() <= MOST_REDIRECTS { attempt.follow() } else { attempt.stop() }
}

/// Whether a URL is of this machine.
pub(crate) fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::is_here;

    #[test]
    fn all_names_of_this_machine_are_recognised() {
        let here = |address: &str| is_here(&reqwest::Url::parse(address).unwrap());
        for address in
            ["http://localhost:1", "http://127.0.0.9/x", "http://[::1]:8080", "http://0.0.0.0:11434"]
        {
            assert!(here(address), "{address}");
        }
        assert!(!here("http://localhost.example") && !here("https://192.168.0.1"));
    }
}
