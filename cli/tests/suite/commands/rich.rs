//! A session with everything that a transcript shows: thoughts, a plan, tool calls with a diff and a terminal, a sub-agent, an
//! agent that was killed and another that took over, a cancelled turn, wide and right-to-left text, and control characters.

use std::sync::Arc;

use rethread::store::facts::facts;
use rethread::store::{Append, Durability, Lease, NewSession, Store as _};
use rethread_core::{
    AgentKind, Binding, Entry, Json, MessageId, Millis, PromptStyle, Seq, Session, SessionId, Stop,
    TitleSource, TurnNo, Update, stored,
};
use serde_json::{Value, json};

use super::stored::Stored;

/// 2026-11-15, 12:00 UTC.
pub(super) const NOON: Millis = 1_794_744_000_000;

pub(super) const RICH: &str = "019a-rich0001";

impl Stored {
    /// Makes a session of these entries, which nobody owns.
    pub(super) fn add_entries(&self, id: &str, cwd: &str, agent: &str, entries: Vec<Entry>) {
        let lease = self.add_owned_entries(id, cwd, agent, None, entries);
        self.wait(self.store.release(&lease)).expect("it can be released");
    }

    /// Makes a session of these entries that this process owns.
    pub(super) fn add_owned_entries(
        &self,
        id: &str,
        cwd: &str,
        agent: &str,
        parent: Option<(SessionId, Seq)>,
        entries: Vec<Entry>,
    ) -> Lease {
        let mut session = Session::default();
        entries.iter().for_each(|entry| session.apply(entry));
        let snapshot = parent.is_none().then(|| stored::encode_session(&session));
        let new = NewSession {
            id: id.into(),
            cwd: cwd.to_owned(),
            agent: agent.to_owned(),
            parent,
            facts: facts(entries.iter()),
            entries: entries.into_iter().map(Arc::new).collect(),
            snapshot,
            at: NOON + 600_000,
        };
        self.wait(self.store.create(new)).expect("it can be created")
    }

    /// Appends entries to a session.
    pub(super) fn append(&self, lease: &Lease, entries: Vec<Entry>) {
        let append = Append {
            session: lease.session.clone(),
            epoch: lease.epoch,
            expected: lease.head,
            facts: facts(entries.iter()),
            entries: entries.into_iter().map(Arc::new).collect(),
            durability: Durability::Process,
            at: None,
        };
        self.wait(self.store.append(append)).expect("it can be appended to");
    }

    /// Makes the session with everything.
    pub(super) fn add_rich(&self, cwd: &str) {
        self.add_entries(RICH, cwd, "Claude Code", rich(cwd));
    }
}

/// The entries of the session with everything.
pub(super) fn rich(cwd: &str) -> Vec<Entry> {
    let mut entries = vec![
        opened(cwd, "Claude Code"),
        bound(1, "Claude Code", "native-1", Binding::Fresh),
        Entry::TitleSet { title: "Fix the parser".to_owned(), by: TitleSource::Agent },
    ];
    entries.extend(first_turn());
    entries.extend(killed_turn());
    entries.push(bound(2, "Codex", "native-2", Binding::Reseeded));
    entries.extend(cancelled_turn());
    entries
}

fn first_turn() -> Vec<Entry> {
    let patch =
        "--- a/src/parser.rs\n+++ b/src/parser.rs\n@@ -1,2 +1,2 @@\n-let x = 1;\n+let x = 2;\n context\n";
    let output = "\u{1b}[32mtest result: ok\u{1b}[0m\r\nline two\n";
    let mut entries = turn_began(1, 0, "Fix the parser in `src/parser.rs`, please.");
    entries.extend([
        update(json!({"sessionUpdate": "config_option_update", "configOptions": [{"configId": "model", "name": "Model",
            "category": "model", "type": "select", "currentValue": "opus", "options": []}]})),
        said("agent_thought", "t1", "The parser drops the last token.\nI should look.\nThen mend it.\nAnd test it."),
        update(json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [
            {"content": "Read the parser", "status": "completed", "priority": "high"},
            {"content": "Mend it", "status": "in_progress", "priority": "high"},
            {"content": "Test it", "status": "pending", "priority": "low"}]}})),
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "Edit src/parser.rs",
            "kind": "edit", "status": "completed", "locations": [{"path": "/w/src/parser.rs", "line": 12}],
            "content": [{"type": "diff", "changes": [{"operation": "modify", "path": "/w/src/parser.rs"}],
                "patch": {"text": patch}}],
            "_meta": {"rethread": {"rule": {"work": "edit", "answer": "allow"}}}})),
        update(json!({"sessionUpdate": "terminal_update", "terminalId": "term1", "command": "cargo test",
            "output": {"data": base64(output)}, "exitStatus": {"exitCode": 1}})),
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c2", "title": "Run the tests",
            "kind": "execute", "status": "failed", "content": [{"type": "terminal", "terminalId": "term1"}]})),
        said("agent_message", "a1", "Done. The **parser** keeps the last token now:\n\n```rust\nlet x = 2;\n```"),
        update(json!({"sessionUpdate": "usage_update", "used": 12000, "size": 200_000,
            "cost": {"amount": 0.25, "currency": "USD"}})),
        ended(1, 65_000, Stop::plain("end_turn"), json!({"totalTokens": 12500, "inputTokens": 12000,
            "outputTokens": 500, "cachedReadTokens": 9000})),
    ]);
    entries
}

