//! Tests that no tool reads, lists, creates or changes anything outside the roots.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rethread_assistant::tools::{Access, Toolbox};
use serde_json::{Value, json};

use super::{Place, absolute, done};

/// Every tool that takes a path, with arguments for this path.
fn calls(path: &Value) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({"path": path})),
        ("list", json!({"path": path})),
        ("find", json!({"path": path, "glob": "*"})),
        ("search", json!({"path": path, "pattern": "."})),
        ("write", json!({"path": path, "content": "no"})),
        ("edit", json!({"path": path, "old": "secret", "new": "no"})),
        ("run", json!({"cwd": path, "command": "cat * ../* 2>/dev/null"})),
    ]
}

#[tokio::test]
async fn a_second_name_outside_is_not_written_through() {
    let place = Place::new();
    place.write("out/linked.txt", "secret\n");
    fs::hard_link(place.path("out/linked.txt"), place.path("in/linked.txt")).unwrap();
    place.call("edit", json!({"path": "linked.txt", "old": "secret", "new": "mine"})).await.unwrap();
    place.call("read", json!({"path": "linked.txt"})).await.unwrap();
    place.call("write", json!({"path": "linked.txt", "content": "all mine"})).await.unwrap();
    assert_eq!(place.text("in/linked.txt"), "all mine");
    assert_eq!(place.text("out/linked.txt"), "secret\n");
}

#[tokio::test]
async fn paths_that_lead_out_are_refused() {
    let place = Place::new();
    for (link, target) in [
        ("in/way", "../out"),
        ("in/direct", "../out/secret.txt"),
        ("in/twice", "way/secret.txt"),
        ("in/magic", "/proc/self/root"),
        ("in/deep/up", "../../out"),
        ("in/dangling", "../out/new.txt"),
    ] {
        symlink(target, place.path(link)).unwrap();
    }
    let outside = [
        "../out",
        "../out/secret.txt",
        "../out/new.txt",
        "deep/../../out/secret.txt",
        "deep/../../../../../../../../etc/passwd",
        "../inside",
        "..",
        "/",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "way",
        "way/secret.txt",
        "way/new.txt",
        "direct",
        "twice",
        "magic",
        "magic/etc/passwd",
        "deep/up/secret.txt",
        "dangling",
    ];
    let mut paths: Vec<Value> = outside.iter().map(|path| json!(path)).collect();
    paths.push(absolute(&place.path("out/secret.txt")));
    paths.push(absolute(&place.path("in/../out/secret.txt")));
    for path in &paths {
        for (tool, arguments) in calls(path) {
            let text = place.output(tool, arguments).await;
            assert!(
                text.contains("the path is outside the directories of this session"),
                "{tool} {path}: {text}"
            );
            assert!(!text.contains("secret\n"), "{tool} {path}: {text}");
        }
    }
    assert!(place.is_untouched());
    // Links that a walk finds are not followed either.
    for (tool, arguments) in [
        ("list", json!({"depth": 5, "all": true})),
        ("find", json!({"glob": "**/*", "all": true})),
        ("search", json!({"pattern": "secret", "all": true})),
    ] {
        let text = place.output(tool, arguments).await;
        let leads_out = |line: &str| {
            ["way/", "deep/up/", "magic/"].iter().any(|link| line.starts_with(link))
                || line.contains(":secret")
        };
        assert!(!text.lines().any(leads_out), "{tool}: {text}");
    }
}

#[tokio::test]
async fn other_spellings_lead_nowhere() {
    let place = Place::new();
    // On case-sensitive file systems these are other names, on others the same files. Neither is outside.
    for path in ["../OUT/secret.txt", "../Out", "A.TXT/../../out/secret.txt"] {
        for (tool, arguments) in calls(&json!(path)) {
            let text = place.output(tool, arguments).await;
            assert!(text.starts_with("error: ") && !text.contains("secret\n"), "{tool} {path}: {text}");
        }
    }
    for path in ["./a.txt", "deep/.././a.txt", ".//a.txt", "../in/a.txt"] {
        assert!(place.output("read", json!({"path": path})).await.contains("one"), "{path}");
    }
    let text = place.output("read", json!({"path": "a\0.txt"})).await;
    assert!(text.contains("the name is not valid"), "{text}");
    let text = place.output("read", json!({"path": "x".repeat(5000)})).await;
    assert!(text.contains("the name is too long"), "{text}");
    assert!(place.is_untouched());
}

