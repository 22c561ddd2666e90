//! What an agent says in one session, in a turn or outside: messages, thoughts, tool calls, plans and the rest. Keeps
//! the history of the session and what was chosen in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::about::{Ability, About};
use super::line::Line;
use super::option::{self, Choices, ConfigOption};
use super::terminal::Terminal;
use super::tokens::Tokens;
use super::tool::{Tool, ToolCall};
use crate::history::History;
use crate::ids;
use crate::lock::locked;
use crate::wire::RpcError;

/// The agent's voice in one session. Clones are the same voice.
#[derive(Clone)]
pub struct Voice {
    inner: Arc<Inner>,
}

/// What may be chosen.
pub(super) struct Offer {
    pub(super) options: Box<Options>,
    pub(super) accepts: Box<Accepts>,
}

/// The options, given what was chosen.
type Options = dyn Fn(&Choices) -> Vec<ConfigOption> + Send + Sync;

/// Whether a value that is not on offer may be chosen all the same.
type Accepts = dyn Fn(&str, &Value) -> bool + Send + Sync;

struct Inner {
    session: String,
    line: Arc<Line>,
    offer: Offer,
    kept: Mutex<Kept>,
    /// Tells that something was chosen.
    choosing: watch::Sender<()>,
}

#[derive(Default)]
struct Kept {
    history: History,
    chosen: Choices,
    /// What the turn that runs used so far.
    spent: Tokens,
    /// What was said before the client knew of the session.
    early: Option<Vec<Json>>,
    /// Tool calls and terminals that can be cancelled one by one, if the agent lets them.
    cancels: Option<HashMap<String, watch::Sender<bool>>>,
}

/// A message that is said piece by piece.
pub struct Message {
    voice: Voice,
    kind: &'static str,
    id: String,
}

impl Voice {
    pub(super) fn new(
        session: String,
        line: Arc<Line>,
        history: &[Json],
        about: &About,
        offer: Offer,
    ) -> Self {
        let kept = Kept {
            history: History::read(history),
            early: Some(Vec::new()),
            cancels: about.abilities.contains(&Ability::CancelOne).then(HashMap::new),
            ..Kept::default()
        };
        let (kept, choosing) = (Mutex::new(kept), watch::Sender::new(()));
        let inner = Inner { session, line, offer, kept, choosing };
        Self { inner: Arc::new(inner) }
    }

    /// The same voice in a session in which this was chosen before.
    pub(super) fn having(self, chosen: Choices) -> Self {
        locked(&self.inner.kept).chosen = chosen;
        self
    }

