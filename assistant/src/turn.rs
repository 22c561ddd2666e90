//! A turn with a model: asks it, tells what it says, has its tools carried out, and asks again until it is done.

use std::collections::HashSet;

use futures::StreamExt;
use rethread::author::{Stop, Tool, Turn};
use rethread::ids;
use rethread::wire::RpcError;
use serde_json::Value;

use crate::call_context::CallContext;
use crate::choice::Settings;
use crate::compact::Excess;
use crate::memory::Conversation;
use crate::model::{FinishReason, Message, Model, ModelError, ModelEvent, Models, Part, Reply, Request};
use crate::model_events::{MessageWriters, ModelTurn, rpc_error};
use crate::session::Session;
use crate::tool_calls;
use crate::{compact, memory, model, system_prompt};

/// The most answers of a model in one turn.
const MOST_ROUNDS: usize = 100;

/// What came of one question to the model.
enum RoundOutcome {
    Reply(FinishReason, Reply),
    TooLong(ModelError),
    Cancelled,
}

impl<'a> ModelTurn<'a> {
    /// A turn that works on the newest prompt of the session.
    pub(crate) fn new(models: &'a Models, session: &'a Session, turn: &'a Turn) -> Self {
        let history = turn.history();
        let Conversation { past, now } = memory::conversation(&history);
        let (cost, warned, used) = (Session::cost(&history), false, call_ids(&history));
        Self { models, session, turn, past, now, cost, warned, used, begun: Vec::new() }
    }

    /// Works until the model is done. The model may be another one from one question to the next.
    pub(crate) async fn run(mut self, model: impl Fn() -> Result<Model, RpcError>) -> Result<Stop, RpcError> {
        for round in 0..MOST_ROUNDS {
            let model = model()?;
            let (reason, mut reply) = match self.ask(&model).await? {
                RoundOutcome::Reply(reason, reply) => (reason, reply),
                RoundOutcome::Cancelled => return Ok(Stop::Cancelled),
                RoundOutcome::TooLong(error) => return Err(rpc_error(&error)),
            };
            with_new_ids(&mut reply, &self.used);
            let calls: Vec<model::ToolCall> = reply.calls().cloned().collect();
            self.used.extend(calls.iter().map(|call| call.id.clone()));
            self.say_if_empty(&model, &reason, &reply).await;
            self.now.push(Message::Assistant(reply));
            // What a model was about to do when it was stopped is not done.
            if calls.is_empty() || reason == FinishReason::Refusal {
                return Ok(stop(&reason));
            }
            let begun = std::mem::take(&mut self.begun);
            let context = CallContext { session: self.session, turn: self.turn, round, begun };
            self.now.push(Message::Tools(context.all(&calls).await));
            if self.turn.is_cancelled() {
                return Ok(Stop::Cancelled);
            }
        }
        let most = format!("The model asked for tools {MOST_ROUNDS} times in one turn.");
        self.turn.notice("warning", &most, Some("Say \"go on\" if it should.")).await;
        Ok(Stop::MaxTurnRequests)
    }

    /// Asks once; a conversation that has become too long is summed up first, or when the provider says so.
    async fn ask(&mut self, model: &Model) -> Result<RoundOutcome, RpcError> {
        let mut request = self.request(model).await;
        let excess = |request: &Request| model.context_window.map_or(0, |window| request.excess(window));
        while let over @ 1.. = excess(&request)
            && compact::make_room(self, model, Excess::Tokens(over)).await?
        {
            request = self.request(model).await;
        }
        self.warn_if_too_long(model, &request).await;
        loop {
            match self.receive(model, &request).await? {
                RoundOutcome::TooLong(error) if !compact::make_room(self, model, Excess::Unknown).await? => {
                    return Ok(RoundOutcome::TooLong(error));
                }
                RoundOutcome::TooLong(_) => request = self.request(model).await,
                heard @ (RoundOutcome::Reply(..) | RoundOutcome::Cancelled) => return Ok(heard),
            }
        }
    }

    /// Some providers refuse what is too long; Ollama leaves out the beginning without a word.
    async fn warn_if_too_long(&mut self, model: &Model, request: &Request) {
        let Some(window) = model.context_window.filter(|window| request.estimate() > *window) else { return };
        if !std::mem::replace(&mut self.warned, true) {
            let title = format!("{} may not read all of this", model.name);
            let why = format!(
                "It is about {} tokens long, and the model reads {window} at a time.",
                request.estimate()
            );
            self.turn.notice("warning", &title, Some(&why)).await;
        }
    }