#[tokio::test]
async fn links_that_stay_inside_are_followed() {
    let place = Place::new();
    symlink("deep/b.txt", place.path("in/file")).unwrap();
    symlink("../too", place.path("in/other")).unwrap();
    let prepared =
        place.prepare("edit", json!({"path": "file", "old": "deep", "new": "changed"})).await.unwrap();
    // The shown path is the one that is changed.
    assert_eq!(prepared.title(), "Edit deep/b.txt");
    assert_eq!(prepared.change().unwrap().path, place.path("in/deep/b.txt"));
    done(prepared).await.unwrap();
    assert_eq!(place.text("in/deep/b.txt"), "changed\n");
    assert!(fs::symlink_metadata(place.path("in/file")).unwrap().is_symlink());
    assert_eq!(place.output("read", json!({"path": "other/c.txt"})).await, "     1\ttoo\n");
}

#[tokio::test]
async fn a_root_may_itself_be_a_link() {
    let place = Place::new();
    symlink(place.path("in"), place.path("named")).unwrap();
    let tools = Toolbox::new([place.path("named")]);
    let call = async |tool: &str, arguments: Value| {
        let prepared =
            tools.prepare(tool, &arguments, Access::FULL).await.map_err(|error| error.text_for_model())?;
        let shown = prepared.locations()[0].path.clone();
        let outcome = done(prepared).await.map_err(|error| error.text_for_model())?;
        Ok::<_, String>((shown, outcome.text))
    };
    let (shown, text) = call("read", json!({"path": "deep/b.txt"})).await.unwrap();
    assert_eq!((shown, text.as_str()), (place.path("named/deep/b.txt"), "     1\tdeep\n"));
    call("read", json!({"path": absolute(&place.path("in/a.txt"))})).await.unwrap();
    call("write", json!({"path": "deep/b.txt", "content": "new"})).await.unwrap();
    assert_eq!(place.text("in/deep/b.txt"), "new");
    assert_eq!(call("find", json!({"glob": "b.*"})).await.unwrap().1, "deep/b.txt\n");
    // The root was resolved when the tools were created.
    fs::remove_file(place.path("named")).unwrap();
    symlink(place.path("out"), place.path("named")).unwrap();
    assert!(call("read", json!({"path": "secret.txt"})).await.is_err());
    // The resolved root must not become a link either.
    fs::rename(place.path("in"), place.path("gone")).unwrap();
    symlink(place.path("out"), place.path("in")).unwrap();
    for (tool, arguments) in calls(&json!("secret.txt")).into_iter().chain(calls(&json!("."))) {
        let text = call(tool, arguments).await;
        assert!(text.is_err(), "{tool}: {text:?}");
    }
    assert!(place.is_untouched());
}

#[tokio::test]
async fn a_link_that_appears_after_preparing_is_rejected() {
    for (tool, arguments) in [
        ("write", json!({"path": "real/secret.txt", "content": "no"})),
        ("edit", json!({"path": "real/secret.txt", "old": "secret", "new": "no"})),
        ("write", json!({"path": "real/new/x.txt", "content": "no"})),
        ("read", json!({"path": "real/secret.txt"})),
        ("list", json!({"path": "real"})),
        ("search", json!({"path": "real", "pattern": "secret"})),
        ("search", json!({"path": "real/secret.txt", "pattern": "secret"})),
        ("find", json!({"path": "real", "glob": "*"})),
        ("run", json!({"cwd": "real", "command": "cat secret.txt; touch made"})),
    ] {
        for inside in [false, true] {
            let place = Place::new();
            // The same text as outside: only the path differs.
            place.write("in/real/secret.txt", "secret\n");
            place.call("read", json!({"path": "real/secret.txt"})).await.unwrap();
            let prepared = place.prepare(tool, arguments.clone()).await.unwrap();
            fs::rename(place.path("in/real"), place.path("in/held")).unwrap();
            let target = if inside { "in/held" } else { "out" };
            symlink(place.path(target), place.path("in/real")).unwrap();
            let outcome = done(prepared).await;
            let writes = matches!(tool, "write" | "edit");
            assert_eq!(outcome.is_err(), writes || !inside, "{tool} {arguments}: {outcome:?}");
            assert!(place.is_untouched(), "{tool} {arguments}");
            assert_eq!(place.text("in/held/secret.txt"), "secret\n");
            assert!(!place.path("in/held/new").exists());
        }
    }
    // The same for the last component.
    let place = Place::new();
    place.write("in/file.txt", "secret\n");
    let prepared =
        place.prepare("edit", json!({"path": "file.txt", "old": "secret", "new": "no"})).await.unwrap();
    fs::remove_file(place.path("in/file.txt")).unwrap();
    symlink(place.path("out/secret.txt"), place.path("in/file.txt")).unwrap();
    let text = done(prepared).await.unwrap_err().text_for_model();
    assert!(text.contains("part of its path has been replaced by a symbolic link"), "{text}");
    assert!(place.is_untouched());
}

