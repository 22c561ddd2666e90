//! The slash commands of a chat on a terminal, completion, files, and input of several lines.

use super::super::Shell;
use super::{PROMPT, on_terminal, talk};
use crate::pseudo_terminal::{CTRL_D, OnTerminal};

const TAB: &str = "\t";

/// A chat with the built-in assistant, which has no model.
fn assistant(shell: &Shell) -> OnTerminal {
    let mut chat = on_terminal(shell, &["chat"], 30, 90);
    chat.screen_with("/help shows");
    chat
}

#[test]
fn help_lists_the_commands_of_the_chat_and_of_the_agent() {
    let shell = Shell::new();
    let mut chat = assistant(&shell);
    chat.types("/help\r");
    let screen = chat.prompt_after("twice leaves", PROMPT);
    assert!(screen.contains("/fork") && screen.contains("Commands of the agent:"), "{screen}");
    chat.types("/forc\r");
    chat.prompt_after("did you mean /fork?", PROMPT);
}

#[test]
fn modes_and_options_are_set() {
    let shell = Shell::new();
    let mut chat = assistant(&shell);
    chat.types("/mode ask\r");
    chat.prompt_after("is now ask", PROMPT);
    chat.types("/mode nonsense\r");
    chat.prompt_after("error: ", PROMPT);
    chat.types("/options\r");
    chat.prompt_after("of code, ask, architect", PROMPT);
    chat.types("/options project_instructions no\r");
    chat.prompt_after("is now false", PROMPT);
    chat.types("/mode\r");
    chat.screen_with("architect");
    chat.types("architect\r");
    chat.screen_with("is now architect");
}

#[test]
fn a_title_a_fork_an_export_and_another_session() {
    let shell = Shell::new();
    let mut chat = assistant(&shell);
    chat.types("/think the first thought\r");
    chat.prompt_after("\n\nthe first thought\n", PROMPT);
    chat.types("/title My title\r");
    chat.prompt_after("the title is now My title", PROMPT);
    chat.types("/export out.md\r");
    chat.prompt_after("written to ", PROMPT);
    let exported = std::fs::read_to_string(shell.here().join("out.md")).unwrap();
    assert!(exported.starts_with("# My title\n") && exported.contains("the first thought"), "{exported}");
    chat.types("/export out.md\r");
    chat.prompt_after("out.md exists", PROMPT);
    chat.types("/fork\r");
    chat.prompt_after("this is a fork now", PROMPT);
    chat.types("/think in the fork\r");
    chat.prompt_after("\n\nin the fork\n", PROMPT);
    chat.types("/sessions\r");
    chat.screen_with("Which session?");
    chat.types("My title\r");
    chat.screen_with("› /think the first thought");
    chat.types(CTRL_D);
    assert!(chat.ends().0.success());
    let list: serde_json::Value = serde_json::from_str(&shell.run(&["list", "--json"]).stdout).unwrap();
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(2), "{list}");
}

#[test]
fn commands_and_files_are_completed_and_files_are_sent() {
    let shell = Shell::new();
    std::fs::create_dir(shell.here().join("src")).unwrap();
    std::fs::write(shell.here().join("src/library.rs"), "fn main() {}\n").unwrap();
    let mut chat = talk(&shell, &[]);
    chat.types("/ex");
    chat.types(TAB);
    chat.screen_with("› /export");
    chat.types("\x15");
    chat.types("say see @libr");
    chat.types(TAB);
    chat.screen_with("@src/library.rs");
    chat.types("\r");
    chat.screen_with("got a resource");
}

#[test]
fn a_prompt_may_have_several_lines() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types("say one\\\r");
    chat.types("say two\x1b\r");
    chat.types("say three\r");
    chat.screen_with("one\n\ntwo\n\nthree\n");
}

#[test]
fn an_agent_that_requires_a_login_offers_its_methods() {
    let shell = Shell::new();
    std::fs::create_dir_all(shell.home.path()).unwrap();
    let config = "[[provider]]\nname = \"mine\"\nkind = \"anthropic\"\n";
    std::fs::write(shell.home.path().join("config.toml"), config).unwrap();
    let mut chat = on_terminal(&shell, &["chat"], 24, 100);
    chat.screen_with("Log in with:");
    chat.screen_with("ANTHROPIC_API_KEY");
    chat.types("\r");
    let (status, said) = chat.ends();
    assert!(status.code() == Some(1) && said.contains("error:"), "{said}");
    let plain = shell.run(&["chat", "hello"]);
    assert!(plain.code == Some(1) && plain.stderr.contains("hint: "), "{plain:?}");
}
