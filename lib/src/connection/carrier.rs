//! Carries a client to the hosts that own its sessions: connects to them, passes messages on in both directions, and when a
//! host is lost takes the client's sessions over or carries it to their next owner, from where it had been shown them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rethread_core::{Json, Seq, SessionId};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::host_link::{CallEffect, CarriedCall, HostCall, HostLink, OpenedWith};
use super::marks::{LeftFor, Mark};
use super::other_hosts::{CarriedClient, HostConnector, HostLinkError};
use super::sent_requests::{SentRequest, SentRequests};
use super::{ClientContext, TransportName};
use crate::edge::client_request::ReplayFrom;
use crate::live_session::store_error;
use crate::lock::locked;
use crate::outbox::{CANCEL_REQUEST, OpenRequest, Outbound, Outbox, cancelled};
use crate::store::{HostContact, OwnedHere, Store};
use crate::wire::{Id, Out, RpcError, RpcMessage, code, parse};

/// How long a host that should be there is tried: its lease is over by then, if it is gone.
const REACH_LIMIT: Duration = Duration::from_secs(20);
/// How long a session is tried to be opened elsewhere when its host was lost.
const MOVE_LIMIT: Duration = Duration::from_secs(120);
/// How long to wait before the next attempt.
const PAUSE: Duration = Duration::from_millis(300);
/// How often a host may say that it does not have a session which the store says it has.
const MAX_TRIES: usize = 40;
/// How many messages of other hosts may wait for the client.
const WAITING: usize = 256;
/// How many requests a client may have wait for a session that is looked for.
const MAX_HELD: usize = 256;

/// What the client said about a session while it is looked for.
pub(super) enum HeldLine {
    Request { request: OpenRequest, method: String, params: Json },
    Notification { method: String, params: Json },
}

/// Where a session is for this client, apart from this host.
pub(super) enum Place {
    /// Not elsewhere.
    NotCarried,
    /// It is looked for.
    Moving,
    /// Another host has it.
    At(Arc<HostLink>),
}

enum SessionPlace {
    Moving(Vec<HeldLine>),
    At(Box<CarriedSession>),
}

struct CarriedSession {
    link: Arc<HostLink>,
    opening: OpenedWith,
    attach: AttachState,
    /// The last entry that the client has been shown.
    shown: Seq,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AttachState {
    Asked,
    Done,
}

/// What carries one client.
pub(super) struct Carrier {
    hosts: Arc<OnceLock<Arc<dyn HostConnector>>>,
    transport: TransportName,
    store: Arc<dyn Store>,
    outbox: Outbox,
    asked: SentRequests,
    /// Lines that are to be dispatched now.
    released: mpsc::Sender<Vec<HeldLine>>,
    room: Arc<Semaphore>,
    /// One connection is made at a time, so that there is one for each host.
    linking: tokio::sync::Mutex<()>,
    state: Mutex<CarrierState>,
}

#[derive(Default)]
struct CarrierState {
    sessions: HashMap<SessionId, SessionPlace>,
    links: HashMap<HostContact, Arc<HostLink>>,
    last_link: u64,
    tasks: JoinSet<()>,
    ended: bool,
}

impl Carrier {
    pub(super) fn new(
        hosts: Arc<OnceLock<Arc<dyn HostConnector>>>,
        transport: TransportName,
        store: Arc<dyn Store>,
        outbox: Outbox,
        asked: SentRequests,
        released: mpsc::Sender<Vec<HeldLine>>,
    ) -> Self {
        let (room, linking) = (Arc::new(Semaphore::new(WAITING)), tokio::sync::Mutex::default());
        Self { hosts, transport, store, outbox, asked, released, room, linking, state: Mutex::default() }
    }

    /// Says whether there can be other hosts.
    pub(super) fn has_hosts(&self) -> bool {
        self.hosts.get().is_some()
    }

    /// Where a session is.
    pub(super) fn place(&self, session: &SessionId) -> Place {
        match locked(&self.state).sessions.get(session) {
            None => Place::NotCarried,
            Some(SessionPlace::Moving(_)) => Place::Moving,
            Some(SessionPlace::At(carried)) => Place::At(carried.link.clone()),
        }
    }

    /// Has something wait until a session that is looked for is found.
    pub(super) fn hold(&self, session: &SessionId, line: HeldLine) {
        let refused = match locked(&self.state).sessions.get_mut(session) {
            Some(SessionPlace::Moving(held)) if held.len() < MAX_HELD => {
                held.push(line);
                None
            }
            Some(_) | None => Some(line),
        };
        if let Some(HeldLine::Request { request, .. }) = refused {
            request.answer(Err(
                RpcError::internal("the session is being moved to another host").hint("try again")
            ));
        }
    }

