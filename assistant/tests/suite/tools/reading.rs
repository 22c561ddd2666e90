//! Tests of the tools `read`, `list`, `find` and `search`.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::time::{Duration, Instant};

use rethread_assistant::tools::{CallEnd, Location};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{Place, absolute};

/// A size that must not be read into memory.
const TWO_GIGABYTES: u64 = 2 * 1024 * 1024 * 1024;

#[tokio::test]
async fn lines_have_numbers() {
    let place = Place::new();
    for (arguments, expected) in [
        (json!({"path": "a.txt"}), "     1\tone\n     2\ttwo\n     3\tthree\n"),
        (json!({"path": "a.txt", "limit": 1}), "     1\tone\n(lines 1 to 1 of 3; go on with offset 2)"),
        (json!({"path": "a.txt", "offset": 3}), "     3\tthree\n(lines 3 to 3 of 3)"),
        (json!({"path": absolute(&place.path("too/c.txt"))}), "     1\ttoo\n"),
        (
            json!({"path": "deep/../a.txt", "offset": 2, "limit": 1}),
            "     2\ttwo\n(lines 2 to 2 of 3; go on with offset 3)",
        ),
        (
            json!({"path": "a.txt", "offset": 4}),
            "error: argument `offset` of read is 4, expected a line of a.txt, which has 3",
        ),
        (
            json!({"path": "none.txt"}),
            "error: none.txt: it does not exist\nhint: look for it with find or list",
        ),
        (json!({"path": "deep"}), "error: deep: it is a directory\nhint: use list to see what is in it"),
        (
            json!({"path": "a.txt/x"}),
            "error: a.txt/x: part of the path is not a directory\nhint: look for it with find or list",
        ),
    ] {
        assert_eq!(place.output("read", arguments.clone()).await, expected, "{arguments}");
    }
    place.write("in/empty", "");
    assert_eq!(place.output("read", json!({"path": "empty"})).await, "(the file is empty)");
    place.write("in/windows", "a\r\nb\r\n");
    assert_eq!(
        place.output("read", json!({"path": "windows"})).await,
        "     1\ta\n     2\tb\n(lines end in CRLF)"
    );
    place.write("in/latin", b"caf\xe9\n");
    let text = place.output("read", json!({"path": "latin"})).await;
    assert_eq!(
        text,
        "     1\tcaf\u{fffd}\n(the file is not UTF-8: what could not be read is shown as \u{fffd})"
    );
}

#[tokio::test]
async fn a_call_says_what_it_will_do() {
    let place = Place::new();
    for (tool, arguments, title, path, line) in [
        ("read", json!({"path": "a.txt", "offset": 2}), "Read a.txt", "in/a.txt", Some(2)),
        ("list", json!({}), "List .", "in", None),
        ("list", json!({"path": "deep"}), "List deep", "in/deep", None),
        ("find", json!({"glob": "*.rs", "path": "deep"}), "Find *.rs in deep", "in/deep", None),
        ("search", json!({"pattern": "x+", "path": "a.txt"}), "Search for x+ in a.txt", "in/a.txt", None),
        ("write", json!({"path": "n/e/w", "content": ""}), "Write n/e/w", "in/n/e/w", None),
        ("edit", json!({"path": "a.txt", "old": "two", "new": "2"}), "Edit a.txt", "in/a.txt", Some(2)),
        ("run", json!({"command": "make\nmake test"}), "Run make … (1 more line)", "in", None),
    ] {
        let prepared = place.prepare(tool, arguments).await.unwrap();
        assert_eq!(prepared.title(), title);
        assert_eq!(prepared.locations(), [Location { path: place.path(path), line }], "{title}");
        assert_eq!(prepared.change().is_some(), prepared.kind().name() == "edit", "{title}");
        assert_eq!(prepared.command().is_some(), prepared.kind().name() == "execute", "{title}");
    }
    let everywhere = place.prepare("find", json!({"glob": "x"})).await.unwrap();
    assert_eq!(everywhere.locations().len(), 2);
}

