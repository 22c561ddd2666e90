//! A server on another machine, or any other that is reached by an address: `--connect` of `acp` and `chat`. The token comes
//! from the environment or a file, never from an argument, which others could see.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use rethread::transport::Wire;
use rethread::transport::stdio;
use rethread_http::{RemoteError, RemoteTarget, connect};

use crate::environment;
use crate::failure::{ExitCode, Failure};

/// The variable with the token.
const TOKEN_VARIABLE: &str = "RETHREAD_TOKEN";

/// How long a client that has ended waits until the server knows.
const FAREWELL: Duration = Duration::from_secs(2);

/// Options that name a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectArgs {
    /// Use the server at this address, such as `https://team.example:7373`. Its token is read from RETHREAD_TOKEN or
    /// --token-file.
    #[arg(long, value_name = "URL")]
    pub(crate) connect: Option<String>,
    /// The file with the token for --connect.
    #[arg(long, value_name = "FILE", requires = "connect")]
    token_file: Option<PathBuf>,
    /// The file with the certificates to trust for --connect, in PEM, in place of those of the system.
    #[arg(long, value_name = "FILE", requires = "connect")]
    ca: Option<PathBuf>,
    /// The number of seconds for which a lost connection to the server of --connect is tried again.
    #[arg(long, value_name = "SECONDS", requires = "connect", default_value_t = 600)]
    reconnect_seconds: u64,
}

impl ConnectArgs {
    /// The server that is named, with an agent of its configuration.
    pub(crate) fn target(&self, agent: Option<&str>) -> Result<Option<RemoteTarget>, Failure> {
        let Some(url) = &self.connect else { return Ok(None) };
        if url.contains("token=") || url.contains('@') {
            return Err(Failure::new(ExitCode::Usage, "an address must not contain a token or a password")
                .hint(format!("set {TOKEN_VARIABLE}, or use --token-file")));
        }
        let token = match &self.token_file {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    Failure::plain(&format!("{} cannot be read: {error}", file.display()))
                })?;
                Some(text.trim().to_owned())
            }
            None => environment::variable(TOKEN_VARIABLE).map(|token| token.trim().to_owned()),
        };
        Ok(Some(RemoteTarget {
            url: with_agent(url, agent),
            token,
            ca: self.ca.clone(),
            patience: Duration::from_secs(self.reconnect_seconds),
        }))
    }
}

/// Names the agent in the address.
fn with_agent(url: &str, agent: Option<&str>) -> String {
    match agent {
        None => url.to_owned(),
        Some(agent) => {
            let path =
                url.split_once("://").is_some_and(|(_, rest)| rest.trim_end_matches('/').contains('/'));
            let url = if path || url.contains('?') {
                url.to_owned()
            } else {
                format!("{}/acp", url.trim_end_matches('/'))
            };
            format!("{url}{}agent={agent}", if url.contains('?') { '&' } else { '?' })
        }
    }
}

/// Connects to the server, as a byte stream. Must be called in a runtime.
pub(crate) async fn remote_wire(target: RemoteTarget) -> Result<Wire, Failure> {
    Ok(connect(target).await.map_err(failure)?.into_wire())
}

/// Carries standard input and output to the server and back until one of them ends.
pub(crate) fn pump(target: RemoteTarget) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let Wire { mut reader, mut writer } = remote_wire(target).await?;
        let (mut input, mut output) = stdio::open()?;
        let mut from_server = pin!(tokio::io::copy(&mut reader, &mut output));
        tokio::select! {
            _ = tokio::io::copy(&mut input, &mut writer) => {
                // The server is told that this client does not come back.
                drop(writer);
                let _ = tokio::time::timeout(FAREWELL, from_server).await;
                Ok(())
            }
            carried = &mut from_server => match carried {
                Ok(_) => Err(Failure::plain("the server has ended the connection; the sessions are kept there")),
                // A client that reads no more has ended.
                Err(_) => Ok(()),
            },
        }
    });
    // A read of standard input may never return.
    runtime.shutdown_background();
    outcome
}

fn failure(error: RemoteError) -> Failure {
    let message = rethread::wire::with_causes(&error);
    match error {
        RemoteError::Refused(status) if status == 401 => {
            Failure::new(ExitCode::Refused, message).hint(format!(
                "set {TOKEN_VARIABLE}, or use --token-file; `rethread token new` on the server makes one"
            ))
        }
        RemoteError::Refused(_) => Failure::new(ExitCode::Refused, message)
            .hint("the server may not know this name of its host, or this agent; see its --allow-host"),
        RemoteError::Unreachable { .. } => {
            Failure::plain(&message).hint("check the address, and that the server runs")
        }
        RemoteError::Address(_) => {
            Failure::new(ExitCode::Usage, message).hint("write it as https://HOST:PORT or http://HOST:PORT")
        }
        RemoteError::Certificates { .. } => Failure::plain(&message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_named_in_the_address() {
        let cases = [
            ("http://a:1", "http://a:1/acp?agent=codex"),
            ("http://a:1/", "http://a:1/acp?agent=codex"),
            ("http://a:1/acp", "http://a:1/acp?agent=codex"),
            ("http://a:1/acp?role=observer", "http://a:1/acp?role=observer&agent=codex"),
        ];
        for (url, expected) in cases {
            assert_eq!(with_agent(url, Some("codex")), expected);
            assert_eq!(with_agent(url, None), url);
        }
    }
}
