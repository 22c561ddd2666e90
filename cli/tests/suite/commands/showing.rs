//! `rethread show`.

use expect_test::expect;
use serde_json::Value;

use super::Shell;
use super::rich::RICH;
use crate::pseudo_terminal::OnTerminal;

fn with_rich() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    shell.store().add_rich(&here);
    shell
}

#[test]
fn the_transcript_is_markdown() {
    with_rich().check(
        &["show", "@last"],
        &expect![[r#"
            # Fix the parser

            - Session: `019a-rich0001`
            - Directory: `/project`
            - Agent: Claude Code, own id `native-1`, from turn 1 (started a new session)
            - Agent: Codex, own id `native-2`, from turn 3 (continued from the transcript)
            - Created: 2026-11-15 12:00 UTC
            - Changed: 2026-11-15 12:10 UTC
            - Turns: 3
            - Usage: 12,500 tokens (12,000 in, 500 out, 9,000 cached); context 12,000 of 200,000 tokens; cost 0.25 USD

            ## Turn 1 · 2026-11-15 12:00 UTC · 1 min 5 s

            ### User

            Fix the parser in `src/parser.rs`, please.

            ### Agent

            > The parser drops the last token.
            > I should look.
            > Then mend it.
            > … 1 more line

            **Plan**

            - [x] Read the parser
            - [ ] Mend it *(in progress)*
            - [ ] Test it

            ✓ **Edit src/parser.rs** · edit · completed · `/w/src/parser.rs:12`

            ```diff
            --- a/src/parser.rs
            +++ b/src/parser.rs
            @@ -1,2 +1,2 @@
            -let x = 1;
            +let x = 2;
             context
            ```

            ✗ **Run the tests** · execute · failed

            ```
            $ cargo test
            test result: ok
            line two
            [exit status 1]
            ```

            Done. The **parser** keeps the last token now:

            ```rust
            let x = 2;
            ```

            ## Turn 2 · 2026-11-15 12:02 UTC · 5 s

            ### User

            And the printer?

            ### Agent

            Look:

            ```rust
            fn print(
            ```

            *The agent ended: it was ended by SIGKILL.*

            *The turn failed: the agent exited.*

            ## Turn 3 · 2026-11-15 12:05 UTC · 4 s

            *Codex continued from the transcript.*

            ### User

            日本語 שלום مرحبا 👩‍🚀 \u{1b}[31mred\u{202e}

            ### Agent

            **Sub-agent: Search the docs** · completed

            > Found *nothing*.

            I was about to

            *The turn was cancelled.*
        "#]],
    );
}

#[test]
fn tool_calls_can_be_left_out_or_shown_in_full() {
    let shell = with_rich();
    shell.check(
        &["show", RICH, "--turn", "1", "--tools", "none"],
        &expect![[r#"
            # Fix the parser

            - Session: `019a-rich0001`
            - Directory: `/project`
            - Agent: Claude Code, own id `native-1`, from turn 1 (started a new session)
            - Agent: Codex, own id `native-2`, from turn 3 (continued from the transcript)
            - Created: 2026-11-15 12:00 UTC
            - Changed: 2026-11-15 12:10 UTC
            - Turns: 3
            - Usage: 12,500 tokens (12,000 in, 500 out, 9,000 cached); context 12,000 of 200,000 tokens; cost 0.25 USD

            ## Turn 1 · 2026-11-15 12:00 UTC · 1 min 5 s

            ### User

            Fix the parser in `src/parser.rs`, please.

            ### Agent

            **Plan**

            - [x] Read the parser
            - [ ] Mend it *(in progress)*
            - [ ] Test it

            Done. The **parser** keeps the last token now:

            ```rust
            let x = 2;
            ```
        "#]],
    );
    let full = shell.run(&["show", RICH, "--turn", "1", "--tools", "full"]).stdout;
    assert!(full.contains("> And test it.") && full.contains("+let x = 2;"), "{full}");
}

#[test]
fn the_transcript_is_json_for_programs() {
    let shell = with_rich();
    shell.check(
        &["show", RICH, "--json", "--turn", "2"],
        &expect![[r#"
        {
          "id": "019a-rich0001",
          "title": "Fix the parser",
          "cwd": "/project",
          "agent": "Codex",
          "createdAt": "TIME",
          "updatedAt": "TIME",
          "archived": false,
          "parent": null,
          "agents": [
            {
              "agent": "Claude Code",
              "nativeId": "native-1",
              "binding": "fresh",
              "fromTurn": 1
            },
            {
              "agent": "Codex",
              "nativeId": "native-2",
              "binding": "reseeded",
              "fromTurn": 3
            }
          ],
          "turnCount": 3,
          "tokens": {
            "input": 12000,
            "output": 500,
            "cachedRead": 9000,
            "cachedWrite": 0,
            "total": 12500
          },
          "cost": {
            "USD": 0.25
          },
          "context": {
            "used": 12000,
            "size": 200000
          },
          "turns": [
            {
              "turn": 2,
              "startedAt": "TIME",
              "endedAt": "TIME",
              "stopReason": "error",
              "error": "the agent exited",
              "tokens": null,
              "cost": {},
              "continued": false,
              "items": [
                {
                  "type": "user",
                  "id": "p2",
                  "content": [
                    {
                      "type": "text",
                      "text": "And the printer?"
                    }
                  ]
                },
                {
                  "type": "agent",
                  "id": "a2",
                  "content": [
                    {
                      "type": "text",
                      "text": "Look:\n\n```rust\nfn print("
                    }
                  ]
                },
                {
                  "type": "event",
                  "event": "agent_lost",
                  "reason": "it was ended by SIGKILL"
                }
              ]
            }
          ],
          "damage": null
        }
    "#]],
    );
    let all = shell.run(&["show", RICH, "--json"]).stdout;
    let all: serde_json::Value = serde_json::from_str(&all).expect("it is JSON");
    assert_eq!(all["turns"].as_array().map(Vec::len), Some(3));
    assert_eq!(all["turns"][0]["items"][4]["type"], "tool");
    assert_eq!(all["turns"][0]["items"][4]["content"][0]["type"], "diff");
}

#[test]
fn the_entries_are_json_lines() {
    let shell = with_rich();
    shell.check(&["show", RICH, "--raw", "--turn", "2"], &expect![[r#"
        {"first":15,"last":15,"entry":{"TurnStarted":{"turn":2,"at":1794744120000,"state":{"sessionUpdate":"state_update","state":"running"}}}}
        {"first":16,"last":16,"entry":{"PromptInserted":{"message":"p2","turn":2,"content":[{"type":"text","text":"And the printer?"}],"at":1794744120000}}}
        {"first":17,"last":17,"entry":{"Updated":{"update":{"kind":"agent_message","id":"a2","body":{"sessionUpdate":"agent_message","messageId":"a2","content":[{"type":"text","text":"Look:\n\n```rust\nfn print("}]}},"known":false}}}
        {"first":18,"last":18,"entry":{"AgentLost":{"generation":1,"reason":"it was ended by SIGKILL"}}}
        {"first":19,"last":19,"entry":{"TurnEnded":{"turn":2,"stop":{"reason":"error","error":{"code":-32603,"message":"the agent exited"}},"at":1794744125000,"state":{"sessionUpdate":"state_update","state":"idle","stopReason":"error"}}}}
    "#]]);
    let all = shell.run(&["show", RICH, "--raw"]).stdout;
    assert!(all.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{all}");
}

#[test]
fn a_turn_that_is_not_there_is_not_found() {
    with_rich().check_failure(
        &["show", RICH, "--turn", "4"],
        3,
        &expect![[r#"
        error: session 019a-rich0001 has no turn 4
        hint: its last turn is 3
    "#]],
    );
}

#[test]
fn a_session_that_is_open_elsewhere_can_be_read() {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    let lease = store.add_owned_entries("s-live", &here, "codex", None, super::rich::rich(&here));
    store.append(&lease, super::rich::turn_began(4, 500_000, "Still there?"));
    let said = shell.run(&["show", "s-live", "--turn", "4"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stdout.contains("Still there?"), "{}", said.stdout);
}

#[test]
fn a_terminal_shows_headings_and_diffs_in_colour() {
    let shell = with_rich();
    let on_terminal = |color: &str| {
        let mut command = shell.command(&["show", RICH]);
        command.env("TERM", "xterm-256color").env("PAGER", "cat").env("NO_COLOR", color);
        let (status, said) = OnTerminal::start(command).ends();
        assert!(status.success(), "{said}");
        said
    };
    let said = on_terminal("");
    for line in [
        "\u{1b}[1;4;34mFix the parser\u{1b}[0m",
        "\u{1b}[31m-let x = 1;\u{1b}[0m",
        "\u{1b}[32m+let x = 2;\u{1b}[0m",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert!(said.contains(r"\u{1b}[31mred\u{202e}"), "text of agents is escaped: {said}");
    assert!(!on_terminal("1").contains('\u{1b}'), "NO_COLOR");
}

#[test]
fn one_turn_is_the_same_as_among_all_turns() {
    let shell = with_rich();
    let json = |words: &[&str]| -> Vec<Value> {
        let said = shell.run(&[&["show", RICH, "--json"], words].concat());
        let document: Value = serde_json::from_str(&said.stdout).unwrap();
        document["turns"].as_array().unwrap().clone()
    };
    let all = json(&[]);
    assert!(all.len() >= 3, "{all:?}");
    for number in 1..=3_u64 {
        let of_turn: Vec<Value> = all.iter().filter(|turn| turn["turn"] == number).cloned().collect();
        assert_eq!(json(&["--turn", &number.to_string()]), of_turn, "turn {number}");
    }
}
