//! A client's request that a session answers.

use rethread_core::{Json, Seq, SessionId};

use super::Outbound;
use super::in_flight::OpenRequest;
use crate::client_id::ClientId;
use crate::edge::Version;
use crate::edge::capabilities::ClientProfile;
use crate::edge::dialect::{ClientDialect, PromptAnswer, StateUpdates};
use crate::edge::v1::Notices;
use crate::edge::v1::side_updates::with_notices;
use crate::wire::{Id, RpcError};

/// A request that a session is to answer, with what the answer depends on.
pub(crate) struct Reply {
    /// The client that waits.
    pub(crate) client: ClientId,
    /// The version that the client speaks.
    pub(crate) version: Version,
    notices: Notices,
    /// Notices for the answer, since the client does not accept them as updates.
    noted: Vec<Json>,
    session: SessionId,
    request: OpenRequest,
}

impl Reply {
    /// A reply to a request of a client about a session.
    #[must_use]
    pub(crate) fn new(
        client: ClientId,
        profile: &ClientProfile,
        request: OpenRequest,
        session: SessionId,
    ) -> Self {
        let (version, notices) = (profile.version, profile.notices());
        Self { client, version, notices, noted: Vec::new(), session, request }
    }

    /// Says whether the answer to a prompt is due at the end of its turn, and not when it was accepted.
    #[must_use]
    pub(crate) fn waits_for_end(&self) -> bool {
        self.dialect().prompt_answer == PromptAnswer::AtTurnEnd
    }

    /// What the client expects.
    #[must_use]
    pub(crate) fn dialect(&self) -> ClientDialect {
        self.version.client_dialect()
    }

    /// A reply of this client to its request 1, which goes nowhere.
    #[cfg(test)]
    pub(crate) fn for_tests(client: ClientId, version: Version) -> Self {
        let bell = std::sync::Arc::<crate::live::Bell>::default();
        let (outbox, _outgoing) = super::queue(bell);
        let slot = outbox.free_slot().expect("room for one");
        let taken = super::InFlight::default().take(Id::number(1), slot, &outbox);
        let Ok(request) = taken else { unreachable!("nothing else is in flight") };
        let session = SessionId("session".to_owned());
        Self { client, version, notices: Notices::AsText, noted: Vec::new(), session, request }
    }

    /// A notice came while the client waits.
    pub(crate) fn note(&mut self, notice: &Json) {
        if self.dialect().states == StateUpdates::NotSent && self.notices == Notices::AsText {
            self.noted.push(notice.clone());
        }
    }

    /// The id of the request.
    #[must_use]
    pub(crate) fn id(&self) -> &Id {
        self.request.id()
    }

    /// Answers once the client has been shown everything up to `after`.
    pub(crate) fn send(self, after: Seq, outcome: Result<Json, RpcError>) {
        let outcome = outcome.map(|answer| with_notices(&answer, &self.noted));
        self.request.answer_behind(Some((self.session, after)), outcome);
    }

    /// Has the client leave the session once it has been shown everything up to `after`.
    pub(crate) fn leave(&self, after: Seq) {
        self.request.hand_over(Outbound::Leave(self.session.clone(), after));
    }

    /// Answers at once.
    pub(crate) fn refuse(self, error: RpcError) {
        self.request.answer(Err(error));
    }

    /// The request, for somebody else to answer.
    #[must_use]
    pub(crate) fn into_request(self) -> OpenRequest {
        self.request
    }
}
