//! A fast path for replays: encodes prompts and plain-text messages directly from their stored text, without parsing
//! them into a tree. Its output equals that of `view`, which handles everything that is not plain.

use rethread_core::stored::RawItem;
use rethread_core::{ReplayRule, UpdateKind};
use serde_json::value::RawValue;

use super::Version;
use super::v1::sent_messages::needs_no_escape;
use super::view::View;

/// A callback that is given the text of one update, in parts.
pub type WriteParts<'a> = &'a mut dyn FnMut(&[&str]);

/// Whether the fast path encoded an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPath {
    /// The item was encoded; nothing is left to do for it.
    Taken,
    /// The item needs the normal path.
    Declined,
}

impl View {
    /// Encodes a replayed item from its stored text if that is possible.
    pub fn show_from_text(&mut self, raw_item: RawItem<'_>, write: WriteParts<'_>) -> FastPath {
        let shown = match (self.version(), raw_item) {
            (Version::V2, RawItem::Prompt { message, content }) => prompt(message, content, write),
            (Version::V1, RawItem::Prompt { message, content }) => prompt_chunks(message, content, write),
            (Version::V2, RawItem::Update { kind, body, .. }) => update(kind, body, write),
            (Version::V1, RawItem::Update { kind, id, body, .. }) => {
                self.sent_messages().show_from_text(kind, id, body, write)
            }
        };
        if shown.is_some() { FastPath::Taken } else { FastPath::Declined }
    }
}

fn prompt(message: &str, content: &str, write: WriteParts<'_>) -> Option<()> {
    needs_no_escape(message).then(|| {
        write(&[
            "{\"sessionUpdate\":\"user_message\",\"messageId\":\"",
            message,
            "\",\"content\":",
            content,
            "}",
        ]);
    })
}

