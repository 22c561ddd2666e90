//! Runs the script of a prompt.

use std::sync::Arc;
use std::time::Duration;

use rethread::edge::Version;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::config::Echo;
use super::quirk::{INTERRUPTION, Quirk};
use super::script::{Aside, Step, script};
use super::talk::{Prompt, Talk};
use super::{ask, updates};

/// A running turn.
pub(super) struct Turn {
    pub(super) talk: Arc<Talk>,
    pub(super) session: String,
    pub(super) cancelled: watch::Receiver<bool>,
    ids: Ids,
    stop: String,
    /// The client's terminal that was left running last.
    pub(super) left_running: Option<String>,
}

/// Whether messages have ids.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    Told,
    LeftOut,
}

/// Whether a turn goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    /// It ends; the reason was noted.
    Over,
    /// It ends with an error.
    Failed,
}

/// A version 2 agent takes a prompt at once.
pub(super) async fn acknowledge(talk: &Talk, session: &str, prompt: &Prompt) {
    if talk.version() == Version::V1 {
        // The client knows its own prompt, but a replay must contain it.
        for block in prompt.content.as_array().into_iter().flatten() {
            let mut update = updates::chunk("user_message", Some(&prompt.message), "");
            update["content"] = block.clone();
            if talk.memory.config().has(Quirk::RepeatsPrompt) {
                talk.show(session, update.clone()).await;
            }
            talk.memory.keep(session, &update);
        }
        return;
    }
    let first = talk.memory.config().echo;
    let echo = updates::whole("user_message", &prompt.message, prompt.content.clone());
    let answer = json!({"messageId": prompt.message});
    let running = updates::state("running", None);
    match first {
        Echo::AfterAnswer | Echo::AtGate | Echo::AtGateDeaf => {
            talk.answer(prompt.request.clone(), Ok(answer)).await;
            talk.update(session, echo).await;
            talk.update(session, running).await;
        }
        Echo::BeforeAnswer => {
            talk.update(session, running).await;
            talk.update(session, echo).await;
            talk.answer(prompt.request.clone(), Ok(answer)).await;
        }
    }
}

/// Runs prompt after prompt until none is left.
pub(super) async fn play(talk: Arc<Talk>, session: String, cancelled: watch::Receiver<bool>) {
    let mut last = None;
    while let Some(prompt) = talk.next(&session) {
        if last.take().as_deref() == Some("cancelled") {
            talk.update(&session, updates::state("running", None)).await;
        }
        let mut turn = Turn {
            talk: talk.clone(),
            session: session.clone(),
            cancelled: cancelled.clone(),
            ids: Ids::Told,
            stop: "end_turn".to_owned(),
            left_running: None,
        };
        if talk.memory.config().has(Quirk::TitlesPrompt) {
            turn.update(updates::title_of(&prompt.content)).await;
        }
        let flow = turn.play_all(&prompt).await;
        let flow = if talk.is_failing(&session) { Flow::Failed } else { flow };
        let stop = match flow {
            Flow::Failed => "error".to_owned(),
            Flow::On | Flow::Over if *cancelled.borrow() => "cancelled".to_owned(),
            Flow::On | Flow::Over => turn.stop,
        };
        if stop == "cancelled" && talk.memory.config().has(Quirk::NotesInterruption) {
            let id = talk.mint("user");
            talk.memory.keep(&session, &updates::chunk("user_message", Some(&id), INTERRUPTION));
        }
        if talk.version() == Version::V1 {
            // Before the answer, since the next prompt may arrive at once.
            talk.next(&session);
            let outcome = match flow {
                Flow::Failed => Err(failure()),
                Flow::On | Flow::Over => Ok(json!({"stopReason": stop})),
            };
            return talk.answer(prompt.request, outcome).await;
        }
        if stop == "cancelled" {
            talk.update(&session, updates::state("idle", Some(&stop))).await;
        }
        last = Some(stop);
        while talk.expects(&session) {
            tokio::task::yield_now().await;
        }
    }
    let last = last.unwrap_or_default();
    let mut idle = updates::state("idle", Some(&last));
    if last == "error" {
        idle["error"] = failure();
    }
    if last != "cancelled" {
        talk.update(&session, idle).await;
    }
}

