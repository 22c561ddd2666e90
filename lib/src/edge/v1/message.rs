//! Messages and thoughts. The first version knows only chunks; the canonical shape also has whole messages, which
//! replace what was there. Which messages a client has content of is known elsewhere.

use rethread_core::{Fields, Json};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::content;
use super::meta::present;
use super::tool_call::Announced;

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

/// The chunks that amount to a whole message: `tag` names them.
///
/// Chunks only ever add. What replaces a message that the client has content of goes under an id of its own.
#[must_use]
pub fn whole_to_v1(body: &Json, tag: &str, announced: Announced) -> Vec<Json> {
    let mut base = body.fields();
    base.set("sessionUpdate", Json::of(tag));
    let content = base.take("content");
    let blocks = content.as_ref().map(|list| list.items().unwrap_or_default());
    match (blocks, announced) {
        (None, _) => remarks_only(base),
        (Some(blocks), Announced::New) => chunks(base, blocks),
        (Some(blocks), Announced::Known) => revised(base, blocks),
    }
}

fn revised(mut base: Fields, blocks: Vec<Json>) -> Vec<Json> {
    let id = base.text("messageId").unwrap_or_default();
    base.set("messageId", Json::of(&format!("{id}/revised")));
    if blocks.is_empty() {
        return vec![chunk(base, content::text_block("(message withdrawn)"))];
    }
    chunks(base, blocks)
}

/// The first chunk has all that was said of the message, the others only its id.
fn chunks(base: Fields, blocks: Vec<Json>) -> Vec<Json> {
    let short: Fields = ["sessionUpdate", "messageId"]
        .into_iter()
        .filter_map(|name| Some((name, base.get(name)?.clone())))
        .collect();
    let bases = std::iter::once(base).chain(std::iter::repeat(short));
    bases.zip(blocks).map(|(base, block)| chunk(base, content::to_v1(&block))).collect()
}

fn chunk(mut base: Fields, block: Json) -> Json {
    if present(&base, "_meta").is_none() {
        base.take("_meta");
    }
    base.set("content", block);
    base.json()
}

/// A patch without content can only carry `_meta`; an empty chunk takes it along.
fn remarks_only(base: Fields) -> Vec<Json> {
    match present(&base, "_meta") {
        Some(_) => vec![chunk(base, content::text_block(""))],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::{Expect, expect};

    use super::*;
    use crate::edge::v1::typed::{holds, json, parses};

    fn shown(body: &str, announced: Announced, expect: &Expect) {
        parses::<v2::SessionUpdate>(&json(body));
        let updates = whole_to_v1(&json(body), "agent_message_chunk", announced);
        updates.iter().for_each(|update| drop(holds::<v1::SessionUpdate>(update)));
        expect.assert_eq(&updates.iter().map(|update| format!("{update}\n")).collect::<String>());
    }

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
    fn a_new_message_is_one_chunk_per_block() {
        shown(
            r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"_meta":{"k":1}}"#,
            Announced::New,
            &expect![[r#"
                {"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"k":1},"content":{"type":"text","text":"a"}}
                {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"b"}}
            "#]],
        );
    }

    #[test]
    fn a_replaced_message_has_an_id_of_its_own() {
        shown(
            r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"a"}],"_meta":null}"#,
            Announced::Known,
            &expect![[r#"
                {"sessionUpdate":"agent_message_chunk","messageId":"m/revised","content":{"type":"text","text":"a"}}
            "#]],
        );
    }

    #[test]
    fn an_emptied_message_is_withdrawn() {
        for content in ["null", "[]"] {
            let body = format!(r#"{{"sessionUpdate":"agent_message","messageId":"m","content":{content}}}"#);
            shown(
                &body,
                Announced::Known,
                &expect![[r#"
                    {"sessionUpdate":"agent_message_chunk","messageId":"m/revised","content":{"type":"text","text":"(message withdrawn)"}}
                "#]],
            );
            shown(&body, Announced::New, &expect![""]);
        }
    }

    #[test]
    fn remarks_alone_travel_on_an_empty_chunk() {
        shown(
            r#"{"sessionUpdate":"agent_message","messageId":"m","_meta":{"k":1}}"#,
            Announced::Known,
            &expect![[r#"
                {"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"k":1},"content":{"type":"text","text":""}}
            "#]],
        );
    }
}
