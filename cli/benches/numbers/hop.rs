//! The least that a program between an agent and its client can do: one thread reads the agent's pipe, appends to a file
//! and writes to the client's pipe. Runs as a copy of this program. The agent reads the client's pipe directly.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::agent;

/// The argument that selects the hop; the file to append to follows it.
pub(crate) const FLAG: &str = "--be-the-hop";

/// Serves until the agent ends.
pub(crate) fn run(journal: &Path) {
    let mut agent = Command::new(std::env::current_exe().expect("a program has a path"))
        .arg(agent::FLAG)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    let mut from_agent = agent.stdout.take().expect("it is a pipe");
    let mut journal = OpenOptions::new().create(true).append(true).open(journal).expect("a file can be made");
    // A file without a buffer of its own: each piece is one write.
    let client = std::io::stdout().as_fd().try_clone_to_owned().expect("stdout is open");
    let mut client = std::fs::File::from(client);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from_agent.read(&mut buffer).expect("the pipe can be read");
        if length == 0 {
            break;
        }
        journal.write_all(&buffer[..length]).expect("there is room");
        client.write_all(&buffer[..length]).expect("the client reads");
    }
    agent.wait().expect("the agent ends");
}
