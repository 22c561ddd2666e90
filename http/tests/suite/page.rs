//! The web page: its files, and the exchange of a one-time code for its token.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use rethread::edge::Version;
use rethread::server::ClientRole;
use rethread_http::{HttpConfig, PageCaching, PageEncoding, PageFile, PageFiles, TokenKind};
use serde_json::{Value, json};

use crate::fixture::{Listening, json_of, whole};

const HOUR: Duration = Duration::from_secs(3600);

/// Two files, one of them compressed.
#[derive(Debug)]
struct TwoFiles;

impl PageFiles for TwoFiles {
    fn file(&self, path: &str) -> Option<PageFile> {
        let file = |content: &'static str, content_type, etag: &str, caching, compressed| PageFile {
            content: Bytes::from_static(content.as_bytes()),
            content_type,
            etag: etag.to_owned(),
            caching,
            compressed,
        };
        match path {
            "/" => {
                Some(file("<!doctype html>", "text/html; charset=utf-8", "a1", PageCaching::Never, vec![]))
            }
            "/app-1f.js" => {
                let compressed = vec![
                    (PageEncoding::Brotli, Bytes::from_static(b"brotli")),
                    (PageEncoding::Gzip, Bytes::from_static(b"gzip")),
                ];
                Some(file("run()", "text/javascript", "b2", PageCaching::Forever, compressed))
            }
            _ => None,
        }
    }
}

async fn listening() -> Listening {
    let config = HttpConfig { page: Some(Arc::new(TwoFiles)), ..HttpConfig::default() };
    Listening::with(Version::V1, config).await
}

impl Listening {
    async fn file(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Incoming> {
        let mut request =
            Request::builder().method(method).uri(path).header("host", self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::new(Bytes::new())).expect("a valid request")).await
    }

    async fn exchange(&self, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Response<Incoming> {
        let mut request =
            Request::builder().method("POST").uri("/code").header("host", self.address.to_string());
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::new(body.into())).expect("a valid request")).await
    }
}

