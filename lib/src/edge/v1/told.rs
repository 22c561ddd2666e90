//! What a client of the first version was told of each message. It knows only chunks, and chunks only ever add: of
//! a message as a whole it is sent what is new, and what replaces its content goes under an id of its own.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use rethread_core::{Fields, Json, Update, UpdateForm, UpdateKind};
use serde::Deserialize;

use super::{content, message};

/// The messages that a client was told of.
#[derive(Debug, Default)]
pub struct Messages(BTreeMap<UpdateKind, HashMap<String, Told>>);

/// What a client was told of one message: a digest, since the text may be long.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// How many times what it had was replaced.
    revision: u32,
    content: Digest,
}

impl Messages {
    /// The chunks that tell an update of a message, whole or chunk.
    pub fn show(&mut self, update: &Update) -> Vec<Json> {
        let kind = update.kind.whole();
        let told = self.0.entry(kind).or_default().entry(update.id.clone()).or_default();
        if update.kind != kind {
            let chunk = update.body.fields();
            chunk.get("content").iter().for_each(|block| told.content.add(block));
            if told.revision == 0 {
                return vec![message::chunk_to_v1(&update.body)];
            }
            return vec![message::chunk_to_v1(&told.named(&update.id, chunk).json())];
        }
        told.whole(update)
    }

    /// Tells a message that was not told of yet and is one plain text, by its text alone. `say` is given the chunk.
    pub(in crate::edge) fn show_at_sight(
        &mut self,
        kind: UpdateKind,
        id: &str,
        body: &str,
        say: &mut dyn FnMut(&[&str]),
    ) -> Option<()> {
        let tag = whole_tag(kind)?;
        let told = self.0.entry(kind).or_default();
        let text = plain_body(tag, id, body).filter(|_| !told.contains_key(id))?;
        let mut content = Digest::default();
        content.bytes(unescaped(text)?.as_bytes());
        told.insert(id.to_owned(), Told { revision: 0, content });
        let (begin, middle) = ("{\"sessionUpdate\":\"", "\",\"content\":{\"type\":\"text\",\"text\":\"");
        say(&[begin, tag, "_chunk\",\"messageId\":\"", id, middle, text, "\"}}"]);
        Some(())
    }
}

/// The tag of a message as a whole.
fn whole_tag(kind: UpdateKind) -> Option<&'static str> {
    let meaning = kind.meaning();
    (meaning.subject.is_message() && meaning.form == UpdateForm::Upsert).then_some(meaning.tag)
}

/// The text of a message as the fold writes it, still escaped, if it is one block of text and nothing else.
fn plain_body<'a>(tag: &str, id: &str, body: &'a str) -> Option<&'a str> {
    let rest = body.strip_prefix("{\"sessionUpdate\":\"")?.strip_prefix(tag)?;
    let rest = rest.strip_prefix("\",\"messageId\":\"")?.strip_prefix(id).filter(|_| is_plain(id))?;
    let rest = rest.strip_prefix("\",\"content\":[{\"type\":\"text\",\"text\":\"")?;
    rest.strip_suffix("\"}]}").filter(|text| !text.is_empty())
}

/// The text inside of a JSON string; nothing if it is not the inside of one.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    if is_plain(text) {
        return Some(Cow::Borrowed(text));
    }
    serde_json::from_str(&format!("\"{text}\"")).ok().map(Cow::Owned)
}

/// Says whether text is the same inside of a JSON string.
pub(in crate::edge) fn is_plain(text: &str) -> bool {
    !text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\'))
}

impl Told {
    fn whole(&mut self, update: &Update) -> Vec<Json> {
        let mut base = update.body.fields();
        let tag = base.text("sessionUpdate").unwrap_or_default();
        base.set("sessionUpdate", Json::of(&format!("{tag}_chunk")));
        let Some(content) = base.take("content") else {
            return message::remarks_only(self.named(&update.id, base));
        };
        let blocks = content.items().unwrap_or_default();
        let new = match self.content.rest_of(&blocks) {
            Some(rest) => rest,
            None if blocks.is_empty() => return vec![self.withdraw(&update.id, base)],
            None => {
                *self = Self { revision: self.revision + 1, ..Self::default() };
                blocks
            }
        };
        new.iter().for_each(|block| self.content.add(block));
        let base = self.named(&update.id, base);
        if new.is_empty() { message::remarks_only(base) } else { message::chunks(base, new) }
    }

