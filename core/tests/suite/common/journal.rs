//! Makes a journal of acts: adds what must go with each, leaves out what could not happen, ends outside a turn.

use std::collections::HashSet;

use rethread_core::{
    Activity, AgentKind, Binding, Dropped, Entry, Folded, Json, MessageId, PromptStyle, QuestionKind, Stop,
    TitleSource, TurnNo, Update, UpdateKind,
};
use serde_json::{Value, json};

use super::act::Act;
use super::{placed, state};

/// How freely the agent speaks.
#[derive(Clone, Copy, PartialEq)]
pub enum Manner {
    /// As the second protocol version allows.
    Free,
    /// Never takes back the content of a message, as a client of the first version could not show it.
    Streaming,
}

/// The journal of a session in which this happened.
pub fn journal(acts: &[Act], manner: Manner) -> Vec<Folded> {
    let mut scribe = Scribe { manner, ..Scribe::default() };
    scribe.opened();
    for act in acts {
        scribe.act(act);
    }
    scribe.end();
    placed(scribe.entries)
}

struct Scribe {
    manner: Manner,
    entries: Vec<Entry>,
    minted: u64,
    turn: Option<TurnNo>,
    turns: TurnNo,
    generation: u32,
    waiting: Vec<MessageId>,
    questions: Vec<String>,
    asks: Vec<String>,
    seen: HashSet<(UpdateKind, String)>,
    filled: HashSet<(UpdateKind, String)>,
    /// Things that were spoken of outside a turn.
    idle: HashSet<(UpdateKind, String)>,
    done: HashSet<(UpdateKind, String)>,
}

impl Default for Scribe {
    fn default() -> Self {
        Self {
            manner: Manner::Free,
            entries: Vec::new(),
            minted: 0,
            turn: None,
            turns: TurnNo(0),
            generation: 0,
            waiting: Vec::new(),
            questions: Vec::new(),
            asks: Vec::new(),
            seen: HashSet::new(),
            filled: HashSet::new(),
            idle: HashSet::new(),
            done: HashSet::new(),
        }
    }
}

impl Scribe {
    fn act(&mut self, act: &Act) {
        match act {
            Act::Prompt => self.prompt(),
            Act::Send => self.send(),
            Act::Insert => self.insert(),
            Act::Drop => self.drop(),
            Act::Start => self.start(),
            Act::End => self.end(),
            Act::Say { tag, id, body } => self.say(tag, *id, body),
            Act::Ask => self.ask(),
            Act::Answer => self.answer(),
            Act::Withdraw => self.withdraw(),
            Act::SetOption => self.set_option(),
            Act::OptionSet => self.option_set(),
            Act::State => self.state(),
            Act::Cancel => self.cancel(),
            Act::Title => self.title(),
            Act::Roots => self.roots(),
            Act::Bind => self.bind(),
            Act::Lose => self.lose(),
            Act::Move => self.relocate(),
        }
    }

    fn write(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    fn mint(&mut self, what: &str) -> String {
        self.minted += 1;
        format!("{what}-{}", self.minted)
    }

    fn opened(&mut self) {
        let (cwd, agent) = ("/work".to_owned(), "agent".to_owned());
        self.write(Entry::Opened { cwd, roots: vec!["/more".to_owned()], agent, at: 1, moved_from: None });
    }

    fn prompt(&mut self) {
        let message = MessageId(self.mint("prompt"));
        self.write(Entry::PromptHeld { message: message.clone(), content: prompt_content() });
        self.waiting.push(message);
        if self.turn.is_none() {
            self.send();
            self.start();
            self.insert();
        }
    }

    fn send(&mut self) {
        if let Some(message) = self.waiting.first().cloned() {
            self.write(Entry::PromptSent { message });
        }
    }

    fn insert(&mut self) {
        if !self.waiting.is_empty() {
            let (message, turn) = (self.waiting.remove(0), self.turn.unwrap_or(self.turns));
            self.seen.insert((UpdateKind::UserMessage, message.to_string()));
            self.write(Entry::PromptInserted { message, turn, content: prompt_content(), at: 2 });
        }
    }

    fn drop(&mut self) {
        if !self.waiting.is_empty() {
            let message = self.waiting.remove(0);
            let why = Dropped::Refused(json!({"code": -32603, "message": "no"}).into());
            self.write(Entry::PromptDropped { message, why });
        }
    }

    fn start(&mut self) {
        if self.turn.is_none() {
            self.turns = self.turns.next();
            self.turn = Some(self.turns);
            self.write(Entry::TurnStarted { turn: self.turns, at: 3, state: state("running") });
        }
    }

    fn end(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.write(Entry::TurnEnded { turn, stop: Stop::failed(1, "x"), at: 4, state: state("idle") });
        }
    }

    fn say(&mut self, tag: &str, id: u8, body: &Value) {
        let kind = UpdateKind::of_tag(tag);
        let (id, key) = self.name(kind, id);
        if self.done.contains(&key) || (self.manner == Manner::Streaming && self.takes_back(kind, &key, body))
        {
            return;
        }
        self.note(kind, &key, body);
        let known = !self.seen.insert(key);
        let update = Update { kind, body: named(kind, tag, &id, body), id };
        self.write(Entry::Updated { update, known });
    }