    /// A turn does not end without a word to the user.
    async fn say_if_empty(&self, model: &Model, reason: &FinishReason, reply: &Reply) {
        if reply.calls().next().is_some() || !reply.text().trim().is_empty() {
            return;
        }
        let why = match reason {
            FinishReason::Refusal => "It, or a filter before it, refused to answer.".to_owned(),
            FinishReason::Length => {
                "It used all the tokens of its answer before it said anything.".to_owned()
            }
            FinishReason::Other(word) => format!("Its answer ended with {word}."),
            FinishReason::Stop | FinishReason::ToolUse => {
                "It stopped without any text or tool call.".to_owned()
            }
        };
        self.turn.notice("warning", &format!("{} sent an empty answer", model.name), Some(&why)).await;
    }

    async fn request(&self, model: &Model) -> Request {
        // As they are now: a conversation may have taken a while to sum up.
        let settings = Settings::of(&self.turn.choices());
        let system = system_prompt::system(&settings, self.session).await;
        for note in system.notes.iter().filter(|note| self.session.is_news(note)) {
            self.turn.notice("warning", note, None).await;
        }
        let offered = tool_calls::offered(self.session, &settings, model.max_tools);
        if self.session.leaves_out(offered.left_out) {
            self.announce_left_out(model, &offered).await;
        }
        Request {
            model: model.id.clone(),
            system: Some(system.text),
            messages: self.past.iter().chain(&self.now).cloned().collect(),
            tools: offered.tools,
            effort: settings.effort,
            temperature: settings.temperature,
            max_output: None,
        }
    }

    async fn announce_left_out(&self, model: &Model, offered: &tool_calls::OfferedTools) {
        let title = format!("{} is not offered {} tools of MCP servers", model.name, offered.left_out);
        let why = format!(
            "It takes {} tools at most. Connect fewer servers, or set `max_tools` of the model if it takes more.",
            model.max_tools
        );
        self.turn.notice("warning", &title, Some(&why)).await;
    }

    /// Hears one answer. A call that was begun and does not come is seen to end.
    async fn receive(&mut self, model: &Model, request: &Request) -> Result<RoundOutcome, RpcError> {
        let heard = self.hear_answer(model, request).await;
        let comes = |tool: &Tool| match &heard {
            // What a model was about to do when it was stopped is not done.
            Ok(
                RoundOutcome::Reply(FinishReason::Refusal, _)
                | RoundOutcome::TooLong(_)
                | RoundOutcome::Cancelled,
            )
            | Err(_) => false,
            Ok(RoundOutcome::Reply(_, reply)) => reply.calls().any(|call| call.id == tool.id()),
        };
        let (coming, broken_off) = std::mem::take(&mut self.begun).into_iter().partition::<Vec<_>, _>(comes);
        for tool in broken_off {
            self.used.insert(tool.id().to_owned());
            tool.stopped().await;
        }
        self.begun = coming;
        heard
    }

    async fn hear_answer(&mut self, model: &Model, request: &Request) -> Result<RoundOutcome, RpcError> {
        let mut answer = self.models.stream(request);
        let mut writers = MessageWriters::default();
        loop {
            let event = tokio::select! {
                biased;
                // The answer is dropped with this, and then the request stops.
                () = self.turn.cancelled() => return Ok(RoundOutcome::Cancelled),
                event = answer.next() => event,
            };
            match event {
                Some(Ok(ModelEvent::Finished { reason, reply })) => {
                    return Ok(RoundOutcome::Reply(reason, reply));
                }
                Some(Ok(event)) => self.show(model, event, &mut writers).await,
                Some(Err(error @ ModelError::ContextTooLong { .. })) => {
                    return Ok(RoundOutcome::TooLong(error));
                }
                Some(Err(error)) => return Err(rpc_error(&error)),
                None => return Err(RpcError::internal("the model's answer ended early")),
            }
        }
    }
}

fn call_ids(history: &[Value]) -> HashSet<String> {
    history.iter().filter_map(|item| item["toolCallId"].as_str().map(str::to_owned)).collect()
}

/// A call whose id the session has already, from before a compaction or from another agent, is another call.
fn with_new_ids(reply: &mut Reply, used: &HashSet<String>) {
    for part in &mut reply.parts {
        if let Part::Call(call) = part
            && used.contains(&call.id)
        {
            call.id = format!("call_{}", ids::unique().simple());
        }
    }
}

fn stop(reason: &FinishReason) -> Stop {
    match reason {
        FinishReason::Stop | FinishReason::ToolUse => Stop::EndTurn,
        FinishReason::Length => Stop::MaxTokens,
        FinishReason::Refusal => Stop::Refusal,
        FinishReason::Other(_) => Stop::EndTurn,
    }
}
