//! What a user may choose in a session: its options, their values, and what was chosen. A choice that is no longer
//! on offer gives way to the standard.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::wire::RpcError;

/// Something that the user may choose.
#[derive(Clone, Debug)]
pub struct ConfigOption {
    id: String,
    name: String,
    description: Option<String>,
    category: Option<String>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One of these.
    Select(Vec<OptionValue>),
    /// Yes or no; the standard.
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

/// What was chosen in a session, by the ids of options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    values: BTreeMap<String, Value>,
}

impl ConfigOption {
    /// One of these values; the first is the standard. An option without values is not shown.
    #[must_use]
    pub fn select(id: &str, name: &str, values: Vec<OptionValue>) -> Self {
        Self::new(id, name, Kind::Select(values))
    }

    /// Yes or no.
    #[must_use]
    pub fn boolean(id: &str, name: &str, standard: bool) -> Self {
        Self::new(id, name, Kind::Boolean(standard))
    }

    fn new(id: &str, name: &str, kind: Kind) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), description: None, category: None, kind }
    }

    /// The same option with a word of explanation.
    #[must_use]
    pub fn described(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// The same option in a category that clients know: `mode`, `model`, `thought_level`.
    #[must_use]
    pub fn in_category(mut self, category: &str) -> Self {
        self.category = Some(category.to_owned());
        self
    }

    fn standard(&self) -> Option<Value> {
        match &self.kind {
            Kind::Select(values) => values.first().map(|value| json!(value.id)),
            Kind::Boolean(standard) => Some(json!(standard)),
        }
    }

    /// Says whether it is the option of this id and has this value.
    pub(super) fn is_of(&self, id: &str, value: &Value) -> bool {
        self.id == id && self.has(value)
    }

    fn has(&self, value: &Value) -> bool {
        match &self.kind {
            Kind::Select(values) => values.iter().any(|known| value == known.id.as_str()),
            Kind::Boolean(_) => value.is_boolean(),
        }
    }

    /// The option as version 2 writes it; nothing if there is nothing to choose.
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
            Kind::Boolean(_) => option["type"] = json!("boolean"),
            Kind::Select(values) => {
                option["type"] = json!("select");
                option["options"] = written_values(values);
            }
        }
        option["currentValue"] = current;
        Some(option)
    }
}

impl OptionValue {
    /// A value.
    #[must_use]
    pub fn new(id: &str, name: &str) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), description: None, group: None }
    }

    /// The same value with a word of explanation.
    #[must_use]
    pub fn described(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// The same value in a group of this id and name. Values of one group stand together.
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
    /// Reads an object of values by the ids of options.
    pub(super) fn read(values: &Value) -> Self {
        let values = values.as_object().into_iter().flatten();
        Self { values: values.map(|(id, value)| (id.clone(), value.clone())).collect() }
    }

    /// What was chosen of a selection, if it was.
    #[must_use]
    pub fn get(&self, option: &str) -> Option<&str> {
        self.values.get(option).and_then(Value::as_str)
    }

    /// What was chosen of a yes-or-no option, if it was.
    #[must_use]
    pub fn is_on(&self, option: &str) -> Option<bool> {
        self.values.get(option).and_then(Value::as_bool)
    }

    /// What holds of these options: what was chosen, else the standard.
    pub(super) fn complete(&self, options: &[ConfigOption]) -> Self {
        let value = |option: &ConfigOption| {
            let chosen = self.values.get(&option.id).filter(|value| option.has(value)).cloned();
            Some((option.id.clone(), chosen.or_else(|| option.standard())?))
        };
        Self { values: options.iter().filter_map(value).collect() }
    }

    /// Chooses, if that is on offer.
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

/// The options as version 2 writes them.
pub(super) fn written(options: &[ConfigOption], chosen: &Choices) -> Vec<Value> {
    options.iter().filter_map(|option| option.written(chosen)).collect()
}
