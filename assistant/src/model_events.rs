//! The state of a turn with a model, and showing the model's events to the user.

use std::collections::HashSet;

use rethread::author::{self, Tokens, Tool, ToolCall, Turn};
use rethread::wire::{RpcError, code};

use crate::call_context::short;
use crate::model::{Message, Model, ModelError, ModelEvent, Models, Usage};
use crate::session::Session;
use crate::{memory, tool_calls};

/// The state of a turn with a model.
pub(crate) struct ModelTurn<'a> {
    pub(crate) models: &'a Models,
    pub(crate) session: &'a Session,
    pub(crate) turn: &'a Turn,
    /// The messages of the earlier turns.
    pub(crate) past: Vec<Message>,
    /// The messages of this turn.
    pub(crate) now: Vec<Message>,
    /// The cost of the session so far, in US dollars.
    pub(crate) cost: Option<f64>,
    /// Whether the user was warned that the turn is too long for the model.
    pub(crate) warned: bool,
    /// The ids of tool calls before the current answer.
    pub(crate) used: HashSet<String>,
    /// Calls that were announced before their arguments were complete.
    pub(crate) begun: Vec<Tool>,
}

impl ModelTurn<'_> {
    /// Shows an event to the user.
    pub(crate) async fn show(&mut self, model: &Model, event: ModelEvent, writers: &mut MessageWriters) {
        match event {
            ModelEvent::Text(text) => writers.message(self.turn).write(&text).await,
            ModelEvent::Thought(text) => writers.thought(self.turn).write(&text).await,
            ModelEvent::Retrying { attempt, wait, why } => {
                let title = format!("{} did not answer; retrying in {} s", model.name, wait.as_secs().max(1));
                let why = format!("Attempt {attempt}: {why}");
                self.turn.notice("warning", &title, Some(&why)).await;
            }
            ModelEvent::LeftOut { what, why } => {
                let title = format!("{} does not accept {what}; retrying without", model.name);
                self.turn.notice("warning", &title, Some(&why)).await;
                self.turn.options_changed().await;
            }
            ModelEvent::Usage(usage) => {
                self.paid(&usage);
                // The protocol requires a window size, so nothing is sent if it is unknown.
                if let Some(window) = self.models.window(&model.id).await {
                    self.turn.usage(usage.input + usage.output, window, self.cost).await;
                }
            }
            ModelEvent::ToolCallStarted { id, name } => self.show_begun(&id, &name).await,
            // Both are part of the reply.
            ModelEvent::ToolCall(_) | ModelEvent::Finished { .. } => {}
        }
    }

    /// Announces a call before its arguments are complete; those with a long file take a while.
    async fn show_begun(&mut self, id: &str, name: &str) {
        if !self.used.contains(id) {
            let about = ToolCall::new(&short(name), tool_calls::kind_of(self.session, name)).with_id(id);
            self.begun.push(self.turn.tool(about.with("_meta", memory::written_begun(name))).await);
        }
    }

    /// Adds the usage of an answer to the cost of the session and the usage of the turn.
    pub(crate) fn paid(&mut self, usage: &Usage) {
        let Usage { input, output, cached, cache_written, .. } = *usage;
        self.turn.spent(Tokens { input, output, cached_read: cached, cached_write: cache_written });
        self.cost = match (self.cost, usage.cost) {
            (Some(so_far), Some(more)) => Some(so_far + more),
            (so_far, more) => so_far.or(more),
        };
    }
}

/// The message and the thought that are being streamed.
#[derive(Default)]
pub(crate) struct MessageWriters {
    message: Option<author::MessageWriter>,
    thought: Option<author::MessageWriter>,
}

impl MessageWriters {
    fn message(&mut self, turn: &Turn) -> &author::MessageWriter {
        self.thought = None;
        self.message.get_or_insert_with(|| turn.message())
    }

    fn thought(&mut self, turn: &Turn) -> &author::MessageWriter {
        self.message = None;
        self.thought.get_or_insert_with(|| turn.thought())
    }
}

/// Converts a model error to the error of a turn.
pub(crate) fn rpc_error(error: &ModelError) -> RpcError {
    let unauthorised = matches!(error, ModelError::Unauthorised { .. });
    let code = if unauthorised { code::AUTH_REQUIRED } else { code::INTERNAL };
    RpcError::new(code, error.to_string()).hint(error.hint())
}
