//! Making, resuming, listing and ending sessions for a client.

use rethread_core::{Entry, Json, Seq, SessionId};
use serde_json::json;
use tokio::sync::oneshot;

use super::answers::{self, Open};
use super::in_flight::Worker;
use super::{Agreed, Connection};
use crate::edge::Version;
use crate::edge::call::{self, Replay, Setup};
use crate::edge::view::{Terminals, View, title_update};
use crate::live::Cursor;
use crate::mint;
use crate::outbox::{Attachment, Outbound, Outbox, Reply, Then};
use crate::runner::{Attached, Handle, Message, store_error};
use crate::store::journal::Journal;
use crate::store::{Archived, ArchivedFilter, ListQuery, StoreError};
use crate::wire::{Id, RpcError};

/// How many sessions a page of a list has.
const PAGE: usize = 50;

impl Connection {
    /// Making a session waits for the agent, and nothing else waits for that.
    pub(super) fn create(&self, agreed: Agreed, id: Id, mut setup: Setup) {
        drop_unoffered(&agreed, &mut setup);
        let (outbox, bell, attached) = (self.outbox.clone(), self.bell.clone(), self.attached.clone());
        tokio::spawn(async move {
            let made = async {
                let live = agreed.host.live().await?;
                agreed.registry.create(live, setup.clone()).await
            };
            let (handle, session) = match made.await {
                Ok(made) => made,
                Err(error) => {
                    let _ = outbox.try_send(Outbound::Answer { id, after: None, outcome: Err(error) });
                    return;
                }
            };
            let cursor = Cursor::new(session.head.next(), bell);
            let (reply, asked) = oneshot::channel();
            let attach = Message::Attach { cursor: cursor.clone(), outbox: outbox.clone(), setup, reply };
            let told = handle.tell(attach).await;
            if told.is_err() || asked.await.is_err() {
                let error = RpcError::internal("the session ended while it was made");
                let _ = outbox.try_send(Outbound::Answer { id, after: None, outcome: Err(error) });
                return;
            }
            attached.add(handle.id.clone());
            let mut view = View::new(&agreed.client, terminals(&agreed));
            view.mode_is(session.options.as_ref());
            let mut answer =
                answers::opened(&agreed.client, session.options.as_ref(), session.commands.as_ref());
            answer.set("sessionId", Json::of(&handle.id));
            let then = Then { answer: Some((id, answer.json())), ..Then::default() };
            let past = session.head;
            follow(&outbox, Attachment { session: handle.id, live: handle.live, cursor, past, view, then });
        });
    }

    /// Served from the journal: it does not wait for the agent.
    pub(super) async fn resume(
        &mut self,
        agreed: Agreed,
        id: Id,
        session: SessionId,
        mut setup: Setup,
        replay: Replay,
    ) {
        drop_unoffered(&agreed, &mut setup);
        match self.attach(&agreed, &session, setup, &replay).await {
            Ok((handle, cursor, attached)) => {
                let mut view = View::new(&agreed.client, terminals(&agreed));
                view.mode_is(attached.options.as_ref());
                let then = then(&agreed, &attached, &view, &replay, id);
                let past = attached.head;
                self.attached.add(session.clone());
                follow(&self.outbox, Attachment { session, live: handle.live, cursor, past, view, then });
            }
            Err(error) => self.answer(id, Err(error)),
        }
    }

    async fn attach(
        &self,
        agreed: &Agreed,
        session: &SessionId,
        setup: Setup,
        replay: &Replay,
    ) -> Result<(Handle, std::sync::Arc<Cursor>, Attached), RpcError> {
        crate::edge::link::ask::check_servers(&agreed.profile, &setup.servers)?;
        crate::edge::link::ask::check_system_prompt(&agreed.profile, &setup)?;
        let handle = agreed.registry.open(session).await?;
        // Before everything, so that nothing is folded away under it.
        let cursor = Cursor::new(Seq(0), self.bell.clone());
        let (reply, attached) = oneshot::channel();
        let ended = || RpcError::internal("the session ended while it was opened").hint("try again");
        let outbox = self.outbox.clone();
        let attach = Message::Attach { cursor: cursor.clone(), outbox, setup, reply };
        handle.tell(attach).await.map_err(|_| ended())?;
        let attached = attached.await.map_err(|_| ended())??;
        match replay {
            Replay::Start => {}
            Replay::Nothing => cursor.advance(attached.head.next()),
            Replay::Message(message) => {
                let journal = agreed.registry.journal();
                let found = find_message(journal, session, message).await.map_err(|e| store_error(&e))?;
                let Some(at) = found else {
                    return Err(RpcError::field(
                        "replayFrom.messageId",
                        &json!(message),
                        "the id of a message of this session",
                    ));
                };
                cursor.advance(at);
            }
        }
        Ok((handle, cursor, attached))
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
        if let Some(row) = row.filter(|row| row.agent == agreed.host.name()) {
            delete_natively(&agreed, row.natives);
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
            let reply = Reply::new(agreed.client.version, id, session, self.outbox.clone());
            let _ = handle.tell(Message::SetTitle(title, reply)).await;
            return;
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
        let _ = self.outbox.try_send(Outbound::Answer { id, after, outcome });
    }
}

fn follow(outbox: &Outbox, attachment: Attachment) {
    // The queue is longer than all the sessions that requests in flight can open.
    let _ = outbox.try_send(Outbound::Attach(Box::new(attachment)));
}

/// Roots and system prompts that the agent does not offer were not offered to the client either.
fn drop_unoffered(agreed: &Agreed, setup: &mut Setup) {
    if !agreed.profile.has("additionalDirectories") {
        setup.roots.clear();
    }
    if !agreed.profile.has("systemPrompt") {
        setup.system_prompt = None;
    }
}

fn terminals(agreed: &Agreed) -> Terminals {
    match (agreed.client.version, agreed.profile.version) {
        (Version::V1, Version::V1) => Terminals::Client,
        (Version::V1, Version::V2) | (Version::V2, _) => Terminals::Agent,
    }
}

/// What the agent keeps of a deleted session is deleted too, where it can; nobody waits for that.
fn delete_natively(agreed: &Agreed, natives: Vec<String>) {
    if !agreed.profile.has("delete") {
        return;
    }
    let host = agreed.host.clone();
    tokio::spawn(async move {
        let Ok(live) = host.live().await else { return };
        for native in natives {
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

fn is_of_message(entry: &Entry, message: &str) -> bool {
    let prompt = matches!(entry, Entry::PromptInserted { message: id, .. } if id.as_str() == message);
    let said = matches!(entry, Entry::Updated { update, .. }
        if update.kind.id_field() == Some("messageId") && update.id == message);
    prompt || said
}

/// Where a message of a session begins.
async fn find_message(
    journal: &Journal,
    session: &SessionId,
    message: &str,
) -> Result<Option<Seq>, StoreError> {
    const PAGE: usize = 1024 * 1024;
    let mut from = Seq(0);
    loop {
        let page = journal.read(session.clone(), from, PAGE).await?;
        let found = page.items.iter().find(|item| is_of_message(&item.entry, message));
        if let Some(item) = found {
            return Ok(Some(item.first));
        }
        if page.end {
            return Ok(None);
        }
        from = page.next;
    }
}
