//! A chat on a real terminal: prompts, streams, questions by key, cancelling, leaving, resuming.

use std::os::unix::fs::PermissionsExt as _;

use expect_test::expect;
use rethread_testkit::processes::signal;

use super::super::Shell;
use super::{PROMPT, agent, on_terminal, run, talk, talk_sized, with_agent};
use crate::pseudo_terminal::{CTRL_C, CTRL_D};

/// The end of a screen after these words.
fn after<'a>(screen: &'a str, words: &str) -> &'a str {
    screen.split_once(words).map_or(screen, |(_, rest)| rest)
}

#[test]
fn a_turn_is_shown_in_order() {
    let shell = Shell::new();
    let mut chat = talk_sized(&shell, &[], 40, 60);
    chat.types("say **Hello** `you`; think hm; tool; plan a,b; usage 1200/4000; say # End\r");
    let screen = chat.prompt_after("tokens", PROMPT);
    let took = after(&screen, "(30%) · ").lines().next().unwrap().to_owned();
    let turn = after(&screen, "# End\n").replace(&took, "TIME");
    expect![[r#"

        Hello you

        hm

        ● Edit a file
          edited
          modify /work/a.txt +1 -1
          @@ -1 +1 @@
          -one
          +two

        ☑ a
        ☐ b

        End

        1.2k of 4.0k tokens (30%) · TIME
    "#]]
    .assert_eq(&(turn.split("TIME").next().unwrap().to_owned() + "TIME\n"));
    chat.types(CTRL_D);
    let (status, said) = chat.ends();
    assert!(status.success() && said.contains("Come back with: rethread chat --resume "), "{said}");
    let history = shell.home.path().join("state/chat_history");
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(history).unwrap().starts_with("say **Hello**"));
}

#[test]
fn a_permission_is_answered_by_one_key() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types("permit\r");
    let screen = chat.screen_with("press y, n");
    assert!(
        screen.contains("? Run it?") && screen.contains("y  Yes") && screen.contains("/work/a.txt"),
        "{screen}"
    );
    // Neither Enter nor an arrow key answers.
    chat.types("\r\x1b[Ax");
    chat.types("y");
    chat.screen_with("→ Yes");
    chat.prompt_after("permission: selected yes", PROMPT);
    chat.types("permit\r");
    chat.screen_with("press y, n");
    chat.types("\x1b");
    chat.prompt_after("permission: selected no", PROMPT);
}

#[test]
fn permissions_need_no_key_if_the_command_line_answers_them() {
    let shell = Shell::new();
    for (option, answer) in [("--yes", "permission: selected yes"), ("--no", "permission: selected no")] {
        let mut chat = talk(&shell, &[option]);
        chat.types("permit\r");
        let screen = chat.prompt_after(answer, PROMPT);
        assert!(screen.contains("? Run it?"), "it is shown: {screen}");
    }
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types("slow 60; permit\r");
    chat.screen_with("·");
    chat.types("y");
    chat.screen_with("press y, n");
    chat.types("n");
    chat.prompt_after("permission: selected no", PROMPT);
}

#[test]
fn ctrl_c_cancels_the_turn_and_twice_leaves() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types("say before; tool; hang\r");
    chat.screen_with("● Edit a file");
    chat.types(CTRL_C);
    chat.prompt_after("Cancelled.", PROMPT);
    chat.types("say after\r");
    chat.prompt_after("\n\nafter\n", PROMPT);
    chat.types(CTRL_C);
    chat.prompt_after("Ctrl-C again leaves", PROMPT);
    chat.types(CTRL_C);
    let (status, said) = chat.ends();
    assert!(status.success() && said.contains("Come back with"), "{said}");
}

#[test]
fn ctrl_c_twice_in_a_turn_leaves_an_agent_that_does_not_stop() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types("deaf\r");
    chat.screen_with("working");
    chat.types(CTRL_C);
    chat.screen_with("Ctrl-C again leaves");
    chat.types(CTRL_C);
    let (status, said) = chat.ends();
    assert!(status.success() && said.contains("Come back with"), "{said}");
}

#[test]
fn ctrl_c_cancels_a_question() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types("permit\r");
    chat.screen_with("press y, n");
    chat.types(CTRL_C);
    chat.screen_with("no longer asked");
    chat.prompt_after("Cancelled.", PROMPT);
}

#[test]
fn a_form_is_filled_in() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types("elicit\r");
    chat.screen_with("Your name?");
    chat.types("Ann\r");
    chat.prompt_after(r#"elicited: {"action":"accept","content":{"name":"Ann"}}"#, PROMPT);
    chat.types("elicit\r");
    chat.screen_with("? name");
    chat.types("\x1b");
    chat.screen_with(r#"elicited: {"action":"cancel"}"#);
}

#[test]
fn the_end_of_a_session_is_shown_when_it_is_resumed() {
    let shell = Shell::new();
    for prompt in ["say first words", "say second words", "say third words"] {
        let last = if prompt.contains("first") { &[prompt][..] } else { &["--last", prompt] };
        assert_eq!(run(&shell, last).code, Some(0));
    }
    let mut chat = talk(&shell, &["--last"]);
    let screen = chat.screen();
    assert!(screen.contains("› say third words\n\nthird words"), "{screen}");
    assert!(!screen.contains("first words") && screen.contains("… earlier turns: rethread show"), "{screen}");
    chat.types("say fourth\r");
    chat.prompt_after("\n\nfourth\n", PROMPT);
}

#[test]
fn a_session_is_chosen_from_a_list() {
    let shell = Shell::new();
    assert_eq!(run(&shell, &["say alpha"]).code, Some(0));
    assert_eq!(run(&shell, &["say beta"]).code, Some(0));
    let mut chat = on_terminal(&shell, &with_agent(&["--resume"], &agent()), 24, 80);
    chat.screen_with("Which session?");
    chat.types("alpha\r");
    chat.screen_with("› say alpha\n\nalpha");
    chat.screen_with("/help shows");
    chat.types(CTRL_D);
    assert!(chat.ends().0.success());
}

#[test]
fn a_resize_counts_for_what_comes() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    let words = "aaaa ".repeat(12);
    chat.types(&format!("say {words}; tool; wait never; say {words}\r"));
    chat.screen_with("● Edit a file");
    assert!(chat.screen().contains(&format!("\n{}\n", words.trim())), "{}", chat.screen());
    chat.resize(24, 30);
    chat.types(CTRL_C);
    chat.prompt_after("Cancelled.", PROMPT);
    chat.types(&format!("say {words}\r"));
    chat.screen_with("aaaa\naaaa aaaa aaaa aaaa aaaa aaaa\n");
}

