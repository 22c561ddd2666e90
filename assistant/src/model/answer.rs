//! The answer of a model as a stream of events: sends the request, retries while nothing has arrived, decodes the stream.
//! Dropping the stream closes the connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use genai::ServiceTarget;
use genai::chat::{ChatOptions, ChatRequest, ChatStream, ChatStreamEvent};
use reqwest::Url;
use rethread::ids;

use super::ProviderLimits;
use super::config::ProviderKind;
use super::error::ModelError;
use super::event::ModelEvent;
use super::fault::{Fault, FaultContext, Retry};
use super::http_clients::HttpClients;
use super::incoming::{self, ReplyReader};
use super::options::model_of;
use super::outgoing;
use super::partial_answer::PartialAnswer;
use super::provider::Provider;
use super::raw_frames::RawFrames;
use super::relay::{Route, RouteTarget};
use super::target;
use super::unsupported::Unsupported;

/// The events of one answer. The last one is `ModelEvent::Finished` or an error.
pub struct AnswerStream {
    events: BoxStream<'static, Result<ModelEvent, ModelError>>,
}

impl AnswerStream {
    /// A stream that yields only this error.
    pub(super) fn failed(error: ModelError) -> Self {
        Self { events: futures::stream::iter([Err(error)]).boxed() }
    }

    pub(super) fn to(query: ModelQuery) -> Self {
        let (stage, partial, ready) = (ExchangeStage::Asking, PartialAnswer::default(), VecDeque::new());
        let exchange = Exchange { query, attempt: 0, stage, started: false, partial, ready, route: None };
        let next = |mut exchange: Exchange| async move {
            let event = exchange.next().await?;
            Some((event, exchange))
        };
        Self { events: futures::stream::unfold(exchange, next).boxed() }
    }
}

impl Stream for AnswerStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(context)
    }
}

impl std::fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerStream").finish_non_exhaustive()
    }
}

/// A request to a provider, with everything that sending and retrying it needs.
pub(super) struct ModelQuery {
    pub(super) web: Arc<HttpClients>,
    /// The HTTP client for the provider.
    pub(super) client: reqwest::Client,
    pub(super) provider: Arc<Provider>,
    /// The full id: `provider/model`.
    pub(super) model: String,
    pub(super) chat: ChatRequest,
    pub(super) options: ChatOptions,
    pub(super) frames: Arc<RawFrames>,
    pub(super) reader: ReplyReader,
    pub(super) limits: ProviderLimits,
}

impl ModelQuery {
    /// Opens a route to the provider through the relay, with a client of `genai` that can reach only the relay.
    async fn route(&self) -> Result<(Route, genai::Client), String> {
        let address = Url::parse(&self.provider.address).map_err(|error| error.to_string())?;
        let target = RouteTarget { client: self.client.clone(), address, frames: self.frames.clone() };
        let route = self.web.relay.route(target).await?;
        let client = genai::Client::builder().with_reqwest(route.client.clone()).build();
        Ok((route, client.map_err(|error| error.to_string())?))
    }

    fn target(&self, route: &Route) -> ServiceTarget {
        target::target(&self.provider.config, &route.address, model_of(&self.model))
    }

    /// Whether the request uses this feature.
    fn sends(&self, feature: Unsupported) -> bool {
        match feature {
            Unsupported::Temperature => self.options.temperature.is_some(),
            Unsupported::Tools => self.chat.tools.is_some(),
            Unsupported::Images | Unsupported::TheseImages => outgoing::has_images(&self.chat),
            Unsupported::Thoughts => self.options.capture_reasoning_content == Some(true),
        }
    }
}

enum ExchangeStage {
    Asking,
    Waiting(Duration),
    Receiving(ChatStream),
    Over,
}

struct Exchange {
    query: ModelQuery,
    /// The number of attempts so far.
    attempt: u32,
    stage: ExchangeStage,
    /// Whether any part of the answer was passed on. From then on the request is not retried.
    started: bool,
    partial: PartialAnswer,
    ready: VecDeque<Result<ModelEvent, ModelError>>,
    /// The route that the answer arrives on.
    route: Option<Route>,
}

