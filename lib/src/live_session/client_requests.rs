//! Handles the messages of attached clients: prompts, cancellations, options, titles, answers to questions, close and end.

use std::sync::atomic::Ordering;

use rethread_core::session::{OpenPrompt, OpenQuestion, Phase};
use rethread_core::{HeldPrompts, Input, Json, MessageId, Refusal, Seq, decides, prompt_title};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::clients::Verdict;
use super::{AgentSlot, ForkState, GivenAnswer, LiveSession, Message, NotWritten, OpenWork, PendingAnswer};
use crate::client_id::{ClientId, ClientTag};
use crate::clock;
use crate::edge::agent_translator::outgoing::cancelled_answer;
use crate::edge::client_request::OptionName;
use crate::edge::v1::options::{BooleanOptions, Options};
use crate::ids;
use crate::outbox::{Outbound, Reply, Sender};
use crate::wire::{Id, RpcError, code};

/// What the answer to a change of option tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionAnswer {
    /// All options, with or without those that a version 1 client may not take.
    Options(BooleanOptions),
    /// Nothing: the older methods tell by updates only.
    Nothing,
}

impl LiveSession {
    pub(super) async fn on_client_message(&mut self, message: Message) {
        // Whoever only looks does not keep it from being idle.
        if !matches!(message, Message::Observe { .. } | Message::Status(_)) {
            self.stay_awake();
        }
        if self.condition.broken.is_some() {
            self.retry_store().await;
        }
        match message {
            Message::Attach { client, cursor, setup, host, reply } => {
                self.attach(client, cursor, setup, host, reply).await;
            }
            Message::Observe { client, cursor, reply } => self.observe(client, &cursor, reply).await,
            Message::Detach { client, done } => self.detach(client, done).await,
            Message::NotFollowed => self.end_if_unattended().await,
            Message::Prompt { message, content, meta, reply } => {
                self.prompt(message, content, meta, reply).await;
            }
            Message::Cancel => self.cancel().await,
            Message::Withdraw(client, id) => self.withdraw(client, &id).await,
            Message::SetOption { option, value, booleans, reply } => {
                self.set_option(option, value, booleans, reply).await;
            }
            Message::SetTitle(title, reply) => self.set_title(title, reply).await,
            Message::Answer(client, answer) => self.answer(client, answer).await,
            Message::CancelThing { method, field, id, reply } => self.cancel_thing(method, field, id, reply),
            Message::Relay { method, params, reply } => self.relay_to_agent(method, params, reply).await,
            Message::Relayed(client, request, outcome) => self.relayed(client, request, outcome).await,
            Message::Service(event) => self.service_event(event).await,
            Message::Close(reply) => self.close(reply).await,
            Message::Status(reply) => {
                let _ = reply.send(self.broken_error().map_or_else(|| Ok(self.state()), Err));
            }
            Message::ForkState(reply) => {
                let _ = reply.send(self.fork_state());
            }
            Message::AgentHost(reply) => {
                let _ = reply.send(self.agent.host.shared().clone());
            }
            Message::End { work: OpenWork::Kept, .. } if self.works() => {}
            Message::End { reason, by, done, .. } => self.end(reason, by, done).await,
            Message::HostChanged { host, by, notice } => self.host_changed(&host, by, &notice),
            Message::EpochSeen(epoch) => self.epoch_seen(epoch).await,
            Message::ReleaseAsked => self.release_asked().await,
            Message::AgentUp(up) => self.agent_up(up).await,
            Message::PastRead(candidate, past) => self.past_read(candidate, past).await,
        }
    }

    async fn prompt(&mut self, message: MessageId, content: Json, meta: Option<Json>, reply: Reply) {
        if let Some(error) = self.broken_error() {
            return reply.refuse(error);
        }
        if let Some(error) = self.missing_directory().await {
            return reply.refuse(error);
        }
        // Only a session without a title gets one from a prompt.
        let title = if self.session.title.is_none() { prompt_title(&content) } else { None };
        let sender = self.clients.attached.get(reply.client).map(|client| client.tag.clone());
        if let Some(sender) = &sender {
            let from =
                || Outbound::PromptFrom(self.id.clone(), message.clone(), Sender::Other(sender.clone()));
            // One that does not take it is shown the prompt without its sender.
            self.clients.attached.offer_others(Some(sender.id), from);
        }
        self.clients.requests.add_prompt(&message, sender, meta, reply);
        let input = Input::Prompt { message: message.clone(), content, title, at: clock::now() };
        match self.take(input).await {
            Ok(_) => self.need_agent().await,
            // It has been answered.
            Err(NotWritten::StoreFailed(_)) => {}
            Err(NotWritten::Refused(refusal)) => {
                if let Some(reply) = self.clients.requests.prompt_dropped(&message) {
                    reply.refuse(refused(&refusal));
                }
            }
        }
    }

