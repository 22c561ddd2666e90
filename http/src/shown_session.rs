//! What a client was shown of one session. When the session is loaded again on a server that has forgotten the client, only
//! what is new is passed on: the rest of messages that were cut off, and tool calls that have changed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// How many messages, tool calls and other updates are remembered.
const MOST_ITEMS: usize = 20_000;

/// Updates that say how the session is now: of each kind only the last one counts.
const STANDING: [&str; 6] = [
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "state_update",
    "usage_update",
];

/// Whether a client was shown what came before it opened the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlierHistory {
    /// It was, or there was nothing.
    Shown,
    /// It was not.
    Hidden,
}

/// What a client was shown of one session.
pub(crate) struct ShownSession {
    items: HashMap<u64, ShownItem>,
    /// The items in the order in which they appeared.
    order: VecDeque<u64>,
    standing: HashMap<String, u64>,
    /// The prompts of a client of version 1, which shows them itself.
    own_prompts: VecDeque<u64>,
    earlier: EarlierHistory,
    /// The load that is under way.
    again: Option<SecondReplay>,
    hasher: RandomState,
}

/// A message, a tool call, a terminal, or another update.
#[derive(Debug, Default)]
struct ShownItem {
    /// How much of its content was shown.
    shown: usize,
    /// How much of its content was met in the replay.
    met: usize,
    /// The hashes of the other members of a tool call.
    members: HashMap<String, u64>,
}

/// A replay of what was shown already, at least in part.
#[derive(Debug, Default)]
struct SecondReplay {
    /// Whether anything that is remembered was met.
    met_any: bool,
    /// Tool calls and terminals that are remembered, as far as they have changed, by kind and id.
    changed: BTreeMap<(&'static str, String), Map<String, Value>>,
}

/// What an update is about.
enum UpdateSubject<'a> {
    /// A piece of the content of an item.
    Piece { key: u64, content: &'a Value, member: &'static str },
    /// All content of a message; nothing if the update is about other things.
    Whole { key: u64, length: Option<usize> },
    /// A tool call or a terminal.
    Object { key: u64, kind: &'static ObjectKind, id: &'a str },
    /// How the session is now.
    Standing,
    /// Something that stands for itself.
    Event { key: u64 },
}

/// Things whose members change one by one.
struct ObjectKind {
    /// The tag of an update of its members.
    tag: &'static str,
    id: &'static str,
    content: &'static str,
}

const CALL: ObjectKind = ObjectKind { tag: "tool_call_update", id: "toolCallId", content: "content" };
const TERMINAL: ObjectKind = ObjectKind { tag: "terminal_update", id: "terminalId", content: "output" };

