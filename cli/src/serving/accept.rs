//! Serves the processes of the user on the socket: greets each, and does what it asks for.

use std::io;
use std::os::fd::IntoRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rethread::transport::Wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::handshake::{
    Answer, Ask, Greeting, HANDSHAKE, Handover, LineBuffer, PageAddress, ServerState, ServerStatus,
    content_of, line_of,
};
use super::process::ServeShared;

/// How long a process may take to say what it wants.
const ASK_LIMIT: Duration = Duration::from_secs(30);

/// How many clients are connected.
#[derive(Debug, Default)]
pub(crate) struct ClientCount(AtomicUsize);

impl ClientCount {
    /// The current number.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more until the guard is dropped; nothing if there are too many.
    pub(crate) fn add(self: &Arc<Self>, most: usize) -> Option<CountedClient> {
        let more = |count| (count < most).then_some(count + 1);
        let added = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        added.ok().map(|_| CountedClient(self.clone()))
    }
}

/// One client that is counted.
#[derive(Debug)]
pub(crate) struct CountedClient(Arc<ClientCount>);

impl Drop for CountedClient {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves one connection until it ends or the server does.
pub(crate) async fn serve(mut stream: UnixStream, shared: Arc<ServeShared>) {
    let asked = tokio::time::timeout(ASK_LIMIT, greet(&mut stream, &shared)).await;
    let outcome = match asked {
        Ok(Ok(Ask::Serve(handover))) => serve_client(stream, *handover, &shared).await,
        Ok(Ok(Ask::Status)) => say(&mut stream, &Answer::Status(status(&shared))).await,
        Ok(Ok(Ask::Page)) => say(&mut stream, &page(&shared)).await,
        Ok(Ok(Ask::Stop)) => {
            shared.stop();
            stopping(stream).await
        }
        Ok(Ok(Ask::Drain { seconds })) => {
            shared.drain(Duration::from_secs(seconds));
            stopping(stream).await
        }
        Ok(Err(error)) => Err(error),
        // It said nothing.
        Err(_) => Ok(()),
    };
    if let Err(error) = outcome {
        tracing::info!("a process on the socket was disconnected: {error}");
    }
}

async fn greet(stream: &mut UnixStream, shared: &ServeShared) -> io::Result<Ask> {
    let greeting = Greeting {
        handshake: HANDSHAKE,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        state: shared.state(),
    };
    say(stream, &greeting).await?;
    let (mut buffer, mut bytes) = (LineBuffer::default(), vec![0; 64 * 1024]);
    loop {
        let count = stream.read(&mut bytes).await?;
        if let Some(line) = buffer.add(&bytes[..count])? {
            return content_of(&line);
        }
    }
}

async fn serve_client(mut stream: UnixStream, handover: Handover, shared: &ServeShared) -> io::Result<()> {
    if shared.state() == ServerState::Stopping {
        return refuse(&mut stream, "the server is stopping".to_owned()).await;
    }
    let Some(_counted) = shared.clients.add(shared.most_clients) else {
        let reason = format!("the server has {} clients, which is its limit", shared.most_clients);
        return refuse(&mut stream, reason).await;
    };
    match handover.settings(&shared.paths, &shared.secrets) {
        Ok(settings) => {
            say(&mut stream, &Answer::Accepted).await?;
            let (reader, writer) = stream.into_split();
            let wire = Wire::new(reader, writer);
            shared.server.serve_client(wire, settings, shared.closing()).await;
            Ok(())
        }
        Err(failure) => refuse(&mut stream, failure.message().to_owned()).await,
    }
}

/// The address of the web page, with a code that works once.
fn page(shared: &ServeShared) -> Answer {
    if shared.state() == ServerState::Stopping {
        return Answer::Refused { reason: "the server is stopping".to_owned() };
    }
    let Some(http) = &shared.http else {
        return Answer::Refused { reason: "the server does not listen for HTTP (`--listen off`)".to_owned() };
    };
    match http.codes.make(shared.page_life()) {
        Ok(code) => Answer::Page(PageAddress { url: http.page_url.clone(), code }),
        Err(error) => Answer::Refused { reason: error.to_string() },
    }
}

/// Says that the server ends. The connection stays open until the process has ended.
async fn stopping(mut stream: UnixStream) -> io::Result<()> {
    say(&mut stream, &Answer::Stopping).await?;
    // Not closed here: the system closes it when the process has ended, and that is what the other side waits for.
    let _ = stream.into_std()?.into_raw_fd();
    Ok(())
}

async fn refuse(stream: &mut UnixStream, reason: String) -> io::Result<()> {
    say(stream, &Answer::Refused { reason }).await
}

async fn say(stream: &mut UnixStream, content: &impl serde::Serialize) -> io::Result<()> {
    stream.write_all(&line_of(content)?).await
}

fn status(shared: &ServeShared) -> ServerStatus {
    use rethread::server::Activity;
    let activities = shared.server.activities();
    let count = |is: fn(&Activity) -> bool| activities.iter().filter(|activity| is(activity)).count();
    ServerStatus {
        since: shared.since,
        addresses: shared.addresses.clone(),
        clients: shared.clients.get() + shared.http.as_ref().map_or(0, |http| (http.clients)()),
        sessions: activities.len(),
        running: count(|activity| matches!(activity, Activity::Running)),
        waiting: count(|activity| matches!(activity, Activity::Waiting | Activity::Unattended)),
        attached: shared.server.attached_clients().into_iter().map(|(id, clients)| (id.0, clients)).collect(),
    }
}
