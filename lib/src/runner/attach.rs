//! How a client comes to follow a live session: with the directories and servers that it names, from where the journal
//! stands.

use std::sync::Arc;

use rethread_core::{HeldPrompts, Input, Json, Seq, ServerNote};
use serde_json::json;
use tokio::sync::oneshot;

use super::{Client, Runner, Seat};
use crate::edge::call::Setup;
use crate::edge::v1;
use crate::live::Cursor;
use crate::mint;
use crate::wire::RpcError;

/// How a session stands for a client that begins to follow it.
pub(crate) struct Attached {
    /// The last entry of the past.
    pub(crate) head: Seq,
    /// The state to show.
    pub(crate) state: Json,
    /// The options, as an update.
    pub(crate) options: Option<Json>,
    /// The commands, as an update.
    pub(crate) commands: Option<Json>,
    /// The usage, as an update.
    pub(crate) usage: Option<Json>,
    /// The title.
    pub(crate) title: Option<String>,
    /// The questions that are open.
    pub(crate) questions: Vec<rethread_core::session::OpenQuestion>,
    /// The sub-agents that live.
    pub(crate) children: Vec<rethread_core::Child>,
}

impl Runner {
    /// A client begins to follow the session, and is told how it stands.
    pub(super) async fn attach(
        &mut self,
        cursor: Arc<Cursor>,
        client: Client,
        setup: Setup,
        reply: oneshot::Sender<Result<Attached, RpcError>>,
    ) {
        if let Err(error) = self.check_setup(&setup) {
            let _ = reply.send(Err(error));
            return;
        }
        self.settle_fold().await;
        self.set_up_anew(&setup).await;
        let servers: Vec<ServerNote> = setup.servers.iter().map(v1::servers::note).collect();
        self.step(vec![Input::SetRoots { roots: setup.roots.clone(), servers }]).await;
        // What is known here may not be written, and nobody is told that.
        if let Some(error) = self.broken_error() {
            let _ = reply.send(Err(error));
            return;
        }
        self.setup = setup;
        self.clients.retain(|known| !known.outbox.is_closed() && !known.outbox.is_same(&client.outbox));
        self.clients.push(client);
        self.live.attach(&cursor);
        let attached = Attached {
            head: self.lease.head,
            state: self.state(),
            options: self.session.options.clone(),
            commands: self.session.commands.clone(),
            usage: self.session.usage.clone(),
            title: self.session.title().map(str::to_owned),
            questions: self.session.questions.clone(),
            children: self.session.children.clone(),
        };
        let _ = reply.send(Ok(attached));
        self.need_agent().await;
    }

    /// The state to show: a session is idle until somebody says otherwise.
    pub(super) fn state(&self) -> Json {
        let idle = || json!({"sessionUpdate": "state_update", "state": "idle"}).into();
        self.session.state.clone().unwrap_or_else(idle)
    }

    /// An agent that has the session open with other servers or roots opens it again with these, unless it is
    /// at work.
    async fn set_up_anew(&mut self, setup: &Setup) {
        let same = setup.servers == self.setup.servers && setup.roots == self.setup.roots;
        if same || self.session.turn.is_some() || !matches!(self.seat, Seat::Bound(_)) {
            return;
        }
        let reason = "the session was opened again with other directories or MCP servers".to_owned();
        self.end_hosted().await;
        self.step(vec![Input::AgentExited { reason, held: HeldPrompts::Wait, at: mint::now() }]).await;
        self.forget_agent();
        self.release_seat();
    }

    fn check_setup(&self, setup: &Setup) -> Result<(), RpcError> {
        if !same_directory(&setup.cwd, &self.session.cwd) {
            return Err(RpcError::field("cwd", &json!(setup.cwd), &self.session.cwd)
                .hint(format!("this session belongs to {}", self.session.cwd)));
        }
        Ok(())
    }
}

/// The same directory may be written with a slash at its end or through `.`.
fn same_directory(one: &str, other: &str) -> bool {
    let parts = |path: &str| std::path::Path::new(path).components().collect::<std::path::PathBuf>();
    parts(one) == parts(other)
}
