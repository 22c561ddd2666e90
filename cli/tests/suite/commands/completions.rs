//! `rethread completions`, `rethread man` and `--help`.

use std::process::Command;

use expect_test::expect;

use super::Shell;

fn script(shell: &Shell, of: &str) -> String {
    let said = shell.run(&["completions", of]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{of}");
    said.stdout
}

#[test]
fn completions_of_bash_load_and_complete() {
    let shell = Shell::new();
    let file = shell.home.beside().join("rethread.bash");
    std::fs::write(&file, script(&shell, "bash")).expect("a file");
    let parsed = Command::new("bash").arg("-n").arg(&file).status().expect("bash runs");
    assert!(parsed.success());
    let complete = |words: &[&str]| {
        let run = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); \
                   _rethread rethread \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                   printf '%s ' \"${COMPREPLY[@]}\"";
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", run, "bash"]).arg(&file).args(words);
        let output = bash.output().expect("bash runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
    };
    assert_eq!(complete(&["rethread", "co"]), "config completions");
    assert_eq!(complete(&["rethread", "acp", "--rest"]), "--restore");
    assert_eq!(complete(&["rethread", "acp", "--restore", "r"]), "reseed read-only");
    assert_eq!(complete(&["rethread", "completions", ""]), "-h --help bash zsh fish");
    assert!(!complete(&["rethread", ""]).contains("__guard"), "hidden commands stay hidden");
}

#[test]
fn completions_of_zsh_and_fish_are_written() {
    let shell = Shell::new();
    assert!(script(&shell, "zsh").starts_with("#compdef rethread\n"));
    let fish = script(&shell, "fish");
    assert!(fish.contains("complete -c rethread"), "{fish}");
    for (program, file, text) in
        [("zsh", "rethread.zsh", script(&shell, "zsh")), ("fish", "rethread.fish", fish)]
    {
        let file = shell.home.beside().join(file);
        std::fs::write(&file, text).expect("a file");
        // Where the shell is installed, it must be able to read them.
        if let Ok(parsed) = Command::new(program).arg("-n").arg(&file).status() {
            assert!(parsed.success(), "{program}");
        }
    }
    assert_eq!(shell.run(&["completions", "powershell"]).code, Some(2));
}

#[test]
fn manual_pages_are_printed_and_written() {
    let shell = Shell::new();
    let said = shell.run(&["man"]);
    assert!(said.code == Some(0) && said.stdout.contains(".TH rethread 1"), "{}", said.stdout);
    assert!(
        said.stdout.contains("rethread\\-config(1)") && !said.stdout.contains("guard"),
        "{}",
        said.stdout
    );
    let said = shell.run(&["man", "acp"]);
    assert!(
        said.stdout.contains("rethread\\-acp") && said.stdout.contains("rethread acp codex"),
        "{}",
        said.stdout
    );
    shell.check_failure(
        &["man", "nothing"],
        2,
        &expect![[r#"
        error: there is no command nothing
        hint: `rethread --help` lists the commands
    "#]],
    );
    let folder = shell.home.beside().join("man/man1");
    let said = shell.run(&["man", "--out", &folder.display().to_string()]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(
        said.stdout.starts_with("Wrote ") && said.stdout.ends_with(" pages to /tmp/man/man1.\n"),
        "{}",
        said.stdout
    );
    for page in ["rethread.1", "rethread-acp.1", "rethread-config-edit.1"] {
        assert!(folder.join(page).exists(), "{page}");
    }
    let blocked = shell.home.beside().join("file");
    std::fs::write(&blocked, "").expect("a file");
    assert_eq!(shell.run(&["man", "--out", &blocked.display().to_string()]).code, Some(1));
}

#[test]
fn help_has_examples() {
    let shell = Shell::new();
    let said = shell.run(&["fork", "--help"]);
    assert_eq!(said.code, Some(0));
    expect![[r#"
        Makes a session that goes on from another one

        Usage: rethread fork [OPTIONS] [ID]

        Arguments:
          [ID]  The session: its id, a unique beginning or end of it, or `@last` for the newest of this
                directory. If it is missing, a terminal shows a list to choose from

        Options:
              --at <MESSAGE>  The id of the last message of the fork. Without it the fork begins after the
                              last finished turn
              --json          Print JSON
          -h, --help          Print help

        Store:
              --store <STORE>  The store: `embedded`, or the address of a PostgreSQL database,
                               postgres://user@host/name. A password is better kept in the configuration or
                               in the variable `RETHREAD_STORE`

        Examples:
          rethread fork @last
              after its last finished turn
          rethread fork 7f3a91c2 --at 01a1ec08-a005-777e-a2e8-fdec612fbf24
              after one of its messages
    "#]]
    .assert_eq(&said.stdout);
}
