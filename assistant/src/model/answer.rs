//! One answer as a stream: asking, waiting and asking again while nothing has come, hearing, and the end. Dropping it
//! closes the connection.

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

/// What a model says, event by event. It ends with `ModelEvent::Finished` or with an error.
pub struct AnswerStream {
    events: BoxStream<'static, Result<ModelEvent, ModelError>>,
}

impl AnswerStream {
    /// One that only fails.
    pub(super) fn failed(error: ModelError) -> Self {
        Self { events: futures::stream::iter([Err(error)]).boxed() }
    }

    pub(super) fn to(question: ModelQuery) -> Self {
        let (stage, gathered, ready) = (ExchangeStage::Asking, PartialAnswer::default(), VecDeque::new());
        let talk = Exchange { question, attempt: 0, stage, told: false, gathered, ready, route: None };
        let next = |mut talk: Exchange| async move {
            let event = talk.next().await?;
            Some((event, talk))
        };
        Self { events: futures::stream::unfold(talk, next).boxed() }
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

/// All that is needed to ask, once or again.
pub(super) struct ModelQuery {
    pub(super) web: Arc<HttpClients>,
    /// What reaches the provider.
    pub(super) client: reqwest::Client,
    pub(super) provider: Arc<Provider>,
    /// The full id.
    pub(super) model: String,
    pub(super) chat: ChatRequest,
    pub(super) options: ChatOptions,
    pub(super) tap: Arc<RawFrames>,
    pub(super) reader: ReplyReader,
    pub(super) patience: ProviderLimits,
}

impl ModelQuery {
    /// A way to the provider through the relay, and a client of the library that knows no other.
    async fn route(&self) -> Result<(Route, genai::Client), String> {
        let address = Url::parse(&self.provider.address).map_err(|error| error.to_string())?;
        let way = RouteTarget { client: self.client.clone(), address, tap: self.tap.clone() };
        let route = self.web.relay.route(way).await?;
        let client = genai::Client::builder().with_reqwest(route.client.clone()).build();
        Ok((route, client.map_err(|error| error.to_string())?))
    }

    fn target(&self, route: &Route) -> ServiceTarget {
        target::target(&self.provider.config, &route.address, model_of(&self.model))
    }

    /// Whether this is part of it.
    fn sends(&self, lack: Unsupported) -> bool {
        match lack {
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
    Hearing(ChatStream),
    Over,
}

struct Exchange {
    question: ModelQuery,
    /// How often it was asked.
    attempt: u32,
    stage: ExchangeStage,
    /// Whether anything of the answer has come. From then on there is no way back.
    told: bool,
    gathered: PartialAnswer,
    ready: VecDeque<Result<ModelEvent, ModelError>>,
    /// The way that the answer comes by.
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
                ExchangeStage::Hearing(stream) => {
                    let heard = stream.next().await;
                    self.hear(heard);
                }
                ExchangeStage::Over => return None,
            }
        }
    }

    async fn ask(&mut self) {
        self.attempt += 1;
        let question = &self.question;
        question.tap.clear();
        self.gathered = PartialAnswer::default();
        let (route, client) = match question.route().await {
            Ok(way) => way,
            Err(why) => return self.settle(self.blamed().unreachable(&why)),
        };
        let (target, chat) = (question.target(&route), question.chat.clone());
        let asked = client.exec_chat_stream(target, chat, Some(&question.options)).await;
        self.route = Some(route);
        match asked {
            Ok(answer) => self.stage = ExchangeStage::Hearing(answer.stream),
            Err(error) => self.fail(&error),
        }
    }

    fn hear(&mut self, heard: Option<genai::Result<ChatStreamEvent>>) {
        match heard {
            Some(Ok(ChatStreamEvent::Chunk(chunk))) => {
                self.gathered.text(&chunk.content);
                self.tell(ModelEvent::Text, chunk.content);
            }
            Some(Ok(ChatStreamEvent::ReasoningChunk(chunk))) => {
                self.gathered.thought(&chunk.content);
                self.tell(ModelEvent::Thought, chunk.content);
            }
            Some(Ok(ChatStreamEvent::ToolCallChunk(chunk))) => {
                let begun = self.question.reader.begun(&chunk.tool_call);
                let is_new = self.gathered.call(chunk.tool_call);
                self.ready.extend(begun.filter(|_| is_new).map(Ok));
                self.told = true;
            }
            Some(Ok(ChatStreamEvent::ThoughtSignatureChunk(_))) => self.told = true,
            Some(Ok(ChatStreamEvent::Start | ChatStreamEvent::Heartbeat)) => {}
            Some(Ok(ChatStreamEvent::End(end))) => self.finish(end),
            Some(Err(error)) => self.fail(&error),
            None => self.over(),
        }
    }

    /// The server has closed the connection, and did not say before that this is the end.
    fn over(&mut self) {
        let heard = self.question.tap.heard();
        match heard.finished {
            Some(reason) => {
                let end = std::mem::take(&mut self.gathered).end(reason);
                self.finish(end);
            }
            None if !heard.anything => self.break_off("it was empty"),
            None if heard.events => self.break_off("the stream ended before the answer was complete"),
            None => self.settle(self.blamed().malformed("its answer is not a stream of events")),
        }
    }

    fn tell(&mut self, kind: fn(String) -> ModelEvent, text: String) {
        if !text.is_empty() {
            self.told = true;
            self.ready.push_back(Ok(kind(text)));
        }
    }

    fn finish(&mut self, end: genai::chat::StreamEnd) {
        let heard = self.question.tap.heard();
        if let Some(fault) = self.blamed().overheard(&heard) {
            return self.settle(fault);
        }
        if heard.blocked.is_none() && !incoming::is_whole(self.question.provider.config.kind, &end) {
            return self.break_off("the stream ended before the answer was complete");
        }
        let events = self.question.reader.read(end, &heard);
        self.ready.extend(events.into_iter().map(Ok));
        self.stage = ExchangeStage::Over;
    }

    fn break_off(&mut self, how: &str) {
        let provider = self.question.provider.config.name.clone();
        let error = ModelError::BrokenOff { provider, cause: how.to_owned() };
        match self.told {
            true => self.end_with(error),
            false => self.try_again(error, None),
        }
    }

    fn end_with(&mut self, error: ModelError) {
        self.ready.push_back(Err(error));
        self.stage = ExchangeStage::Over;
    }

    fn fail(&mut self, error: &genai::Error) {
        let heard = self.question.tap.heard();
        if heard.blocked.is_some() && self.question.provider.config.kind == ProviderKind::Gemini {
            // It says so in place of an answer, which the library takes for an error.
            return self.finish(genai::chat::StreamEnd::default());
        }
        let blamed = self.blamed();
        let fault = blamed.overheard(&heard).unwrap_or_else(|| blamed.sort(error));
        self.settle(fault);
    }

    fn settle(&mut self, Fault { error, again }: Fault) {
        if let Some(lack) =
            Unsupported::told_by(&error).filter(|lack| !self.told && self.question.sends(*lack))
        {
            return self.leave_out(lack, &error);
        }
        match (error, again) {
            // What was told cannot be taken back, and what breaks it off is not that nobody was there.
            (ModelError::Unreachable { cause, .. }, _) if self.told => self.break_off(&cause),
            (error, Retry::After(wished)) if !self.told => self.try_again(error, wished),
            (error, Retry::After(_) | Retry::No) => self.end_with(error),
        }
    }

    fn try_again(&mut self, error: ModelError, wished: Option<Duration>) {
        let patience = &self.question.patience;
        let wait = wished.unwrap_or_else(|| patience.pause(self.attempt));
        if self.attempt > patience.retries || wait > patience.longest_pause {
            return self.end_with(error);
        }
        self.ready.push_back(Ok(ModelEvent::Retrying {
            attempt: self.attempt,
            wait,
            why: error.to_string(),
        }));
        self.stage = ExchangeStage::Waiting(wait);
    }

    /// Asks again without what the model does not take.
    fn leave_out(&mut self, lack: Unsupported, error: &ModelError) {
        let question = &mut self.question;
        match lack {
            Unsupported::Temperature => question.options.temperature = None,
            Unsupported::Tools => question.chat.tools = None,
            Unsupported::Images | Unsupported::TheseImages => outgoing::leave_out_images(&mut question.chat),
            Unsupported::Thoughts => question.options.capture_reasoning_content = Some(false),
        }
        if lack.is_lasting() {
            question.provider.lacking(model_of(&question.model), lack);
        }
        let (what, why) = (lack.name().to_owned(), error.to_string());
        self.ready.push_back(Ok(ModelEvent::LeftOut { what, why }));
        self.stage = ExchangeStage::Asking;
    }

    fn blamed(&self) -> FaultContext<'_> {
        FaultContext {
            provider: &self.question.provider.config,
            address: &self.question.provider.address,
            model: &self.question.model,
            attempts: self.attempt,
            idle: self.question.patience.idle,
        }
    }
}

impl ProviderLimits {
    /// Twice as long each time, and never quite the same, so that many who were turned away do not come back together.
    fn pause(&self, attempt: u32) -> Duration {
        let doubled = self.first_pause.saturating_mul(1 << (attempt.saturating_sub(1)).min(16));
        let [.., last] = *ids::unique().as_bytes();
        let jitter = 0.75 + f64::from(last) / 255.0 / 2.0;
        doubled.mul_f64(jitter).min(self.longest_pause)
    }
}
