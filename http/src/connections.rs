//! The remote clients of a listener: begins them, finds them by id, and ends those that are not used any more or whose token
//! does not work any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use rethread::lock::locked;
use rethread::server::{ClientSettings, Server};
use rethread::transport::messages::MessageChannel;
use tokio::sync::mpsc;

use crate::remote::{EndReason, Layout, RemoteConnection};
use crate::tokens::{StoredToken, Tokens};

/// The remote clients.
pub(crate) struct Connections {
    by_id: Mutex<HashMap<String, Arc<RemoteConnection>>>,
    most: usize,
    /// How long a connection stays without receivers.
    grace: Duration,
}

impl Connections {
    pub(crate) fn new(most: usize, grace: Duration) -> Self {
        Self { by_id: Mutex::default(), most, grace }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        locked(&self.by_id).len()
    }

    /// How many bytes clients have not taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        locked(&self.by_id).values().map(|connection| connection.waiting_bytes()).sum()
    }

    /// The connection with this id, for the token that began it.
    pub(crate) fn find(&self, id: &str, token: &StoredToken) -> Option<Arc<RemoteConnection>> {
        let found = locked(&self.by_id).get(id).cloned();
        found.filter(|connection| connection.token == token.id && connection.ended().is_none())
    }

    /// Begins a client of the server.
    pub(crate) fn begin(
        self: &Arc<Self>,
        server: &Server,
        settings: ClientSettings,
        token: &StoredToken,
        layout: Layout,
    ) -> Result<Arc<RemoteConnection>, StatusCode> {
        let (id, epoch) = (random_text::<16>()?, random_text::<4>()?);
        let (connection, incoming) = RemoteConnection::new(id, epoch, token.id.clone(), layout);
        {
            let mut by_id = locked(&self.by_id);
            if by_id.len() >= self.most {
                return Err(StatusCode::SERVICE_UNAVAILABLE);
            }
            by_id.insert(connection.id.clone(), connection.clone());
        }
        let (outgoing, sent) = mpsc::channel(64);
        tokio::spawn(connection.clone().distribute(sent));
        let (server, connections, served) = (server.clone(), self.clone(), connection.clone());
        tokio::spawn(async move {
            let channel = MessageChannel { incoming, outgoing };
            server.serve_client(channel, settings, std::future::pending()).await;
            served.close(EndReason::Gone);
            locked(&connections.by_id).remove(&served.id);
        });
        Ok(connection)
    }

    /// Ends connections whose token does not work any more, and those that nobody uses. Never ends.
    pub(crate) async fn sweep(&self, tokens: &Tokens, pause: Duration) {
        loop {
            let working = tokens.working().await;
            let connections: Vec<_> = locked(&self.by_id).values().cloned().collect();
            for connection in connections {
                if !working.contains(&connection.token) {
                    connection.close(EndReason::Token);
                } else if connection.unused_since().is_some_and(|since| since.elapsed() > self.grace) {
                    connection.close(EndReason::Gone);
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Ends all of them, because the server stops.
    pub(crate) fn close_all(&self) {
        locked(&self.by_id).values().for_each(|connection| connection.close(EndReason::Stop));
    }
}

/// Random bytes as hexadecimal digits.
fn random_text<const BYTES: usize>() -> Result<String, StatusCode> {
    let mut random = [0; BYTES];
    getrandom::fill(&mut random).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
