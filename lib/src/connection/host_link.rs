//! A client's connection to one other host, as the host sees it that carries the client: requests go out under numbers of this
//! connection, and answers come back to whoever waits for them.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use rethread_core::{Json, SessionId};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::ClientContext;
use super::attach::Attacher;
use crate::edge::client_request::Setup;
use crate::lock::locked;
use crate::outbox::{OpenRequest, Worker};
use crate::store::HostContact;
use crate::wire::{Id, Out, RpcError};

/// A request of the client about a session that another host has open.
pub(super) struct CarriedCall {
    pub(super) request: OpenRequest,
    pub(super) session: SessionId,
    pub(super) method: String,
    pub(super) params: Json,
    pub(super) effect: CallEffect,
    pub(super) context: ClientContext,
    /// How often the other host has said that it does not have the session, or takes no new work.
    pub(super) tries: usize,
}

/// What follows from the answer to a carried request.
pub(super) enum CallEffect {
    /// Nothing.
    Nothing,
    /// The client follows the session there.
    Attach(OpenedWith),
    /// The client follows the new session there.
    Fork(OpenedWith),
    /// The client follows the session no longer.
    Leave,
}

/// What a session was opened with, to open it again.
#[derive(Clone)]
pub(super) struct OpenedWith {
    pub(super) attacher: Attacher,
    pub(super) params: Json,
    pub(super) setup: Setup,
}

/// Who waits for an answer of the other host.
pub(super) enum HostCall {
    /// The client.
    Client(Box<CarriedCall>),
    /// This host.
    Own(oneshot::Sender<Result<Json, RpcError>>),
}

/// The connection is lost.
#[derive(Debug)]
pub(super) struct LinkLost;

/// A connection to another host.
pub(super) struct HostLink {
    /// Tells the links of a client apart.
    pub(super) id: u64,
    pub(super) contact: HostContact,
    /// Nothing once the connection is lost.
    open: Mutex<Option<HostCalls>>,
}

struct HostCalls {
    outgoing: mpsc::Sender<Bytes>,
    last: u64,
    calls: HashMap<u64, HostCall>,
}

impl HostLink {
    pub(super) fn new(id: u64, contact: HostContact, outgoing: mpsc::Sender<Bytes>) -> Self {
        let open = HostCalls { outgoing, last: 0, calls: HashMap::new() };
        Self { id, contact, open: Mutex::new(Some(open)) }
    }

    /// Passes a request of the client on. Gives it back if the connection is lost; then nothing was sent.
    pub(super) fn forward(&self, call: CarriedCall) -> Result<(), Box<CarriedCall>> {
        let (method, params) = (call.method.clone(), call.params.clone());
        let mut open = locked(&self.open);
        let Some(calls) = open.as_mut() else { return Err(Box::new(call)) };
        calls.last += 1;
        let number = calls.last;
        call.request.assign(Worker::OtherHost { link: self.id, number });
        let mut out = Out::default();
        out.request(&Id::number(number), &method, &params);
        match calls.send(out) {
            Ok(()) => {
                calls.calls.insert(number, HostCall::Client(Box::new(call)));
                Ok(())
            }
            Err(LinkLost) => Err(Box::new(call)),
        }
    }

    /// Sends a request of this host's own, and waits for its answer.
    pub(super) async fn call(&self, method: &str, params: &Json) -> Result<Json, RpcError> {
        let (waiting, answer) = oneshot::channel();
        let sent = {
            let mut open = locked(&self.open);
            open.as_mut().ok_or(LinkLost).and_then(|calls| {
                calls.last += 1;
                let mut out = Out::default();
                out.request(&Id::number(calls.last), method, params);
                calls.send(out)?;
                calls.calls.insert(calls.last, HostCall::Own(waiting));
                Ok(())
            })
        };
        match sent {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(self.lost_error())),
            Err(LinkLost) => Err(self.lost_error()),
        }
    }

    pub(super) fn notify(&self, method: &str, params: &Json) {
        let mut out = Out::default();
        out.notification(method, params);
        self.say(out);
    }

    /// Takes back a request under its number here.
    pub(super) fn cancel(&self, number: u64) {
        self.notify("$/cancel_request", &json!({"requestId": number}).into());
    }

    /// Passes the client's answer to a request of the other host on.
    pub(super) fn respond(&self, id: &Id, outcome: &Result<Json, RpcError>) {
        let mut out = Out::default();
        match outcome {
            Ok(result) => out.result(id, result),
            Err(error) => out.error(id, error),
        }
        self.say(out);
    }

    /// The request that was answered, if it is open.
    pub(super) fn answered(&self, id: &Id) -> Option<HostCall> {
        locked(&self.open).as_mut()?.calls.remove(&id.as_number()?)
    }

    /// Takes nothing more, and gives what was not answered.
    pub(super) fn lose(&self) -> Vec<HostCall> {
        let open = locked(&self.open).take();
        open.map(|open| open.calls.into_values().collect()).unwrap_or_default()
    }

    /// The error for a request whose answer will not come.
    pub(super) fn lost_error(&self) -> RpcError {
        let message = format!("the connection to the host at {} was lost", self.contact.address);
        RpcError::internal(message)
            .with("host", self.contact.address.clone())
            .hint("what was done there is in the session; look before you send this again")
    }

    /// What a lost host is not told is of no use to it.
    fn say(&self, out: Out) {
        if let Some(calls) = locked(&self.open).as_ref() {
            let _ = calls.send(out);
        }
    }
}

impl HostCalls {
    /// A host that does not take what it is sent is as good as gone.
    fn send(&self, mut out: Out) -> Result<(), LinkLost> {
        let mut line = out.take();
        line.pop();
        self.outgoing.try_send(line.into()).map_err(|_| LinkLost)
    }
}
