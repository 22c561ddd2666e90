//! `rethread stats`.

use expect_test::expect;
use rethread::store::Store as _;
use rethread_core::{Seq, Stop};
use serde_json::{Value, json};
use tokio::process::Command;

use super::Shell;
use super::rich::{RICH, ended, opened, turn_began};
use super::stored::{Made, turns};
use crate::pseudo_terminal::OnTerminal;

/// Sessions of two directories; one agent reports no tokens; a fork.
fn shelf() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    store.add_rich(&here);
    store.add(&Made { id: "s-plain", cwd: "/srv/app", agent: "Gemini CLI", ago: 0, updates: turns("Hi", 2) });
    let mut entries = vec![opened(&here, "Claude Code")];
    entries.extend(turn_began(2, 86_400_000, "Another way?"));
    entries.push(ended(2, 86_401_000, Stop::plain("end_turn"), json!({"inputTokens": 7, "outputTokens": 3})));
    let lease =
        store.add_owned_entries("s-fork", &here, "Claude Code", Some((RICH.into(), Seq(14))), entries);
    store.wait(store.store.release(&lease)).expect("it can be released");
    drop(store);
    shell
}

#[test]
fn turns_tokens_and_cost_are_summed_up() {
    shelf().check(
        &["stats"],
        &expect![[r#"
            2 sessions, 4 turns, 12,510 tokens, 0.25 USD

            agent        turns   input  output  cached      cost
            Claude Code      3  12,007     503   9,000  0.25 USD
            Codex            1       -       -       -         -

            model           turns   input  output  cached      cost
            opus                3  12,007     503   9,000  0.25 USD
            (not reported)      1       -       -       -         -

            day         turns   input  output  cached      cost
            2026-11-15      3  12,000     500   9,000  0.25 USD
            2026-11-16      1       7       3       0         -

            Of 4 turns, 2 have no token counts: their agents report none.
        "#]],
    );
}

#[test]
fn sums_are_json_for_programs() {
    shelf().check(
        &["stats", "--json", "--agent", "claude"],
        &expect![[r#"
        {
          "since": null,
          "sessions": 2,
          "total": {
            "turns": 3,
            "turnsWithoutTokens": 1,
            "turnsWithoutCost": 2,
            "tokens": {
              "input": 12007,
              "output": 503,
              "cachedRead": 9000,
              "cachedWrite": 0,
              "total": 12510
            },
            "cost": {
              "USD": 0.25
            }
          },
          "byAgent": [
            {
              "agent": "Claude Code",
              "turns": 3,
              "turnsWithoutTokens": 1,
              "turnsWithoutCost": 2,
              "tokens": {
                "input": 12007,
                "output": 503,
                "cachedRead": 9000,
                "cachedWrite": 0,
                "total": 12510
              },
              "cost": {
                "USD": 0.25
              }
            }
          ],
          "byModel": [
            {
              "model": "opus",
              "turns": 3,
              "turnsWithoutTokens": 1,
              "turnsWithoutCost": 2,
              "tokens": {
                "input": 12007,
                "output": 503,
                "cachedRead": 9000,
                "cachedWrite": 0,
                "total": 12510
              },
              "cost": {
                "USD": 0.25
              }
            }
          ],
          "byDay": [
            {
              "day": "2026-11-15",
              "turns": 2,
              "turnsWithoutTokens": 1,
              "turnsWithoutCost": 1,
              "tokens": {
                "input": 12000,
                "output": 500,
                "cachedRead": 9000,
                "cachedWrite": 0,
                "total": 12500
              },
              "cost": {
                "USD": 0.25
              }
            },
            {
              "day": "2026-11-16",
              "turns": 1,
              "turnsWithoutTokens": 0,
              "turnsWithoutCost": 1,
              "tokens": {
                "input": 7,
                "output": 3,
                "cachedRead": 0,
                "cachedWrite": 0,
                "total": 10
              },
              "cost": {}
            }
          ],
          "damaged": []
        }
    "#]],
    );
}

#[test]
fn turns_of_other_directories_and_times_are_counted_on_request() {
    let shell = shelf();
    let all = |args: &[&str]| -> Value { serde_json::from_str(&shell.run(args).stdout).expect("it is JSON") };
    let sums = all(&["stats", "--all", "--json"]);
    assert_eq!((&sums["sessions"], &sums["total"]["turns"]), (&json!(3), &json!(6)));
    let sums = all(&["stats", "--all", "--json", "--since", "2026-11-16"]);
    assert_eq!(sums["byDay"][0]["day"], "2026-11-16");
    assert_eq!(sums["byDay"][0]["tokens"]["total"], 10);
    shell.check(
        &["stats", "--agent", "no such agent"],
        &expect![[r#"
        No turns in this directory; --all counts those of all directories.
    "#]],
    );
}

#[test]
fn a_terminal_shows_bars() {
    let shell = shelf();
    let mut command: Command = shell.command(&["stats"]);
    command.env("TERM", "xterm-256color").env("PAGER", "cat");
    let mut terminal = OnTerminal::start(command);
    let screen = terminal.screen_with("2026-11-16");
    assert!(screen.contains("██████████████████") && !screen.contains('…'), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}
