//! The examples at the end of each command's help.

/// Examples by command: what each does, and the command line.
const EXAMPLES: [(&str, &[(&str, &str)]); 16] = [
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
        "list",
        &[
            ("the sessions of this directory", "rethread list"),
            ("all of Codex of the last week", "rethread list --all --agent codex --since 1w"),
        ],
    ),
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
    for (name, examples) in EXAMPLES.iter().filter(|(_, examples)| !examples.is_empty()) {
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

    #[test]
    fn every_command_has_examples_that_are_valid() {
        let definition = Cli::definition();
        for command in definition.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let found = EXAMPLES.iter().find(|(known, _)| *known == name);
            let (_, examples) = found.unwrap_or_else(|| panic!("{name} has no examples"));
            assert!(!examples.is_empty(), "{name}");
            assert!(command.get_after_help().is_some(), "{name}");
            for (_, line) in *examples {
                let words = line.split(['>', '|']).next().unwrap_or_default();
                let words = words.split_whitespace().map(|word| word.trim_matches('"'));
                let title = words.clone().filter(|word| *word != "the" && *word != "parser");
                let parsed = Cli::definition().try_get_matches_from(title);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::definition().debug_assert();
    }
}
