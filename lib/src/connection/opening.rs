//! Making, resuming, listing and ending sessions for a client.

use std::sync::Arc;

use rethread_core::{Json, Seq, Session, SessionId};
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use super::answers::{self, Open};
use super::in_flight::Worker;
use super::{Agreed, Attachments, Connection};
use crate::edge::Version;
use crate::edge::call::{self, Replay, Setup};
use crate::edge::link::ask;
use crate::edge::view::{Terminals, View, title_update};
use crate::live::Cursor;
use crate::mint;
use crate::outbox::{Attachment, Outbound, Outbox, Reply, Then};
use crate::runner::{Attached, Handle, Message, store_error};
use crate::store::{Archived, ArchivedFilter, ListQuery, SessionRow, StoreError};
use crate::wire::{Id, RpcError};

/// How many sessions a page of a list has.
const PAGE: usize = 50;
/// How often a session that keeps ending is opened anew.
const ATTEMPTS: usize = 3;

impl Connection {
    /// Making a session waits for the agent, and nothing else waits for that.
    pub(super) fn create(&self, agreed: Agreed, id: Id, mut setup: Setup) {
        drop_unoffered(&agreed, &mut setup);
        let follower = self.follower(&agreed);
        tokio::spawn(async move {
            let made = async {
                let live = agreed.host.live().await?;
                let (handle, session) = agreed.registry.create(live, setup.clone()).await?;
                follower.begin(&id, handle, session, setup).await
            };
            if let Err(error) = made.await {
                follower.refuse(id, error);
            }
        });
    }

    /// A fork is made in the store and is live at once; its agent comes up behind it.
    pub(super) async fn fork(
        &mut self,
        agreed: Agreed,
        id: Id,
        parent: SessionId,
        mut setup: Setup,
        at: Option<String>,
    ) {
        drop_unoffered(&agreed, &mut setup);
        let follower = self.follower(&agreed);
        let made = async {
            check(&agreed, &setup)?;
            let (handle, session) = agreed.registry.fork(&parent, at.as_deref(), setup.clone()).await?;
            follower.begin(&id, handle, session, setup).await
        };
        if let Err(error) = made.await {
            self.answer(id, Err(error));
        }
    }

    /// Served from the journal: it does not wait for the agent, unless only the agent has the session.
    pub(super) async fn resume(
        &mut self,
        agreed: Agreed,
        id: Id,
        session: SessionId,
        mut setup: Setup,
        replay: Replay,
    ) {
        drop_unoffered(&agreed, &mut setup);
        let follower = self.follower(&agreed);
        match agreed.registry.knows(&session).await {
            Ok(true) => follower.resume(id, session, setup, replay).await,
            Ok(false) => {
                tokio::spawn(async move {
                    let adopted = async {
                        check(&agreed, &setup)?;
                        let live = agreed.host.live().await?;
                        agreed.registry.adopt(live, &session, setup.clone()).await
                    };
                    match adopted.await {
                        Ok(_) => follower.resume(id, session, setup, replay).await,
                        Err(error) => follower.refuse(id, error),
                    }
                });
            }
            Err(error) => self.answer(id, Err(error)),
        }
    }

    fn follower(&self, agreed: &Agreed) -> Follower {
        Follower {
            agreed: agreed.clone(),
            outbox: self.outbox.clone(),
            bell: self.bell.clone(),
            attached: self.attached.clone(),
        }
    }

    pub(super) async fn list(
        &self,
        agreed: Agreed,
        id: Id,
        cwd: Option<String>,
        cursor: Option<String>,
        archived: call::ArchivedFilter,
    ) {
        let archived = match archived {
            call::ArchivedFilter::Exclude => ArchivedFilter::Exclude,
            call::ArchivedFilter::Include => ArchivedFilter::Include,
            call::ArchivedFilter::Only => ArchivedFilter::Only,
        };
        let query = ListQuery { cwd, archived, after: cursor.clone(), limit: PAGE };
        let page = agreed.registry.journal().call(move |store| store.list(&query)).await;
        self.answer(
            id,
            match page {
                Ok(page) => Ok(answers::list(&page)),
                Err(StoreError::BadCursor) => {
                    Err(RpcError::field("cursor", &json!(cursor), "a cursor that an earlier page gave")
                        .hint("start again without a cursor"))
                }
                Err(error) => Err(store_error(&error)),
            },
        );
    }

