//! Rethread's own members of `_meta`, the object `_meta.rethread`. What Rethread keeps there it trusts later, so
//! nobody else may write it: it is removed from what clients and external agents send, apart from the keys that are
//! documented for them. Knows nothing of what the keys mean.

use bytes::Bytes;
use memchr::memmem;
use rethread_core::{Fields, Json};

/// The member of `_meta` that is Rethread's own.
const OURS: &str = "rethread";

/// The keys of `_meta.rethread` that a client may send (`docs/protocol.md`).
pub const CLIENT_KEYS: &[&str] = &["atMessage"];

/// What tools were given and gave back is data, in which `_meta` means nothing to us.
const DATA: [&str; 2] = ["rawInput", "rawOutput"];

/// How deep a message is searched. Nothing is ever read from deeper `_meta` objects.
const DEPTH: usize = 48;

/// A line without `_meta.rethread`, at any depth, except for the keys in `kept`.
#[must_use]
pub fn strip_line(line: Bytes, kept: &[&str]) -> Bytes {
    if !may_hold(&line) {
        return line;
    }
    let Ok(text) = str::from_utf8(&line) else { return line };
    // What is no JSON is refused by whoever parses it.
    let Ok(json) = Json::parse(text.to_owned()) else { return line };
    match stripped(&json, kept, DEPTH) {
        Some(stripped) => Bytes::from(stripped.text().to_owned()),
        None => line,
    }
}

/// The same for one value, such as an update.
#[must_use]
pub fn strip(json: &Json) -> Json {
    stripped(json, &[], DEPTH).unwrap_or_else(|| json.clone())
}

/// Says whether a text may hold the member, cheaply. Each of its letters may also be written as an escape.
#[must_use]
pub fn may_hold(text: &[u8]) -> bool {
    [OURS, "\\u006", "\\u007"].iter().any(|part| memmem::find(text, part.as_bytes()).is_some())
}

/// The value without the member, if it has it.
fn stripped(json: &Json, kept: &[&str], depth: usize) -> Option<Json> {
    let text = json.text();
    if depth == 0 || !may_hold(text.as_bytes()) {
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
            data if DATA.contains(&data) => None,
            _ => stripped(value, kept, depth),
        };
        changed |= new.is_some();
        // A `_meta` that has nothing left says nothing.
        if !(name == "_meta" && new.as_ref().is_some_and(|meta| meta.text() == "{}")) {
            members.push((name, new.unwrap_or_else(|| value.clone())));
        }
    }
    changed.then(|| members.into_iter().collect::<Fields>().json())
}

fn stripped_meta(meta: &Json, kept: &[&str]) -> Option<Json> {
    let mut meta = meta.fields();
    let ours = meta.take(OURS)?.fields();
    let known: Fields = ours
        .iter()
        .filter(|(name, _)| kept.contains(name))
        .map(|(name, value)| (name, value.clone()))
        .collect();
    if known == ours && !known.is_empty() {
        return None;
    }
    if !known.is_empty() {
        meta.set(OURS, known.json());
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
    fn it_is_removed_at_every_depth_and_the_rest_stays_as_it_was() {
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
    fn keys_that_are_kept_stay_alone() {
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
    fn words_about_it_and_the_data_of_tools_are_left_alone() {
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
    fn a_deep_nest_ends_the_search_and_nothing_else() {
        let deep = format!("{}{}{}", "[".repeat(50_000), r#"{"_meta":{"rethread":1}}"#, "]".repeat(50_000));
        assert_eq!(strip_line(Bytes::from(deep.clone()), &[]), deep);
    }
}