impl Exchange {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match &mut self.stage {
                ExchangeStage::Asking => self.ask().await,
                ExchangeStage::Waiting(pause) => {
                    tokio::time::sleep(*pause).await;
                    self.stage = ExchangeStage::Asking;
                }
                ExchangeStage::Receiving(stream) => {
                    let observed = stream.next().await;
                    self.receive(observed);
                }
                ExchangeStage::Over => return None,
            }
        }
    }

    async fn ask(&mut self) {
        self.attempt += 1;
        let query = &self.query;
        query.frames.clear();
        self.partial = PartialAnswer::default();
        let (route, client) = match query.route().await {
            Ok(target) => target,
            Err(why) => return self.settle(self.fault_context().unreachable(&why)),
        };
        let (target, chat) = (query.target(&route), query.chat.clone());
        let asked = client.exec_chat_stream(target, chat, Some(&query.options)).await;
        self.route = Some(route);
        match asked {
            Ok(answer) => self.stage = ExchangeStage::Receiving(answer.stream),
            Err(error) => self.fail(&error),
        }
    }

    fn receive(&mut self, observed: Option<genai::Result<ChatStreamEvent>>) {
        match observed {
            Some(Ok(ChatStreamEvent::Chunk(chunk))) => {
                self.partial.text(&chunk.content);
                self.emit(ModelEvent::Text, chunk.content);
            }
            Some(Ok(ChatStreamEvent::ReasoningChunk(chunk))) => {
                self.partial.thought(&chunk.content);
                self.emit(ModelEvent::Thought, chunk.content);
            }
            Some(Ok(ChatStreamEvent::ToolCallChunk(chunk))) => {
                let begun = self.query.reader.begun(&chunk.tool_call);
                let is_new = self.partial.call(chunk.tool_call);
                self.ready.extend(begun.filter(|_| is_new).map(Ok));
                self.started = true;
            }
            Some(Ok(ChatStreamEvent::ThoughtSignatureChunk(_))) => self.started = true,
            Some(Ok(ChatStreamEvent::Start | ChatStreamEvent::Heartbeat)) => {}
            Some(Ok(ChatStreamEvent::End(end))) => self.finish(end),
            Some(Err(error)) => self.fail(&error),
            None => self.connection_closed(),
        }
    }

    /// Handles a connection that the server closed without an end event.
    fn connection_closed(&mut self) {
        let observed = self.query.frames.observed();
        match observed.finished {
            Some(reason) => {
                let end = std::mem::take(&mut self.partial).end(reason);
                self.finish(end);
            }
            None if !observed.anything => self.end_early("it was empty"),
            None if observed.events => self.end_early("the stream ended before the answer was complete"),
            None => self.settle(self.fault_context().malformed("its answer is not a stream of events")),
        }
    }

    fn emit(&mut self, kind: fn(String) -> ModelEvent, text: String) {
        if !text.is_empty() {
            self.started = true;
            self.ready.push_back(Ok(kind(text)));
        }
    }

    fn finish(&mut self, end: genai::chat::StreamEnd) {
        let observed = self.query.frames.observed();
        if let Some(fault) = self.fault_context().observed_fault(&observed) {
            return self.settle(fault);
        }
        if observed.blocked.is_none() && !incoming::is_whole(self.query.provider.config.kind, &end) {
            return self.end_early("the stream ended before the answer was complete");
        }
        let events = self.query.reader.read(end, &observed);
        self.ready.extend(events.into_iter().map(Ok));
        self.stage = ExchangeStage::Over;
    }

    fn end_early(&mut self, how: &str) {
        let provider = self.query.provider.config.name.clone();
        let error = ModelError::Truncated { provider, cause: how.to_owned() };
        match self.started {
            true => self.end_with(error),
            false => self.try_again(error, None),
        }
    }

    fn end_with(&mut self, error: ModelError) {
        self.ready.push_back(Err(error));
        self.stage = ExchangeStage::Over;
    }

    fn fail(&mut self, error: &genai::Error) {
        let observed = self.query.frames.observed();
        if observed.blocked.is_some() && self.query.provider.config.kind == ProviderKind::Gemini {
            // Gemini sends the block reason in place of an answer, and `genai` reports that as an error.
            return self.finish(genai::chat::StreamEnd::default());
        }
        let fault_context = self.fault_context();
        let fault = fault_context.observed_fault(&observed).unwrap_or_else(|| fault_context.sort(error));
        self.settle(fault);
    }

    fn settle(&mut self, Fault { error, retry }: Fault) {
        if let Some(feature) =
            Unsupported::from_error(&error).filter(|feature| !self.started && self.query.sends(*feature))
        {
            return self.leave_out(feature, &error);
        }
        match (error, retry) {
            // Part of the answer was passed on, so the server was reachable: the answer ended early.
            (ModelError::Unreachable { cause, .. }, _) if self.started => self.end_early(&cause),
            (error, Retry::After(requested)) if !self.started => self.try_again(error, requested),
            (error, Retry::After(_) | Retry::No) => self.end_with(error),
        }
    }

    fn try_again(&mut self, error: ModelError, requested: Option<Duration>) {
        let limits = &self.query.limits;
        let wait = requested.unwrap_or_else(|| limits.pause(self.attempt));
        if self.attempt > limits.retries || wait > limits.longest_pause {
            return self.end_with(error);
        }
        self.ready.push_back(Ok(ModelEvent::Retrying {
            attempt: self.attempt,
            wait,
            why: error.to_string(),
        }));
        self.stage = ExchangeStage::Waiting(wait);
    }

    /// Repeats the request without a feature that the model rejected.
    fn leave_out(&mut self, feature: Unsupported, error: &ModelError) {
        let query = &mut self.query;
        match feature {
            Unsupported::Temperature => query.options.temperature = None,
            Unsupported::Tools => query.chat.tools = None,
            Unsupported::Images | Unsupported::TheseImages => outgoing::leave_out_images(&mut query.chat),
            Unsupported::Thoughts => query.options.capture_reasoning_content = Some(false),
        }
        if feature.is_lasting() {
            query.provider.add_unsupported(model_of(&query.model), feature);
        }
        let (what, why) = (feature.name().to_owned(), error.to_string());
        self.ready.push_back(Ok(ModelEvent::LeftOut { what, why }));
        self.stage = ExchangeStage::Asking;
    }

    fn fault_context(&self) -> FaultContext<'_> {
        FaultContext {
            provider: &self.query.provider.config,
            address: &self.query.provider.address,
            model: &self.query.model,
            attempts: self.attempt,
            idle: self.query.limits.idle,
        }
    }
}

impl ProviderLimits {
    /// The pause before the next attempt: it doubles each time, with jitter so that many clients do not retry together.
    fn pause(&self, attempt: u32) -> Duration {
        let doubled = self.first_pause.saturating_mul(1 << (attempt.saturating_sub(1)).min(16));
        let [.., last] = *ids::unique().as_bytes();
        let jitter = 0.75 + f64::from(last) / 255.0 / 2.0;
        doubled.mul_f64(jitter).min(self.longest_pause)
    }
}
