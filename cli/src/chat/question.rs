//! A permission question on the terminal: everything that is to be allowed, and the keys that answer it.

use rethread::client::AskedQuestion;
use rethread::client::view::{PermissionChoice, SessionView};
use rethread_core::{Json, Subject, TextPart};
use serde_json::Value;

use super::diff::diff_lines;
use super::notes::indented;
use super::permission::{choices, title};
use crate::markdown::MarkdownStream;
use crate::markdown::style::{TextColor, TextStyle};
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
        let mut text =
            format!("{}\n", heading.paint(color, &format!("? {}", visible(&title(&self.question)))));
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
    let facts =
        if shown.is_empty() { description } else { description.split("\n\n").next().unwrap_or_default() };
    let facts = indented(facts, columns, TextStyle::DIM, color);
    let input =
        input.filter(|_| shown.is_empty()).map_or_else(String::new, |input| input_lines(input, color));
    format!("{facts}{shown}{input}")
}

fn part_lines(part: &TextPart, columns: usize, color: Color) -> String {
    match part {
        TextPart::Diff { changes, patch } => {
            let names =
                changes.iter().map(|(operation, path)| visible(&format!("{operation} {path}")).into_owned());
            set_in(names.chain(diff_lines(patch, color)))
        }
        TextPart::Text(text) => {
            let mut stream = MarkdownStream::new(columns.saturating_sub(2), color, TextStyle::PLAIN);
            let lines = stream.push(text) + &stream.finish();
            set_in(lines.lines().map(str::to_owned))
        }
        TextPart::Terminal(_) => String::new(),
        TextPart::Link(_) | TextPart::Resource { .. } | TextPart::Opaque(_) => {
            set_in(visible_lines(&part.text()).lines().map(str::to_owned))
        }
    }
}

/// The arguments of a call: its command line, or all of them.
fn input_lines(input: &Value, color: Color) -> String {
    let words = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            words.iter().map(Value::as_str).collect::<Option<Vec<_>>>().map(|words| words.join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    };
    let text = match words(&input["command"]).filter(|_| input.as_object().is_some_and(|all| all.len() == 1))
    {
        Some(command) => format!("$ {command}"),
        None => serde_json::to_string_pretty(input).unwrap_or_default(),
    };
    let paint = |line: &str| TextStyle::colored(TextColor::Cyan).paint(color, line);
    set_in(visible_lines(&text).lines().map(paint))
}

fn set_in(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
