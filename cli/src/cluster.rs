//! The hosts of a shared store: the key that they have in common, and where this one is reached by the others. The key is never
//! shown.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread::secret::Secret;
use rethread::store::{HostContact, HostNumber};
use rethread_http::{ClusterKey, HostNetwork, advertised_host};

use crate::config;
use crate::environment;
use crate::failure::{ExitCode, Failure};

/// The variable with the key.
pub(crate) const KEY_VARIABLE: &str = "RETHREAD_CLUSTER_KEY";

/// What a host knows of the others.
pub(crate) struct Cluster {
    key: ClusterKey,
    ca: Option<PathBuf>,
}

/// The key as it is given: by the variable, else in the configuration.
pub(crate) fn key(file: &Path) -> Result<Option<Secret>, Failure> {
    match environment::variable(KEY_VARIABLE) {
        Some(key) => Ok(Some(Secret::new(key))),
        None => Ok(config::read(file)?.cluster_key),
    }
}

impl Cluster {
    /// Reads the key and how hosts are reached; nothing if there is no key.
    pub(crate) fn read(file: &Path) -> Result<Option<Self>, Failure> {
        let Some(key) = key(file)? else { return Ok(None) };
        let key = ClusterKey::new(&key).map_err(|short| {
            Failure::new(ExitCode::Usage, short.to_string()).hint("make one with `openssl rand -hex 32`")
        })?;
        Ok(Some(Self { key, ca: config::read(file)?.cluster.ca }))
    }

    /// This process as a host with this number and address.
    pub(crate) fn network(self, own: HostContact) -> Arc<HostNetwork> {
        Arc::new(HostNetwork::new(self.key, own, self.ca))
    }

    /// A process that serves no other hosts.
    pub(crate) fn visitor(self) -> Arc<HostNetwork> {
        self.network(HostContact { number: HostNumber(0), address: String::new() })
    }
}

/// The address under which other hosts reach this one: the one that is named, else where it listens. Nothing if that is every
/// address of the machine.
pub(crate) fn advertised(
    named: Option<&str>,
    listening: SocketAddr,
    scheme: &str,
) -> Result<Option<String>, Failure> {
    match named {
        None if listening.ip().is_unspecified() => Ok(None),
        None => Ok(Some(format!("{scheme}://{listening}"))),
        Some(named) => {
            let whole = if named.contains("://") { named.to_owned() } else { format!("{scheme}://{named}") };
            let whole = whole.trim_end_matches('/');
            match advertised_host(whole) {
                Some(_) => Ok(Some(whole.to_owned())),
                None => {
                    let message = format!("{named} is not an address that other hosts could reach");
                    Err(Failure::new(ExitCode::Usage, message).hint("write it as https://HOST:PORT"))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_other_hosts_has_a_scheme_and_a_host() {
        let at = |named: Option<&str>, listening: &str| {
            advertised(named, listening.parse().unwrap(), "https").map_err(|failure| failure.exit_code())
        };
        assert_eq!(at(None, "127.0.0.1:7373"), Ok(Some("https://127.0.0.1:7373".to_owned())));
        assert_eq!(at(None, "0.0.0.0:7373"), Ok(None));
        assert_eq!(at(Some("a.example:7373"), "0.0.0.0:7373"), Ok(Some("https://a.example:7373".to_owned())));
        assert_eq!(at(Some("http://localhost:1/"), "[::]:1"), Ok(Some("http://localhost:1".to_owned())));
        for wrong in ["", "ftp://a", "https://a/path", "https://me@a", "https://a?x=1", "a b"] {
            assert_eq!(at(Some(wrong), "127.0.0.1:1"), Err(ExitCode::Usage), "{wrong}");
        }
    }
}
