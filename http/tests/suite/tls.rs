//! TLS with a certificate that is made here: who trusts it is served, everybody else notices.

use std::path::PathBuf;

use rethread::edge::Version;
use rethread_http::{HttpConfig, RemoteError, RemoteTarget};
use rethread_testkit::client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::Listening;

/// The files of a certificate for `localhost` and of its key.
fn certificate(folder: &std::path::Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("it can be made");
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("it can be written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("it can be written");
    (certificate, key)
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_is_served_and_others_send_nothing() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (certificate, key) = certificate(folder.path());
    let listening = Listening::with_tls(Version::V1, HttpConfig::default(), Some((&certificate, &key))).await;
    let port = listening.address.port();
    let target = |host: &str, ca: Option<PathBuf>| RemoteTarget {
        url: format!("https://{host}:{port}"),
        token: Some(listening.token.clone()),
        ca,
    };
    let channel = rethread_http::connect(target("localhost", Some(certificate.clone()))).await;
    let client = Client::over(channel.expect("it is trusted").into_wire(), Version::V1, None);
    client.initialize().await;
    let session = client.new_session_in(&listening.cwd()).await;
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");

    let unknown = rethread_http::connect(target("localhost", None)).await;
    assert!(matches!(unknown, Err(RemoteError::Unreachable { .. })), "it is not one of the system's");
    let other_name = rethread_http::connect(target("127.0.0.1", Some(certificate))).await;
    assert!(matches!(other_name, Err(RemoteError::Unreachable { .. })), "it is for another name");
}

#[tokio::test]
async fn plain_http_is_not_spoken_on_a_port_with_tls() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (certificate, key) = certificate(folder.path());
    let listening = Listening::with_tls(Version::V1, HttpConfig::default(), Some((&certificate, &key))).await;
    let mut stream = TcpStream::connect(listening.address).await.expect("it listens");
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", listening.address);
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&answer));
}
