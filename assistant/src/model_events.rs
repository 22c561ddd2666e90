//! The state of a turn with a model, and what the user sees of each event that the model sends.

use std::collections::HashSet;

use rethread::author::{self, Tokens, Tool, ToolCall, Turn};
use rethread::wire::{RpcError, code};

use crate::call_context::short;
use crate::model::{Message, Model, ModelError, ModelEvent, Models, Usage};
use crate::session::Session;
use crate::{memory, tool_calls};

/// A turn with a model.
pub(crate) struct ModelTurn<'a> {
    pub(crate) models: &'a Models,
    pub(crate) session: &'a Session,
    pub(crate) turn: &'a Turn,
    /// The turns before.
    pub(crate) past: Vec<Message>,
    /// This turn.
    pub(crate) now: Vec<Message>,
    /// What the session cost so far.
    pub(crate) cost: Option<f64>,
    /// Whether the user was told that the turn is too long for the model.
    pub(crate) warned: bool,
    /// The ids of tool calls before the answer that is being heard.
    pub(crate) used: HashSet<String>,
    /// Calls that the model has begun to write.
    pub(crate) begun: Vec<Tool>,
}

impl ModelTurn<'_> {
    /// Tells the user of an event.
    pub(crate) async fn show(&mut self, model: &Model, event: ModelEvent, writers: &mut MessageWriters) {
        match event {
            ModelEvent::Text(text) => writers.message(self.turn).write(&text).await,
            ModelEvent::Thought(text) => writers.thought(self.turn).write(&text).await,
            ModelEvent::Retrying { attempt, wait, why } => {
                let title =
                    format!("{} did not answer; trying again in {} s", model.name, wait.as_secs().max(1));
                let why = format!("Attempt {attempt}: {why}");
                self.turn.notice("warning", &title, Some(&why)).await;
            }
            ModelEvent::LeftOut { what, why } => {
                let title = format!("{} does not accept {what}; asking again without", model.name);
                self.turn.notice("warning", &title, Some(&why)).await;
                self.turn.options_changed().await;
            }
            ModelEvent::Usage(usage) => {
                self.paid(&usage);
                // The protocol has no word for a window that is not known, and a made-up one would mislead.
                if let Some(window) = self.models.window(&model.id).await {
                    self.turn.usage(usage.input + usage.output, window, self.cost).await;
                }
            }
            ModelEvent::Calling { id, name } => self.show_begun(&id, &name).await,
            // Both are in the reply, which comes whole at the end.
            ModelEvent::ToolCall(_) | ModelEvent::Finished { .. } => {}
        }
    }

    /// Tells of a call before its arguments are complete: those of a long file take a while.
    async fn show_begun(&mut self, id: &str, name: &str) {
        if !self.used.contains(id) {
            let about = ToolCall::new(&short(name), tool_calls::kind_of(self.session, name)).with_id(id);
            self.begun.push(self.turn.tool(about.with("_meta", memory::written_begun(name))).await);
        }
    }

    /// Adds to what the session cost, and to what the turn used.
    pub(crate) fn paid(&mut self, usage: &Usage) {
        let Usage { input, output, cached, cache_written, .. } = *usage;
        self.turn.spent(Tokens { input, output, cached_read: cached, cached_write: cache_written });
        self.cost = match (self.cost, usage.cost) {
            (Some(so_far), Some(more)) => Some(so_far + more),
            (so_far, more) => so_far.or(more),
        };
    }
}

/// The message that is being told, if one is.
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

/// What went wrong with a model, as the error of a turn.
pub(crate) fn rpc_error(error: &ModelError) -> RpcError {
    let unauthorised = matches!(error, ModelError::Unauthorised { .. });
    let code = if unauthorised { code::AUTH_REQUIRED } else { code::INTERNAL };
    RpcError::new(code, error.to_string()).hint(error.hint())
}
