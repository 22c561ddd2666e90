//! The slash commands of a chat itself. What is not one of them, and not one of the agent's, is refused with a suggestion;
//! other text is a prompt.

use rethread::client::view::SlashCommand;

/// A command of the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChatCommand {
    /// Lists the commands.
    Help,
    /// Sets the mode, or lets the user choose.
    Mode(Option<String>),
    /// Sets the model, or lets the user choose.
    Model(Option<String>),
    /// Shows the options, or sets one.
    Options(Option<(String, String)>),
    /// Continues in a copy of the session.
    Fork,
    /// Switches to another session.
    Sessions,
    /// Sets the title.
    Title(String),
    /// Writes the conversation to a file.
    Export(Option<String>),
    /// Leaves.
    Quit,
}

/// What the user typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A command of the chat.
    Command(ChatCommand),
    /// Text for the agent, which may be one of its own commands.
    Prompt(String),
    /// A command that does not exist or lacks something, with what to say.
    Mistake(String),
    /// Nothing.
    Nothing,
}

/// The commands with what they do.
pub(crate) const COMMANDS: [(&str, &str); 9] = [
    ("help", "shows the commands"),
    ("mode", "sets the mode: /mode NAME"),
    ("model", "sets the model: /model NAME"),
    ("options", "shows all options, or sets one: /options NAME VALUE"),
    ("fork", "continues in a copy of this session"),
    ("sessions", "switches to another session"),
    ("title", "gives this session a title: /title TEXT"),
    ("export", "writes the conversation to a file: /export FILE"),
    ("quit", "leaves; so does Ctrl-D"),
];

/// Reads what the user typed.
pub(crate) fn typed(text: &str, of_agent: &[SlashCommand]) -> Typed {
    let Some(rest) = text.strip_prefix('/') else {
        return if text.trim().is_empty() { Typed::Nothing } else { Typed::Prompt(text.to_owned()) };
    };
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let argument = Some(argument.trim().to_owned()).filter(|argument| !argument.is_empty());
    let command = match name {
        "help" => ChatCommand::Help,
        "mode" => ChatCommand::Mode(argument),
        "model" => ChatCommand::Model(argument),
        "options" => match argument.map(|words| words.split_once(' ').map(owned)) {
            None => ChatCommand::Options(None),
            Some(Some(change)) => ChatCommand::Options(Some(change)),
            Some(None) => return Typed::Mistake("a value is missing: /options NAME VALUE".to_owned()),
        },
        "fork" => ChatCommand::Fork,
        "sessions" => ChatCommand::Sessions,
        "title" => match argument {
            Some(title) => ChatCommand::Title(title),
            None => return Typed::Mistake("the title is missing: /title TEXT".to_owned()),
        },
        "export" => ChatCommand::Export(argument),
        "quit" | "exit" => ChatCommand::Quit,
        _ => return other(text, name, of_agent),
    };
    Typed::Command(command)
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.trim().to_owned())
}

/// A command of the agent, or text that begins with a path.
fn other(text: &str, name: &str, of_agent: &[SlashCommand]) -> Typed {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.:".contains(c));
    if !is_name || of_agent.is_empty() || of_agent.iter().any(|command| command.name == name) {
        return Typed::Prompt(text.to_owned());
    }
    let names =
        COMMANDS.iter().map(|(name, _)| *name).chain(of_agent.iter().map(|command| command.name.as_str()));
    let close = names
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let hint = close.map_or_else(
        || "/help shows the commands".to_owned(),
        |(_, known)| format!("did you mean /{known}?"),
    );
    Typed::Mistake(format!("there is no command /{name}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Typed {
        let command = SlashCommand { name: "compact".to_owned(), description: String::new(), hint: None };
        typed(text, &[command])
    }

    #[test]
    fn commands_are_told_from_prompts() {
        assert_eq!(read("/mode ask"), Typed::Command(ChatCommand::Mode(Some("ask".to_owned()))));
        assert_eq!(read("/mode"), Typed::Command(ChatCommand::Mode(None)));
        let change = Some(("temperature".to_owned(), "low".to_owned()));
        assert_eq!(read("/options temperature low"), Typed::Command(ChatCommand::Options(change)));
        assert_eq!(read("/compact now"), Typed::Prompt("/compact now".to_owned()));
        assert_eq!(read("/etc/hosts is wrong"), Typed::Prompt("/etc/hosts is wrong".to_owned()));
        assert_eq!(read("  \n"), Typed::Nothing);
        assert_eq!(
            read("/forc"),
            Typed::Mistake("there is no command /forc; did you mean /fork?".to_owned())
        );
        assert_eq!(typed("/unknown", &[]), Typed::Prompt("/unknown".to_owned()), "the agent may know it");
    }
}
