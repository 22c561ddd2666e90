//! Protects `_meta.rethread`, the member in which Rethread stores its own data. Rethread trusts that data later, so
//! `_meta.rethread` is removed from everything that clients and external agents send, except for the keys documented
//! for them. Does not interpret the keys.

use bytes::Bytes;
use memchr::memmem;
use rethread_core::{Fields, Json};

const OWN_MEMBER: &str = "rethread";

/// The keys of `_meta.rethread` that a client may send (see `docs/protocol.md`).
pub const CLIENT_KEYS: &[&str] = &["atMessage", "role", "updates"];

/// The keys that another host may send for a client which it carries.
pub const HOST_KEYS: &[&str] = &["atMessage", "role", "updates", "after"];

/// Tool input and output is opaque data, in which `_meta` has no meaning for Rethread.
const TOOL_DATA: [&str; 2] = ["rawInput", "rawOutput"];

/// How many levels deep a message is searched. Rethread never reads deeper `_meta` objects.
const MAX_DEPTH: usize = 48;

/// Removes `_meta.rethread` from a line at any depth, except for the keys in `kept`.
#[must_use]
pub fn strip_line(line: Bytes, kept: &[&str]) -> Bytes {
    if !may_contain(&line) {
        return line;
    }
    let Ok(text) = str::from_utf8(&line) else { return line };
    // Invalid JSON is refused later, where the line is parsed.
    let Ok(json) = Json::parse(text.to_owned()) else { return line };
    match stripped(&json, kept, MAX_DEPTH) {
        Some(stripped) => Bytes::from(stripped.text().to_owned()),
        None => line,
    }
}

/// Removes `_meta.rethread` from one value, such as an update.
#[must_use]
pub fn strip(json: &Json) -> Json {
    stripped(json, &[], MAX_DEPTH).unwrap_or_else(|| json.clone())
}

/// A cheap check whether a text may contain the member. The letters of its name may also be written as escapes.
#[must_use]
pub fn may_contain(text: &[u8]) -> bool {
    [OWN_MEMBER, "\\u006", "\\u007"].iter().any(|part| memmem::find(text, part.as_bytes()).is_some())
}

/// Returns the value without the member, or `None` if it has no such member.
fn stripped(json: &Json, kept: &[&str], depth: usize) -> Option<Json> {
    let text = json.text();
    if depth == 0 || !may_contain(text.as_bytes()) {
        return None;
    }
    match text.as_bytes().first() {
        Some(b'{') => stripped_object(&json.fields(), kept, depth - 1),
        Some(b'[') => {
            let mut items = json.items()?;
            let mut changed = false;
            for item in &mut items {
                if let Some(new) = stripped(item, kept, depth - 1) {
                    *item = new;
                    changed = true;
                }
            }
            changed.then(|| Json::of(&items))
        }
        Some(_) | None => None,
    }
}

fn stripped_object(fields: &Fields, kept: &[&str], depth: usize) -> Option<Json> {
    let mut changed = false;
    let mut members = Vec::new();
    for (name, value) in fields.iter() {
        let new = match name {
            "_meta" => stripped_meta(value, kept),
            data if TOOL_DATA.contains(&data) => None,
            _ => stripped(value, kept, depth),
        };
        changed |= new.is_some();
        // Drops a `_meta` that is empty now.
        if !(name == "_meta" && new.as_ref().is_some_and(|meta| meta.text() == "{}")) {
            members.push((name, new.unwrap_or_else(|| value.clone())));
        }
    }
    changed.then(|| members.into_iter().collect::<Fields>().json())
}

fn stripped_meta(meta: &Json, kept: &[&str]) -> Option<Json> {
    let mut meta = meta.fields();
    let ours = meta.take(OWN_MEMBER)?.fields();
    let known: Fields = ours
        .iter()
        .filter(|(name, _)| kept.contains(name))
        .map(|(name, value)| (name, value.clone()))
        .collect();
    if known == ours && !known.is_empty() {
        return None;
    }
    if !known.is_empty() {
        meta.set(OWN_MEMBER, known.json());
    }
    Some(meta.json())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(line: &'static str, kept: &[&str], stripped: &Expect) {
        let line = strip_line(Bytes::from_static(line.as_bytes()), kept);
        stripped.assert_eq(str::from_utf8(&line).expect("it was UTF-8"));
    }

    #[test]
    fn it_is_removed_at_every_depth_and_the_rest_stays_unchanged() {
        check(
            r#"{"method":"session/update","params":{"_meta":{"rethread":1},"update":{"n":1.50,"_meta":{"k":1e400,"rethread":{"rule":{}}},"content":[{"a":{"_meta":{"rethread":{"x":1}}}}]}}}"#,
            &[],
            &expect![[
                r#"{"method":"session/update","params":{"update":{"n":1.50,"_meta":{"k":1e400},"content":[{"a":{}}]}}}"#
            ]],
        );
    }

    #[test]
    fn an_escaped_name_is_the_same_name() {
        check(
            r#"{"params":{"_meta":{"\u0072ethread":{"rule":1},"k":1}}}"#,
            &[],
            &expect![[r#"{"params":{"_meta":{"k":1}}}"#]],
        );
        check(
            r#"{"params":{"\u005fmeta":{"rethr\u0065ad":{"rule":1}}}}"#,
            &[],
            &expect![[r#"{"params":{}}"#]],
        );
    }

    #[test]
    fn only_allowed_keys_are_kept() {
        check(
            r#"{"params":{"_meta":{"rethread":{"history":[],"atMessage":"m"}}}}"#,
            CLIENT_KEYS,
            &expect![[r#"{"params":{"_meta":{"rethread":{"atMessage":"m"}}}}"#]],
        );
        check(
            r#"{"params": {"_meta":{"rethread":{"atMessage":"m"}}}}"#,
            CLIENT_KEYS,
            &expect![[r#"{"params": {"_meta":{"rethread":{"atMessage":"m"}}}}"#]],
        );
    }

    #[test]
    fn text_that_mentions_it_and_tool_data_stay_unchanged() {
        for line in [
            r#"{"params":{"text": "see _meta.rethread"}}"#,
            r#"{"rethread": {"_meta": 1}}"#,
            r#"{"rawOutput": {"_meta": {"rethread": {"rule": 1}}}}"#,
            "not JSON about rethread",
        ] {
            assert_eq!(strip_line(Bytes::from_static(line.as_bytes()), &[]), line);
        }
    }

    #[test]
    fn deep_nesting_only_ends_the_search() {
        let deep = format!("{}{}{}", "[".repeat(50_000), r#"{"_meta":{"rethread":1}}"#, "]".repeat(50_000));
        assert_eq!(strip_line(Bytes::from(deep.clone()), &[]), deep);
    }
}
