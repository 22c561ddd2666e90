//! Tracks which message text a v1 client was sent. Version 1 has only chunks, which append: for a whole message only
//! its new text is sent, and replaced content is sent under a new message id.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use rethread_core::{Fields, Json, Update, UpdateForm, UpdateKind};
use serde::Deserialize;

use super::{content, message};

/// The messages that a client was sent, by kind and id.
#[derive(Debug, Default)]
pub struct SentMessages(BTreeMap<UpdateKind, HashMap<String, SentMessage>>);

/// What a client was sent of one message; a digest, since the text may be long.
#[derive(Clone, Copy, Debug, Default)]
struct SentMessage {
    /// How many times the content was replaced.
    revision: u32,
    content: Digest,
}

impl SentMessages {
    /// Converts an update of a message, whole or chunk, to the chunks that the client needs.
    pub fn show(&mut self, update: &Update) -> Vec<Json> {
        let kind = update.kind.whole();
        let sent = self.0.entry(kind).or_default().entry(update.id.clone()).or_default();
        if update.kind != kind {
            let chunk = update.body.fields();
            chunk.get("content").iter().for_each(|block| sent.content.add(block));
            if sent.revision == 0 {
                return vec![message::chunk_to_v1(&update.body)];
            }
            return vec![message::chunk_to_v1(&sent.under_revision(&update.id, chunk).json())];
        }
        sent.whole(update)
    }

    /// Encodes a message that was not sent yet and consists of one plain text, from its stored text alone; `None` if
    /// that is not possible.
    pub(in crate::edge) fn show_from_text(
        &mut self,
        kind: UpdateKind,
        id: &str,
        body: &str,
        write: &mut dyn FnMut(&[&str]),
    ) -> Option<()> {
        let tag = whole_tag(kind)?;
        let sent = self.0.entry(kind).or_default();
        let text = plain_body(tag, id, body)?;
        let Entry::Vacant(sent) = sent.entry(id.to_owned()) else { return None };
        let mut content = Digest::default();
        content.bytes(unescaped(text)?.as_bytes());
        sent.insert(SentMessage { revision: 0, content });
        let (begin, middle) = ("{\"sessionUpdate\":\"", "\",\"content\":{\"type\":\"text\",\"text\":\"");
        write(&[begin, tag, "_chunk\",\"messageId\":\"", id, middle, text, "\"}}"]);
        Some(())
    }
}

/// The update tag of a whole message.
fn whole_tag(kind: UpdateKind) -> Option<&'static str> {
    let meaning = kind.meaning();
    (meaning.subject.is_message() && meaning.form == UpdateForm::Upsert).then_some(meaning.tag)
}

/// The escaped text of a message as the fold writes it, if it is exactly one text block.
fn plain_body<'a>(tag: &str, id: &str, body: &'a str) -> Option<&'a str> {
    let rest = body.strip_prefix("{\"sessionUpdate\":\"")?.strip_prefix(tag)?;
    let rest = rest.strip_prefix("\",\"messageId\":\"")?.strip_prefix(id).filter(|_| needs_no_escape(id))?;
    let rest = rest.strip_prefix("\",\"content\":[{\"type\":\"text\",\"text\":\"")?;
    rest.strip_suffix("\"}]}").filter(|text| !text.is_empty())
}

/// Unescapes the contents of a JSON string; `None` if they are invalid.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    if needs_no_escape(text) {
        return Some(Cow::Borrowed(text));
    }
    serde_json::from_str(&format!("\"{text}\"")).ok().map(Cow::Owned)
}

/// Returns whether a text is the same inside a JSON string.
pub(in crate::edge) fn needs_no_escape(text: &str) -> bool {
    // Whole blocks at once, so that the compiler can use vector instructions.
    let special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    !text.as_bytes().chunks(BLOCK).any(|block| block.iter().fold(false, |any, byte| any | special(byte)))
}

