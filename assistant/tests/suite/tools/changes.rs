//! Tests of the tools `write` and `edit`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rethread_assistant::tools::{CallEnd, Change};
use serde_json::json;
use tokio::sync::mpsc;

use super::{Place, done};

#[tokio::test]
async fn a_change_is_shown_before_it_is_made() {
    let place = Place::new();
    let prepared = place.prepare("edit", json!({"path": "a.txt", "old": "two", "new": "2"})).await.unwrap();
    let planned = Change {
        path: place.path("in/a.txt"),
        old: Some("one\ntwo\nthree\n".to_owned()),
        new: "one\n2\nthree\n".to_owned(),
    };
    assert_eq!(prepared.change(), Some(&planned));
    assert_eq!(place.text("in/a.txt"), "one\ntwo\nthree\n", "nothing was done yet");
    let outcome = done(prepared).await.unwrap();
    assert_eq!(outcome.changes, [planned]);
    assert_eq!(outcome.text, "a.txt was changed at line 2.");
    assert_eq!(place.text("in/a.txt"), "one\n2\nthree\n");
}

#[tokio::test]
async fn files_are_made_with_the_directories_above() {
    let place = Place::new();
    let prepared = place.prepare("write", json!({"path": "x/y/z.txt", "content": "a\nb\n"})).await.unwrap();
    assert_eq!(prepared.change().unwrap().old, None);
    assert!(!place.path("in/x").exists(), "nothing was done yet");
    assert_eq!(done(prepared).await.unwrap().text, "x/y/z.txt was created with 2 lines.");
    assert_eq!(place.text("in/x/y/z.txt"), "a\nb\n");
    assert_eq!(fs::read_dir(place.path("in/x/y")).unwrap().count(), 1, "no draft is left");
    let text = place.output("write", json!({"path": "deep", "content": ""})).await;
    assert!(text.starts_with("error: deep: it is a directory"), "{text}");
    let text = place.output("write", json!({"path": ".", "content": ""})).await;
    assert!(text.starts_with("error: .: it is a directory"), "{text}");
    let text = place.output("write", json!({"path": "none/../x", "content": ""})).await;
    assert!(text.starts_with("error: none/../x: it does not exist"), "{text}");
    let text = place.output("write", json!({"path": "a.txt/x", "content": ""})).await;
    assert!(text.starts_with("error: a.txt/x: part of the path is not a directory"), "{text}");
}

#[tokio::test]
async fn a_file_keeps_its_mode() {
    let place = Place::new();
    fs::set_permissions(place.path("in/a.txt"), fs::Permissions::from_mode(0o751)).unwrap();
    place.call("read", json!({"path": "a.txt"})).await.unwrap();
    place.call("write", json!({"path": "a.txt", "content": "new"})).await.unwrap();
    place.call("edit", json!({"path": "a.txt", "old": "new", "new": "newer"})).await.unwrap();
    assert_eq!(fs::metadata(place.path("in/a.txt")).unwrap().mode() & 0o7777, 0o751);
    assert_eq!(place.text("in/a.txt"), "newer");
}

#[tokio::test]
async fn a_file_keeps_its_group() {
    let place = Place::new();
    let path = place.path("in/a.txt");
    let own = fs::metadata(&path).unwrap().gid();
    // Only privileged users may change the group; for others the test has nothing to check.
    if std::os::unix::fs::chown(&path, None, Some(own + 1)).is_err() {
        return;
    }
    place.call("read", json!({"path": "a.txt"})).await.unwrap();
    place.call("write", json!({"path": "a.txt", "content": "new"})).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().gid(), own + 1);
    assert_eq!(place.text("in/a.txt"), "new");
}

