//! The server of a user, `rethread serve`, and how other commands of the same user reach it: its registration in the state
//! folder, the handshake on its unix socket, accepting clients, and its process.

mod accept;
mod address;
pub(crate) mod find;
mod handed_agent;
pub(crate) mod handshake;
pub(crate) mod http;
mod notify;
mod page;
pub(crate) mod process;
pub(crate) mod pump;
mod registration;
pub(crate) mod remote;
pub(crate) mod request;
mod settings;

use std::collections::HashMap;
use std::os::unix::net::UnixStream;

use rethread::server::Config;

use crate::agents::AgentChoice;
use crate::failure::Failure;
use crate::output::escape::visible_lines;
use crate::paths::Paths;
use find::{FoundServer, NoServer};
use handshake::{Answer, Ask, HANDSHAKE, Handover};

/// Becomes a client of the running server, with this agent. Nothing if there is none, or if it cannot be used; stderr says
/// why it cannot.
pub(crate) fn connected(agent: &AgentChoice, config: &Config) -> Result<Option<UnixStream>, Failure> {
    match usable()? {
        Some(found) => client_of(found, agent, config),
        None => Ok(None),
    }
}

/// The running server. Nothing if there is none, or if it cannot be used; stderr says why it cannot.
pub(crate) fn usable() -> Result<Option<FoundServer>, Failure> {
    match FoundServer::usable(&Paths::from_environment()?) {
        Ok(found) => Ok(Some(found)),
        Err(NoServer::None) => Ok(None),
        Err(NoServer::Unusable(failure)) => {
            note(&failure);
            Ok(None)
        }
    }
}

/// Becomes a client of this server, with this agent. Nothing if it refuses; stderr says why.
pub(crate) fn client_of(
    found: FoundServer,
    agent: &AgentChoice,
    config: &Config,
) -> Result<Option<UnixStream>, Failure> {
    match found.serve(Ask::Serve(Box::new(Handover::of(agent, config)?))) {
        Ok(stream) => Ok(Some(stream)),
        Err(failure) => {
            note(&failure);
            Ok(None)
        }
    }
}

/// How many clients are attached to each session that the running server has open. Nothing is known without a server, or if
/// it does not answer.
pub(crate) fn attached_clients() -> HashMap<String, usize> {
    let found = Paths::from_environment().ok().and_then(|paths| FoundServer::find(&paths).ok());
    let found = found.filter(|found| found.greeting.handshake == HANDSHAKE);
    match found.map(|found| found.ask(&Ask::Status)) {
        Some(Ok((Answer::Status(status), _))) => status.attached.into_iter().collect(),
        Some(
            Ok((Answer::Accepted | Answer::Refused { .. } | Answer::Page(_) | Answer::Stopping, _)) | Err(_),
        )
        | None => HashMap::new(),
    }
}

fn note(failure: &Failure) {
    eprintln!("note: working without the server: {}", visible_lines(failure.message()));
}