impl ObjectKind {
    /// How long the content is, if the update has it.
    fn content_length(&self, update: &Value) -> Option<usize> {
        match &update[self.content] {
            Value::Array(items) => Some(total(items)),
            Value::String(data) => Some(decoded_length(data)),
            Value::Object(output) => output.get("data").and_then(Value::as_str).map(decoded_length),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
}

impl ShownSession {
    /// Remembers nothing yet.
    pub(crate) fn new(earlier: EarlierHistory) -> Self {
        Self {
            items: HashMap::new(),
            order: VecDeque::new(),
            standing: HashMap::new(),
            own_prompts: VecDeque::new(),
            earlier,
            again: None,
            hasher: RandomState::new(),
        }
    }

    /// Remembers a prompt that the client shows itself.
    pub(crate) fn prompted(&mut self, prompt: &Value) {
        let first = self.hash(&prompt[0]);
        self.own_prompts.push_back(first);
        if self.own_prompts.len() > MOST_ITEMS {
            self.own_prompts.pop_front();
        }
    }

    /// A replay begins of which only what is new is passed on.
    pub(crate) fn begin_again(&mut self) {
        self.items.values_mut().for_each(|item| item.met = 0);
        self.again = Some(SecondReplay::default());
    }

    /// The replay is over. Gives the updates that were held back.
    pub(crate) fn finish_again(&mut self) -> Vec<Value> {
        let changed = self.again.take().map(|again| again.changed).unwrap_or_default();
        let mut updates = Vec::new();
        for ((tag, id), members) in changed.into_iter().filter(|(_, members)| !members.is_empty()) {
            let kind = if tag == CALL.tag { &CALL } else { &TERMINAL };
            let hashes: Vec<_> =
                members.iter().map(|(name, value)| (name.clone(), self.hash(value))).collect();
            if let Some(item) = {
                let key = self.object_key(&id);
                self.items.get_mut(&key)
            } {
                item.members.extend(hashes);
            }
            let mut update = json!({"sessionUpdate": tag, kind.id: id});
            update.as_object_mut().expect("it is an object").extend(members);
            updates.push(update);
        }
        updates
    }

    /// Takes an update of the server. Gives what the client has not been shown of it.
    pub(crate) fn show(&mut self, mut update: Value) -> Option<Value> {
        match self.about(&update) {
            UpdateSubject::Standing => {
                let hash = self.hash(&update);
                let tag = update["sessionUpdate"].as_str().unwrap_or_default().to_owned();
                let before = self.standing.insert(tag, hash);
                (self.again.is_none() || before != Some(hash)).then_some(update)
            }
            UpdateSubject::Event { key } => self.item(key).then_some(update),
            UpdateSubject::Whole { key, length } => self.whole(key, length).then_some(update),
            UpdateSubject::Piece { key, content, member } => {
                let rest = self.piece(key, content)?;
                if let Some(rest) = rest {
                    update[member] = rest;
                }
                Some(update)
            }
            UpdateSubject::Object { key, kind, id } => {
                let id = id.to_owned();
                self.object(key, kind, id, update)
            }
        }
    }

    fn about<'a>(&self, update: &'a Value) -> UpdateSubject<'a> {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default();
        let text = |member: &str| update[member].as_str();
        if let (Some(kind), Some(id)) = (message_kind(tag), text("messageId")) {
            let key = self.hasher.hash_one((kind, id));
            return match (tag.ends_with("_chunk"), update["content"].as_array()) {
                (true, _) => UpdateSubject::Piece { key, content: &update["content"], member: "content" },
                (false, blocks) => UpdateSubject::Whole { key, length: blocks.map(|blocks| total(blocks)) },
            };
        }
        let key = |id: &str| self.object_key(id);
        match (tag, text(CALL.id), text(TERMINAL.id)) {
            ("tool_call" | "tool_call_update", Some(id), _) => {
                UpdateSubject::Object { key: key(id), kind: &CALL, id }
            }
            ("tool_call_content_chunk", Some(id), _) => {
                UpdateSubject::Piece { key: key(id), content: &update["content"], member: "content" }
            }
            ("terminal_update", None, Some(id)) => {
                UpdateSubject::Object { key: key(id), kind: &TERMINAL, id }
            }
            ("terminal_output_chunk", None, Some(id)) => {
                UpdateSubject::Piece { key: key(id), content: &update["data"], member: "data" }
            }
            _ if STANDING.contains(&tag) => UpdateSubject::Standing,
            _ => UpdateSubject::Event { key: self.hash(update) },
        }
    }

    /// Meets an item. Says whether it is new to the client; a load that is under way hides what came before all that is
    /// remembered, if the client was not shown it or it is too long ago.
    fn item(&mut self, key: u64) -> bool {
        let is_known = self.items.contains_key(&key);
        if let Some(again) = &mut self.again {
            again.met_any |= is_known;
            let begins_early = self.earlier == EarlierHistory::Hidden && !again.met_any;
            if is_known || begins_early {
                return false;
            }
        }
        if !is_known {
            self.items.insert(key, ShownItem::default());
            self.order.push_back(key);
            if self.order.len() > MOST_ITEMS
                && let Some(oldest) = self.order.pop_front()
            {
                self.items.remove(&oldest);
                self.earlier = EarlierHistory::Hidden;
            }
        }
        true
    }

    fn whole(&mut self, key: u64, length: Option<usize>) -> bool {
        let is_new = self.item(key);
        let (Some(item), Some(length)) = (self.items.get_mut(&key), length) else { return is_new };
        item.met = length;
        if is_new {
            item.shown = length;
            return true;
        }
        let is_longer = length > item.shown;
        item.shown = item.shown.max(length);
        is_longer
    }

    /// Nothing if the client has all of it. Otherwise its rest, or nothing in place of the rest if the client has none of it.
    fn piece(&mut self, key: u64, content: &Value) -> Option<Option<Value>> {
        if self.is_own_prompt(key, content) {
            return None;
        }
        let length = length_of(content);
        let is_new = self.item(key);
        let item = self.items.get_mut(&key)?;
        if is_new {
            item.shown = item.shown.saturating_add(length);
            item.met = item.shown;
            return Some(None);
        }
        let has = item.shown.saturating_sub(item.met);
        item.met = item.met.saturating_add(length);
        item.shown = item.shown.max(item.met);
        if has >= length {
            return None;
        }
        Some(if has == 0 { None } else { rest_of(content, has) })
    }

    /// Whether this begins, in a replay, a prompt that the client has sent and shows itself.
    fn is_own_prompt(&mut self, key: u64, block: &Value) -> bool {
        if self.again.is_none() || self.own_prompts.is_empty() || self.items.contains_key(&key) {
            return false;
        }
        let hash = self.hash(block);
        let Some(at) = self.own_prompts.iter().position(|own| *own == hash) else { return false };
        self.own_prompts.drain(..=at);
        self.items.insert(key, ShownItem { shown: usize::MAX, ..ShownItem::default() });
        self.order.push_back(key);
        if let Some(again) = &mut self.again {
            again.met_any = true;
        }
        true
    }

