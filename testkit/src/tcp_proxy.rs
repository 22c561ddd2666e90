//! A TCP proxy on loopback, for connections that break: at once, without a word, or in the middle of a chosen message. It runs on a
//! thread of its own, so that a test may block.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread::lock::locked;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The most bytes that are passed on at once.
const CHUNK: usize = 64 * 1024;

/// Within this time a server carries out what it has received.
const ANSWER_TIME: Duration = Duration::from_millis(200);

/// What happens to connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyMode {
    /// They are passed on.
    #[default]
    Open,
    /// Nothing arrives any more, in either direction, and nobody is told.
    Silent,
    /// New ones are closed at once.
    Refusing,
}

/// When a connection is cut that carries a chosen message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutMoment {
    /// Before any of it is passed on.
    Before,
    /// When half of it was passed on.
    Half,
    /// When it was passed on and answered, and the answer was not.
    BeforeAnswer,
}

/// A proxy. It ends when this is dropped.
pub struct TcpProxy {
    port: u16,
    state: watch::Sender<ProxyState>,
    trap: Arc<Trap>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
struct ProxyState {
    target: SocketAddr,
    mode: ProxyMode,
    /// Connections of an earlier number are closed.
    generation: u64,
    ended: bool,
}

/// The message that is waited for, and how many were caught.
#[derive(Default)]
struct Trap {
    armed: Mutex<Option<(Vec<u8>, CutMoment)>>,
    caught: AtomicUsize,
}

impl TcpProxy {
    /// Starts a proxy to a port of loopback.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let state = ProxyState { target, mode: ProxyMode::Open, generation: 0, ended: false };
        let (state, watched) = watch::channel(state);
        let trap = Arc::new(Trap::default());
        let (report, bound) = std::sync::mpsc::channel();
        let trapping = trap.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async move {
                let listener =
                    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a port");
                let _ = report.send(listener.local_addr().expect("it is bound").port());
                accept(listener, watched, trapping).await;
            });
        });
        let port = bound.recv().expect("the proxy listens");
        Self { port, state, trap, thread: Some(thread) }
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Passes new connections on to another port.
    pub fn turn_to(&self, port: u16) {
        self.state.send_modify(|state| state.target.set_port(port));
    }

    /// Decides what happens to connections from now on.
    pub fn set(&self, mode: ProxyMode) {
        self.state.send_modify(|state| state.mode = mode);
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Cuts the next connection on which a client sends these bytes.
    pub fn cut_at(&self, bytes: &[u8], moment: CutMoment) {
        *locked(&self.trap.armed) = Some((bytes.to_vec(), moment));
    }

    /// How many connections were cut by [`TcpProxy::cut_at`].
    #[must_use]
    pub fn caught(&self) -> usize {
        self.trap.caught.load(Ordering::Relaxed)
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.state.send_modify(|state| state.ended = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Trap {
    /// Whether these bytes are waited for. Each wait catches one message.
    fn catches(&self, bytes: &[u8]) -> Option<CutMoment> {
        let mut armed = locked(&self.armed);
        let (wanted, moment) = armed.as_ref()?;
        if !bytes.windows(wanted.len()).any(|part| part == wanted) {
            return None;
        }
        let moment = *moment;
        *armed = None;
        self.caught.fetch_add(1, Ordering::Relaxed);
        Some(moment)
    }
}

async fn accept(listener: TcpListener, mut state: watch::Receiver<ProxyState>, trap: Arc<Trap>) {
    loop {
        let ended = async { while !state.borrow_and_update().ended && state.changed().await.is_ok() {} };
        let client = tokio::select! {
            client = listener.accept() => client,
            () = ended => return,
        };
        let Ok((client, _)) = client else { continue };
        let (watched, trap) = (state.clone(), trap.clone());
        if watched.borrow().mode != ProxyMode::Refusing {
            // An error ends the connection, as it does in a network.
            tokio::spawn(async move { drop(pass_on(client, watched, &trap).await) });
        }
    }
}

async fn pass_on(
    mut client: TcpStream,
    mut state: watch::Receiver<ProxyState>,
    trap: &Trap,
) -> io::Result<()> {
    let generation = state.borrow_and_update().generation;
    while state.borrow_and_update().mode == ProxyMode::Silent {
        if state.changed().await.is_err() || state.borrow().generation != generation {
            return Ok(());
        }
    }
    let target = state.borrow().target;
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut from_server) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let now = *state.borrow_and_update();
        if now.generation != generation || now.ended {
            return Ok(());
        }
        let is_open = now.mode != ProxyMode::Silent;
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return Ok(()) },
            count = client.read(&mut from_client), if is_open => {
                let bytes = &from_client[..count?];
                if bytes.is_empty() {
                    return Ok(());
                }
                match trap.catches(bytes) {
                    None => server.write_all(bytes).await?,
                    Some(CutMoment::Before) => return Ok(()),
                    Some(CutMoment::Half) => return server.write_all(&bytes[..bytes.len() / 2]).await,
                    Some(CutMoment::BeforeAnswer) => {
                        server.write_all(bytes).await?;
                        // Statements before it may be answered first.
                        server.readable().await?;
                        let _ = tokio::time::timeout(ANSWER_TIME, drain(&mut server)).await;
                        return Ok(());
                    }
                }
            }
            count = server.read(&mut from_server), if is_open => {
                let bytes = &from_server[..count?];
                if bytes.is_empty() {
                    return Ok(());
                }
                client.write_all(bytes).await?;
            }
        }
    }
}

async fn drain(server: &mut TcpStream) {
    let mut bytes = vec![0; CHUNK];
    while server.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}