    /// Says that what was told does not hold; what comes after has nothing to do with these words.
    fn withdraw(&mut self, id: &str, base: Fields) -> Json {
        self.revision += 1;
        let words = message::chunk(self.named(id, base), content::text_block("(message withdrawn)"));
        *self = Self { revision: self.revision + 1, ..Self::default() };
        words
    }

    fn named(self, id: &str, mut chunk: Fields) -> Fields {
        match self.revision {
            0 => {}
            1 => chunk.set("messageId", Json::of(&format!("{id}/revised"))),
            later => chunk.set("messageId", Json::of(&format!("{id}/revised-{later}"))),
        }
        chunk
    }
}

/// A block that is nothing but text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainText<'a> {
    #[serde(rename = "type", borrow)]
    tag: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl<'a> PlainText<'a> {
    /// The text of such a block.
    fn of(block: &'a str) -> Option<Cow<'a, str>> {
        serde_json::from_str::<Self>(block).ok().filter(|block| block.tag == "text").map(|block| block.text)
    }
}

/// A digest of content, in which it does not matter where text was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    length: usize,
    /// Of all whole words of eight bytes.
    hash: u64,
    /// The bytes after those.
    word: u64,
}

impl Digest {
    fn add(&mut self, block: &Json) {
        match plain_text(block) {
            Some(text) => self.bytes(text.as_bytes()),
            None => self.bytes(&marked(block)),
        }
    }

    /// What the blocks have beyond the content of this digest; nothing if they do not begin with that.
    fn rest_of(self, blocks: &[Json]) -> Option<Vec<Json>> {
        let mut walked = Self::default();
        for (at, block) in blocks.iter().enumerate() {
            let open = self.length - walked.length;
            match plain_text(block) {
                Some(text) if text.len() > open => {
                    let (told, new) = text.split_at_checked(open)?;
                    walked.bytes(told.as_bytes());
                    let new = [content::text_block(new)].into_iter().chain(blocks[at + 1..].iter().cloned());
                    return (walked == self).then(|| new.collect());
                }
                None if open == 0 => return (walked == self).then(|| blocks[at..].to_vec()),
                None if marked(block).len() > open => return None,
                Some(_) | None => walked.add(block),
            }
        }
        (walked == self).then(Vec::new)
    }

    /// Takes whole words at once, where they begin wherever the bytes were cut.
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

/// How many bytes are taken at once.
const WORD: usize = size_of::<u64>();

/// Quick, and enough against accidents, which is all it is for.
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// The text of a block that is nothing but text.
fn plain_text(block: &Json) -> Option<Cow<'_, str>> {
    if let Some(text) = PlainText::of(block.text()) {
        return Some(text);
    }
    // A member that is there twice is read as everywhere else.
    let fields = block.fields();
    let plain = fields.text("type").as_deref() == Some("text") && fields.iter().count() == 2;
    fields.text("text").filter(|_| plain).map(Cow::Owned)
}

/// A block that is more than text, told apart from text by a byte that text does not have.
fn marked(block: &Json) -> Vec<u8> {
    std::iter::once(0xff).chain(block.text().bytes()).collect()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::{Expect, expect};

    use super::*;
    use crate::edge::v1::typed::{holds, json, parses};

    fn shown(bodies: &[&str], expect: &Expect) {
        let mut messages = Messages::default();
        let mut text = String::new();
        for body in bodies {
            parses::<v2::SessionUpdate>(&json(body));
            let update = Update::read(json(body));
            for chunk in messages.show(&update) {
                holds::<v1::SessionUpdate>(&chunk);
                let fields = chunk.fields();
                let content = fields.get("content").map(Json::fields).unwrap_or_default();
                let id = fields.text("messageId").unwrap_or_default();
                text.push_str(&format!("{id}: {}\n", content.text("text").unwrap_or_default()));
            }
        }
        expect.assert_eq(&text);
    }

    #[test]
    fn a_whole_that_was_said_in_pieces_says_nothing_new() {
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
    fn a_whole_that_grows_is_told_on() {
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
    fn what_is_replaced_has_an_id_of_its_own_each_time() {
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
    fn it_does_not_matter_where_text_is_cut() {
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
    fn what_is_not_only_text_is_told_as_before() {
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
    fn remarks_alone_travel_on_an_empty_chunk() {
        let told = Messages::default().show(&Update {
            kind: UpdateKind::AgentMessage,
            id: "m".to_owned(),
            body: json(r#"{"sessionUpdate":"agent_message","messageId":"m","_meta":{"k":1}}"#),
        });
        expect![[r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"k":1},"content":{"type":"text","text":""}}"#]]
            .assert_eq(told[0].text());
    }
}
