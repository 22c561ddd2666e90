//! Converts the chunks of messages and thoughts. Which chunks a client needs is decided in `sent_messages`.

use rethread_core::{Fields, Json};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::content;
use super::meta::present;

/// How a content block with a text begins.
const TEXT_CONTENT: &str = r#","content":{"type":"text","text":""#;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

/// Returns whether a canonical chunk is also a valid v1 chunk.
#[must_use]
pub fn is_v1_chunk(chunk: &Json) -> bool {
    if is_plain_text(chunk.text()) {
        return true;
    }
    serde_json::from_str::<Chunk<'_>>(chunk.text()).is_ok_and(|chunk| content::is_shared(chunk.content.get()))
}

/// Recognizes, without a parse, a chunk that has only an id and a text, as `agent_translator` writes it.
fn is_plain_text(chunk: &str) -> bool {
    let text = || {
        let (_, rest) = chunk.strip_prefix("{\"sessionUpdate\":\"")?.split_once('"')?;
        let (_, rest) = rest.strip_prefix(",\"messageId\":\"")?.split_once('"')?;
        rest.strip_prefix(TEXT_CONTENT)?.strip_suffix("\"}}")
    };
    text().is_some_and(|text| !text.contains('"'))
}

/// Converts a chunk to v1; most chunks stay unchanged.
#[must_use]
pub fn chunk_to_v1(chunk: &Json) -> Json {
    if is_v1_chunk(chunk) {
        return chunk.clone();
    }
    let mut fields = chunk.fields();
    let block = fields.get("content").map_or_else(|| content::text_block(""), content::to_v1);
    fields.set("content", block);
    fields.json()
}

/// Makes one chunk for each block. The first has all members of the message, the others only its id.
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

/// Makes an empty chunk for an update without content, if it has a `_meta` to carry.
pub(super) fn meta_only(base: Fields) -> Vec<Json> {
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
    use crate::edge::v1::schema_checks::{json, parses, roundtrips};

    #[test]
    fn a_shared_chunk_stays_unchanged() {
        let chunk = json(
            r#"{"messageId":"m","content":{"type":"text","text":"x"},"sessionUpdate":"agent_message_chunk","later":1}"#,
        );
        assert!(is_v1_chunk(&chunk));
        assert_eq!(chunk_to_v1(&chunk), chunk);
    }

    #[test]
    fn a_text_alone_is_recognized_without_a_parse() {
        let chunk = |rest: &str| format!(r#"{{"sessionUpdate":"agent_message_chunk","messageId":"m",{rest}"#);
        let text = |text: &str| chunk(&format!(r#""content":{{"type":"text","text":"{text}"#));
        assert!(is_plain_text(&text(r#"x"}}"#)));
        assert!(is_plain_text(&text(r#"a\nb"}}"#)));
        for other in [
            text(r#"x"},"a":"b"}"#),
            text(r#"x","annotations":{"a":"b"}}}"#),
            chunk(r#""_meta":{"a":"b","content":{"type":"text","text":"x"}}}"#),
            chunk(r#""content":{"type":"image","data":"x"}}"#),
        ] {
            json(&other);
            assert!(!is_plain_text(&other), "{other}");
        }
    }

    #[test]
    fn an_unknown_chunk_becomes_text() {
        let chunk = json(
            r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"_v","text":"x"}}"#,
        );
        assert!(!is_v1_chunk(&chunk));
        parses::<v1::SessionUpdate>(&chunk_to_v1(&chunk));
    }

    #[test]
    fn the_first_chunk_has_all_members_of_the_message() {
        let base =
            json(r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"k":1}}"#).fields();
        let chunks = chunks(base, vec![content::text_block("a"), content::text_block("b")]);
        chunks.iter().for_each(|chunk| drop(roundtrips::<v1::SessionUpdate>(chunk)));
        expect![[r#"
            {"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"k":1},"content":{"type":"text","text":"a"}}
            {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"b"}}
        "#]]
        .assert_eq(&chunks.iter().map(|chunk| format!("{chunk}\n")).collect::<String>());
    }
}
