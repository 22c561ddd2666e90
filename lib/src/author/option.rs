//! The options of a session: their values and what was chosen. A chosen value that is no longer offered is replaced by
//! the default.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::wire::RpcError;

/// An option that the user can set.
#[derive(Clone, Debug)]
pub struct ConfigOption {
    id: String,
    name: String,
    description: Option<String>,
    category: Option<String>,
    kind: OptionKind,
}

#[derive(Clone, Debug)]
enum OptionKind {
    /// One of these values.
    Select(Vec<OptionValue>),
    /// On or off, with the default.
    Boolean(bool),
}

/// A value of an option.
#[derive(Clone, Debug)]
pub struct OptionValue {
    id: String,
    name: String,
    description: Option<String>,
    group: Option<(String, String)>,
}

/// The chosen values of a session by option id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    values: BTreeMap<String, Value>,
}

impl ConfigOption {
    /// Makes an option with these values; the first is the default. An option without values is not shown.
    #[must_use]
    pub fn select(id: &str, name: &str, values: Vec<OptionValue>) -> Self {
        Self::new(id, name, OptionKind::Select(values))
    }

    /// Makes an option that is on or off.
    #[must_use]
    pub fn boolean(id: &str, name: &str, standard: bool) -> Self {
        Self::new(id, name, OptionKind::Boolean(standard))
    }

    fn new(id: &str, name: &str, kind: OptionKind) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), description: None, category: None, kind }
    }

    /// Adds a description.
    #[must_use]
    pub fn described(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// Sets a category that clients know: `mode`, `model`, `thought_level`.
    #[must_use]
    pub fn in_category(mut self, category: &str) -> Self {
        self.category = Some(category.to_owned());
        self
    }

    fn standard(&self) -> Option<Value> {
        match &self.kind {
            OptionKind::Select(values) => values.first().map(|value| json!(value.id)),
            OptionKind::Boolean(standard) => Some(json!(standard)),
        }
    }

    /// Returns whether this is the option with this id and offers this value.
    pub(super) fn is_of(&self, id: &str, value: &Value) -> bool {
        self.id == id && self.has(value)
    }

    fn has(&self, value: &Value) -> bool {
        match &self.kind {
            OptionKind::Select(values) => values.iter().any(|known| value == known.id.as_str()),
            OptionKind::Boolean(_) => value.is_boolean(),
        }
    }

    /// Encodes the option for version 2; `None` if there is nothing to choose.
    fn written(&self, chosen: &Choices) -> Option<Value> {
        let current = chosen.values.get(&self.id).filter(|value| self.has(value)).cloned();
        let current = current.or_else(|| self.standard())?;
        let mut option = json!({"configId": self.id, "name": self.name});
        for (name, text) in [("description", &self.description), ("category", &self.category)] {
            if let Some(text) = text {
                option[name] = json!(text);
            }
        }
        match &self.kind {
            OptionKind::Boolean(_) => option["type"] = json!("boolean"),
            OptionKind::Select(values) => {
                option["type"] = json!("select");
                option["options"] = written_values(values);
            }
        }
        option["currentValue"] = current;
        Some(option)
    }
}

impl OptionValue {
    /// Makes a value.
    #[must_use]
    pub fn new(id: &str, name: &str) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), description: None, group: None }
    }

    /// Adds a description.
    #[must_use]
    pub fn described(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// Puts the value into a group. Values of one group must be adjacent.
    #[must_use]
    pub fn in_group(mut self, id: &str, name: &str) -> Self {
        self.group = Some((id.to_owned(), name.to_owned()));
        self
    }

    fn written(&self) -> Value {
        let mut value = json!({"value": self.id, "name": self.name});
        if let Some(description) = &self.description {
            value["description"] = json!(description);
        }
        value
    }
}

fn written_values(values: &[OptionValue]) -> Value {
    if values.iter().any(|value| value.group.is_none()) {
        return values.iter().map(OptionValue::written).collect();
    }
    let groups = values.chunk_by(|one, next| one.group == next.group);
    let written = groups.filter_map(|group| {
        let (id, name) = group.first()?.group.as_ref()?;
        let options: Vec<_> = group.iter().map(OptionValue::written).collect();
        Some(json!({"groupId": id, "name": name, "options": options}))
    });
    written.collect()
}

impl Choices {
    /// Decodes an object of values by option id.
    pub(super) fn read(values: &Value) -> Self {
        let values = values.as_object().into_iter().flatten();
        Self { values: values.map(|(id, value)| (id.clone(), value.clone())).collect() }
    }

    /// The chosen value of a select option, if any.
    #[must_use]
    pub fn get(&self, option: &str) -> Option<&str> {
        self.values.get(option).and_then(Value::as_str)
    }

    /// The chosen value of a boolean option, if any.
    #[must_use]
    pub fn is_on(&self, option: &str) -> Option<bool> {
        self.values.get(option).and_then(Value::as_bool)
    }

    /// Completes the chosen values with defaults for these options.
    pub(super) fn complete(&self, options: &[ConfigOption]) -> Self {
        let value = |option: &ConfigOption| {
            let chosen = self.values.get(&option.id).filter(|value| option.has(value)).cloned();
            Some((option.id.clone(), chosen.or_else(|| option.standard())?))
        };
        Self { values: options.iter().filter_map(value).collect() }
    }

    /// Sets a value, if it is offered.
    pub(super) fn choose(
        &mut self,
        options: &[ConfigOption],
        id: &str,
        value: &Value,
    ) -> Result<(), RpcError> {
        let Some(option) = options.iter().find(|option| option.id == id) else {
            return Err(RpcError::field("configId", &json!(id), "an option of the session"));
        };
        if !option.has(value) {
            return Err(RpcError::field("value", value, "a value of the option"));
        }
        self.values.insert(id.to_owned(), value.clone());
        Ok(())
    }
}

/// Encodes the options for version 2.
pub(super) fn written(options: &[ConfigOption], chosen: &Choices) -> Vec<Value> {
    options.iter().filter_map(|option| option.written(chosen)).collect()
}