    /// The error for a session of a shared store whose directory is not on this host: it was taken over from another one.
    async fn missing_directory(&self) -> Option<RpcError> {
        if !self.deps.several_hosts.load(Ordering::Relaxed) {
            return None;
        }
        let cwd = &self.session.cwd;
        match tokio::fs::metadata(cwd).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Ok(_) | Err(_) => return None,
        }
        let row = self.deps.store.find(&self.id).await.ok().flatten();
        let host = row.and_then(|row| row.owner).map_or_else(|| "this host".to_owned(), |owner| owner.host);
        let message = format!("the directory {cwd} of the session does not exist on {host}");
        let hint = "the session can be read; make the directory there, or `rethread relocate` the session";
        Some(
            RpcError::new(code::INVALID_PARAMS, message)
                .with("host", host)
                .with("cwd", cwd.as_str())
                .hint(hint),
        )
    }

    fn fork_state(&self) -> Option<Box<ForkState>> {
        let at_turn_end = self.agent.at_turn_end.clone()?;
        let usable = self.condition.broken.is_none() && self.session.is_idle();
        usable.then(|| Box::new(ForkState { session: self.session.clone(), at_turn_end }))
    }

    async fn cancel(&mut self) {
        self.step(vec![Input::Cancel]).await;
        self.close_if_asked().await;
    }

    /// A client takes back a request: a prompt that waits is dropped, the turn of one that runs is cancelled. What the
    /// agent has not answered is also taken back there, by our own number for it; few agents listen to that.
    async fn withdraw(&mut self, client: ClientId, id: &Id) {
        let prompt = self.clients.requests.prompt_of(client, id);
        let number = self.number_at_agent(client, id, prompt.as_ref());
        if let (Some(request), AgentSlot::Bound(bound)) = (number, &self.agent.slot) {
            let _ = bound.agent.peer.cancel(request);
        }
        if let Some(message) = prompt {
            // One that the agent has not acknowledged is answered by the agent.
            let _ = self.take(Input::Withdraw { message }).await;
            self.close_if_asked().await;
        }
    }

    /// Our number for a client's request that the agent has not answered.
    fn number_at_agent(&self, client: ClientId, id: &Id, prompt: Option<&MessageId>) -> Option<u64> {
        let is = |waiting: &PendingAnswer| match waiting {
            PendingAnswer::Prompt(message) => Some(message) == prompt,
            PendingAnswer::Relay(reply) | PendingAnswer::CancelThing(reply) => {
                reply.client == client && reply.id() == id
            }
            PendingAnswer::Open | PendingAnswer::Option { .. } => false,
        };
        self.agent.waiting.iter().find(|(_, waiting)| is(waiting)).map(|(request, _)| *request)
    }

    async fn set_option(&mut self, option: OptionName, value: Json, booleans: BooleanOptions, reply: Reply) {
        if let Some(error) = self.broken_error() {
            return reply.refuse(error);
        }
        if !matches!(self.agent.slot, AgentSlot::Bound(_)) {
            self.postpone(Message::SetOption { option, value, booleans, reply });
            return self.need_agent().await;
        }
        self.change_option(option, value, booleans, reply).await;
    }

    /// Has an option changed by an agent that has the session.
    pub(super) async fn change_option(
        &mut self,
        option: OptionName,
        value: Json,
        booleans: BooleanOptions,
        reply: Reply,
    ) {
        let (name, field) = match &option {
            OptionName::Id(id) => (Some(id.clone()), "configId"),
            OptionName::Category(category, field) => (self.known_options().by_category(category), *field),
        };
        let Some(name) = name else {
            let expected = "nothing, since the agent has no such option";
            return reply.refuse(RpcError::field(field, &value.value(), expected));
        };
        let ask = ids::ask_id();
        let form = match option {
            OptionName::Id(_) => OptionAnswer::Options(booleans),
            OptionName::Category(..) => OptionAnswer::Nothing,
        };
        self.clients.requests.add_option(ask.clone(), reply, form);
        if let Err(NotWritten::Refused(refusal)) =
            self.take(Input::SetOption { ask: ask.clone(), option: name, value }).await
            && let Some((reply, _)) = self.clients.requests.take_option(&ask)
        {
            reply.refuse(refused_option(&refusal, &option, field));
        }
    }

    fn known_options(&self) -> Options {
        let list = self.session.options.as_ref().and_then(|body| body.fields().take("configOptions"));
        Options::from_v2(&list.unwrap_or_else(|| json!([]).into()))
    }

    /// The answer to a change of option: everything, so that what depends on it is seen too.
    pub(super) fn option_answer(&self, reply: &Reply, form: OptionAnswer) -> Json {
        let OptionAnswer::Options(booleans) = form else { return json!({}).into() };
        let options = self.known_options();
        options.config_answer(reply.version, booleans)
    }

    async fn set_title(&mut self, title: String, reply: Reply) {
        match self.take(Input::SetTitle { title: title.clone() }).await {
            Ok(seq) => {
                let stored = self.session.title.as_ref().map_or("", |(title, _)| title.as_str());
                reply.send(seq, Ok(json!({"title": stored}).into()));
            }
            Err(NotWritten::StoreFailed(error)) => reply.refuse(error),
            Err(NotWritten::Refused(_)) => {
                reply.refuse(RpcError::field("title", &json!(title), "a title with visible characters"))
            }
        }
    }

    /// The first answer that decides a question counts. A client that fails to answer, or does not decide, leaves it to
    /// the others; when nobody is left, nothing is approved.
    async fn answer(&mut self, client: ClientId, given: GivenAnswer) {
        let Some(open) = self.session.questions.iter().find(|open| open.question == given.question) else {
            return self.answered_too_late(client, &given);
        };
        let GivenAnswer { question, outcome, .. } = given;
        let answer = match outcome {
            Ok(answer) if decides(open, &answer) => answer,
            undecided => {
                self.clients.attached.decline(client, &question);
                if self.clients.attached.verdict(&question, open.kind, &open.body) == Verdict::Waits {
                    return;
                }
                undecided.unwrap_or_else(|_| cancelled_answer(open.kind))
            }
        };
        self.step(vec![Input::Answer { question, answer }]).await;
    }

    /// The question was closed while the answer was under way, so the client was not told: it must not believe that its
    /// answer counts.
    fn answered_too_late(&self, client: ClientId, given: &GivenAnswer) {
        if let (Ok(_), Some(known)) = (&given.outcome, self.clients.attached.get(client)) {
            let _ = known.outbox.offer(self.here(given.too_late()));
        }
    }

    /// Those who declined may be the only ones left.
    pub(super) async fn settle_declined(&mut self) {
        let declined = |open: &&OpenQuestion| {
            self.clients.attached.verdict(&open.question, open.kind, &open.body) == Verdict::Declined
        };
        let refused = |open: &OpenQuestion| Input::Answer {
            question: open.question.clone(),
            answer: cancelled_answer(open.kind),
        };
        let inputs: Vec<_> = self.session.questions.iter().filter(declined).map(refused).collect();
        self.step(inputs).await;
    }

    /// One of several clients that closes the session leaves it to the others. The last one closes it.
    async fn close(&mut self, reply: Reply) {
        if !self.clients.attached.is_alone(reply.client) {
            return self.leave(reply).await;
        }
        self.clients.attached.detach(reply.client);
        self.clients.requests.add_close(reply);
        self.cancel().await;
        self.close_if_asked().await;
    }

    /// A session that is to be closed goes when its turn is over, unless somebody has come to follow it.
    pub(super) async fn close_if_asked(&mut self) {
        if !self.clients.requests.is_closing() || self.session.turn.is_some() || self.condition.ended {
            return;
        }
        if self.clients.attached.is_empty() {
            return Box::pin(self.end_session("the session was closed".to_owned())).await;
        }
        for reply in self.clients.requests.take_closing() {
            reply.leave(self.lease.head);
            reply.send(self.lease.head, Ok(json!({}).into()));
        }
    }

    async fn end(&mut self, reason: String, by: Option<ClientTag>, done: oneshot::Sender<Seq>) {
        self.announce_end(&reason, by.as_ref());
        self.end_session(reason).await;
        let _ = done.send(self.lease.head);
    }

    pub(super) async fn end_session(&mut self, reason: String) {
        if self.condition.ended {
            return;
        }
        self.condition.ended = true;
        self.end_local_services().await;
        // A prompt that the agent has not taken yet goes with the session.
        let open = self.session.prompts.iter().filter(|prompt| prompt.phase != Phase::Inserted);
        let error = RpcError::cancelled().json();
        let refused = |prompt: &OpenPrompt| Input::PromptRefused {
            message: prompt.message.clone(),
            error: error.clone(),
        };
        let mut inputs: Vec<_> = open.map(refused).collect();
        inputs.push(Input::AgentExited { reason, held: HeldPrompts::Drop, at: clock::now() });
        self.step(inputs).await;
        self.release_session().await;
    }

    pub(super) fn broken_error(&self) -> Option<RpcError> {
        let reason = self.condition.broken.as_ref()?;
        Some(
            RpcError::internal(reason.clone()).hint(
                "nothing new can be saved until the store works again; everything shown so far is saved",
            ),
        )
    }
}