impl SentMessage {
    fn whole(&mut self, update: &Update) -> Vec<Json> {
        let mut base = update.body.fields();
        let tag = base.text("sessionUpdate").unwrap_or_default();
        base.set("sessionUpdate", Json::of(&format!("{tag}_chunk")));
        let Some(content) = base.take("content") else {
            return message::meta_only(self.under_revision(&update.id, base));
        };
        let blocks = content.items().unwrap_or_default();
        let new = match self.content.new_blocks(&blocks) {
            Some(rest) => rest,
            None if blocks.is_empty() => return vec![self.withdraw(&update.id, base)],
            None => {
                *self = Self { revision: self.revision + 1, ..Self::default() };
                blocks
            }
        };
        new.iter().for_each(|block| self.content.add(block));
        let base = self.under_revision(&update.id, base);
        if new.is_empty() { message::meta_only(base) } else { message::chunks(base, new) }
    }

    /// Marks the sent text as withdrawn; later content starts a new message.
    fn withdraw(&mut self, id: &str, base: Fields) -> Json {
        self.revision += 1;
        let words = message::chunk(self.under_revision(id, base), content::text_block("(message withdrawn)"));
        *self = Self { revision: self.revision + 1, ..Self::default() };
        words
    }

    fn under_revision(self, id: &str, mut chunk: Fields) -> Fields {
        match self.revision {
            0 => {}
            1 => chunk.set("messageId", Json::of(&format!("{id}/revised"))),
            later => chunk.set("messageId", Json::of(&format!("{id}/revised-{later}"))),
        }
        chunk
    }
}

/// A block with no members other than its text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainText<'a> {
    #[serde(rename = "type", borrow)]
    tag: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl<'a> PlainText<'a> {
    fn of(block: &'a str) -> Option<Cow<'a, str>> {
        serde_json::from_str::<Self>(block).ok().filter(|block| block.tag == "text").map(|block| block.text)
    }
}

/// A digest of content that does not depend on where text was split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    length: usize,
    /// The hash of all complete 8-byte words.
    hash: u64,
    /// The remaining bytes.
    word: u64,
}

impl Digest {
    fn add(&mut self, block: &Json) {
        match plain_text(block) {
            Some(text) => self.bytes(text.as_bytes()),
            None => self.bytes(&non_text_bytes(block)),
        }
    }

    /// The blocks beyond the digested content; `None` if the blocks do not begin with it.
    fn new_blocks(self, blocks: &[Json]) -> Option<Vec<Json>> {
        let mut walked = Self::default();
        for (at, block) in blocks.iter().enumerate() {
            let open = self.length - walked.length;
            match plain_text(block) {
                Some(text) if text.len() > open => {
                    let (sent, new) = text.split_at_checked(open)?;
                    walked.bytes(sent.as_bytes());
                    let new = [content::text_block(new)].into_iter().chain(blocks[at + 1..].iter().cloned());
                    return (walked == self).then(|| new.collect());
                }
                None if open == 0 => return (walked == self).then(|| blocks[at..].to_vec()),
                None if non_text_bytes(block).len() > open => return None,
                Some(_) | None => walked.add(block),
            }
        }
        (walked == self).then(Vec::new)
    }

    /// Hashes complete words where possible; word boundaries do not depend on how the bytes are split.
    fn bytes(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.length.wrapping_neg() % WORD));
        head.iter().for_each(|byte| self.byte(*byte));
        let words = rest.chunks_exact(WORD);
        let tail = words.remainder();
        for word in words {
            self.hash = mix(self.hash, u64::from_le_bytes(word.try_into().unwrap_or_default()));
            self.length += WORD;
        }
        tail.iter().for_each(|byte| self.byte(*byte));
    }

    fn byte(&mut self, byte: u8) {
        self.word |= u64::from(byte) << (8 * (self.length % WORD));
        self.length += 1;
        if self.length.is_multiple_of(WORD) {
            self.hash = mix(self.hash, std::mem::take(&mut self.word));
        }
    }
}

const WORD: usize = size_of::<u64>();

/// How many bytes are searched at once for what a JSON string escapes.
const BLOCK: usize = 64;

/// A fast hash. It only has to detect accidental differences.
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// The text of a block that has no other members.
fn plain_text(block: &Json) -> Option<Cow<'_, str>> {
    if let Some(text) = PlainText::of(block.text()) {
        return Some(text);
    }
    // A duplicate member is read as everywhere else: the last one counts.
    let fields = block.fields();
    let plain = fields.text("type").as_deref() == Some("text") && fields.iter().count() == 2;
    fields.text("text").filter(|_| plain).map(Cow::Owned)
}

