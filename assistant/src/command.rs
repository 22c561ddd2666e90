//! The slash commands: their list for the client, and parsing them. Runs none.

use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp::Servers;

/// A parsed slash command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SlashCommand {
    /// Lists the commands.
    Help,
    /// Lists the tools.
    Tools,
    /// Calls a tool.
    Call(String, Value),
    /// Shows a plan.
    Plan(Vec<String>),
    /// Shows a thought.
    Think(String),
    /// Streams this many words, with a pause after each.
    Stream { words: usize, pause: Duration },
    /// Changes the mode.
    Mode(String),
    /// Changes the model, also to one that is not listed.
    Model(String),
    /// Shows a resource of an MCP server.
    Resource { server: String, uri: String },
    /// An invalid command, with the reason.
    Wrong(String),
}

impl SlashCommand {
    /// Whether the command uses MCP servers.
    pub(crate) fn needs_servers(&self) -> bool {
        match self {
            Self::Help | Self::Tools | Self::Resource { .. } => true,
            // Tools of MCP servers are named `server.tool`.
            Self::Call(tool, _) => tool.contains('.') || tool.contains("__"),
            Self::Plan(_)
            | Self::Think(_)
            | Self::Stream { .. }
            | Self::Mode(_)
            | Self::Model(_)
            | Self::Wrong(_) => false,
        }
    }
}

/// Name, input and description of each command.
const COMMANDS: [(&str, &str, &str); 14] = [
    ("help", "", "Shows these commands"),
    ("tools", "", "Shows the tools that I have in this mode"),
    ("read", "PATH [FIRST LINE [LINES]]", "Reads a file"),
    ("list", "[PATH]", "Lists a directory"),
    ("find", "GLOB", "Finds files by name"),
    ("grep", "PATTERN [PATH]", "Finds text in files"),
    ("edit", "PATH \"OLD\" \"NEW\"", "Replaces text in a file"),
    ("run", "COMMAND", "Runs a command"),
    ("call", "TOOL {ARGUMENTS}", "Calls any tool, including those of MCP servers"),
    ("plan", "STEP; STEP; …", "Shows a plan"),
    ("think", "TEXT", "Shows a thought"),
    ("stream", "WORDS [MILLISECONDS]", "Streams this many words, with a pause after each if you like"),
    ("mode", "code | ask | architect", "Changes the mode"),
    ("model", "PROVIDER/MODEL", "Changes the model, also to one that is not in the list"),
];

/// A command for the client: name, description, input.
pub(crate) type CommandDescription = (String, String, Option<String>);

/// All commands for the client, including the prompts of MCP servers.
pub(crate) fn all(servers: &Servers) -> Vec<CommandDescription> {
    let own = COMMANDS.iter().map(|(name, input, description)| {
        ((*name).to_owned(), (*description).to_owned(), (!input.is_empty()).then(|| (*input).to_owned()))
    });
    let prompts = servers.prompts().into_iter().map(|prompt| {
        let arguments: Vec<_> =
            prompt.arguments.iter().map(|argument| format!("{}=…", argument.name)).collect();
        (prompt.shown_name, prompt.description, (!arguments.is_empty()).then(|| arguments.join(" ")))
    });
    let mut commands: Vec<_> = own.chain(prompts).collect();
    if !servers.resources().is_empty() {
        let description = "Shows a resource of an MCP server".to_owned();
        commands.push(("resource".to_owned(), description, Some("SERVER URI".to_owned())));
    }
    commands
}

/// The list of commands as Markdown.
pub(crate) fn help(servers: &Servers) -> String {
    let line = |(name, description, input): (String, String, Option<String>)| {
        let input = input.map(|input| format!(" {input}")).unwrap_or_default();
        format!("- `/{name}{input}`: {description}")
    };
    let mut lines: Vec<_> = all(servers).into_iter().map(line).collect();
    let resources = servers.resources().into_iter().take(50);
    lines.extend(resources.map(|resource| format!("  - `/resource {} {}`", resource.server, resource.uri)));
    lines.join("\n")
}

