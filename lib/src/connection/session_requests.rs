//! Handles the requests of a client about sessions: new, fork, load, resume, close, delete, archive, status, title.

use rethread_core::{Json, Seq, SessionId, clean_title};
use serde_json::json;
use tokio::sync::oneshot;

use super::answers::{self, SomewhereOpen};
use super::attach::{Attacher, check};
use super::{ClientContext, ClientRole, Connection, ReachedBy};
use crate::agent::pool::SharedHost;
use crate::clock;
use crate::edge::client_request::{ReplayFrom, Setup};
use crate::edge::dialect::UnknownClose;
use crate::live_session::{Handle, Message, SessionEnded, store_error};
use crate::outbox::{OpenRequest, Worker};
use crate::secret::{Redaction, SecretFinder, redacted_json};
use crate::store::{Archived, SessionRow, StoreError};
use crate::wire::RpcError;

impl Connection {
    /// Making a session waits for the agent, and nothing else waits for that. The client may take it back meanwhile.
    pub(super) fn create(&self, context: ClientContext, request: OpenRequest, mut setup: Setup) {
        drop_unoffered(&context, &mut setup);
        let attacher = self.attacher(&context);
        tokio::spawn(async move {
            let made = async {
                let live = context.host.live().await?;
                let mut open = None;
                let asked = |number| {
                    request.assign(Worker::Agent(number));
                    open = Some(context.host.clients().call(number, context.tag.id));
                };
                let made = context.registry.create(&context.host, live, setup.clone(), asked).await;
                drop(open);
                let (handle, session) = made?;
                attacher.begin(handle, session, setup).await
            };
            let made = made.await;
            attacher.finish(request, made);
        });
    }

    /// A fork is made in the store and is live at once; its agent comes up behind it.
    pub(super) async fn fork(
        &mut self,
        context: ClientContext,
        request: OpenRequest,
        parent: SessionId,
        mut setup: Setup,
        at: Option<String>,
    ) {
        drop_unoffered(&context, &mut setup);
        let attacher = self.attacher(&context);
        let made = async {
            check(&context, &setup)?;
            let host = fork_host(&context, &parent).await?;
            let (handle, session) =
                context.registry.fork(&host, &parent, at.as_deref(), setup.clone()).await?;
            attacher.begin(handle, session, setup).await
        };
        let made = made.await;
        attacher.finish(request, made);
    }

    /// Served from the journal: it does not wait for the agent, unless only the agent has the session.
    pub(super) async fn resume(
        &mut self,
        context: ClientContext,
        request: OpenRequest,
        session: SessionId,
        mut setup: Setup,
        replay: ReplayFrom,
    ) {
        drop_unoffered(&context, &mut setup);
        let attacher = self.attacher(&context);
        if let Err(error) = check(&context, &setup) {
            return request.answer(Err(error));
        }
        if let Err(error) = attacher.check_replay(&session, &replay).await {
            return request.answer(Err(error));
        }
        let opened = match context.reached_by {
            ReachedBy::Client => context.registry.open_kept(&session, &context.host).await,
            ReachedBy::OtherHost => {
                context.registry.find(&session).map(Some).ok_or_else(|| RpcError::not_here(session.as_str()))
            }
        };
        match opened {
            Ok(Some(handle)) => {
                let opened = attacher.resume(session, setup, replay).await;
                if opened.is_err() {
                    not_attached(&handle).await;
                }
                attacher.finish(request, opened);
            }
            Ok(None) => {
                tokio::spawn(async move {
                    let adopted = async {
                        check(&context, &setup)?;
                        let live = context.host.live().await?;
                        let adopted =
                            context.registry.adopt(&context.host, live, &session, setup.clone()).await?;
                        let opened = attacher.resume(session, setup, replay).await;
                        if opened.is_err() {
                            not_attached(&adopted).await;
                        }
                        opened
                    };
                    let opened = adopted.await;
                    attacher.finish(request, opened);
                });
            }
            Err(error) => request.answer(Err(error)),
        }
    }

    pub(super) fn attacher(&self, context: &ClientContext) -> Attacher {
        // What an observer follows is kept apart: it does not take part in it.
        let attached = match context.access.role() {
            ClientRole::Full => &self.attached,
            ClientRole::Observer => &self.observing,
        };
        Attacher {
            context: context.clone(),
            outbox: self.outbox.clone(),
            bell: self.bell.clone(),
            attached: attached.clone(),
            directory: self.deps.directory.clone(),
        }
    }

    pub(super) async fn close(&mut self, context: ClientContext, request: OpenRequest, session: SessionId) {
        let following = self.attached.remove(&session);
        if following {
            self.deps.directory.session_changed(&session);
        }
        let handle = if following { context.registry.find(&session) } else { None };
        let Some(handle) = handle else {
            // Nothing to close is closed; only a session that never was is an error, and only in version 1.
            let outcome = match (
                context.client.version.client_dialect().unknown_close,
                context.registry.row(&session).await,
            ) {
                (UnknownClose::Refused, Err(error)) => Err(error),
                (UnknownClose::Refused, Ok(_)) | (UnknownClose::Accepted, _) => Ok(json!({}).into()),
            };
            return request.answer(outcome);
        };
        request.assign(Worker::Session(session.clone()));
        let reply = context.reply(request, &session);
        if let Err(SessionEnded(Some(reply))) = handle.send(Message::Close(reply)).await {
            reply.into_request().answer(Ok(json!({}).into()));
        }
    }

