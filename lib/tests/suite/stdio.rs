//! The standard streams of a real process as a wire: a stray print stays out of it. The process is a copy of
//! this program, run for one test that is none.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rethread::transport::{Wire, stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Makes [`echo`] run.
const ECHO: &str = "RETHREAD_TEST_ECHO";

#[test]
fn over_pipes_only_the_protocol_is_on_stdout() {
    let mut child = echo_command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = child.wait_with_output().unwrap();
    check(&output.stdout, &output.stderr);
}

#[test]
fn over_socket_pairs_only_the_protocol_is_on_stdout() {
    let (mut to, stdin) = UnixStream::pair().unwrap();
    let (mut from, stdout) = UnixStream::pair().unwrap();
    let mut command = echo_command();
    let child = command.stdin(OwnedFd::from(stdin)).stdout(OwnedFd::from(stdout)).spawn().unwrap();
    drop(command);
    to.write_all(b"hello").unwrap();
    drop(to);
    let mut said = Vec::new();
    from.read_to_end(&mut said).unwrap();
    check(&said, &child.wait_with_output().unwrap().stderr);
}

#[test]
fn over_files_only_the_protocol_is_on_stdout() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&input, "hello").unwrap();
    let mut command = echo_command();
    command.stdin(File::open(&input).unwrap()).stdout(File::create(&output).unwrap());
    let stderr = command.spawn().unwrap().wait_with_output().unwrap().stderr;
    check(&std::fs::read(&output).unwrap(), &stderr);
}

#[test]
fn with_stderr_in_the_same_pipe_a_stray_print_is_dropped() {
    let (mut from, stdout) = std::io::pipe().unwrap();
    let mut command = echo_command();
    command.stderr(stdout.try_clone().unwrap()).stdout(stdout).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut said = String::new();
    from.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(said.contains("[protocol]") && !said.contains("stray"), "{said}");
}

/// Not a test by itself: opens the standard streams, prints something stray, and answers what it hears.
#[tokio::test]
async fn echo() {
    if std::env::var_os(ECHO).is_none() {
        return;
    }
    let mut wire: Wire = stdio::open().unwrap().into();
    println!("stray");
    let mut heard = String::new();
    wire.reader.read_to_string(&mut heard).await.unwrap();
    assert_eq!(std::io::stdin().read(&mut [0]).unwrap(), 0);
    wire.writer.write_all(format!("[protocol]{heard}").as_bytes()).await.unwrap();
    wire.writer.flush().await.unwrap();
}

fn echo_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "stdio::echo", "--nocapture"]).env(ECHO, "1").stderr(Stdio::piped());
    command
}

/// What the test runner itself prints before is not ours to judge.
fn check(stdout: &[u8], stderr: &[u8]) {
    let (stdout, stderr) = (String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
    assert!(stdout.ends_with("[protocol]hello"), "{stdout} {stderr}");
    assert!(!stdout.contains("stray"), "{stdout}");
    assert!(stderr.contains("stray"), "{stderr}");
}
