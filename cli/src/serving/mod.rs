//! The server of a user, `rethread serve`, and how other commands of the same user reach it: its registration in the state
//! folder, the handshake on its unix socket, accepting clients, and its process.

mod accept;
mod address;
pub(crate) mod find;
mod handed_agent;
pub(crate) mod handshake;
pub(crate) mod process;
pub(crate) mod pump;
mod registration;
mod settings;

use std::os::unix::net::UnixStream;

use rethread::server::Config;

use crate::agents::AgentChoice;
use crate::failure::Failure;
use crate::output::escape::visible_lines;
use crate::paths::Paths;
use find::{FoundServer, NoServer};
use handshake::{Ask, Handover};

/// Becomes a client of the running server, with this agent. Nothing if there is none, or if it cannot be used; stderr says
/// why it cannot.
pub(crate) fn connected(agent: &AgentChoice, config: &Config) -> Result<Option<UnixStream>, Failure> {
    let served = match FoundServer::usable(&Paths::from_environment()?) {
        Ok(found) => found.serve(Ask::Serve(Box::new(Handover::of(agent, config)?))),
        Err(NoServer::None) => return Ok(None),
        Err(NoServer::Unusable(failure)) => Err(failure),
    };
    match served {
        Ok(stream) => Ok(Some(stream)),
        Err(failure) => {
            eprintln!("note: working without the server: {}", visible_lines(failure.message()));
            Ok(None)
        }
    }
}