/// The agent is killed in the middle of a code block.
fn killed_turn() -> Vec<Entry> {
    let mut entries = turn_began(2, 120_000, "And the printer?");
    entries.extend([
        said("agent_message", "a2", "Look:\n\n```rust\nfn print("),
        Entry::AgentLost { generation: 1, reason: "it was ended by SIGKILL".to_owned() },
        ended(2, 125_000, Stop::failed(-32603, "the agent exited"), Value::Null),
    ]);
    entries
}

fn cancelled_turn() -> Vec<Entry> {
    let mut entries = turn_began(3, 300_000, "日本語 שלום مرحبا 👩\u{200d}🚀 \u{1b}[31mred\u{202e}");
    entries.extend([
        update(json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Search the docs",
            "state": {"state": "completed"}})),
        Entry::Updated {
            update: Update {
                kind: rethread_core::UpdateKind::Other,
                id: "child".to_owned(),
                body: json!({"sessionUpdate": "agent_message", "messageId": "ca",
                    "content": [{"type": "text", "text": "Found *nothing*."}]})
                .into(),
            },
            known: false,
        },
        said("agent_message", "a3", "I was about to"),
        Entry::CancelAsked { turn: TurnNo(3) },
        ended(3, 304_000, Stop::plain("cancelled"), Value::Null),
    ]);
    entries
}

pub(super) fn opened(cwd: &str, agent: &str) -> Entry {
    Entry::Opened {
        cwd: cwd.to_owned(),
        roots: Vec::new(),
        agent: agent.to_owned(),
        at: NOON,
        moved_from: None,
    }
}

pub(super) fn bound(generation: u32, agent: &str, native: &str, binding: Binding) -> Entry {
    let (agent, native) = (agent.to_owned(), native.to_owned());
    let (style, kind) = (PromptStyle::OneAtATime, AgentKind::InProcess);
    Entry::AgentBound { generation, agent, native, binding, style, kind }
}

pub(super) fn turn_began(turn: u64, after: Millis, prompt: &str) -> Vec<Entry> {
    let content = Json::from(json!([{"type": "text", "text": prompt}]));
    let (message, at, turn) = (MessageId(format!("p{turn}")), NOON + after, TurnNo(turn));
    let state = json!({"sessionUpdate": "state_update", "state": "running"}).into();
    vec![Entry::TurnStarted { turn, at, state }, Entry::PromptInserted { message, turn, content, at }]
}

pub(super) fn ended(turn: u64, after: Millis, stop: Stop, usage: Value) -> Entry {
    let mut state = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": stop.reason});
    if !usage.is_null() {
        state["usage"] = usage;
    }
    Entry::TurnEnded { turn: TurnNo(turn), stop, at: NOON + after, state: state.into() }
}

pub(super) fn said(tag: &str, id: &str, text: &str) -> Entry {
    update(json!({"sessionUpdate": tag, "messageId": id, "content": [{"type": "text", "text": text}]}))
}

pub(super) fn update(body: Value) -> Entry {
    Entry::Updated { update: Update::read(body.into()), known: false }
}

/// The output of a terminal as it is stored.
fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let sextets = |chunk: &[u8]| {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        (0..4).map(move |at| (at, (bits >> (18 - 6 * at)) & 63)).collect::<Vec<_>>()
    };
    let letter = |length: usize, (at, sextet): (usize, u32)| {
        if at > length { '=' } else { char::from(LETTERS[sextet as usize]) }
    };
    text.as_bytes()
        .chunks(3)
        .flat_map(|chunk| sextets(chunk).into_iter().map(move |part| letter(chunk.len(), part)))
        .collect()
}