#[tokio::test]
async fn line_endings_are_kept() {
    let place = Place::new();
    place.write("in/dos.txt", "a\r\nb\r\nc\r\n");
    // The old text has no line ending, the new text has one.
    place.call("edit", json!({"path": "dos.txt", "old": "b", "new": "b1\nb2"})).await.unwrap();
    assert_eq!(place.text("in/dos.txt"), "a\r\nb1\r\nb2\r\nc\r\n");
    place.call("edit", json!({"path": "dos.txt", "old": "a\nb1\n", "new": "x\n"})).await.unwrap();
    assert_eq!(place.text("in/dos.txt"), "x\r\nb2\r\nc\r\n");
    place.write("in/mixed.txt", "a\r\nb\nc\n");
    place.call("edit", json!({"path": "mixed.txt", "old": "c", "new": "c\nd"})).await.unwrap();
    assert_eq!(place.text("in/mixed.txt"), "a\r\nb\nc\nd\n", "a file that has both is left to the model");
}

#[tokio::test]
async fn text_that_does_not_occur_once_is_explained() {
    let place = Place::new();
    place.write("in/code.rs", "fn one() {\n    let x = 1;\n}\nfn two() {\n    let x = 1;\n}\n");
    for (old, all, expected) in [
        (
            "let x = 1;",
            false,
            "error: argument `old` of edit is \"let x = 1;\", expected text that is in code.rs once; it occurs 2 times\n\
             hint: the matches begin at lines 2, 5; give more of the text around the one you mean, or set `all`",
        ),
        (
            "fn one() {\n  let x = 1;",
            false,
            "error: argument `old` of edit is \"fn one() {\\n  let x = 1;\", expected text that is in code.rs; it was not \
             found\nhint: it differs in white space only; line 1 has:\nfn one() {\n    let x = 1;",
        ),
        (
            "",
            false,
            "error: argument `old` of edit is \"\", expected the text to replace\nhint: use write for a new file",
        ),
        ("let x = 1;", true, "code.rs was changed in 2 places, first at line 2."),
    ] {
        let text = place.output("edit", json!({"path": "code.rs", "old": old, "new": "y", "all": all})).await;
        assert_eq!(text, expected);
    }
    assert_eq!(place.text("in/code.rs"), "fn one() {\n    y\n}\nfn two() {\n    y\n}\n");
    let text = place.output("edit", json!({"path": "code.rs", "old": "y", "new": "y"})).await;
    assert!(text.contains("`new` of edit is \"y\", expected a text other than `old`"), "{text}");
    let text = place.output("edit", json!({"path": "none.rs", "old": "x", "new": "y"})).await;
    assert!(text.starts_with("error: none.rs: it does not exist"), "{text}");
    place.write("in/bytes", b"x\xff\n");
    let text = place.output("edit", json!({"path": "bytes", "old": "x", "new": "y"})).await;
    assert!(text.contains("it is not UTF-8 text of 3 bytes, and only UTF-8 text can be changed"), "{text}");
}

#[tokio::test]
async fn a_file_that_changed_meanwhile_is_left_alone() {
    let place = Place::new();
    let edit = json!({"path": "a.txt", "old": "two", "new": "2"});
    let prepared = place.prepare("edit", edit.clone()).await.unwrap();
    place.write("in/a.txt", "somebody else's\n");
    let text = done(prepared).await.unwrap_err().text_for_model();
    assert_eq!(
        text,
        "error: a.txt was not changed: it has changed since the change was prepared\n\
         hint: read the file, then make the change again"
    );
    assert_eq!(place.text("in/a.txt"), "somebody else's\n");

    let prepared = place.prepare("write", json!({"path": "new", "content": "mine"})).await.unwrap();
    place.write("in/new", "theirs");
    let text = done(prepared).await.unwrap_err().text_for_model();
    assert!(
        text.contains("new was not changed: it has been created since the change was prepared"),
        "{text}"
    );
    assert_eq!(place.text("in/new"), "theirs");

    place.call("read", json!({"path": "new"})).await.unwrap();
    let prepared = place.prepare("write", json!({"path": "new", "content": "mine"})).await.unwrap();
    fs::remove_file(place.path("in/new")).unwrap();
    let text = done(prepared).await.unwrap_err().text_for_model();
    assert!(text.contains("it has changed since the change was prepared"), "{text}");
    assert!(!place.path("in/new").exists());

    // A change through another hard link is detected.
    place.write("in/one", "old");
    fs::hard_link(place.path("in/one"), place.path("in/other")).unwrap();
    place.call("read", json!({"path": "one"})).await.unwrap();
    let prepared = place.prepare("write", json!({"path": "one", "content": "mine"})).await.unwrap();
    place.write("in/other", "theirs");
    assert!(done(prepared).await.is_err());
    assert_eq!(place.text("in/one"), "theirs");
    let drafts = fs::read_dir(place.path("in")).unwrap().flatten();
    assert!(drafts.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".rethread")));
}