fn prompt_chunks(message: &str, content: &str, write: WriteParts<'_>) -> Option<()> {
    if !needs_no_escape(message) {
        return None;
    }
    let begin = "{\"sessionUpdate\":\"user_message_chunk\",\"messageId\":\"";
    let mut chunk = |block: &str| write(&[begin, message, "\",\"content\":", block, "}"]);
    if let Some(block) = only_block(content) {
        chunk(block);
        return Some(());
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    blocks.into_iter().for_each(|block| chunk(block.get()));
    Some(())
}

/// The block of a prompt that is an array with one object, if that can be seen without a parser: no other brace is in it.
fn only_block(content: &str) -> Option<&str> {
    let block = content.strip_prefix('[')?.strip_suffix(']')?.trim_ascii();
    let members = block.strip_prefix('{')?.strip_suffix('}')?;
    memchr::memchr2(b'{', b'}', members.as_bytes()).is_none().then_some(block)
}

/// A v2 client is sent an update exactly as stored, unless a replay leaves it out or it is of a sub-agent.
fn update(kind: UpdateKind, body: &str, write: WriteParts<'_>) -> Option<()> {
    (kind.meaning().replay == ReplayRule::InPlace && kind != UpdateKind::Other).then(|| write(&[body]))
}

#[cfg(test)]
mod tests {
    use rethread_core::stored::{self, SegmentItems};
    use rethread_core::{Entry, Folded, Json, Seq, TurnNo, Update};

    use super::*;
    use crate::edge::capabilities::ClientProfile;
    use crate::edge::params::Params;
    use crate::edge::view::{ClientMessage, EntryPosition, TerminalOwner, Timing};

    /// Encodes each entry with the fast path where it applies and with `View::show`, and compares the results.
    fn check(entries: Vec<Entry>) {
        let place = |at: usize| Seq(at as u64 + 1);
        let item =
            |(at, entry): (usize, &Entry)| Folded { first: place(at), last: place(at), entry: entry.clone() };
        let segment = stored::encode_segment(&entries.iter().enumerate().map(item).collect::<Vec<_>>());
        for version in [Version::V1, Version::V2] {
            let params = json(&format!(
                r#"{{"protocolVersion":{},"info":{{"name":"n","version":"1"}}}}"#,
                version.number()
            ));
            let client = ClientProfile::read(&Params::read(Some(params.raw())).unwrap()).unwrap();
            let view = || View::new(&client, TerminalOwner::Agent);
            let (mut read, mut seen) = (view(), view());
            for item in SegmentItems::of(&segment).unwrap() {
                let item = item.unwrap();
                let place = EntryPosition { seq: item.first, timing: Timing::Replay };
                let entry = item.clone().entry().unwrap();
                let mut expected = Vec::new();
                read.show(&entry, place, &mut expected);
                let mut texts = Vec::new();
                let raw_item = item.raw_item();
                let fast_path = raw_item
                    .map(|raw_item| seen.show_from_text(raw_item, &mut |parts| texts.push(parts.concat())));
                if fast_path != Some(FastPath::Taken) {
                    assert!(texts.is_empty(), "{entry:?}");
                    let mut shown = Vec::new();
                    seen.show(&entry, place, &mut shown);
                    assert_eq!(shown, expected);
                    continue;
                }
                let expected: Vec<_> = expected
                    .into_iter()
                    .map(|shown| match shown {
                        ClientMessage::Update(update) => update.value(),
                        other @ (ClientMessage::SubagentUpdate(..)
                        | ClientMessage::Question { .. }
                        | ClientMessage::WithdrawQuestion(_)
                        | ClientMessage::QuestionSeen { .. }
                        | ClientMessage::QuestionClosed { .. }) => {
                            panic!("more than an update: {other:?}")
                        }
                    })
                    .collect();
                let texts: Vec<_> =
                    texts.into_iter().map(|text| Json::parse(text).unwrap().value()).collect();
                assert_eq!(texts, expected, "{entry:?}");
            }
        }
    }

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn updated(body: &str) -> Entry {
        Entry::Updated { update: Update::read(json(body)), known: false }
    }

    fn prompted(message: &str, content: &str) -> Entry {
        Entry::PromptInserted { message: message.into(), turn: TurnNo(1), content: json(content), at: 1 }
    }

    #[test]
    fn prompts() {
        check(vec![
            prompted("m1", r#"[{"type": "text", "text": "hi"}]"#),
            prompted(
                "m2",
                r#"[{"type":"text","text":"a\nb"},{"type":"image","data":"","mimeType":"image/png"}]"#,
            ),
            prompted("m2", r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#),
            prompted("m2", r#"[{"type":"text","text":"plain, é"}]"#),
            prompted("m2", r#"[{"type":"text","text":"a","annotations":{"audience":"b"}}]"#),
            prompted("m2", r#"[ { "text": "a {brace}", "type": "text" } ]"#),
            prompted("m2", r#"[{"text":"a, ] b \"c\"","type":"text"}]"#),
            prompted("m2", r#"[{"type":"text","text":""}]"#),
            prompted("m3", "[]"),
            prompted("m4", "null"),
            prompted("m \"5\" \\ é\u{1}", r#"[{"type":"text","text":"hi"}]"#),
        ]);
    }

    #[test]
    fn messages() {
        let message = |id: &str, text: &str| {
            let (id, text) = (Json::of(id), Json::of(text));
            updated(&format!(
                r#"{{"sessionUpdate":"agent_message","messageId":{id},"content":[{{"type":"text","text":{text}}}]}}"#
            ))
        };
        check(vec![
            message("m1", "hello"),
            message("m1", "hello, on"),
            message("m1", "other"),
            message("m2", "line\nline \"quoted\" \\ é 😀 \u{1}"),
            message("m2", "line\nline \"quoted\" \\ é 😀 \u{1} and on"),
            message("m3", ""),
            message("m3", "late"),
            message("m\"4\\", "x"),
            updated(
                r#"{"sessionUpdate":"agent_thought","messageId":"m1","content":[{"type":"text","text":"hm"}]}"#,
            ),
            updated(
                r#"{"sessionUpdate":"user_message","messageId":"u","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
            ),
            updated(
                r#"{"sessionUpdate":"agent_message","messageId":"m5","content":[{"type":"text","text":"a"}],"_meta":{"k":"\"}]}"}}"#,
            ),
            updated(
                r#"{"sessionUpdate":"agent_message","messageId":"m6","content":[{"type":"text","text":"a","annotations":{}}]}"#,
            ),
            updated(
                r#"{"sessionUpdate":"agent_message","content":[{"type":"text","text":"a"}],"messageId":"m7"}"#,
            ),
            updated(
                r#"{ "sessionUpdate": "agent_message", "messageId": "m8", "content": [{"type":"text","text":"a"}] }"#,
            ),
            updated(
                r#"{"sessionUpdate":"agent_message","messageId":"m9","content":[{"type":"text","text":"\u0061\ud83d\ude00"}]}"#,
            ),
            updated(
                r#"{"sessionUpdate":"agent_message","messageId":"m9","content":[{"type":"text","text":"a😀b"}]}"#,
            ),
            updated(
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m9","content":{"type":"text","text":"c"}}"#,
            ),
            updated(
                r#"{"sessionUpdate":"agent_message","messageId":"m9","content":[{"type":"text","text":"a😀bc"}]}"#,
            ),
        ]);
    }

    #[test]
    fn everything_else() {
        check(vec![
            updated(
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","kind":"edit","status":"completed"}"#,
            ),
            updated(r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#),
            updated(r#"{"sessionUpdate":"notice","severity":"info","message":"m"}"#),
            updated(r#"{"sessionUpdate":"plan_update","planId":"p","plan":{"type":"items","entries":[]}}"#),
            updated(r#"{"sessionUpdate":"_unknown","x":1}"#),
            Entry::Updated {
                update: Update {
                    kind: UpdateKind::Other,
                    id: "child".to_owned(),
                    body: json(
                        r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"a"}]}"#,
                    ),
                },
                known: false,
            },
        ]);
    }
}