    /// The agent's own id of the session.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.inner.session
    }

    /// Says whether both are the same voice, not only of the same session.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A message in one piece.
    pub async fn say(&self, text: &str) {
        self.message().write(text).await;
    }

    /// A thought in one piece.
    pub async fn think(&self, text: &str) {
        self.thought().write(text).await;
    }

    /// A message that is said piece by piece.
    #[must_use]
    pub fn message(&self) -> Message {
        self.pieces("agent_message_chunk")
    }

    /// A thought that is told piece by piece.
    #[must_use]
    pub fn thought(&self) -> Message {
        self.pieces("agent_thought_chunk")
    }

    fn pieces(&self, kind: &'static str) -> Message {
        Message { voice: self.clone(), kind, id: ids::message_id().0 }
    }

    /// Announces a tool call.
    pub async fn tool(&self, call: ToolCall) -> Tool {
        Tool::announce(self.clone(), call).await
    }

    /// Announces a terminal of the agent's own that runs this command.
    pub async fn terminal(&self, command: &str, cwd: &str) -> Terminal {
        Terminal::announce(self.clone(), command, cwd).await
    }

    /// Sets the plan: what is to be done, each with `pending`, `in_progress` or `completed`.
    pub async fn plan(&self, entries: &[(String, &str)]) {
        let entry = |(content, status): &(String, &str)| json!({"content": content, "priority": "medium", "status": status});
        let entries: Vec<_> = entries.iter().map(entry).collect();
        let plan = json!({"type": "items", "planId": "main", "entries": entries});
        self.update(json!({"sessionUpdate": "plan_update", "plan": plan})).await;
    }

    /// Tells how many tokens of how many are in use, and what the session cost so far in US dollars.
    pub async fn usage(&self, used: u64, size: u64, cost: Option<f64>) {
        let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
        if let Some(amount) = cost {
            update["cost"] = json!({"amount": amount, "currency": "USD"});
        }
        self.update(update).await;
    }

    /// Adds to what the turn that runs used, which is told when it is over.
    pub fn spent(&self, tokens: Tokens) {
        locked(&self.inner.kept).spent += tokens;
    }

    /// What was used since this was last asked.
    pub(super) fn take_spent(&self) -> Tokens {
        std::mem::take(&mut locked(&self.inner.kept).spent)
    }

    /// Sets the title of the session.
    pub async fn title(&self, title: &str) {
        self.update(json!({"sessionUpdate": "session_info_update", "title": title})).await;
    }

    /// Sets the commands on offer: name, description, and what may follow, if anything.
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

    /// Something to show once: `info`, `warning` or `error`, a line, and more if there is more to say.
    pub async fn notice(&self, severity: &str, title: &str, description: Option<&str>) {
        let mut update = json!({"sessionUpdate": "notice", "severity": severity, "title": title});
        if let Some(description) = description {
            update["description"] = json!(description);
        }
        self.update(update).await;
    }

    /// Announces an agent that works for this one. It speaks with the voice that this gives.
    pub async fn subagent(&self, title: &str) -> Self {
        let session = ids::session_id().0;
        let child = Inner {
            session: session.clone(),
            line: self.inner.line.clone(),
            offer: Offer { options: Box::new(|_| Vec::new()), accepts: Box::new(|_, _| false) },
            kept: Mutex::default(),
            choosing: watch::Sender::new(()),
        };
        self.update(json!({"sessionUpdate": "subagent_update", "sessionId": session, "title": title})).await;
        Self { inner: Arc::new(child) }
    }

    /// Tells any update of version 2.
    pub async fn update(&self, update: impl Into<Json>) {
        let update = update.into();
        {
            let mut kept = locked(&self.inner.kept);
            kept.history.told(&update);
            if let Some(early) = &mut kept.early {
                return early.push(update);
            }
        }
        self.inner.line.update(&self.inner.session, &update).await;
    }

    /// Tells the client something that the protocol does not know.
    pub async fn notify(&self, method: &str, params: Value) {
        self.inner.line.notify(method, self.of_session(params)).await;
    }

    /// The same parameters with the session in front.
    pub(super) fn of_session(&self, params: Value) -> Value {
        let mut whole = json!({"sessionId": self.inner.session});
        if let (Value::Object(whole), Value::Object(params)) = (&mut whole, params) {
            whole.extend(params);
        }
        whole
    }

    /// What was said in the session so far: whole messages, thoughts, tool calls and compactions as updates of
    /// version 2, in order; the end of a turn is its `state_update`. A compaction stands in the place of the turns before
    /// its own, of which only the ids of tool calls are left.
    #[must_use]
    pub fn history(&self) -> Vec<Value> {
        let list = locked(&self.inner.kept).history.list();
        list.iter().map(Json::value).collect()
    }

    /// What holds now of the session's options.
    #[must_use]
    pub fn choices(&self) -> Choices {
        let chosen = locked(&self.inner.kept).chosen.clone();
        chosen.complete(&(self.inner.offer.options)(&chosen))
    }

    /// Waits until what was chosen meets a condition; returns at once if it does.
    pub async fn chosen_until(&self, is_met: impl Fn(&Choices) -> bool) {
        let mut choosing = self.inner.choosing.subscribe();
        while !is_met(&self.choices()) {
            // The sender lives as long as this voice.
            let _ = choosing.changed().await;
        }
    }

    /// The agent itself chooses a value, and says so.
    pub async fn choose(&self, option: &str, value: impl Into<Value>) -> Result<(), RpcError> {
        self.chosen(option, &value.into())?;
        self.options_changed().await;
        Ok(())
    }

    /// Tells the options again, for they are others now.
    pub async fn options_changed(&self) {
        let options = self.written_options();
        self.update(json!({"sessionUpdate": "config_option_update", "configOptions": options})).await;
    }

    pub(super) fn chosen(&self, option: &str, value: &Value) -> Result<(), RpcError> {
        let before = locked(&self.inner.kept).chosen.clone();
        let mut options = (self.inner.offer.options)(&before);
        let is_known = options.iter().any(|known| known.is_of(option, value));
        if !is_known && (self.inner.offer.accepts)(option, value) {
            options = (self.inner.offer.options)(&before);
        }
        locked(&self.inner.kept).chosen.choose(&options, option, value)?;
        self.inner.choosing.send_replace(());
        Ok(())
    }

    pub(super) fn written_options(&self) -> Vec<Value> {
        let chosen = locked(&self.inner.kept).chosen.clone();
        option::written(&(self.inner.offer.options)(&chosen), &chosen)
    }

    pub(super) fn prompted(&self, message: &str, content: &Json) {
        locked(&self.inner.kept).history.prompted(message, content);
    }

    /// The commands that were named before the client knew of the session: they are in the answer that tells it.
    pub(super) fn early_commands(&self) -> Option<Value> {
        let mut kept = locked(&self.inner.kept);
        let is_commands = |update: &Json| {
            update.fields().text("sessionUpdate").as_deref() == Some("available_commands_update")
        };
        let named =
            kept.early.iter_mut().flat_map(|early| early.extract_if(.., |update| is_commands(update)));
        named.last().map(|update| update.value()["availableCommands"].take())
    }

    /// The client knows of the session from now on.
    pub(super) async fn open(&self) {
        loop {
            let early = {
                let mut kept = locked(&self.inner.kept);
                match &mut kept.early {
                    Some(early) if early.is_empty() => {
                        kept.early = None;
                        return;
                    }
                    Some(early) => std::mem::take(early),
                    None => return,
                }
            };
            for update in early {
                self.inner.line.update(&self.inner.session, &update).await;
            }
        }
    }

    /// Lets one thing be cancelled by itself from now on, if the agent said that it can do that.
    pub(super) fn cancellable(&self, id: &str) -> Option<watch::Receiver<bool>> {
        let (cancel, cancelled) = watch::channel(false);
        locked(&self.inner.kept).cancels.as_mut()?.insert(id.to_owned(), cancel);
        Some(cancelled)
    }

    pub(super) fn not_cancellable(&self, id: &str) {
        if let Some(cancels) = &mut locked(&self.inner.kept).cancels {
            cancels.remove(id);
        }
    }

    pub(super) fn cancel_one(&self, id: &str) -> bool {
        let kept = locked(&self.inner.kept);
        let cancel = kept.cancels.as_ref().and_then(|cancels| cancels.get(id));
        cancel.is_some_and(|cancel| cancel.send(true).is_ok())
    }

    pub(super) fn line(&self) -> &Arc<Line> {
        &self.inner.line
    }
}

impl Message {
    /// One more piece.
    pub async fn write(&self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.block(content).await;
    }

    /// One more piece that is any content block.
    pub async fn block(&self, content: Value) {
        let update = json!({"sessionUpdate": self.kind, "messageId": self.id, "content": content});
        self.voice.update(update).await;
    }
}

/// Waits until something is cancelled by itself; for ever if it cannot be.
pub(super) async fn cancelled(cancel: Option<&watch::Receiver<bool>>) {
    match cancel {
        // The sender lives as long as the thing that waits.
        Some(cancel) => drop(cancel.clone().wait_for(|cancelled| *cancelled).await),
        None => std::future::pending().await,
    }
}
