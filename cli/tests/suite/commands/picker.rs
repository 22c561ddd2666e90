//! Choosing a session and answering questions on a real terminal.

use tokio::process::Command;

use super::Shell;
use super::stored::{Made, turns};
use crate::pseudo_terminal::{CTRL_C, OnTerminal};

const ESCAPE: &str = "\x1b";
const DOWN: &str = "\x1b[B";

fn three_sessions() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    for (id, cwd, first) in [
        ("s-aaaa1111", here.as_str(), "Fix the parser"),
        ("s-bbbb2222", "/srv/app", "Why is the build slow?"),
        ("s-cccc3333", here.as_str(), "日本語 \u{1f469}\u{200d}\u{1f680} title"),
    ] {
        store.add(&Made { id, cwd, agent: "codex", ago: 0, updates: turns(first, 1) });
    }
    drop(store);
    shell
}

/// The command with all three streams on the terminal.
fn on_terminal(shell: &Shell, args: &[&str]) -> OnTerminal {
    let mut command: Command = shell.command(args);
    command.env("TERM", "xterm-256color");
    OnTerminal::start(command)
}

#[test]
fn a_missing_id_opens_a_list_to_choose_from() {
    let shell = three_sessions();
    let mut picker = on_terminal(&shell, &["archive"]);
    let screen = picker.screen_with("Why is the build slow?");
    assert!(screen.contains("Which session?") && screen.contains("日本語"), "{screen}");
    assert!(screen.contains("/srv/app"), "sessions of other directories are shown with it: {screen}");
    assert!(!screen.contains(&shell.here().display().to_string()), "{screen}");
    picker.types(DOWN);
    picker.types("\r");
    let (status, said) = picker.ends();
    assert!(status.success() && said.contains("Archived Fix the parser."), "{said}");
}

#[test]
fn typing_filters_the_list() {
    let shell = three_sessions();
    let mut picker = on_terminal(&shell, &["archive"]);
    picker.screen_with("Why is the build slow?");
    picker.types("slow");
    picker.screen_without("Fix the parser");
    picker.types("\r");
    let (status, said) = picker.ends();
    assert!(status.success() && said.contains("Archived Why is the build slow?."), "{said}");
}

#[test]
fn leaving_the_list_changes_nothing() {
    for key in [ESCAPE, CTRL_C] {
        let shell = three_sessions();
        let mut picker = on_terminal(&shell, &["archive"]);
        picker.screen_with("Why is the build slow?");
        picker.types(key);
        let (status, said) = picker.ends();
        assert_eq!(status.code(), Some(130), "{said}");
        assert_eq!(shell.run(&["list", "--archived", "--all"]).stdout, "No sessions.\n");
    }
}

#[test]
fn a_delete_asks_first() {
    let shell = three_sessions();
    for (answer, code) in [("n\r", 4), ("\r", 4), (CTRL_C, 130), ("y\r", 0)] {
        let mut asking = on_terminal(&shell, &["delete", "1111"]);
        asking.screen_with("Delete Fix the parser for good?");
        asking.types(answer);
        let (status, said) = asking.ends();
        assert_eq!(status.code(), Some(code), "{answer:?}: {said}");
        let left = shell.run(&["list"]).stdout;
        assert_eq!(left.contains("Fix the parser"), code != 0, "{left}");
    }
}