#[tokio::test]
async fn files_are_served_without_a_token_and_with_every_header_that_protects_them() {
    let listening = listening().await;
    let index = listening.file("GET", "/", &[]).await;
    assert_eq!(index.status(), 200);
    let header = |name: &str| index.headers()[name].to_str().expect("text").to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(
        header("content-security-policy"),
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    assert_eq!(header("cross-origin-opener-policy"), "same-origin");
    assert_eq!(header("cross-origin-resource-policy"), "same-origin");
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("content-length"), "15");
    assert_eq!(whole(index).await, "<!doctype html>");

    let script = listening.file("GET", "/app-1f.js", &[]).await;
    assert_eq!(script.headers()["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(script.headers()["etag"], "\"b2\"");
    assert!(script.headers().contains_key("content-security-policy"));
    assert_eq!(whole(script).await, "run()");

    for (method, path, status) in [
        ("HEAD", "/", 200),
        ("POST", "/", 405),
        ("GET", "/index.html", 404),
        ("GET", "/../tokens.json", 404),
        ("GET", "/%2e%2e/tokens.json", 404),
        ("GET", "//app-1f.js", 404),
    ] {
        assert_eq!(listening.file(method, path, &[]).await.status(), status, "{method} {path}");
    }
    let host = [("host", "evil.example")];
    assert_eq!(listening.status("GET", "/", &host).await, 421, "the host is checked here, too");
    assert_eq!(listening.status("GET", "/", &[("origin", "https://evil.example")]).await, 403);
    let none = Listening::start(Version::V1).await;
    assert_eq!(none.file("GET", "/", &[]).await.status(), 404, "a server without a page");
}

#[tokio::test]
async fn a_browser_gets_the_encoding_that_it_takes_and_nothing_that_it_has() {
    let listening = listening().await;
    for (accepted, encoding, content) in [
        ("gzip, deflate, br, zstd", Some("br"), "brotli"),
        ("gzip", Some("gzip"), "gzip"),
        ("br;q=0, gzip;q=0.5", Some("gzip"), "gzip"),
        ("br;q=0.0", None, "run()"),
        ("identity", None, "run()"),
    ] {
        let file = listening.file("GET", "/app-1f.js", &[("accept-encoding", accepted)]).await;
        let named =
            file.headers().get("content-encoding").map(|name| name.to_str().expect("text").to_owned());
        assert_eq!(named.as_deref(), encoding, "{accepted}");
        assert_eq!(file.headers()["vary"], "Accept-Encoding");
        assert_eq!(whole(file).await, content, "{accepted}");
    }
    for (known, status) in [("\"b2\"", 304), ("W/\"b2\"", 304), ("\"x\", \"b2\"", 304), ("\"b\"", 200)] {
        let file = listening.file("GET", "/app-1f.js", &[("if-none-match", known)]).await;
        assert_eq!(file.status(), status, "{known}");
    }
}

#[tokio::test]
async fn a_code_is_exchanged_once_for_a_token_that_can_be_listed_and_revoked() {
    let listening = listening().await;
    let code = listening.codes.make(HOUR).expect("a code can be made");
    let exchanged = listening.exchange(json!({"code": code}).to_string(), &[]).await;
    assert_eq!(exchanged.status(), 200);
    assert_eq!(exchanged.headers()["cache-control"], "no-store");
    let given = json_of(exchanged).await;
    assert_eq!(given["role"], "full");
    let expires = given["expiresAt"].as_str().and_then(rethread::clock::from_rfc3339).expect("a time");
    let left = expires.saturating_sub(rethread::clock::now());
    assert!((3_500_000..=3_600_000).contains(&left), "it works for an hour: {left}");
    let bearer = format!("Bearer {}", given["token"].as_str().expect("a token"));
    assert_eq!(listening.status("GET", "/readyz", &[("authorization", &bearer)]).await, 200);

    let again = listening.exchange(json!({"code": code}).to_string(), &[]).await;
    assert_eq!(again.status(), 401);
    let why = json_of(again).await;
    assert!(why["error"].as_str().is_some_and(|why| why.contains("rethread web")), "{why}");

    let listed = listening.tokens.list().await.expect("they can be read");
    let page = listed.iter().find(|token| token.kind == TokenKind::Page).expect("it is listed");
    assert_eq!((page.name.as_str(), page.client_role()), ("web page", ClientRole::Full));
    listening.tokens.revoke(&page.id).await.expect("it is there");
    assert_eq!(listening.status("GET", "/readyz", &[("authorization", &bearer)]).await, 401);
}

#[tokio::test]
async fn tokens_of_earlier_pages_are_removed_when_they_have_expired() {
    let listening = listening().await;
    for life in [Duration::ZERO, HOUR, HOUR] {
        let code = listening.codes.make(life).expect("a code can be made");
        assert_eq!(listening.exchange(json!({"code": code}).to_string(), &[]).await.status(), 200);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let kinds: Vec<_> =
        listening.tokens.list().await.expect("they can be read").iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [TokenKind::Client, TokenKind::Page, TokenKind::Page]);
}

#[tokio::test]
async fn wrong_codes_are_counted_like_wrong_tokens_and_a_right_one_always_works() {
    let listening = listening().await;
    let code = listening.codes.make(HOUR).expect("a code can be made");
    let wrong: Value = json!({"code": "wrong"});
    for _ in 0..10 {
        assert_eq!(listening.exchange(wrong.to_string(), &[]).await.status(), 401);
    }
    assert_eq!(listening.exchange(wrong.to_string(), &[]).await.status(), 429);
    let token = [("authorization", "Bearer wrong")];
    assert_eq!(listening.status("GET", "/readyz", &token).await, 429, "they are counted together");
    assert_eq!(listening.exchange(json!({"code": code}).to_string(), &[]).await.status(), 200);
}

#[tokio::test]
async fn a_code_is_taken_only_from_a_posted_json_object_of_an_allowed_page() {
    let listening = listening().await;
    let code = listening.codes.make(HOUR).expect("a code can be made");
    let body = json!({"code": code}).to_string();
    for (header, status) in [(("origin", "https://evil.example"), 403), (("content-type", "text/plain"), 415)]
    {
        assert_eq!(listening.exchange(body.clone(), &[header]).await.status(), status, "{header:?}");
    }
    let long = "x".repeat(2000);
    for (body, status) in [("no JSON", 400), ("{\"code\": 7}", 400), ("[]", 400), (long.as_str(), 413)] {
        assert_eq!(listening.exchange(body.to_owned(), &[]).await.status(), status, "{body:.40}");
    }
    let by_address = format!("/code?code={code}");
    for (method, path) in [("GET", by_address.as_str()), ("GET", "/code"), ("PUT", "/code")] {
        assert_eq!(listening.file(method, path, &[]).await.status(), 405);
    }
    assert_eq!(listening.exchange(body, &[]).await.status(), 200, "nothing of this has used it");
}
