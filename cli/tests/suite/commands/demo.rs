//! The demonstration does what it says, with nothing configured.

use expect_test::expect;

use super::Shell;
use crate::pseudo_terminal::OnTerminal;

#[test]
fn the_story_goes_on_at_the_next_word() {
    let shell = Shell::new();
    let mut command = shell.command(&["demo"]);
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1").env_remove("RETHREAD_HOME").env_remove("HOME");
    let demo = OnTerminal::start_sized(command, 40, 64);
    let (status, said) = demo.ends();
    assert!(status.success(), "{said}");
    let said = said.replace("\r\n", "\n");
    // A word may have been stored that was not shown.
    let count = said.split("All ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    expect![[r#"

        1. An agent answers through `rethread acp`.

            Most agents send their answer to the editor word by word.
            If the editor or the agent crashes, the rest of the answer
            is lost, and often the whole conversation. Rethread writes
            every word to

        2. kill -9: Rethread and the agent are gone, in the middle of a
        sentence.

        3. Another `rethread acp` loads the session. All N words are
        there, and the agent, which keeps nothing itself, is given the
        transcript and goes on at the next word.

            Most agents send their answer to the editor word by word.
            If the editor or the agent crashes, the rest of the answer
            is lost, and often the whole conversation. Rethread writes
            every word to a journal before it is shown. After a crash,
            the session is loaded from the journal up to the last word
            that was shown, and the agent continues from there.

        Talk to an agent:           rethread chat -- codex-acp
        Keep your editor's agents:  rethread acp -- codex-acp

    "#]]
    .assert_eq(&said.replace(&format!("All {count} words"), "All N words"));
}