    /// The connection with this id.
    pub(super) fn link_by_id(&self, id: u64) -> Option<Arc<HostLink>> {
        locked(&self.state).links.values().find(|link| link.id == id).cloned()
    }

    /// Ends all connections; what is open is answered with an error.
    pub(super) fn close(&self) {
        let mut state = locked(&self.state);
        let state = std::mem::replace(&mut *state, CarrierState { ended: true, ..CarrierState::default() });
        state.links.values().for_each(|link| drop(link.lose()));
    }

    /// The host that owns a session, if it is another one that can be reached.
    pub(super) async fn owner(&self, session: &SessionId) -> Result<Option<HostContact>, RpcError> {
        let row = self.store.find(session).await.map_err(|error| store_error(&error))?;
        let owner = row.and_then(|row| row.owner).filter(|owner| owner.ours == OwnedHere::No);
        Ok(owner.and_then(|owner| owner.contact))
    }

    /// Carries a request to the host that owns its session, wherever that is. If nobody does, it is dispatched here.
    pub(super) fn begin(self: &Arc<Self>, call: CarriedCall) {
        if let CallEffect::Attach(_) = &call.effect {
            let mut state = locked(&self.state);
            state.sessions.entry(call.session.clone()).or_insert_with(|| SessionPlace::Moving(Vec::new()));
        }
        self.spawn(self.clone().carry(call));
    }