#[test]
fn wide_text_and_long_lines_fit() {
    let shell = Shell::new();
    let mut chat = talk_sized(&shell, &[], 30, 20);
    chat.types("say 日本語のテキストは折り返されます👩\u{200d}🚀\r");
    let screen = chat.screen_with("\nり返されます");
    assert!(screen.contains("\n日本語のテキストは折\nり返されます👩\u{200d}🚀"), "{screen}");
}

#[test]
fn the_first_prompt_may_be_on_the_command_line() {
    let shell = Shell::new();
    let mut chat = on_terminal(&shell, &with_agent(&["say hello"], &agent()), 24, 80);
    chat.screen_with("› say hello\n\nhello\n");
    chat.types("say more\r");
    chat.prompt_after("\n\nmore\n", PROMPT);
}

#[test]
fn nothing_is_left_of_a_chat_without_a_word() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types(CTRL_D);
    let (status, said) = chat.ends();
    assert!(status.success() && !said.contains("Come back"), "{said}");
    assert_eq!(shell.run(&["list", "--all"]).stdout, "No sessions.\n");
}

#[test]
fn a_signal_ends_a_chat_at_its_prompt_and_in_a_turn() {
    for (prompt, words) in [("", "›"), ("hang\r", "working")] {
        let shell = Shell::new();
        let mut chat = talk(&shell, &[]);
        chat.types(prompt);
        chat.screen_with(words);
        signal(i32::try_from(chat.id()).unwrap(), libc::SIGHUP);
        assert!(chat.ends().0.success());
        assert!(!shell.run(&["list", "--all"]).stdout.contains("running"), "it has let the session go");
    }
}

#[test]
fn ctrl_c_leaves_while_the_agent_starts() {
    let shell = Shell::new();
    let mut chat = on_terminal(&shell, &["chat", "--", "sleep", "60"], 24, 80);
    chat.screen_with("starting the agent");
    chat.types(CTRL_C);
    assert_eq!(chat.ends().0.code(), Some(130));
}

#[test]
fn a_terminal_with_few_rows_shows_everything_once() {
    let shell = Shell::new();
    let mut chat = talk_sized(&shell, &[], 5, 30);
    chat.types("slow 120; say end\r");
    chat.prompt_after("end", PROMPT);
    let written = chat.scrollback();
    assert_eq!(written.matches("c120").count(), 1, "{written}");
    assert_eq!(written.matches("c1 c2 c3").count(), 1, "{written}");
}

#[test]
fn a_question_that_was_open_when_the_chat_was_killed_is_no_longer_asked() {
    let shell = Shell::new();
    let mut chat = talk(&shell, &[]);
    chat.types("permit\r");
    chat.screen_with("press y, n");
    signal(i32::try_from(chat.id()).unwrap(), libc::SIGKILL);
    chat.ends();
    let shown = shell.run(&["show", "@last"]).stdout;
    assert!(shown.contains("The agent's question has no answer: Run it?"), "{shown}");
    let mut chat = talk(&shell, &["--last"]);
    let screen = chat.prompt_after("✗ Run it (failed)", PROMPT);
    assert!(screen.contains("error: rethread stopped while the agent was running"), "{screen}");
    chat.types("permit\r");
    chat.screen_with("press y, n");
    chat.types("y");
    chat.prompt_after("permission: selected yes", PROMPT);
}

#[test]
fn a_question_outside_of_a_turn_takes_the_input_line_away() {
    for protocol in ["1", "2"] {
        let shell = Shell::new();
        let agent = agent();
        let asking = ["--", &agent, "--protocol", protocol, "--asks-when-opened"];
        let mut chat = on_terminal(&shell, &[&["chat"][..], &asking].concat(), 30, 80);
        chat.screen_with("press y, n");
        chat.types("n");
        chat.prompt_after("trust: no", PROMPT);
        chat.types("say on\r");
        chat.prompt_after("\n\non\n", PROMPT);
        drop(chat);
        // A session that is resumed is opened at the agent with the first prompt.
        let mut chat = on_terminal(&shell, &[&["chat", "--last"][..], &asking].concat(), 30, 80);
        chat.screen_with("/help shows");
        chat.types("say more\r");
        let screen = chat.screen_with("press y, n");
        assert!(screen.contains("? Run it"), "{screen}");
        chat.types("y");
        chat.prompt_after("trust: yes", PROMPT);
    }
}
