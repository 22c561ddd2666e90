//! Converts tool calls: two kinds of update in version 1, one upsert in the canonical form. Which calls a client knows
//! and what a terminal has printed are parameters.

use rethread_core::{Fields, Json};

use super::meta::{drop_nulls, each, present, set_own_meta};
use super::{content, diff};

/// Whether the client was sent the tool call before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// It was not: this update creates it.
    New,
    /// It was: this update changes it.
    Known,
}

/// Whether a v1 tool call is complete or a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A `tool_call`: omitted members have their default.
    Create,
    /// A `tool_call_update`: omitted members stay as they are.
    Patch,
}

/// Renders the terminals that tool calls refer to.
pub trait TerminalText {
    /// Renders one terminal.
    fn render(&self, terminal_id: &str) -> TerminalView;
}

/// How a terminal appears in a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalView {
    /// As a reference to a terminal that the client runs, with its id.
    Own(String),
    /// As text, since the client does not have the terminal.
    Text(String),
}

const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "failed"];
const KINDS: [&str; 10] =
    ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"];
/// Members for which null means "keep" in version 1 and "clear" in the canonical form.
const NULLABLE: [&str; 9] =
    ["title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput", "_meta"];

/// Converts a v1 `tool_call` or `tool_call_update` to a canonical update.
#[must_use]
pub fn from_v1(mut body: Fields) -> Json {
    let form = match body.text("sessionUpdate").as_deref() {
        Some("tool_call") => Form::Create,
        _ => Form::Patch,
    };
    body.set("sessionUpdate", Json::of("tool_call_update"));
    call_from_v1(body, form).json()
}

/// Converts the members of a v1 tool call to canonical form.
#[must_use]
pub fn call_from_v1(mut call: Fields, form: Form) -> Fields {
    drop_nulls(&mut call, &NULLABLE);
    if form == Form::Create {
        for (name, default) in [("status", "pending"), ("kind", "other")] {
            if call.get(name).is_none() {
                call.set(name, Json::of(default));
            }
        }
    }
    if let Some(items) = call.get("content") {
        let items = each(items, item_from_v1);
        call.set("content", items);
    }
    if let Some(locations) = call.get("locations") {
        let locations = each(locations, location_from_v1);
        call.set("locations", locations);
    }
    call
}

/// Converts a canonical `tool_call_update` to v1.
///
/// A `tool_call_content_chunk` replaces the whole content, since v1 cannot append: use [`with_content`] to include
/// earlier content.
#[must_use]
pub fn to_v1(body: &Json, announced: Announced, terminals: &dyn TerminalText) -> Json {
    let mut call = body.fields();
    if call.text("sessionUpdate").as_deref() == Some("tool_call_content_chunk") {
        let item = call.take("content");
        call.set("content", Json::of(&item.into_iter().collect::<Vec<_>>()));
    }
    let tag = match announced {
        Announced::New => "tool_call",
        Announced::Known => "tool_call_update",
    };
    call.set("sessionUpdate", Json::of(tag));
    call_to_v1(call, announced, terminals).json()
}

/// Makes a canonical `tool_call_update` of a content chunk and all items up to it.
#[must_use]
pub fn with_content(chunk: &Json, items: &Json) -> Json {
    let mut call = chunk.fields();
    call.set("sessionUpdate", Json::of("tool_call_update"));
    call.set("content", items.clone());
    call.json()
}

/// Converts the members of a canonical tool call to v1.
#[must_use]
pub fn call_to_v1(mut call: Fields, announced: Announced, terminals: &dyn TerminalText) -> Fields {
    map_to_known(&mut call, "status", &STATUSES, status_to_v1);
    map_to_known(&mut call, "kind", &KINDS, |_| "other");
    if let Some(capabilities) = call.take("capabilities") {
        set_own_meta(&mut call, "capabilities", capabilities);
    }
    match announced {
        Announced::New => fill_new_call(&mut call),
        Announced::Known => replace_nulls(&mut call),
    }
    if let Some(items) = call.get("content").and_then(Json::items) {
        let items: Vec<Json> = items.iter().flat_map(|item| item_to_v1(item, terminals)).collect();
        call.set("content", Json::of(&items));
    }
    call
}

/// Makes a title for a tool call without one.
#[must_use]
pub fn default_title(call: &Fields) -> String {
    let kind = call.text("kind").filter(|kind| kind != "other").map(|kind| kind.replace('_', " "));
    match (call.text("name").filter(|name| !name.is_empty()), kind) {
        (Some(name), _) => name,
        (None, Some(kind)) => kind,
        (None, None) => format!("Tool call {}", call.text("toolCallId").unwrap_or_default()),
    }
}

