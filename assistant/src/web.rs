//! How servers of models and tools are reached over HTTP: where a redirect may lead, and what no proxy stands before.
//! Sends nothing itself.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, StatusCode, Url};

/// How often a server may send us elsewhere.
const MOST_REDIRECTS: usize = 5;

/// A client for the server at this address, which may take so long to accept a connection.
pub(crate) fn client(url: &Url, connect: Duration) -> ClientBuilder {
    let builder = Client::builder().connect_timeout(connect).redirect(Policy::custom(follow));
    // What is on this machine is not reached by way of another.
    if is_here(url) { builder.no_proxy() } else { builder }
}

/// Headers, and keys in them, go with a redirect, so it is followed to the same server only, and only where the body
/// goes with it.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_body =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let from = attempt.previous().first().map(Url::origin);
    let fits = keeps_body && from == Some(attempt.url().origin());
    if fits && attempt.previous().len() <= MOST_REDIRECTS { attempt.follow() } else { attempt.stop() }
}

/// Whether an address is of this machine.
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
    fn this_machine_has_many_names() {
        let here = |address: &str| is_here(&reqwest::Url::parse(address).unwrap());
        for address in
            ["http://localhost:1", "http://127.0.0.9/x", "http://[::1]:8080", "http://0.0.0.0:11434"]
        {
            assert!(here(address), "{address}");
        }
        assert!(!here("http://localhost.example") && !here("https://192.168.0.1"));
    }
}
