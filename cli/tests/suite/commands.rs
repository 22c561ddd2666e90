//! The commands for people: their text and their JSON on a small store, their exit codes, and what they say to bad input.

mod agents;
mod bad_input;
mod changing;
mod chat;
mod completions;
mod configuration;
mod demo;
mod doctor;
mod exporting;
mod forking;
#[cfg(target_os = "linux")]
mod full_disk;
mod importing;
mod listing;
mod long_transcripts;
mod moving;
mod picker;
mod pruning;
mod releasing;
mod rich;
mod searching;
mod showing;
mod statistics;
mod stored;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use expect_test::Expect;
use rethread_testkit::program::Home;

use stored::Stored;

/// A store, and the directory that the commands run in.
struct Shell {
    home: Home,
}

/// What a command said.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Shell {
    fn new() -> Self {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        std::fs::create_dir(home.beside().join("project")).expect("a folder");
        Self { home }
    }

    /// The directory that the commands run in.
    fn here(&self) -> PathBuf {
        self.home.beside().join("project").canonicalize().expect("it exists")
    }

    /// Writes `config.toml`, readable only by the user.
    fn configure(&self, text: &str) {
        std::fs::create_dir_all(self.home.path()).expect("a folder");
        let file = self.home.path().join("config.toml");
        std::fs::write(&file, text).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("our own file");
    }

    /// The store, open until this is dropped.
    fn store(&self) -> Stored {
        Stored::open(&self.home.path())
    }

    fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = self.home.command(args);
        command.current_dir(self.here()).env("PWD", self.here()).stdin(Stdio::null());
        for name in ["NO_COLOR", "PAGER", "LESS", "COLUMNS"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs a command without a terminal.
    fn run(&self, args: &[&str]) -> Said {
        let Output { status, stdout, stderr } = self.command(args).into_std().output().expect("it runs");
        let text = |bytes: Vec<u8>| self.normalized(&String::from_utf8(bytes).expect("its output is UTF-8"));
        Said { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Runs a command that succeeds and compares its output.
    fn check(&self, args: &[&str], expected: &Expect) {
        let said = self.run(args);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{args:?}: {}", said.stdout);
        expected.assert_eq(&said.stdout);
    }

    /// Runs a command that fails with this code and prints nothing to stdout, and compares what it says.
    fn check_failure(&self, args: &[&str], code: i32, expected: &Expect) {
        let said = self.run(args);
        assert_eq!((said.code, said.stdout.as_str()), (Some(code), ""), "{args:?}: {}", said.stderr);
        expected.assert_eq(&said.stderr);
    }

    /// The files of the store that contain this text.
    fn files_with(&self, text: &str) -> Vec<String> {
        let (mut folders, mut found) = (vec![self.home.path()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if contains(&std::fs::read(&path).expect("a file"), text.as_bytes()) {
                    found.push(path.display().to_string());
                }
            }
        }
        found
    }

    /// Replaces what differs from run to run: the directory, times, process ids and the host.
    fn normalized(&self, text: &str) -> String {
        let text = text.replace(&self.here().display().to_string(), "/project");
        let text = text.replace(&self.home.beside().display().to_string(), "/tmp");
        without_times(&text)
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Replaces times in RFC 3339 with milliseconds.
fn without_times(text: &str) -> String {
    const PATTERN: &[u8] = b"dddd-dd-ddTdd:dd:dd.dddZ";
    let fits = |window: &[u8]| {
        window.iter().zip(PATTERN).all(|(byte, pattern)| match pattern {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        })
    };
    let (mut normal, mut rest) = (String::new(), text);
    while let Some(at) = rest.as_bytes().windows(PATTERN.len()).position(fits) {
        normal += &rest[..at];
        normal += "TIME";
        rest = &rest[at + PATTERN.len()..];
    }
    normal + rest
}
