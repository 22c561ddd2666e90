//! Ends an agent, or notices its end, and reports it with the exit status and its last output.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::Order;
use crate::agent::peer::AgentPeer;
use crate::agent::process::AgentProcess;
use crate::agent::quote;
use crate::wire::RpcError;

/// How long the output of an agent that was ended is still read.
const LAST_WORDS: Duration = Duration::from_millis(200);
const WINDING_UP: Duration = Duration::from_secs(3);

/// How an agent ended.
pub(super) struct Ending {
    /// The status of its process, if it is one.
    status: Option<String>,
    /// Its last words, quoted.
    said: String,
}

impl Ending {
    fn reason(&self) -> String {
        match &self.status {
            Some(status) => format!("the agent ended: {status}{}", self.said),
            None => format!("the agent closed the connection{}", self.said),
        }
    }
}

/// Why an agent that was started cannot be used.
pub(super) enum NotReady {
    /// It answered `initialize` with an error.
    Refused(RpcError),
    /// It answered with something that cannot be used.
    Unusable(RpcError),
    /// It ended without an answer.
    Ended,
    /// It did not answer for this long.
    Silent(Duration),
    /// Nobody needs it any more.
    Unneeded,
}

impl NotReady {
    /// Makes the error for requests that need the agent. The agent's own words come before its exit status.
    pub(super) async fn into_error(self, ending: oneshot::Receiver<Ending>) -> RpcError {
        let silent = match self {
            Self::Refused(error) => {
                let message = format!("the agent refused to initialize: {}", error.message);
                return RpcError { message, ..error };
            }
            Self::Unusable(error) => return error,
            Self::Unneeded => {
                // Returns only when the process is gone.
                let _ = ending.await;
                return super::given_up();
            }
            Self::Ended => None,
            Self::Silent(limit) => Some(limit),
        };
        let ending = ending.await.ok();
        let said = ending.as_ref().map(|ending| ending.said.as_str()).unwrap_or_default();
        match (silent, ending.as_ref().and_then(|ending| ending.status.as_ref())) {
            (Some(limit), _) => {
                let limit = limit.as_secs_f64();
                RpcError::internal(format!("the agent did not answer initialize within {limit} s{said}"))
                    .hint(
                        "run it by hand to see what it waits for, or give it more time with --start-seconds",
                    )
            }
            (None, Some(status)) => {
                RpcError::internal(format!("the agent ended before it answered initialize: {status}{said}"))
            }
            (None, None) => {
                RpcError::internal(format!("the agent closed its output before it answered initialize{said}"))
            }
        }
    }
}

/// Waits for the agent's end, asked for or not, and tells its sessions.
pub(super) async fn watch_over(
    peer: AgentPeer,
    mut process: Option<AgentProcess>,
    mut stream_ended: oneshot::Receiver<()>,
    mut orders: watch::Receiver<Order>,
    ended: watch::Sender<bool>,
    why: oneshot::Sender<Ending>,
) {
    let asked = tokio::select! {
        _ = &mut stream_ended => false,
        order = orders.wait_for(|order| *order == Order::End) => { drop(order); true }
    };
    peer.close();
    let report = match process.take() {
        Some(process) => Some(process.end().await),
        None => None,
    };
    if asked {
        // The last output of a process is still read; an agent in this process closes its sessions first.
        let limit = if report.is_some() { LAST_WORDS } else { WINDING_UP };
        let _ = tokio::time::timeout(limit, stream_ended).await;
    }
    let stderr = report.as_ref().map(|report| report.stderr.as_str()).unwrap_or_default();
    let said = quote::output_suffix(stderr, &peer.printed());
    let ending = Ending { status: report.map(|report| report.end.to_string()), said };
    peer.gone(&ending.reason()).await;
    let _ = why.send(ending);
    let _ = ended.send(true);
}