#[tokio::test]
async fn binary_files_are_named() {
    let place = Place::new();
    place.write("in/document", b"%PDF-1.7\0\0");
    place.write("in/late", [&b"text\n".repeat(20_000)[..], b"\0"].concat());
    let text = place.output("read", json!({"path": "document"})).await;
    assert_eq!(
        text,
        "error: document: it is a PDF document of 10 bytes, not text\nhint: use a command that can read this format"
    );
    let late = place.output("read", json!({"path": "late", "offset": 19_999})).await;
    assert!(late.contains("late: it is binary data of 100001 bytes"), "{late}");
    assert!(
        place
            .output("read", json!({"path": "late", "limit": 2}))
            .await
            .starts_with("     1\ttext\n     2\ttext\n")
    );
}

#[tokio::test]
async fn a_huge_file_is_never_read_whole() {
    let place = Place::new();
    let empty = File::create(place.path("in/empty")).unwrap();
    empty.set_len(TWO_GIGABYTES).unwrap();
    let mut log = File::create(place.path("in/log")).unwrap();
    log.write_all("a line of a log\n".repeat(100_000).as_bytes()).unwrap();
    log.set_len(TWO_GIGABYTES).unwrap();
    log.write_all_at(b"the end\n", TWO_GIGABYTES - 8).unwrap();
    let begun = Instant::now();
    let text = place.output("read", json!({"path": "empty"})).await;
    assert!(text.contains("empty: it is binary data of 2147483648 bytes, not text"), "{text}");
    let text = place.output("read", json!({"path": "log", "offset": 99_999, "limit": 2})).await;
    assert!(
        text.starts_with(
            " 99999\ta line of a log\n100000\ta line of a log\n(lines 99999 to 100000 of a file of"
        ),
        "{text}"
    );
    for change in
        [json!({"path": "log", "content": "x"}), json!({"path": "log", "old": "a line", "new": "x"})]
    {
        let tool = if change["content"].is_string() { "write" } else { "edit" };
        let text = place.output(tool, change).await;
        assert!(
            text.contains("it has 2147483648 bytes, and files of more than 8388608 bytes cannot be changed"),
            "{text}"
        );
    }
    let text = place.output("search", json!({"pattern": "the end|a line of", "limit": 3})).await;
    assert!(text.starts_with("log:1:a line of a log\nlog:2:"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn long_lines_and_many_lines_are_cut() {
    let place = Place::new();
    place.write("in/long", format!("{}\nshort\n", "é".repeat(100_000)));
    let text = place.output("read", json!({"path": "long"})).await;
    assert!(text.len() < 2200 && text.contains("… (198001 more bytes)\n     2\tshort\n"), "{text}");
    place.write("in/many", format!("{}\n", "x".repeat(199)).repeat(5000));
    let text = place.output("read", json!({"path": "many"})).await;
    assert!(text.len() < 66_000, "{}", text.len());
    let last = text.lines().count() - 1;
    assert!(
        text.ends_with(&format!("(lines 1 to {last} of 5000; go on with offset {})", last + 1)),
        "{last}"
    );
}

#[tokio::test]
async fn pipes_and_devices_are_not_waited_for() {
    let place = Place::new();
    let fifo = std::ffi::CString::new(place.path("in/fifo").to_str().unwrap()).unwrap();
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    for (tool, arguments) in [
        ("read", json!({"path": "fifo"})),
        ("search", json!({"pattern": "x", "path": "fifo"})),
        ("write", json!({"path": "fifo", "content": "x"})),
        ("edit", json!({"path": "fifo", "old": "x", "new": "y"})),
    ] {
        let text = place.output(tool, arguments).await;
        assert!(text.starts_with("error: fifo: it is not a regular file"), "{tool}: {text}");
    }
    assert!(place.output("search", json!({"pattern": "deep"})).await.contains("deep/b.txt:1:deep"));
    assert!(place.output("list", json!({})).await.contains("fifo (not a regular file)"));
}

#[tokio::test]
async fn directories_are_listed() {
    let place = Place::new();
    place.write("in/.gitignore", "target/\n*.log\n!keep.log\n");
    place.write("in/target/built", "");
    place.write("in/x.log", "");
    place.write("in/keep.log", "12345");
    place.write("in/.git/HEAD", "");
    symlink("a.txt", place.path("in/way")).unwrap();
    let text = place.output("list", json!({})).await;
    assert_eq!(text, ".gitignore (24 bytes)\na.txt (14 bytes)\ndeep/\nkeep.log (5 bytes)\nway -> a.txt\n");
    let text = place.output("list", json!({"all": true, "depth": 2})).await;
    assert_eq!(
        text,
        ".git/\n.git/HEAD (0 bytes)\n.gitignore (24 bytes)\na.txt (14 bytes)\ndeep/\ndeep/b.txt (5 bytes)\n\
         keep.log (5 bytes)\ntarget/\ntarget/built (0 bytes)\nway -> a.txt\nx.log (0 bytes)\n"
    );
    assert_eq!(
        place.output("list", json!({"path": "a.txt"})).await,
        "error: a.txt: it is a file\nhint: use read for a file"
    );
    fs::create_dir(place.path("in/none")).unwrap();
    assert_eq!(place.output("list", json!({"path": "none"})).await, "(no entries)");
    for number in 0..1200 {
        place.write(&format!("in/none/{number:04}"), "");
    }
    let text = place.output("list", json!({"path": "none"})).await;
    assert!(
        text.ends_with("0999 (0 bytes)\n(these are the first 1000 entries; list a directory below for more)")
    );
    // Ignore files of parent directories apply.
    place.write("in/deep/y.log", "");
    assert_eq!(place.output("list", json!({"path": "deep"})).await, "b.txt (5 bytes)\n");
}

#[tokio::test]
async fn paths_are_found_by_patterns() {
    let place = Place::new();
    for name in ["in/src/main.rs", "in/src/deep/x.rs", "in/lib.rs", "in/target/y.rs", "too/z.rs"] {
        place.write(name, "");
    }
    place.write("in/.gitignore", "target\n");
    let too = place.path("too/z.rs").display().to_string();
    for (arguments, expected) in [
        (json!({"glob": "*.rs"}), format!("lib.rs\nsrc/deep/x.rs\nsrc/main.rs\n{too}\n")),
        (json!({"glob": "src/*.rs"}), "src/main.rs\n".to_owned()),
        (json!({"glob": "src/**/*.rs"}), "src/deep/x.rs\nsrc/main.rs\n".to_owned()),
        (json!({"glob": "*.{rs,txt}", "path": "src"}), "src/deep/x.rs\nsrc/main.rs\n".to_owned()),
        (json!({"glob": "y.*", "all": true}), "target/y.rs\n".to_owned()),
        (json!({"glob": "y.*"}), "(nothing matches y.*)".to_owned()),
        (json!({"glob": "deep"}), "deep/\nsrc/deep/\n".to_owned()),
    ] {
        assert_eq!(place.output("find", arguments.clone()).await, expected, "{arguments}");
    }
}

#[tokio::test]
async fn lines_are_searched_for() {
    let place = Place::new();
    place.write("in/src/one.rs", "fn one() {}\n\nfn two() {}\nlet x = one();\n");
    place.write("in/src/bytes", b"fn one\0");
    place.write("in/target/two.rs", "fn one() {}\n");
    place.write("in/.gitignore", "target\n");
    let too = place.path("too/c.txt").display().to_string();
    for (arguments, expected) in [
        (json!({"pattern": r"fn \w+"}), "src/one.rs:1:fn one() {}\nsrc/one.rs:3:fn two() {}\n".to_owned()),
        (json!({"pattern": "FN ONE", "ignore_case": true}), "src/one.rs:1:fn one() {}\n".to_owned()),
        (
            json!({"pattern": "one()", "literal": true, "glob": "*.rs"}),
            "src/one.rs:1:fn one() {}\nsrc/one.rs:4:let x = one();\n".to_owned(),
        ),
        (
            json!({"pattern": "two", "context": 1, "path": "src"}),
            "src/one.rs-2-\nsrc/one.rs:3:fn two() {}\nsrc/one.rs-4-let x = one();\n".to_owned(),
        ),
        (json!({"pattern": "fn", "path": "target/two.rs"}), "target/two.rs:1:fn one() {}\n".to_owned()),
        (json!({"pattern": "^too$"}), format!("{too}:1:too\n")),
        (
            json!({"pattern": "fn", "limit": 1}),
            "src/one.rs:1:fn one() {}\n(these are the first 1 matches; use a narrower pattern or path for the others)"
                .to_owned(),
        ),
        (json!({"pattern": "fn", "glob": "*.txt"}), "(nothing matches)".to_owned()),
    ] {
        assert_eq!(place.output("search", arguments.clone()).await, expected, "{arguments}");
    }
    place.write("in/min.js", format!("{}needle{}", "x".repeat(1_000_000), "y".repeat(1_000_000)));
    let text = place.output("search", json!({"pattern": "needle"})).await;
    assert!(text.len() < 500 && text.contains("needle"), "{text}");
}

/// A running call ends when it is cancelled or dropped.
#[tokio::test]
async fn reading_can_be_cancelled() {
    let place = Place::new();
    let big = "abcdefghij\n".repeat(3_000_000);
    for number in 0..8 {
        place.write(&format!("in/big{number}"), &big);
    }
    let prepared = place.prepare("search", json!({"pattern": "(a|b|c|d|e|f)+[x-z]{3}$"})).await.unwrap();
    let (cancel, cancelled) = oneshot::channel::<()>();
    let (sink, _) = mpsc::channel(1);
    let begun = Instant::now();
    cancel.send(()).unwrap();
    let outcome = prepared.run(sink, async { drop(cancelled.await) }).await.unwrap();
    assert_eq!(outcome.end, CallEnd::Cancelled);
    assert!(outcome.text.contains("cancelled"), "{}", outcome.text);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn names_stay_on_their_lines_and_long_ones_are_bounded() {
    let place = Place::new();
    place.write("in/two\nlines.txt", "needle\n");
    for (tool, arguments) in
        [("list", json!({})), ("find", json!({"glob": "two*"})), ("search", json!({"pattern": "needle"}))]
    {
        let text = place.output(tool, arguments).await;
        assert!(text.contains(r"two\nlines.txt"), "{tool}: {text}");
    }
    let long = "x".repeat(200);
    for number in 0..900 {
        place.write(&format!("in/long/{long}{number}"), "");
    }
    for (tool, arguments) in [("list", json!({"path": "long"})), ("find", json!({"glob": "xxx*"}))] {
        let text = place.output(tool, arguments).await;
        assert!(text.len() < 65 * 1024 && text.contains("(these are the first 3"), "{tool}: {}", text.len());
    }
}

#[tokio::test]
async fn an_image_is_given_as_an_image() {
    let place = Place::new();
    for (name, bytes, mime) in [
        ("a.png", &b"\x89PNG\r\n\x1a\n rest"[..], "image/png"),
        ("a.jpg", b"\xff\xd8\xff\xe0 rest", "image/jpeg"),
        ("a.gif", b"GIF89a rest", "image/gif"),
        ("a.webp", b"RIFF\x10\0\0\0WEBPVP8 rest", "image/webp"),
    ] {
        place.write(&format!("in/{name}"), bytes);
        let outcome = place.call("read", json!({"path": name})).await.unwrap();
        let image = outcome.image.unwrap();
        assert_eq!((image.mime, image.bytes.as_slice()), (mime, bytes));
        assert_eq!(outcome.text, format!("({name} is an image, {mime}, {} bytes)", bytes.len()));
    }
    let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
    large.resize(4_000_000, 1);
    place.write("in/large.png", large);
    let text = place.output("read", json!({"path": "large.png"})).await;
    assert!(
        text.starts_with("error: large.png: the image has 4000000 bytes, and images of more than"),
        "{text}"
    );
}