    pub(super) async fn close(&mut self, agreed: Agreed, id: Id, session: SessionId) {
        let following = self.attached.remove(&session);
        let handle = if following { agreed.registry.find(&session) } else { None };
        let Some(handle) = handle else {
            // Nothing to close is closed; only a session that never was is an error, and only in version 1.
            let outcome = match (agreed.client.version, agreed.registry.row(&session).await) {
                (Version::V1, Err(error)) => Err(error),
                (Version::V1, Ok(_)) | (Version::V2, _) => Ok(json!({}).into()),
            };
            return self.answer(id, outcome);
        };
        self.in_flight.assign(&id, Worker::Session(session.clone()));
        let reply = Reply::new(agreed.client.version, id.clone(), session, self.outbox.clone());
        if handle.tell(Message::Close(reply)).await.is_err() {
            self.answer(id, Ok(json!({}).into()));
        }
    }

    pub(super) async fn delete(&mut self, agreed: Agreed, id: Id, session: SessionId) {
        let after = self.end_session(&agreed, &session, "the session was deleted").await;
        let row = agreed.registry.row(&session).await.ok();
        let gone = session.clone();
        let at = mint::now();
        let outcome = agreed.registry.journal().call(move |store| store.delete(&gone, at)).await;
        if let Some(row) = row {
            delete_natively(&agreed, row);
        }
        self.answer_after(
            id,
            &session,
            after,
            match outcome {
                // What is not there is deleted.
                Ok(()) | Err(StoreError::Unknown(_)) => Ok(json!({}).into()),
                Err(error) => Err(store_error(&error)),
            },
        );
    }

    pub(super) async fn archive(&mut self, agreed: Agreed, id: Id, session: SessionId) {
        if let Err(error) = agreed.registry.row(&session).await {
            return self.answer(id, Err(error));
        }
        let after = self.end_session(&agreed, &session, "the session was archived").await;
        let outcome = set_archived(&agreed, &session, Archived::Yes).await;
        self.answer_after(id, &session, after, outcome);
    }

    pub(super) async fn unarchive(&mut self, agreed: Agreed, id: Id, session: SessionId) {
        let outcome = match agreed.registry.row(&session).await {
            Ok(_) => set_archived(&agreed, &session, Archived::No).await,
            Err(error) => Err(error),
        };
        self.answer(id, outcome);
    }

    pub(super) async fn status(&self, agreed: Agreed, id: Id, session: SessionId) {
        let row = match agreed.registry.row(&session).await {
            Ok(row) => row,
            Err(error) => return self.answer(id, Err(error)),
        };
        let handle = agreed.registry.find(&session);
        let open = if handle.is_some() || row.owner.is_some() { Open::Yes } else { Open::No };
        let state = match handle {
            Some(handle) => {
                let (reply, state) = oneshot::channel();
                let _ = handle.tell(Message::Status(reply)).await;
                state.await.ok()
            }
            None => None,
        };
        self.answer(id, Ok(answers::status(agreed.client.version, state.as_ref(), open)));
    }

    pub(super) async fn set_title(&mut self, agreed: Agreed, id: Id, session: SessionId, title: String) {
        if let Some(handle) = agreed.registry.find(&session) {
            let reply = Reply::new(agreed.client.version, id.clone(), session.clone(), self.outbox.clone());
            if handle.tell(Message::SetTitle(title.clone(), reply)).await.is_ok() {
                return;
            }
        }
        let stored = title.split_whitespace().collect::<Vec<_>>().join(" ");
        if stored.is_empty() {
            let error = RpcError::field("title", &json!(title), "a title with visible characters");
            return self.answer(id, Err(error));
        }
        if let Err(error) = agreed.registry.row(&session).await {
            return self.answer(id, Err(error));
        }
        let (named, text) = (session, stored.clone());
        let outcome = agreed.registry.journal().call(move |store| store.set_title(&named, &text)).await;
        self.answer(id, outcome.map(|()| json!({"title": stored}).into()).map_err(|e| store_error(&e)));
    }

