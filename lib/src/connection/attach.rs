//! Attaches a client to a session: opens the session, determines what is replayed, and prepares what follows the replay.

use std::sync::Arc;

use rethread_core::{Json, Seq, Session, SessionId};
use serde_json::json;
use tokio::sync::oneshot;

use super::{Attachments, ClientContext, ClientDirectory, ReachedBy};
use crate::edge::agent_translator::outgoing;
use crate::edge::air::AirClient;
use crate::edge::client_request::{ReplayFrom, Setup, UpdateDelivery};
use crate::edge::dialect::CommandsIn;
use crate::edge::opened::opened;
use crate::edge::view::{TerminalOwner, View, title_update};
use crate::live::{Bell, Cursor};
use crate::live_session::{Attached, Client, Handle, Message, RunningTurn, store_error};
use crate::outbox::{AfterReplay, Attachment, OpenRequest, Outbound, Outbox};
use crate::store::find_back::find_message;
use crate::wire::RpcError;

/// How often a session that keeps ending is opened anew.
const ATTEMPTS: usize = 3;

/// Attaches the client to a session, also in tasks that wait for the agent.
#[derive(Clone)]
pub(super) struct Attacher {
    pub(super) context: ClientContext,
    pub(super) outbox: Outbox,
    pub(super) bell: Arc<Bell>,
    pub(super) attached: Attachments,
    pub(super) directory: Arc<ClientDirectory>,
}

impl Attacher {
    /// Has the client follow what was opened for its request, or tells it why it was not.
    pub(super) fn finish(&self, request: OpenRequest, opened: Result<Opened, RpcError>) {
        match opened {
            Ok(Opened { mut attachment, answer }) => {
                let session = attachment.session.clone();
                if self.attached.add(session.clone()).is_err() {
                    return self.leave(&session);
                }
                self.directory.session_changed(&session);
                request.hand_over_with(|request| {
                    attachment.then.answer = Some((request, answer));
                    Outbound::Attach(Box::new(attachment))
                });
            }
            Err(error) => request.answer(Err(error)),
        }
    }

    /// Has the client go on following a session that it followed elsewhere; no request is answered.
    pub(super) fn go_on(&self, opened: Opened) {
        let session = opened.attachment.session.clone();
        if self.attached.add(session.clone()).is_err() {
            return self.leave(&session);
        }
        self.directory.session_changed(&session);
        if self.outbox.offer(Outbound::Attach(Box::new(opened.attachment))).is_err() {
            self.attached.remove(&session);
            self.leave(&session);
        }
    }

    /// The connection ended meanwhile, so nobody else has the client leave the session.
    fn leave(&self, session: &SessionId) {
        if let Some(handle) = self.context.registry.find(session) {
            tokio::spawn(super::detach(handle, self.context.tag.id));
        }
    }

    /// Opens a session that has just been made, from its end on.
    pub(super) async fn begin(
        &self,
        handle: Handle,
        session: Session,
        setup: Setup,
    ) -> Result<Opened, RpcError> {
        let updates = setup.updates;
        let cursor = Cursor::new(handle.id.clone(), session.head.next(), self.bell.clone());
        self.attach(&handle, &cursor, setup).await.ok_or_else(ended)??;
        let mut view = self.view();
        view.set_mode(session.options.as_ref());
        let client = &self.context.client;
        let mut answer = opened(client, session.options.as_ref(), session.commands.as_ref());
        answer.set("sessionId", Json::of(&handle.id));
        // Version 1 has no place for them in its answer.
        let commands = session.commands.as_ref().filter(|commands| names_some(commands));
        let commands = commands.filter(|_| client.version.client_dialect().commands == CommandsIn::Update);
        let after_answer = commands.map(crate::edge::v1::commands::to_v1).into_iter().collect();
        let then = AfterReplay { after_answer, ..AfterReplay::default() };
        let past = session.head;
        let (session, live, view) = (handle.id, handle.live, Some(view));
        let attachment = Attachment { session, live, cursor, past, view, then, updates, observing: None };
        Ok(Opened { attachment, answer: answer.json() })
    }

