//! Sends updates of one session to the client: messages, thoughts, tool calls, plans and more, in a turn or outside.
//! Keeps the session's history and chosen options.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::about::{Ability, About};
use super::connection::ClientConnection;
use super::option::{self, Choices, ConfigOption};
use super::terminal::Terminal;
use super::tokens::Tokens;
use super::tool::{Tool, ToolCall};
use crate::history::ConversationHistory;
use crate::ids;
use crate::lock::locked;
use crate::wire::RpcError;

/// Sends the updates of one session. Clones share their state.
#[derive(Clone)]
pub struct Emitter {
    inner: Arc<Inner>,
}

/// Which options and values can be chosen.
pub(super) struct Offer {
    pub(super) options: Box<OptionsFn>,
    pub(super) accepts: Box<AcceptsFn>,
}

/// Returns the options for the chosen values.
type OptionsFn = dyn Fn(&Choices) -> Vec<ConfigOption> + Send + Sync;

/// Returns whether a value that is not offered is accepted.
type AcceptsFn = dyn Fn(&str, &Value) -> bool + Send + Sync;

struct Inner {
    session: String,
    client: Arc<ClientConnection>,
    offer: Offer,
    state: Mutex<EmitterState>,
    /// Notifies that a value was chosen.
    choosing: watch::Sender<()>,
}

#[derive(Default)]
struct EmitterState {
    history: ConversationHistory,
    chosen: Choices,
    /// The token usage of the running turn so far.
    spent: Tokens,
    /// Updates from before the client knew the session.
    early: Option<Vec<Json>>,
    /// Tool calls and terminals that can be cancelled by themselves; `None` if the agent does not support that.
    cancels: Option<HashMap<String, watch::Sender<bool>>>,
}

/// A message that is sent in chunks.
pub struct MessageWriter {
    emitter: Emitter,
    kind: &'static str,
    id: String,
}

impl Emitter {
    pub(super) fn new(
        session: String,
        client: Arc<ClientConnection>,
        history: &[Json],
        about: &About,
        offer: Offer,
    ) -> Self {
        let state = EmitterState {
            history: ConversationHistory::read(history),
            early: Some(Vec::new()),
            cancels: about.abilities.contains(&Ability::CancelOne).then(HashMap::new),
            ..EmitterState::default()
        };
        let (state, choosing) = (Mutex::new(state), watch::Sender::new(()));
        let inner = Inner { session, client, offer, state, choosing };
        Self { inner: Arc::new(inner) }
    }

    /// Sets the options that were chosen before.
    pub(super) fn with_choices(self, chosen: Choices) -> Self {
        locked(&self.inner.state).chosen = chosen;
        self
    }