#[tokio::test]
async fn a_change_that_was_cancelled_is_not_made() {
    let place = Place::new();
    place.call("read", json!({"path": "a.txt"})).await.unwrap();
    let prepared = place.prepare("write", json!({"path": "a.txt", "content": "x"})).await.unwrap();
    let (sink, _) = mpsc::channel(1);
    let outcome = prepared.run(sink, std::future::ready(())).await.unwrap();
    assert_eq!((outcome.end, outcome.changes.len()), (CallEnd::Cancelled, 0));
    assert_eq!(place.text("in/a.txt"), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_file_that_was_not_read_or_has_changed_since_is_not_overwritten() {
    let place = Place::new();
    let write = |content: &str| json!({"path": "a.txt", "content": content});
    let read = json!({"path": "a.txt", "limit": 1});
    let text = place.output("write", write("mine\n")).await;
    assert_eq!(
        text,
        "error: a.txt was not changed: it exists and was not read since this session was opened\n\
         hint: read the file, then make the change again"
    );
    assert_eq!(place.text("in/a.txt"), "one\ntwo\nthree\n");
    // After reading, the file may be replaced, also repeatedly.
    place.call("read", read.clone()).await.unwrap();
    place.call("write", write("mine\n")).await.unwrap();
    place.call("write", write("mine too\n")).await.unwrap();
    assert_eq!(place.text("in/a.txt"), "mine too\n");
    // Another program changes it to text of the same length.
    place.write("in/a.txt", "MINE TOO\n");
    let text = place.output("write", write("lost\n")).await;
    assert!(text.contains("a.txt was not changed: it has changed since it was last read"), "{text}");
    assert_eq!(place.text("in/a.txt"), "MINE TOO\n");
    place.call("read", read).await.unwrap();
    place.call("write", write("seen\n")).await.unwrap();
    // A link to the file counts as the same file.
    std::os::unix::fs::symlink("a.txt", place.path("in/link")).unwrap();
    place.call("write", json!({"path": "link", "content": "by the link\n"})).await.unwrap();
    assert_eq!(place.text("in/a.txt"), "by the link\n");
    // New and empty files need not be read.
    place.call("write", json!({"path": "new.txt", "content": "new"})).await.unwrap();
    place.write("in/empty.txt", "");
    place.call("write", json!({"path": "empty.txt", "content": "full"})).await.unwrap();
}

#[tokio::test]
async fn an_edit_keeps_what_others_changed_and_is_no_look_at_the_whole_file() {
    let place = Place::new();
    let edit = |old: &str, new: &str| json!({"path": "a.txt", "old": old, "new": new});
    // An edit names the text that it replaces, so it needs no reading.
    place.call("edit", edit("two", "2")).await.unwrap();
    let text = place.output("write", json!({"path": "a.txt", "content": "x"})).await;
    assert!(text.contains("was not read since this session was opened"), "{text}");
    // A file that was read stays read after an edit.
    place.call("read", json!({"path": "a.txt"})).await.unwrap();
    place.call("edit", edit("2", "two")).await.unwrap();
    place.call("write", json!({"path": "a.txt", "content": "x"})).await.unwrap();
    assert_eq!(place.text("in/a.txt"), "x");
}