    fn name(&self, kind: UpdateKind, id: u8) -> (String, (UpdateKind, String)) {
        let kind = if kind == UpdateKind::PlanRemoved { UpdateKind::PlanUpdate } else { kind.whole() };
        // Now and then the agent speaks of a prompt.
        let id = match kind {
            UpdateKind::UserMessage if id == 0 => format!("prompt-{}", self.minted.max(1)),
            _ => kind.meaning().id.name().map(|_| format!("thing-{id}")).unwrap_or_default(),
        };
        (id.clone(), (kind, id))
    }

    fn takes_back(&self, kind: UpdateKind, key: &(UpdateKind, String), body: &Value) -> bool {
        let whole_message = kind == kind.whole() && kind.subject().is_message();
        let there = self.filled.contains(key) || (self.seen.contains(key) && key.1.starts_with("prompt"));
        whole_message && there && body.get("content").is_some()
    }

    fn note(&mut self, kind: UpdateKind, key: &(UpdateKind, String), body: &Value) {
        if body.get("content").is_some() {
            self.filled.insert(key.clone());
        }
        if self.turn.is_none() {
            self.idle.insert(key.clone());
        }
        if self.is_end(kind, key, body) {
            self.done.insert(key.clone());
        }
    }

    /// After its end a thing is not spoken of again, where the state of a session would take it for a new one.
    fn is_end(&self, kind: UpdateKind, key: &(UpdateKind, String), body: &Value) -> bool {
        let exited =
            kind == UpdateKind::TerminalUpdate && body.get("exitStatus").is_some_and(|exit| !exit.is_null());
        let settled = kind == UpdateKind::ToolCallUpdate
            && ["completed", "failed", "cancelled"].iter().any(|last| body["status"] == *last);
        exited || (settled && self.idle.contains(key))
    }

    fn ask(&mut self) {
        let id = self.mint("question");
        let body = json!({"title": "May I?"}).into();
        self.write(Entry::QuestionAsked {
            question: id.as_str().into(),
            kind: QuestionKind::Permission,
            body,
        });
        self.questions.push(id);
    }

    fn answer(&mut self) {
        if let Some(id) = self.questions.pop() {
            self.write(Entry::QuestionAnswered { question: id.as_str().into(), answer: json!({}).into() });
        }
    }

    fn withdraw(&mut self) {
        if let Some(id) = self.questions.pop() {
            self.write(Entry::QuestionWithdrawn { question: id.as_str().into() });
        }
    }

    fn set_option(&mut self) {
        let id = self.mint("ask");
        let value = json!("code").into();
        self.write(Entry::OptionAsked { ask: id.as_str().into(), option: "mode".to_owned(), value });
        self.asks.push(id);
    }

    fn option_set(&mut self) {
        if let Some(id) = self.asks.pop() {
            self.write(Entry::OptionSettled {
                ask: id.as_str().into(),
                error: Some(json!({"code": 1}).into()),
            });
        }
    }

    fn state(&mut self) {
        let activity = if self.turn.is_some() { Activity::RequiresAction } else { Activity::Other };
        let name = self.mint("state");
        self.write(Entry::StateChanged { activity, state: state(&name) });
    }

    fn cancel(&mut self) {
        if let Some(turn) = self.turn {
            self.write(Entry::CancelAsked { turn });
        }
    }

    fn title(&mut self) {
        let title = self.mint("title");
        self.write(Entry::TitleSet { title, by: TitleSource::User });
    }

    fn roots(&mut self) {
        let roots = vec![self.mint("/root")];
        self.write(Entry::RootsSet { roots, servers: Vec::new() });
    }

    fn bind(&mut self) {
        self.generation += 1;
        let native = format!("native-{}", self.generation / 2);
        let (binding, style) = (Binding::Resumed, PromptStyle::Acknowledged);
        let agent = "agent".to_owned();
        let kind = AgentKind::InProcess;
        self.write(Entry::AgentBound { generation: self.generation, agent, native, binding, style, kind });
    }

    fn lose(&mut self) {
        self.write(Entry::AgentLost { generation: self.generation, reason: "exit status 1".to_owned() });
    }

    /// Only a session in which nothing is under way is moved.
    fn relocate(&mut self) {
        if self.turn.is_none() && self.waiting.is_empty() && self.questions.is_empty() && self.asks.is_empty()
        {
            let (cwd, agent) = (self.mint("/moved"), "agent".to_owned());
            let moved_from = Some("/work".to_owned());
            self.write(Entry::Opened { cwd, roots: Vec::new(), agent, at: 2, moved_from });
        }
    }
}

fn prompt_content() -> Json {
    json!([{"type": "text", "text": "Do "}, {"type": "text", "text": "it"}]).into()
}

/// Adds the members that name the thing, if the body can have members.
fn named(kind: UpdateKind, tag: &str, id: &str, body: &Value) -> Json {
    let mut named = json!({"sessionUpdate": tag});
    match (kind, kind.meaning().id.name()) {
        (UpdateKind::PlanUpdate, _) | (_, None) => {}
        (_, Some(field)) => named[field] = id.into(),
    }
    match (named.as_object_mut(), body) {
        (Some(named), Value::Object(body)) => named.extend(body.clone()),
        _ => named = body.clone(),
    }
    if kind == UpdateKind::PlanUpdate && named["plan"].is_object() {
        named["plan"]["planId"] = id.into();
    }
    named.into()
}
