//! A form that an agent asks the user to fill in: one question for each field, on the terminal.

use inquire::validator::{StringValidator, Validation};
use inquire::{Confirm, InquireError, MultiSelect, Select, Text};
use serde_json::{Map, Number, Value, json};

use crate::output::escape::visible;

/// The answer to a form.
pub(crate) enum FormAnswer {
    /// The user filled it in.
    Filled(Value),
    /// The user left it.
    Left,
    /// The user pressed Ctrl-C.
    Interrupted,
}

/// Asks for all fields of a form. Blocks.
pub(crate) fn fill_in(body: &Value) -> FormAnswer {
    let schema = &body["requestedSchema"];
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut content = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let field = FormField { name, schema: field, required: required.contains(&name.as_str()) };
        match field.ask() {
            Ok(Some(value)) => drop(content.insert(name.clone(), value)),
            Ok(None) => {}
            Err(InquireError::OperationInterrupted) => return FormAnswer::Interrupted,
            Err(_) => return FormAnswer::Left,
        }
    }
    FormAnswer::Filled(json!({"action": "accept", "content": content}))
}

struct FormField<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

impl FormField<'_> {
    fn ask(&self) -> Result<Option<Value>, InquireError> {
        let label = self.label();
        let help = self.schema["description"].as_str().map(|text| visible(text).into_owned());
        match self.schema["type"].as_str() {
            Some("boolean") => {
                let default = self.schema["default"].as_bool().unwrap_or(false);
                let mut question = Confirm::new(&label).with_default(default);
                question.help_message = help.as_deref();
                question.prompt().map(|answer| Some(json!(answer)))
            }
            Some("array") => {
                let choices = choices(&self.schema["items"]);
                let names = choices.iter().map(|(_, name)| name.clone()).collect();
                let chosen = MultiSelect::new(&label, names).raw_prompt()?;
                Ok(Some(chosen.iter().map(|option| choices[option.index].0.clone()).collect()))
            }
            _ => match choices(self.schema) {
                choices if choices.is_empty() => self.ask_text(&label, help.as_deref()),
                choices => {
                    let names = choices.iter().map(|(_, name)| name.clone()).collect();
                    let chosen = Select::new(&label, names).raw_prompt()?;
                    Ok(Some(choices[chosen.index].0.clone()))
                }
            },
        }
    }

    fn ask_text(&self, label: &str, help: Option<&str>) -> Result<Option<Value>, InquireError> {
        let default = match &self.schema["default"] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
        };
        let default = visible(&default).into_owned();
        let mut question = Text::new(label).with_initial_value(&default).with_validators(&[self.validator()]);
        question.help_message = help;
        let text = question.prompt()?;
        if text.is_empty() && !self.required {
            return Ok(None);
        }
        Ok(Some(match number(self.schema, &text) {
            Some(number) => Value::Number(number),
            None => Value::String(text),
        }))
    }

    /// Accepts what the field does: its type, and something if it is required.
    fn validator(&self) -> Box<dyn StringValidator> {
        let (schema, required) = (self.schema.clone(), self.required);
        Box::new(move |text: &str| {
            let is_number = matches!(schema["type"].as_str(), Some("number" | "integer"));
            Ok(match text {
                "" if required => Validation::Invalid("this is required".into()),
                "" => Validation::Valid,
                text if is_number && number(&schema, text).is_none() => {
                    Validation::Invalid("this must be a number".into())
                }
                _ => Validation::Valid,
            })
        })
    }

    fn label(&self) -> String {
        let title = self.schema["title"].as_str().unwrap_or(self.name);
        let optional = if self.required { "" } else { " (optional)" };
        format!("{}{optional}", visible(title))
    }
}

/// The number that a text is, if the field is one for numbers.
fn number(schema: &Value, text: &str) -> Option<Number> {
    match schema["type"].as_str()? {
        "integer" => text.trim().parse::<i64>().ok().map(Number::from),
        "number" => text.trim().parse::<f64>().ok().and_then(Number::from_f64),
        _ => None,
    }
}

/// The values that a field can have, with their names.
fn choices(schema: &Value) -> Vec<(Value, String)> {
    let name_of = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let named = ["oneOf", "anyOf"].into_iter().find_map(|key| schema[key].as_array());
    let choices: Vec<(Value, String)> = match named {
        Some(list) => list
            .iter()
            .map(|choice| {
                let title = choice["title"].as_str().map(str::to_owned);
                (choice["const"].clone(), title.unwrap_or_else(|| name_of(&choice["const"])))
            })
            .collect(),
        None => {
            let names = schema["enumNames"].as_array();
            let list = schema["enum"].as_array().into_iter().flatten().enumerate();
            let name = |at: usize, value: &Value| {
                names.and_then(|names| names.get(at)?.as_str()).map_or_else(|| name_of(value), str::to_owned)
            };
            list.map(|(at, value)| (value.clone(), name(at, value))).collect()
        }
    };
    choices.into_iter().map(|(value, name)| (value, visible(&name).into_owned())).collect()
}