    fn object(&mut self, key: u64, kind: &ObjectKind, id: String, update: Value) -> Option<Value> {
        let is_new = self.item(key);
        let length = kind.content_length(&update);
        let is_member = |name: &str| !["sessionUpdate", kind.id, kind.content].contains(&name);
        let members = update.as_object().into_iter().flatten().filter(|(name, _)| is_member(name));
        let members: Vec<(&String, &Value, u64)> =
            members.map(|(name, value)| (name, value, self.hash(value))).collect();
        let item = self.items.get_mut(&key)?;
        if is_new {
            item.members.extend(members.into_iter().map(|(name, _, hash)| (name.clone(), hash)));
            item.shown = length.unwrap_or(item.shown);
            item.met = item.shown;
            return Some(update);
        }
        let changed = self.again.as_mut()?.changed.entry((kind.tag, id)).or_default();
        for (name, value, hash) in members {
            match item.members.get(name) == Some(&hash) {
                true => _ = changed.remove(name),
                false => _ = changed.insert(name.clone(), value.clone()),
            }
        }
        item.met = length.unwrap_or(item.met);
        if item.met > item.shown {
            item.shown = item.met;
            changed.insert(kind.content.to_owned(), update[kind.content].clone());
        }
        None
    }

    fn object_key(&self, id: &str) -> u64 {
        self.hasher.hash_one(("object", id))
    }

    /// The same for the same members in another order.
    fn hash(&self, value: &Value) -> u64 {
        let mut value = value.clone();
        value.sort_all_objects();
        self.hasher.hash_one(value.to_string())
    }
}

/// The kind of message that an update is about.
fn message_kind(tag: &str) -> Option<&str> {
    let kind = tag.strip_suffix("_chunk").unwrap_or(tag);
    ["user_message", "agent_message", "agent_thought"].contains(&kind).then_some(kind)
}

fn total(blocks: &[Value]) -> usize {
    blocks.iter().map(length_of).sum()
}

/// How long a piece of content is: bytes of text or output; anything else is one.
fn length_of(content: &Value) -> usize {
    match (content, text_of(content)) {
        (_, Some(text)) => text.len(),
        (Value::String(data), None) => decoded_length(data),
        _ => 1,
    }
}

/// The text of a block, or of an item of a tool call.
fn text_of(content: &Value) -> Option<&str> {
    let block = if content["type"] == "content" { &content["content"] } else { content };
    block["text"].as_str().filter(|_| block["type"] == "text")
}

fn decoded_length(data: &str) -> usize {
    STANDARD.decode(data).map_or(data.len(), |bytes| bytes.len())
}

