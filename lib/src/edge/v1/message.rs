//! The chunks of messages and thoughts. Which of them a client is to be told is decided in `told`.

use rethread_core::{Fields, Json};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::content;
use super::meta::present;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

/// Says whether a chunk of the canonical shape is one of the first version as it stands.
#[must_use]
pub fn passes(chunk: &Json) -> bool {
    serde_json::from_str::<Chunk<'_>>(chunk.text()).is_ok_and(|chunk| content::is_shared(chunk.content.get()))
}

/// The chunk as the first version can show it; nearly always the very same.
#[must_use]
pub fn chunk_to_v1(chunk: &Json) -> Json {
    if passes(chunk) {
        return chunk.clone();
    }
    let mut fields = chunk.fields();
    let block = fields.get("content").map_or_else(|| content::text_block(""), content::to_v1);
    fields.set("content", block);
    fields.json()
}

/// The first chunk has all that was said of the message, the others only its id.
pub(super) fn chunks(base: Fields, blocks: Vec<Json>) -> Vec<Json> {
    let short: Fields = ["sessionUpdate", "messageId"]
        .into_iter()
        .filter_map(|name| Some((name, base.get(name)?.clone())))
        .collect();
    let bases = std::iter::once(base).chain(std::iter::repeat(short));
    bases.zip(blocks).map(|(base, block)| chunk(base, content::to_v1(&block))).collect()
}

pub(super) fn chunk(mut base: Fields, block: Json) -> Json {
    if present(&base, "_meta").is_none() {
        base.take("_meta");
    }
    base.set("content", block);
    base.json()
}

/// A patch without content can only carry `_meta`; an empty chunk takes it along.
pub(super) fn remarks_only(base: Fields) -> Vec<Json> {
    match present(&base, "_meta") {
        Some(_) => vec![chunk(base, content::text_block(""))],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1;
    use expect_test::expect;

    use super::*;
    use crate::edge::v1::typed::{holds, json, parses};

    #[test]
    fn a_shared_chunk_is_the_very_same() {
        let chunk = json(
            r#"{"messageId":"m","content":{"type":"text","text":"x"},"sessionUpdate":"agent_message_chunk","later":1}"#,
        );
        assert!(passes(&chunk));
        assert_eq!(chunk_to_v1(&chunk), chunk);
    }

    #[test]
    fn an_unknown_chunk_is_told_in_words() {
        let chunk = json(
            r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"_v","text":"x"}}"#,
        );
        assert!(!passes(&chunk));
        parses::<v1::SessionUpdate>(&chunk_to_v1(&chunk));
    }

    #[test]
    fn the_first_of_several_chunks_has_all_that_was_said() {
        let base =
            json(r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"k":1}}"#).fields();
        let chunks = chunks(base, vec![content::text_block("a"), content::text_block("b")]);
        chunks.iter().for_each(|chunk| drop(holds::<v1::SessionUpdate>(chunk)));
        expect![[r#"
            {"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"k":1},"content":{"type":"text","text":"a"}}
            {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"b"}}
        "#]]
        .assert_eq(&chunks.iter().map(|chunk| format!("{chunk}\n")).collect::<String>());
    }
}
