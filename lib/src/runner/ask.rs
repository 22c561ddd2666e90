//! What clients ask of a session once they follow it. How they come to is in `attach`.

use rethread_core::session::{OpenPrompt, Phase};
use rethread_core::{HeldPrompts, Input, Json, MessageId, QuestionId, Refusal, Seq, clean_title};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Client, Message, Runner, Seat, Waiting};
use crate::edge::Version;
use crate::edge::call::OptionName;
use crate::edge::link::ask::nobody_answers;
use crate::edge::v1::options::{BooleanOptions, Options};
use crate::mint;
use crate::outbox::Reply;
use crate::wire::{Id, RpcError, code};

/// What the answer to a change of option tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionAnswer {
    /// All options, with or without those that a version 1 client may not take.
    Options(BooleanOptions),
    /// Nothing: the older methods tell by updates only.
    Nothing,
}

impl Runner {
    pub(super) async fn hear_client(&mut self, message: Message) {
        self.idle_at = tokio::time::Instant::now() + self.around.idle_limit;
        if self.broken.is_some() {
            self.mend().await;
        }
        match message {
            Message::Attach { cursor, outbox, version, setup, reply } => {
                self.attach(cursor, Client { outbox, version }, setup, reply).await
            }
            Message::Prompt { message, content, meta, reply } => {
                self.prompt(message, content, meta, reply).await;
            }
            Message::Cancel => self.cancel().await,
            Message::Withdraw(id) => self.withdraw(&id).await,
            Message::SetOption { option, value, booleans, reply } => {
                self.set_option(option, value, booleans, reply).await;
            }
            Message::SetTitle(title, reply) => self.set_title(title, reply).await,
            Message::Answer(question, answer) => self.answer(question, answer).await,
            Message::CancelThing { method, field, id, reply } => self.cancel_thing(method, field, id, reply),
            Message::Relay { method, params, reply } => self.relay_to_agent(method, params, reply).await,
            Message::Relayed(request, outcome) => self.relayed(request, outcome).await,
            Message::Hosted(hosted) => self.hosted(hosted).await,
            Message::Close(reply) => self.close(reply).await,
            Message::Status(reply) => {
                let _ = reply.send(self.broken_error().map_or_else(|| Ok(self.state()), Err));
            }
            Message::End { reason, done } => self.end(reason, done).await,
            Message::AgentUp(up) => self.agent_up(up).await,
        }
    }

    async fn prompt(&mut self, message: MessageId, content: Json, meta: Option<Json>, reply: Reply) {
        if let Some(error) = self.broken_error() {
            return reply.refuse(error);
        }
        let title = title_of(&content);
        self.prompts.insert(message.clone(), reply);
        self.metas.extend(meta.map(|meta| (message.clone(), meta)));
        let input = Input::Prompt { message: message.clone(), content, title, at: mint::now() };
        match self.take(input).await {
            Ok(_) if self.broken.is_some() => {}
            Ok(_) => self.need_agent().await,
            Err(refusal) => {
                self.metas.remove(&message);
                if let Some(reply) = self.prompts.remove(&message) {
                    reply.refuse(refused(&refusal));
                }
            }
        }
    }

    async fn cancel(&mut self) {
        self.step(vec![Input::Cancel]).await;
        self.close_if_asked().await;
    }

    /// A client takes back a request: a prompt that waits is dropped, the turn of one that runs is cancelled. What the
    /// agent has not answered is also taken back there, by our own number for it; few agents listen to that.
    async fn withdraw(&mut self, id: &Id) {
        let prompt = self.prompts.iter().find(|(_, reply)| reply.id() == id);
        let prompt = prompt.map(|(message, _)| message.clone());
        let number = self.number_at_agent(id, prompt.as_ref());
        if let (Some(request), Seat::Bound(bound)) = (number, &self.seat) {
            let _ = bound.agent.peer.cancel(request);
        }
        if let Some(message) = prompt {
            // One that the agent has not acknowledged is answered by the agent.
            let _ = self.take(Input::Withdraw { message }).await;
            self.close_if_asked().await;
        }
    }

    /// Our number for a client's request that the agent has not answered.
    fn number_at_agent(&self, id: &Id, prompt: Option<&MessageId>) -> Option<u64> {
        let is = |waiting: &Waiting| match waiting {
            Waiting::Prompt(message) => Some(message) == prompt,
            Waiting::Relay(reply) | Waiting::CancelThing(reply) => reply.id() == id,
            Waiting::Open | Waiting::Option { .. } => false,
        };
        self.waiting.iter().find(|(_, waiting)| is(waiting)).map(|(request, _)| *request)
    }

