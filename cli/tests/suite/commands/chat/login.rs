//! Agents that require a login: by a call, by their own program on the terminal, before the session or at a prompt, and
//! without a terminal.

use super::super::Shell;
use super::{PROMPT, agent, on_terminal};
use crate::pseudo_terminal::OnTerminal;

/// The words of a chat with an agent that requires a login until a file is there.
fn words(shell: &Shell, more: &[&str]) -> Vec<String> {
    let file = shell.here().join("logged-in").display().to_string();
    let words = ["chat", "--", &agent(), "--login-file", &file];
    words.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn chat(shell: &Shell, more: &[&str]) -> OnTerminal {
    let words = words(shell, more);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    on_terminal(shell, &words, 24, 80)
}

/// Chooses the second method, which runs the agent's program.
fn choose_terminal(chat: &mut OnTerminal) {
    chat.screen_with("In the terminal");
    chat.types("terminal\r");
    chat.screen_with("Password:");
}

#[test]
fn the_agents_program_logs_in_on_the_terminal() {
    for protocol in ["1", "2"] {
        let shell = Shell::new();
        let mut chat = chat(&shell, &["--protocol", protocol]);
        let screen = chat.screen_with("Log in with:");
        assert!(screen.contains("Log in first.") && screen.contains("A key"), "{screen}");
        choose_terminal(&mut chat);
        chat.types("open\r");
        chat.screen_with("/help shows");
        chat.types("say in\r");
        chat.prompt_after("\n\nin\n", PROMPT);
    }
}

#[test]
fn a_login_that_fails_says_so() {
    let shell = Shell::new();
    let mut chat = chat(&shell, &[]);
    choose_terminal(&mut chat);
    chat.types("wrong\r");
    let (status, said) = chat.ends();
    assert!(status.code() == Some(1) && said.contains("the login failed"), "{said}");
    assert!(said.contains("--log-in` ended with status 1") && said.contains("hint: "), "{said}");
}

#[test]
fn the_agent_logs_in_itself() {
    let shell = Shell::new();
    let mut chat = chat(&shell, &[]);
    chat.screen_with("A key");
    chat.types("\r");
    chat.screen_with("/help shows");
    chat.types("say in\r");
    chat.prompt_after("\n\nin\n", PROMPT);
}

#[test]
fn a_prompt_that_needs_a_login_is_sent_again_after_it() {
    let shell = Shell::new();
    let mut chat = chat(&shell, &["--login-to-prompt"]);
    chat.screen_with("/help shows");
    chat.types("say in\r");
    chat.screen_with("log in first");
    choose_terminal(&mut chat);
    chat.types("open\r");
    chat.prompt_after("the agent starts again", PROMPT);
    chat.types("\x1b[A\r");
    chat.prompt_after("\n\nin\n", PROMPT);
    let listed = shell.run(&["list", "--all"]).stdout;
    assert_eq!(listed.lines().count(), 2, "it is one session: {listed}");
}

#[test]
fn without_a_terminal_the_remedy_is_named() {
    let shell = Shell::new();
    let mut words = words(&shell, &[]);
    words.insert(1, "hello".to_owned());
    let said = shell.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert!(said.stderr.contains("error: the agent requires a login: log in first"), "{}", said.stderr);
    assert!(said.stderr.contains("hint: start `rethread chat -- "), "{}", said.stderr);
}
