//! `rethread chat`: without a terminal, on a real pseudo-terminal, with scripted agents and with the built-in assistant
//! offline, and from one agent to another.

mod hand_over;
mod hostile;
mod login;
mod plain;
mod terminal;
mod terminal_commands;

use rethread_testkit::program::example;

use super::{Said, Shell};
use crate::pseudo_terminal::OnTerminal;

/// The input line when it is empty.
const PROMPT: &str = "\n›";

/// The words of a chat with the scripted agent.
fn with_agent<'a>(words: &[&'a str], agent: &'a str) -> Vec<&'a str> {
    [&["chat"], words, &["--", agent]].concat()
}

fn agent() -> String {
    example("scripted_agent").display().to_string()
}

/// Runs a chat with the scripted agent without a terminal.
fn run(shell: &Shell, words: &[&str]) -> Said {
    shell.run(&with_agent(words, &agent()))
}

/// A chat with the scripted agent on a terminal, ready for a prompt.
fn talk(shell: &Shell, words: &[&str]) -> OnTerminal {
    talk_sized(shell, words, 24, 80)
}

fn talk_sized(shell: &Shell, words: &[&str], rows: u16, columns: u16) -> OnTerminal {
    let mut chat = on_terminal(shell, &with_agent(words, &agent()), rows, columns);
    chat.screen_with("/help shows");
    chat
}

fn on_terminal(shell: &Shell, words: &[&str], rows: u16, columns: u16) -> OnTerminal {
    let mut command = shell.command(words);
    command.env("TERM", "xterm-256color");
    OnTerminal::start_sized(command, rows, columns)
}

/// Replaces ids, which differ from run to run.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let part = |part: &str| if is_id(part) { "ID".to_owned() } else { part.to_owned() };
    text.split('"').map(part).collect::<Vec<_>>().join("\"")
}
