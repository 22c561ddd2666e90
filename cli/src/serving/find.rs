//! Finds the server of this store and speaks the handshake with it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rethread::transport::local_socket::{self, LocalSocketError};

use super::handshake::{Answer, Ask, Greeting, HANDSHAKE, LineBuffer, ServerState, content_of, line_of};
use super::registration::Registered;
use crate::failure::{ExitCode, Failure};
use crate::paths::Paths;
use crate::store_choice::StoreChoice;

/// How long a server may take for a line of the handshake.
const LINE_LIMIT: Duration = Duration::from_secs(10);

/// A connection to the server of this store, which has greeted.
#[derive(Debug)]
pub(crate) struct FoundServer {
    stream: UnixStream,
    socket: PathBuf,
    /// What it said of itself.
    pub(crate) greeting: Greeting,
}

/// Why there is no server to use.
#[derive(Debug)]
pub(crate) enum NoServer {
    /// None runs.
    None,
    /// One runs that cannot be used, for this reason.
    Unusable(Failure),
}

impl FoundServer {
    /// Connects to the server of this store.
    pub(crate) fn find(paths: &Paths) -> Result<Self, NoServer> {
        let registered = Registered::read(&paths.registration()).ok_or(NoServer::None)?;
        let store = StoreChoice::read(paths).map_err(NoServer::Unusable)?;
        if registered.store != store.shown() {
            return Err(NoServer::None);
        }
        let socket = registered.socket.ok_or(NoServer::None)?;
        let found = local_socket::connect(&socket).map_err(|error| no_server(&socket, error))?;
        Self::greeted(found, socket).map_err(NoServer::Unusable)
    }

    /// The server that clients of this version can use: it speaks the same handshake and is not about to end.
    pub(crate) fn usable(paths: &Paths) -> Result<Self, NoServer> {
        let found = Self::find(paths)?;
        let Greeting { handshake, version, pid, state } = &found.greeting;
        if *handshake != HANDSHAKE {
            let message = format!("the server in process {pid} is of another version ({version})");
            let hint = "restart it: `rethread serve --stop`, then `rethread serve`";
            return Err(NoServer::Unusable(Failure::plain(&message).hint(hint)));
        }
        match state {
            ServerState::Running => Ok(found),
            ServerState::Stopping => {
                Err(NoServer::Unusable(Failure::plain(&format!("the server in process {pid} is stopping"))))
            }
        }
    }

    /// The running server, of which this process wants something that needs one.
    pub(crate) fn running() -> Result<Self, Failure> {
        match Self::find(&Paths::from_environment()?) {
            Ok(found) if found.greeting.handshake == HANDSHAKE => Ok(found),
            Ok(found) => {
                let Greeting { pid, version, .. } = &found.greeting;
                let message = format!("the server in process {pid} is of another version ({version})");
                Err(Failure::plain(&message).hint(format!("end it with `kill {pid}`")))
            }
            Err(NoServer::None) => Err(Failure::new(ExitCode::NotFound, "no server runs for this store")
                .hint("`rethread serve` starts one")),
            Err(NoServer::Unusable(failure)) => Err(failure),
        }
    }

    /// Asks for something. The stream is for what follows.
    pub(crate) fn ask(mut self, ask: &Ask) -> Result<(Answer, UnixStream), Failure> {
        let failed = |error| failed(&self.socket, error);
        self.stream.write_all(&line_of(ask).map_err(failed)?).map_err(failed)?;
        let answer = read_line(&mut self.stream).map_err(failed)?;
        let answer = content_of(&answer).map_err(failed)?;
        self.stream.set_read_timeout(None).map_err(failed)?;
        Ok((answer, self.stream))
    }

    /// Becomes a client. The stream carries the protocol.
    pub(crate) fn serve(self, ask: Ask) -> Result<UnixStream, Failure> {
        match self.ask(&ask)? {
            (Answer::Accepted, stream) => Ok(stream),
            (Answer::Refused { reason }, _) => Err(Failure::new(ExitCode::Refused, reason)),
            (Answer::Status(_) | Answer::Page(_) | Answer::Stopping, _) => Err(other_answer()),
        }
    }

    fn greeted(mut stream: UnixStream, socket: PathBuf) -> Result<Self, Failure> {
        let failed = |error| failed(&socket, error);
        stream.set_read_timeout(Some(LINE_LIMIT)).map_err(failed)?;
        let greeting = read_line(&mut stream).map_err(failed)?;
        let greeting = content_of(&greeting).map_err(failed)?;
        Ok(Self { stream, socket, greeting })
    }
}

/// The server answered something that was not asked for.
pub(crate) fn other_answer() -> Failure {
    Failure::plain("the server answered something else")
}

fn read_line(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let (mut buffer, mut bytes) = (LineBuffer::default(), [0; 4096]);
    loop {
        let count = stream.read(&mut bytes)?;
        if let Some(line) = buffer.add(&bytes[..count])? {
            return Ok(line);
        }
    }
}

fn no_server(socket: &Path, error: LocalSocketError) -> NoServer {
    match error {
        LocalSocketError::NobodyListens(_) => NoServer::None,
        LocalSocketError::NotPrivate { .. } | LocalSocketError::OtherUser { .. } => {
            let hint = "it may be somebody else's; nothing was sent to it";
            NoServer::Unusable(Failure::plain(&error.to_string()).hint(hint))
        }
        LocalSocketError::InUse(_)
        | LocalSocketError::TooLong(_)
        | LocalSocketError::NotASocket(_)
        | LocalSocketError::Io { .. } => NoServer::Unusable(failed(socket, error)),
    }
}

fn failed(socket: &Path, error: impl std::error::Error + 'static) -> Failure {
    let causes = rethread::wire::with_causes(&error);
    Failure::plain(&format!("the server on {} does not answer: {causes}", socket.display()))
}
