//! Runs a turn with a model: sends the conversation, streams the answer to the user, runs tool calls, and repeats until
//! the model is done.

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

/// The maximum number of answers in one turn.
const MOST_ROUNDS: usize = 100;

/// The result of one request to the model.
enum RoundOutcome {
    Reply(FinishReason, Reply),
    TooLong(ModelError),
    Cancelled,
}

impl<'a> ModelTurn<'a> {
    /// A turn for the newest prompt of the session.
    pub(crate) fn new(models: &'a Models, session: &'a Session, turn: &'a Turn) -> Self {
        let history = turn.history();
        let Conversation { past, now } = memory::conversation(&history);
        let (cost, warned, used) = (Session::cost(&history), false, call_ids(&history));
        Self { models, session, turn, past, now, cost, warned, used, begun: Vec::new() }
    }

    /// Runs the turn until the model is done. The model may change between two requests.
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
            // Calls of an answer that was stopped are not run.
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
        self.turn.notice("warning", &most, Some("Send a prompt such as \"go on\" to continue.")).await;
        Ok(Stop::MaxTurnRequests)
    }

    /// Sends one request. Compacts the conversation first if it is too long, or when the provider rejects it as too long.
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
                outcome @ (RoundOutcome::Reply(..) | RoundOutcome::Cancelled) => return Ok(outcome),
            }
        }
    }

    /// Warns the user, because Ollama drops the beginning of a long conversation without an error.
    async fn warn_if_too_long(&mut self, model: &Model, request: &Request) {
        let Some(window) = model.context_window.filter(|window| request.estimate() > *window) else { return };
        if !std::mem::replace(&mut self.warned, true) {
            let title = format!("The conversation may be too long for {}", model.name);
            let why = format!(
                "It has about {} tokens, and the context window of the model has {window}.",
                request.estimate()
            );
            self.turn.notice("warning", &title, Some(&why)).await;
        }
    }

    /// Shows a notice if the answer has no text and no call.
    async fn say_if_empty(&self, model: &Model, reason: &FinishReason, reply: &Reply) {
        if reply.calls().next().is_some() || !reply.text().trim().is_empty() {
            return;
        }
        let why = match reason {
            FinishReason::Refusal => "The model or a filter refused to answer.".to_owned(),
            FinishReason::Length => "It used all output tokens before it sent any text.".to_owned(),
            FinishReason::Other(word) => format!("Its answer ended with {word}."),
            FinishReason::Stop | FinishReason::ToolUse => {
                "It stopped without any text or tool call.".to_owned()
            }
        };
        self.turn.notice("warning", &format!("{} sent an empty answer", model.name), Some(&why)).await;
    }

    async fn request(&self, model: &Model) -> Request {
        // Read now, because compacting may have taken a while.
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
        let title = format!("{} tools of MCP servers are not offered to {}", offered.left_out, model.name);
        let why = format!(
            "The limit is {} tools. Connect fewer servers, or set `max_tools` of the model if it accepts more.",
            model.max_tools
        );
        self.turn.notice("warning", &title, Some(&why)).await;
    }

    /// Receives one answer. Announced calls that were not completed are marked as stopped.
    async fn receive(&mut self, model: &Model, request: &Request) -> Result<RoundOutcome, RpcError> {
        let outcome = self.receive_answer(model, request).await;
        let comes = |tool: &Tool| match &outcome {
            // Calls of an answer that was stopped are not run.
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
        outcome
    }

    async fn receive_answer(&mut self, model: &Model, request: &Request) -> Result<RoundOutcome, RpcError> {
        let mut answer = self.models.stream(request);
        let mut writers = MessageWriters::default();
        loop {
            let event = tokio::select! {
                biased;
                // Dropping the answer cancels the request.
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

/// Gives a new id to each call whose id is already used in the session, maybe by another agent.
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