    async fn set_option(&mut self, option: OptionName, value: Json, booleans: BooleanOptions, reply: Reply) {
        if let Some(error) = self.broken_error() {
            return reply.refuse(error);
        }
        if !matches!(self.seat, Seat::Bound(_)) {
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
        let ask = mint::ask_id();
        let form = match option {
            OptionName::Id(_) => OptionAnswer::Options(booleans),
            OptionName::Category(..) => OptionAnswer::Nothing,
        };
        self.options.insert(ask.clone(), (reply, form));
        if let Err(refusal) = self.take(Input::SetOption { ask: ask.clone(), option: name, value }).await
            && let Some((reply, _)) = self.options.remove(&ask)
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
        match reply.version {
            Version::V2 => {
                [("configOptions", options.to_v2())].into_iter().collect::<rethread_core::Fields>().json()
            }
            Version::V1 => {
                let view = options.to_v1(booleans);
                let mut fields = rethread_core::Fields::new();
                view.write_config(&mut fields);
                fields.json()
            }
        }
    }

    async fn set_title(&mut self, title: String, reply: Reply) {
        match self.take(Input::SetTitle { title: title.clone() }).await {
            Ok(seq) => match self.broken_error() {
                Some(error) => reply.refuse(error),
                None => {
                    let stored = self.session.title.as_ref().map_or("", |(title, _)| title.as_str());
                    reply.send(seq, Ok(json!({"title": stored}).into()));
                }
            },
            Err(_) => {
                reply.refuse(RpcError::field("title", &json!(title), "a title with visible characters"))
            }
        }
    }

    async fn answer(&mut self, question: QuestionId, answer: Result<Json, RpcError>) {
        let kind = self.questions.get(&question).map(|(_, kind)| *kind);
        // A client that fails to answer has not approved anything.
        let answer = match (answer, kind) {
            (Ok(answer), _) => answer,
            (Err(_), Some(kind)) => nobody_answers(kind),
            (Err(_), None) => return,
        };
        self.step(vec![Input::Answer { question, answer }]).await;
    }

    async fn close(&mut self, reply: Reply) {
        self.closing.push(reply);
        self.cancel().await;
        self.close_if_asked().await;
    }

    /// A session that is to be closed goes when its turn is over.
    pub(super) async fn close_if_asked(&mut self) {
        if self.closing.is_empty() || self.session.turn.is_some() || self.ended {
            return;
        }
        self.settle_and_let_go("the session was closed".to_owned()).await;
    }

    async fn end(&mut self, reason: String, done: oneshot::Sender<Seq>) {
        self.settle_and_let_go(reason).await;
        let _ = done.send(self.lease.head);
    }

    async fn settle_and_let_go(&mut self, reason: String) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.end_hosted().await;
        // A prompt that the agent has not taken yet goes with the session.
        let open = self.session.prompts.iter().filter(|prompt| prompt.phase != Phase::Inserted);
        let error = RpcError::cancelled().json();
        let refused = |prompt: &OpenPrompt| Input::PromptRefused {
            message: prompt.message.clone(),
            error: error.clone(),
        };
        let mut inputs: Vec<_> = open.map(refused).collect();
        inputs.push(Input::AgentExited { reason, held: HeldPrompts::Drop, at: mint::now() });
        self.step(inputs).await;
        self.let_go().await;
    }

    pub(super) fn broken_error(&self) -> Option<RpcError> {
        let reason = self.broken.as_ref()?;
        Some(
            RpcError::internal(reason.clone()).hint(
                "nothing new can be saved until the store works again; everything shown so far is saved",
            ),
        )
    }
}

/// The reply that a message carries for whoever sent it.
pub(super) fn reply_of(message: Message) -> Option<Reply> {
    match message {
        Message::Prompt { reply, .. }
        | Message::SetOption { reply, .. }
        | Message::SetTitle(_, reply)
        | Message::CancelThing { reply, .. }
        | Message::Close(reply) => Some(reply),
        Message::Relay { reply, .. } => reply,
        Message::Attach { .. }
        | Message::Cancel
        | Message::Withdraw(_)
        | Message::Answer(..)
        | Message::Relayed(..)
        | Message::Hosted(_)
        | Message::Status(_)
        | Message::End { .. }
        | Message::AgentUp(_) => None,
    }
}

/// A title out of the first line that says something.
fn title_of(content: &Json) -> Option<String> {
    const LONGEST: usize = 80;
    let blocks = content.items()?;
    let text = blocks.iter().find_map(|block| block.fields().text("text"))?;
    let words = text.lines().map(clean_title).find(|line| !line.is_empty())?;
    if words.chars().count() <= LONGEST {
        return Some(words);
    }
    Some(words.chars().take(LONGEST - 1).chain(['…']).collect())
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
