//! A permission question on the terminal: everything that is to be allowed, and the keys that answer it.

use rethread::client::AskedQuestion;
use rethread::client::view::{PermissionChoice, SessionView};
use rethread_core::{Json, Subject, TextPart};
use serde_json::Value;

use super::diff::diff_lines;
use super::notes::indented;
use super::permission::{choices, title_of};
use crate::markdown::CodePainter;
use crate::markdown::style::{TextColor, TextStyle, painted};
use crate::output::escape::{visible, visible_lines};
use crate::output::target::Color;

/// A question that waits for a key.
pub(crate) struct OpenPermission {
    /// The question.
    pub(crate) question: AskedQuestion,
    /// The keys and their answers.
    pub(crate) keys: Vec<(char, PermissionChoice)>,
}

impl OpenPermission {
    /// Reads a question.
    pub(crate) fn new(question: AskedQuestion) -> Self {
        let keys = keys(choices(&question));
        Self { question, keys }
    }

    /// The answer for a key. Escape rejects.
    pub(crate) fn answer(&self, key: char) -> Option<&PermissionChoice> {
        let rejects = |choice: &&(char, PermissionChoice)| choice.1.kind == "reject_once";
        let found = match key {
            '\u{1b}' => self.keys.iter().find(rejects),
            _ => self.keys.iter().find(|(known, _)| *known == key),
        };
        found.map(|(_, choice)| choice)
    }

    /// The answers that it offers.
    pub(crate) fn choices(&self) -> Vec<PermissionChoice> {
        self.keys.iter().map(|(_, choice)| choice.clone()).collect()
    }

    /// What the status line says while it waits.
    pub(crate) fn status(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(|(key, _)| key.to_string()).collect();
        format!("press {} · Ctrl-C cancels the turn", keys.join(", "))
    }

    /// The id of the tool call that it is about.
    pub(crate) fn call(&self) -> Option<String> {
        let body = self.question.body.value();
        call_of(&body)["toolCallId"].as_str().map(str::to_owned)
    }

    /// The question with everything that is to be allowed.
    pub(crate) fn lines(&self, view: &SessionView, columns: usize, color: Color) -> String {
        let body = self.question.body.value();
        let heading = TextStyle { bold: true, ..TextStyle::colored(TextColor::Yellow) };
        let mut text = format!("{}\n", heading.paint(color, &format!("? {}", visible(&title_of(&body)))));
        text += &subject_lines(&body, view, columns, color);
        text.push('\n');
        for (key, choice) in &self.keys {
            let key = TextStyle { bold: true, ..TextStyle::colored(TextColor::Cyan) }
                .paint(color, &key.to_string());
            text += &format!("  {key}  {}\n", visible(&choice.name));
        }
        text
    }
}

/// A key for each answer: by its kind, or a number.
fn keys(choices: Vec<PermissionChoice>) -> Vec<(char, PermissionChoice)> {
    let mut numbers = '1'..='9';
    let mut taken: Vec<(char, PermissionChoice)> = Vec::new();
    for choice in choices {
        let usual = match choice.kind.as_str() {
            "allow_once" => Some('y'),
            "allow_always" => Some('a'),
            "reject_once" => Some('n'),
            "reject_always" => Some('d'),
            _ => None,
        };
        let free = usual.filter(|key| taken.iter().all(|(known, _)| known != key));
        if let Some(key) = free.or_else(|| numbers.next()) {
            taken.push((key, choice));
        }
    }
    taken
}

fn call_of(body: &Value) -> &Value {
    let subject = &body["subject"]["toolCall"];
    if subject.is_null() { &body["toolCall"] } else { subject }
}

/// What is to be allowed: the content of the call, or its description and arguments.
fn subject_lines(body: &Value, view: &SessionView, columns: usize, color: Color) -> String {
    let call = call_of(body);
    let known = view.item(Subject::ToolCall, call["toolCallId"].as_str().unwrap_or_default());
    let mut parts: Vec<TextPart> =
        list(&call["content"]).filter_map(|part| TextPart::read(&Json::from(part.clone()))).collect();
    if parts.is_empty() {
        parts = known.map(|item| item.parts()).unwrap_or_default();
    }
    let description = body["description"].as_str().unwrap_or_default();
    let input = [&call["rawInput"]].into_iter().find(|input| !input.is_null());
    let input = input.or_else(|| known.and_then(|item| item.members.get("rawInput")));
    let shown: String = parts.iter().map(|part| part_lines(part, columns, color)).collect();
    let facts = indented(&without_repetition(description, &parts), columns, TextStyle::DIM, color);
    let said = parts.iter().map(TextPart::text).chain([title_of(body).into()]).collect::<Vec<_>>().join("\n");
    let input = input.map_or_else(String::new, |input| match command_of(input) {
        Some(command) if said.contains(&command) => String::new(),
        Some(command) => code_lines(&format!("$ {command}"), color),
        None if shown.is_empty() => {
            code_lines(&serde_json::to_string_pretty(input).unwrap_or_default(), color)
        }
        None => String::new(),
    });
    format!("{facts}{shown}{input}")
}