/// Parses a built-in command; `None` if the text is not one.
pub(crate) fn read(text: &str) -> Option<SlashCommand> {
    let text = text.trim().strip_prefix('/')?;
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    Some(match name {
        "help" => SlashCommand::Help,
        "tools" => SlashCommand::Tools,
        "read" => file(rest),
        "list" => match words(rest).as_slice() {
            [_, _, ..] => too_many("list", "[PATH]"),
            one => SlashCommand::Call("list".to_owned(), with(&[("path", one.first())])),
        },
        "find" => needs(rest, "find", "a glob", |rest| json!({"glob": rest})),
        "grep" => grep(rest),
        "edit" => edit(rest),
        "run" => needs(rest, "run", "a command", |rest| json!({"command": rest})),
        "call" => call(rest),
        "plan" => SlashCommand::Plan(steps(rest)),
        "think" if rest.is_empty() => SlashCommand::Wrong("`/think` needs a text.".to_owned()),
        "think" => SlashCommand::Think(rest.to_owned()),
        "stream" => stream(rest),
        "mode" => SlashCommand::Mode(rest.to_owned()),
        "model" if rest.is_empty() => SlashCommand::Wrong("Write it as `/model PROVIDER/MODEL`.".to_owned()),
        "model" => SlashCommand::Model(rest.to_owned()),
        "resource" => match rest.split_once(char::is_whitespace) {
            Some((server, uri)) => {
                SlashCommand::Resource { server: server.to_owned(), uri: uri.trim().to_owned() }
            }
            None => SlashCommand::Wrong("Usage: `/resource SERVER URI`".to_owned()),
        },
        _ => return None,
    })
}

fn needs(rest: &str, tool: &str, what: &str, arguments: impl Fn(&str) -> Value) -> SlashCommand {
    match rest {
        "" => SlashCommand::Wrong(format!("`/{tool}` needs {what}.")),
        rest => SlashCommand::Call(tool.to_owned(), arguments(rest)),
    }
}

fn with(members: &[(&str, Option<&String>)]) -> Value {
    let mut object = json!({});
    for (name, value) in members {
        if let Some(value) = value {
            object[*name] = json!(value);
        }
    }
    object
}

/// The error for too many words, most likely a path or pattern with spaces.
fn too_many(name: &str, takes: &str) -> SlashCommand {
    SlashCommand::Wrong(format!("Usage: `/{name} {takes}`. Put values that contain spaces in quotes."))
}

fn file(rest: &str) -> SlashCommand {
    let words = words(rest);
    let numbers: Result<Vec<u64>, _> = words.iter().skip(1).map(|word| word.parse()).collect();
    match (words.first(), numbers.as_deref()) {
        (None, _) => SlashCommand::Wrong("`/read` needs a path.".to_owned()),
        (Some(path), Ok([])) => SlashCommand::Call("read".to_owned(), json!({"path": path})),
        (Some(path), Ok([offset])) => {
            SlashCommand::Call("read".to_owned(), json!({"path": path, "offset": offset}))
        }
        (Some(path), Ok([offset, limit])) => {
            SlashCommand::Call("read".to_owned(), json!({"path": path, "offset": offset, "limit": limit}))
        }
        (Some(_), Ok(_) | Err(_)) => too_many("read", "PATH [FIRST LINE [LINES]]"),
    }
}

fn grep(rest: &str) -> SlashCommand {
    let words = words(rest);
    match words.as_slice() {
        [] => SlashCommand::Wrong("`/grep` needs a pattern.".to_owned()),
        [pattern, path @ ..] if path.len() < 2 => SlashCommand::Call(
            "search".to_owned(),
            with(&[("pattern", Some(pattern)), ("path", path.first())]),
        ),
        _ => too_many("grep", "PATTERN [PATH]"),
    }
}