    /// The agent's own id of the session.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.inner.session
    }

    /// Returns whether both are clones of the same emitter.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Sends a whole message.
    pub async fn say(&self, text: &str) {
        self.message().write(text).await;
    }

    /// Sends a whole thought.
    pub async fn think(&self, text: &str) {
        self.thought().write(text).await;
    }

    /// Starts a message that is sent in chunks.
    #[must_use]
    pub fn message(&self) -> MessageWriter {
        self.pieces("agent_message_chunk")
    }

    /// Starts a thought that is sent in chunks.
    #[must_use]
    pub fn thought(&self) -> MessageWriter {
        self.pieces("agent_thought_chunk")
    }

    fn pieces(&self, kind: &'static str) -> MessageWriter {
        MessageWriter { emitter: self.clone(), kind, id: ids::message_id().0 }
    }

    /// Announces a tool call.
    pub async fn tool(&self, call: ToolCall) -> Tool {
        Tool::announce(self.clone(), call).await
    }

    /// Announces a terminal of the agent that runs this command.
    pub async fn terminal(&self, command: &str, cwd: &str) -> Terminal {
        Terminal::announce(self.clone(), command, cwd).await
    }

    /// Sends the plan: entries with `pending`, `in_progress` or `completed`.
    pub async fn plan(&self, entries: &[(String, &str)]) {
        let entry = |(content, status): &(String, &str)| json!({"content": content, "priority": "medium", "status": status});
        let entries: Vec<_> = entries.iter().map(entry).collect();
        let plan = json!({"type": "items", "planId": "main", "entries": entries});
        self.update(json!({"sessionUpdate": "plan_update", "plan": plan})).await;
    }

    /// Sends the context usage (`used` of `size` tokens) and the cost of the session so far in US dollars.
    pub async fn usage(&self, used: u64, size: u64, cost: Option<f64>) {
        let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
        if let Some(amount) = cost {
            update["cost"] = json!({"amount": amount, "currency": "USD"});
        }
        self.update(update).await;
    }

    /// Adds to the token usage of the running turn, which is sent at its end.
    pub fn spent(&self, tokens: Tokens) {
        locked(&self.inner.state).spent += tokens;
    }

    /// Takes the usage since the last call.
    pub(super) fn take_spent(&self) -> Tokens {
        std::mem::take(&mut locked(&self.inner.state).spent)
    }

    /// Sets the title of the session.
    pub async fn title(&self, title: &str) {
        self.update(json!({"sessionUpdate": "session_info_update", "title": title})).await;
    }

    /// Sets the slash commands: name, description, and a hint for the input.
    pub async fn commands(&self, commands: &[(String, String, Option<String>)]) {
        let command = |(name, description, hint): &(String, String, Option<String>)| {
            let mut command = json!({"name": name, "description": description});
            if let Some(hint) = hint {
                command["input"] = json!({"type": "text", "hint": hint});
            }
            command
        };
        let commands: Vec<_> = commands.iter().map(command).collect();
        self.update(json!({"sessionUpdate": "available_commands_update", "availableCommands": commands}))
            .await;
    }

    /// Sends a notice with a severity (`info`, `warning` or `error`), a title and an optional description.
    pub async fn notice(&self, severity: &str, title: &str, description: Option<&str>) {
        let mut update = json!({"sessionUpdate": "notice", "severity": severity, "title": title});
        if let Some(description) = description {
            update["description"] = json!(description);
        }
        self.update(update).await;
    }

    /// Announces a sub-agent and returns the emitter of its session.
    pub async fn subagent(&self, title: &str) -> Self {
        let session = ids::session_id().0;
        let child = Inner {
            session: session.clone(),
            client: self.inner.client.clone(),
            offer: Offer { options: Box::new(|_| Vec::new()), accepts: Box::new(|_, _| false) },
            state: Mutex::default(),
            choosing: watch::Sender::new(()),
        };
        self.update(json!({"sessionUpdate": "subagent_update", "sessionId": session, "title": title})).await;
        Self { inner: Arc::new(child) }
    }

    /// Sends any v2 update.
    pub async fn update(&self, update: impl Into<Json>) {
        let update = update.into();
        {
            let mut state = locked(&self.inner.state);
            state.history.add_update(&update);
            if let Some(early) = &mut state.early {
                return early.push(update);
            }
        }
        self.inner.client.update(&self.inner.session, &update).await;
    }

    /// Sends a notification that is not part of the protocol.
    pub async fn notify(&self, method: &str, params: Value) {
        self.inner.client.notify(method, self.with_session_id(params)).await;
    }

    /// Adds the session id to parameters.
    pub(super) fn with_session_id(&self, params: Value) -> Value {
        let mut whole = json!({"sessionId": self.inner.session});
        if let (Value::Object(whole), Value::Object(params)) = (&mut whole, params) {
            whole.extend(params);
        }
        whole
    }

    /// The conversation so far as whole v2 updates in order: messages, thoughts, tool calls and compactions; the end of
    /// a turn is its `state_update`. A compaction replaces the earlier turns, of which only the ids of tool calls are
    /// left.
    #[must_use]
    pub fn history(&self) -> Vec<Value> {
        let list = locked(&self.inner.state).history.list();
        list.iter().map(Json::value).collect()
    }

    /// The current values of the session's options.
    #[must_use]
    pub fn choices(&self) -> Choices {
        let chosen = locked(&self.inner.state).chosen.clone();
        chosen.complete(&(self.inner.offer.options)(&chosen))
    }

    /// Waits until the chosen values meet a condition; returns at once if they do.
    pub async fn wait_for_choice(&self, is_met: impl Fn(&Choices) -> bool) {
        let mut choosing = self.inner.choosing.subscribe();
        while !is_met(&self.choices()) {
            // The sender lives as long as this emitter.
            let _ = choosing.changed().await;
        }
    }

    /// Sets an option on behalf of the agent, and reports it.
    pub async fn choose(&self, option: &str, value: impl Into<Value>) -> Result<(), RpcError> {
        self.chosen(option, &value.into())?;
        self.options_changed().await;
        Ok(())
    }

    /// Sends the options again after they have changed.
    pub async fn options_changed(&self) {
        let options = self.written_options();
        self.update(json!({"sessionUpdate": "config_option_update", "configOptions": options})).await;
    }

    pub(super) fn chosen(&self, option: &str, value: &Value) -> Result<(), RpcError> {
        let before = locked(&self.inner.state).chosen.clone();
        let mut options = (self.inner.offer.options)(&before);
        let is_known = options.iter().any(|known| known.is_of(option, value));
        if !is_known && (self.inner.offer.accepts)(option, value) {
            options = (self.inner.offer.options)(&before);
        }
        locked(&self.inner.state).chosen.choose(&options, option, value)?;
        self.inner.choosing.send_replace(());
        Ok(())
    }

    pub(super) fn written_options(&self) -> Vec<Value> {
        let chosen = locked(&self.inner.state).chosen.clone();
        option::written(&(self.inner.offer.options)(&chosen), &chosen)
    }

    pub(super) fn record_prompt(&self, message: &str, content: &Json) {
        locked(&self.inner.state).history.add_prompt(message, content);
    }

    /// The commands that were set before the client knew the session; they are part of the answer that opens it.
    pub(super) fn early_commands(&self) -> Option<Value> {
        let mut state = locked(&self.inner.state);
        let is_commands = |update: &Json| {
            update.fields().text("sessionUpdate").as_deref() == Some("available_commands_update")
        };
        let named =
            state.early.iter_mut().flat_map(|early| early.extract_if(.., |update| is_commands(update)));
        named.last().map(|update| update.value()["availableCommands"].take())
    }

    /// Sends the updates that were held back, now that the client knows the session.
    pub(super) async fn open(&self) {
        loop {
            let early = {
                let mut state = locked(&self.inner.state);
                match &mut state.early {
                    Some(early) if early.is_empty() => {
                        state.early = None;
                        return;
                    }
                    Some(early) => std::mem::take(early),
                    None => return,
                }
            };
            for update in early {
                self.inner.client.update(&self.inner.session, &update).await;
            }
        }
    }

    /// Makes one object cancellable by itself, if the agent supports that.
    pub(super) fn cancellable(&self, id: &str) -> Option<watch::Receiver<bool>> {
        let (cancel, cancelled) = watch::channel(false);
        locked(&self.inner.state).cancels.as_mut()?.insert(id.to_owned(), cancel);
        Some(cancelled)
    }

    pub(super) fn not_cancellable(&self, id: &str) {
        if let Some(cancels) = &mut locked(&self.inner.state).cancels {
            cancels.remove(id);
        }
    }

    pub(super) fn cancel_one(&self, id: &str) -> bool {
        let state = locked(&self.inner.state);
        let cancel = state.cancels.as_ref().and_then(|cancels| cancels.get(id));
        cancel.is_some_and(|cancel| cancel.send(true).is_ok())
    }

    pub(super) fn client(&self) -> &Arc<ClientConnection> {
        &self.inner.client
    }
}

impl MessageWriter {
    /// Sends another chunk of text.
    pub async fn write(&self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.block(content).await;
    }

    /// Sends another content block.
    pub async fn block(&self, content: Value) {
        let update = json!({"sessionUpdate": self.kind, "messageId": self.id, "content": content});
        self.emitter.update(update).await;
    }
}

/// Waits until an object is cancelled by itself; forever if it is not cancellable.
pub(super) async fn cancelled(cancel: Option<&watch::Receiver<bool>>) {
    match cancel {
        // The sender lives as long as the object that waits.
        Some(cancel) => drop(cancel.clone().wait_for(|cancelled| *cancelled).await),
        None => std::future::pending().await,
    }
}
