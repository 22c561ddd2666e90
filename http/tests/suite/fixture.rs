//! A listener with a scripted agent, its clients, and plain requests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rethread::agent::host::AgentSource;
use rethread::edge::Version;
use rethread::secret::Secret;
use rethread::server::{ClientRole, RemoteRules, StdioServers, WhenUnattended};
use rethread::store::{HostContact, HostNumber};
use rethread_http::{
    AgentDirectory, ClusterKey, Guard, HostNetwork, HttpConfig, HttpListener, OneTimeCodes, RemoteTarget,
    Tokens, tls_acceptor,
};
use rethread_testkit::agent::ScriptedAgent;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

/// The key that it shares with other hosts.
pub(crate) const CLUSTER_KEY: &str = "a key that the hosts of these tests share";

/// A listener.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    pub(crate) tokens: Arc<Tokens>,
    /// A token that may do everything.
    pub(crate) token: String,
    /// A directory in which sessions may be opened.
    pub(crate) cwd: PathBuf,
    /// The codes for its web page.
    pub(crate) codes: Arc<OneTimeCodes>,
    pub(crate) world: World,
    contact: HostContact,
    clients: Box<dyn Fn() -> usize + Send + Sync>,
    _folder: tempfile::TempDir,
}

struct OneAgent(ScriptedAgent, PathBuf);

impl AgentDirectory for OneAgent {
    fn agent(&self, name: Option<&str>) -> Result<Arc<dyn AgentSource>, String> {
        match name {
            None | Some("scripted") => Ok(Arc::new(self.0.clone())),
            Some(other) => Err(format!("no agent is configured as {other}")),
        }
    }

    fn rules(&self) -> RemoteRules {
        RemoteRules { roots: vec![self.1.clone()], stdio_servers: StdioServers::Refused }
    }
}

impl Listening {
    /// Listens on loopback.
    pub(crate) async fn start(agent: Version) -> Self {
        Self::with(agent, HttpConfig::default()).await
    }

    pub(crate) async fn with(agent: Version, config: HttpConfig) -> Self {
        Self::with_tls(agent, config, None).await
    }

    /// The same with TLS.
    pub(crate) async fn with_tls(agent: Version, config: HttpConfig, tls: Option<(&Path, &Path)>) -> Self {
        let is_encrypted = tls.is_some();
        let tls = tls.map(|(certificate, key)| tls_acceptor(certificate, key).expect("they are valid"));
        let folder = tempfile::tempdir().expect("a folder can be made");
        let cwd = folder.path().join("work");
        std::fs::create_dir(&cwd).expect("a folder can be made");
        let pairing = Pairing::of(Version::V1, agent);
        let world = World::of(pairing).set(|config| config.when_unattended = WhenUnattended::Keep);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let tokens = Arc::new(Tokens::in_file(folder.path().join("tokens.json")));
        let token = tokens.add("test", ClientRole::Full, None).await.expect("a token can be made").text;
        let guard = Guard::new(address.ip(), &[], &["https://app.example".to_owned()]);
        let agents = Arc::new(OneAgent(world.agent.clone(), cwd.clone()));
        let http =
            HttpListener::new(listener, tls, world.server.clone(), guard, tokens.clone(), agents, config);
        let scheme = if is_encrypted { "https" } else { "http" };
        let contact = HostContact { number: HostNumber(5), address: format!("{scheme}://{address}") };
        let key = ClusterKey::new(&Secret::new(CLUSTER_KEY)).expect("it is long enough");
        http.serve_hosts(Arc::new(HostNetwork::new(key, contact.clone(), None)));
        let (codes, clients) = (http.codes(), Box::new(http.client_count()));
        tokio::spawn(http.serve(std::future::pending()));
        Self { address, tokens, token, cwd, codes, world, contact, clients, _folder: folder }
    }

    /// Where other hosts reach it.
    pub(crate) fn contact(&self) -> HostContact {
        self.contact.clone()
    }

    /// How many clients the server knows.
    pub(crate) fn clients(&self) -> usize {
        (self.clients)()
    }

    pub(crate) fn cwd(&self) -> String {
        self.cwd.display().to_string()
    }

    /// A client by WebSocket, as our own programs connect.
    pub(crate) async fn websocket(&self, version: Version) -> Client {
        let client = self.websocket_to(self.address, version).await;
        client.initialize().await;
        client
    }

    /// The same to another address, which leads here, and without `initialize`.
    pub(crate) async fn websocket_to(&self, address: SocketAddr, version: Version) -> Client {
        let target = RemoteTarget {
            url: format!("http://{address}"),
            token: Some(self.token.clone()),
            ca: None,
            patience: Duration::from_secs(60),
        };
        let channel = rethread_http::connect(target).await.expect("the server accepts");
        Client::over(channel.into_wire(), version, None)
    }

    /// Sends one request on a connection of its own. The body of the answer may go on.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
        tokio::spawn(connection);
        let sending = sender.send_request(request);
        let answered = tokio::time::timeout(Duration::from_secs(30), sending).await;
        answered.expect("it answers").expect("it answers")
    }

    /// A request with the token and these headers.
    pub(crate) fn request(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Request<Full<Bytes>> {
        let bearer = format!("Bearer {}", self.token);
        let mut request = Request::builder().method(method).uri("/acp").header("authorization", bearer);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(body.into())).expect("a valid request")
    }

    /// The status of a request without a token.
    pub(crate) async fn status(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::new())).expect("a valid request");
        self.send(request).await.status().as_u16()
    }
}

/// Everything of a body.
pub(crate) async fn whole(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.expect("it is complete").to_bytes()
}

/// Everything of a body as JSON.
pub(crate) async fn json_of(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&whole(response).await).expect("it is JSON")
}
