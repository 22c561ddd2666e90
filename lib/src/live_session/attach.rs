//! Attaches a client to a live session, and applies the MCP servers and roots that the client asks for.

use std::sync::Arc;

use rethread_core::{Fields, Input, Json, MessageId, Seq, ServerNote, Session};
use serde_json::json;
use tokio::sync::oneshot;

use super::{AgentSlot, Client, LiveSession};
use crate::agent::pool::HostUser;
use crate::client_id::{ClientId, ClientTag};
use crate::edge::client_request::Setup;
use crate::edge::v1;
use crate::live::Cursor;
use crate::secret::{SecretFinder, redacted_json};
use crate::store::Owner;
use crate::wire::RpcError;

/// The current state of a session, for a client that attaches.
pub(crate) struct Attached {
    /// The last entry of the past.
    pub(crate) head: Seq,
    /// The state to show.
    pub(crate) state: Json,
    /// Whose turn runs.
    pub(crate) turn: RunningTurn,
    /// The other clients that sent prompts which are not over.
    pub(crate) senders: Vec<(MessageId, ClientTag)>,
    /// What this client should know of how it follows.
    pub(crate) notice: Option<Json>,
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

impl Attached {
    /// The state of a session that is not live here, for an observer. What only a process that has the session open can go on
    /// with is left out if there is none.
    pub(crate) fn of_stored(session: Session, owner: Option<&Owner>) -> Self {
        let idle = || json!({"sessionUpdate": "state_update", "state": "idle"}).into();
        let open = owner.is_some();
        let title = session.title().map(str::to_owned);
        let running = open && session.turn.is_some();
        Self {
            head: session.head,
            state: session.state.filter(|_| open).unwrap_or_else(idle),
            turn: if running { RunningTurn::OfOthers } else { RunningTurn::OwnOrNone },
            senders: Vec::new(),
            notice: None,
            options: session.options,
            commands: session.commands,
            usage: session.usage,
            title,
            questions: if open { session.questions } else { Vec::new() },
            children: session.children,
        }
    }

    /// Replaces what looks like a secret.
    pub(crate) fn redact(&mut self, finder: &mut SecretFinder) {
        let standing = [&mut self.options, &mut self.commands, &mut self.usage, &mut self.notice];
        let bodies = self.questions.iter_mut().map(|open| &mut open.body);
        let children = self.children.iter_mut().map(|child| &mut child.body);
        let all = standing.into_iter().flatten().chain(bodies).chain(children).chain([&mut self.state]);
        all.for_each(|json| *json = redacted_json(json, finder));
        self.title.iter_mut().for_each(|title| *title = finder.redact(title).into_owned());
    }
}

/// Whose turn runs when a client begins to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunningTurn {
    /// None, or one that the client itself waits for.
    OwnOrNone,
    /// One that the client does not wait for.
    OfOthers,
}

impl LiveSession {
    /// Attaches a client and replies with the current state.
    pub(super) async fn attach(
        &mut self,
        client: Client,
        cursor: Arc<Cursor>,
        setup: Setup,
        host: Option<HostUser>,
        reply: oneshot::Sender<Result<Attached, RpcError>>,
    ) {
        if let Err(error) = self.check_setup(&setup) {
            let _ = reply.send(Err(error));
            return;
        }
        self.folding.settled().await;
        if let (AgentSlot::Empty, Some(host)) = (&self.agent.slot, host) {
            // The next agent is introduced to this client.
            self.agent.host = host;
        }
        let notice = self.set_up(client.tag.id, setup).await;
        // What is not stored is not sent.
        if let Some(error) = self.broken_error().filter(|_| self.condition.ahead) {
            let _ = reply.send(Err(error));
            return;
        }
        let id = client.tag.id;
        self.clients.attached.attach(client);
        self.live.attach(&cursor);
        let _ = reply.send(Ok(self.attached(id, notice)));
        self.need_agent().await;
    }

    /// Has an observer read along. Nothing is set up for it, and no agent is started.
    pub(super) async fn observe(
        &mut self,
        client: ClientId,
        cursor: &Arc<Cursor>,
        reply: oneshot::Sender<Result<Attached, RpcError>>,
    ) {
        self.folding.settled().await;
        if let Some(error) = self.broken_error().filter(|_| self.condition.ahead) {
            let _ = reply.send(Err(error));
            return;
        }
        self.live.attach(cursor);
        let _ = reply.send(Ok(self.attached(client, None)));
    }

