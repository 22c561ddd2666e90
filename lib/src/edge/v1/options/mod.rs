//! The options of a session as one canonical list. Version 1 has the same state in three forms: modes, models and
//! config options. Whether a value is valid is decided in the core.

mod from_v1;
mod to_v1;
mod value;

use crate::edge::Version;
use rethread_core::{Fields, Json};

pub use from_v1::list_from_v1;
pub use to_v1::{BooleanOptions, V1Options, current_mode};
pub use value::{value_from_v1, value_to_v1};

/// All options of a session in canonical form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(Vec<Fields>);

/// The method that sets an option at a v1 agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `session/set_config_option`.
    Config,
    /// `session/set_mode`.
    Mode,
    /// `session/set_model`.
    Model,
}

/// The method for each option that is not a config option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(Vec<(String, Source)>);

impl Sources {
    /// Returns the method that sets an option.
    #[must_use]
    pub fn of(&self, config_id: &str) -> Source {
        self.0.iter().find(|(id, _)| id == config_id).map_or(Source::Config, |(_, source)| *source)
    }

    /// Records the method that sets an option.
    pub fn add(&mut self, config_id: String, source: Source) {
        self.0.push((config_id, source));
    }

    /// Returns the option that is set by this method, if it is not a config option.
    #[must_use]
    pub fn option(&self, source: Source) -> Option<&str> {
        self.0.iter().find(|(_, known)| *known == source).map(|(id, _)| id.as_str())
    }
}

impl Options {
    /// Reads a canonical list.
    #[must_use]
    pub fn from_v2(list: &Json) -> Self {
        Self(list.items().unwrap_or_default().iter().map(Json::fields).collect())
    }

    /// Merges the three v1 forms into one list.
    #[must_use]
    pub fn from_v1(
        modes: Option<&Json>,
        models: Option<&Json>,
        config_options: Option<&Json>,
    ) -> (Self, Sources) {
        from_v1::merge(modes, models, config_options)
    }

    /// Replaces the config options; modes and models stay.
    #[must_use]
    pub fn with_config(&self, sources: &Sources, config_options: &Json) -> Self {
        let mut list = from_v1::list_from_v1(config_options);
        for option in self.0.iter().filter(|option| sources.of(&id_of(option)) != Source::Config) {
            let category = option.text("category").unwrap_or_default();
            let named = list.iter().any(|other| id_of(other) == id_of(option));
            // The agent may now offer the same choice as a config option.
            if !named && select_of(&list, &category).is_none() {
                list.push(option.clone());
            }
        }
        Self(list)
    }

    /// Writes the canonical list.
    #[must_use]
    pub fn to_v2(&self) -> Json {
        Json::of(&self.0)
    }

    /// Encodes the answer to a change of an option: all options, because one may change others.
    #[must_use]
    pub fn config_answer(&self, version: Version, booleans: BooleanOptions) -> Json {
        let mut answer = Fields::new();
        match version {
            Version::V2 => answer.set("configOptions", self.to_v2()),
            Version::V1 => self.to_v1(booleans).write_config(&mut answer),
        }
        answer.json()
    }

    /// Writes the three v1 forms.
    #[must_use]
    pub fn to_v1(&self, booleans: BooleanOptions) -> V1Options {
        to_v1::views(&self.0, booleans)
    }

    /// Returns the list with a new current value for one option.
    #[must_use]
    pub fn with_value(&self, config_id: &str, value: &Json) -> Self {
        let mut list = self.0.clone();
        for option in list.iter_mut().filter(|option| id_of(option) == config_id) {
            option.set("currentValue", value.clone());
        }
        Self(list)
    }

    /// Returns the current value of an option.
    #[must_use]
    pub fn current(&self, config_id: &str) -> Option<&Json> {
        self.0.iter().find(|option| id_of(option) == config_id)?.get("currentValue")
    }

    /// Returns the id of the first `select` option of a category.
    #[must_use]
    pub fn by_category(&self, category: &str) -> Option<String> {
        select_of(&self.0, category).map(id_of)
    }

    /// Iterates over the options in order.
    pub fn iter(&self) -> impl Iterator<Item = &Fields> {
        self.0.iter()
    }

    /// Returns whether there are no options.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn id_of(option: &Fields) -> String {
    option.text("configId").unwrap_or_default()
}

fn select_of<'a>(list: &'a [Fields], category: &str) -> Option<&'a Fields> {
    let is = |option: &Fields, name: &str, value: &str| option.text(name).as_deref() == Some(value);
    list.iter().find(|option| is(option, "category", category) && is(option, "type", "select"))
}

#[cfg(test)]
mod tests;