/// Version 1 requires a title on creation, and null has no meaning there.
fn fill_new_call(call: &mut Fields) {
    drop_nulls(call, &NULLABLE);
    if call.text("title").is_none() {
        let title = default_title(call);
        call.set("title", Json::of(&title));
    }
}

/// Null clears a member in the canonical form; version 1 needs an empty value instead.
fn replace_nulls(call: &mut Fields) {
    let title = default_title(call);
    let empty_values = [
        ("title", Json::of(&title)),
        ("name", Json::of("")),
        ("kind", Json::of("other")),
        ("status", Json::of("pending")),
        ("content", Json::of::<[Json]>(&[])),
        ("locations", Json::of::<[Json]>(&[])),
        ("rawInput", Json::of("")),
        ("rawOutput", Json::of("")),
    ];
    for (name, value) in empty_values {
        if call.get(name).is_some_and(Json::is_null) {
            call.set(name, value);
        }
    }
    drop_nulls(call, &["_meta"]);
}

/// Replaces a value that version 1 does not have by the closest one, and keeps the original in `_meta.rethread`.
fn map_to_known(call: &mut Fields, name: &str, known: &[&str], nearest: fn(&str) -> &'static str) {
    let Some(value) = present(call, name).cloned() else { return };
    let word = value.as_string().unwrap_or_default();
    if !known.contains(&word.as_str()) {
        call.set(name, Json::of(nearest(&word)));
        set_own_meta(call, name, value);
    }
}

fn status_to_v1(status: &str) -> &'static str {
    if status == "cancelled" { "failed" } else { "in_progress" }
}

fn item_from_v1(item: &Json) -> Json {
    let fields = item.fields();
    match fields.text("type").as_deref() {
        Some("diff") => diff::from_v1(fields),
        _ => item.clone(),
    }
}

fn item_to_v1(item: &Json, terminals: &dyn TerminalText) -> Vec<Json> {
    let mut fields = item.fields();
    match fields.text("type").as_deref() {
        Some("content") => {
            if let Some(block) = fields.get("content") {
                let block = content::to_v1(block);
                fields.set("content", block);
            }
            vec![fields.json()]
        }
        Some("diff") => diff::to_v1(fields),
        Some("terminal") => vec![terminal_to_v1(fields, terminals)],
        _ => vec![item_as_text(item)],
    }
}

fn terminal_to_v1(mut item: Fields, terminals: &dyn TerminalText) -> Json {
    let id = item.text("terminalId").unwrap_or_default();
    match terminals.render(&id) {
        TerminalView::Own(own) => item.set("terminalId", Json::of(&own)),
        TerminalView::Text(text) => {
            item.take("terminalId");
            item.set("type", Json::of("content"));
            item.set("content", content::text_block(&text));
            set_own_meta(&mut item, "terminalId", Json::of(&id));
        }
    }
    item.json()
}

fn item_as_text(item: &Json) -> Json {
    let text = content::describe(item, "tool output");
    let mut shown: Fields =
        [("type", Json::of("content")), ("content", content::text_block(&text))].into_iter().collect();
    if let Some(meta) = item.fields().get("_meta") {
        shown.set("_meta", meta.clone());
    }
    set_own_meta(&mut shown, "item", item.clone());
    shown.json()
}