/// The client that waits for an answer to a message.
pub(super) fn waiting_client(message: &Message) -> Option<ClientId> {
    match message {
        Message::Prompt { reply, .. }
        | Message::SetOption { reply, .. }
        | Message::SetTitle(_, reply)
        | Message::CancelThing { reply, .. }
        | Message::Close(reply) => Some(reply.client),
        Message::Relay { reply, .. } => reply.as_ref().map(|reply| reply.client),
        Message::Attach { .. }
        | Message::Observe { .. }
        | Message::Cancel
        | Message::Withdraw(..)
        | Message::Detach { .. }
        | Message::NotFollowed
        | Message::Answer(..)
        | Message::Relayed(..)
        | Message::Service(_)
        | Message::Status(_)
        | Message::ForkState(_)
        | Message::AgentHost(_)
        | Message::End { .. }
        | Message::HostChanged { .. }
        | Message::EpochSeen(_)
        | Message::ReleaseAsked
        | Message::AgentUp(_)
        | Message::PastRead(..) => None,
    }
}

/// The open request that a message carries.
pub(super) fn reply_of(message: Message) -> Option<Reply> {
    match message {
        Message::Prompt { reply, .. }
        | Message::SetOption { reply, .. }
        | Message::SetTitle(_, reply)
        | Message::CancelThing { reply, .. }
        | Message::Close(reply) => Some(reply),
        Message::Relay { reply, .. } => reply,
        Message::Attach { .. }
        | Message::Observe { .. }
        | Message::Cancel
        | Message::Withdraw(..)
        | Message::Detach { .. }
        | Message::NotFollowed
        | Message::Answer(..)
        | Message::Relayed(..)
        | Message::Service(_)
        | Message::Status(_)
        | Message::ForkState(_)
        | Message::AgentHost(_)
        | Message::End { .. }
        | Message::HostChanged { .. }
        | Message::EpochSeen(_)
        | Message::ReleaseAsked
        | Message::AgentUp(_)
        | Message::PastRead(..) => None,
    }
}

fn refused(refusal: &Refusal) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, refusal.to_string())
}

fn refused_option(refusal: &Refusal, option: &OptionName, field: &str) -> RpcError {
    match refusal {
        Refusal::UnknownOption { option, known } => {
            RpcError::field(field, &json!(option), &format!("one of {}", known.join(", ")))
        }
        Refusal::BadValue { got, expected, .. } => {
            let field = match option {
                OptionName::Id(_) => "value",
                OptionName::Category(_, field) => field,
            };
            RpcError::field(field, &got.value(), &format!("one of {}", expected.join(", ")))
        }
        Refusal::EmptyPrompt
        | Refusal::UnknownPrompt(_)
        | Refusal::UnknownQuestion(_)
        | Refusal::UnknownAsk(_)
        | Refusal::EmptyTitle => refused(refusal).with("got", Value::Null),
    }
}