    /// Opens a session from wherever the client wants it replayed.
    pub(super) async fn resume(
        &self,
        session: SessionId,
        setup: Setup,
        replay: ReplayFrom,
    ) -> Result<Opened, RpcError> {
        let updates = setup.updates;
        // Nothing is replayed to a client that is sent no updates.
        let replay = if updates == UpdateDelivery::Withheld { ReplayFrom::Nothing } else { replay };
        let (handle, cursor, attached) = self.open(&session, setup, &replay).await?;
        let mut view = self.view();
        view.set_mode(attached.options.as_ref());
        for (message, sender) in &attached.senders {
            view.sent_by(message.clone(), sender.json());
        }
        if attached.turn == RunningTurn::OfOthers {
            view.in_turn_of_others();
        }
        let (then, answer) = self.then(&attached, &view, &replay);
        let past = attached.head;
        let (live, view) = (handle.live, Some(view));
        let attachment = Attachment { session, live, cursor, past, view, then, updates, observing: None };
        Ok(Opened { attachment, answer })
    }

    /// The messages between the replay and everything after it, and the answer.
    pub(super) fn then(&self, attached: &Attached, view: &View, replay: &ReplayFrom) -> (AfterReplay, Json) {
        let then = then(&self.context, attached, view, replay);
        let answer = opened(&self.context.client, attached.options.as_ref(), attached.commands.as_ref());
        (then, answer.json())
    }

