//! Converts file changes in tool calls: v1 has an old and a new text, the canonical form has a list of changes with a
//! git patch. The patch text itself is handled in `patch`.

use rethread_core::{Fields, Json};

use super::content::text_block;
use super::meta::set_own_meta;
use super::patch::{self, FileChange, FilePatch};

/// Converts a v1 diff. The patch contains every line, so that both texts can be recovered from it.
#[must_use]
pub fn from_v1(mut item: Fields) -> Json {
    let (Some(path), Some(new)) = (item.text("path"), item.text("newText")) else {
        return text_item(Fields::new(), &format!("[unreadable diff] {}", item.json()));
    };
    let old = item.text("oldText");
    item.take("newText");
    item.take("oldText");
    let operation = if old.is_some() { "modify" } else { "add" };
    let change = serde_json::json!([{"operation": operation, "path": path, "fileType": "text"}]);
    let patch = serde_json::json!({"format": "git_patch", "text": patch::write(&path, old.as_deref(), &new)});
    item.rename("path", "changes");
    item.set("changes", change.into());
    item.set("patch", patch.into());
    item.json()
}

/// Converts a canonical diff to v1 items: one diff for each file, or a text where there are no lines.
#[must_use]
pub fn to_v1(mut item: Fields) -> Vec<Json> {
    let changes: Vec<Fields> = match item.take("changes").and_then(|list| list.items()) {
        Some(items) => items.iter().map(Json::fields).collect(),
        None => Vec::new(),
    };
    let patch = item.take("patch").map(|patch| patch.fields()).unwrap_or_default();
    let text = patch.text("text").unwrap_or_default();
    let readable = patch.text("format").as_deref() == Some("git_patch");
    match patch::read(&text).filter(|_| readable) {
        Some(files) => by_file(&item, changes, &files),
        None => vec![as_text(item, &changes, &text)],
    }
}

fn by_file(rest: &Fields, mut changes: Vec<Fields>, files: &[FilePatch]) -> Vec<Json> {
    let mut items = Vec::new();
    for file in files {
        let change = position(&changes, file).map(|at| changes.remove(at));
        items.extend(file_items(rest.clone(), change, file));
    }
    if !changes.is_empty() {
        items.push(as_text(rest.clone(), &changes, ""));
    }
    items
}

/// Finds the change for a file of the patch, by its path with or without git's prefix.
fn position(changes: &[Fields], file: &FilePatch) -> Option<usize> {
    let path = file.path.as_deref()?;
    let bare = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path);
    let same = |change: &Fields| change.text("path").as_deref() == Some(path);
    let alike = |change: &Fields| change.text("path").is_some_and(|known| known.ends_with(bare));
    changes.iter().position(same).or_else(|| changes.iter().position(alike))
}

fn file_items(rest: Fields, change: Option<Fields>, file: &FilePatch) -> Vec<Json> {
    let known = change.unwrap_or_else(|| change_of(file));
    let text = change_text(&known);
    let is_text = matches!(known.text("fileType").as_deref(), None | Some("text"));
    match file.change {
        FileChange::Copy | FileChange::NoText => vec![text_item(rest, &format!("{text}\n{}", file.section))],
        FileChange::Move | FileChange::Delete if file.hunks == 0 => vec![text_item(rest, &text)],
        FileChange::Move => vec![text_item(rest.clone(), &text), text_diff(rest, &known, file)],
        FileChange::Add | FileChange::Delete | FileChange::Modify if is_text => {
            vec![text_diff(rest, &known, file)]
        }
        FileChange::Add | FileChange::Delete | FileChange::Modify => {
            vec![text_item(rest, &format!("{text}\n{}", file.section))]
        }
    }
}

fn text_diff(mut item: Fields, change: &Fields, file: &FilePatch) -> Json {
    item.set("type", Json::of("diff"));
    item.set("path", change.get("path").cloned().unwrap_or_else(|| Json::of("")));
    if file.change != FileChange::Add {
        item.set("oldText", Json::of(&file.old));
    }
    item.set("newText", Json::of(&file.new));
    let plain = ["operation", "path", "fileType"];
    let is_complete = matches!(file.change, FileChange::Add | FileChange::Modify)
        && change.iter().all(|(name, _)| plain.contains(&name));
    if !is_complete {
        set_own_meta(&mut item, "change", change.json());
    }
    item.json()
}