/// A thread swaps a directory and a file for links to the outside in a loop, while all tools are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaps_in_a_loop_lead_nowhere() {
    let place = Place::new();
    place.write("in/real/secret.txt", "harmless\n");
    place.write("in/plain.txt", "harmless\n");
    symlink(place.path("out"), place.path("in/trap")).unwrap();
    symlink(place.path("out/secret.txt"), place.path("in/bait.txt")).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                exchange(&place.path("in/real"), &place.path("in/trap"));
                exchange(&place.path("in/plain.txt"), &place.path("in/bait.txt"));
                // A write may have replaced the link by its file.
                let is_link =
                    |name| fs::symlink_metadata(place.path(name)).is_ok_and(|meta| meta.is_symlink());
                if !is_link("in/plain.txt") && !is_link("in/bait.txt") {
                    let _ = fs::remove_file(place.path("in/bait.txt"));
                    let _ = symlink(place.path("out/secret.txt"), place.path("in/bait.txt"));
                }
            }
        });
        let _end = EndOnDrop(&over);
        let calls = async {
            let mut met = 0;
            for round in 0..200 {
                met += use_all_tools(&place, round).await;
                for _ in 0..10 {
                    let text = place.output("read", json!({"path": "real/secret.txt"})).await;
                    assert!(!text.contains("\tsecret"), "{text}");
                }
            }
            met
        };
        let met = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(calls));
        assert!(met > 0, "some calls must have met the files");
    });
    assert!(place.is_untouched());
}

/// Exchanges two entries, atomically where the system supports it.
fn exchange(one: &Path, other: &Path) {
    #[cfg(target_os = "linux")]
    {
        let name = |path: &Path| std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let (one, other, here) = (name(one), name(other), libc::AT_FDCWD);
        // SAFETY: both paths are NUL-terminated.
        unsafe { libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), libc::RENAME_EXCHANGE) };
    }
    #[cfg(not(target_os = "linux"))]
    {
        let held = one.with_extension("held");
        let _ = fs::rename(one, &held);
        let _ = fs::rename(other, one);
        let _ = fs::rename(&held, other);
    }
}

/// Stops the swapping thread, also when an assertion fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Uses all tools once and returns how often a file was found.
async fn use_all_tools(place: &Place, round: usize) -> usize {
    let mut met = 0;
    let path = if round.is_multiple_of(2) { "real/secret.txt" } else { "plain.txt" };
    for (tool, arguments) in [
        ("read", json!({"path": path})),
        ("list", json!({"path": "real"})),
        ("list", json!({"depth": 3, "all": true})),
        ("find", json!({"glob": "**/secret*"})),
        ("search", json!({"pattern": "secret|harmless"})),
        ("search", json!({"pattern": "secret|harmless", "path": path})),
        ("write", json!({"path": path, "content": "harmless\n"})),
        ("edit", json!({"path": path, "old": "harmless", "new": "harmless again"})),
        ("edit", json!({"path": path, "old": "harmless again", "new": "harmless"})),
    ] {
        let Ok(outcome) = place.call(tool, arguments).await else { continue };
        assert!(
            !outcome.text.contains(":secret") && !outcome.text.contains("\tsecret"),
            "{tool}: {}",
            outcome.text
        );
        met += usize::from(outcome.text.contains("harmless"));
    }
    if round.is_multiple_of(10)
        && let Ok(outcome) = place.call("run", json!({"cwd": "real", "command": "cat secret.txt"})).await
    {
        assert!(!outcome.text.contains("secret\n"), "{}", outcome.text);
    }
    met
}