    /// Ends a session here, its turn cancelled, and lets the client see the end of it.
    async fn end_session(&mut self, agreed: &Agreed, session: &SessionId, reason: &str) -> Option<Seq> {
        self.attached.remove(session);
        if let Some(handle) = agreed.registry.find(session) {
            let _ = handle.tell(Message::Cancel).await;
        }
        agreed.registry.end(session, reason).await
    }

    fn answer_after(&self, id: Id, session: &SessionId, after: Option<Seq>, outcome: Result<Json, RpcError>) {
        let after = after.map(|seq| (session.clone(), seq));
        let _ = self.outbox.try_send(Outbound::Answer { id, outcome }.behind(after));
    }
}

/// Has the client follow a session. It stands for the connection in what waits for the agent.
struct Follower {
    agreed: Agreed,
    outbox: Outbox,
    bell: Arc<Notify>,
    attached: Attachments,
}

impl Follower {
    fn refuse(&self, id: Id, error: RpcError) {
        let _ = self.outbox.try_send(Outbound::Answer { id, outcome: Err(error) });
    }

    /// Follows a session that has just been made, from its end on.
    async fn begin(&self, id: &Id, handle: Handle, session: Session, setup: Setup) -> Result<(), RpcError> {
        let cursor = Cursor::new(session.head.next(), self.bell.clone());
        self.attach(&handle, &cursor, setup).await.ok_or_else(ended)??;
        self.attached.add(handle.id.clone());
        let mut view = self.view();
        view.mode_is(session.options.as_ref());
        let client = &self.agreed.client;
        let mut answer = answers::opened(client, session.options.as_ref(), session.commands.as_ref());
        answer.set("sessionId", Json::of(&handle.id));
        let then = Then { answer: Some((id.clone(), answer.json())), ..Then::default() };
        let past = session.head;
        self.follow(Attachment { session: handle.id, live: handle.live, cursor, past, view, then });
        Ok(())
    }

    /// Follows a session from wherever the client wants it replayed.
    async fn resume(&self, id: Id, session: SessionId, setup: Setup, replay: Replay) {
        match self.open(&session, setup, &replay).await {
            Ok((handle, cursor, attached)) => {
                let mut view = self.view();
                view.mode_is(attached.options.as_ref());
                let then = then(&self.agreed, &attached, &view, &replay, id);
                let past = attached.head;
                self.attached.add(session.clone());
                self.follow(Attachment { session, live: handle.live, cursor, past, view, then });
            }
            Err(error) => self.refuse(id, error),
        }
    }

    async fn open(
        &self,
        session: &SessionId,
        setup: Setup,
        replay: &Replay,
    ) -> Result<(Handle, Arc<Cursor>, Attached), RpcError> {
        check(&self.agreed, &setup)?;
        let registry = &self.agreed.registry;
        let (handle, cursor, attached) = self.attach_live(session, setup).await?;
        match replay {
            Replay::Start => {}
            Replay::Nothing => cursor.advance(attached.head.next()),
            Replay::Message(message) => {
                let found = registry.find_message(session, message).await.map_err(|e| store_error(&e))?;
                let Some(item) = found else {
                    let expected = "the id of a message of this session";
                    return Err(RpcError::field("replayFrom.messageId", &json!(message), expected));
                };
                cursor.advance(item.first);
            }
        }
        Ok((handle, cursor, attached))
    }

    /// A session that ends just then is opened anew.
    async fn attach_live(
        &self,
        session: &SessionId,
        setup: Setup,
    ) -> Result<(Handle, Arc<Cursor>, Attached), RpcError> {
        for _ in 0..ATTEMPTS {
            let handle = self.agreed.registry.open(session).await?;
            // Before everything, so that nothing is folded away under it.
            let cursor = Cursor::new(Seq(0), self.bell.clone());
            if let Some(attached) = self.attach(&handle, &cursor, setup.clone()).await {
                return Ok((handle, cursor, attached?));
            }
        }
        Err(ended())
    }