fn edit(rest: &str) -> SlashCommand {
    match words(rest).as_slice() {
        [path, old, new] => {
            SlashCommand::Call("edit".to_owned(), json!({"path": path, "old": old, "new": new}))
        }
        _ => SlashCommand::Wrong("Usage: `/edit PATH \"OLD\" \"NEW\"`".to_owned()),
    }
}

fn call(rest: &str) -> SlashCommand {
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, "{}"));
    match (name, serde_json::from_str::<Value>(arguments.trim())) {
        ("", _) => SlashCommand::Wrong("`/call` needs the name of a tool; `/tools` shows them.".to_owned()),
        (name, Ok(arguments @ Value::Object(_))) => SlashCommand::Call(name.to_owned(), arguments),
        (name, Ok(_)) => SlashCommand::Wrong(format!("The arguments of {name} must be a JSON object.")),
        (name, Err(error)) => {
            SlashCommand::Wrong(format!("The arguments of {name} are not valid JSON: {error}."))
        }
    }
}

fn steps(rest: &str) -> Vec<String> {
    let steps = rest.split([';', '\n']).map(str::trim).filter(|step| !step.is_empty());
    let steps: Vec<_> = steps.map(str::to_owned).collect();
    if steps.is_empty() { vec!["Think".to_owned(), "Do".to_owned(), "Check".to_owned()] } else { steps }
}

fn stream(rest: &str) -> SlashCommand {
    let mut numbers = rest.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(words)), pause @ (None | Some(Ok(_)))) if words <= 1_000_000 => SlashCommand::Stream {
            words: usize::try_from(words).unwrap_or(usize::MAX),
            pause: Duration::from_millis(pause.and_then(Result::ok).unwrap_or(0).min(60_000)),
        },
        _ => SlashCommand::Wrong(
            "Usage: `/stream WORDS [MILLISECONDS]`, with at most 1000000 words".to_owned(),
        ),
    }
}

/// Splits a line into words. A quoted part is one word, in which a backslash escapes the next character.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if quoted => word.get_or_insert_default().extend(characters.next().map(escaped)),
            space if space.is_whitespace() && !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

fn escaped(character: char) -> char {
    match character {
        'n' => '\n',
        't' => '\t',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        let call = |name: &str, arguments| Some(SlashCommand::Call(name.to_owned(), arguments));
        assert_eq!(read("/read a.rs 10 5"), call("read", json!({"path": "a.rs", "offset": 10, "limit": 5})));
        assert_eq!(
            read("/grep \"fn main\" src"),
            call("search", json!({"pattern": "fn main", "path": "src"}))
        );
        assert_eq!(
            read(r#"/edit a.rs "say \"hi\"" "two\nlines""#),
            call("edit", json!({"path": "a.rs", "old": "say \"hi\"", "new": "two\nlines"}))
        );
        assert_eq!(read("/run ls -l | wc"), call("run", json!({"command": "ls -l | wc"})));
        assert_eq!(read("/call s.echo {\"a\": 1}"), call("s.echo", json!({"a": 1})));
        let pause = Duration::from_millis(20);
        assert_eq!(read("/stream 3 20"), Some(SlashCommand::Stream { words: 3, pause }));
        assert_eq!(read("/plan a; b"), Some(SlashCommand::Plan(vec!["a".to_owned(), "b".to_owned()])));
    }

    #[test]
    fn invalid_commands_are_explained() {
        for text in
            ["/read", "/edit a b", "/call", "/call x [1]", "/call x {", "/stream many", "/run", "/think"]
        {
            assert!(matches!(read(text), Some(SlashCommand::Wrong(_))), "{text}");
        }
        for text in ["/read a.rs ten", "/read my file.rs", "/read a 1 2 3", "/list my folder", "/grep a b c"]
        {
            let Some(SlashCommand::Wrong(why)) = read(text) else { panic!("{text} makes sense") };
            assert!(why.contains("in quotes"), "{why}");
        }
        assert_eq!(read("/unknown"), None);
        assert_eq!(read("read /etc/passwd"), None);
    }
}