fn failure() -> Value {
    json!({"code": -32603, "message": "the script failed", "data": {"why": "it was told to"}})
}

impl Turn {
    async fn play_all(&mut self, prompt: &Prompt) -> Flow {
        for step in script(prompt.content.as_array().map_or(&[], Vec::as_slice)) {
            let flow = self.play(step).await;
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    async fn play(&mut self, step: Step) -> Flow {
        match step {
            Step::Say(text) => self.say("agent_message", &text).await,
            Step::Think(text) => self.say("agent_thought", &text).await,
            Step::Tool(id) => self.tool(&id).await,
            Step::Mode(mode) => self.mode(&mode).await,
            Step::Stop(reason) => {
                self.stop = reason;
                return Flow::Over;
            }
            Step::Fail => return Flow::Failed,
            Step::Hang => return self.hang().await,
            Step::Permit => return ask::permit(self).await,
            Step::Aside(step) => return self.play_aside(step).await,
        }
        self.flow()
    }

    async fn play_aside(&mut self, step: Aside) -> Flow {
        match step {
            Aside::Whole(text) => self.whole(&text).await,
            Aside::Chunks(count) => self.chunks(count, Duration::ZERO).await,
            Aside::Slow(count) => self.chunks(count, Duration::from_millis(5)).await,
            Aside::Paced(rate, count) => self.paced(rate, count).await,
            Aside::NoId => self.ids = Ids::LeftOut,
            Aside::ToolOpen(id) => self.update(updates::tool_opens(self.version(), &id)).await,
            Aside::Unannounced(id) => self.update(updates::tool_ends(self.version(), &id)).await,
            Aside::Long => self.say("agent_message", &updates::long_text()).await,
            Aside::Print(text) => self.talk.print(text).await,
            Aside::Torn => {
                self.talk.tear(&self.session).await;
                return std::future::pending().await;
            }
            Aside::Meta(id) => self.meta(&id).await,
            Aside::Plan(entries) => self.update(updates::plan(self.version(), &entries)).await,
            Aside::Usage(used, size) => {
                self.update(json!({"sessionUpdate": "usage_update", "used": used, "size": size})).await;
            }
            Aside::Commands(names) => self.update(updates::commands(self.version(), &names)).await,
            Aside::Title(title) => {
                self.update(json!({"sessionUpdate": "session_info_update", "title": title})).await;
            }
            Aside::Notice(text) => self.notice(&text).await,
            Aside::Compact => self.compact().await,
            Aside::Unknown(tag) => self.update(updates::unknown(&tag)).await,
            Aside::Tell(method) => {
                self.talk.notify(&method, json!({"sessionId": self.session, "text": "told"})).await;
            }
            Aside::Subagent => self.subagent().await,
            Aside::Raw(update) => self.talk.raw(&self.session, &update).await,
            Aside::RawOf(session, update) => self.talk.raw(&session, &update).await,
            Aside::Crash => {
                self.talk.crash().await;
                return std::future::pending().await;
            }
            Aside::Deaf => return std::future::pending().await,
            Aside::Late(text) => return self.late(&text).await,
            Aside::Abort => {
                self.hang().await;
                return Flow::Failed;
            }
            Aside::Wait(gate) => return self.wait(&gate).await,
            Aside::Elicit => return ask::elicit(self).await,
            Aside::Ext(method) => return ask::ext(self, &method).await,
            Aside::Fs(path) => return ask::fs(self, &path).await,
            Aside::Write(path, text) => return ask::write(self, &path, &text).await,
            Aside::Term(line) => return ask::term(self, line.as_deref()).await,
            Aside::Spawn(line) => return ask::spawn(self, &line).await,
            Aside::Kill => return ask::kill(self).await,
            Aside::TermOpen => return ask::term_open(self).await,
            Aside::TakeBack(method) => return ask::take_back(self, &method).await,
            Aside::Apart(method) => return ask::apart(self, &method).await,
        }
        self.flow()
    }

    fn flow(&self) -> Flow {
        if *self.cancelled.borrow() { Flow::Over } else { Flow::On }
    }

    pub(super) fn version(&self) -> Version {
        self.talk.version()
    }

    pub(super) async fn update(&self, update: Value) {
        self.talk.update(&self.session, update).await;
    }

    fn message_id(&self) -> Option<String> {
        let told = self.ids == Ids::Told || self.version() == Version::V2;
        told.then(|| self.talk.mint("msg"))
    }

    /// One message in one chunk.
    pub(super) async fn say(&self, kind: &str, text: &str) {
        let id = self.message_id();
        self.update(updates::chunk(kind, id.as_deref(), text)).await;
    }

    async fn whole(&self, text: &str) {
        match self.version() {
            Version::V1 => self.say("agent_message", text).await,
            Version::V2 => {
                let content = json!([{"type": "text", "text": text}]);
                self.update(updates::whole("agent_message", &self.talk.mint("msg"), content)).await;
            }
        }
    }

    async fn chunks(&self, count: usize, pause: Duration) {
        let id = self.message_id();
        for at in 1..=count {
            if *self.cancelled.borrow() {
                return;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let text = if at == 1 { "c1".to_owned() } else { format!(" c{at}") };
            self.update(updates::chunk("agent_message", id.as_deref(), &text)).await;
        }
    }

    /// Each chunk has its time, so that one that is late does not delay the others.
    async fn paced(&self, rate: u32, count: usize) {
        let id = self.message_id();
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        for at in 1..=count {
            if *self.cancelled.borrow() {
                return;
            }
            ticks.tick().await;
            self.update(updates::chunk("agent_message", id.as_deref(), &updates::paced_text(at))).await;
        }
    }

    async fn tool(&self, id: &str) {
        self.update(updates::tool_begins(self.version(), id)).await;
        self.update(updates::tool_runs(id)).await;
        self.update(updates::tool_ends(self.version(), id)).await;
    }

    async fn meta(&self, id: &str) {
        for update in updates::meta(self.version(), id) {
            self.update(update).await;
        }
    }

    async fn mode(&self, mode: &str) {
        if !self.talk.memory.choose(&self.session, "mode", &json!(mode)) {
            return self.say("agent_message", "there is no such mode").await;
        }
        let config = self.talk.memory.config();
        if self.version() == Version::V1 && config.offers.contains(&super::config::Offer::Modes) {
            self.update(json!({"sessionUpdate": "current_mode_update", "currentModeId": mode})).await;
        }
        if self.version() == Version::V2 || config.offers.contains(&super::config::Offer::ModeOption) {
            let options =
                self.talk.memory.inner().options(&self.session, self.version(), self.talk.booleans());
            self.update(json!({"sessionUpdate": "config_option_update", "configOptions": options})).await;
        }
    }

    async fn notice(&self, text: &str) {
        if self.version() == Version::V2 || self.talk.client_takes("session/notices") {
            self.update(json!({"sessionUpdate": "notice", "severity": "warning", "title": text})).await;
        }
    }

    async fn compact(&self) {
        if self.version() == Version::V2 || self.talk.client_takes("session/compaction") {
            let id = self.talk.mint("compaction");
            self.update(updates::compaction(&id, "in_progress")).await;
            self.update(updates::compaction(&id, "completed")).await;
        }
    }

    async fn subagent(&self) {
        if self.version() == Version::V1 && !self.talk.client_takes("subagents") {
            return;
        }
        let child = self.talk.mint("child");
        self.update(json!({"sessionUpdate": "subagent_update", "sessionId": child, "title": "A helper"}))
            .await;
        let said = updates::chunk("agent_message", Some(&self.talk.mint("msg")), "the child speaks");
        self.talk.show(&child, said).await;
    }

    async fn hang(&mut self) -> Flow {
        // The sender lives as long as the turn.
        let _ = self.cancelled.wait_for(|cancelled| *cancelled).await;
        Flow::Over
    }

    async fn late(&mut self, text: &str) -> Flow {
        self.hang().await;
        self.tool("late_call").await;
        self.say("agent_message", text).await;
        Flow::Over
    }

    async fn wait(&mut self, gate: &str) -> Flow {
        tokio::select! {
            () = self.talk.memory.gate(gate) => Flow::On,
            _ = self.cancelled.wait_for(|cancelled| *cancelled) => Flow::Over,
        }
    }
}
