//! What a client of the first version was told of each message. It knows only chunks, and chunks only ever add: of
//! a message as a whole it is sent what is new, and what replaces its content goes under an id of its own.

use std::collections::BTreeMap;

use rethread_core::{Fields, Json, Update, UpdateKind};

use super::{content, message};

/// The messages that a client was told of.
#[derive(Debug, Default)]
pub struct Messages(BTreeMap<UpdateKind, BTreeMap<String, Told>>);

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
            return vec![message::chunk_to_v1(&told.named(&update.id, chunk).json())];
        }
        told.whole(update)
    }
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

/// A digest of content, in which it does not matter where text was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest {
    length: usize,
    hash: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { length: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }
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

    /// FNV-1a: no matter how the bytes are cut.
    fn bytes(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// The text of a block that is nothing but text.
fn plain_text(block: &Json) -> Option<String> {
    let fields = block.fields();
    let plain = fields.text("type").as_deref() == Some("text") && fields.iter().count() == 2;
    fields.text("text").filter(|_| plain)
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
            let fields = json(body).fields();
            let kind = UpdateKind::of_tag(&fields.text("sessionUpdate").unwrap_or_default());
            let update = Update { kind, id: fields.text("messageId").unwrap_or_default(), body: json(body) };
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
