//! Decides which messages of a client go to another host: those about a session that another host has open.

use rethread_core::{Json, SessionId};
use serde_json::value::RawValue;

use super::carrier::{HeldLine, Place};
use super::host_link::{CallEffect, CarriedCall, OpenedWith};
use super::{ClientContext, ClientRole, Connection, ReachedBy};
use crate::edge::client_request::{ClientRequest, SessionRequest, Setup};
use crate::outbox::OpenRequest;

/// What a request needs of the host that owns its session.
enum OwnerNeed<'a> {
    /// That the client follows the session there.
    Following,
    /// The same, which ends.
    Leaving,
    /// Only that the session is open there.
    Open,
    /// The same, and the client follows it no longer.
    Ending,
    /// To follow it there.
    Attach(&'a Setup),
    /// To follow a new session there.
    Fork(&'a Setup),
}

impl Connection {
    /// Passes a request on to the host that owns its session. Gives it back if this host deals with it.
    pub(super) async fn pass_on(
        &mut self,
        context: &ClientContext,
        request: OpenRequest,
        call: &ClientRequest,
        method: &str,
        params: Option<&RawValue>,
    ) -> Option<OpenRequest> {
        if !self.carrier.has_hosts() || context.reached_by == ReachedBy::OtherHost {
            return Some(request);
        }
        let Some((session, need)) = owner_need(context, call) else { return Some(request) };
        let json =
            || params.map_or_else(|| Json::of(&rethread_core::Fields::new()), |raw| raw.to_owned().into());
        let link = match self.carrier.place(&session) {
            Place::Moving => {
                let line = HeldLine::Request { request, method: method.to_owned(), params: json() };
                self.carrier.hold(&session, line);
                return None;
            }
            Place::At(link) => Some(link),
            Place::NotCarried => None,
        };
        if link.is_none() {
            let asks_owner = !matches!(need, OwnerNeed::Following | OwnerNeed::Leaving);
            if !asks_owner || context.registry.find(&session).is_some() {
                return Some(request);
            }
            match self.carrier.owner(&session).await {
                Ok(Some(_)) => {}
                // An error of the store is one here as well.
                Ok(None) | Err(_) => return Some(request),
            }
        }
        let params = json();
        let opening = |setup: &Setup| OpenedWith {
            attacher: self.attacher(context),
            params: params.clone(),
            setup: setup.clone(),
        };
        let effect = match need {
            OwnerNeed::Following | OwnerNeed::Open => CallEffect::Nothing,
            OwnerNeed::Leaving | OwnerNeed::Ending => CallEffect::Leave,
            OwnerNeed::Attach(setup) => CallEffect::Attach(opening(setup)),
            OwnerNeed::Fork(setup) => CallEffect::Fork(opening(setup)),
        };
        let (method, context) = (method.to_owned(), context.clone());
        let call = CarriedCall { request, session, method, params, effect, context, tries: 0 };
        match link {
            Some(link) => self.carrier.forward(&link, call),
            None => self.carrier.begin(call),
        }
        None
    }

    /// Passes a notification on to the host that owns its session. Says whether it did.
    pub(super) fn pass_notification(&self, session: &SessionId, method: &str, params: &Json) -> PassedOn {
        match self.carrier.place(session) {
            Place::NotCarried => PassedOn::No,
            Place::At(link) => {
                link.notify(method, params);
                PassedOn::Yes
            }
            Place::Moving => {
                let line = HeldLine::Notification { method: method.to_owned(), params: params.clone() };
                self.carrier.hold(session, line);
                PassedOn::Yes
            }
        }
    }

    /// Dispatches what waited for a session.
    pub(super) async fn say_again(&mut self, lines: Vec<HeldLine>) {
        for line in lines {
            match line {
                HeldLine::Request { request, method, params } => {
                    self.request(request, &method, Some(params.raw())).await;
                }
                HeldLine::Notification { method, params } => {
                    self.notification(&method, Some(params.raw())).await;
                }
            }
        }
    }
}

/// Whether another host deals with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassedOn {
    Yes,
    No,
}

/// The session of a request, and what it needs; nothing if any host can deal with it.
fn owner_need<'a>(context: &ClientContext, call: &'a ClientRequest) -> Option<(SessionId, OwnerNeed<'a>)> {
    let (session, need) = match call {
        // An observer is shown what is stored, by any host.
        ClientRequest::Resume { .. } if context.access.role() == ClientRole::Observer => return None,
        ClientRequest::Resume { session, setup, .. } => (session.clone(), OwnerNeed::Attach(setup)),
        ClientRequest::Fork { session, setup, .. } => (session.clone(), OwnerNeed::Fork(setup)),
        ClientRequest::Session { session, call } => (session.clone(), session_need(call)),
        ClientRequest::Clients(session) => (session.clone()?, OwnerNeed::Open),
        ClientRequest::Relay { params, .. } => (params.fields().text("sessionId")?, OwnerNeed::Following),
        ClientRequest::New(_)
        | ClientRequest::List { .. }
        | ClientRequest::Search(_)
        | ClientRequest::Subscribe(_)
        | ClientRequest::Unsubscribe(_)
        | ClientRequest::BatchGet(_)
        | ClientRequest::Reading(_) => return None,
    };
    Some((SessionId(session), need))
}

fn session_need(call: &SessionRequest) -> OwnerNeed<'static> {
    match call {
        SessionRequest::Prompt { .. }
        | SessionRequest::SetOption { .. }
        | SessionRequest::CancelToolCall(_)
        | SessionRequest::CancelTerminal(_) => OwnerNeed::Following,
        SessionRequest::Close => OwnerNeed::Leaving,
        SessionRequest::Delete | SessionRequest::Archive => OwnerNeed::Ending,
        SessionRequest::SetTitle(_) | SessionRequest::Unarchive | SessionRequest::Status => OwnerNeed::Open,
    }
}