/// The bytes of a block that is not plain text, with a prefix byte that UTF-8 text never contains.
fn non_text_bytes(block: &Json) -> Vec<u8> {
    std::iter::once(0xff).chain(block.text().bytes()).collect()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::{Expect, expect};

    use super::*;
    use crate::edge::v1::schema_checks::{json, parses, roundtrips};

    fn shown(bodies: &[&str], expect: &Expect) {
        let mut messages = SentMessages::default();
        let mut text = String::new();
        for body in bodies {
            parses::<v2::SessionUpdate>(&json(body));
            let update = Update::read(json(body));
            for chunk in messages.show(&update) {
                roundtrips::<v1::SessionUpdate>(&chunk);
                let fields = chunk.fields();
                let content = fields.get("content").map(Json::fields).unwrap_or_default();
                let id = fields.text("messageId").unwrap_or_default();
                text.push_str(&format!("{id}: {}\n", content.text("text").unwrap_or_default()));
            }
        }
        expect.assert_eq(&text);
    }

    #[test]
    fn a_whole_message_after_its_chunks_sends_nothing() {
        shown(
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"on"}}"#,
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"e"}}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"one"}]}"#,
            ],
            &expect![[r#"
                m: on
                m: e
            "#]],
        );
    }

    #[test]
    fn a_growing_message_sends_only_its_new_text() {
        shown(
            &[
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"é"}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"éa"}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"éa"},{"type":"resource_link","uri":"u","name":"n"}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"éa"},{"type":"resource_link","uri":"u","name":"n"},{"type":"text","text":"b"}]}"#,
            ],
            &expect![[r#"
                m: é
                m: a
                m: 
                m: b
            "#]],
        );
    }

    #[test]
    fn each_replacement_gets_a_new_message_id() {
        shown(
            &[
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"ab"}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"a"}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"c"}]}"#,
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"d"}}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":null}"#,
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"e"}}"#,
            ],
            &expect![[r#"
                m: ab
                m/revised: a
                m/revised-2: c
                m/revised-2: d
                m/revised-3: (message withdrawn)
                m/revised-4: e
            "#]],
        );
    }

    #[test]
    fn the_digest_does_not_depend_on_where_text_is_split() {
        let text = "abcdefghijklmnopqrstuvwxyz".as_bytes();
        let mut whole = Digest::default();
        whole.bytes(text);
        for first in 0..text.len() {
            for second in first..text.len() {
                let mut cut = Digest::default();
                [&text[..first], &text[first..second], &text[second..]]
                    .iter()
                    .for_each(|part| cut.bytes(part));
                assert_eq!(cut, whole, "cut at {first} and {second}");
            }
        }
        let mut other = Digest::default();
        other.bytes("abcdefghijklmnopqrstuvwxyy".as_bytes());
        assert_ne!(other, whole);
    }

    #[test]
    fn blocks_other_than_plain_text_are_compared_as_a_whole() {
        shown(
            &[
                r#"{"sessionUpdate":"agent_message","messageId":"a","content":[{"type":"text","text":""}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"a","content":[{"type":"text","text":""},{"type":"text","text":"x"}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"b","content":[{"type":"text","text":"y"},{"type":"text","text":""}]}"#,
                r#"{"sessionUpdate":"agent_thought","messageId":"b","content":[{"type":"text","text":"a \"quoted\" é"}]}"#,
                r#"{"sessionUpdate":"agent_thought","messageId":"b","content":[{"type":"text","text":"a \u0022quoted\u0022 é, on"}]}"#,
            ],
            &expect![[r#"
                a: x
                b: y
                b: 
                b: a "quoted" é
                b: , on
            "#]],
        );
    }

    #[test]
    fn meta_without_content_is_sent_on_an_empty_chunk() {
        let sent = SentMessages::default().show(&Update {
            kind: UpdateKind::AgentMessage,
            id: "m".to_owned(),
            body: json(r#"{"sessionUpdate":"agent_message","messageId":"m","_meta":{"k":1}}"#),
        });
        expect![[r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"k":1},"content":{"type":"text","text":""}}"#]]
            .assert_eq(sent[0].text());
    }
}