    /// Passes a request on to the host that has the session for this client.
    pub(super) fn forward(self: &Arc<Self>, link: &HostLink, call: CarriedCall) {
        if let Err(call) = link.forward(call) {
            self.begin(*call);
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = locked(&self.state);
        while state.tasks.try_join_next().is_some() {}
        if !state.ended {
            state.tasks.spawn(task);
        }
    }

    async fn carry(self: Arc<Self>, mut call: CarriedCall) {
        loop {
            if call.tries > 0 {
                sleep(PAUSE).await;
            }
            let session = call.session.clone();
            match self.find_link(&session, &call.context).await {
                Ok(Some(link)) => {
                    let held = match &call.effect {
                        CallEffect::Attach(opening) => self.arrive(&session, &link, opening.clone(), Seq(0)),
                        CallEffect::Nothing | CallEffect::Fork(_) | CallEffect::Leave => Vec::new(),
                    };
                    match link.forward(call) {
                        Ok(()) => return self.release(held).await,
                        Err(again) => {
                            call = *again;
                            self.look_again(&session, held);
                        }
                    }
                }
                Ok(None) => {
                    let held = self.held_by(&call);
                    let CarriedCall { request, method, params, .. } = call;
                    let mut lines = vec![HeldLine::Request { request, method, params }];
                    lines.extend(held);
                    return self.release(lines).await;
                }
                Err(error) => {
                    let held = self.held_by(&call);
                    call.request.answer(Err(error));
                    return self.release(held).await;
                }
            }
        }
    }

    /// The connection to the host that owns a session; nothing if no other host does.
    async fn find_link(
        self: &Arc<Self>,
        session: &SessionId,
        context: &ClientContext,
    ) -> Result<Option<Arc<HostLink>>, RpcError> {
        let begun = Instant::now();
        loop {
            let Some(contact) = self.owner(session).await? else { return Ok(None) };
            match self.link(&contact, context).await {
                Ok(link) => return Ok(Some(link)),
                Err(HostLinkError::Unreachable(_)) if begun.elapsed() < REACH_LIMIT => sleep(PAUSE).await,
                Err(error) => return Err(not_reached(session, &contact, &error)),
            }
        }
    }

    /// The client's connection to a host. It is made if there is none.
    async fn link(
        self: &Arc<Self>,
        contact: &HostContact,
        context: &ClientContext,
    ) -> Result<Arc<HostLink>, HostLinkError> {
        let _linking = self.linking.lock().await;
        if let Some(link) = locked(&self.state).links.get(contact) {
            return Ok(link.clone());
        }
        let Some(hosts) = self.hosts.get() else {
            return Err(HostLinkError::NotTrusted("this host knows no others".to_owned()));
        };
        let client = CarriedClient {
            access: context.access.as_ref().clone(),
            agent: context.profile().own_answer(),
            transport: self.transport,
        };
        let channel = hosts.connect(contact.clone(), client).await?;
        let link = {
            let mut state = locked(&self.state);
            state.last_link += 1;
            Arc::new(HostLink::new(state.last_link, contact.clone(), channel.outgoing))
        };
        self.spawn(self.clone().listen(link.clone(), channel.incoming));
        let refused = |error: RpcError| HostLinkError::Unreachable(error.message);
        link.call("initialize", &context.introduction).await.map_err(refused)?;
        let mut state = locked(&self.state);
        if !state.ended {
            state.links.insert(contact.clone(), link.clone());
        }
        Ok(link)
    }

    /// Passes on what another host says, until the connection to it is lost.
    async fn listen(self: Arc<Self>, link: Arc<HostLink>, mut incoming: mpsc::Receiver<Bytes>) {
        let mut unmarked = Vec::new();
        while let Some(line) = incoming.recv().await {
            match Mark::read(&line) {
                None => unmarked.push(line),
                Some(mark) => {
                    for line in unmarked.drain(..) {
                        self.pass(&link, &line).await;
                    }
                    self.marked(&link, mark);
                }
            }
        }
        self.lost(&link);
    }

    async fn pass(self: &Arc<Self>, link: &Arc<HostLink>, line: &Bytes) {
        let mut out = Out::default();
        match parse(line) {
            Ok(RpcMessage::Response { id, outcome }) => {
                let json = |raw: &serde_json::value::RawValue| Json::from(raw.to_owned());
                let outcome = outcome.map(json).map_err(|error| RpcError::read(&json(error)));
                return self.answered(link, &id, outcome);
            }
            Ok(RpcMessage::Request { id, method, params }) => {
                let own = self.asked.ask(SentRequest::Carried(link.clone(), id));
                let params = params
                    .map_or_else(|| Json::of(&rethread_core::Fields::new()), |raw| raw.to_owned().into());
                out.request(&own, &method, &params);
            }
            Ok(RpcMessage::Notification { method, params }) if method == CANCEL_REQUEST => {
                let request = params.map(|raw| Json::from(raw.to_owned()).fields());
                let id = request.and_then(|fields| fields.get("requestId").and_then(|id| Id::read(id.raw())));
                let Some(own) = id.and_then(|id| self.asked.carried(link, &id)) else { return };
                out.notification(CANCEL_REQUEST, &cancelled(&own));
            }
            Ok(RpcMessage::Notification { .. }) => out.line(line),
            Err(_) => return,
        }
        // Until the client has taken what came before, nothing more is read from the other host.
        if let Ok(room) = self.room.clone().acquire_owned().await {
            self.outbox.hand_over_carried(out, room);
        }
    }

    fn answered(self: &Arc<Self>, link: &Arc<HostLink>, id: &Id, outcome: Result<Json, RpcError>) {
        match link.answered(id) {
            Some(HostCall::Own(waiting)) => _ = waiting.send(outcome),
            Some(HostCall::Client(call)) => self.finish(link, *call, outcome),
            None => {}
        }
    }

    /// Notes what follows from an answer, and gives it to the client.
    fn finish(
        self: &Arc<Self>,
        link: &Arc<HostLink>,
        mut call: CarriedCall,
        outcome: Result<Json, RpcError>,
    ) {
        let not_there = matches!(&outcome, Err(error) if error.code == code::NOT_HERE);
        if not_there && call.tries < MAX_TRIES {
            call.tries += 1;
            if let CallEffect::Attach(_) = &call.effect {
                self.look_again(&call.session, Vec::new());
            }
            return self.begin(call);
        }
        // Hosts say this to each other only.
        let outcome = outcome.map_err(|error| match error.code {
            code::NOT_HERE => RpcError { code: code::INTERNAL, ..error },
            _ => error,
        });
        match (call.effect, &outcome) {
            (CallEffect::Attach(opening), Ok(_)) => self.attached(&call.session, link, opening),
            (CallEffect::Attach(_), Err(_)) => self.not_attached(&call.session),
            (CallEffect::Fork(opening), Ok(answer)) => {
                if let Some(made) = answer.fields().text("sessionId").map(SessionId) {
                    self.arrive(&made, link, opening.clone(), Seq(0));
                    self.attached(&made, link, opening);
                }
            }
            (CallEffect::Leave, Ok(_)) => drop(self.forget(&call.session)),
            (CallEffect::Fork(_) | CallEffect::Leave, Err(_)) | (CallEffect::Nothing, _) => {}
        }
        call.request.answer(outcome);
    }

    /// Notes how far the client has been shown its sessions, and which it does not follow any more.
    fn marked(self: &Arc<Self>, link: &Arc<HostLink>, mark: Mark) {
        let mut moving = Vec::new();
        {
            let mut state = locked(&self.state);
            for (session, seq) in mark.shown {
                if let Some(carried) = carried_at(&mut state, &session, link) {
                    carried.shown = seq;
                }
            }
            for session in mark.left {
                if let Some(carried) = carried_at(&mut state, &session, link) {
                    let (opening, shown) = (carried.opening.clone(), carried.shown);
                    match mark.left_for {
                        LeftFor::Good => _ = state.sessions.remove(&session),
                        LeftFor::AnotherHost => {
                            state.sessions.insert(session.clone(), SessionPlace::Moving(Vec::new()));
                            moving.push((session, opening, shown));
                        }
                    }
                }
            }
        }
        for (session, opening, shown) in moving {
            self.spawn(self.clone().move_on(session, opening, shown));
        }
    }

    /// The connection to a host is lost: what is open there gets an error, and the client's sessions move on.
    fn lost(self: &Arc<Self>, link: &Arc<HostLink>) {
        let unanswered = link.lose();
        let mut moving = Vec::new();
        {
            let mut state = locked(&self.state);
            state.links.retain(|_, known| !Arc::ptr_eq(known, link));
            state.sessions.retain(|session, place| match place {
                SessionPlace::At(carried) if Arc::ptr_eq(&carried.link, link) => {
                    if carried.attach == AttachState::Asked {
                        return false;
                    }
                    moving.push((session.clone(), carried.opening.clone(), carried.shown));
                    *place = SessionPlace::Moving(Vec::new());
                    true
                }
                SessionPlace::At(_) | SessionPlace::Moving(_) => true,
            });
        }
        if !moving.is_empty() {
            tracing::warn!(
                "the host at {} was lost with {} sessions of a client",
                link.contact.address,
                moving.len()
            );
        }
        for call in unanswered {
            if let HostCall::Client(call) = call {
                call.request.answer(Err(link.lost_error()));
            }
        }
        for id in self.asked.lost_link(link) {
            let (method, params) = (CANCEL_REQUEST.to_owned(), cancelled(&id));
            let _ = self.outbox.offer(Outbound::Notify { method, params });
        }
        for (session, opening, shown) in moving {
            self.spawn(self.clone().move_on(session, opening, shown));
        }
    }

    /// Has the client go on with a session whose host was lost: here, or with its next owner.
    async fn move_on(self: Arc<Self>, session: SessionId, opening: OpenedWith, shown: Seq) {
        let begun = Instant::now();
        let attacher = &opening.attacher;
        let outcome = loop {
            if let Err(error) = self.check_agent(&session, &attacher.context).await {
                break Err(error);
            }
            let replay = ReplayFrom::After(shown);
            let moved = match attacher.resume(session.clone(), opening.setup.clone(), replay).await {
                Ok(opened) => {
                    attacher.go_on(opened);
                    Ok(self.forget(&session))
                }
                Err(error) if error.code == code::LIVE_ELSEWHERE => {
                    self.attach_elsewhere(&session, &opening, shown).await
                }
                Err(error) => Err(error),
            };
            match moved {
                Ok(held) => break Ok(held),
                Err(error) if error.code == code::NOT_FOUND || begun.elapsed() > MOVE_LIMIT => {
                    break Err(error);
                }
                Err(_) => sleep(PAUSE).await,
            }
        };
        let held = match outcome {
            Ok(held) => held,
            Err(error) => {
                tracing::warn!("session {session} was not taken over: {}", error.message);
                for line in self.forget(&session) {
                    if let HeldLine::Request { request, .. } = line {
                        request.answer(Err(error.clone()));
                    }
                }
                Vec::new()
            }
        };
        self.release(held).await;
    }

    /// Refuses to have another agent go on with a session than the one with the name that it had. A client that wants that
    /// loads the session.
    async fn check_agent(&self, session: &SessionId, context: &ClientContext) -> Result<(), RpcError> {
        // A store that fails is asked again where the session is opened.
        let row = self.store.find(session).await.ok().flatten();
        // Whoever has it goes on with the agent that it has.
        let row = row.filter(|row| row.owner.is_none());
        let (named, own) = (row.and_then(|row| row.agent_name), context.host.configured_name());
        match named {
            Some(named) if own.as_ref() != Some(&named) => {
                let message = format!(
                    "the host of session {session} was lost, and agent {named} is not the agent here"
                );
                let hint =
                    format!("load the session to go on with another agent, or connect with agent {named}");
                Err(RpcError::new(code::LIVE_ELSEWHERE, message).with("agent", named).hint(hint))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Has the client follow a session at its next owner, from where it had been shown it.
    async fn attach_elsewhere(
        self: &Arc<Self>,
        session: &SessionId,
        opening: &OpenedWith,
        shown: Seq,
    ) -> Result<Vec<HeldLine>, RpcError> {
        let link = self.find_link(session, &opening.attacher.context).await?;
        // Nobody has it any more.
        let link = link.ok_or_else(|| RpcError::internal("the session has no owner"))?;
        let params = opening_again(&opening.params, session, shown);
        let held = self.arrive(session, &link, opening.clone(), shown);
        match link.call("session/resume", &params).await {
            Ok(_) => {
                self.attached(session, &link, opening.clone());
                Ok(held)
            }
            Err(error) => {
                self.look_again(session, held);
                Err(error)
            }
        }
    }

    /// The session is asked for at another host now. Gives what waited for that.
    fn arrive(
        &self,
        session: &SessionId,
        link: &Arc<HostLink>,
        opening: OpenedWith,
        shown: Seq,
    ) -> Vec<HeldLine> {
        let (link, attach) = (link.clone(), AttachState::Asked);
        let carried = SessionPlace::At(Box::new(CarriedSession { link, opening, attach, shown }));
        match locked(&self.state).sessions.insert(session.clone(), carried) {
            Some(SessionPlace::Moving(held)) => held,
            Some(SessionPlace::At(_)) | None => Vec::new(),
        }
    }

    /// The session is looked for again.
    fn look_again(&self, session: &SessionId, held: Vec<HeldLine>) {
        locked(&self.state).sessions.insert(session.clone(), SessionPlace::Moving(held));
    }

    fn attached(&self, session: &SessionId, link: &Arc<HostLink>, opening: OpenedWith) {
        if let Some(carried) = carried_at(&mut locked(&self.state), session, link) {
            (carried.attach, carried.opening) = (AttachState::Done, opening);
        }
    }

    /// The other host refused. Who follows the session already still does.
    fn not_attached(&self, session: &SessionId) {
        let mut state = locked(&self.state);
        if matches!(state.sessions.get(session), Some(SessionPlace::At(at)) if at.attach == AttachState::Asked)
        {
            state.sessions.remove(session);
        }
    }

    /// The session is not elsewhere any more. Gives what waited for it.
    fn forget(&self, session: &SessionId) -> Vec<HeldLine> {
        match locked(&self.state).sessions.remove(session) {
            Some(SessionPlace::Moving(held)) => held,
            Some(SessionPlace::At(_)) | None => Vec::new(),
        }
    }

    /// What waited for a session that a request wanted to follow.
    fn held_by(&self, call: &CarriedCall) -> Vec<HeldLine> {
        match call.effect {
            CallEffect::Attach(_) => self.forget(&call.session),
            CallEffect::Nothing | CallEffect::Fork(_) | CallEffect::Leave => Vec::new(),
        }
    }

    async fn release(&self, lines: Vec<HeldLine>) {
        if !lines.is_empty() {
            // A connection that has ended answers them by dropping them.
            let _ = self.released.send(lines).await;
        }
    }
}

fn carried_at<'a>(
    state: &'a mut CarrierState,
    session: &SessionId,
    link: &Arc<HostLink>,
) -> Option<&'a mut CarriedSession> {
    match state.sessions.get_mut(session) {
        Some(SessionPlace::At(carried)) if Arc::ptr_eq(&carried.link, link) => Some(carried),
        Some(_) | None => None,
    }
}

/// The parameters that open a session again, from behind an entry.
fn opening_again(params: &Json, session: &SessionId, shown: Seq) -> Json {
    let mut fields = params.fields();
    let mut meta = fields.get("_meta").map(Json::fields).unwrap_or_default();
    let mut own = meta.get("rethread").map(Json::fields).unwrap_or_default();
    own.set("after", Json::of(&shown.0));
    meta.set("rethread", own.json());
    fields.set("_meta", meta.json());
    fields.set("sessionId", Json::of(session));
    fields.json()
}

fn not_reached(session: &SessionId, contact: &HostContact, error: &HostLinkError) -> RpcError {
    let HostContact { number, address } = contact;
    let message = format!("session {session} is open on host {number} at {address}, but {error}");
    RpcError::new(code::LIVE_ELSEWHERE, message)
        .with("sessionId", session.as_str())
        .with("host", address.clone())
        .hint("`rethread doctor` says how the hosts reach each other")
}