    pub(super) async fn delete(&mut self, context: ClientContext, request: OpenRequest, session: SessionId) {
        let after = self.end_session(&context, &session, "the session was deleted").await;
        let row = context.registry.row(&session).await.ok();
        let outcome = context.registry.store().delete(&session, clock::now()).await;
        if let Some(row) = row {
            delete_natively(&context, row);
        }
        let outcome = match outcome {
            // What is not there is deleted.
            Ok(()) | Err(StoreError::Unknown(_)) => Ok(json!({}).into()),
            Err(error) => Err(store_error(&error)),
        };
        request.answer_behind(after.map(|seq| (session, seq)), outcome);
    }

    pub(super) async fn archive(&mut self, context: ClientContext, request: OpenRequest, session: SessionId) {
        if let Err(error) = context.registry.row(&session).await {
            return request.answer(Err(error));
        }
        let after = self.end_session(&context, &session, "the session was archived").await;
        let outcome = set_archived(&context, &session, Archived::Yes).await;
        request.answer_behind(after.map(|seq| (session, seq)), outcome);
    }

    pub(super) async fn unarchive(
        &mut self,
        context: ClientContext,
        request: OpenRequest,
        session: SessionId,
    ) {
        let outcome = match context.registry.row(&session).await {
            Ok(_) => set_archived(&context, &session, Archived::No).await,
            Err(error) => Err(error),
        };
        request.answer(outcome);
    }

    pub(super) async fn status(&self, context: ClientContext, request: OpenRequest, session: SessionId) {
        let row = match context.registry.row(&session).await {
            Ok(row) => row,
            Err(error) => return request.answer(Err(error)),
        };
        let handle = context.registry.find(&session);
        let open =
            if handle.is_some() || row.owner.is_some() { SomewhereOpen::Yes } else { SomewhereOpen::No };
        let state = match handle {
            Some(handle) => {
                let (reply, state) = oneshot::channel();
                let _ = handle.send(Message::Status(reply)).await;
                match state.await {
                    Ok(Ok(state)) => Some(state),
                    Ok(Err(error)) => return request.answer(Err(error)),
                    Err(_) => None,
                }
            }
            None => None,
        };
        let answer = answers::status(context.client.version.client_dialect(), state.as_ref(), open);
        request.answer(Ok(match context.access.redaction() {
            Redaction::Off => answer,
            Redaction::Secrets => redacted_json(&answer, &mut SecretFinder::default()),
        }));
    }

    pub(super) async fn set_title(
        &mut self,
        context: ClientContext,
        mut request: OpenRequest,
        session: SessionId,
        title: String,
    ) {
        if let Some(handle) = context.registry.find(&session) {
            let reply = context.reply(request, &session);
            let Err(SessionEnded(Some(reply))) = handle.send(Message::SetTitle(title.clone(), reply)).await
            else {
                return;
            };
            request = reply.into_request();
        }
        let stored = clean_title(&title);
        if stored.is_empty() {
            let error = RpcError::field("title", &json!(title), "a title with visible characters");
            return request.answer(Err(error));
        }
        if let Err(error) = context.registry.row(&session).await {
            return request.answer(Err(error));
        }
        let outcome = context.registry.store().set_title(&session, &stored).await;
        request.answer(outcome.map(|()| json!({"title": stored}).into()).map_err(|e| store_error(&e)));
    }

    /// Ends a session here, its turn cancelled, and lets the client see the end of it.
    async fn end_session(
        &mut self,
        context: &ClientContext,
        session: &SessionId,
        reason: &str,
    ) -> Option<Seq> {
        self.attached.remove(session);
        if let Some(handle) = context.registry.find(session) {
            let _ = handle.send(Message::Cancel).await;
        }
        context.registry.end(session, reason, Some(context.tag.clone())).await
    }
}

/// A session that was opened for a client which does not follow it need not stay open.
async fn not_attached(handle: &Handle) {
    let _ = handle.send(Message::NotFollowed).await;
}

/// The agent of a fork: that of the client, or of the parent if another host carries the client here.
async fn fork_host(context: &ClientContext, parent: &SessionId) -> Result<SharedHost, RpcError> {
    match context.reached_by {
        ReachedBy::Client => Ok(context.host.clone()),
        ReachedBy::OtherHost => {
            let not_here = || RpcError::not_here(parent.as_str());
            let handle = context.registry.find(parent).ok_or_else(not_here)?;
            handle.agent_host().await.ok_or_else(not_here)
        }
    }
}

/// Roots that the agent does not take were not offered to the client either.
fn drop_unoffered(context: &ClientContext, setup: &mut Setup) {
    if !context.profile().has("additionalDirectories") {
        setup.roots.clear();
    }
}

/// What the agent keeps of a deleted session is deleted too, where it can; nobody waits for that.
fn delete_natively(context: &ClientContext, row: SessionRow) {
    if !context.profile().has("delete") {
        return;
    }
    let host = context.host.clone();
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

async fn set_archived(
    context: &ClientContext,
    session: &SessionId,
    archived: Archived,
) -> Result<Json, RpcError> {
    let outcome = context.registry.store().set_archived(session, archived, clock::now()).await;
    outcome.map(|()| json!({}).into()).map_err(|e| store_error(&e))
}