    /// Tells a session that the client follows it; nothing if the session has ended meanwhile.
    async fn attach(
        &self,
        handle: &Handle,
        cursor: &Arc<Cursor>,
        setup: Setup,
    ) -> Option<Result<Attached, RpcError>> {
        let (reply, attached) = oneshot::channel();
        let (cursor, outbox, version) = (cursor.clone(), self.outbox.clone(), self.agreed.client.version);
        let attach = Message::Attach { cursor, outbox, version, setup, reply };
        handle.tell(attach).await.ok()?;
        attached.await.ok()
    }

    fn view(&self) -> View {
        View::new(&self.agreed.client, terminals(&self.agreed))
    }

    fn follow(&self, attachment: Attachment) {
        // The queue is longer than all the sessions that requests in flight can open.
        let _ = self.outbox.try_send(Outbound::Attach(Box::new(attachment)));
    }
}

fn ended() -> RpcError {
    RpcError::internal("the session ended while it was opened").hint("try again")
}

/// Refuses what the agent does not offer.
fn check(agreed: &Agreed, setup: &Setup) -> Result<(), RpcError> {
    let profile = agreed.profile();
    ask::check_servers(&profile, &setup.servers)?;
    ask::check_system_prompt(&profile, setup)
}

/// Roots that the agent does not take were not offered to the client either.
fn drop_unoffered(agreed: &Agreed, setup: &mut Setup) {
    if !agreed.profile().has("additionalDirectories") {
        setup.roots.clear();
    }
}

fn terminals(agreed: &Agreed) -> Terminals {
    match (agreed.client.version, agreed.profile().version) {
        (Version::V1, Version::V1) => Terminals::Client,
        (Version::V1, Version::V2) | (Version::V2, _) => Terminals::Agent,
    }
}

/// What the agent keeps of a deleted session is deleted too, where it can; nobody waits for that.
fn delete_natively(agreed: &Agreed, row: SessionRow) {
    if !agreed.profile().has("delete") {
        return;
    }
    let host = agreed.host.clone();
    tokio::spawn(async move {
        let Ok(live) = host.live().await else { return };
        if row.agent != host.identity(&live) {
            return;
        }
        for native in row.natives {
            let _ = live.peer.call("session/delete", &json!({"sessionId": native}).into()).await;
        }
    });
}

/// What a client is told between the replay and everything after it.
fn then(agreed: &Agreed, attached: &Attached, view: &View, replay: &Replay, id: Id) -> Then {
    let answer = answers::opened(&agreed.client, attached.options.as_ref(), attached.commands.as_ref());
    let commands = match agreed.client.version {
        Version::V1 => attached.commands.as_ref().map(crate::edge::v1::commands::to_v1),
        // They are in the answer.
        Version::V2 => None,
    };
    let title = attached.title.as_deref().map(title_update);
    let moment: Vec<_> = [commands, attached.usage.clone(), title].into_iter().flatten().collect();
    // A client that wants no replay is answered before it hears anything; only its state goes before.
    let (mut updates, after_answer) = match replay {
        Replay::Nothing => (Vec::new(), moment),
        Replay::Start | Replay::Message(_) => (moment, Vec::new()),
    };
    if agreed.client.version == Version::V2 {
        updates.push(attached.state.clone());
    }
    let asks =
        attached.questions.iter().map(|open| view.ask(&open.question, open.kind, &open.body)).collect();
    Then { updates, answer: Some((id, answer.json())), after_answer, asks }
}

async fn set_archived(agreed: &Agreed, session: &SessionId, archived: Archived) -> Result<Json, RpcError> {
    let (named, at) = (session.clone(), mint::now());
    let outcome = agreed.registry.journal().call(move |store| store.set_archived(&named, archived, at)).await;
    outcome.map(|()| json!({}).into()).map_err(|e| store_error(&e))
}