/// The content without what was shown of it.
fn rest_of(content: &Value, shown: usize) -> Option<Value> {
    let mut rest = content.clone();
    if let Value::String(data) = content {
        let bytes = STANDARD.decode(data).ok()?;
        return Some(json!(STANDARD.encode(bytes.get(shown..)?)));
    }
    let text = text_of(content)?.get(shown..)?.to_owned();
    let block = if content["type"] == "content" { &mut rest["content"] } else { &mut rest };
    block["text"] = json!(text);
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(id: &str, text: &str) -> Value {
        json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}})
    }

    fn user(id: &str, text: &str) -> Value {
        json!({"sessionUpdate": "user_message_chunk", "messageId": id, "content": {"type": "text", "text": text}})
    }

    fn shown_live(updates: &[Value]) -> ShownSession {
        let mut shown = ShownSession::new(EarlierHistory::Shown);
        for update in updates {
            assert_eq!(shown.show(update.clone()).as_ref(), Some(update));
        }
        shown
    }

    /// What is passed on of a replay.
    fn again(shown: &mut ShownSession, updates: &[Value]) -> Vec<Value> {
        shown.begin_again();
        let mut passed: Vec<Value> = updates.iter().filter_map(|update| shown.show(update.clone())).collect();
        passed.extend(shown.finish_again());
        passed
    }

    #[test]
    fn a_message_goes_on_where_it_was_cut_off() {
        let mut shown = shown_live(&[chunk("a", "one "), chunk("a", "twö")]);
        assert_eq!(again(&mut shown, &[chunk("a", "one twö three")]), [chunk("a", " three")]);
        assert_eq!(again(&mut shown, &[chunk("a", "one twö three"), chunk("b", "x")]), [chunk("b", "x")]);
        assert_eq!(again(&mut shown, &[chunk("a", "one "), chunk("a", "twö three")]), Vec::<Value>::new());
        // Live again: nothing is left out.
        assert_eq!(shown.show(chunk("b", "x")), Some(chunk("b", "x")));
        assert_eq!(again(&mut shown, &[chunk("a", "one twö three"), chunk("b", "xxy")]), [chunk("b", "y")]);
    }

    #[test]
    fn a_whole_message_is_passed_on_if_it_is_longer() {
        let whole = |text: &str| json!({"sessionUpdate": "agent_message", "messageId": "a", "content": [{"type": "text", "text": text}]});
        let mut shown = shown_live(&[chunk("a", "one")]);
        assert_eq!(again(&mut shown, &[whole("one")]), Vec::<Value>::new());
        assert_eq!(again(&mut shown, &[whole("one two")]), [whole("one two")]);
        assert_eq!(again(&mut shown, &[chunk("a", "one two")]), Vec::<Value>::new());
    }

    #[test]
    fn the_prompts_of_a_client_are_its_own() {
        let mut shown = shown_live(&[]);
        shown.prompted(&json!([{"type": "text", "text": "hi"}]));
        shown.show(chunk("a", "yes"));
        let replay = [user("u", "hi"), chunk("a", "yes"), user("v", "hi"), chunk("b", "no")];
        assert_eq!(again(&mut shown, &replay), [user("v", "hi"), chunk("b", "no")]);
        assert_eq!(again(&mut shown, &replay), Vec::<Value>::new());
    }

    #[test]
    fn a_tool_call_is_passed_on_as_it_is_in_the_end() {
        let call = |tag: &str, status: &str| json!({"sessionUpdate": tag, "toolCallId": "c", "title": "T", "status": status});
        let mut shown = shown_live(&[call("tool_call", "pending"), call("tool_call_update", "in_progress")]);
        let replay = [call("tool_call", "pending"), call("tool_call_update", "failed")];
        let failed = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"});
        assert_eq!(again(&mut shown, &replay), [failed]);
        let mut shown = shown_live(&[call("tool_call", "pending"), call("tool_call_update", "completed")]);
        let replay = [call("tool_call", "pending"), call("tool_call_update", "completed")];
        assert_eq!(again(&mut shown, &replay), Vec::<Value>::new(), "nothing goes back");
    }

    #[test]
    fn pieces_of_a_tool_call_and_of_a_terminal_are_not_repeated() {
        let item = |text: &str| json!({"type": "content", "content": {"type": "text", "text": text}});
        let piece = |text: &str| json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item(text)});
        let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [item("one ")]});
        let output = |data: &[u8]| json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": STANDARD.encode(data)});
        let mut shown = shown_live(&[call.clone(), piece("two "), output(b"abc")]);
        let replay = [call, piece("two three"), output(b"abcd")];
        assert_eq!(again(&mut shown, &replay), [piece("three"), output(b"d")]);
        let ended =
            json!({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}});
        let folded = json!({"sessionUpdate": "terminal_update", "terminalId": "t",
            "output": {"data": STANDARD.encode(b"abcd")}, "exitStatus": {"exitCode": 0}});
        assert_eq!(again(&mut shown, std::slice::from_ref(&folded)), [ended]);
        assert_eq!(again(&mut shown, &[folded]), Vec::<Value>::new());
        let new = [piece("x"), piece("y")].map(|mut piece| {
            piece["toolCallId"] = json!("d");
            piece
        });
        assert_eq!(again(&mut shown, &new), new, "all pieces of a new one");
    }

    #[test]
    fn what_stands_is_passed_on_if_it_differs() {
        let state = |state: &str| json!({"sessionUpdate": "state_update", "state": state});
        let mut shown = shown_live(&[state("running"), state("running")]);
        assert_eq!(again(&mut shown, &[state("idle")]), [state("idle")]);
        assert_eq!(again(&mut shown, &[state("idle")]), Vec::<Value>::new());
        let plan = json!({"sessionUpdate": "plan", "entries": []});
        assert_eq!(again(&mut shown, std::slice::from_ref(&plan)).len(), 1);
        assert_eq!(again(&mut shown, &[plan]), Vec::<Value>::new());
    }

    #[test]
    fn history_that_was_not_shown_stays_hidden() {
        let mut shown = ShownSession::new(EarlierHistory::Hidden);
        shown.show(chunk("b", "on"));
        let replay = [user("u", "hi"), chunk("a", "yes"), chunk("b", "one"), user("v", "more")];
        assert_eq!(again(&mut shown, &replay), [chunk("b", "e"), user("v", "more")]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut shown = ShownSession::new(EarlierHistory::Shown);
        let all: Vec<Value> = (0..MOST_ITEMS + 10).map(|n| chunk(&n.to_string(), "x")).collect();
        for update in &all {
            shown.show(update.clone());
        }
        assert_eq!((shown.items.len(), shown.order.len()), (MOST_ITEMS, MOST_ITEMS));
        assert_eq!(again(&mut shown, &all), Vec::<Value>::new(), "what was forgotten was shown");
    }
}
