//! Content blocks. Both versions agree on text, images, audio, links and resources; only a block of a type
//! that the first version does not have is touched here. Messages and tool calls around them are elsewhere.

use std::borrow::Cow;

use rethread_core::{Fields, Json};
use serde::Deserialize;

use super::meta::{each, remark};

const SHARED: [&str; 5] = ["text", "image", "audio", "resource_link", "resource"];
const WORDS: [&str; 6] = ["text", "title", "name", "description", "uri", "url"];

#[derive(Deserialize)]
struct Tagged<'a> {
    #[serde(rename = "type", borrow)]
    tag: Cow<'a, str>,
}

/// Says whether both versions know the type of this block.
#[must_use]
pub fn is_shared(block: &str) -> bool {
    serde_json::from_str::<Tagged<'_>>(block).is_ok_and(|block| SHARED.contains(&block.tag.as_ref()))
}

/// The block as the first version can show it; one that both versions know is the very same.
#[must_use]
pub fn to_v1(block: &Json) -> Json {
    if is_shared(block.text()) { block.clone() } else { in_words(block) }
}

/// A list of blocks as the first version can show it.
#[must_use]
pub fn list_to_v1(blocks: &Json) -> Json {
    each(blocks, to_v1)
}

/// A text block.
#[must_use]
pub fn text_block(text: &str) -> Json {
    [("type", Json::of("text")), ("text", Json::of(text))].into_iter().collect::<Fields>().json()
}

/// Says what `thing` is and which words it has, for a reader who cannot be shown the thing itself.
pub(super) fn describe(thing: &Json, noun: &str) -> String {
    let fields = thing.fields();
    let tag = fields.text("type").unwrap_or_else(|| "unnamed".to_owned());
    let words: Vec<String> = WORDS.iter().filter_map(|name| fields.text(name)).collect();
    let head = format!("[{noun} of type {tag}, which this client cannot show]");
    if words.is_empty() { head } else { format!("{head} {}", words.join("\n")) }
}

fn in_words(block: &Json) -> Json {
    let fields = block.fields();
    let mut shown = text_block(&describe(block, "content")).fields();
    for name in ["annotations", "_meta"] {
        if let Some(value) = fields.get(name) {
            shown.set(name, value.clone());
        }
    }
    remark(&mut shown, "block", block.clone());
    shown.json()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1;
    use expect_test::expect;

    use super::*;
    use crate::edge::v1::typed::{json, parses};

    #[test]
    fn shared_blocks_are_the_very_same() {
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
    fn an_unknown_block_keeps_its_words() {
        let shown = to_v1(&json(r#"{"type":"video","text":"a cat","uri":"file:///cat","_meta":{"k":1}}"#));
        parses::<v1::ContentBlock>(&shown);
        expect![[r#"{"type":"text","text":"[content of type video, which this client cannot show] a cat\nfile:///cat","_meta":{"k":1,"rethread":{"block":{"type":"video","text":"a cat","uri":"file:///cat","_meta":{"k":1}}}}}"#]]
        .assert_eq(shown.text());
    }

    #[test]
    fn a_list_that_is_none_is_left_alone() {
        assert_eq!(list_to_v1(&json("null")).text(), "null");
    }
}
