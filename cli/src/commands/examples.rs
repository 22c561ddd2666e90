//! The examples at the end of each command's help.

/// Examples by command: what each does, and the command line.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "acp",
        &[
            ("an agent by its name", "rethread acp codex"),
            ("an agent by its command", "rethread acp -- my-agent --acp"),
            ("the configured default, or the built-in assistant", "rethread acp"),
            ("only by the agent's own restore", "rethread acp --restore native claude"),
        ],
    ),
    (
        "serve",
        &[
            ("keep sessions running without their clients", "rethread serve"),
            ("how the running server is", "rethread serve --status"),
        ],
    ),
    (
        "web",
        &[
            ("open the page in the browser", "rethread web"),
            ("print the address, to open it elsewhere", "rethread web --print"),
        ],
    ),
    (
        "share",
        &[
            ("the newest of this directory, for a day", "rethread share @last --expires 1d"),
            ("all links", "rethread share list"),
        ],
    ),
    (
        "store",
        &[
            (
                "to a database that several hosts share",
                "rethread store copy embedded postgres://rethread@db/rethread",
            ),
            ("back again", "rethread store copy postgres://rethread@db/rethread embedded"),
        ],
    ),
    (
        "token",
        &[
            (
                "a token for a phone that only looks, for 30 days",
                "rethread token new phone --role observer --expires 30d",
            ),
            ("all tokens", "rethread token list"),
        ],
    ),
    (
        "list",
        &[
            ("the sessions of this directory", "rethread list"),
            ("all of Codex of the last week", "rethread list --all --agent codex --since 1w"),
        ],
    ),
    (
        "chat",
        &[
            ("talk to an agent here", "rethread chat --agent codex"),
            ("go on with the newest session of this directory", "rethread chat --last"),
            ("go on with another agent", "rethread chat --resume 7f3a91c2 --agent claude"),
            ("one prompt, in a script", "rethread chat --no \"Summarize the README\""),
        ],
    ),
    (
        "show",
        &[
            ("the newest of this directory", "rethread show @last"),
            ("its third turn, with all of its tool calls", "rethread show @last --turn 3 --tools full"),
        ],
    ),
    (
        "export",
        &[
            ("a web page to give away", "rethread export @last --format html -o session.html"),
            ("a file to import elsewhere", "rethread export 7f3a91c2 -o session.jsonl"),
        ],
    ),
    (
        "import",
        &[
            ("all sessions of other tools", "rethread import --all"),
            ("those of one tool, from another place", "rethread import claude /backup/.claude"),
            ("what `export` wrote", "rethread import session.jsonl"),
        ],
    ),
    ("stats", &[("all directories, the last month", "rethread stats --all --since 30d")]),
    ("prune", &[("sessions that nobody has used for long", "rethread prune --older-than 90d")]),
    ("rename", &[("the newest of this directory", "rethread rename @last \"Fix the parser\"")]),
    ("archive", &[("by the end of its id", "rethread archive 7f3a91c2")]),
    ("unarchive", &[("by the end of its id", "rethread unarchive 7f3a91c2")]),
    (
        "delete",
        &[
            ("choose one, and confirm", "rethread delete"),
            ("without a question", "rethread delete @last --yes"),
        ],
    ),
    (
        "fork",
        &[
            ("after its last finished turn", "rethread fork @last"),
            ("after one of its messages", "rethread fork 7f3a91c2 --at 01a1ec08-a005-777e-a2e8-fdec612fbf24"),
        ],
    ),
    (
        "move",
        &[
            ("to this directory", "rethread move 7f3a91c2 ."),
            ("the newest of this directory to another one", "rethread move @last ../other"),
        ],
    ),
    ("release", &[("so that it can be loaded elsewhere", "rethread release 7f3a91c2")]),
    ("agents", &[("also those that can be installed", "rethread agents --all")]),
    ("models", &[("without asking any provider", "rethread models --offline")]),
    (
        "config",
        &[
            ("open it in your editor", "rethread config edit"),
            ("all that is in effect, without secrets", "rethread config show"),
        ],
    ),
    (
        "doctor",
        &[
            ("look at everything, and repair what is safe", "rethread doctor --repair"),
            ("look at an agent, too", "rethread doctor codex"),
            ("read the whole store", "rethread doctor --full"),
        ],
    ),
    (
        "completions",
        &[
            ("bash", "rethread completions bash > ~/.local/share/bash-completion/completions/rethread"),
            ("zsh", "rethread completions zsh > \"${fpath[1]}/_rethread\""),
            ("fish", "rethread completions fish > ~/.config/fish/completions/rethread.fish"),
        ],
    ),
    (
        "man",
        &[
            ("read one", "rethread man acp | man -l -"),
            ("install all", "rethread man --out ~/.local/share/man/man1"),
        ],
    ),
    ("demo", &[("in a temporary folder", "rethread demo")]),
];

/// Adds the examples to the help of each command.
pub(super) fn added_to(mut definition: clap::Command) -> clap::Command {
    for (name, examples) in EXAMPLES {
        let text = help_text(examples);
        if definition.find_subcommand(name).is_some() {
            definition = definition.mut_subcommand(name, |command| command.after_help(text));
        }
    }
    definition
}

fn help_text(examples: &[(&str, &str)]) -> String {
    let lines = examples.iter().map(|(what, line)| format!("  {line}\n      {what}"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;

    /// The words of a command line up to a pipe or a redirection. What is in quotes is one word.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(['>', '|']).next().unwrap_or_default();
        let parts = line.split('"').enumerate();
        let words = parts.flat_map(|(at, part)| match at % 2 {
            1 => vec![part.to_owned()],
            _ => part.split_whitespace().map(str::to_owned).collect(),
        });
        words.collect()
    }

    #[test]
    fn every_command_has_examples_that_are_valid() {
        let definition = Cli::definition();
        for command in definition.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert!(command.get_after_help().is_some(), "{name} has no examples");
            let examples = EXAMPLES.iter().find(|(known, _)| *known == name).map(|(_, examples)| *examples);
            for (_, line) in examples.unwrap_or_default() {
                let parsed = Cli::definition().try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::definition().debug_assert();
    }
}
