//! HTTP for a server: where it listens, and which agents its clients may use.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread::agent::environment::Environment;
use rethread::agent::host::{AgentSource, CommandSource};
use rethread::agent::process::AgentCommand;
use rethread::lock::locked;
use rethread::secret::Secrets;
use rethread::server::{RemoteRules, Server};
use rethread::store::{HostContact, Store};
use rethread_http::{
    AgentDirectory, Guard, HttpConfig, HttpListener, OneTimeCodes, TlsAcceptor, advertised_host,
    answer_while_starting, tls_acceptor,
};
use tokio::net::TcpListener;

use super::page::EmbeddedPage;
use super::settings::ServeSettings;
use crate::agents::{AgentChoice, guardian};
use crate::cluster::{Cluster, advertised};
use crate::config;
use crate::failure::{ExitCode, Failure};
use crate::paths::Paths;
use crate::server_parts::ServerParts;
use crate::tokens;

/// What the command line says of HTTP.
#[derive(Clone, Debug)]
pub(crate) struct HttpOptions {
    /// Where to listen.
    pub(crate) address: SocketAddr,
    /// The files of the certificate and its key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// Where HTTP without TLS is allowed.
    pub(crate) plain: PlainHttp,
    /// Names under which the server is reached, besides those of this machine.
    pub(crate) hosts: Vec<String>,
    /// Web pages that may use the server.
    pub(crate) origins: Vec<String>,
    /// Where other hosts of the store reach this one, if not where it listens.
    pub(crate) advertise: Option<String>,
}

/// Where HTTP without TLS is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainHttp {
    /// On this machine.
    Loopback,
    /// On any network.
    Anywhere,
}

/// A port that is taken, and TLS for it.
pub(crate) struct BoundHttp {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl BoundHttp {
    /// Says that the server is not ready, as long as it is polled.
    pub(crate) async fn wait(&self) -> Infallible {
        answer_while_starting(&self.listener, self.tls.as_ref()).await
    }
}

/// A listener, and its address for people.
pub(crate) struct ListeningHttp {
    pub(crate) listener: HttpListener,
    pub(crate) url: String,
    /// Where other hosts reach it, if they can.
    pub(crate) advertised: Option<String>,
    /// Where a browser on this machine finds the web page.
    page_url: String,
}

impl ListeningHttp {
    /// What others need of it while it serves.
    pub(crate) fn reached(&self) -> ReachedHttp {
        ReachedHttp {
            page_url: self.page_url.clone(),
            codes: self.listener.codes(),
            clients: Box::new(self.listener.client_count()),
        }
    }
}

impl ListeningHttp {
    /// Makes this process a host among others, if its store is shared: writes where it is reached, and serves and carries the
    /// clients of others if it has their key.
    pub(crate) async fn join_hosts(
        &self,
        server: &Server,
        store: &dyn Store,
        cluster: Option<Cluster>,
    ) -> Result<(), Failure> {
        let number = match &self.advertised {
            Some(address) => store.advertise(address).await?,
            None => None,
        };
        let contact = number.zip(self.advertised.clone());
        let network = match (cluster, contact) {
            (None, _) => return Ok(()),
            (Some(cluster), Some((number, address))) => {
                tracing::info!("host {number} of the store, reached by others at {address}");
                let network = cluster.network(HostContact { number, address });
                self.listener.serve_hosts(network.clone());
                network
            }
            (Some(cluster), None) => {
                if store.host_deadline().is_some() {
                    tracing::warn!("other hosts cannot reach this one: name its address with --advertise");
                }
                cluster.visitor()
            }
        };
        if store.host_deadline().is_some() {
            server.connect_hosts(network);
        }
        Ok(())
    }
}

/// A listener that serves, for the other parts of the process.
pub(crate) struct ReachedHttp {
    /// Where a browser on this machine finds the web page.
    pub(crate) page_url: String,
    /// The codes with which the page gets its token.
    pub(crate) codes: Arc<OneTimeCodes>,
    /// Counts the clients.
    pub(crate) clients: Box<dyn Fn() -> usize + Send + Sync>,
}

impl HttpOptions {
    /// Refuses to send tokens over a network in plain text.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.tls.is_some() || self.address.ip().is_loopback() || self.plain == PlainHttp::Anywhere {
            return Ok(());
        }
        let message = format!("{} can be reached from other machines, and there is no TLS", self.address);
        Err(Failure::new(ExitCode::Usage, message)
            .hint("give --tls-cert and --tls-key, or read what --insecure-plain-http means"))
    }

    /// Takes the port.
    pub(crate) async fn bind(&self) -> Result<BoundHttp, Failure> {
        let tls = match &self.tls {
            Some((certificate, key)) => {
                let acceptor = tls_acceptor(certificate, key);
                Some(acceptor.map_err(|error| Failure::plain(&rethread::wire::with_causes(&error)))?)
            }
            None => None,
        };
        let listener =
            TcpListener::bind(self.address).await.map_err(|error| not_bound(self.address, &error))?;
        Ok(BoundHttp { listener, tls })
    }

    /// Begins to serve.
    pub(crate) fn listen(
        &self,
        BoundHttp { listener, tls }: BoundHttp,
        server: &Server,
        parts: &ServerParts,
        paths: &Paths,
        settings: Arc<Mutex<ServeSettings>>,
        most_clients: usize,
    ) -> Result<ListeningHttp, Failure> {
        let bound = listener.local_addr()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let named = match &self.advertise {
            Some(named) => Some(named.clone()),
            None => config::read(&paths.config())?.serve.advertise,
        };
        let advertised = advertised(named.as_deref(), bound, scheme)?;
        // Other hosts reach this one under the name that it advertises.
        let advertised_name = named.as_ref().and(advertised.as_deref()).and_then(advertised_host);
        let hosts: Vec<String> = self.hosts.iter().cloned().chain(advertised_name).collect();
        let agents = NamedAgents {
            paths: paths.clone(),
            assistant: parts.agent().clone(),
            environment: parts.environment().clone(),
            secrets: parts.secrets().clone(),
            settings,
        };
        let listener = HttpListener::new(
            listener,
            tls,
            server.clone(),
            Guard::new(bound.ip(), &hosts, &self.origins),
            Arc::new(tokens::of_store(parts.store.clone(), paths)),
            Arc::new(agents),
            HttpConfig { most_clients, page: Some(Arc::new(EmbeddedPage)), ..HttpConfig::default() },
        );
        let page_url = format!("{scheme}://{}/", self.page_host(bound));
        Ok(ListeningHttp { listener, url: format!("{scheme}://{bound}"), advertised, page_url })
    }

    /// The host and port by which a browser on this machine reaches the server. A certificate is for a name, so that with TLS
    /// the first allowed one is used.
    fn page_host(&self, bound: SocketAddr) -> String {
        match (&self.tls, self.hosts.first()) {
            (Some(_), Some(name)) if name.contains(':') => name.clone(),
            (Some(_), Some(name)) => format!("{name}:{}", bound.port()),
            (Some(_) | None, _) if bound.ip().is_unspecified() => format!("localhost:{}", bound.port()),
            (Some(_) | None, _) => bound.to_string(),
        }
    }
}

