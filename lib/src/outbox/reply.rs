//! A request that a session answers.

use rethread_core::{Json, Seq, SessionId};

use super::in_flight::OpenRequest;
use crate::edge::Version;
use crate::edge::capabilities::ClientProfile;
use crate::edge::v1::Notices;
use crate::edge::v1::aside::with_notices;
use crate::wire::{Id, RpcError};

/// A request that a session is to answer, with what the answer depends on.
pub(crate) struct Reply {
    /// The version that the client speaks.
    pub(crate) version: Version,
    notices: Notices,
    /// What is told with the answer, since the client does not take it as an update.
    noted: Vec<Json>,
    session: SessionId,
    request: OpenRequest,
}

impl Reply {
    /// A reply to a request of a client about a session.
    #[must_use]
    pub(crate) fn new(client: &ClientProfile, request: OpenRequest, session: SessionId) -> Self {
        let (version, notices) = (client.version, client.notices());
        Self { version, notices, noted: Vec::new(), session, request }
    }

    /// A notice came while the client waits.
    pub(crate) fn note(&mut self, notice: &Json) {
        if self.version == Version::V1 && self.notices == Notices::AsText {
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
