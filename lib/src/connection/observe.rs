//! Lets an observer follow a session: nothing is opened, claimed or set up for it. What a full client does with
//! `session/load` and `session/resume` is in `attach`.

use std::pin::Pin;
use std::sync::Arc;

use rethread_core::{Seq, SessionId};

use super::attach::{Attacher, Opened};
use super::{ClientContext, Connection};
use crate::agent::host::{AgentSource, Starting};
use crate::edge::capabilities::AgentProfile;
use crate::edge::client_request::{ReplayFrom, UpdateDelivery};
use crate::edge::view::View;
use crate::live::Cursor;
use crate::live_session::RunningTurn;
use crate::outbox::{Attachment, Observing, OpenRequest};
use crate::secret::{RedactedEntries, Redaction, SecretFinder};
use crate::wire::{RpcError, code};

/// The agent of those who have none here: none is ever started for observers and for clients that another host carries.
pub(crate) struct NoAgent;

impl AgentSource for NoAgent {
    fn start(&self) -> Starting<'_> {
        let error = RpcError::new(code::NOT_ALLOWED, "no agent is started for this client");
        Box::pin(async move { Err(error) }) as Pin<Box<_>>
    }

    fn name(&self) -> String {
        "none".to_owned()
    }
}

/// What an observer is told of an agent that was never started.
pub(super) fn unknown_agent() -> Arc<AgentProfile> {
    let answer = serde_json::json!({
        "protocolVersion": 2, "info": {"name": "rethread", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": {"session": {}},
    });
    Arc::new(AgentProfile::read(&answer.into()).expect("the answer is one of version 2"))
}

impl Connection {
    pub(super) async fn observe(
        &mut self,
        context: ClientContext,
        request: OpenRequest,
        session: SessionId,
        updates: UpdateDelivery,
        replay: ReplayFrom,
    ) {
        let attacher = self.attacher(&context);
        let opened = attacher.observe(session, updates, replay).await;
        attacher.finish(request, opened);
    }
}

impl Attacher {
    async fn observe(
        &self,
        session: SessionId,
        updates: UpdateDelivery,
        replay: ReplayFrom,
    ) -> Result<Opened, RpcError> {
        let row = self.context.registry.row(&session).await?;
        if row.head == Seq(0) {
            let hint = "only its agent has this session so far; a full client has to load it first";
            return Err(RpcError::unknown_session(session.as_str()).hint(hint));
        }
        let replay = if updates == UpdateDelivery::Withheld { ReplayFrom::Nothing } else { replay };
        self.check_replay(&session, &replay).await?;
        let cursor = Cursor::new(session.clone(), Seq(0), self.bell.clone());
        let (client, registry) = (self.context.tag.id, &self.context.registry);
        let (tail, mut attached) = registry.observe(&session, client, &cursor).await?;
        self.set_cursor(&session, &cursor, &replay, attached.head).await?;
        let redactor = match self.context.access.redaction() {
            Redaction::Off => None,
            Redaction::Secrets => {
                attached.redact(&mut SecretFinder::default());
                Some(RedactedEntries::default())
            }
        };
        let mut view = View::observer(&self.context.client);
        view.set_mode(attached.options.as_ref());
        attached.senders.iter().for_each(|(message, sender)| view.sent_by(message.clone(), sender.json()));
        if attached.turn == RunningTurn::OfOthers {
            view.in_turn_of_others();
        }
        let live = tail.current();
        let (then, answer) = self.then(&attached, &view, &replay);
        let (past, view, observing) = (attached.head, Some(view), Some(Observing { tail, redactor }));
        let attachment = Attachment { session, live, cursor, past, view, then, updates, observing };
        Ok(Opened { attachment, answer })
    }
}