/// Makes a change from the patch alone, for a file that is missing in the list of changes.
fn change_of(file: &FilePatch) -> Fields {
    let operation = match file.change {
        FileChange::Add => "add",
        FileChange::Delete => "delete",
        FileChange::Modify | FileChange::NoText => "modify",
        FileChange::Move => "move",
        FileChange::Copy => "copy",
    };
    let path = |path: &Option<String>| Json::of(path.as_deref().unwrap_or_default());
    let mut change: Fields =
        [("operation", Json::of(operation)), ("path", path(&file.path))].into_iter().collect();
    if matches!(file.change, FileChange::Move | FileChange::Copy) {
        change.set("oldPath", path(&file.old_path));
    }
    change
}

fn as_text(item: Fields, changes: &[Fields], patch: &str) -> Json {
    let mut text: Vec<String> = changes.iter().map(change_text).collect();
    if !patch.is_empty() {
        text.push(patch.to_owned());
    }
    if text.is_empty() {
        text.push("[diff without changes]".to_owned());
    }
    text_item(item, &text.join("\n"))
}

fn change_text(change: &Fields) -> String {
    let operation = change.text("operation").unwrap_or_else(|| "change".to_owned());
    let kind = change.text("fileType").filter(|kind| kind != "text");
    let path = change.text("path").unwrap_or_else(|| "a file".to_owned());
    let source = change.text("oldPath").map(|old| format!("{old} to ")).unwrap_or_default();
    match kind {
        Some(kind) => format!("{operation} {source}{path} ({kind})"),
        None => format!("{operation} {source}{path}"),
    }
}

