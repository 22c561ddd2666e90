//! Decodes the arguments of a tool call. Each error names the argument, what was sent and what was expected.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::ToolError;
use super::excerpt;
use super::spec::ToolSpec;

/// The maximum number of bytes of a value that an error repeats.
const LONGEST_REPEATED: usize = 200;

/// The arguments of one call.
pub(super) struct Arguments<'a> {
    tool: &'static str,
    members: Option<&'a Map<String, Value>>,
}

impl<'a> Arguments<'a> {
    /// Accepts an object that has only arguments of the tool's schema.
    pub(super) fn read(spec: &ToolSpec, sent: &'a Value) -> Result<Self, ToolError> {
        let members = match sent {
            Value::Object(members) => Some(members),
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(wrong(spec.name, "arguments", sent, "an object", None));
            }
        };
        let known = spec.schema["properties"].as_object();
        let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
        if let Some((name, _)) = members.into_iter().flatten().find(|(name, _)| !is_known(name)) {
            let names: Vec<_> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            let argument = excerpt::shortened(name, LONGEST_REPEATED);
            return Err(ToolError::UnknownArgument { tool: spec.name, argument, known: names.join(", ") });
        }
        Ok(Self { tool: spec.name, members })
    }

    /// A required string.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, ToolError> {
        self.optional_text(name)?.ok_or_else(|| self.missing(name, "a string"))
    }

    /// A required string that is not empty.
    pub(super) fn some_text(&self, name: &str) -> Result<&'a str, ToolError> {
        let text = self.text(name)?;
        if text.is_empty() { Err(self.wrong(name, "a string that is not empty", None)) } else { Ok(text) }
    }

    /// An optional string.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, ToolError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a string", None)),
        }
    }

    /// An optional integer within these bounds. Accepts a string too, since some models send one.
    pub(super) fn number(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match whole_number(value).filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let expected = format!("a whole number from {} to {}", bounds.start(), bounds.end());
                Err(self.wrong(name, &expected, None))
            }
        }
    }

    /// A boolean, false if missing. Accepts a string too, since some models send one.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ToolError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(self.wrong(name, "true or false", None)),
        }
    }

    /// The error about an invalid argument.
    pub(super) fn wrong(&self, name: &str, expected: &str, hint: Option<String>) -> ToolError {
        wrong(self.tool, name, self.get(name).unwrap_or(&Value::Null), expected, hint)
    }

    fn missing(&self, name: &str, expected: &str) -> ToolError {
        ToolError::Argument {
            tool: self.tool,
            argument: name.to_owned(),
            got: "missing".to_owned(),
            expected: expected.to_owned(),
            hint: None,
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.members?.get(name).filter(|value| !value.is_null())
    }
}

fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_u64().or_else(|| {
            let number = number.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0)?;
            // Saturates, so a number above all bounds stays above.
            Some(number as u64)
        }),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn wrong(tool: &'static str, name: &str, got: &Value, expected: &str, hint: Option<String>) -> ToolError {
    let got = excerpt::shortened(&got.to_string(), LONGEST_REPEATED);
    ToolError::Argument { tool, argument: name.to_owned(), got, expected: expected.to_owned(), hint }
}