/// Line numbers start at 1. Version 1 allows 0, the canonical form does not.
fn location_from_v1(location: &Json) -> Json {
    let mut fields = location.fields();
    if fields.get("line").is_some_and(|line| matches!(line.text(), "0" | "null")) {
        fields.take("line");
        return fields.json();
    }
    location.clone()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::{Expect, expect};

    use super::*;
    use crate::edge::v1::schema_checks::{json, parses, roundtrips};

    struct TestTerminals;

    impl TerminalText for TestTerminals {
        fn render(&self, terminal_id: &str) -> TerminalView {
            match terminal_id {
                "own" => TerminalView::Own("own".to_owned()),
                _ => TerminalView::Text("$ ls\n".to_owned()),
            }
        }
    }

    fn canonical(body: &str, expect: &Expect) {
        let update = from_v1(json(body).fields());
        let typed = roundtrips::<v2::SessionUpdate>(&update);
        assert!(matches!(typed, v2::SessionUpdate::ToolCallUpdate(_)));
        expect.assert_eq(update.text());
    }

    fn shown(body: &str, announced: Announced, expect: &Expect) {
        parses::<v2::SessionUpdate>(&json(body));
        let update = to_v1(&json(body), announced, &TestTerminals);
        parses::<v1::SessionUpdate>(&update);
        let items = update.fields().get("content").and_then(Json::items).unwrap_or_default();
        items.iter().for_each(|item| drop(parses::<v1::ToolCallContent>(item)));
        expect.assert_eq(update.text());
    }

    #[test]
    fn a_created_call_has_its_defaults() {
        canonical(
            r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"T","rawInput":null,"content":[]}"#,
            &expect![[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"T","content":[],"status":"pending","kind":"other"}"#
            ]],
        );
    }

    #[test]
    fn a_patched_call_keeps_what_is_null() {
        canonical(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":null,"content":null,"_meta":null,"title":"T","locations":[{"path":"/a","line":0},{"path":"/a","line":3}]}"#,
            &expect![[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"T","locations":[{"path":"/a"},{"path":"/a","line":3}]}"#
            ]],
        );
    }

    #[test]
    fn content_items_are_converted_one_by_one() {
        canonical(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"x"}},{"type":"diff","path":"/a","newText":""},{"type":"terminal","terminalId":"t"}]}"#,
            &expect![[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"x"}},{"type":"diff","changes":[{"operation":"add","path":"/a","fileType":"text"}],"patch":{"format":"git_patch","text":"diff --git /a /a\nnew file mode 100644\n"}},{"type":"terminal","terminalId":"t"}]}"#
            ]],
        );
    }

    #[test]
    fn a_new_call_gets_a_title() {
        for (members, title) in [
            (r#""name":"Bash","kind":"execute","title":null"#, "Bash"),
            (r#""kind":"switch_mode""#, "switch mode"),
            (r#""kind":"other""#, "Tool call c"),
        ] {
            let body = format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c",{members}}}"#);
            let update = to_v1(&json(&body), Announced::New, &TestTerminals);
            parses::<v1::SessionUpdate>(&update);
            assert_eq!(update.fields().text("title").as_deref(), Some(title));
            assert_eq!(update.fields().text("sessionUpdate").as_deref(), Some("tool_call"));
        }
    }

    #[test]
    fn values_that_v1_lacks_are_mapped() {
        shown(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"cancelled","kind":"_brew","capabilities":{"cancel":{}},"_meta":{"k":1}}"#,
            Announced::Known,
            &expect![[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed","kind":"other","_meta":{"k":1,"rethread":{"status":"cancelled","kind":"_brew","capabilities":{"cancel":{}}}}}"#
            ]],
        );
        shown(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"paused"}"#,
            Announced::Known,
            &expect![[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress","_meta":{"rethread":{"status":"paused"}}}"#
            ]],
        );
    }

    #[test]
    fn cleared_members_get_an_empty_value() {
        shown(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":null,"name":null,"kind":null,"status":null,"content":null,"locations":null,"rawInput":null,"rawOutput":null,"_meta":null}"#,
            Announced::Known,
            &expect![[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Tool call c","name":"","kind":"other","status":"pending","content":[],"locations":[],"rawInput":"","rawOutput":""}"#
            ]],
        );
    }

    #[test]
    fn terminals_and_unknown_items() {
        shown(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"terminal","terminalId":"own"},{"type":"terminal","terminalId":"t"},{"type":"_chart","title":"Sales"}]}"#,
            Announced::Known,
            &expect![[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"terminal","terminalId":"own"},{"type":"content","content":{"type":"text","text":"$ ls\n"},"_meta":{"rethread":{"terminalId":"t"}}},{"type":"content","content":{"type":"text","text":"[tool output of type _chart, which this client cannot show] Sales"},"_meta":{"rethread":{"item":{"type":"_chart","title":"Sales"}}}}]}"#
            ]],
        );
    }

    #[test]
    fn a_chunk_is_the_content_so_far() {
        let chunk = json(
            r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"content","content":{"type":"text","text":"b"}}}"#,
        );
        shown(
            chunk.text(),
            Announced::Known,
            &expect![[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"b"}}]}"#
            ]],
        );
        let whole = with_content(&chunk, &json("[]"));
        assert!(matches!(parses(&whole), v2::SessionUpdate::ToolCallUpdate(_)));
    }
}