    fn attached(&self, client: ClientId, notice: Option<Json>) -> Attached {
        let others_turn = self.session.turn.is_some() && !self.clients.requests.waits_for_turn(client);
        let senders = self.clients.requests.senders().filter(|(_, sender)| sender.id != client);
        Attached {
            head: self.lease.head,
            state: self.state(),
            turn: if others_turn { RunningTurn::OfOthers } else { RunningTurn::OwnOrNone },
            senders: senders.map(|(message, sender)| (message.clone(), sender.clone())).collect(),
            notice,
            options: self.session.options.clone(),
            commands: self.session.commands.clone(),
            usage: self.session.usage.clone(),
            title: self.session.title().map(str::to_owned),
            questions: self.session.questions.clone(),
            children: self.session.children.clone(),
        }
    }

    /// Applies the servers and roots that a client names, if nothing else depends on those that are there. Otherwise they
    /// are applied later, and the notice that this gives says so.
    async fn set_up(&mut self, client: ClientId, setup: Setup) -> Option<Json> {
        let same = setup.servers == self.agent.setup.servers && setup.roots == self.agent.setup.roots;
        let free = self.session.turn.is_none() && self.clients.attached.is_alone(client);
        match (same, free) {
            (_, true) => {
                self.clients.attached.forget_wanted();
                self.apply_setup(setup.clone()).await;
                if self.condition.broken.is_some() {
                    self.clients.attached.want(client, setup);
                }
                None
            }
            (true, false) => None,
            (false, false) => {
                let notice = setup_notice(&self.agent.setup, &setup);
                self.clients.attached.want(client, setup);
                Some(notice)
            }
        }
    }

    /// Applies what a client asked for earlier, once its time has come.
    pub(super) async fn apply_wanted_setup(&mut self) {
        if self.session.turn.is_some() || self.condition.ended || self.condition.broken.is_some() {
            return;
        }
        if let Some(setup) = self.clients.attached.take_wanted() {
            Box::pin(self.apply_setup(setup)).await;
            Box::pin(self.need_agent()).await;
        }
    }

    async fn apply_setup(&mut self, setup: Setup) {
        self.set_up_anew(&setup).await;
        let servers: Vec<ServerNote> = setup.servers.iter().map(v1::servers::server_note).collect();
        self.step(vec![Input::SetRoots { roots: setup.roots.clone(), servers }]).await;
        if self.condition.broken.is_none() {
            self.agent.setup = setup;
        }
    }

    /// The state to show: a session is idle until somebody says otherwise.
    pub(super) fn state(&self) -> Json {
        let idle = || json!({"sessionUpdate": "state_update", "state": "idle"}).into();
        self.session.state.clone().unwrap_or_else(idle)
    }

    /// An agent that has the session open with other servers or roots opens it again with these, unless it is
    /// at work.
    async fn set_up_anew(&mut self, setup: &Setup) {
        let same = setup.servers == self.agent.setup.servers && setup.roots == self.agent.setup.roots;
        if same || self.session.turn.is_some() || !matches!(self.agent.slot, AgentSlot::Bound(_)) {
            return;
        }
        self.part_with_agent("the session was opened again with other directories or MCP servers").await;
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

/// Says what differs between the servers and roots that are in use and those that a client asked for.
fn setup_notice(live: &Setup, wanted: &Setup) -> Json {
    let servers = |setup: &Setup| {
        let name = |server: &Fields| server.text("name").unwrap_or_default();
        list(setup.servers.iter().map(name).collect())
    };
    let mut parts = Vec::new();
    if live.servers != wanted.servers {
        parts.push(format!("MCP servers in use: {}; asked for: {}.", servers(live), servers(wanted)));
    }
    if live.roots != wanted.roots {
        let (in_use, asked) = (list(live.roots.clone()), list(wanted.roots.clone()));
        parts.push(format!("Directories in use: {in_use}; asked for: {asked}."));
    }
    parts.push("The change is made when no turn runs and no other client follows the session.".to_owned());
    json!({
        "sessionUpdate": "notice", "severity": "warning",
        "title": "The session keeps its MCP servers and directories for now", "description": parts.join(" "),
    })
    .into()
}

fn list(names: Vec<String>) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
