//! Converts content blocks. Both versions share text, images, audio, links and resources; blocks of other types become
//! text in version 1.

use std::borrow::Cow;

use rethread_core::{Fields, Json};
use serde::Deserialize;

use super::meta::{each, set_own_meta};

const SHARED: [&str; 5] = ["text", "image", "audio", "resource_link", "resource"];
const TEXT_MEMBERS: [&str; 6] = ["text", "title", "name", "description", "uri", "url"];

#[derive(Deserialize)]
struct Tagged<'a> {
    #[serde(rename = "type", borrow)]
    tag: Cow<'a, str>,
}

/// Returns whether both versions have this type of block.
#[must_use]
pub fn is_shared(block: &str) -> bool {
    serde_json::from_str::<Tagged<'_>>(block).is_ok_and(|block| SHARED.contains(&block.tag.as_ref()))
}

/// Converts a block to v1. Blocks that both versions share stay unchanged.
#[must_use]
pub fn to_v1(block: &Json) -> Json {
    if is_shared(block.text()) { block.clone() } else { as_text(block) }
}

/// Converts a list of blocks to v1.
#[must_use]
pub fn list_to_v1(blocks: &Json) -> Json {
    each(blocks, to_v1)
}

/// Makes a text block.
#[must_use]
pub fn text_block(text: &str) -> Json {
    [("type", Json::of("text")), ("text", Json::of(text))].into_iter().collect::<Fields>().json()
}

/// Describes a value that the client cannot display, with the text that it contains.
pub(super) fn describe(thing: &Json, noun: &str) -> String {
    let fields = thing.fields();
    let tag = fields.text("type").unwrap_or_else(|| "unnamed".to_owned());
    let words: Vec<String> = TEXT_MEMBERS.iter().filter_map(|name| fields.text(name)).collect();
    let head = format!("[{noun} of type {tag}, which this client cannot show]");
    if words.is_empty() { head } else { format!("{head} {}", words.join("\n")) }
}

fn as_text(block: &Json) -> Json {
    let fields = block.fields();
    let mut shown = text_block(&describe(block, "content")).fields();
    for name in ["annotations", "_meta"] {
        if let Some(value) = fields.get(name) {
            shown.set(name, value.clone());
        }
    }
    set_own_meta(&mut shown, "block", block.clone());
    shown.json()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1;
    use expect_test::expect;

    use super::*;
    use crate::edge::v1::schema_checks::{json, parses};

    #[test]
    fn shared_blocks_stay_unchanged() {
        for block in [
            r#"{"type":"text","text":"hi","_meta":{"a":1},"later":true}"#,
            r#"{"text":"tag last","type":"text"}"#,
            r#"{"type":"image","data":"","mimeType":"image/png"}"#,
            r#"{"type":"resource_link","name":"n","uri":"file:///n","size":12,"icons":[]}"#,
        ] {
            let block = json(block);
            assert_eq!(to_v1(&block), block);
            parses::<v1::ContentBlock>(&block);
        }
    }

    #[test]
    fn an_unknown_block_becomes_text() {
        let shown = to_v1(&json(r#"{"type":"video","text":"a cat","uri":"file:///cat","_meta":{"k":1}}"#));
        parses::<v1::ContentBlock>(&shown);
        expect![[r#"{"type":"text","text":"[content of type video, which this client cannot show] a cat\nfile:///cat","_meta":{"k":1,"rethread":{"block":{"type":"video","text":"a cat","uri":"file:///cat","_meta":{"k":1}}}}}"#]]
        .assert_eq(shown.text());
    }

    #[test]
    fn a_value_that_is_not_a_list_stays_unchanged() {
        assert_eq!(list_to_v1(&json("null")).text(), "null");
    }
}