fn text_item(mut item: Fields, text: &str) -> Json {
    item.set("type", Json::of("content"));
    item.set("content", text_block(text));
    item.json()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::edge::v1::schema_checks::{json, parses, roundtrips};

    fn patch_of(item: &str) -> String {
        let canonical = from_v1(json(item).fields());
        roundtrips::<v2::ToolCallContent>(&canonical);
        canonical.fields().get("patch").unwrap().fields().text("text").unwrap()
    }

    fn shown(item: &Json, expect: &Expect) {
        parses::<v2::ToolCallContent>(item);
        let items = to_v1(item.fields());
        for item in &items {
            parses::<v1::ToolCallContent>(item);
        }
        expect.assert_eq(&items.iter().map(|item| format!("{item}\n")).collect::<String>());
    }

    fn diff(changes: &str, patch: &str) -> Json {
        let changes = json(changes);
        let patch = serde_json::json!({"format": "git_patch", "text": patch});
        [("type", Json::of("diff")), ("changes", changes), ("patch", patch.into())]
            .into_iter()
            .collect::<Fields>()
            .json()
    }

    #[test]
    fn a_patch_has_every_line() {
        let item =
            r#"{"type":"diff","path":"/a b","oldText":"one\ntwo\r\nthree","newText":"one\n2\r\nthree"}"#;
        expect![[r#"
            diff --git /a b /a b
            --- /a b	
            +++ /a b	
            @@ -1,3 +1,3 @@
             one
            -two
            +2
             three
            \ No newline at end of file
        "#]]
        .assert_eq(&patch_of(item).replace('\r', ""));
    }

    #[test]
    fn new_and_empty_files() {
        expect![[r#"
            diff --git "/\303\244" "/\303\244"
            new file mode 100644
        "#]]
        .assert_eq(&patch_of(r#"{"type":"diff","path":"/ä","newText":""}"#));
        expect![[r#"
            diff --git /a /a
            new file mode 100644
            --- /dev/null
            +++ /a
            @@ -0,0 +1,1 @@
            +x
        "#]]
        .assert_eq(&patch_of(r#"{"type":"diff","path":"/a","oldText":null,"newText":"x\n"}"#));
    }

    #[test]
    fn meta_and_unknown_members_are_kept() {
        let item = json(r#"{"type":"diff","path":"/a","newText":"x","_meta":{"k":1},"later":2}"#);
        let back = to_v1(from_v1(item.fields()).fields());
        expect![[r#"{"type":"diff","_meta":{"k":1},"later":2,"path":"/a","newText":"x"}"#]]
            .assert_eq(back[0].text());
    }

    #[test]
    fn several_files_become_several_diffs() {
        let patch = "diff --git /r/a /r/a\nindex 1..2 100644\n--- /r/a\n+++ /r/a\n@@ -4,2 +4,2 @@ fn x\n c\n-d\n+D\n\
            @@ -9 +9 @@\n-i\n+I\ndiff --git /r/b /r/b\ndeleted file mode 100644\n--- /r/b\n+++ /dev/null\n\
            @@ -1 +0,0 @@\n-gone\ndiff --git /r/c /r/d\nsimilarity index 90%\nrename from /r/c\nrename to /r/d\n\
            --- /r/c\n+++ /r/d\n@@ -1 +1 @@\n-c\n+d\n";
        let changes = r#"[{"operation":"delete","path":"/r/b"},{"operation":"modify","path":"/r/a"},
            {"operation":"move","oldPath":"/r/c","path":"/r/d"},{"operation":"add","path":"/r/e","fileType":"binary"}]"#;
        shown(
            &diff(changes, patch),
            &expect![[r#"
            {"type":"diff","path":"/r/a","oldText":"c\nd\ni\n","newText":"c\nD\nI\n"}
            {"type":"diff","path":"/r/b","oldText":"gone\n","newText":"","_meta":{"rethread":{"change":{"operation":"delete","path":"/r/b"}}}}
            {"type":"content","content":{"type":"text","text":"move /r/c to /r/d"}}
            {"type":"diff","path":"/r/d","oldText":"c\n","newText":"d\n","_meta":{"rethread":{"change":{"operation":"move","oldPath":"/r/c","path":"/r/d"}}}}
            {"type":"content","content":{"type":"text","text":"add /r/e (binary)"}}
        "#]],
        );
    }

    #[test]
    fn git_prefixes_are_matched_with_the_changes() {
        let patch = "diff --git a/src/x.rs b/src/x.rs\n--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n";
        shown(
            &diff(r#"[{"operation":"modify","path":"/repo/src/x.rs"}]"#, patch),
            &expect![[r#"
                {"type":"diff","path":"/repo/src/x.rs","oldText":"a\n","newText":"b\n"}
            "#]],
        );
    }

    #[test]
    fn changes_without_lines_become_text() {
        let link = "diff --git /l /l\nnew file mode 120000\n--- /dev/null\n+++ /l\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n";
        shown(
            &diff(r#"[{"operation":"add","path":"/l","fileType":"symlink"}]"#, link),
            &expect![[r#"
                {"type":"content","content":{"type":"text","text":"add /l (symlink)\ndiff --git /l /l\nnew file mode 120000\n--- /dev/null\n+++ /l\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n"}}
            "#]],
        );
        let none = json(r#"{"type":"diff","changes":[{"operation":"copy","oldPath":"/a","path":"/b"}]}"#);
        shown(
            &none,
            &expect![[r#"
                {"type":"content","content":{"type":"text","text":"copy /a to /b"}}
            "#]],
        );
        let odd = json(r#"{"type":"diff","changes":[],"patch":{"format":"_ed","text":"1d"}}"#);
        shown(
            &odd,
            &expect![[r#"
                {"type":"content","content":{"type":"text","text":"1d"}}
            "#]],
        );
        let torn = diff("[]", "diff --git /a /a\n--- /a\n+++ /a\n@@ -1,3 +1,3 @@\n x\n");
        shown(
            &torn,
            &expect![[r#"
                {"type":"content","content":{"type":"text","text":"diff --git /a /a\n--- /a\n+++ /a\n@@ -1,3 +1,3 @@\n x\n"}}
            "#]],
        );
    }

    fn file() -> impl Strategy<Value = String> {
        let line = prop_oneof!["[a-c]{0,2}", "[-+ @\\\\]{1,3}", "\\PC{0,4}", Just("\r".to_owned())];
        (prop::collection::vec(line, 0..8), prop::bool::ANY)
            .prop_map(|(lines, end)| lines.join("\n") + if end { "\n" } else { "" })
    }

    proptest! {
        #[test]
        fn a_diff_survives_the_round_trip(
            path in "/[a-c \"\\\\ä\t]{1,8}", old in prop::option::of(file()), new in file(),
        ) {
            let item = serde_json::json!({"type": "diff", "path": path, "oldText": old, "newText": new});
            let canonical = from_v1(Json::from(item).fields());
            roundtrips::<v2::ToolCallContent>(&canonical);
            let back = to_v1(canonical.fields());
            prop_assert_eq!(back.len(), 1);
            let back = back[0].fields();
            prop_assert_eq!(back.text("path"), Some(path));
            prop_assert_eq!(back.text("oldText"), old);
            prop_assert_eq!(back.text("newText"), Some(new));
            prop_assert!(back.get("_meta").is_none());
        }
    }
}