    /// Refuses a place to replay from that is not in the session, before the session is opened. What only the agent has
    /// is looked at later.
    pub(super) async fn check_replay(
        &self,
        session: &SessionId,
        replay: &ReplayFrom,
    ) -> Result<(), RpcError> {
        let ReplayFrom::Message(message) = replay else { return Ok(()) };
        match self.context.registry.row(session).await {
            Ok(row) if row.head > Seq(0) => self.message_place(session, message).await.map(drop),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn message_place(&self, session: &SessionId, message: &str) -> Result<Seq, RpcError> {
        let found = find_message(self.context.registry.store(), session, message).await;
        found.map_err(|error| store_error(&error))?.map(|item| item.first).ok_or_else(|| {
            let expected = "the id of a message of this session";
            RpcError::field("replayFrom.messageId", &json!(message), expected)
        })
    }

    async fn open(
        &self,
        session: &SessionId,
        setup: Setup,
        replay: &ReplayFrom,
    ) -> Result<(Handle, Arc<Cursor>, Attached), RpcError> {
        check(&self.context, &setup)?;
        let (handle, cursor, attached) = self.attach_live(session, setup).await?;
        self.set_cursor(session, &cursor, replay, attached.head).await?;
        Ok((handle, cursor, attached))
    }

    /// Places a cursor, which is before everything, where a replay begins.
    pub(super) async fn set_cursor(
        &self,
        session: &SessionId,
        cursor: &Cursor,
        replay: &ReplayFrom,
        head: Seq,
    ) -> Result<(), RpcError> {
        match replay {
            ReplayFrom::Start => {}
            ReplayFrom::Nothing => cursor.advance(head.next()),
            ReplayFrom::Message(message) => cursor.advance(self.message_place(session, message).await?),
            // A failover of the database may have lost entries.
            ReplayFrom::After(shown) => cursor.advance(shown.next().min(head.next())),
        }
        Ok(())
    }

    /// A session that ends just then is opened anew.
    async fn attach_live(
        &self,
        session: &SessionId,
        setup: Setup,
    ) -> Result<(Handle, Arc<Cursor>, Attached), RpcError> {
        for _ in 0..ATTEMPTS {
            let handle = self.live(session).await?;
            // Before everything, so that nothing is folded away under it.
            let cursor = Cursor::new(session.clone(), Seq(0), self.bell.clone());
            if let Some(attached) = self.attach(&handle, &cursor, setup.clone()).await {
                return Ok((handle, cursor, attached?));
            }
        }
        Err(ended())
    }

    /// The session, opened if it is not live. A client that another host carries here has nothing to open one with.
    async fn live(&self, session: &SessionId) -> Result<Handle, RpcError> {
        let registry = &self.context.registry;
        match self.context.reached_by {
            ReachedBy::Client => registry.open(session, &self.context.host).await,
            ReachedBy::OtherHost => {
                registry.find(session).ok_or_else(|| RpcError::not_here(session.as_str()))
            }
        }
    }

    /// Tells a session that the client follows it; nothing if the session has ended meanwhile.
    async fn attach(
        &self,
        handle: &Handle,
        cursor: &Arc<Cursor>,
        setup: Setup,
    ) -> Option<Result<Attached, RpcError>> {
        let (reply, attached) = oneshot::channel();
        let (tag, profile) = (self.context.tag.clone(), self.context.client.clone());
        let client = Client { tag, profile, outbox: self.outbox.clone() };
        let cursor = cursor.clone();
        let host = match self.context.reached_by {
            ReachedBy::Client => Some(self.context.host.user()),
            ReachedBy::OtherHost => None,
        };
        let attach = Message::Attach { client, cursor, setup, host, reply };
        handle.send(attach).await.ok()?;
        attached.await.ok()
    }

    fn view(&self) -> View {
        View::new(&self.context.client, terminals(&self.context))
    }
}

/// A session that is open for a client, and the answer to the request that opened it.
pub(super) struct Opened {
    pub(super) attachment: Attachment,
    pub(super) answer: Json,
}

fn ended() -> RpcError {
    RpcError::internal("the session ended while it was being opened").hint("try again")
}

/// Refuses what the agent does not offer.
pub(super) fn check(context: &ClientContext, setup: &Setup) -> Result<(), RpcError> {
    let profile = context.profile();
    outgoing::check_servers(&profile, &setup.servers)?;
    outgoing::check_system_prompt(&profile, setup)
}

fn terminals(context: &ClientContext) -> TerminalOwner {
    TerminalOwner::of(context.client.version, context.profile().version)
}

/// Says whether there are any commands; that there are none goes without saying.
fn names_some(commands: &Json) -> bool {
    let list = commands.fields().take("availableCommands").and_then(|list| list.items());
    list.is_some_and(|list| !list.is_empty())
}

/// The messages between the replay and everything after it.
fn then(context: &ClientContext, attached: &Attached, view: &View, replay: &ReplayFrom) -> AfterReplay {
    let commands = match context.client.version.client_dialect().commands {
        CommandsIn::Update => attached.commands.as_ref().map(crate::edge::v1::commands::to_v1),
        // They are in the answer.
        CommandsIn::Answer => None,
    };
    let title = attached.title.as_deref().map(title_update);
    let moment: Vec<_> = [commands, attached.usage.clone(), title].into_iter().flatten().collect();
    // A client that wants no replay gets only the state before its answer.
    let (mut updates, after_answer) = match replay {
        ReplayFrom::Nothing => (Vec::new(), moment),
        ReplayFrom::Start | ReplayFrom::Message(_) | ReplayFrom::After(_) => (moment, Vec::new()),
    };
    updates.extend(view.state_now(&attached.state));
    if *replay == ReplayFrom::Start {
        updates.extend(context.client.air().and_then(AirClient::replay_end));
    }
    // What may speak in its own name has to be known before it does, and before it asks.
    let children = match replay {
        ReplayFrom::Start => &[][..],
        ReplayFrom::Nothing | ReplayFrom::Message(_) | ReplayFrom::After(_) => &attached.children[..],
    };
    let asks = attached.questions.iter().filter_map(|open| view.ask(&open.question, open.kind, &open.body));
    let open = children.iter().filter_map(|child| view.subagent_announcement(child)).chain(asks).collect();
    AfterReplay { updates, answer: None, notice: attached.notice.clone(), after_answer, open }
}