fn part_lines(part: &TextPart, columns: usize, color: Color) -> String {
    match part {
        TextPart::Diff { changes, patch } => {
            let names =
                changes.iter().map(|(operation, path)| visible(&format!("{operation} {path}")).into_owned());
            set_in(names.chain(diff_lines(patch, color)))
        }
        TextPart::Text(text) => text_lines(text, columns, color),
        TextPart::Terminal(_) => String::new(),
        TextPart::Link(_) | TextPart::Resource { .. } | TextPart::Opaque(_) => {
            set_in(visible_lines(&part.text()).lines().map(str::to_owned))
        }
    }
}

/// A description without its later paragraphs, if the content has them.
fn without_repetition(description: &str, parts: &[TextPart]) -> String {
    let (facts, rest) = description.split_once("\n\n").unwrap_or((description, ""));
    let contains = |part: &TextPart| match part {
        TextPart::Diff { .. } => true,
        TextPart::Text(_)
        | TextPart::Link(_)
        | TextPart::Resource { .. }
        | TextPart::Terminal(_)
        | TextPart::Opaque(_) => part.text().contains(rest.trim()),
    };
    if parts.iter().any(contains) { facts.to_owned() } else { description.to_owned() }
}

/// A text as it is: Markdown could hide a part of it. Only the fence around code is left out.
fn text_lines(text: &str, columns: usize, color: Color) -> String {
    match fenced(text) {
        Some((language, code)) => {
            let mut painter = CodePainter::new(language, color);
            let line = |line: &str| {
                let line = visible(&line.replace('\t', "    ")).into_owned();
                format!("  {}", painted(&painter.line(&line), color))
            };
            set_in(code.lines().map(line))
        }
        None => indented(text.trim_end(), columns, TextStyle::PLAIN, color),
    }
}

/// The language and the lines of a text that is nothing but fenced code.
fn fenced(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_matches('\n');
    let length = text.len() - text.trim_start_matches('`').len();
    let fence = &text[..length];
    let (language, rest) = text[length..].split_once('\n')?;
    let code = rest.strip_suffix(fence)?;
    let is_word =
        language.len() < 20 && language.chars().all(|c| c.is_ascii_alphanumeric() || "+-#_".contains(c));
    let is_one = (code.is_empty() || code.ends_with('\n')) && !code.contains(fence);
    (length >= 3 && is_word && is_one).then_some((language, code))
}

/// The command line among the arguments of a call.
fn command_of(input: &Value) -> Option<String> {
    match &input["command"] {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            words.iter().map(Value::as_str).collect::<Option<Vec<_>>>().map(|words| words.join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn code_lines(text: &str, color: Color) -> String {
    let paint = |line: &str| TextStyle::colored(TextColor::Cyan).paint(color, line);
    set_in(visible_lines(text).lines().map(paint))
}

fn set_in(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_of_a_text_is_hidden() {
        let hiding = "Do it\n\n[ref]: rm -rf /\n\n```a b c\nls\n```";
        let shown = text_lines(hiding, 60, Color::Off);
        assert!(shown.contains("[ref]: rm -rf /") && shown.contains("```a b c"), "{shown}");
        assert_eq!(text_lines("```sh\nls\t-l\u{1b}\n```", 60, Color::Off), "    ls    -l\\u{1b}\n");
        let two = "```sh\nls\n```\nrm\n```sh\nls\n```";
        assert!(text_lines(two, 60, Color::Off).contains("rm"));
    }

    #[test]
    fn the_command_is_shown_if_nothing_else_has_it() {
        let body = |title: &str| {
            json!({"title": title, "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c",
                "content": [{"type": "content", "content": {"type": "text", "text": "Lists files"}}],
                "rawInput": {"command": ["ls", "-l"], "timeout": 5}}}})
        };
        let shown = |title: &str| subject_lines(&body(title), &SessionView::default(), 60, Color::Off);
        assert_eq!(shown("Run?"), "  Lists files\n  $ ls -l\n");
        assert_eq!(shown("Run ls -l?"), "  Lists files\n");
    }

    #[test]
    fn a_description_is_not_repeated() {
        let part = TextPart::Text("```sh\nls -l\n```".to_owned());
        assert_eq!(without_repetition("Runs it.\n\nls -l", std::slice::from_ref(&part)), "Runs it.");
        assert_eq!(without_repetition("Runs it.\n\nand more", &[part]), "Runs it.\n\nand more");
    }

    #[test]
    fn answers_have_keys() {
        let choice =
            |id: &str, kind: &str| PermissionChoice { id: id.into(), name: id.into(), kind: kind.into() };
        let choices = vec![
            choice("a", "allow_once"),
            choice("b", "allow_once"),
            choice("c", "odd"),
            choice("d", "reject_always"),
        ];
        let keys: String = keys(choices).iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, "y12d");
    }
}