fn not_bound(address: SocketAddr, error: &std::io::Error) -> Failure {
    let failure = Failure::plain(&format!("listening on {address} failed: {error}"));
    if error.kind() == ErrorKind::AddrInUse {
        failure.hint("another program uses the port; name another one with --listen, or `--listen off`")
    } else {
        failure.hint("name another address with --listen, or `--listen off`")
    }
}

/// The agents of the configuration, for remote clients.
struct NamedAgents {
    paths: Paths,
    assistant: Arc<dyn AgentSource>,
    environment: Environment,
    secrets: Secrets,
    settings: Arc<Mutex<ServeSettings>>,
}

impl NamedAgents {
    fn find(&self, name: Option<&str>) -> Result<Arc<dyn AgentSource>, Failure> {
        let config = config::read(&self.paths.config())?;
        let invocation = match AgentChoice::configured(&config, name)? {
            AgentChoice::Assistant => return Ok(self.assistant.clone()),
            AgentChoice::Command(invocation) => invocation,
        };
        self.secrets.add_variables(&invocation.env);
        let (key, name) = (invocation.key(), invocation.name.clone());
        let mut words = invocation.words.into_iter();
        let command = AgentCommand {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            environment: self.environment.clone(),
            env: invocation.env,
            directory: None,
            guardian: guardian()?,
            stderr_log: Some(self.paths.logs()?.join("agent.log")),
        };
        Ok(Arc::new(CommandSource { configured_name: name, command, key }))
    }
}

impl AgentDirectory for NamedAgents {
    /// The reason for a failure may be in a file of the user, so that a client gets only the sentence for it.
    fn agent(&self, name: Option<&str>) -> Result<Arc<dyn AgentSource>, String> {
        self.find(name).map_err(|failure| {
            if failure.exit_code() == ExitCode::NotFound {
                return failure.message().to_owned();
            }
            tracing::error!("an agent for a remote client cannot be used: {}", failure.message());
            "the agent cannot be used; the log of the server says why".to_owned()
        })
    }

    fn rules(&self) -> RemoteRules {
        locked(&self.settings).rules.clone()
    }
}
