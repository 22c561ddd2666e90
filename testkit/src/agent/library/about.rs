//! Converts an `AgentConfig` to the library's description of an agent: abilities, options, commands, login.

use rethread::author::{Ability, About, ConfigOption, Login as Method, OptionValue};

use crate::agent::config::{AgentConfig, Login, Offer};

const ABILITIES: [(&str, Ability); 10] = [
    ("image", Ability::Images),
    ("audio", Ability::Audio),
    ("embeddedContext", Ability::EmbeddedContext),
    ("stdio", Ability::McpStdio),
    ("http", Ability::McpHttp),
    ("sse", Ability::McpSse),
    ("additionalDirectories", Ability::AdditionalDirectories),
    ("systemPrompt", Ability::SystemPrompt),
    ("override", Ability::SystemPromptOverride),
    ("cancelOne", Ability::CancelOne),
];

/// The nature of a scripted agent in the words of the library.
pub(super) fn about(config: &AgentConfig) -> About {
    let can = ABILITIES.iter().filter(|(name, _)| config.can(name));
    let able: Vec<_> = can.map(|(_, ability)| *ability).collect();
    let mut about = About::new(config.name, "2").able(&able);
    if config.login != Login::NotNeeded {
        let (id, name) = ("key".to_owned(), "A key".to_owned());
        about.logins.push(Method { id, name, description: "Have one".to_owned() });
        about.login_first = true;
    }
    about.options = options(&config.offers);
    let command = |name: &&str| ((*name).to_owned(), format!("Does {name}"), Some("what".to_owned()));
    about.commands = config.commands.iter().map(command).collect();
    about
}

fn options(offers: &[Offer]) -> Vec<ConfigOption> {
    let has = |offer: Offer| offers.contains(&offer);
    let select = |id: &str, name: &str, values: [&str; 2]| {
        ConfigOption::select(id, name, values.map(|value| OptionValue::new(value, value)).to_vec())
    };
    let all = [
        (has(Offer::Modes) || has(Offer::ModeOption), select("mode", "Mode", ["a", "b"]).in_category("mode")),
        (has(Offer::Models), select("model", "Model", ["fast", "deep"]).in_category("model")),
        (has(Offer::Effort), select("effort", "Effort", ["low", "high"])),
        (has(Offer::Verbose), ConfigOption::boolean("verbose", "Verbose", false)),
    ];
    all.into_iter().filter(|(offered, _)| *offered).map(|(_, option)| option).collect()
}
