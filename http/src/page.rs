//! The web page: its files, which come from elsewhere, with the headers that keep what agents say from running as a program.
//! They need no token; the page gets one for a one-time code, by `POST /code`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use rethread::clock;
use serde_json::{Value, json};

use crate::failures::Attempts;
use crate::listener::HttpShared;
use crate::replies::{Body, refused, with_body};
use crate::routes::collect;
use crate::streamable::check_content;

/// What the page may do: run its own scripts, and speak to this server. `require-trusted-types-for` has the browser refuse
/// texts where it would read them as HTML: the page never does that.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
/// The longest body with a code.
const LONGEST_CODE: usize = 1024;
/// How long the body with a code may take.
const CODE_LIMIT: Duration = Duration::from_secs(10);

/// The files of the web page.
pub trait PageFiles: fmt::Debug + Send + Sync + 'static {
    /// The file at this path of an address, such as `/` or `/app.js`. Paths are compared as they are sent, without any
    /// decoding.
    fn file(&self, path: &str) -> Option<PageFile>;
}

/// A file of the web page.
#[derive(Clone, Debug)]
pub struct PageFile {
    /// Its content.
    pub content: Bytes,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// Names this content, without quotes: visible ASCII without `"`.
    pub etag: String,
    /// How long browsers may keep it.
    pub caching: PageCaching,
    /// The same content, compressed beforehand.
    pub compressed: Vec<(PageEncoding, Bytes)>,
}

/// How long browsers may keep a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCaching {
    /// Not at all: the start of the page.
    Never,
    /// They ask each time whether it has changed.
    Checked,
    /// For ever: its name changes with its content.
    Forever,
}

/// How a file was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEncoding {
    /// Brotli.
    Brotli,
    /// Gzip.
    Gzip,
}

impl PageEncoding {
    fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// Answers a request for a file of the page.
pub(crate) fn file(files: Option<&dyn PageFiles>, request: &Request<Incoming>) -> Response<Body> {
    let Some(file) = files.and_then(|files| files.file(request.uri().path())) else {
        return refused(StatusCode::NOT_FOUND, "there is nothing here");
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = refused(StatusCode::METHOD_NOT_ALLOWED, "use GET");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let etag = format!("\"{}\"", file.etag);
    let encoding = file.compressed.iter().find(|(encoding, _)| accepts(request.headers(), encoding.name()));
    let (content, encoding) = match encoding {
        Some((encoding, content)) => (content, Some(*encoding)),
        None => (&file.content, None),
    };
    let mut response = match has(request.headers(), &etag) {
        true => with_body(StatusCode::NOT_MODIFIED, file.content_type, Bytes::new()),
        // The length of what GET would have is left out of an answer to HEAD.
        false if request.method() == Method::HEAD => {
            with_body(StatusCode::OK, file.content_type, Bytes::new())
        }
        false => with_body(StatusCode::OK, file.content_type, content.clone()),
    };
    let headers = response.headers_mut();
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(ETAG, etag);
    }
    secure(headers, file.caching);
    response
}

fn secure(headers: &mut HeaderMap, caching: PageCaching) {
    let caching = match caching {
        PageCaching::Never => "no-store",
        PageCaching::Checked => "no-cache",
        PageCaching::Forever => "public, max-age=31536000, immutable",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("x-frame-options", HeaderValue::from_static("DENY"));
}

/// Whether the browser takes this encoding.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| {
        let mut part = part.split(';').map(str::trim);
        let named = part.next().is_some_and(|name| name.eq_ignore_ascii_case(encoding));
        let refused = part.any(|parameter| {
            let weight = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.parse() == Ok(0.0_f32))
        });
        named && !refused
    })
}

/// Whether the browser has this version of a file.
fn has(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|value| value.split(',')).any(|one| one.trim().trim_start_matches("W/") == etag)
}

/// Exchanges a one-time code for a token: `{"code": …}` for `{"token": …, "role": "full", "expiresAt": …}`.
pub(crate) async fn exchange(
    shared: &Arc<HttpShared>,
    address: IpAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "use POST");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    if let Err(refused) = check_content(&parts.headers) {
        return *refused;
    }
    let body = match tokio::time::timeout(CODE_LIMIT, collect(body, LONGEST_CODE)).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) => return *refused,
        Err(_) => return problem(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
    };
    let given = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    let Some(code) = given["code"].as_str() else {
        return problem(StatusCode::BAD_REQUEST, "send a JSON object with the member code");
    };
    let Some(life) = shared.codes.take(code, Instant::now()) else {
        return wrong_code(shared, address);
    };
    let (tokens, runtime) = (shared.tokens.clone(), tokio::runtime::Handle::current());
    // A file is synced, which may block.
    match tokio::task::spawn_blocking(move || runtime.block_on(tokens.add_for_page(life))).await {
        Ok(Ok(made)) => {
            let expires = made.stored.expires.map(clock::rfc3339);
            let role = made.stored.client_role().name();
            answer(StatusCode::OK, &json!({"token": made.text, "role": role, "expiresAt": expires}))
        }
        Ok(Err(error)) => {
            tracing::error!("no token was made for the web page: {}", rethread::wire::with_causes(&error));
            problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "no token could be made; the log of the server says why",
            )
        }
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "no token could be made"),
    }
}

fn wrong_code(shared: &HttpShared, address: IpAddr) -> Response<Body> {
    shared.counts.wrong_token();
    match shared.failures.add(address, Instant::now()) {
        Attempts::TooMany => problem(StatusCode::TOO_MANY_REQUESTS, "too many wrong codes; wait a minute"),
        Attempts::Few => {
            let why = "the code is wrong, was used, or is older than two minutes; run `rethread web` again";
            problem(StatusCode::UNAUTHORIZED, why)
        }
    }
}

fn problem(status: StatusCode, why: &str) -> Response<Body> {
    answer(status, &json!({"error": why}))
}

fn answer(status: StatusCode, content: &Value) -> Response<Body> {
    with_body(status, "application/json", Bytes::from(content.to_string()))
}
