//! A test fixture: a model server of one protocol and the models that use it.

use std::time::Duration;

use futures::StreamExt;
use rethread_assistant::model::{
    Effort, FinishReason, Message, ModelConfig, ModelError, ModelEvent, Models, Price, ProviderConfig,
    ProviderKind, ProviderLimits, Reply, Request, Secret, ToolDefinition,
};
use rethread_testkit::DEADLINE;
use rethread_testkit::model::ModelServer;
use serde_json::{Value, json};

pub(crate) const KINDS: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::OpenAiResponses,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];
pub(crate) const KEY: &str = "sk-loopback-secret";
pub(crate) const MODEL: &str = "here/loopback-1";

pub(crate) struct Fixture {
    pub(crate) kind: ProviderKind,
    pub(crate) server: ModelServer,
    pub(crate) models: Models,
}

impl Fixture {
    pub(crate) fn new(kind: ProviderKind) -> Self {
        Self::with(kind, |_| {})
    }

    pub(crate) fn with(kind: ProviderKind, change: impl FnOnce(&mut ProviderConfig)) -> Self {
        let server = ModelServer::start();
        let mut config = config(kind, &format!("http://127.0.0.1:{}", server.port()));
        change(&mut config);
        let models = Models::new(vec![config]).expect("the address is usable").with_limits(limits());
        Self { kind, server, models }
    }

    /// Sends a request and receives the whole answer.
    pub(crate) async fn ask(&self, request: &Request) -> ReceivedAnswer {
        receive(&self.models, request).await
    }

    /// The body of the newest request.
    pub(crate) fn body(&self) -> Value {
        self.server.asked().last().expect("something was asked").body.clone()
    }
}

pub(crate) fn config(kind: ProviderKind, url: &str) -> ProviderConfig {
    let price = Price { input: 2.0, output: 10.0, cached: Some(1.0), cache_write: None, up_to: None };
    let model = ModelConfig {
        context_window: Some(8_000),
        price: Some(price),
        efforts: Some(vec![Effort::Low, Effort::High]),
        ..ModelConfig::new("loopback-1")
    };
    ProviderConfig {
        base_url: Some(url.to_owned()),
        key: Some(Secret::new(KEY)),
        models: vec![model],
        ..ProviderConfig::new("here", kind)
    }
}

pub(crate) fn limits() -> ProviderLimits {
    ProviderLimits {
        retries: 2,
        first_pause: Duration::from_millis(10),
        longest_pause: Duration::from_secs(3),
        idle: Duration::from_secs(4),
        ..ProviderLimits::default()
    }
}

/// The events and the error of an answer.
#[derive(Debug, Default)]
pub(crate) struct ReceivedAnswer {
    pub(crate) events: Vec<ModelEvent>,
    pub(crate) error: Option<ModelError>,
}

impl ReceivedAnswer {
    pub(crate) fn text(&self) -> String {
        let text =
            |event: &ModelEvent| if let ModelEvent::Text(text) = event { Some(text.clone()) } else { None };
        self.events.iter().filter_map(text).collect()
    }

    pub(crate) fn thoughts(&self) -> String {
        let text = |event: &ModelEvent| {
            if let ModelEvent::Thought(text) = event { Some(text.clone()) } else { None }
        };
        self.events.iter().filter_map(text).collect()
    }

    pub(crate) fn retries(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, ModelEvent::Retrying { .. })).count()
    }

    /// The finish reason and the reply; panics if the answer has no end.
    pub(crate) fn end(&self) -> (FinishReason, Reply) {
        match self.events.last() {
            Some(ModelEvent::Finished { reason, reply }) => (reason.clone(), reply.clone()),
            _ => panic!("no end: {self:#?}"),
        }
    }
}

pub(crate) async fn receive(models: &Models, request: &Request) -> ReceivedAnswer {
    let mut received = ReceivedAnswer::default();
    let mut answer = models.stream(request);
    let all = async {
        while let Some(event) = answer.next().await {
            match event {
                Ok(event) => received.events.push(event),
                Err(error) => assert!(received.error.replace(error).is_none(), "an error is the end"),
            }
        }
    };
    tokio::time::timeout(DEADLINE * 2, all).await.expect("the answer ends");
    received
}

pub(crate) fn request(text: &str) -> Request {
    Request { model: MODEL.to_owned(), messages: vec![Message::user(text)], ..Request::default() }
}

pub(crate) fn tools() -> Vec<ToolDefinition> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: "Reads a file".to_owned(),
        schema: schema.clone(),
    };
    vec![tool("files.read"), tool("stat")]
}
